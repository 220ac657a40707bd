//! The values of a release: ConfigMaps and Secrets in order, then the inline values. Texts are upstream's
//! (fluxcd/pkg `chartutil/values.go`).
//!
//! The values of Secrets are known as texts to mask in every message that may quote them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use equate_api::helm::ValuesReference;
use equate_api::kustomize::ValuesKind;
use equate_helm::release::config_digest;
use equate_helm::values::set::{SetKind, set};
use equate_helm::values::{merge, read};
use equate_helm::{Limits, Values};
use equate_manifest::object::Object;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use serde_json::Value;

use crate::Key;
use crate::kit::inputs::{InputRef, Versions, version_of};
use crate::kit::read as kit_read;
use crate::masks::Masks;

const KEY: &str = "values.yaml";
/// The most references of one release.
const REFERENCES_MAX: usize = 64;
/// The most bytes of all values together.
const BYTES_MAX: usize = 8 << 20;

/// Composed values. `Debug` shows only the digest.
#[derive(Clone)]
pub struct Composed {
    pub(crate) values: Arc<Values>,
    pub(crate) digest: String,
    pub(crate) masks: Arc<Masks>,
    versions: Versions,
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Composed").field(&self.digest).finish()
    }
}

impl Composed {
    /// The values, with those of Secrets.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Whether a value has one of a Secret's in it, also encoded.
    pub fn hides(&self, value: &Value) -> bool {
        self.masks.hides(value)
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }
}

/// Why values cannot be composed. No message has a value of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A reference leads to no valid values.
    #[error("could not resolve{} {kind} chart values reference '{name}' with key '{key}': {why}",
        if *optional { " optional" } else { "" })]
    Reference {
        /// ConfigMap or Secret.
        kind: &'static str,
        /// Its namespace and name.
        name: Key,
        /// The key in it.
        key: String,
        /// Whether it may be missing.
        optional: bool,
        /// The cause.
        why: String,
    },
    /// The API server refused the request or did not answer.
    #[error("{0}")]
    Unreachable(String),
    /// Too many references.
    #[error("spec.valuesFrom has {0} entries; the limit is {REFERENCES_MAX}")]
    TooMany(usize),
    /// Too many bytes.
    #[error("spec.valuesFrom refers to more than {BYTES_MAX} bytes of values")]
    TooLarge,
    /// The inline values are no object.
    #[error("spec.values is not an object")]
    Inline,
}

impl ValuesError {
    /// Whether the same spec and objects give the same error.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Reference { .. } | Self::TooMany(_) | Self::TooLarge | Self::Inline => true,
            Self::Unreachable(_) => false,
        }
    }
}

/// The ConfigMaps and Secrets in which references are looked up.
#[derive(Clone, Copy)]
pub struct Holders<'a> {
    /// These come first. Encrypted ones do not count.
    pub given: &'a [Object],
    /// The cluster with the others.
    pub client: Option<&'a Client>,
}

impl fmt::Debug for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = if self.client.is_some() {
            " and a cluster"
        } else {
            ""
        };
        write!(f, "{} objects{cluster}", self.given.len())
    }
}

impl<'a> From<&'a Client> for Holders<'a> {
    fn from(client: &'a Client) -> Self {
        Self {
            given: &[],
            client: Some(client),
        }
    }
}

impl Holders<'_> {
    /// Whether a reference of this namespace is to one of the given objects.
    pub fn gives(&self, namespace: &str, reference: &ValuesReference) -> bool {
        self.given((reference.kind, &Key::new(namespace, &*reference.name)))
            .is_some()
    }

    fn given(&self, (kind, name): (ValuesKind, &Key)) -> Option<&Object> {
        self.given.iter().find(|object| {
            object.kind() == kind.as_str()
                && object.api_version() == "v1"
                && object.name() == name.name
                && (object.namespace() == name.namespace || object.namespace().is_empty())
                && !object.0.contains_key("sops")
        })
    }
}

enum Found {
    ConfigMap(ConfigMap),
    Secret(Secret),
}

impl Found {
    fn version(&self) -> Option<u64> {
        let metadata = match self {
            Self::ConfigMap(map) => &map.metadata,
            Self::Secret(secret) => &secret.metadata,
        };
        version_of(metadata)
    }

    /// The bytes of a key.
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        match self {
            Self::ConfigMap(map) => map.data.as_ref()?.get(key).map(|text| text.clone().into_bytes()),
            // only a given one has texts
            Self::Secret(secret) => {
                let text = secret.string_data.as_ref().and_then(|texts| texts.get(key));
                match text {
                    Some(text) => Some(text.clone().into_bytes()),
                    None => secret.data.as_ref()?.get(key).map(|bytes| bytes.0.clone()),
                }
            }
        }
    }
}

/// Reads and merges all values.
///
/// # Errors
/// A reference that is not optional cannot be read, or is no valid values.
pub async fn compose<'a>(
    holders: impl Into<Holders<'a>>,
    namespace: &str,
    inline: Option<&Value>,
    references: &[ValuesReference],
) -> Result<Composed, ValuesError> {
    compose_with_versions(
        holders.into(),
        namespace,
        inline,
        references,
        &mut Versions::default(),
    )
    .await
}

