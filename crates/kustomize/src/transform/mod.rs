//! The builtin transformers, in the order a kustomization runs them.

pub(crate) mod affix;
pub(crate) mod images;
pub(crate) mod labels;
pub(crate) mod namespace;
pub(crate) mod replacements;
pub(crate) mod replicas;
