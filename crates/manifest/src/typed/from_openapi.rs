//! Merge schemas from OpenAPI schemas.
//!
//! The rules are those of kube-openapi's `schemaconv`: lists are atomic unless marked otherwise, a string
//! with a format may be any scalar, an object without properties takes its form from the value.

use super::Type;
use super::schema::{Atom, AtomId, Field, List, Map, NO_TYPE, Scalar, Schema};
use super::schema_json::apply_override;
use crate::schema::{Additional, ListType, MapType, Schema as OpenApi, SchemaType};
use std::sync::Arc;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The merge type of a definition and of everything it refers to; `definitions` resolves `$ref`.
///
/// A reference to an unknown definition becomes a type without valid values, with an error that names it.
pub fn from_openapi<'a>(root: &str, definitions: impl Fn(&str) -> Option<&'a OpenApi>) -> Type {
    let mut converter = Converter::new();
    let root = converter.named(root);
    converter.finish(root, definitions)
}

/// The merge type of a custom resource's version, from its structural schema; `definitions` has `ObjectMeta`.
/// `None` stands for a version without a schema: all fields are kept.
pub fn custom_resource<'a>(
    schema: Option<&OpenApi>,
    definitions: impl Fn(&str) -> Option<&'a OpenApi>,
) -> Type {
    let mut converter = Converter::new();
    let atom = match schema {
        Some(schema) => converter.custom_root(schema),
        None => converter.custom_root(&OpenApi {
            kind: Some(SchemaType::Object),
            preserve_unknown_fields: Some(true),
            ..OpenApi::default()
        }),
    };
    let root = converter.schema.push(atom);
    converter.finish(root, definitions)
}

struct Converter {
    schema: Schema,
    /// Referenced but not converted yet.
    pending: Vec<(String, AtomId)>,
    /// References that change a relationship; resolved after all conversions.
    overrides: Vec<(AtomId, AtomId, MapType)>,
}

impl Converter {
    fn new() -> Self {
        Self {
            schema: Schema::default(),
            pending: Vec::new(),
            overrides: Vec::new(),
        }
    }

    fn finish<'a>(mut self, root: AtomId, definitions: impl Fn(&str) -> Option<&'a OpenApi>) -> Type {
        while let Some((name, id)) = self.pending.pop() {
            let atom = match name.as_str() {
                QUANTITY => Atom {
                    scalar: Some(Scalar::Untyped),
                    ..Atom::default()
                },
                RAW_EXTENSION => self.schema.atom(self.schema.untyped()).clone(),
                name => match definitions(name) {
                    Some(definition) => self.atom(definition, false),
                    None => continue,
                },
            };
            self.schema.define(id, atom);
        }
        for (id, target, relationship) in std::mem::take(&mut self.overrides) {
            apply_override(&mut self.schema, id, target, relationship == MapType::Atomic);
        }
        Type {
            schema: Arc::new(self.schema),
            root,
        }
    }

    fn named(&mut self, name: &str) -> AtomId {
        if let Some(id) = self.schema.named(name) {
            return id;
        }
        let id = self.schema.declare(name);
        self.pending.push((name.to_owned(), id));
        id
    }

    fn type_of(&mut self, node: &OpenApi, preserve: bool) -> AtomId {
        let reference = match (&node.reference, node.all_of.as_slice()) {
            (Some(name), _) => Some(name),
            (None, [only]) => only.reference.as_ref(),
            (None, _) => None,
        };
        let Some(name) = reference else {
            let atom = self.atom(node, preserve);
            return self.schema.push(atom);
        };
        let target = self.named(name);
        let Some(relationship) = node.map_type else {
            return target;
        };
        let id = self.schema.push(Atom::default());
        self.overrides.push((id, target, relationship));
        id
    }

    /// `preserve`: whether a parent keeps unknown fields; a reference resets it.
    fn atom(&mut self, node: &OpenApi, preserve: bool) -> Atom {
        let preserve = preserve || node.preserve_unknown_fields == Some(true);
        match node.kind {
            None => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(node, preserve)),
                map: Some(self.map(node, preserve)),
                ..Atom::default()
            },
            Some(SchemaType::Object) => Atom {
                map: Some(self.map(node, preserve)),
                ..Atom::default()
            },
            Some(SchemaType::Array) => Atom {
                list: Some(self.list(node, preserve)),
                ..Atom::default()
            },
            Some(SchemaType::Boolean) => scalar(Scalar::Boolean),
            Some(SchemaType::Integer | SchemaType::Number) => scalar(Scalar::Numeric),
            Some(SchemaType::String) => match node.format.as_deref() {
                None | Some("" | "byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Untyped),
            },
        }
    }

    fn map(&mut self, node: &OpenApi, preserve: bool) -> Map {
        let mut fields: Vec<Field> = node
            .properties
            .iter()
            .map(|(name, property)| Field {
                name: name.as_str().into(),
                atom: self.type_of(property, preserve),
                default: property.default.clone(),
            })
            .collect();
        if node.embedded_resource {
            self.add_object_fields(&mut fields);
        }
        let element = match &node.additional_properties {
            None if preserve || fields.is_empty() => self.schema.deduced(),
            None | Some(Additional::Allowed(false)) => NO_TYPE,
            Some(Additional::Allowed(true)) => self.schema.deduced(),
            Some(Additional::Schema(entry)) => self.type_of(entry, preserve),
        };
        Map::new(fields, element, node.map_type == Some(MapType::Atomic))
    }

    fn list(&mut self, node: &OpenApi, preserve: bool) -> List {
        let (associative, keys) = match (node.list_type, node.patch_strategy.as_deref()) {
            (Some(ListType::Atomic), _) => (false, &[] as &[String]),
            (Some(ListType::Set), _) => (true, &[] as &[String]),
            (Some(ListType::Map), _) => (true, node.list_map_keys.as_slice()),
            (None, Some("merge" | "merge,retainKeys")) => (true, node.patch_merge_key.as_slice()),
            (None, _) => (false, &[] as &[String]),
        };
        let element = match &node.items {
            Some(items) => self.type_of(items, preserve),
            None => self.schema.untyped(),
        };
        List {
            element,
            associative,
            keys: keys.iter().map(|key| key.as_str().into()).collect(),
        }
    }

    fn custom_root(&mut self, node: &OpenApi) -> Atom {
        let preserve = node.preserve_unknown_fields == Some(true);
        let mut map = self.map(node, preserve);
        let mut fields = map.take_fields();
        self.add_object_fields(&mut fields);
        Atom {
            map: Some(Map::new(fields, map.element, map.atomic)),
            ..Atom::default()
        }
    }

    /// Adds the fields every object has, whatever its CRD declares.
    fn add_object_fields(&mut self, fields: &mut Vec<Field>) {
        fields.retain(|field| !matches!(field.name.as_ref(), "apiVersion" | "kind" | "metadata"));
        for name in ["apiVersion", "kind"] {
            let atom = self.schema.push(scalar(Scalar::String));
            fields.push(Field {
                name: name.into(),
                atom,
                default: None,
            });
        }
        let atom = self.named(OBJECT_META);
        fields.push(Field {
            name: "metadata".into(),
            atom,
            default: None,
        });
    }
}

fn scalar(scalar: Scalar) -> Atom {
    Atom {
        scalar: Some(scalar),
        ..Atom::default()
    }
}
