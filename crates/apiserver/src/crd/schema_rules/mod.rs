//! Validation of a CustomResourceDefinition's schema: it is structural, its defaults are valid and its
//! rules compile.
//!
//! Works on the schema as written, because the typed form drops `definitions`, `patternProperties` and
//! others. Texts and order are apiextensions-apiserver's (1.36); where its order follows Go's maps, ours
//! follows the names.

mod openapi;
mod structural;

use super::node::Node;
use super::{embedded, formats, prune, rules, values};
use crate::field::FieldError;
use equate_manifest::schema::{Schema, SchemaType};
use openapi::{Walk, openapi};
use serde::Deserialize;
use serde_json::{Value, json};
use structural::{Level, completeness, invariants, unsupported};

/// Checks `openAPIV3Schema`. `has_status` limits the fields of its root.
pub(super) fn validate(schema: &Value, has_status: bool, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    root_errors(schema, has_status, path, &mut errors);

    let mut unbuildable = None;
    let mut compiled = None;
    match unsupported(schema, 0) {
        Some(why) => unbuildable = Some(FieldError::invalid(path, &json!(""), why)),
        None => {
            let mut structural = Vec::new();
            invariants(schema, Level::Root, path, &mut structural);
            completeness(schema, schema, path, path, &mut structural);
            structural.sort_by_key(ToString::to_string);
            if structural.is_empty() {
                match compile(schema) {
                    Ok(node) => {
                        let mut defaults = Vec::new();
                        default_errors(&node, path, true, false, &mut defaults);
                        if defaults.is_empty() {
                            compiled = Some(node);
                        }
                        errors.append(&mut defaults);
                    }
                    Err(why) => unbuildable = Some(FieldError::invalid(path, &json!(""), why)),
                }
            }
            errors.append(&mut structural);
        }
    }

    let walk = Walk {
        inside_meta: false,
        no_defaults: None,
        uncorrelatable: None,
        is_root: true,
    };
    let found = openapi(schema, compiled.as_ref(), path, &walk);
    errors.extend(found.schema);
    errors.extend(found.rules);
    if errors.is_empty() {
        errors.extend(unbuildable);
    }
    errors
}

fn compile(raw: &Value) -> Result<Node, String> {
    let schema = Schema::deserialize(raw).map_err(|e| e.to_string())?;
    let mut node = Node::new(&schema).map_err(|e| e.to_string())?;
    rules::attach(&mut node, &schema);
    Ok(node)
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

fn list<'a>(schema: &'a Value, field: &str) -> &'a [Value] {
    schema
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn fields<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn present<'a>(schema: &'a Value, field: &str) -> Option<&'a Value> {
    schema.get(field).filter(|v| !v.is_null())
}

fn each<'a>(schema: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    visit(schema);
    for field in ["items", "not", "additionalProperties", "additionalItems"] {
        if let Some(inner) = schema.get(field).filter(|v| v.is_object()) {
            each(inner, visit);
        }
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for inner in list(schema, field) {
            each(inner, visit);
        }
    }
    for field in ["properties", "patternProperties", "definitions"] {
        for (_, inner) in fields(schema, field) {
            each(inner, visit);
        }
    }
}

pub(super) fn has_defaults(schema: &Value) -> bool {
    let mut found = false;
    each(schema, &mut |s| found |= present(s, "default").is_some());
    found
}

pub(super) fn unrecognized_formats(schema: &Value, found: &mut Vec<String>) {
    each(schema, &mut |s| {
        let format = text(s, "format");
        let kind = present(s, "type").and_then(|t| SchemaType::deserialize(t).ok());
        if !format.is_empty() && !formats::is_recognized(format, kind, false) {
            found.push(format.to_owned());
        }
    });
}

/// The only fields of a root schema beside a status subresource: JSON name, Go name, in Go's order.
const AT_ROOT: &[(&str, &str)] = &[
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

fn root_errors(schema: &Value, has_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    if has_status {
        let kind = text(schema, "type");
        let is_set = |v: &Value| match v {
            Value::Null | Value::Bool(false) => false,
            Value::String(s) => !s.is_empty(),
            Value::Array(a) => !a.is_empty(),
            _ => true,
        };
        let stray = schema
            .as_object()
            .into_iter()
            .flatten()
            .any(|(field, value)| is_set(value) && !AT_ROOT.iter().any(|(name, _)| name == field));
        if !kind.is_empty() && kind != "object" {
            errors.push(FieldError::invalid(
                format!("{path}.type"),
                &json!(kind),
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                 enabled",
            ));
        } else if stray {
            let allowed: Vec<&str> = AT_ROOT.iter().map(|(_, go)| *go).collect();
            errors.push(FieldError::invalid(
                path,
                schema,
                format!(
                    "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                    allowed.join(" ")
                ),
            ));
        }
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
}

fn default_errors(node: &Node, path: &str, is_root: bool, inside_meta: bool, errors: &mut Vec<FieldError>) {
    let embedded = node.embedded || is_root;
    let inside_meta = inside_meta && !node.embedded;
    if let Some(default) = &node.default {
        let at = format!("{path}.default");
        if !inside_meta && !prune::is_pruned(default, node, node.embedded) {
            errors.push(FieldError::invalid(
                at.clone(),
                default,
                "must not have unknown fields",
            ));
        }
        let wrong = if inside_meta {
            Vec::new()
        } else {
            embedded::validate(default, node, &at, node.embedded)
        };
        if wrong.is_empty() {
            let schema_errors = values::validate(default, node, "", None);
            if schema_errors.is_empty() {
                // A default must be valid both as a new value and as the unchanged stored value.
                let mut wrong = rules::evaluate(default, Some(default), node, &at, false);
                if wrong.is_empty() {
                    wrong = rules::evaluate(default, None, node, &at, false);
                }
                errors.append(&mut wrong);
            }
            errors.extend(schema_errors.into_iter().map(|mut e| {
                e.field = if e.field == "<nil>" {
                    at.clone()
                } else {
                    format!("{at}.{}", e.field)
                };
                e
            }));
        } else {
            errors.extend(wrong);
        }
    }
    if let Some(items) = node.items.as_deref() {
        default_errors(items, &format!("{path}.items"), false, inside_meta, errors);
    }
    for (name, property) in &node.properties {
        let is_meta = embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let at = format!("{path}.properties[{name}]");
        default_errors(property, &at, false, inside_meta || is_meta, errors);
    }
}
