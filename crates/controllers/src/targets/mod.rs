//! Where a Kustomization applies, and as whom: this cluster, or the one of its `kubeConfig`.

pub(crate) mod kubeconfig;
pub(crate) mod remote;
pub(crate) mod target;
pub(crate) mod workload_identity;
