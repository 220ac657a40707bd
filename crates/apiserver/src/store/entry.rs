//! Stored objects: one immutable revision, shared by all readers.
//!
//! A tree of an object takes ten times the memory of its JSON: each of its maps is a node of 632 bytes. So
//! the store keeps the tree only of what changed last, and [`packed`](Entry::packed) leaves JSON alone. A
//! reader of a packed entry builds the tree again.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// One revision of one object.
#[derive(Debug)]
pub struct Entry {
    /// The revision of the write; for a deletion's entry, the deletion's.
    pub revision: u64,
    pub(super) weight: usize,
    /// JSON keeps the tree.
    survives: bool,
    /// At least one of the two is set.
    tree: OnceLock<Value>,
    encoded: OnceLock<Arc<Encoded>>,
}

#[derive(Debug)]
struct Encoded {
    bytes: Bytes,
    /// The ranges of the encoding outside of `apiVersion` and `kind`; adjacent members are joined.
    untyped: Vec<Range<usize>>,
    /// The text of `apiVersion`, without quotes.
    api_version: Range<usize>,
    /// The value of `metadata.labels`; empty without labels.
    labels: Range<usize>,
}

/// A [`Value`] and its overhead in the allocator and a map node.
const NODE_BYTES: usize = 64;
/// A packed entry besides its JSON, its key and its event.
const PACKED_BYTES: usize = 512;
/// Few objects have more JSON.
const ENCODED_BYTES: usize = 4096;
/// The JSON parser refuses 128 levels.
const PACKED_LEVELS_MAX: usize = 100;

/// The size of a value in memory, and whether the JSON parser returns the same value for its JSON: it may round
/// floating-point numbers differently.
#[derive(Clone, Copy)]
struct Measure {
    bytes: usize,
    survives: bool,
}

fn measure(value: &Value, levels: usize) -> Measure {
    let mut all = Measure {
        bytes: NODE_BYTES,
        survives: levels > 0,
    };
    let mut add = |part: &Value| {
        let part = measure(part, levels.saturating_sub(1));
        all.bytes += part.bytes;
        all.survives &= part.survives;
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => all.survives &= !number.is_f64(),
        Value::String(text) => all.bytes += text.len(),
        Value::Array(items) => items.iter().for_each(add),
        Value::Object(fields) => {
            fields.values().for_each(&mut add);
            all.bytes += fields.keys().map(String::len).sum::<usize>();
        }
    }
    all
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
        let Measure { bytes, survives } = measure(&object, PACKED_LEVELS_MAX);
        Some(Self {
            revision,
            weight: bytes,
            survives,
            tree: OnceLock::from(object),
            encoded: OnceLock::new(),
        })
    }

    /// Another form of the same revision.
    pub(crate) fn with(self: &Arc<Self>, object: Value) -> Arc<Self> {
        Self::stamp(object, self.revision).map_or_else(|| Arc::clone(self), Arc::new)
    }

    /// The same revision without its tree; the entry itself if it has none, or if JSON does not keep it.
    pub(super) fn packed(self: &Arc<Self>) -> Arc<Self> {
        if self.tree.get().is_none() || !self.survives {
            return Arc::clone(self);
        }
        let encoded = Arc::clone(self.encoding());
        Arc::new(Self {
            revision: self.revision,
            weight: PACKED_BYTES + encoded.bytes.len(),
            survives: self.survives,
            tree: OnceLock::new(),
            encoded: OnceLock::from(encoded),
        })
    }

    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        self.tree.get().is_none()
    }

    /// The object; `metadata.resourceVersion` is this revision.
    pub fn object(&self) -> &Value {
        self.tree.get_or_init(|| {
            let encoded = self.encoded.get();
            encoded.map(|encoded| decode(&encoded.bytes)).unwrap_or_default()
        })
    }

    /// The object, for one use: a packed entry stays packed.
    pub(crate) fn view(&self) -> Cow<'_, Value> {
        match (self.tree.get(), self.encoded.get()) {
            (None, Some(encoded)) => Cow::Owned(decode(&encoded.bytes)),
            _ => Cow::Borrowed(self.object()),
        }
    }

    /// The stored `apiVersion`.
    pub(crate) fn api_version(&self) -> Option<&str> {
        match (self.tree.get(), self.encoded.get()) {
            (None, Some(encoded)) => {
                let text = std::str::from_utf8(&encoded.bytes[encoded.api_version.clone()]).ok();
                text.filter(|text| !text.is_empty())
            }
            _ => self.object().get("apiVersion").and_then(Value::as_str),
        }
    }

    /// The stored `metadata.labels`.
    pub(crate) fn labels(&self) -> Cow<'_, Value> {
        match (self.tree.get(), self.encoded.get()) {
            (None, Some(encoded)) if encoded.labels.is_empty() => Cow::Owned(Value::Null),
            (None, Some(encoded)) => Cow::Owned(decode(&encoded.bytes[encoded.labels.clone()])),
            _ => Cow::Borrowed(&self.object()["metadata"]["labels"]),
        }
    }

    /// The value of one of the stored `metadata.labels`; of a packed entry without reading the others.
    pub(crate) fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        match (self.tree.get(), self.encoded.get()) {
            (None, Some(encoded)) => text_member(&encoded.bytes[encoded.labels.clone()], name),
            _ => {
                let value = self.object()["metadata"]["labels"].get(name)?;
                value.as_str().map(Cow::Borrowed)
            }
        }
    }

    /// The object as JSON, encoded on first use. List pages, watchers and the journal share the bytes.
    pub fn encoded(&self) -> Bytes {
        self.encoding().bytes.clone()
    }

    /// The bytes of the JSON; 0 before its first use.
    pub(crate) fn known_size(&self) -> usize {
        self.encoded.get().map_or(0, |encoded| encoded.bytes.len())
    }

    /// Appends the object as JSON without `apiVersion` and `kind`, the form of items in a typed list.
    /// Copies from the shared bytes.
    pub fn write_untyped(&self, out: &mut Vec<u8>) {
        let Encoded { bytes, untyped, .. } = &**self.encoding();
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

    fn encoding(&self) -> &Arc<Encoded> {
        self.encoded.get_or_init(|| Arc::new(encode(self.object())))
    }
}

