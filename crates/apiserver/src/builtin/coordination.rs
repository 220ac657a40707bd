//! Leases.

use super::tree::{get, int, text};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::Value;

pub(super) static LEASE: Strategy = Strategy {
    unconditional_update: false,
    create_on_update: true,
    validate,
    ..Strategy::GENERIC
};

fn validate(lease: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(lease, "spec");
    if let Some(n) = int(spec, "leaseDurationSeconds").filter(|n| *n <= 0) {
        out.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            &n.into(),
            "must be greater than 0",
        ));
    }
    if let Some(n) = int(spec, "leaseTransitions").filter(|n| *n < 0) {
        out.push(FieldError::invalid(
            "spec.leaseTransitions",
            &n.into(),
            "must be greater than or equal to 0",
        ));
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        out.push(FieldError::forbidden(
            "spec.preferredHolder",
            "may only be specified if `strategy` is defined",
        ));
    }
    out
}
