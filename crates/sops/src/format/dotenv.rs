//! dotenv: one value per line, comments, and `\n` for line breaks. The metadata is flattened,
//! `sops_age__list_0__map_enc=…`.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::{Format, FormatError, ReadError};
use crate::budget::Budget;
use crate::metadata::{Metadata, MetadataError};
use crate::tree::{Comment, Entry, Node, fixed};

const PREFIX: &str = "sops_";
const MAP: &str = "__map_";
const LIST: &str = "__list_";

/// The nesting of a flattened key.
const DEPTH_MAX: usize = 16;

pub(super) fn read_encrypted(
    bytes: &[u8],
    budget: &Budget<'_>,
) -> Result<(Vec<Vec<Entry>>, Metadata), ReadError> {
    let mut values = Vec::new();
    let mut metadata = Place::default();
    let mut found = false;
    for entry in read(bytes, budget)? {
        match entry {
            Entry::Pair { key, value } if key.starts_with(PREFIX) => {
                found = true;
                metadata.put(&key[PREFIX.len()..], value)?;
            }
            entry => values.push(entry),
        }
    }
    if !found {
        return Err(MetadataError::Missing.into());
    }
    let Node::Map(entries) = metadata.into_node(PREFIX)? else {
        return Err(MetadataError::Missing.into());
    };
    Ok((vec![values], Metadata::read(&entries)?))
}

pub(super) fn read(bytes: &[u8], budget: &Budget<'_>) -> Result<Vec<Entry>, FormatError> {
    let mut entries = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let exhausted = |source| FormatError::Exhausted {
            line: at + 1,
            column: 1,
            source,
        };
        budget.entry(line.len()).map_err(exhausted)?;
        if let Some(comment) = line.strip_prefix(b"#") {
            entries.push(Entry::Comment(Comment {
                text: comment.into(),
                inline: false,
            }));
            continue;
        }
        // never the line itself: it may contain a secret
        let fault = |fault: &str| FormatError::Syntax {
            line: at + 1,
            column: 1,
            fault: fault.to_owned(),
        };
        let equals = line.iter().position(|byte| *byte == b'=');
        let (key, value) = line.split_at(equals.ok_or_else(|| fault("there is no = in this line"))?);
        let key = std::str::from_utf8(key).map_err(|_| fault("the name is not text"))?;
        budget.key(key).map_err(exhausted)?;
        entries.push(Entry::Pair {
            key: key.to_owned(),
            value: Node::Text(replaced(&value[1..], b"\\n", b"\n").into()),
        });
    }
    Ok(entries)
}

pub(super) fn write(entries: &[Entry]) -> Result<Zeroizing<Vec<u8>>, FormatError> {
    let mut out = Zeroizing::new(Vec::new());
    for entry in entries {
        match entry {
            Entry::Comment(comment) => {
                out.push(b'#');
                out.extend_from_slice(comment.text.as_bytes());
            }
            Entry::Pair { key, value } => {
                out.extend_from_slice(key.as_bytes());
                out.push(b'=');
                out.extend_from_slice(&written(value)?);
            }
        }
        out.push(b'\n');
    }
    Ok(out)
}

fn written(value: &Node) -> Result<Zeroizing<Vec<u8>>, FormatError> {
    let text = match value {
        Node::Text(text) => return Ok(replaced(text.as_bytes(), b"\n", b"\\n")),
        Node::Null => "<nil>".to_owned(),
        Node::Bool(flag) => flag.to_string(),
        Node::Int(number) => number.to_string(),
        Node::Float(number) => fixed(*number),
        Node::Time(time) => time.clone(),
        Node::List(_) | Node::Map(_) | Node::Comment(_) => {
            return Err(FormatError::NotWritable(value.kind(), Format::Dotenv));
        }
    };
    Ok(Zeroizing::new(text.into_bytes()))
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(bytes.len() * 2));
    let mut rest = bytes;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}

#[derive(Default)]
struct Place {
    value: Option<Node>,
    keys: BTreeMap<String, Place>,
    items: BTreeMap<usize, Place>,
}

impl Place {
    /// Inserts a value at its flattened key: `age__list_0__map_enc`.
    fn put(&mut self, key: &str, value: Node) -> Result<(), MetadataError> {
        let wrong = || MetadataError::Flattened(format!("{PREFIX}{key}"));
        let mut place = self;
        let mut rest = key;
        let mut list = false;
        for _ in 0..DEPTH_MAX {
            let ends = [rest.find(MAP), rest.find(LIST)];
            let end = ends.into_iter().flatten().min();
            let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
            place = if list {
                let index: usize = token.parse().map_err(|_| wrong())?;
                place.items.entry(index).or_default()
            } else {
                place.keys.entry(token.to_owned()).or_default()
            };
            if end.is_none() {
                return match place.value.replace(value) {
                    None => Ok(()),
                    Some(_) => Err(wrong()),
                };
            }
            list = after.starts_with(LIST);
            rest = &after[if list { LIST.len() } else { MAP.len() }..];
        }
        Err(wrong())
    }

    fn into_node(self, place: &str) -> Result<Node, MetadataError> {
        let wrong = || MetadataError::Flattened(place.to_owned());
        match (self.value, self.keys.is_empty(), self.items.is_empty()) {
            (Some(value), true, true) => Ok(value),
            (None, false, true) => {
                let entries = self.keys.into_iter().map(|(key, below)| {
                    let value = below.into_node(&format!("{place}{key}"))?;
                    Ok(Entry::Pair { key, value })
                });
                Ok(Node::Map(entries.collect::<Result<_, _>>()?))
            }
            (None, true, false) => {
                let mut items = Vec::new();
                for (at, (index, below)) in self.items.into_iter().enumerate() {
                    if at != index {
                        return Err(wrong());
                    }
                    items.push(below.into_node(&format!("{place}{LIST}{index}"))?);
                }
                Ok(Node::List(items))
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
pub(super) fn flatten(prefix: &str, entries: &[Entry], out: &mut Vec<Entry>) {
    fn value(key: String, node: &Node, out: &mut Vec<Entry>) {
        match node {
            Node::Map(entries) => flatten(&(key + MAP), entries, out),
            Node::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    value(format!("{key}{LIST}{at}"), item, out);
                }
            }
            leaf => out.push(Entry::Pair {
                key,
                value: leaf.clone(),
            }),
        }
    }
    for entry in entries {
        if let Entry::Pair { key, value: node } = entry {
            value(format!("{prefix}{key}"), node, out);
        }
    }
}
