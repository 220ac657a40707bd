//! JSON, in the order it stands in. Written as SOPS does: tabs, Go's spelling of texts and numbers.

use std::fmt;

use equate_manifest::json::write_go;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::FormatError;
use crate::tree::{Entry, Node, Text};

/// Reads an object. Nesting deeper than 127 is refused, as is a repeated key.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Entry>, FormatError> {
    let node: Node = serde_json::from_slice(bytes).map_err(|error| {
        // serde_json's messages quote no values but numbers and short strings of the wrong type,
        // and no type is wrong here
        let text = error.to_string();
        let fault = text.split(" at line ").next().unwrap_or_default().to_owned();
        FormatError::Syntax {
            line: error.line(),
            column: error.column(),
            fault,
        }
    })?;
    match node {
        Node::Map(entries) => Ok(entries),
        node => Err(FormatError::Syntax {
            line: 1,
            column: 1,
            fault: format!("it is {} and not an object", node.kind()),
        }),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        Ok(i64::try_from(number).map_or(Node::Float(number as f64), Node::Int))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while let Some((key, value)) = access.next_entry::<String, Node>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key:?} stands there twice")));
            }
            entries.push(Entry::Pair { key, value });
        }
        Ok(Node::Map(entries))
    }
}

/// Writes an object, with a line break behind it. Comments go.
pub(super) fn write(entries: &[Entry]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(String::new());
    map(&mut out, entries, 0);
    out.push('\n');
    Zeroizing::new(out.as_bytes().to_vec())
}

fn map(out: &mut String, entries: &[Entry], depth: usize) {
    let mut first = true;
    out.push('{');
    for entry in entries {
        if let Entry::Pair { key, value } = entry {
            separate(out, &mut first, depth + 1);
            text(out, key);
            out.push_str(": ");
            node(out, value, depth + 1);
        }
    }
    close(out, '}', first, depth);
}

fn list(out: &mut String, items: &[Node], depth: usize) {
    let mut first = true;
    out.push('[');
    for item in items {
        if !matches!(item, Node::Comment(_)) {
            separate(out, &mut first, depth + 1);
            node(out, item, depth + 1);
        }
    }
    close(out, ']', first, depth);
}

fn separate(out: &mut String, first: &mut bool, depth: usize) {
    if !*first {
        out.push(',');
    }
    *first = false;
    new_line(out, depth);
}

fn close(out: &mut String, bracket: char, empty: bool, depth: usize) {
    if !empty {
        new_line(out, depth);
    }
    out.push(bracket);
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n('\t', depth));
}

fn node(out: &mut String, node: &Node, depth: usize) {
    match node {
        Node::Null | Node::Comment(_) => out.push_str("null"),
        Node::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Node::Int(number) => out.push_str(&number.to_string()),
        Node::Float(number) => write_go(out, &(*number).into()),
        Node::Time(time) => text(out, time),
        Node::Text(bytes) => text(out, &lossy(bytes)),
        Node::List(items) => list(out, items, depth),
        Node::Map(entries) => map(out, entries, depth),
    }
}

/// What is not UTF-8 becomes U+FFFD, byte by byte, as in Go.
fn lossy(text: &Text) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(text.as_bytes().len()));
    for chunk in text.as_bytes().utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    out
}

fn text(out: &mut String, text: &str) {
    write_go(out, &serde_json::Value::String(text.to_owned()));
}
