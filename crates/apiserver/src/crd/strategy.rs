//! The strategies of custom resources: with and without a status subresource.

use crate::registry::{Generation, Strategy};
use serde_json::Value;

pub(crate) fn strategy(has_status: bool) -> &'static Strategy {
    if has_status { &WITH_STATUS } else { &WITHOUT_STATUS }
}

static WITHOUT_STATUS: Strategy = WITHOUT_STATUS_BASE;

const WITHOUT_STATUS_BASE: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::AllButMetadata,
    warnings,
    ..Strategy::GENERIC
};

static WITH_STATUS: Strategy = Strategy {
    has_status: true,
    // The status endpoint keeps everything but the status itself.
    status_keeps: &[&["metadata"], &["spec"]],
    reset_fields: &[&["status"]],
    status_reset_fields: &[&["metadata"], &["spec"]],
    ..WITHOUT_STATUS_BASE
};

pub(crate) static DEFINITION: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::Spec,
    has_status: true,
    status_keeps: &[&["spec"]],
    reset_fields: &[&["status"]],
    status_reset_fields: &[&["spec"]],
    default: super::default_crd,
    prepare_create: super::prepare_create,
    prepare_update: super::prepare_update,
    validate_create: super::validate_crd,
    validate_update: super::validate_crd_update,
    warnings: |crd| {
        let mut out = super::format_warnings(crd, None);
        out.extend(crate::conversion::skipped(crd));
        out
    },
    ..Strategy::GENERIC
};

/// Finalizers whose names may collide.
fn warnings(object: &Value) -> Vec<String> {
    let mut finalizers: Vec<&str> = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    finalizers.sort_unstable();
    finalizers
        .into_iter()
        .filter(|f| !f.contains('/') && !matches!(*f, "orphan" | "foregroundDeletion" | "kubernetes"))
        .map(|f| {
            let hint = if f.contains('.') {
                " including a path (/)"
            } else {
                ""
            };
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name{hint} to avoid accidental \
                 conflicts with other finalizer writers",
                crate::field::go_quote(f)
            )
        })
        .collect()
}
