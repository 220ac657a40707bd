//! Reads merge schemas in structured-merge-diff's format.

use super::Type;
use super::schema::{Atom, AtomId, Field, List, Map, NO_TYPE, Scalar, Schema};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Reads a schema document (`types: [{name, scalar|list|map}]`) and the reference to one of its types.
///
/// An unknown scalar name makes a type without valid values, as upstream; an unknown relationship is an
/// error.
pub fn from_json(document: &Value, type_ref: &Value) -> Result<Type, serde_json::Error> {
    let document = Document::deserialize(document)?;
    let mut reader = Reader {
        schema: Schema::default(),
        overrides: Vec::new(),
    };
    for definition in document.types {
        let id = reader.schema.declare(&definition.name);
        let atom = reader.atom(definition.atom);
        reader.schema.define(id, atom);
    }
    let root = reader.type_ref(TypeRef::deserialize(type_ref)?);
    for (id, target, relationship) in std::mem::take(&mut reader.overrides) {
        apply_override(
            &mut reader.schema,
            id,
            target,
            relationship == Relationship::Atomic,
        );
    }
    Ok(Type {
        schema: Arc::new(reader.schema),
        root,
    })
}

/// Defines `id` as the type `target` with another relationship. A scalar has none, so that such a reference
/// is undefined.
pub(super) fn apply_override(schema: &mut Schema, id: AtomId, target: AtomId, atomic: bool) {
    let target = schema.atom(target);
    let name = target.name.clone();
    let mut atom = Atom {
        undefined: target.undefined,
        ..target.clone()
    };
    match &mut atom {
        Atom { map: Some(map), .. } => map.atomic = atomic,
        Atom { list: Some(list), .. } => list.associative = !atomic,
        _ => {
            atom = Atom {
                undefined: true,
                ..Atom::default()
            }
        }
    }
    atom.name = name;
    schema.replace(id, atom);
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    types: Vec<Definition>,
}

#[derive(Deserialize)]
struct Definition {
    name: String,
    #[serde(flatten)]
    atom: AtomText,
}

#[derive(Deserialize, Default)]
struct AtomText {
    scalar: Option<String>,
    list: Option<Box<ListText>>,
    map: Option<Box<MapText>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Relationship {
    Atomic,
    Associative,
    Separable,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListText {
    element_type: TypeRef,
    element_relationship: Relationship,
    #[serde(default)]
    keys: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MapText {
    #[serde(default)]
    fields: Vec<FieldText>,
    element_type: Option<TypeRef>,
    element_relationship: Option<Relationship>,
}

#[derive(Deserialize)]
struct FieldText {
    name: String,
    #[serde(rename = "type")]
    kind: TypeRef,
    default: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeRef {
    named_type: Option<String>,
    element_relationship: Option<Relationship>,
    #[serde(flatten)]
    inline: AtomText,
}

struct Reader {
    schema: Schema,
    overrides: Vec<(AtomId, AtomId, Relationship)>,
}

impl Reader {
    fn type_ref(&mut self, text: TypeRef) -> AtomId {
        let target = match &text.named_type {
            Some(name) => self.schema.declare(name),
            None => {
                let atom = self.atom(text.inline);
                self.schema.push(atom)
            }
        };
        match text.element_relationship {
            Some(relationship) => {
                let id = self.schema.push(Atom::default());
                self.overrides.push((id, target, relationship));
                id
            }
            None => target,
        }
    }

    fn atom(&mut self, text: AtomText) -> Atom {
        Atom {
            scalar: text.scalar.as_deref().and_then(|name| match name {
                "numeric" => Some(Scalar::Numeric),
                "string" => Some(Scalar::String),
                "boolean" => Some(Scalar::Boolean),
                "untyped" => Some(Scalar::Untyped),
                _ => None,
            }),
            list: text.list.map(|list| List {
                element: self.type_ref(list.element_type),
                associative: list.element_relationship == Relationship::Associative,
                keys: list.keys.iter().map(|key| key.as_str().into()).collect(),
            }),
            map: text.map.map(|map| {
                let fields = map.fields.into_iter().map(|field| Field {
                    name: field.name.as_str().into(),
                    atom: self.type_ref(field.kind),
                    default: field.default,
                });
                let fields = fields.collect();
                let element = map.element_type.map_or(NO_TYPE, |element| self.type_ref(element));
                Map::new(
                    fields,
                    element,
                    map.element_relationship == Some(Relationship::Atomic),
                )
            }),
            ..Atom::default()
        }
    }
}
