//! Validation of a schema's keywords, extensions and rules.

use super::{fields, flag, list, present, text};
use crate::crd::node::Node;
use crate::crd::{go, rules, selectable};
use crate::field::{FieldError, FieldErrorKind, go_quote};
use equate_manifest::schema::{Schema, ValidationRule};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone)]
pub(super) struct Walk {
    pub(super) inside_meta: bool,
    pub(super) no_defaults: Option<String>,
    /// The outermost list whose items have no counterpart in the stored object.
    pub(super) uncorrelatable: Option<String>,
    pub(super) is_root: bool,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) schema: Vec<FieldError>,
    pub(super) rules: Vec<FieldError>,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
    }
}

pub(super) fn openapi(s: &Value, node: Option<&Node>, path: &str, walk: &Walk) -> Found {
    let mut out = Found::default();
    keyword_errors(s, path, walk, &mut out.schema);
    if flag(s, "uniqueItems") {
        out.schema.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    let below = Walk {
        is_root: false,
        ..walk.clone()
    };
    if let Some(additional) = present(s, "additionalProperties") {
        let at = format!("{path}.additionalProperties");
        if fields(s, "properties").next().is_some() && *additional != Value::Bool(true) {
            out.schema.push(FieldError::forbidden(
                at.clone(),
                "additionalProperties and properties are mutual exclusive",
            ));
        }
        if additional.is_object() {
            let mut inner = below.clone();
            if walk.inside_meta {
                inner.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            let child = node
                .and_then(Node::additional_schema)
                .filter(|n| n.visible_to_rules());
            out.merge(openapi(additional, child, &at, &inner));
        }
    }
    let is_object_root = walk.is_root || flag(s, "x-kubernetes-embedded-resource");
    for (name, property) in fields(s, "properties") {
        let mut inner = below.clone();
        if is_object_root && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.inside_meta = true;
            if walk.is_root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        let child = node
            .and_then(|n| n.properties.get(name))
            .filter(|n| n.visible_to_rules());
        out.merge(openapi(
            property,
            child,
            &format!("{path}.properties[{name}]"),
            &inner,
        ));
    }
    if let Some(inner) = s.get("not").filter(|n| n.is_object()) {
        out.merge(openapi(inner, None, &format!("{path}.not"), &below));
    }
    for field in ["allOf", "oneOf", "anyOf"] {
        for (index, inner) in list(s, field).iter().enumerate() {
            out.merge(openapi(inner, None, &format!("{path}.{field}[{index}]"), &below));
        }
    }
    for (name, inner) in fields(s, "definitions") {
        out.merge(openapi(
            inner,
            None,
            &format!("{path}.definitions[{name}]"),
            &below,
        ));
    }
    if let Some(items) = s.get("items") {
        let mut inner = below.clone();
        if text(s, "x-kubernetes-list-type") != "map" && inner.uncorrelatable.is_none() {
            inner.uncorrelatable = Some(path.to_owned());
        }
        if items.is_object() {
            let child = node
                .and_then(|n| n.items.as_deref())
                .filter(|n| n.visible_to_rules());
            out.merge(openapi(items, child, &format!("{path}.items"), &inner));
        }
    }
    extension_errors(s, path, &mut out.schema);
    rule_errors(s, node, path, walk, &mut out);
    out
}

fn keyword_errors(s: &Value, path: &str, walk: &Walk, errors: &mut Vec<FieldError>) {
    const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
    let kind = text(s, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(
            format!("{path}.type"),
            &json!(kind),
            TYPES,
        ));
    }
    let mut forbid = |field: &str, set: bool, why: String| {
        if set {
            errors.push(FieldError::forbidden(format!("{path}.{field}"), why));
        }
    };
    if let Some(reason) = &walk.no_defaults {
        let set = present(s, "default").is_some();
        forbid("default", set, format!("must not be set {reason}"));
    }
    let unsupported = |field: &str| format!("{field} is not supported");
    forbid("id", !text(s, "id").is_empty(), unsupported("id"));
    forbid(
        "additionalItems",
        present(s, "additionalItems").is_some(),
        unsupported("additionalItems"),
    );
    for field in ["patternProperties", "definitions"] {
        forbid(field, fields(s, field).next().is_some(), unsupported(field));
    }
    forbid(
        "dependencies",
        present(s, "dependencies").is_some(),
        unsupported("dependencies"),
    );
    forbid("$ref", present(s, "$ref").is_some(), unsupported("$ref"));
    forbid(
        "type",
        kind == "null",
        "type cannot be set to null, use nullable as an alternative".to_owned(),
    );
    forbid(
        "items",
        !list(s, "items").is_empty(),
        "items must be a schema object and not an array".to_owned(),
    );
    forbid(
        "x-kubernetes-embedded-resource",
        walk.inside_meta && flag(s, "x-kubernetes-embedded-resource"),
        "must not be used inside of resource meta".to_owned(),
    );
}

fn extension_errors(s: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(s, "type");
    let at = |field: &str| format!("{path}.{field}");
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if s.get(preserve) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            at(preserve),
            &json!(false),
            "must be true or undefined",
        ));
    }
    let list_type = present(s, "x-kubernetes-list-type").map(|_| text(s, "x-kubernetes-list-type"));
    let map_type = present(s, "x-kubernetes-map-type").map(|_| text(s, "x-kubernetes-map-type"));
    let type_must_be = |wanted: &str, extension: &str| {
        let why = format!("must be {wanted} if {extension} is specified");
        if kind.is_empty() {
            FieldError::required(at("type"), why)
        } else {
            FieldError::invalid(at("type"), &json!(kind), why)
        }
    };
    if let Some(map_type) = map_type {
        if kind != "object" {
            errors.push(type_must_be("object", "x-kubernetes-map-type"));
        }
        let known = ["atomic", "granular"];
        if !known.contains(&map_type) {
            errors.push(FieldError::not_supported(
                at("x-kubernetes-map-type"),
                &json!(map_type),
                &known,
            ));
        }
    }
    let items = s.get("items").filter(|i| i.is_object());
    if let Some(list_type) = list_type {
        if kind != "array" {
            errors.push(type_must_be("array", "x-kubernetes-list-type"));
        } else if let ("set", Some(items)) = (list_type, items) {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let shown = items
                .get("x-kubernetes-list-type")
                .cloned()
                .unwrap_or(Value::Null);
            let item_list_type = text(items, "x-kubernetes-list-type");
            let field = match text(items, "type") {
                "array" if !matches!(item_list_type, "" | "atomic") => Some("x-kubernetes-list-type"),
                "object" if text(items, "x-kubernetes-map-type") != "atomic" => Some("x-kubernetes-map-type"),
                _ => None,
            };
            if let Some(field) = field {
                errors.push(FieldError::invalid(at(&format!("items.{field}")), &shown, why));
            }
        }
        let known = ["atomic", "set", "map"];
        if !known.contains(&list_type) {
            errors.push(FieldError::not_supported(
                at("x-kubernetes-list-type"),
                &json!(list_type),
                &known,
            ));
        }
    }
    let keys: Vec<&str> = list(s, "x-kubernetes-list-map-keys")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !keys.is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(at("x-kubernetes-list-type"), why),
            Some(other) => FieldError::invalid(at("x-kubernetes-list-type"), &json!(other), why),
        });
    }
    if list_type == Some("map") {
        list_map_errors(items, &keys, path, errors);
    }
    if let (Some("set" | "map"), Some(items)) = (list_type, items) {
        nullability_errors(items, list_type.unwrap_or_default(), &keys, path, errors);
    }
}

