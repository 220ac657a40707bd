//! Masks SOPS-encrypted values in Secrets like `flux build`: the ciphertext is noise, and the applied value
//! is unknown.
//!
//! Plaintext values are printed: whoever builds can read them in the files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::object::Object;
use equate_manifest::yaml;
use serde_json::{Map, Value};

const MASK: &str = "**SOPS**";
/// The mask for a value that must be a JSON object.
const MASK_JSON: &str = "{\"mask\":\"**SOPS**\"}";
const DOCKER_CONFIG: &str = "kubernetes.io/dockerconfigjson";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to mask secret {name} sops data: the value of {key:?} is not base64")]
pub(crate) struct MaskError {
    name: String,
    key: String,
}

pub(super) fn is_encrypted(object: &Object) -> bool {
    let text = yaml::to_string(&Value::Object(object.0.clone()));
    text.contains("sops:") && text.contains("mac: ENC[")
}

pub(super) fn mask(object: &mut Object) -> Result<(), MaskError> {
    if object.kind() != "Secret" {
        return Ok(());
    }
    if is_encrypted(object) {
        object.0.remove("sops");
        let docker = object.0.get("type").and_then(Value::as_str) == Some(DOCKER_CONFIG);
        let mask = if docker { MASK_JSON } else { MASK };
        for (field, mask) in [("data", STANDARD.encode(mask)), ("stringData", mask.to_owned())] {
            for value in values(object, field) {
                *value.1 = mask.as_str().into();
            }
        }
        return Ok(());
    }
    let name = object.name().to_owned();
    for (key, value) in values(object, "data") {
        let Some(text) = value.as_str() else { continue };
        let content = STANDARD
            .decode(text.replace(['\n', '\r'], ""))
            .map_err(|_| MaskError {
                name: name.clone(),
                key: key.clone(),
            })?;
        if is_document(&String::from_utf8_lossy(&content)) {
            *value = STANDARD.encode(MASK).into();
        }
    }
    for (_, value) in values(object, "stringData") {
        if value.as_str().is_some_and(is_document) {
            *value = STANDARD.encode(MASK).into();
        }
    }
    Ok(())
}

fn is_document(text: &str) -> bool {
    text.contains("sops") && text.contains("ENC[")
}

fn values<'a>(object: &'a mut Object, field: &str) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let map = object.0.get_mut(field).and_then(Value::as_object_mut);
    map.into_iter().flat_map(Map::iter_mut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(mut secret: Value, expected: &Value) {
        secret["kind"] = "Secret".into();
        secret["metadata"] = json!({"name": "s"});
        let mut object = Object::from_value(secret).unwrap();
        mask(&mut object).unwrap();
        let mut left = object.into_value();
        left.as_object_mut().unwrap().remove("metadata");
        left.as_object_mut().unwrap().remove("kind");
        assert_eq!(left, *expected);
    }

    #[test]
    fn sops_encrypted_values_are_masked() {
        let sops = json!({"mac": "ENC[AES256_GCM,data:x]"});
        let masked = STANDARD.encode(MASK);
        check(
            json!({"data": {"a": "ENC[x]"}, "stringData": {"b": "ENC[y]"}, "sops": sops}),
            &json!({"data": {"a": masked}, "stringData": {"b": MASK}}),
        );
        check(
            json!({"type": DOCKER_CONFIG, "data": {"a": "ENC[x]"}, "sops": sops}),
            &json!({"type": DOCKER_CONFIG, "data": {"a": STANDARD.encode(MASK_JSON)}}),
        );
        let file = "a: ENC[x]\nsops: {}\n";
        check(
            json!({"data": {"file": STANDARD.encode(file), "plain": STANDARD.encode("x")}, "stringData": {"file": file}}),
            &json!({"data": {"file": masked, "plain": STANDARD.encode("x")}, "stringData": {"file": masked}}),
        );
    }

    #[test]
    fn invalid_base64_is_reported_without_the_value() {
        let secret = json!({"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "secret!"}});
        let error = mask(&mut Object::from_value(secret).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to mask secret s sops data: the value of \"k\" is not base64"
        );
    }
}
