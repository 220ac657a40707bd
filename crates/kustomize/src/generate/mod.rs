//! `configMapGenerator` and `secretGenerator`.

mod absorb;
mod hash;
mod sources;

pub(crate) use hash::suffix;

use crate::Origin;
use crate::error::{BuildError, Fault, Place};
use crate::kustomization::{GeneratorFields, GeneratorOptions};
use crate::loader::{Loader, at};
use crate::resource::{Behavior, Resource, map_in};
use base64::Engine as _;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const BASE64_COLUMNS: usize = 70;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Field,
    Configuration,
}

impl Kind {
    pub(crate) fn builtin(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMapGenerator",
            Self::Secret => "SecretGenerator",
        }
    }
}

/// Generates the object of an entry. Encrypted files of a `secretGenerator` are decrypted; those of a
/// `generators` configuration are not.
pub(crate) fn generate(
    kind: Kind,
    entry: Entry,
    fields: &GeneratorFields,
    global: Option<&GeneratorOptions>,
    root: &str,
    place: &Place,
    loader: &mut Loader<'_>,
) -> Result<Resource, BuildError> {
    let options = merged(fields.options.as_ref(), global);
    if fields.name.is_empty() {
        return Err(at(place.clone())(Fault::NoGeneratorName));
    }
    let opens = kind == Kind::Secret && entry == Entry::Field;
    let data = sources::collect(fields, root, opens, loader).map_err(at(place.clone()))?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), "v1".into());
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), fields.name.clone().into());
    if !fields.namespace.is_empty() {
        metadata.insert("namespace".to_owned(), fields.namespace.clone().into());
    }
    for (field, texts) in [("labels", &options.labels), ("annotations", &options.annotations)] {
        if !texts.is_empty() {
            metadata.insert(field.to_owned(), to_map(texts).into());
        }
    }
    object.insert("metadata".to_owned(), metadata.into());
    match kind {
        Kind::ConfigMap => {
            object.insert("kind".to_owned(), "ConfigMap".into());
            for (key, value) in data {
                match String::from_utf8(value) {
                    Ok(text) => map_in(&mut object, "data").insert(key, text.into()),
                    Err(binary) => {
                        let text = encode(binary.as_bytes());
                        map_in(&mut object, "binaryData").insert(key, text.into())
                    }
                };
            }
        }
        Kind::Secret => {
            object.insert("kind".to_owned(), "Secret".into());
            let r#type = if fields.r#type.is_empty() {
                "Opaque"
            } else {
                &fields.r#type
            };
            object.insert("type".to_owned(), r#type.into());
            let entries = map_in(&mut object, "data");
            for (key, value) in data {
                entries.insert(key, encode(&value).into());
            }
        }
    }
    if options.immutable {
        object.insert("immutable".to_owned(), true.into());
    }
    let mut resource = Resource::new(
        object,
        Origin {
            path: place.path.clone(),
            line: place.line,
        },
    );
    resource.column = place.column;
    resource.behavior = Behavior::parse(&fields.behavior);
    resource.needs_hash = !options.disable_name_suffix_hash;
    Ok(resource)
}

/// Merges the entry's options with the global ones. A flag that is set globally stays set.
fn merged(local: Option<&GeneratorOptions>, global: Option<&GeneratorOptions>) -> GeneratorOptions {
    let mut options = local.cloned().unwrap_or_default();
    if let Some(global) = global {
        for (mine, theirs) in [
            (&mut options.labels, &global.labels),
            (&mut options.annotations, &global.annotations),
        ] {
            for (key, text) in theirs {
                mine.entry(key.clone()).or_insert_with(|| text.clone());
            }
        }
        options.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        options.immutable |= global.immutable;
    }
    options
}

fn to_map(texts: &BTreeMap<String, String>) -> Map<String, Value> {
    texts
        .iter()
        .map(|(key, text)| (key.clone(), Value::from(text.as_str())))
        .collect()
}

fn encode(content: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(content);
    if text.len() <= BASE64_COLUMNS {
        return text;
    }
    let mut broken = String::with_capacity(text.len() + text.len() / BASE64_COLUMNS + 1);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(BASE64_COLUMNS));
        broken.push_str(line);
        broken.push('\n');
        rest = after;
    }
    broken
}
