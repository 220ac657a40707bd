//! Slices and maps.
//!
//! A slice is immutable; a map is shared and mutable. A template may nest either a million deep or put a map
//! into itself, so dropping uses no stack and walks count levels.

use super::{Str, Value};
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The element type of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// `interface {}`.
    Any,
    /// `string`.
    String,
    /// `int`.
    Int,
    /// `[]interface {}`.
    Lists,
    /// `map[string]interface {}`.
    Maps,
    /// `string`, in a named slice type.
    Named(&'static str),
}

impl Elements {
    /// The name of the slice's type.
    pub fn slice_name(self) -> &'static str {
        match self {
            Self::Any => "[]interface {}",
            Self::String => "[]string",
            Self::Int => "[]int",
            Self::Lists => "[][]interface {}",
            Self::Maps => "[]map[string]interface {}",
            Self::Named(name) => name,
        }
    }

    /// The name of the element's type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::String => "string",
            Self::Int => "int",
            Self::Lists => "[]interface {}",
            Self::Maps => "map[string]interface {}",
            Self::Named(_) => "string",
        }
    }
}

/// The element type of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// `interface {}`.
    Any,
    /// `string`.
    String,
    /// `interface {}`, in a map type with this name.
    Named(&'static str),
}

impl Entries {
    /// The name of the map's type.
    pub fn map_name(self) -> &'static str {
        match self {
            Self::Any => "map[string]interface {}",
            Self::String => "map[string]string",
            Self::Named(name) => name,
        }
    }
}

/// A slice; a clone shares it.
#[derive(Debug, Clone)]
pub struct List(Option<Rc<Items>>, Elements);

#[derive(Debug)]
struct Items(Vec<Value>);

impl List {
    /// A slice of `interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::of(Elements::Any, items)
    }

    /// A slice of strings.
    pub fn strings<T: Into<Str>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::of(Elements::String, texts.into_iter().map(Value::string).collect())
    }

    /// A slice of this element type.
    pub fn of(elements: Elements, items: Vec<Value>) -> Self {
        Self(Some(Rc::new(Items(items))), elements)
    }

    /// A nil slice.
    pub fn nil(elements: Elements) -> Self {
        Self(None, elements)
    }

    /// Whether it is nil, which JSON distinguishes from empty.
    pub fn is_nil(&self) -> bool {
        self.0.is_none()
    }

    /// Its element type.
    pub fn elements(&self) -> Elements {
        self.1
    }

    /// The elements.
    pub fn items(&self) -> &[Value] {
        self.0.as_ref().map_or(&[], |items| &items.0)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.items().len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.items().is_empty()
    }
}

/// A map with string keys in byte order; a clone is the same map.
#[derive(Debug, Clone)]
pub struct Map(Option<Rc<Fields>>, Entries);

#[derive(Debug, Default)]
struct Fields(RefCell<BTreeMap<Str, Value>>);

impl Default for Map {
    fn default() -> Self {
        Self::of(Entries::Any, BTreeMap::new())
    }
}

impl Map {
    /// An empty map of `interface {}`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A map of this element type.
    pub fn of(kind: Entries, entries: BTreeMap<Str, Value>) -> Self {
        Self(Some(Rc::new(Fields(RefCell::new(entries)))), kind)
    }

    /// A nil map: it reads as empty and cannot be changed.
    pub fn nil(kind: Entries) -> Self {
        Self(None, kind)
    }

    /// The same map with another type.
    #[must_use]
    pub fn as_type(&self, kind: Entries) -> Self {
        Self(self.0.clone(), kind)
    }

    /// Whether it is nil.
    pub fn is_nil(&self) -> bool {
        self.0.is_none()
    }

    /// Its element type.
    pub fn entries_type(&self) -> Entries {
        self.1
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.0.as_ref()?.0.borrow().get(key).cloned()
    }

    /// Whether the key exists.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.read().is_some_and(|entries| entries.contains_key(key))
    }

    /// Sets a key; `false` if the map is nil.
    pub fn insert(&self, key: Str, value: Value) -> bool {
        match &self.0 {
            Some(fields) => {
                fields.0.borrow_mut().insert(key, value.boxed());
                true
            }
            None => false,
        }
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) {
        if let Some(fields) = &self.0 {
            let removed = fields.0.borrow_mut().remove(key);
            // the removed value may hold this very map
            drop(removed);
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(fields) = &self.0 {
            let removed = fields.0.take();
            drop(removed);
        }
    }

    /// A copy of the entries.
    pub fn snapshot(&self) -> Vec<(Str, Value)> {
        self.read().map_or_else(Vec::new, |entries| {
            entries
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }

    /// The entries, borrowed: the map must not be changed meanwhile.
    pub(crate) fn read(&self) -> Option<Ref<'_, BTreeMap<Str, Value>>> {
        self.0.as_ref().map(|fields| fields.0.borrow())
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.read().map_or(0, |entries| entries.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<(Str, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (Str, Value)>>(entries: T) -> Self {
        Self::of(Entries::Any, entries.into_iter().collect())
    }
}

/// Drops values without recursion: values they alone hold join the queue.
fn drop_flat(mut queue: Vec<Value>) {
    while let Some(value) = queue.pop() {
        match value {
            Value::List(List(Some(items), _)) => {
                if let Some(mut items) = Rc::into_inner(items) {
                    queue.append(&mut items.0);
                }
            }
            Value::Map(Map(Some(fields), _)) => {
                if let Some(fields) = Rc::into_inner(fields) {
                    queue.extend(fields.0.take().into_values());
                }
            }
            _ => {}
        }
    }
}

/// Whether dropping it may drop more.
fn is_deep(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Map(_))
}

impl Drop for Items {
    fn drop(&mut self) {
        if self.0.iter().any(is_deep) {
            drop_flat(std::mem::take(&mut self.0));
        }
    }
}

impl Drop for Fields {
    fn drop(&mut self) {
        let entries = self.0.get_mut();
        if entries.values().any(is_deep) {
            drop_flat(std::mem::take(entries).into_values().collect());
        }
    }
}
