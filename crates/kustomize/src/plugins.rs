//! `generators`, `transformers`, `validators`: builtins with a configuration of their own.

use crate::error::{BuildError, Fault};
use crate::kustomization::Kustomization;
use crate::loader::at;
use crate::pipeline::{Accumulated, Build};

/// Runs the entries of `generators`.
pub(crate) fn generate(
    _build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    _so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    refuse(kustomization, "generators", &kustomization.fields.generators)
}

/// Runs the entries of `transformers`.
pub(crate) fn transform(
    _build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    _so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    refuse(kustomization, "transformers", &kustomization.fields.transformers)
}

/// Runs the entries of `validators`.
pub(crate) fn validate(
    _build: &mut Build<'_, '_>,
    kustomization: &Kustomization,
    _so_far: &mut Accumulated,
) -> Result<(), BuildError> {
    refuse(kustomization, "validators", &kustomization.fields.validators)
}

fn refuse(kustomization: &Kustomization, field: &str, entries: &[String]) -> Result<(), BuildError> {
    if entries.is_empty() {
        return Ok(());
    }
    Err(at(kustomization.place(&[field]))(Fault::Unsupported {
        field: field.to_owned(),
    }))
}
