use super::{Fault, apply};
use crate::schema::Schema;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The type used to record the goldens (`goldens/README.md`): one struct, every way of patching a field.
fn part() -> Schema {
    let string = json!({"type": "string"});
    let strings = json!({"type": "array", "items": string});
    let own = json!({"$ref": "#/components/schemas/test.v1.Part"});
    let owns = json!({"type": "array", "items": {"allOf": [own]}});
    let with = |schema: &Value, strategy: &str, key: &str| {
        let mut schema = schema.clone();
        schema["x-kubernetes-patch-strategy"] = strategy.into();
        if !key.is_empty() {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
        schema
    };
    serde_json::from_value(json!({
        "type": "object",
        "properties": {
            "name": string, "other": string, "count": {"type": "integer"},
            "tags": with(&strings, "merge", ""),
            "ports": with(&owns, "merge", "count"),
            "parts": with(&owns, "merge", "name"),
            "volumes": with(&owns, "merge,retainKeys", "name"),
            "steps": owns,
            "args": strings,
            "labels": {"type": "object", "additionalProperties": string},
            "maps": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": string}},
            "inner": own,
            "choice": with(&own, "retainKeys", ""),
            "whole": with(&own, "replace", ""),
            "nokey": with(&owns, "merge", ""),
        },
    }))
    .unwrap()
}

fn run(original: Value, patch: &Value) -> Result<Value, super::StrategicError> {
    let definitions = BTreeMap::from([("test.v1.Part", part())]);
    let root: Schema = serde_json::from_value(json!({"$ref": "test.v1.Part"})).unwrap();
    apply(original, patch, &root, |name| definitions.get(name))
}

#[test]
fn agrees_with_the_real_package() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("../goldens/strategic.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let got = match run(case["original"].clone(), &case["patch"]) {
            Ok(value) => json!({"result": value}),
            Err(error) => json!({"error": error.to_string()}),
        };
        let (key, value) = got.as_object().unwrap().iter().next().unwrap();
        if case.get(key) != Some(value) {
            failures.push(format!("{line}\n  got {got}"));
        }
    }
    assert!(count >= 1000);
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        failures[..failures.len().min(5)].join("\n")
    );
}

#[test]
fn errors_map_to_upstream_responses() {
    #[track_caller]
    fn check(original: Value, patch: impl std::borrow::Borrow<Value>, text: &str, fault: Fault) {
        let error = run(original, patch.borrow()).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.fault()), (text, fault));
    }
    check(
        json!({}),
        json!([]),
        "json: cannot unmarshal array into Go value of type map[string]interface {}",
        Fault::BadRequest,
    );
    check(
        json!({}),
        json!({"$deleteFromPrimitiveListtags": []}),
        "invalid patch format of primitive list",
        Fault::BadRequest,
    );
    check(
        json!({}),
        json!({"$retainKeys": "x"}),
        "invalid patch format of retainKeys",
        Fault::BadRequest,
    );
    check(
        json!({"tags": [["a"]]}),
        json!({"tags": ["b"]}),
        "lists of lists are not supported",
        Fault::Unprocessable,
    );
    check(
        json!({"maps": {"a": {"b": "c"}}}),
        json!({"maps": {"a": {"b": "d"}}}),
        "merging an object in json but data type is not struct, instead is: map",
        Fault::Internal,
    );
}
