//! ConversionReview: the question to a webhook, and the checks of its answer.

use crate::builtin;
use crate::builtin::tree::text;
use crate::registry::NameRule;
use serde_json::{Map, Value, json};

const GROUP: &str = "apiextensions.k8s.io";

pub(super) struct Question {
    id: String,
    version: &'static str,
    pub(super) body: Vec<u8>,
}

/// In the first version of the webhook that this server speaks.
pub(super) fn question(spoken: &[String], objects: &[Value], wanted: &str) -> Result<Question, String> {
    let known = spoken.iter().find_map(|version| match version.as_str() {
        "v1" => Some("v1"),
        "v1beta1" => Some("v1beta1"),
        _ => None,
    });
    let version = known.ok_or_else(|| "no supported conversion review versions".to_owned())?;
    let id = uuid::Uuid::new_v4().to_string();
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": format!("{GROUP}/{version}"),
        "request": { "uid": id, "desiredAPIVersion": wanted, "objects": objects },
    });
    Ok(Question {
        id,
        version,
        body: review.to_string().into_bytes(),
    })
}

impl Question {
    /// The converted objects, or why there are none.
    pub(super) fn answer(&self, bytes: &[u8]) -> Result<Vec<Value>, String> {
        let review: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("the answer is not JSON: {error}"))?;
        let (strict, wanted) = (self.version == "v1", format!("{GROUP}/{}", self.version));
        if strict && (review["apiVersion"] != *wanted || review["kind"] != "ConversionReview") {
            return Err(format!(
                "expected webhook response of {wanted}, Kind=ConversionReview, got {}",
                kind(&review)
            ));
        }
        let response = &review["response"];
        if response.is_null() {
            return Err("no response provided".to_owned());
        }
        let uid = text(response, "uid");
        if strict && uid != self.id {
            return Err(format!("expected response.uid={:?}, got {uid:?}", self.id));
        }
        let (status, message) = (text(response, "result.status"), text(response, "result.message"));
        match (status, message) {
            ("Success", _) => {}
            (status, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
            (_, message) => return Err(message.to_owned()),
        }
        Ok(response["convertedObjects"]
            .as_array()
            .cloned()
            .unwrap_or_default())
    }
}

/// Go's text of an object's kind: `example.com/v1, Kind=Widget`.
pub(super) fn kind(object: &Value) -> String {
    let api_version = text(object, "apiVersion");
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", text(object, "kind"))
}

/// The objects that a webhook returned, with all metadata but labels and annotations as before.
pub(super) fn checked(
    before: &[Value],
    mut converted: Vec<Value>,
    wanted: &str,
) -> Result<Vec<Value>, String> {
    if converted.len() != before.len() {
        return Err(format!(
            "conversion webhook for {} returned {} objects, expected {}",
            before.first().map(kind).unwrap_or_default(),
            converted.len(),
            before.len()
        ));
    }
    for (at, (old, new)) in before.iter().zip(&mut converted).enumerate() {
        let returned = |what: String| format!("conversion webhook for {} returned {what}", kind(old));
        let (given, version) = (text(new, "kind"), text(new, "apiVersion"));
        if version != wanted {
            return Err(returned(format!(
                "invalid object at index {at}: invalid groupVersion (expected {wanted}, received {version})"
            )));
        }
        if given != text(old, "kind") {
            return Err(returned(format!(
                "invalid object at index {at}: invalid kind (expected {}, received {given})",
                text(old, "kind")
            )));
        }
        for (name, path) in [
            ("name", "metadata.name"),
            ("namespace", "metadata.namespace"),
            ("UID", "metadata.uid"),
        ] {
            let (expected, got) = (text(old, path), text(new, path));
            if expected != got {
                return Err(returned(format!(
                    "invalid object: must have the same {name}: {expected} != {got}"
                )));
            }
        }
        restore(old, new).map_err(|why| returned(format!("invalid metadata: {why}")))?;
    }
    Ok(converted)
}