/// Like [`compose`], with the versions of what was read, also before an error.
pub(crate) async fn compose_with_versions(
    holders: Holders<'_>,
    namespace: &str,
    inline: Option<&Value>,
    references: &[ValuesReference],
    versions: &mut Versions,
) -> Result<Composed, ValuesError> {
    if references.len() > REFERENCES_MAX {
        return Err(ValuesError::TooMany(references.len()));
    }
    let inline = match inline {
        None | Some(Value::Null) => Values::new(),
        Some(Value::Object(values)) => values.clone(),
        Some(_) => return Err(ValuesError::Inline),
    };
    let mut known: HashMap<InputRef, Option<Found>> = HashMap::new();
    let (mut result, mut masks, mut bytes) = (Values::new(), Masks::default(), 0);
    for reference in references {
        let name = Key::new(namespace, &*reference.name);
        let key = reference
            .values_key
            .as_deref()
            .filter(|key| !key.is_empty())
            .unwrap_or(KEY);
        let failed = |why: String| ValuesError::Reference {
            kind: reference.kind.as_str(),
            name: name.clone(),
            key: key.to_owned(),
            optional: reference.optional,
            why,
        };
        let holder = (reference.kind, name.clone());
        if !known.contains_key(&holder) {
            let found = look(holders, &holder).await?;
            versions.push(holder.clone(), found.as_ref().and_then(Found::version));
            known.insert(holder.clone(), found);
        }
        let Some(Some(found)) = known.get(&holder) else {
            if reference.optional {
                continue;
            }
            let kind = reference.kind.as_str().to_lowercase();
            return Err(failed(format!("{kind}s {:?} not found", reference.name)));
        };
        let Some(data) = found.get(key) else {
            if reference.optional {
                continue;
            }
            return Err(failed("key not found".to_owned()));
        };
        bytes += data.len();
        if bytes > BYTES_MAX {
            return Err(ValuesError::TooLarge);
        }
        let secret = reference.kind == ValuesKind::Secret;
        if secret {
            masks.add_bytes(&data);
        }
        let masked = |why: String| {
            if secret {
                "the values are not valid".to_owned()
            } else {
                why
            }
        };
        let text = String::from_utf8(data).map_err(|_| failed("the value is not UTF-8".to_owned()))?;
        match reference.target_path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => {
                result = merge(result, inline.clone());
                set_at(&mut result, path, &text, reference.literal).map_err(|why| failed(masked(why)))?;
            }
            None => {
                let values =
                    read(&text, &Limits::default()).map_err(|error| failed(masked(error.to_string())))?;
                if secret {
                    mask_leaves(&mut masks, &Value::Object(values.clone()));
                }
                result = merge(result, values);
            }
        }
    }
    let values = merge(result, inline);
    Ok(Composed {
        digest: config_digest(&values),
        values: Arc::new(values),
        masks: Arc::new(masks),
        versions: versions.clone(),
    })
}

async fn look(holders: Holders<'_>, (kind, name): &InputRef) -> Result<Option<Found>, ValuesError> {
    if let Some(object) = holders.given((*kind, name)) {
        return given(*kind, object).map(Some);
    }
    let Some(client) = holders.client else {
        return Ok(None);
    };
    let unreachable = |error: kit_read::ReadError| ValuesError::Unreachable(error.to_string());
    match kind {
        ValuesKind::ConfigMap => {
            let found = kit_read::read::<ConfigMap>(client, &name.namespace, &name.name).await;
            Ok(found.map_err(unreachable)?.map(Found::ConfigMap))
        }
        ValuesKind::Secret => {
            let found = kit_read::read::<Secret>(client, &name.namespace, &name.name).await;
            Ok(found.map_err(unreachable)?.map(Found::Secret))
        }
    }
}

fn given(kind: ValuesKind, object: &Object) -> Result<Found, ValuesError> {
    let value = Value::Object(object.0.clone());
    let found = match kind {
        ValuesKind::ConfigMap => serde_json::from_value(value).map(Found::ConfigMap),
        ValuesKind::Secret => serde_json::from_value(value).map(Found::Secret),
    };
    // the cause may quote a value
    found.map_err(|_| ValuesError::Unreachable(format!("{kind} {} is not valid", object.name())))
}

/// Sets a value at a path as `helm --set` does: a quoted one as text, a literal one verbatim.
fn set_at(values: &mut Values, path: &str, value: &str, literal: bool) -> Result<(), String> {
    let limits = Limits::default();
    let quoted = |quote: char| value.len() > 1 && value.starts_with(quote) && value.ends_with(quote);
    let (text, kind) = match (literal, quoted('\'') || quoted('"')) {
        (true, _) => {
            let mut escaped = String::with_capacity(value.len());
            for character in value.chars() {
                if r"\,[]{}".contains(character) {
                    escaped.push('\\');
                }
                escaped.push(character);
            }
            (format!("{path}={escaped}"), SetKind::Text)
        }
        (false, true) => (
            format!("{path}={}", value.trim_matches(['\'', '"'])),
            SetKind::Text,
        ),
        (false, false) => (format!("{path}={value}"), SetKind::Typed),
    };
    set(values, &text, kind, &limits).map_err(|error| error.to_string())
}

fn mask_leaves(masks: &mut Masks, value: &Value) {
    match value {
        Value::String(text) => masks.add(text),
        Value::Array(items) => items.iter().for_each(|item| mask_leaves(masks, item)),
        Value::Object(map) => map.values().for_each(|item| mask_leaves(masks, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_set_at_paths() {
        let check = |value: &str, literal: bool, expected: Value| {
            let mut values = Values::new();
            set_at(&mut values, "a.b", value, literal).unwrap();
            assert_eq!(
                Value::Object(values),
                json!({ "a": { "b": expected } }),
                "{value}"
            );
        };
        check("3", false, json!(3));
        check("true", false, json!(true));
        check("text", false, json!("text"));
        check("\"3\"", false, json!("3"));
        check("'x'", false, json!("x"));
        check("{a,b}", false, json!(["a", "b"]));
        check("{a,b}=[1]\\", true, json!("{a,b}=[1]\\"));
        let mut values = Values::new();
        assert!(set_at(&mut values, "a", "b,c", false).is_err());
    }
}
