//! OpenAPI v2 from the parts of v3.

use super::Parts;
use serde_json::{Map, Value, json};

const V3: &str = "#/components/schemas/";
const V2: &str = "#/definitions/";
const KINDS: &str = "x-kubernetes-group-version-kind";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) paths: Map<String, Value>,
    pub(super) definitions: Map<String, Value>,
}

impl Document {
    pub(super) fn add(&mut self, part: Parts) {
        for (path, item) in part.paths {
            self.paths.insert(path, path_item(item));
        }
        for (name, published) in part.schemas {
            let present = self.definitions.get_mut(&name);
            if present.as_ref().is_some_and(|schema| schema.get(KINDS).is_none()) {
                continue;
            }
            let mut schema: Value = serde_json::from_str(published.json.get()).unwrap_or_default();
            if let Some(present) = present {
                merge_kinds(present, &mut schema);
                continue;
            }
            let kinds = schema.get_mut(KINDS).map(Value::take);
            let is_open = schema[PRESERVE] == true && schema["type"] == "object";
            if is_open {
                // kubectl would refuse each field that the schema does not list
                schema = json!({ "type": "object" });
            } else {
                node(&mut schema);
            }
            if let Some(kinds) = kinds {
                schema[KINDS] = kinds;
            }
            self.definitions.insert(name, schema);
        }
    }
}

/// `DeleteOptions` belongs to each group.
fn merge_kinds(present: &mut Value, more: &mut Value) {
    if let (Some(Value::Array(present)), Some(Value::Array(more))) =
        (present.get_mut(KINDS), more.get_mut(KINDS))
    {
        for kind in more.drain(..) {
            if !present.contains(&kind) {
                present.push(kind);
            }
        }
    }
}

fn node(value: &mut Value) {
    let Value::Object(node) = value else { return };
    if let Some(Value::Array(all)) = node.get("allOf")
        && let [only] = all.as_slice()
        && let Some(target) = only.get("$ref").cloned()
    {
        node.insert("$ref".to_owned(), target);
    }
    if let Some(Value::String(target)) = node.get_mut("$ref") {
        *target = target.replacen(V3, V2, 1);
    }
    // IntOrString and Quantity, which v2 cannot describe, are texts
    if node.contains_key("oneOf") && !node.contains_key("type") {
        node.insert("type".to_owned(), json!("string"));
    }
    for key in ["allOf", "anyOf", "oneOf", "not", "default"] {
        node.remove(key);
    }
    let is_nullable = node.remove("nullable") == Some(Value::Bool(true));
    if is_nullable {
        node.remove("type");
    }
    if is_nullable || node.get(PRESERVE) == Some(&Value::Bool(true)) {
        node.remove("items");
        node.remove("properties");
    }
    let is = |node: &Map<String, Value>, kind: &str| node.get("type").is_some_and(|found| found == kind);
    if is(node, "array") && !node.contains_key("items")
        || is(node, "object") && node.get(PRESERVE) == Some(&Value::Bool(true))
    {
        node.remove("type");
    }
    drop_nullable(node);
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(self::node);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            self::node(child);
        }
    }
}

/// A nullable field cannot be required in v2.
fn drop_nullable(node: &mut Map<String, Value>) {
    let nullable: Vec<String> = node
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, property)| property["nullable"] == true)
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|one| name == one));
        if required.is_empty() {
            node.remove("required");
        }
    }
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let converted = item.into_iter().map(|(key, value)| {
        let value = match key.as_str() {
            "parameters" => parameters(value),
            _ => operation(value),
        };
        (key, value)
    });
    Value::Object(converted.collect())
}

fn parameters(list: Value) -> Value {
    let Value::Array(list) = list else { return list };
    let flat = list.into_iter().map(|mut parameter| {
        if let (Some(Value::Object(schema)), Value::Object(parameter)) =
            (parameter.get_mut("schema").map(Value::take), &mut parameter)
        {
            parameter.remove("schema");
            parameter.extend(schema);
        }
        parameter
    });
    flat.collect()
}

fn operation(mut operation: Value) -> Value {
    let Value::Object(fields) = &mut operation else {
        return operation;
    };
    let body = fields.remove("requestBody");
    let mut own = match fields.remove("parameters").map(parameters) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let mut consumes = json!(["*/*"]);
    if let Some(mut body) = body {
        if let Some(Value::Object(content)) = body.get("content") {
            consumes = content.keys().cloned().collect();
        }
        let mut parameter = json!({"in": "body", "name": "body", "schema": schema_of(&mut body)});
        if body["required"] == true {
            parameter["required"] = json!(true);
        }
        own.insert(0, parameter);
    }
    let mut produces = json!([]);
    if let Some(Value::Object(responses)) = fields.get_mut("responses") {
        for response in responses.values_mut() {
            if let Some(Value::Object(content)) = response.get("content") {
                produces = content.keys().cloned().collect();
                response["schema"] = schema_of(response);
            }
            if let Value::Object(response) = response {
                response.remove("content");
            }
        }
    }
    if !own.is_empty() {
        fields.insert("parameters".to_owned(), own.into());
    }
    fields.insert("consumes".to_owned(), consumes);
    fields.insert("produces".to_owned(), produces);
    fields.insert("schemes".to_owned(), json!(["https"]));
    operation
}

/// The schema of the first content type: they all have the same.
fn schema_of(of: &mut Value) -> Value {
    let content = of.get_mut("content").and_then(Value::as_object_mut);
    let first = content.and_then(|content| content.values_mut().next());
    let mut schema = first.map(|media| media["schema"].take()).unwrap_or_default();
    node(&mut schema);
    schema
}
