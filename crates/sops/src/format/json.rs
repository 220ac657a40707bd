//! JSON in document order, written as SOPS does: tabs, and Go's format of texts and numbers.

use std::fmt;

use equate_manifest::json::write_go;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::FormatError;
use crate::budget::Budget;
use crate::tree::{Entry, Node, Text};

/// Refuses repeated keys and input beyond the budget.
pub(super) fn read(bytes: &[u8], budget: &Budget<'_>) -> Result<Vec<Entry>, FormatError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let reader = Reader {
        budget,
        levels: budget.limits().depth_max,
    };
    let node = reader
        .deserialize(&mut deserializer)
        .and_then(|node| deserializer.end().map(|()| node));
    let node = node.map_err(|error| fault(&error, budget))?;
    match node {
        Node::Map(entries) => Ok(entries),
        node => Err(FormatError::Syntax {
            line: 1,
            column: 1,
            fault: format!("it is {} and not an object", node.kind()),
        }),
    }
}

fn fault(error: &serde_json::Error, budget: &Budget<'_>) -> FormatError {
    let (line, column) = (error.line(), error.column());
    if let Some(source) = budget.exhausted() {
        return FormatError::Exhausted { line, column, source };
    }
    // serde_json quotes only numbers and short strings of the wrong type in its messages, and types cannot
    // be wrong here
    let text = error.to_string();
    let fault = text.split(" at line ").next().unwrap_or_default().to_owned();
    FormatError::Syntax { line, column, fault }
}

/// Carries the remaining depth.
#[derive(Clone, Copy)]
struct Reader<'b> {
    budget: &'b Budget<'b>,
    levels: usize,
}

impl Reader<'_> {
    fn count<E: Error>(self, bytes: usize) -> Result<(), E> {
        self.budget.entry(bytes).map_err(E::custom)
    }

    fn below<E: Error>(self) -> Result<Self, E> {
        self.count(0)?;
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { levels, ..self }),
            None => Err(E::custom(format!(
                "it is nested deeper than {} levels",
                self.budget.limits().depth_max
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.count(0)?;
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Node, E> {
        self.count(0)?;
        Ok(Node::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        self.count(0)?;
        Ok(Node::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        self.count(0)?;
        let number = i64::try_from(number);
        let number = number.map_err(|_| E::custom("a number beyond 64 bits, which SOPS cannot store"))?;
        Ok(Node::Int(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        self.count(0)?;
        Ok(Node::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        self.count(text.len())?;
        Ok(Node::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let below = self.below()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(below)? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let below = self.below()?;
        let mut entries = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while let Some(key) = access.next_key::<String>()? {
            self.budget.key(&key).map_err(A::Error::custom)?;
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key {key:?} appears twice")));
            }
            let value = access.next_value_seed(below)?;
            entries.push(Entry::Pair { key, value });
        }
        Ok(Node::Map(entries))
    }
}

/// Leaves comments out.
pub(super) fn write(entries: &[Entry]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(String::new());
    map(&mut out, entries, 0);
    out.push('\n');
    Zeroizing::new(std::mem::take(&mut *out).into_bytes())
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

/// As in Go, each invalid byte becomes U+FFFD.
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
