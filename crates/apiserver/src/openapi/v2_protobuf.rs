//! OpenAPI v2 in protobuf, which client-go asks for alone.
//!
//! The messages are those of gnostic, `openapiv2/OpenAPIv2.proto`. A table gives each member of the JSON
//! document its field; members that begin with `x-` become extensions, as YAML.

use equate_manifest::schema::protobuf::{put_bytes, put_double, put_number};
use serde_json::Value;

/// A message: the member of JSON, the field's number, its form.
type Message = &'static [(&'static str, u32, Form)];

enum Form {
    Text,
    Bool,
    Int,
    Double,
    /// Any value, as YAML.
    Yaml,
    Message(fn(&Value) -> Vec<u8>),
}

use Form::{Bool, Double, Int, Text, Yaml};

const DOCUMENT: Message = &[
    ("swagger", 1, Text),
    ("info", 2, Form::Message(|info| message(INFO, 7, info))),
    ("paths", 8, Form::Message(|paths| named(2, paths, path_item))),
    ("definitions", 9, Form::Message(|all| named(1, all, schema))),
    (
        "security",
        12,
        Form::Message(|all| named(1, all, |texts| message(&[("value", 1, Text)], 0, &wrapped(texts)))),
    ),
    (
        "securityDefinitions",
        13,
        Form::Message(|all| named(1, all, security)),
    ),
];

const INFO: Message = &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)];

const API_KEY: Message = &[
    ("type", 1, Text),
    ("name", 2, Text),
    ("in", 3, Text),
    ("description", 4, Text),
];

const SCHEMA: Message = &[
    ("$ref", 1, Text),
    ("format", 2, Text),
    ("title", 3, Text),
    ("description", 4, Text),
    ("default", 5, Yaml),
    ("multipleOf", 6, Double),
    ("maximum", 7, Double),
    ("exclusiveMaximum", 8, Bool),
    ("minimum", 9, Double),
    ("exclusiveMinimum", 10, Bool),
    ("maxLength", 11, Int),
    ("minLength", 12, Int),
    ("pattern", 13, Text),
    ("maxItems", 14, Int),
    ("minItems", 15, Int),
    ("uniqueItems", 16, Bool),
    ("maxProperties", 17, Int),
    ("minProperties", 18, Int),
    ("required", 19, Text),
    ("enum", 20, Yaml),
    ("additionalProperties", 21, Form::Message(additional_properties)),
    ("items", 23, Form::Message(|items| field(1, &schema(items)))),
    ("properties", 25, Form::Message(|all| named(1, all, schema))),
    (
        "externalDocs",
        29,
        Form::Message(|docs| message(&[("description", 1, Text), ("url", 2, Text)], 3, docs)),
    ),
    ("example", 30, Yaml),
];

const PATH_ITEM: Message = &[
    ("get", 2, Form::Message(operation)),
    ("put", 3, Form::Message(operation)),
    ("post", 4, Form::Message(operation)),
    ("delete", 5, Form::Message(operation)),
    ("options", 6, Form::Message(operation)),
    ("head", 7, Form::Message(operation)),
    ("patch", 8, Form::Message(operation)),
    ("parameters", 9, Form::Message(parameter)),
];

const OPERATION: Message = &[
    ("tags", 1, Text),
    ("summary", 2, Text),
    ("description", 3, Text),
    ("operationId", 5, Text),
    ("produces", 6, Text),
    ("consumes", 7, Text),
    ("parameters", 8, Form::Message(parameter)),
    (
        "responses",
        9,
        Form::Message(|all| named(1, all, |one| field(1, &message(RESPONSE, 5, one)))),
    ),
    ("schemes", 10, Text),
];

const RESPONSE: Message = &[
    ("description", 1, Text),
    ("schema", 2, Form::Message(|found| field(1, &schema(found)))),
];

const BODY: Message = &[
    ("description", 1, Text),
    ("name", 2, Text),
    ("in", 3, Text),
    ("required", 4, Bool),
    ("schema", 5, Form::Message(schema)),
];

const QUERY: Message = &[
    ("required", 1, Bool),
    ("in", 2, Text),
    ("description", 3, Text),
    ("name", 4, Text),
    ("type", 6, Text),
    ("format", 7, Text),
    ("uniqueItems", 20, Bool),
];

