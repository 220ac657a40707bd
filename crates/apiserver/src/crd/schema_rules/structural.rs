//! Checks that a schema is structural: declared outside of its combinators, with the required types.

use super::{fields, flag, list, present, text};
use crate::crd::node;
use crate::field::FieldError;
use regex::Regex;
use serde_json::{Map, Value, json};

pub(super) fn unsupported(schema: &Value, depth: usize) -> Option<String> {
    if depth > node::SCHEMA_DEPTH_MAX {
        return Some(node::TooDeep.to_string());
    }
    for (field, name) in [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ] {
        let set = match present(schema, field) {
            None => false,
            Some(Value::String(s)) => !s.is_empty(),
            Some(Value::Object(o)) => field == "additionalItems" || !o.is_empty(),
            Some(_) => true,
        };
        if set {
            return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    let children = fields(schema, "properties")
        .map(|(_, s)| s)
        .chain(
            ["items", "not", "additionalProperties"]
                .iter()
                .filter_map(|f| schema.get(*f)),
        )
        .chain(["allOf", "anyOf", "oneOf"].iter().flat_map(|f| list(schema, f)));
    for child in children.filter(|c| c.is_object()) {
        if let Some(why) = unsupported(child, depth + 1) {
            return Some(why);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Level {
    Root,
    Item,
    Field,
}

pub(super) fn invariants(s: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(s, "type");
    let embedded = flag(s, "x-kubernetes-embedded-resource");
    let int_or_string = flag(s, "x-kubernetes-int-or-string");
    let preserve = flag(s, "x-kubernetes-preserve-unknown-fields");
    match s.get("items").filter(|i| i.is_object()) {
        Some(items) => invariants(items, Level::Item, &format!("{path}.items"), errors),
        None if kind == "array" => {
            errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in fields(s, "properties") {
        invariants(
            property,
            Level::Field,
            &format!("{path}.properties[{name}]"),
            errors,
        );
    }
    let additional = present(s, "additionalProperties");
    if let Some(inner) = additional {
        let at = format!("{path}.additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(at.clone(), "must not be used at the root"));
        }
        if inner.is_object() {
            invariants(inner, Level::Field, &at, errors);
        }
    }
    for (field, set) in [
        ("x-kubernetes-preserve-unknown-fields", preserve),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if int_or_string && set {
            errors.push(FieldError::invalid(
                format!("{path}.{field}"),
                &json!(true),
                "must be false if x-kubernetes-int-or-string is true",
            ));
        }
    }
    let pattern = int_or_string_pattern();
    let skip_any_of = s.get("anyOf") == Some(&pattern);
    let skip_first = list(s, "allOf").first().and_then(|f| f.get("anyOf")) == Some(&pattern);
    value_validation(s, skip_any_of, skip_first, path, errors);

    let at_type = format!("{path}.type");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at_type.clone(), why)
        } else {
            FieldError::invalid(at_type.clone(), &json!(kind), why)
        });
    } else if kind.is_empty() && !int_or_string && !preserve {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at_type.clone(), why));
    }
    if embedded && additional.is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            at_type,
            &json!(kind),
            "must be object at the root",
        ));
    }
    let check_metadata = level == Level::Root || embedded;
    let properties = s.get("properties").and_then(Value::as_object);
    for field in ["kind", "apiVersion"] {
        if check_metadata
            && let Some(property) = properties.and_then(|p| p.get(field))
            && text(property, "type") != "string"
        {
            errors.push(FieldError::invalid(
                format!("{path}.properties[{field}].type"),
                &json!(text(property, "type")),
                "must be string",
            ));
        }
    }
    if let Some(metadata) = properties.and_then(|p| p.get("metadata")) {
        let at = format!("{path}.properties[metadata]");
        if check_metadata && text(metadata, "type") != "object" {
            let kind = json!(text(metadata, "type"));
            errors.push(FieldError::invalid(format!("{at}.type"), &kind, "must be object"));
        }
        if level == Level::Root && !is_plain_metadata(metadata) {
            errors.push(FieldError::forbidden(
                at,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
    if embedded && !preserve && properties.is_none_or(Map::is_empty) {
        errors.push(FieldError::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn is_plain_metadata(metadata: &Value) -> bool {
    metadata
        .as_object()
        .into_iter()
        .flatten()
        .all(|(field, value)| match field.as_str() {
            "type" | "default" => true,
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, _)| name == "name" || name == "generateName"),
            _ => match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(s) => s.is_empty(),
                Value::Array(a) => a.is_empty(),
                _ => false,
            },
        })
}

fn int_or_string_pattern() -> Value {
    json!([{ "type": "integer" }, { "type": "string" }])
}

fn value_validation(
    s: &Value,
    skip_any_of: bool,
    skip_first: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (index, inner) in list(s, "anyOf").iter().enumerate() {
            nested(inner, false, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, inner) in list(s, "allOf").iter().enumerate() {
        nested(
            inner,
            skip_first && index == 0,
            &format!("{path}.allOf[{index}]"),
            errors,
        );
    }
    for (index, inner) in list(s, "oneOf").iter().enumerate() {
        nested(inner, false, &format!("{path}.oneOf[{index}]"), errors);
    }
    if let Some(inner) = s.get("not").filter(|n| n.is_object()) {
        nested(inner, false, &format!("{path}.not"), errors);
    }
    let pattern = text(s, "pattern");
    if !pattern.is_empty()
        && let Err(e) = Regex::new(pattern)
    {
        errors.push(FieldError::invalid(
            format!("{path}.pattern"),
            &json!(pattern),
            format!(
                "must be a valid regular expression, but isn't: {}",
                regex_error(pattern, &e)
            ),
        ));
    }
}

/// The error of a pattern, with the text of Go's `regexp` for common mistakes.
fn regex_error(pattern: &str, error: &regex::Error) -> String {
    let why = error.to_string();
    let said = |text: &str| why.contains(text);
    let go = if said("look-around") {
        let look = ["(?=", "(?!", "(?<"]
            .into_iter()
            .find(|l| pattern.contains(l))
            .unwrap_or("(?");
        format!("invalid or unsupported Perl syntax: `{look}`")
    } else if said("unclosed character class") {
        format!(
            "missing closing ]: `{}`",
            &pattern[pattern.rfind('[').unwrap_or(0)..]
        )
    } else if said("unclosed group") {
        format!("missing closing ): `{pattern}`")
    } else if said("unopened group") {
        format!("unexpected ): `{pattern}`")
    } else if said("repetition operator missing expression") {
        let operator = pattern
            .find(['*', '+', '?', '{'])
            .map_or("*", |at| &pattern[at..=at]);
        format!("missing argument to repetition operator: `{operator}`")
    } else {
        let last = why.lines().last().unwrap_or_default();
        format!("{}: `{pattern}`", last.strip_prefix("error: ").unwrap_or(last))
    };
    format!("error parsing regexp: {go}")
}

/// Combinators must not contain structural keywords.
fn nested(v: &Value, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    value_validation(v, skip_any_of, false, path, errors);
    if let Some(items) = v.get("items").filter(|i| i.is_object()) {
        nested(items, false, &format!("{path}.items"), errors);
    }
    for (name, property) in fields(v, "properties") {
        nested(property, false, &format!("{path}.properties[{name}]"), errors);
    }
    let mut forbid = |field: &str, set: bool, why: &str| {
        if set {
            errors.push(FieldError::forbidden(
                format!("{path}.{field}"),
                format!("must be {why} to be structural"),
            ));
        }
    };
    forbid("type", !text(v, "type").is_empty(), "empty");
    let additional = present(v, "additionalProperties").is_some_and(|a| *a != Value::Bool(false));
    forbid("additionalProperties", additional, "undefined");
    forbid("default", present(v, "default").is_some(), "undefined");
    forbid("title", !text(v, "title").is_empty(), "empty");
    forbid("description", !text(v, "description").is_empty(), "empty");
    forbid("nullable", flag(v, "nullable"), "false");
    for field in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(field, flag(v, field), "false");
    }
    let filled = |field: &str| !list(v, field).is_empty();
    forbid(
        "x-kubernetes-list-map-keys",
        filled("x-kubernetes-list-map-keys"),
        "empty",
    );
    forbid(
        "x-kubernetes-list-type",
        present(v, "x-kubernetes-list-type").is_some(),
        "undefined",
    );
    forbid(
        "x-kubernetes-map-type",
        present(v, "x-kubernetes-map-type").is_some(),
        "undefined",
    );
    forbid(
        "x-kubernetes-validations",
        filled("x-kubernetes-validations"),
        "empty",
    );
    if v.pointer("/properties/metadata").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.properties[metadata]"),
            "must not be specified in a nested context",
        ));
    }
}

