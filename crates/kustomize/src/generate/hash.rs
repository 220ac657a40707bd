//! The hash suffix of generated names.

use crate::resource::{Resource, scalar_text};
use equate_manifest::json::to_go_string;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The name that goes into the hash: kustomize looks it up under a path no object has, so it is empty.
const NAME: &str = "";

/// Ten characters of a hash over the content, from an alphabet that cannot spell words.
pub(crate) fn suffix(resource: &Resource) -> String {
    let encoded = match resource.kind() {
        "ConfigMap" => config_map(resource),
        "Secret" => secret(resource),
        _ => to_go_string(&Value::Object(resource.object.0.clone())),
    };
    let digest = Sha256::digest(encoded.as_bytes());
    let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    hex.chars()
        .map(|c| match c {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        })
        .collect()
}

fn config_map(resource: &Resource) -> String {
    let mut content = Map::new();
    content.insert("kind".to_owned(), "ConfigMap".into());
    content.insert("name".to_owned(), NAME.into());
    content.insert("data".to_owned(), field(resource, "data"));
    if let Some(binary) = resource
        .object
        .0
        .get("binaryData")
        .filter(|value| value.is_object())
    {
        content.insert("binaryData".to_owned(), binary.clone());
    }
    to_go_string(&Value::Object(content))
}

fn secret(resource: &Resource) -> String {
    let mut content = Map::new();
    content.insert("kind".to_owned(), "Secret".into());
    content.insert("name".to_owned(), NAME.into());
    content.insert("type".to_owned(), field(resource, "type"));
    content.insert("data".to_owned(), field(resource, "data"));
    if let Some(texts) = resource
        .object
        .0
        .get("stringData")
        .filter(|value| value.is_object())
    {
        content.insert("stringData".to_owned(), texts.clone());
    }
    to_go_string(&Value::Object(content))
}

/// The field, or its text; empty if absent.
fn field(resource: &Resource, name: &str) -> Value {
    match resource.object.0.get(name) {
        None => "".into(),
        Some(value) => match scalar_text(value) {
            Some(text) => text.into(),
            None => value.clone(),
        },
    }
}
