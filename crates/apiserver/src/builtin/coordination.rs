//! Leases.

use super::tree::{get, has, int, remove};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::Value;

pub(super) static LEASE: Strategy = Strategy {
    unconditional_update: false,
    create_on_update: true,
    // coordinated leader election is off, as upstream by default
    prepare_create: |lease| {
        for field in ["spec.strategy", "spec.preferredHolder"] {
            remove(lease, field);
        }
    },
    prepare_update: |lease, stored| {
        for field in ["spec.strategy", "spec.preferredHolder"] {
            if !has(stored, field) {
                remove(lease, field);
            }
        }
    },
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
    out
}
