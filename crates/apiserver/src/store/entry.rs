//! A stored object: one revision of it, immutable, shared by every reader.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// One revision of one object.
#[derive(Debug)]
pub struct Entry {
    /// The revision that wrote it. For the entry of a deletion, the deletion's.
    pub revision: u64,
    object: Value,
    /// About how many bytes of memory it holds, its encoding aside.
    pub(super) weight: usize,
    encoded: OnceLock<Bytes>,
}

/// A [`Value`] with what an allocator and a map node add to it.
const NODE_BYTES: usize = 64;

fn weigh(value: &Value) -> usize {
    NODE_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weigh).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weigh(value)).sum(),
        }
}

impl Entry {
    /// Stamps the object. `None` when it is not a JSON object with room for
    /// `metadata.resourceVersion`.
    pub(super) fn stamp(mut object: Value, revision: u64) -> Option<Self> {
        object
            .as_object_mut()?
            .entry("metadata")
            .or_insert_with(|| Value::Object(serde_json::Map::new()))
            .as_object_mut()?
            .insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
        Some(Self {
            revision,
            weight: weigh(&object),
            object,
            encoded: OnceLock::new(),
        })
    }

    /// The object, `metadata.resourceVersion` being this revision.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The object as JSON. Encoded by the first who asks; a list page, every
    /// watcher and the journal share the bytes.
    pub fn encoded(&self) -> Bytes {
        self.encoded
            .get_or_init(|| Bytes::from(self.object.to_string()))
            .clone()
    }
}
