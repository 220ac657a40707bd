//! Merge schemas.
//!
//! A schema is an arena of [`Atom`]s that refer to each other by index, so recursive types need no locks and
//! walks need no lookups by name.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The index of an atom in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomId(u32);

/// The atom without valid values, for undeclared fields of a closed map.
pub const NO_TYPE: AtomId = AtomId(0);
const UNTYPED: AtomId = AtomId(1);
const DEDUCED: AtomId = AtomId(2);

/// The name of the type in which every map and list is atomic.
pub const UNTYPED_NAME: &str = "__untyped_atomic_";
/// The name of the type in which maps merge and lists are atomic.
pub const DEDUCED_NAME: &str = "__untyped_deduced_";

/// The allowed forms of a value; the value selects one.
#[derive(Debug, Clone, Default)]
pub struct Atom {
    /// The type's name; `None` for an inline type.
    pub name: Option<Arc<str>>,
    /// Whether the name is used but not defined.
    pub undefined: bool,
    /// As a scalar.
    pub scalar: Option<Scalar>,
    /// As a list.
    pub list: Option<List>,
    /// As a map.
    pub map: Option<Map>,
}

/// Scalar types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Integers and floats.
    Numeric,
    /// Strings.
    String,
    /// Booleans.
    Boolean,
    /// Any scalar.
    Untyped,
}

/// A list type.
#[derive(Debug, Clone)]
pub struct List {
    /// Its items' type.
    pub element: AtomId,
    /// Whether items are identified and merged one by one; otherwise the list is replaced as a whole.
    pub associative: bool,
    /// The key fields of an associative list; empty for a set of scalars.
    pub keys: Vec<Arc<str>>,
}

/// A map type: declared fields, and the type of other entries.
#[derive(Debug, Clone)]
pub struct Map {
    fields: Vec<Field>,
    /// The type of undeclared fields; [`NO_TYPE`] if none are allowed.
    pub element: AtomId,
    /// Whether the map is replaced as a whole.
    pub atomic: bool,
}

/// A declared field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub atom: AtomId,
    /// The value of an absent field; list keys need it.
    pub default: Option<Value>,
}

impl Map {
    /// A map type.
    pub fn new(mut fields: Vec<Field>, element: AtomId, atomic: bool) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            fields,
            element,
            atomic,
        }
    }

    /// The declared field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|f| f.name.as_ref().cmp(name)).ok()?;
        self.fields.get(at)
    }

    /// The type of the field or entry with this name.
    pub fn atom_of(&self, name: &str) -> AtomId {
        self.field(name).map_or(self.element, |field| field.atom)
    }

    pub(super) fn take_fields(&mut self) -> Vec<Field> {
        std::mem::take(&mut self.fields)
    }

    /// Whether it declares fields.
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Map(&'a Map),
    Scalar(Scalar),
    List(&'a List),
    /// The atom allows nothing.
    None,
}

impl Atom {
    /// The form that fits the value. Null and values that fit none take the first of map, scalar, list that
    /// the atom has.
    pub(super) fn form(&self, value: Option<&Value>) -> Form<'_> {
        match (value, self) {
            (Some(Value::Object(_)), Self { map: Some(map), .. }) => Form::Map(map),
            (Some(Value::Array(_)), Self { list: Some(list), .. }) => Form::List(list),
            (
                Some(Value::String(_) | Value::Number(_) | Value::Bool(_)),
                Self {
                    scalar: Some(scalar), ..
                },
            ) => Form::Scalar(*scalar),
            (_, Self { map: Some(map), .. }) => Form::Map(map),
            (
                _,
                Self {
                    scalar: Some(scalar), ..
                },
            ) => Form::Scalar(*scalar),
            (_, Self { list: Some(list), .. }) => Form::List(list),
            _ => Form::None,
        }
    }
}

impl Form<'_> {
    pub(super) fn same(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// An arena of types, some of them named.
#[derive(Debug, Clone)]
pub struct Schema {
    atoms: Vec<Atom>,
    names: HashMap<Arc<str>, AtomId>,
}

impl Default for Schema {
    /// The schema with only the two untyped types.
    fn default() -> Self {
        let mut schema = Self {
            atoms: vec![Atom::default()],
            names: HashMap::new(),
        };
        for (name, id, atomic) in [(UNTYPED_NAME, UNTYPED, true), (DEDUCED_NAME, DEDUCED, false)] {
            schema.declare(name);
            schema.define(
                id,
                Atom {
                    scalar: Some(Scalar::Untyped),
                    list: Some(List {
                        element: UNTYPED,
                        associative: false,
                        keys: Vec::new(),
                    }),
                    map: Some(Map::new(Vec::new(), id, atomic)),
                    ..Atom::default()
                },
            );
        }
        schema
    }
}

impl Schema {
    /// The atom at an index of this schema.
    pub fn atom(&self, id: AtomId) -> &Atom {
        // a foreign id reads as no type
        self.atoms.get(id.0 as usize).unwrap_or(&self.atoms[0])
    }

    /// The type with this name.
    pub fn named(&self, name: &str) -> Option<AtomId> {
        self.names.get(name).copied()
    }

    /// The type in which every map and list is atomic.
    pub fn untyped(&self) -> AtomId {
        UNTYPED
    }

    /// The type in which maps merge and lists are atomic.
    pub fn deduced(&self) -> AtomId {
        DEDUCED
    }

    /// Reserves a type with this name; [`Self::define`] may come before or after.
    pub fn declare(&mut self, name: &str) -> AtomId {
        if let Some(id) = self.named(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = self.push(Atom {
            name: Some(Arc::clone(&name)),
            undefined: true,
            ..Atom::default()
        });
        self.names.insert(name, id);
        id
    }

    /// Defines a declared type; its name stays.
    pub fn define(&mut self, id: AtomId, atom: Atom) {
        if let Some(slot) = self.atoms.get_mut(id.0 as usize) {
            let name = slot.name.take();
            *slot = Atom {
                name,
                undefined: false,
                ..atom
            };
        }
    }

    pub(super) fn replace(&mut self, id: AtomId, atom: Atom) {
        if let Some(slot) = self.atoms.get_mut(id.0 as usize) {
            *slot = atom;
        }
    }

    /// Adds a type without a name.
    pub fn push(&mut self, atom: Atom) -> AtomId {
        let id = AtomId(u32::try_from(self.atoms.len()).unwrap_or(0));
        self.atoms.push(atom);
        id
    }

    /// Whether a map has no declared entries, so that no schema change can make them atomic.
    pub(super) fn is_deduced_map(&self, map: &Map) -> bool {
        let element = self.atom(map.element);
        !map.has_fields()
            && (map.element == DEDUCED || (element.name.is_none() && element.scalar == Some(Scalar::Untyped)))
    }
}