/// Parameters of paths and headers.
const OTHER: Message = &[
    ("required", 1, Bool),
    ("in", 2, Text),
    ("description", 3, Text),
    ("name", 4, Text),
    ("type", 5, Text),
    ("format", 6, Text),
    ("uniqueItems", 19, Bool),
];

pub(super) fn encode(document: &Value) -> Vec<u8> {
    message(DOCUMENT, 16, document)
}

fn path_item(item: &Value) -> Vec<u8> {
    message(PATH_ITEM, 10, item)
}

fn operation(operation: &Value) -> Vec<u8> {
    message(OPERATION, 13, operation)
}

fn security(definition: &Value) -> Vec<u8> {
    field(2, &message(API_KEY, 5, definition))
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut out = message(SCHEMA, 31, schema);
    if let Some(kind) = schema["type"].as_str() {
        put_bytes(&mut out, 22, &field(1, kind.as_bytes()));
    }
    out
}

fn additional_properties(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(allowed) => {
            let mut out = Vec::new();
            put_number(&mut out, 2, u64::from(*allowed));
            out
        }
        value => field(1, &schema(value)),
    }
}

fn parameter(parameter: &Value) -> Vec<u8> {
    let parameter = match parameter["in"].as_str() {
        Some("body") => field(1, &message(BODY, 6, parameter)),
        Some("query") => field(2, &field(3, &message(QUERY, 23, parameter))),
        Some("header") => field(2, &field(1, &message(OTHER, 22, parameter))),
        _ => field(2, &field(4, &message(OTHER, 22, parameter))),
    };
    field(1, &parameter)
}

fn wrapped(texts: &Value) -> Value {
    serde_json::json!({ "value": texts })
}

/// A list in JSON becomes a repeated field. `extension` is the field of extensions; 0 for none.
fn message(members: Message, extension: u32, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, form) in members {
        match value.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => items.iter().for_each(|item| put(&mut out, *number, form, item)),
            Some(item) => put(&mut out, *number, form, item),
        }
    }
    let extensions = value.as_object().into_iter().flatten();
    for (name, value) in extensions.filter(|(name, _)| extension != 0 && name.starts_with("x-")) {
        put_bytes(&mut out, extension, &entry(name, &any(value)));
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, form: &Form, value: &Value) {
    match form {
        Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Bool => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        // a length is not negative
        Int => put_number(out, number, value.as_u64().unwrap_or_default()),
        Double => put_double(out, number, value.as_f64().unwrap_or_default()),
        Yaml => put_bytes(out, number, &any(value)),
        Form::Message(make) => put_bytes(out, number, &make(value)),
    }
}

/// A map as a list of names and values.
fn named(number: u32, map: &Value, make: fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in map.as_object().into_iter().flatten() {
        put_bytes(&mut out, number, &entry(name, &make(value)));
    }
    out
}

fn entry(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = field(1, name.as_bytes());
    put_bytes(&mut out, 2, value);
    out
}

/// JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    field(2, value.to_string().as_bytes())
}

fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 4);
    put_bytes(&mut out, number, bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_has_gnostics_fields() {
        let check = |value: Value, expected: &[u8]| assert_eq!(schema(&value), expected, "{value}");
        check(json!({ "type": "string" }), b"\xb2\x01\x08\x0a\x06string");
        check(json!({ "$ref": "#/d" }), b"\x0a\x03#/d");
        check(json!({ "required": ["a", "b"] }), b"\x9a\x01\x01a\x9a\x01\x01b");
        check(json!({ "additionalProperties": true }), b"\xaa\x01\x02\x10\x01");
        check(
            json!({ "properties": { "a": { "format": "x" } } }),
            b"\xca\x01\x0a\x0a\x08\x0a\x01a\x12\x03\x12\x01x",
        );
        check(
            json!({ "x-k": [1] }),
            b"\xfa\x01\x0c\x0a\x03x-k\x12\x05\x12\x03[1]",
        );
        check(json!({ "minimum": 1 }), b"\x49\0\0\0\0\0\0\xf0\x3f");
    }

    #[test]
    fn parameters_are_told_apart() {
        let check = |value: Value, expected: &[u8]| assert_eq!(parameter(&value), expected, "{value}");
        check(
            json!({ "in": "body", "name": "b" }),
            b"\x0a\x0b\x0a\x09\x12\x01b\x1a\x04body",
        );
        check(
            json!({ "in": "path", "name": "p" }),
            b"\x0a\x0d\x12\x0b\x22\x09\x12\x04path\x22\x01p",
        );
    }
}
