//! Webhook configurations and admission policies. Module `webhooks` calls webhooks, and a write of one that is
//! not called is answered with a warning. Module `policies` evaluates policies.

use super::SPEC_AND_STATUS;
use super::meta::strings;
use super::names;
use super::tree::{default, each, get, has, int, items, set, text, with};
use crate::field::FieldError;
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};

const BASE: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::AllButMetadata,
    warnings: |object| {
        items(object, "webhooks")
            .iter()
            .filter_map(crate::webhooks::skipped)
            .collect()
    },
    ..Strategy::GENERIC
};

static VALIDATING_WEBHOOKS: Strategy = Strategy {
    default: |object| each(object, "webhooks", default_webhook),
    validate: validate_webhooks,
    ..BASE
};

static MUTATING_WEBHOOKS: Strategy = Strategy {
    default: |object| {
        each(object, "webhooks", |webhook| {
            default_webhook(webhook);
            default(webhook, "reinvocationPolicy", "Never");
        });
    },
    validate: validate_webhooks,
    ..BASE
};

static VALIDATING_POLICY: Strategy = Strategy {
    unconditional_update: false,
    generation: Generation::Spec,
    default: default_policy,
    prepare_create: |policy| set(policy, "status", json!({})),
    validate: validate_policy,
    warnings: reads_authorizer,
    ..SPEC_AND_STATUS
};

static MUTATING_POLICY: Strategy = Strategy {
    default: default_policy,
    validate: validate_mutations,
    warnings: reads_authorizer,
    ..BASE
};

static POLICY_BINDING: Strategy = Strategy {
    warnings: |_| Vec::new(),
    generation: Generation::Spec,
    default: |binding| with(binding, "spec.matchResources", default_match),
    validate: |binding| {
        let mut out = Vec::new();
        let name = text(binding, "spec.policyName");
        if name.is_empty() {
            out.push(FieldError::required("spec.policyName", ""));
        } else {
            for message in names::dns_subdomain(name) {
                out.push(FieldError::invalid("spec.policyName", &name.into(), message));
            }
        }
        if text(binding, "kind").starts_with("Validating") {
            let actions = items(binding, "spec.validationActions");
            if actions.is_empty() {
                out.push(FieldError::required("spec.validationActions", ""));
            }
            for (i, action) in actions.iter().enumerate() {
                if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
                    out.push(FieldError::not_supported(
                        format!("spec.validationActions[{i}]"),
                        action,
                        &["Audit", "Deny", "Warn"],
                    ));
                }
            }
        }
        out
    },
    ..BASE
};

static OTHER: Strategy = Strategy::GENERIC;

pub(super) fn strategy(kind: &str) -> &'static Strategy {
    match kind {
        "ValidatingWebhookConfiguration" => &VALIDATING_WEBHOOKS,
        "MutatingWebhookConfiguration" => &MUTATING_WEBHOOKS,
        "ValidatingAdmissionPolicy" => &VALIDATING_POLICY,
        "MutatingAdmissionPolicy" => &MUTATING_POLICY,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => &POLICY_BINDING,
        _ => &OTHER,
    }
}

const EXPRESSIONS: [(&str, &str); 4] = [
    ("matchConditions", "expression"),
    ("variables", "expression"),
    ("validations", "expression"),
    ("validations", "messageExpression"),
];

fn reads_authorizer(policy: &Value) -> Vec<String> {
    let reads = EXPRESSIONS.iter().any(|(list, field)| {
        items(get(policy, "spec"), list)
            .iter()
            .any(|entry| text(entry, field).contains("authorizer"))
    });
    let (kind, name) = (text(policy, "kind"), text(policy, "metadata.name"));
    let warning = format!("{kind} {name} reads `authorizer`, which this server does not evaluate");
    reads.then_some(warning).into_iter().collect()
}

fn validate_mutations(policy: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if items(policy, "spec.mutations").is_empty() {
        out.push(FieldError::required(
            "spec.mutations",
            "mutations must be non-empty",
        ));
    }
    for (i, mutation) in items(policy, "spec.mutations").iter().enumerate() {
        let field = match text(mutation, "patchType") {
            "JSONPatch" => "jsonPatch",
            _ => "applyConfiguration",
        };
        let path = format!("spec.mutations[{i}].{field}.expression");
        let expression = text(get(mutation, field), "expression");
        if expression.trim().is_empty() {
            out.push(FieldError::required(path, "expression is not specified"));
        } else if let Some(why) = crate::policies::mutation_problem(expression) {
            out.push(FieldError::invalid(
                path,
                &expression.into(),
                format!("compilation failed: {why}"),
            ));
        }
    }
    out
}