fn list_map_errors(items: Option<&Value>, keys: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{path}.{field}");
    if keys.is_empty() {
        errors.push(FieldError::required(
            at("x-kubernetes-list-map-keys"),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = items else {
        errors.push(FieldError::required(
            at("items"),
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        errors.push(FieldError::invalid(
            at("items.type"),
            &json!(kind),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for key in keys {
        match items.get("properties").and_then(|p| p.get(*key)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                errors.push(FieldError::invalid(
                    at(&format!("items.properties[{key}].type")),
                    &json!(kind),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                at("x-kubernetes-list-map-keys"),
                &json!(keys),
                "entries must all be names of item properties",
            )),
        }
        if seen.contains(key) {
            errors.push(FieldError::invalid(
                at("x-kubernetes-list-map-keys"),
                &json!(keys),
                "must not contain duplicate entries",
            ));
        }
        seen.push(key);
    }
}

fn nullability_errors(
    items: &Value,
    list_type: &str,
    keys: &[&str],
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if flag(items, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{path}.items.nullable"),
            format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return;
    }
    for key in keys {
        let Some(property) = items.get("properties").and_then(|p| p.get(*key)) else {
            continue;
        };
        let at = format!("{path}.items.properties[{key}]");
        let required = list(items, "required").iter().any(|r| r.as_str() == Some(key));
        if !required && present(property, "default").is_none() {
            errors.push(FieldError::required(
                format!("{at}.default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                 property",
            ));
        }
        if flag(property, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{at}.nullable"),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

/// A rule as an error shows it: the internal type has Go's field names, in Go's order.
fn shown_rule(rule: &ValidationRule) -> String {
    let quote = |s: &str| go::escaped(&json!(s).to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        quote(&rule.rule),
        quote(&rule.message),
        quote(&rule.message_expression),
        json!(rule.reason),
        quote(&rule.field_path),
        json!(rule.optional_old_self),
    )
}

fn rule_errors(s: &Value, node: Option<&Node>, path: &str, walk: &Walk, out: &mut Found) {
    let parsed: Vec<ValidationRule> = list(s, "x-kubernetes-validations")
        .iter()
        .map(|r| ValidationRule::deserialize(r).unwrap_or_default())
        .collect();
    for (index, rule) in parsed.iter().enumerate() {
        rule_text_errors(
            s,
            rule,
            &format!("{path}.x-kubernetes-validations[{index}]"),
            &mut out.schema,
        );
    }
    // Rules are compiled only if nothing at this level or below is invalid.
    let Some(node) = node.filter(|_| out.schema.is_empty()) else {
        return;
    };
    for (index, rule) in parsed.iter().enumerate() {
        let at = format!("{path}.x-kubernetes-validations[{index}]");
        let invalid = |field: &str, shown: String, why: String| {
            FieldError::with_value(FieldErrorKind::Invalid, format!("{at}.{field}"), Some(shown), why)
        };
        let checked = rules::check(rule, node, walk.is_root || node.embedded);
        if let Some(why) = checked.rule {
            out.rules.push(invalid("rule", shown_rule(rule), why));
        }
        if let Some(why) = checked.message_expression {
            out.rules
                .push(invalid("messageExpression", shown_rule(rule), why));
        }
        if checked.uses_old_self {
            if let Some(list) = &walk.uncorrelatable {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                out.rules.push(invalid("rule", go_quote(&rule.rule), why));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule".to_owned();
            out.rules
                .push(invalid("optionalOldSelf", optional.to_string(), why));
        }
    }
}

fn rule_text_errors(s: &Value, rule: &ValidationRule, at: &str, errors: &mut Vec<FieldError>) {
    const REASONS: &[&str] = &[
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let has_break = |text: &str| text.contains(['\n', '\r']);
    let message = rule.message.trim();
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(
            format!("{at}.rule"),
            "rule is not specified",
        ));
    } else if !rule.message.is_empty() && message.is_empty() {
        let shown = json!(rule.message);
        errors.push(FieldError::invalid(
            format!("{at}.message"),
            &shown,
            "must be non-empty if specified",
        ));
    } else if has_break(message) {
        let shown = json!(rule.message);
        errors.push(FieldError::invalid(
            format!("{at}.message"),
            &shown,
            "must not contain line breaks",
        ));
    } else if has_break(rule.rule.trim()) && message.is_empty() {
        errors.push(FieldError::required(
            format!("{at}.message"),
            "message must be specified if rule contains line breaks",
        ));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        errors.push(FieldError::required(
            format!("{at}.messageExpression"),
            "messageExpression must be non-empty if specified",
        ));
    }
    if let Some(reason) = &rule.reason
        && !REASONS.contains(&reason.as_str())
    {
        errors.push(FieldError::not_supported(
            format!("{at}.reason"),
            &json!(reason),
            REASONS,
        ));
    }
    if rule.field_path.is_empty() {
        return;
    }
    let shown = json!(rule.field_path);
    let mut wrong = |why: &str| errors.push(FieldError::invalid(format!("{at}.fieldPath"), &shown, why));
    if rule.field_path.trim().is_empty() {
        wrong("must be non-empty if specified");
    }
    if has_break(&rule.field_path) {
        wrong("must not contain line breaks");
    }
    if let Ok(schema) = Schema::deserialize(s)
        && selectable::resolve(&rule.field_path, &schema, true).is_err()
    {
        wrong("must be a valid path");
    }
}