fn restore(old: &Value, new: &mut Value) -> Result<(), String> {
    let returned = match new.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(map)) => map.clone(),
        Some(other) => {
            return Err(format!(
                "invalid metadata of type {} in converted object",
                go_type(other)
            ));
        }
    };
    let mut metadata = match old.get("metadata") {
        Some(Value::Object(map)) => map.clone(),
        _ => Map::new(),
    };
    let mut changed = Vec::new();
    for field in ["labels", "annotations"] {
        let map = match returned.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(map)) => map,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go_type(other)
                ));
            }
        };
        if let Some((key, value)) = map.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_type(value)
            ));
        }
        if metadata.get(field).and_then(Value::as_object) != Some(map) {
            changed.push(field);
        }
        metadata.insert(field.to_owned(), Value::Object(map.clone()));
    }
    new["metadata"] = Value::Object(metadata);
    for field in changed {
        let prefix = format!("metadata.{field}");
        // The name is not checked here, so any rule does.
        let errors: Vec<String> = builtin::validate_object_meta(new, NameRule::PathSegment, true)
            .iter()
            .filter(|error| error.field.starts_with(&prefix))
            .map(ToString::to_string)
            .collect();
        match errors.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            all => return Err(format!("[{}]", all.join(", "))),
        }
    }
    Ok(())
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widget(version: &str) -> Value {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": { "name": "a", "namespace": "n", "uid": "u", "labels": { "a": "1" } },
        })
    }

    #[test]
    fn answer_must_be_one_to_the_question() {
        let question = question(
            &["v2".to_owned(), "v1".to_owned()],
            &[widget("v1")],
            "example.com/v2",
        )
        .unwrap();
        let check = |change: &dyn Fn(&mut Value), expected: Result<usize, String>| {
            let mut review = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": {
                    "uid": question.id, "result": { "status": "Success" }, "convertedObjects": [widget("v2")],
                },
            });
            change(&mut review);
            let got = question.answer(review.to_string().as_bytes());
            assert_eq!(got.map(|objects| objects.len()), expected, "{review}");
        };
        check(&|_| {}, Ok(1));
        check(
            &|review| review["apiVersion"] = json!("apiextensions.k8s.io/v1beta1"),
            Err(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got \
                 apiextensions.k8s.io/v1beta1, Kind=ConversionReview"
                    .to_owned(),
            ),
        );
        check(
            &|review| review["response"] = Value::Null,
            Err("no response provided".to_owned()),
        );
        check(
            &|review| review["response"]["uid"] = json!("x"),
            Err(format!("expected response.uid={:?}, got \"x\"", question.id)),
        );
        check(
            &|review| review["response"]["result"] = json!({ "status": "Failure", "message": "no" }),
            Err("no".to_owned()),
        );
        check(
            &|review| review["response"]["result"] = json!({}),
            Err("response.result.status was '', not 'Success'".to_owned()),
        );
    }

    #[test]
    fn only_labels_and_annotations_may_change() {
        let check = |change: &dyn Fn(&mut Value), expected: Result<Value, &str>| {
            let mut new = widget("v2");
            change(&mut new);
            let got = checked(&[widget("v1")], vec![new], "example.com/v2").map(|mut all| all.remove(0));
            let expected =
                expected.map_err(|why| format!("conversion webhook for example.com/v1, Kind=Widget {why}"));
            assert_eq!(got.map(|mut object| object["metadata"].take()), expected);
        };
        let metadata = |labels: Value| json!({ "name": "a", "namespace": "n", "uid": "u", "labels": labels });
        check(
            &|new| {
                new["metadata"]["labels"] = json!({ "b": "2" });
                new["metadata"]["generation"] = json!(7);
                new["metadata"]["finalizers"] = json!(["x/y"]);
            },
            Ok(metadata(json!({ "b": "2" }))),
        );
        check(
            &|new| new["metadata"]["labels"] = Value::Null,
            Ok(json!({ "name": "a", "namespace": "n", "uid": "u" })),
        );
        check(
            &|new| new["metadata"]["uid"] = json!("v"),
            Err("returned invalid object: must have the same UID: u != v"),
        );
        check(
            &|new| new["metadata"]["name"] = json!("b"),
            Err("returned invalid object: must have the same name: a != b"),
        );
        check(
            &|new| new["apiVersion"] = json!("example.com/v3"),
            Err(
                "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received \
                 example.com/v3)",
            ),
        );
        check(
            &|new| new["kind"] = json!("Gadget"),
            Err("returned invalid object at index 0: invalid kind (expected Widget, received Gadget)"),
        );
        check(
            &|new| new["metadata"]["labels"] = json!({ "b": 2 }),
            Err(
                "returned invalid metadata: metadata.labels[b] must be a string, but is int64 in converted object",
            ),
        );
        check(
            &|new| new["metadata"]["labels"] = json!([]),
            Err(
                "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object",
            ),
        );
        let none = checked(&[widget("v1")], Vec::new(), "example.com/v2");
        assert_eq!(
            none,
            Err(
                "conversion webhook for example.com/v1, Kind=Widget returned 0 objects, expected 1"
                    .to_owned()
            )
        );
    }
}