/// Fields that combinators mention must be declared outside of them.
pub(super) fn completeness(v: &Value, s: &Value, s_path: &str, v_path: &str, errors: &mut Vec<FieldError>) {
    if let Some(inner) = v.get("not").filter(|n| n.is_object()) {
        nested_completeness(inner, Some(s), s_path, &format!("{v_path}.not"), errors);
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in list(v, field).iter().enumerate() {
            nested_completeness(
                inner,
                Some(s),
                s_path,
                &format!("{v_path}.{field}[{index}]"),
                errors,
            );
        }
    }
}

fn nested_completeness(
    v: &Value,
    s: Option<&Value>,
    s_path: &str,
    v_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(s) = s else {
        errors.push(FieldError::required(
            s_path,
            format!("because it is defined in {v_path}"),
        ));
        return;
    };
    completeness(v, s, s_path, v_path, errors);
    if let Some(items) = v.get("items").filter(|i| i.is_object()) {
        let below = s.get("items").filter(|i| i.is_object());
        nested_completeness(
            items,
            below,
            &format!("{s_path}.items"),
            &format!("{v_path}.items"),
            errors,
        );
    }
    for (name, property) in fields(v, "properties") {
        let at = format!("{s_path}.properties[{name}]");
        let from = format!("{v_path}.properties[{name}]");
        match s.get("properties").and_then(|p| p.get(name)) {
            None => errors.push(FieldError::required(
                at,
                format!("because it is defined in {from}"),
            )),
            below => nested_completeness(property, below, &at, &from, errors),
        }
    }
}
