//! PodDisruptionBudget.

use super::SPEC_AND_STATUS;
use super::container_checks::{at_most_all, int_or_percent};
use super::selector;
use super::tree::{get, has, set};
use crate::field::{FieldError, FieldErrorKind, go_struct};
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};

pub(super) static POD_DISRUPTION_BUDGET: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::Spec,
    prepare_create: |budget| {
        set(
            budget,
            "status",
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
        );
    },
    validate,
    ..SPEC_AND_STATUS
};

fn validate(budget: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(budget, "spec");
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let fields = [
            ("MinAvailable", "minAvailable"),
            ("Selector", "selector"),
            ("MaxUnavailable", "maxUnavailable"),
            ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy"),
        ];
        out.push(FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec",
            Some(go_struct(spec, &fields)),
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let (value, path) = (get(spec, field), format!("spec.{field}"));
        out.extend(int_or_percent(value, &path));
        out.extend(at_most_all(value, &path));
    }
    out.extend(selector::validate(get(spec, "selector"), "spec.selector"));
    let policy = get(spec, "unhealthyPodEvictionPolicy");
    if policy
        .as_str()
        .is_some_and(|p| !matches!(p, "AlwaysAllow" | "IfHealthyBudget"))
    {
        out.push(FieldError::not_supported(
            "spec.unhealthyPodEvictionPolicy",
            policy,
            &["AlwaysAllow", "IfHealthyBudget"],
        ));
    }
    out
}
