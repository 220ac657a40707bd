//! Stored objects: one immutable revision, shared by all readers.

use std::io::Write as _;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// One revision of one object.
#[derive(Debug)]
pub struct Entry {
    /// The revision of the write; for a deletion's entry, the deletion's.
    pub revision: u64,
    object: Value,
    pub(super) weight: usize,
    encoded: OnceLock<Encoded>,
}

#[derive(Debug)]
struct Encoded {
    bytes: Bytes,
    /// The ranges of the encoding outside of `apiVersion` and `kind`; adjacent members are joined.
    untyped: Vec<Range<usize>>,
}

/// A [`Value`] and its overhead in the allocator and a map node.
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
    /// Sets the revision. `None` if the value is not a JSON object with room for
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

    /// The object; `metadata.resourceVersion` is this revision.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The object as JSON, encoded on first use. List pages, watchers and the journal share the bytes.
    pub fn encoded(&self) -> Bytes {
        self.encoding().bytes.clone()
    }

    /// Appends the object as JSON without `apiVersion` and `kind`, the form of items in a typed list.
    /// Copies from the shared bytes.
    pub fn write_untyped(&self, out: &mut Vec<u8>) {
        let Encoded { bytes, untyped } = self.encoding();
        let mut separator = b'{';
        for members in untyped {
            out.push(separator);
            out.extend_from_slice(&bytes[members.clone()]);
            separator = b',';
        }
        if untyped.is_empty() {
            out.push(separator);
        }
        out.push(b'}');
    }

    fn encoding(&self) -> &Encoded {
        self.encoded.get_or_init(|| encode(&self.object))
    }
}

fn encode(object: &Value) -> Encoded {
    let mut out = Vec::new();
    let mut untyped: Vec<Range<usize>> = Vec::new();
    let mut separator = b'{';
    for (name, value) in object.as_object().into_iter().flatten() {
        out.push(separator);
        separator = b',';
        let start = out.len();
        // Writing JSON to a Vec cannot fail.
        let _ = write!(out, "{}:", Value::from(name.as_str()));
        let _ = serde_json::to_writer(&mut out, value);
        if name == "apiVersion" || name == "kind" {
            continue;
        }
        match untyped.last_mut() {
            // Only a comma lies between.
            Some(last) if last.end + 1 == start => last.end = out.len(),
            _ => untyped.push(start..out.len()),
        }
    }
    if out.is_empty() {
        out.push(separator);
    }
    out.push(b'}');
    Encoded {
        bytes: Bytes::from(out),
        untyped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn encoding_matches_object_and_list_item() {
        for object in [
            json!({}),
            json!({ "apiVersion": "v1" }),
            json!({ "kind": "K", "apiVersion": "v1", "data": { "a": "\"é\n" }, "zero": 0 }),
            json!({ "Kind": 1, "aardvark": [1, 2.5], "apiVersion": "v1", "b\"": null, "kind": "K", "metadata": {} }),
            json!({ "kind": {}, "kinds": [], "metadata": { "kind": "stays" } }),
        ] {
            let entry = Entry::stamp(object, 7).unwrap();
            assert_eq!(entry.encoded(), entry.object().to_string());
            let mut item = entry.object().clone();
            let members = item.as_object_mut().unwrap();
            members.remove("apiVersion");
            members.remove("kind");
            let mut out = b"[".to_vec();
            entry.write_untyped(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("[{item}"));
        }
        let bare = encode(&json!({}));
        assert_eq!((&*bare.bytes, bare.untyped.len()), (&b"{}"[..], 0));
    }
}