/// A value of an encoding: `packed` has checked that the parser reads it as it was.
fn decode(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// The text of one member of an object's JSON.
fn text_member<'a>(object: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    let mut reader = serde_json::Deserializer::from_slice(object);
    Member(name).deserialize(&mut reader).ok().flatten()
}

struct Member<'a>(&'a str);

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> DeserializeSeed<'a> for Member<'_> {
    type Value = Option<Cow<'a, str>>;

    fn deserialize<D: serde::Deserializer<'a>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Member<'_> {
    type Value = Option<Cow<'a, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(Text(name)) = members.next_key()? {
            if name == self.0 {
                found = members.next_value::<Option<Text<'a>>>()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found.map(|Text(text)| text))
    }
}

fn encode(object: &Value) -> Encoded {
    let mut out = Vec::with_capacity(ENCODED_BYTES);
    let mut untyped: Vec<Range<usize>> = Vec::new();
    let (mut api_version, mut labels) = (0..0, 0..0);
    let mut separator = b'{';
    for (name, value) in object.as_object().into_iter().flatten() {
        out.push(separator);
        separator = b',';
        let start = out.len();
        let written = match value {
            Value::Object(metadata) if name == "metadata" => {
                write_name(&mut out, name);
                labels = write_members(&mut out, metadata, "labels");
                start..out.len()
            }
            _ => write_member(&mut out, name, value),
        };
        if name == "apiVersion" && value.is_string() {
            // an API version needs no escapes
            api_version = written.start + 1..written.end - 1;
        }
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
        // a spare capacity would live as long as the history
        bytes: Bytes::from(out.into_boxed_slice()),
        untyped,
        api_version,
        labels,
    }
}

/// Writes an object, and returns the range of one member's value; empty if there is none.
fn write_members(out: &mut Vec<u8>, fields: &serde_json::Map<String, Value>, wanted: &str) -> Range<usize> {
    let mut found = 0..0;
    let mut separator = b'{';
    for (name, value) in fields {
        out.push(separator);
        separator = b',';
        let written = write_member(out, name, value);
        if name == wanted {
            found = written;
        }
    }
    if fields.is_empty() {
        out.push(separator);
    }
    out.push(b'}');
    found
}

/// The range of the value.
fn write_member(out: &mut Vec<u8>, name: &str, value: &Value) -> Range<usize> {
    write_name(out, name);
    let start = out.len();
    // Writing JSON to a Vec cannot fail.
    let _ = serde_json::to_writer(&mut *out, value);
    start..out.len()
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    // Writing JSON to a Vec cannot fail.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn packed_entry_reads_like_the_original() {
        let mut deep = json!(1);
        for _ in 0..PACKED_LEVELS_MAX {
            deep = json!([deep]);
        }
        for (object, packs) in [
            (
                json!({ "kind": "K", "data": { "a": "\"é\u{1}\n", "b": [null, true, -1, u64::MAX] } }),
                true,
            ),
            (
                json!({ "apiVersion": "v1", "metadata": { "a": {}, "labels": { "a": "", "x": "y", "é\n": "\"" } } }),
                true,
            ),
            (json!({ "apiVersion": "a/v1", "metadata": {} }), true),
            (json!({ "ratio": 0.1 }), false),
            (json!({ "deep": deep }), false),
        ] {
            let entry = Arc::new(Entry::stamp(object, 7).unwrap());
            let packed = entry.packed();
            assert_eq!(packed.tree.get().is_none(), packs);
            assert_eq!(packed.encoded(), entry.encoded());
            assert_eq!(packed.api_version(), entry.api_version());
            assert_eq!(*packed.labels(), entry.object()["metadata"]["labels"]);
            for label in ["x", "é\n", "none"] {
                assert_eq!(packed.label(label), entry.label(label));
                assert_eq!(
                    packed.label(label).as_deref(),
                    entry.object()["metadata"]["labels"][label].as_str()
                );
            }
            assert_eq!(*packed.view(), *entry.object());
            assert_eq!(packed.tree.get().is_none(), packs);
            assert_eq!((packed.object(), packed.revision), (entry.object(), 7));
            // read again, it packs again
            assert_eq!(packed.packed().tree.get().is_none(), packs);
        }
    }

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
