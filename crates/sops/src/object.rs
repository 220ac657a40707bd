//! Decrypts Kubernetes objects of a build, as Flux does.
//!
//! An object with `sops.mac` was encrypted as a manifest: its values are decrypted in place and `sops` is
//! removed. In another Secret, each entry that looks like an encrypted file is decrypted, in the format of
//! its name; a generator put it there.
//!
//! A build changes objects, so the MAC is not checked. Each value is still bound to its place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};

use crate::decrypter::{Decrypter, FileError, Integrity};
use crate::format::Format;
use crate::tree::{Entry, Node};

const ANNOTATION: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// The reason why an object is not decrypted.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object cannot be decrypted.
    #[error("it cannot be decrypted")]
    Whole(#[source] FileError),
    /// An entry of a Secret cannot be decrypted.
    #[error("data.{entry} cannot be decrypted")]
    Entry {
        /// The entry's name.
        entry: String,
        /// The reason.
        #[source]
        source: FileError,
    },
    /// A number that SOPS would change.
    #[error("the value at {0}: a number beyond 64 bits, which SOPS cannot store; quote it")]
    Number(String),
    /// A decrypted value cannot be stored in JSON.
    #[error("one of its values is not text")]
    NotText,
}

impl Decrypter<'_> {
    /// Decrypts an object in place. Returns whether anything was encrypted. After an error the object is
    /// unchanged, except for earlier entries of a Secret.
    pub fn object(&self, object: &mut Value) -> Result<bool, ObjectError> {
        let Value::Object(map) = object else {
            return Ok(false);
        };
        if is_excepted(map) {
            return Ok(false);
        }
        if is_encrypted(map) {
            self.whole(map)?;
            return Ok(true);
        }
        let is_secret = map.get("kind").and_then(Value::as_str) == Some("Secret");
        match map.get_mut("data") {
            Some(Value::Object(data)) if is_secret => self.data(data),
            _ => Ok(false),
        }
    }

    fn whole(&self, map: &mut Map<String, Value>) -> Result<(), ObjectError> {
        let mut entries = to_entries(map, "")?;
        self.open_rebuilt(&mut entries).map_err(ObjectError::Whole)?;
        *map = to_map(entries)?;
        Ok(())
    }

    fn data(&self, data: &mut Map<String, Value>) -> Result<bool, ObjectError> {
        let files = self.with_integrity(Integrity::Skipped);
        let mut any = false;
        for (entry, value) in data {
            // invalid base64 is left to the API server
            let Some(bytes) = value.as_str().and_then(decode) else {
                continue;
            };
            let Some(from) = Format::of_encrypted(&bytes) else {
                continue;
            };
            let opened = files
                .decrypt(&bytes, from, Format::of_path(entry))
                .map_err(|source| ObjectError::Entry {
                    entry: entry.clone(),
                    source,
                })?;
            *value = STANDARD.encode(opened.expose_secret()).into();
            any = true;
        }
        Ok(any)
    }
}

/// Go's decoder: generators break lines.
fn decode(text: &str) -> Option<Vec<u8>> {
    let packed: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    STANDARD.decode(packed).ok()
}

fn is_excepted(map: &Map<String, Value>) -> bool {
    let annotations = map
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    let annotation = annotations.and_then(|all| all.get(ANNOTATION));
    annotation
        .and_then(Value::as_str)
        .is_some_and(|value| value.eq_ignore_ascii_case("disabled"))
}

fn is_encrypted(map: &Map<String, Value>) -> bool {
    let mac = map.get("sops").and_then(|sops| sops.get("mac"));
    mac.is_some_and(|mac| !mac.is_null() && mac.as_str() != Some(""))
}

/// `above`: the keys that lead here, each with a trailing dot.
fn to_entries(map: &Map<String, Value>, above: &str) -> Result<Vec<Entry>, ObjectError> {
    let pairs = map.iter().map(|(key, value)| {
        Ok(Entry::Pair {
            key: key.clone(),
            value: to_node(value, above, key)?,
        })
    });
    pairs.collect()
}

fn to_node(value: &Value, above: &str, key: &str) -> Result<Node, ObjectError> {
    let below = || format!("{above}{key}.");
    Ok(match value {
        Value::Null => Node::Null,
        Value::Bool(flag) => Node::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Node::Int(integer),
            (None, Some(float)) if number.is_f64() => Node::Float(float),
            (None, _) => return Err(ObjectError::Number(format!("{above}{key}"))),
        },
        Value::String(text) => Node::Text(text.as_str().into()),
        Value::Array(items) => {
            let below = below();
            let items = items.iter().enumerate();
            let nodes = items.map(|(at, item)| to_node(item, &below, &at.to_string()));
            Node::List(nodes.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => Node::Map(to_entries(map, &below())?),
    })
}

fn to_map(entries: Vec<Entry>) -> Result<Map<String, Value>, ObjectError> {
    let mut map = Map::new();
    for entry in entries {
        if let Entry::Pair { key, value } = entry {
            map.insert(key, to_value(value)?);
        }
    }
    Ok(map)
}

fn to_value(node: Node) -> Result<Value, ObjectError> {
    Ok(match node {
        Node::Null | Node::Comment(_) => Value::Null,
        Node::Bool(flag) => flag.into(),
        Node::Int(number) => number.into(),
        Node::Float(number) => number.into(),
        Node::Time(time) => time.into(),
        Node::Text(text) => text.as_str().ok_or(ObjectError::NotText)?.into(),
        Node::List(items) => {
            let values = items.into_iter().filter(|item| !matches!(item, Node::Comment(_)));
            Value::Array(values.map(to_value).collect::<Result<_, _>>()?)
        }
        Node::Map(entries) => Value::Object(to_map(entries)?),
    })
}
