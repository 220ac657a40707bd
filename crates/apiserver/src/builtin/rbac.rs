//! Validation of roles and bindings. `auth` evaluates them.

use super::names;
use super::selector;
use super::tree::{default, each, get, has, items, text};
use crate::field::{FieldError, FieldErrorKind, go_struct};
use crate::registry::{NameRule, Strategy};
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

const BASE: Strategy = Strategy {
    create_on_update: true,
    name: NameRule::PathSegment,
    ..Strategy::GENERIC
};

static ROLE: Strategy = Strategy {
    validate: |role| validate_rules(role, true),
    ..BASE
};

static CLUSTER_ROLE: Strategy = Strategy {
    validate: |role| {
        let mut out = validate_rules(role, false);
        let selectors = items(role, "aggregationRule.clusterRoleSelectors");
        if has(role, "aggregationRule") && selectors.is_empty() {
            out.push(FieldError::required(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            ));
        }
        for (i, selector) in selectors.iter().enumerate() {
            let path = format!("aggregationRule.clusterRoleSelectors[{i}]");
            out.extend(selector::validate(selector, &path));
            if !selector::is_legible(selector) {
                out.push(FieldError::invalid(path, &Value::Null, "invalid label selector."));
            }
        }
        out
    },
    ..BASE
};

static ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding| validate_binding(binding, true),
    validate_update: validate_binding_update,
    ..BASE
};

static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    default: default_binding,
    validate: |binding| validate_binding(binding, false),
    validate_update: validate_binding_update,
    ..BASE
};

pub(super) fn role(kind: &str) -> &'static Strategy {
    if kind == "Role" { &ROLE } else { &CLUSTER_ROLE }
}

pub(super) fn binding(kind: &str) -> &'static Strategy {
    if kind == "RoleBinding" {
        &ROLE_BINDING
    } else {
        &CLUSTER_ROLE_BINDING
    }
}

fn default_binding(binding: &mut Value) {
    default(binding, "roleRef.apiGroup", GROUP);
    each(binding, "subjects", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            default(subject, "apiGroup", GROUP);
        }
    });
}

fn validate_rules(role: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, rule) in items(role, "rules").iter().enumerate() {
        let at = |field: &str| format!("rules[{i}].{field}");
        let empty = |field: &str| items(rule, field).is_empty();
        if empty("verbs") {
            out.push(FieldError::required(
                at("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !empty("nonResourceURLs") {
            let urls = get(rule, "nonResourceURLs");
            if namespaced {
                out.push(FieldError::invalid(
                    at("nonResourceURLs"),
                    urls,
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
                out.push(FieldError::invalid(
                    at("nonResourceURLs"),
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                ));
            }
            continue;
        }
        if empty("apiGroups") {
            out.push(FieldError::required(
                at("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if empty("resources") {
            out.push(FieldError::required(
                at("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
    out
}

fn validate_binding(binding: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut out = Vec::new();
    let group = get(binding, "roleRef.apiGroup");
    if group != GROUP {
        out.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(binding, "roleRef.kind");
    if !kinds.contains(&kind) {
        out.push(FieldError::not_supported("roleRef.kind", &kind.into(), kinds));
    }
    let name = text(binding, "roleRef.name");
    if name.is_empty() {
        out.push(FieldError::required("roleRef.name", ""));
    }
    for message in names::path_segment(name, false) {
        out.push(FieldError::invalid("roleRef.name", &name.into(), message));
    }
    for (i, subject) in items(binding, "subjects").iter().enumerate() {
        out.extend(validate_subject(subject, namespaced, &format!("subjects[{i}]")));
    }
    out
}

fn validate_subject(subject: &Value, namespaced: bool, path: &str) -> Vec<FieldError> {
    let at = |field: &str| format!("{path}.{field}");
    let mut out = Vec::new();
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        out.push(FieldError::required(at("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                for message in names::dns_subdomain(name) {
                    out.push(FieldError::invalid(at("name"), &name.into(), message));
                }
            }
            if !group.is_empty() {
                out.push(FieldError::not_supported(at("apiGroup"), &group.into(), &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                out.push(FieldError::required(at("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                out.push(FieldError::not_supported(at("apiGroup"), &group.into(), &[GROUP]));
            }
        }
        other => out.push(FieldError::not_supported(
            at("kind"),
            &other.into(),
            &["ServiceAccount", "User", "Group"],
        )),
    }
    out
}

fn validate_binding_update(new: &Value, stored: &Value) -> Vec<FieldError> {
    let (new, old) = (get(new, "roleRef"), get(stored, "roleRef"));
    if new == old {
        return Vec::new();
    }
    let shown = go_struct(
        new,
        &[("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")],
    );
    vec![FieldError::with_value(
        FieldErrorKind::Invalid,
        "roleRef",
        Some(shown),
        "cannot change roleRef",
    )]
}
