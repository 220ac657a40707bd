//! Custom resources: definitions, and validation of objects against them.
//!
//! Pure functions over JSON. [`definition`] validates a CustomResourceDefinition, [`establish`] computes
//! its status, and a [`CustomVersion`] is one compiled version: it prunes, defaults and validates objects.
//! [`rules`] runs CEL. Webhooks convert in [`crate::conversion`].

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";

mod correlate;
mod definition;
mod embedded;
mod establish;
mod formats;
mod go;
mod lists;
mod names;
mod node;
mod prune;
mod rules;
mod scale;
mod schema_rules;
mod selectable;
mod strategy;
mod values;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use definition::{
    default_crd, format_warnings, prepare_create, prepare_update, validate_crd, validate_crd_update,
};
pub(crate) use establish::{ClaimedNames, condition_is_true, deletion_pending, establish, terminating};
pub(crate) use rules::NAMED_FORMATS;
pub(crate) use scale::ScalePaths;
pub(crate) use scale::{from_scale, missing_text, to_scale, validate_scale};
pub(crate) use strategy::{DEFINITION, strategy};
pub(crate) use version::{CustomVersion, PrinterColumn};
