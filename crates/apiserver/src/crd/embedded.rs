//! Validation of embedded objects (`x-kubernetes-embedded-resource`): their type and metadata.

use super::names;
use super::node::Node;
use crate::field::FieldError;
use serde_json::{Map, Value};

pub(super) fn validate(value: &Value, schema: &Node, path: &str, root: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(value, schema, path, root, &mut errors);
    errors
}

fn visit(value: &Value, schema: &Node, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if root || schema.embedded {
                object_errors(map, path, errors);
            }
            for (key, inner) in map {
                if let Some(property) = schema.properties.get(key) {
                    visit(inner, property, &child(path, key), false, errors);
                } else if let Some(additional) = schema.additional_schema() {
                    visit(inner, additional, &format!("{path}[{key}]"), false, errors);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items.as_deref() {
                for (index, item) in list.iter().enumerate() {
                    visit(item, items, &format!("{path}[{index}]"), false, errors);
                }
            }
        }
        _ => {}
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn object_errors(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["apiVersion", "kind"] {
        if !map.contains_key(field) {
            errors.push(FieldError::required(child(path, field), ""));
        }
    }
    for (field, value) in map {
        let at = child(path, field);
        match (field.as_str(), value) {
            ("apiVersion", Value::String(text)) => {
                if text.is_empty() {
                    errors.push(FieldError::invalid(at, value, "must not be empty"));
                } else if text.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(at, value, why));
                }
            }
            ("kind", Value::String(text)) => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                if text.is_empty() {
                    errors.push(FieldError::invalid(at, value, "must not be empty"));
                } else if !wrong.is_empty() {
                    let why = format!(
                        "may have mixed case, but should otherwise match: {}",
                        wrong.join(",")
                    );
                    errors.push(FieldError::invalid(at, value, why));
                }
            }
            ("apiVersion" | "kind", other) => {
                errors.push(FieldError::invalid(at, other, "must be a string"));
            }
            ("metadata", Value::Object(metadata)) => metadata_errors(metadata, &at, errors),
            _ => {}
        }
    }
}

fn metadata_errors(metadata: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["generateName", "name"] {
        if let Some(Value::String(name)) = metadata.get(field) {
            let mut wrong = Vec::new();
            if field == "name" && (name == "." || name == "..") {
                wrong.push(format!("may not be '{name}'"));
            }
            for banned in ["/", "%"] {
                if name.contains(banned) {
                    wrong.push(format!("may not contain '{banned}'"));
                }
            }
            for why in wrong {
                errors.push(FieldError::invalid(child(path, field), &metadata[field], why));
            }
        }
    }
}
