//! What a CustomResourceDefinition's schema must be: structural, with defaults that hold and rules that compile.
//!
//! Works on the schema as written, because it must see what the typed form
//! does not hold (`definitions`, `patternProperties`, ...). Texts and order are
//! apiextensions-apiserver's (1.36); where its order follows Go's maps, ours
//! follows the names.

use super::node::Node;
use super::{embedded, formats, prune, rules, selectable, values};
use crate::field::{FieldError, FieldErrorKind, go_quote};
use equate_manifest::schema::{Schema, SchemaType, ValidationRule};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What is wrong with `openAPIV3Schema`. `has_status` limits what may stand at its root.
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

/// The schema compiled with its rules.
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

/// Every schema below and including this one.
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

/// Whether a default stands anywhere in the schema.
pub(super) fn has_defaults(schema: &Value) -> bool {
    let mut found = false;
    each(schema, &mut |s| found |= present(s, "default").is_some());
    found
}

/// Adds the formats that mean nothing to the server.
pub(super) fn unrecognized_formats(schema: &Value, found: &mut Vec<String>) {
    each(schema, &mut |s| {
        let format = text(s, "format");
        let kind = present(s, "type").and_then(|t| SchemaType::deserialize(t).ok());
        if !format.is_empty() && !formats::is_recognized(format, kind, false) {
            found.push(format.to_owned());
        }
    });
}

// ---- the root ----

/// The only fields a root schema may set beside a status subresource: JSON name, Go name, in Go's order.
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

// ---- structurality ----

/// Why the schema cannot be taken as structural at all.
fn unsupported(schema: &Value, depth: usize) -> Option<String> {
    if depth > super::node::SCHEMA_DEPTH_MAX {
        return Some(super::node::TooDeep.to_string());
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
enum Level {
    Root,
    Item,
    Field,
}

fn invariants(s: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
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

/// Whether a root's `metadata` restricts nothing but `name` and `generateName`.
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

/// Why a pattern does not compile, as Go's `regexp` says it for the common mistakes.
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

/// Inside a combinator nothing structural may stand.
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

/// What combinators speak of must be declared outside of them.
fn completeness(v: &Value, s: &Value, s_path: &str, v_path: &str, errors: &mut Vec<FieldError>) {
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

// ---- defaults ----

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
                // A default must hold when it is introduced, and when it is what stood there before.
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

// ---- OpenAPI and the extensions ----

#[derive(Clone)]
struct Walk {
    inside_meta: bool,
    no_defaults: Option<String>,
    /// The outermost list whose items have no counterpart in the stored object.
    uncorrelatable: Option<String>,
    is_root: bool,
}

#[derive(Default)]
struct Found {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
    }
}

fn openapi(s: &Value, node: Option<&Node>, path: &str, walk: &Walk) -> Found {
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

// ---- rules ----

/// A rule as an error shows it: the internal type has Go's field names, in Go's order.
fn shown_rule(rule: &ValidationRule) -> String {
    let quote = |s: &str| super::go::escaped(&json!(s).to_string());
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
    // Rules are compiled only where nothing at this level or below is wrong.
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