fn validate_policy(policy: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if items(policy, "spec.validations").is_empty() && items(policy, "spec.auditAnnotations").is_empty() {
        out.push(FieldError::required(
            "spec.validations",
            "validations or auditAnnotations must be non-empty",
        ));
    }
    for (list, field) in EXPRESSIONS {
        for (i, entry) in items(get(policy, "spec"), list).iter().enumerate() {
            let path = format!("spec.{list}[{i}].{field}");
            let expression = text(entry, field);
            if expression.trim().is_empty() {
                if field == "expression" {
                    out.push(FieldError::required(path, "expression is not specified"));
                }
            } else if let Some(why) = crate::policies::problem(expression) {
                out.push(FieldError::invalid(
                    path,
                    &expression.into(),
                    format!("compilation failed: {why}"),
                ));
            }
        }
    }
    out
}

fn default_match(resources: &mut Value) {
    default(resources, "matchPolicy", "Equivalent");
    default(resources, "namespaceSelector", json!({}));
    default(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list, |rule| default(rule, "scope", "*"));
    }
}

fn default_webhook(webhook: &mut Value) {
    default(webhook, "failurePolicy", "Fail");
    default(webhook, "matchPolicy", "Equivalent");
    default(webhook, "namespaceSelector", json!({}));
    default(webhook, "objectSelector", json!({}));
    default(webhook, "timeoutSeconds", 10);
    each(webhook, "rules", |rule| default(rule, "scope", "*"));
    with(webhook, "clientConfig.service", |service| {
        default(service, "port", 443);
    });
}

fn default_policy(policy: &mut Value) {
    default(policy, "spec.failurePolicy", "Fail");
    with(policy, "spec.matchConstraints", default_match);
}

fn validate_webhooks(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let webhooks = items(object, "webhooks");
    for (i, webhook) in webhooks.iter().enumerate() {
        let at = |field: &str| format!("webhooks[{i}].{field}");
        let name = text(webhook, "name");
        let mut problems = names::dns_subdomain(name);
        if problems.is_empty() && name.split('.').count() < 3 {
            problems.push("should be a domain with at least three segments separated by dots".to_owned());
        }
        if name.is_empty() {
            out.push(FieldError::required(at("name"), ""));
        } else {
            for message in problems {
                out.push(FieldError::invalid(at("name"), &name.into(), message));
            }
        }
        if webhooks.iter().take(i).any(|other| text(other, "name") == name) {
            out.push(FieldError::duplicate(at("name"), &name.into()));
        }
        if items(webhook, "admissionReviewVersions").is_empty() {
            out.push(FieldError::required(
                at("admissionReviewVersions"),
                "must specify one of v1, v1beta1",
            ));
        } else if !strings(webhook, "admissionReviewVersions").any(|v| v == "v1" || v == "v1beta1") {
            out.push(FieldError::invalid(
                at("admissionReviewVersions"),
                get(webhook, "admissionReviewVersions"),
                "must include at least one of v1, v1beta1",
            ));
        }
        let effects = get(webhook, "sideEffects");
        if effects.is_null() {
            out.push(FieldError::required(
                at("sideEffects"),
                "must specify one of None, NoneOnDryRun",
            ));
        } else if !matches!(effects.as_str(), Some("None" | "NoneOnDryRun")) {
            out.push(FieldError::not_supported(
                at("sideEffects"),
                effects,
                &["None", "NoneOnDryRun"],
            ));
        }
        if let Some(seconds) = int(webhook, "timeoutSeconds").filter(|n| !(1..=30).contains(n)) {
            out.push(FieldError::invalid(
                at("timeoutSeconds"),
                &seconds.into(),
                "the timeout value must be between 1 and 30 seconds",
            ));
        }
        if has(webhook, "clientConfig.url") == has(webhook, "clientConfig.service") {
            out.push(FieldError::required(
                at("clientConfig"),
                "exactly one of url or service is required",
            ));
        }
    }
    out
}
