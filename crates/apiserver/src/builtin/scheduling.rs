//! PriorityClass, RuntimeClass, and the flow control kinds.

use super::SPEC_AND_STATUS;
use super::meta::immutable;
use super::names;
use super::tree::{default, get, int, set, text, with};
use crate::field::FieldError;
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};

/// Higher priorities are reserved for the system.
pub(super) const USER_PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) static PRIORITY_CLASS: Strategy = Strategy {
    generation: Generation::AllButMetadata,
    default: |class| default(class, "preemptionPolicy", "PreemptLowerPriority"),
    validate: validate_priority_class,
    validate_update: |new, stored| {
        let mut out = Vec::new();
        if get(new, "value") != get(stored, "value") {
            out.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        out.extend(immutable(new, stored, "preemptionPolicy"));
        out
    },
    ..Strategy::GENERIC
};

pub(super) static RUNTIME_CLASS: Strategy = Strategy {
    unconditional_update: false,
    create_on_update: true,
    validate: |class| {
        let handler = text(class, "handler");
        if handler.is_empty() {
            return vec![FieldError::required("handler", "")];
        }
        names::dns_label(handler)
            .into_iter()
            .map(|message| FieldError::invalid("handler", &handler.into(), message))
            .collect()
    },
    validate_update: |new, stored| immutable(new, stored, "handler").into_iter().collect(),
    ..Strategy::GENERIC
};

pub(super) static FLOW_SCHEMA: Strategy = Strategy {
    generation: Generation::Spec,
    status_keeps: &[&["spec"], &["metadata"]],
    status_reset_fields: &[&["metadata"], &["spec"]],
    default: |schema| {
        if int(schema, "spec.matchingPrecedence").unwrap_or(0) == 0 {
            set(schema, "spec.matchingPrecedence", 1000);
        }
    },
    prepare_create: |schema| set(schema, "status", json!({})),
    ..SPEC_AND_STATUS
};

pub(super) static PRIORITY_LEVEL: Strategy = Strategy {
    generation: Generation::Spec,
    status_keeps: &[&["spec"], &["metadata"]],
    status_reset_fields: &[&["metadata"], &["spec"]],
    default: |level| {
        with(level, "spec.exempt", |exempt| {
            default(exempt, "nominalConcurrencyShares", 0);
            default(exempt, "lendablePercent", 0);
        });
        with(level, "spec.limited", |limited| {
            default(limited, "nominalConcurrencyShares", 30);
            default(limited, "lendablePercent", 0);
            with(limited, "limitResponse.queuing", |queuing| {
                for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                    if int(queuing, field).unwrap_or(0) == 0 {
                        set(queuing, field, value);
                    }
                }
            });
        });
    },
    prepare_create: |level| set(level, "status", json!({})),
    ..SPEC_AND_STATUS
};

fn validate_priority_class(class: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let name = text(class, "metadata.name");
    let value = int(class, "value").unwrap_or(0);
    if name.starts_with("system-") {
        let why = match super::bootstrap::SYSTEM_PRIORITIES
            .iter()
            .find(|(known, _)| *known == name)
        {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, known)) if *known != value => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if get(class, "globalDefault") == &Value::Bool(true) => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            out.push(FieldError::forbidden(
                "metadata.name",
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}"),
            ));
        }
    } else if value > USER_PRIORITY_MAX {
        out.push(FieldError::forbidden(
            "value",
            format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"),
        ));
    }
    let policy = get(class, "preemptionPolicy");
    if policy
        .as_str()
        .is_some_and(|p| !matches!(p, "PreemptLowerPriority" | "Never"))
    {
        out.push(FieldError::not_supported(
            "preemptionPolicy",
            policy,
            &["PreemptLowerPriority", "Never"],
        ));
    }
    out
}
