//! Strategic merge with kustomize's rules.
//!
//! They differ from the API server's: new list items come first, lists of unknown kinds are replaced,
//! `$patch` is the only directive, and an existing null stays unless the patch mentions it. The rules are
//! those of kyaml's `merge2`, quirks included: kyaml merges a new value with itself, and
//! [`absorb`](Merger::absorb) does the same.

use crate::budget::{Budget, measure};
use crate::error::{Exhausted, Fault, node_kind};
use crate::resource::{scalar_str, scalar_text};
use crate::schema::{FieldType, Node, Schema};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

const DIRECTIVE: &str = "$patch";
/// The steps to look at one field of a map, and at one item of a list.
const FIELD_STEPS: usize = 10;
const ITEM_STEPS: usize = 3;

/// Merges `patch` into `target`; `None` if nothing remains.
///
/// A patch with `$patch: replace` at the root does nothing: kustomize replaces a copy.
pub(super) fn merge(
    target: Map<String, Value>,
    patch: Map<String, Value>,
    schema: &Schema,
    budget: &Budget,
) -> Result<Option<Value>, MergeFault> {
    if patch
        .get(DIRECTIVE)
        .is_some_and(|directive| directive == "replace")
    {
        return Ok(Some(Value::Object(target)));
    }
    let mut merger = Merger {
        path: Vec::new(),
        schema,
        budget,
    };
    merger.both(Value::Object(target), Value::Object(patch), FieldType::Unknown)
}

/// Removes a blank null if the merge visits its map; replaced lists are not entered. Returns whether it does.
pub(super) fn drop_blank(target: &mut Map<String, Value>, pointer: &[String], schema: &Schema) -> bool {
    let text = |field: &str| target.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut field = schema.root(text("apiVersion"), text("kind"));
    let Some((last, way)) = pointer.split_last() else {
        return false;
    };
    let mut way = way.iter();
    let mut map = target;
    while let Some(segment) = way.next() {
        let next = of(field, segment);
        match (map.get_mut(segment), next) {
            (Some(Value::Object(inner)), _) => (map, field) = (inner, next),
            (Some(Value::Array(items)), FieldType::MergingList(node, _)) => {
                let index = way.next().and_then(|index| index.parse::<usize>().ok());
                let Some(Value::Object(inner)) = index.and_then(|index| items.get_mut(index)) else {
                    return false;
                };
                (map, field) = (inner, node.map_or(FieldType::Unknown, FieldType::Object));
            }
            _ => return false,
        }
    }
    if map.get(last).is_some_and(Value::is_null) {
        map.remove(last);
    }
    true
}

#[derive(Debug)]
pub(super) enum MergeFault {
    Exhausted(Exhausted),
    Directive(String),
    Kind {
        path: String,
        expected: &'static str,
        found: &'static str,
    },
}

impl From<Exhausted> for MergeFault {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

impl MergeFault {
    pub(super) fn of(self, id: &str) -> Fault {
        match self {
            Self::Exhausted(exhausted) => exhausted.into(),
            Self::Directive(directive) => Fault::Directive { directive },
            Self::Kind {
                path,
                expected,
                found,
            } => Fault::MergeKind {
                id: id.to_owned(),
                path,
                expected,
                found,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

struct Merger<'s> {
    path: Vec<String>,
    schema: &'s Schema,
    budget: &'s Budget,
}

impl<'s> Merger<'s> {
    /// The type of a map by its own `kind`, where the schema gives none.
    fn kind_of(&self, map: &Map<String, Value>) -> FieldType<'s> {
        let text = |field: &str| map.get(field).and_then(Value::as_str);
        match (text("apiVersion"), text("kind")) {
            (Some(api_version), Some(kind)) => self.schema.root(api_version, kind),
            _ => FieldType::Unknown,
        }
    }

    fn both(&mut self, dest: Value, patch: Value, field: FieldType<'s>) -> Result<Option<Value>, MergeFault> {
        match (dest, patch) {
            (_, Value::Null) => Ok(None),
            (Value::Null, patch) => self.absorb(patch, field, Depth::Top),
            (Value::Object(dest), Value::Object(patch)) => self.maps(dest, patch, field),
            (Value::Array(dest), Value::Array(patch)) => match field {
                FieldType::MergingList(items, keys) => self.lists(dest, patch, items, keys),
                _ => Ok(Some(Value::Array(patch))),
            },
            (Value::String(text), patch @ (Value::Bool(_) | Value::Number(_)))
                if is_quoted(&text, self.budget) =>
            {
                Ok(scalar_text(&patch).map(Value::String))
            }
            (dest, patch) => {
                let (expected, found) = (node_kind(&dest), node_kind(&patch));
                if expected == found {
                    return Ok(Some(patch));
                }
                Err(MergeFault::Kind {
                    path: self.path.join("."),
                    expected,
                    found,
                })
            }
        }
    }

    fn maps(
        &mut self,
        mut dest: Map<String, Value>,
        mut patch: Map<String, Value>,
        mut field: FieldType<'s>,
    ) -> Result<Option<Value>, MergeFault> {
        for map in [&dest, &patch] {
            if matches!(field, FieldType::Unknown) {
                field = self.kind_of(map);
            }
        }
        match map_directive(&mut patch)? {
            Directive::Delete => return Ok(None),
            Directive::Replace => return self.absorb_map(patch, field),
            Directive::Merge => {}
        }
        self.merge_unmentioned(&mut dest, &patch, field)?;
        for (key, value) in patch {
            self.budget.spend(FIELD_STEPS)?;
            self.path.push(key);
            let key = self.path.last().cloned().unwrap_or_default();
            let field = of(field, &key);
            let merged = match dest.remove(&key) {
                Some(current) => self.both(current, value, field)?,
                None => self.absorb(value, field, Depth::Top)?,
            };
            if let Some(merged) = merged.filter(|value| !value.is_null()) {
                dest.insert(key, merged);
            }
            self.path.pop();
        }
        Ok(Some(Value::Object(dest)))
    }

    /// Handles values the patch does not mention: merging lists lose repeated items.
    fn merge_unmentioned(
        &mut self,
        map: &mut Map<String, Value>,
        mentioned: &Map<String, Value>,
        field: FieldType<'s>,
    ) -> Result<(), MergeFault> {
        let FieldType::Object(_) = field else {
            return Ok(());
        };
        for (key, value) in map {
            self.budget.spend(FIELD_STEPS)?;
            if !mentioned.contains_key(key) {
                self.settle(value, of(field, key))?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, value: &mut Value, field: FieldType<'s>) -> Result<(), MergeFault> {
        match (value, field) {
            (Value::Object(map), FieldType::Object(_)) => self.merge_unmentioned(map, &Map::new(), field),
            (Value::Array(items), FieldType::MergingList(node, keys)) => {
                let list = std::mem::take(items);
                if let Some(Value::Array(settled)) = self.lists(list, Vec::new(), node, keys)? {
                    *items = settled;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A value new to the target: merged with itself.
    fn absorb(
        &mut self,
        value: Value,
        field: FieldType<'s>,
        depth: Depth,
    ) -> Result<Option<Value>, MergeFault> {
        match value {
            Value::Null => Ok(None),
            Value::Object(mut map) => match map_directive(&mut map)? {
                Directive::Delete => Ok(None),
                Directive::Merge | Directive::Replace => self.absorb_map(map, field),
            },
            Value::Array(mut list) => match field {
                FieldType::MergingList(items, keys) => {
                    if depth == Depth::Below && list_directive(&mut list)? == Directive::Delete {
                        return Ok(None);
                    }
                    self.absorb_list(list, items, keys)
                }
                _ => Ok(Some(Value::Array(list))),
            },
            scalar => Ok(Some(scalar)),
        }
    }

    fn absorb_map(
        &mut self,
        map: Map<String, Value>,
        field: FieldType<'s>,
    ) -> Result<Option<Value>, MergeFault> {
        let mut absorbed = Map::new();
        for (key, value) in map {
            self.budget.spend(FIELD_STEPS)?;
            self.path.push(key.clone());
            if let Some(value) = self.absorb(value, of(field, &key), Depth::Below)? {
                absorbed.insert(key, value);
            }
            self.path.pop();
        }
        Ok(Some(Value::Object(absorbed)))
    }

    fn absorb_list(
        &mut self,
        list: Vec<Value>,
        items: Option<Node<'s>>,
        keys: &[String],
    ) -> Result<Option<Value>, MergeFault> {
        self.budget.spend(ITEM_STEPS * list.len())?;
        if keys.is_empty() {
            return Ok(Some(Value::Array(union(Vec::new(), list, self.budget))));
        }
        let field = items.map_or(FieldType::Unknown, FieldType::Object);
        self.keyed(list, None, field, keys).map(Some)
    }

    fn lists(
        &mut self,
        dest: Vec<Value>,
        mut patch: Vec<Value>,
        items: Option<Node<'s>>,
        keys: &[String],
    ) -> Result<Option<Value>, MergeFault> {
        self.budget.spend(ITEM_STEPS * (dest.len() + patch.len()))?;
        match list_directive(&mut patch)? {
            Directive::Delete => return Ok(None),
            Directive::Replace => return self.absorb_list(patch, items, keys),
            Directive::Merge => {}
        }
        if keys.is_empty() {
            return Ok(Some(Value::Array(union(patch, dest, self.budget))));
        }
        if patch.is_empty() && !repeats(&dest, keys) {
            return self.merge_unmentioned_items(dest, items).map(Some);
        }
        let field = items.map_or(FieldType::Unknown, FieldType::Object);
        self.keyed(dest, Some(patch), field, keys).map(Some)
    }

    fn merge_unmentioned_items(
        &mut self,
        mut list: Vec<Value>,
        items: Option<Node<'s>>,
    ) -> Result<Value, MergeFault> {
        if let Some(node) = items {
            for item in &mut list {
                self.settle(item, FieldType::Object(node))?;
            }
        }
        Ok(Value::Array(list))
    }

    /// Merges lists of maps identified by `keys`. Without a patch the list is merged with itself.
    ///
    /// Items that lack keys may be visited several times; earlier changes persist on both sides.
    fn keyed(
        &mut self,
        mut dest: Vec<Value>,
        mut patch: Option<Vec<Value>>,
        field: FieldType<'s>,
        keys: &[String],
    ) -> Result<Value, MergeFault> {
        let patch_is_itself = patch.is_none();
        let identities = identities(patch.as_deref().unwrap_or_default(), &dest, keys, self.budget)?;
        let valid: Vec<usize> = valid_keys(&identities, keys.len());
        let keys: Vec<&str> = valid.iter().map(|at| keys[*at].as_str()).collect();
        let mut merged: Vec<Value> = Vec::with_capacity(identities.len());
        for identity in &identities {
            let values: Vec<&str> = valid.iter().map(|at| identity[*at].as_str()).collect();
            let searched = dest.len() + merged.len() + patch.as_ref().map_or(0, Vec::len);
            self.budget.spend(ITEM_STEPS * (1 + searched))?;
            let find = |list: &[Value]| list.iter().position(|item| fits(item, &keys, &values));
            let in_dest = find(&dest);
            let in_patch = patch.as_deref().and_then(find);
            // copied below
            for item in [
                in_dest.map(|at| &dest[at]),
                in_patch.and_then(|at| patch.as_ref()?.get(at)),
            ] {
                self.budget.spend(item.map_or(0, |item| measure(item).0 / 8))?;
            }
            let change = patch.as_mut().zip(in_patch).map(|(patch, at)| &mut patch[at]);
            let replaces = change
                .as_ref()
                .is_some_and(|change| change[DIRECTIVE] == "replace");
            let value = match (in_dest, &change) {
                (Some(at), _) if patch_is_itself => self.absorb(dest[at].clone(), field, Depth::Below)?,
                (Some(at), Some(change)) => self.both(dest[at].clone(), Value::clone(change), field)?,
                (Some(at), None) => {
                    let mut current = dest[at].clone();
                    self.settle(&mut current, field)?;
                    Some(current)
                }
                (None, Some(change)) => self.absorb(Value::clone(change), field, Depth::Top)?,
                (None, None) => None,
            };
            let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
            let Some(mut value) = value.filter(|value| !empty(value)) else {
                let met = match in_dest {
                    Some(at) if patch_is_itself => Some(&mut dest[at]),
                    _ => change,
                };
                if let Some(Value::Object(met)) = met {
                    met.remove(DIRECTIVE);
                }
                set(&mut dest, None, &keys, &values);
                continue;
            };
            name(&mut value, &keys, &values);
            if let Some(at) = in_dest
                && !replaces
            {
                dest[at] = value.clone();
            }
            match (change, in_dest) {
                (Some(change), None) => *change = value.clone(),
                (Some(Value::Object(change)), Some(_)) => drop(change.remove(DIRECTIVE)),
                _ => {}
            }
            set(&mut merged, Some(value), &keys, &values);
        }
        if let Some(other) = dest.iter().find(|item| !item.is_object() && !item.is_null()) {
            return Err(MergeFault::Kind {
                path: self.path.join("."),
                expected: node_kind(&Value::Object(Map::new())),
                found: node_kind(other),
            });
        }
        append(&mut merged, dest, &keys, self.budget)?;
        Ok(Value::Array(merged))
    }
}

/// Whether a new value is the root of the addition or nested in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Below,
}

fn name(item: &mut Value, keys: &[&str], values: &[&str]) {
    let Value::Object(map) = item else {
        return;
    };
    for (key, text) in keys.iter().zip(values) {
        if !text.is_empty() && !map.contains_key(*key) {
            map.insert((*key).to_owned(), plain(text));
        }
    }
}

/// Whether a string was quoted: a number that replaces it is quoted, too. Strings that need no quotes count
/// as unquoted.
fn is_quoted(text: &str, budget: &Budget) -> bool {
    budget.owe(text.len());
    equate_manifest::yaml::to_string(&text.into()).starts_with(['"', '\'', '|'])
}

fn of<'s>(field: FieldType<'s>, key: &str) -> FieldType<'s> {
    match field {
        FieldType::Object(node) => node.field(key),
        _ => FieldType::Unknown,
    }
}

fn map_directive(map: &mut Map<String, Value>) -> Result<Directive, MergeFault> {
    let Some(directive) = map.get(DIRECTIVE) else {
        return Ok(Directive::Merge);
    };
    let directive = named(&scalar_text(directive).unwrap_or_default())?;
    map.remove(DIRECTIVE);
    Ok(directive)
}

fn list_directive(list: &mut Vec<Value>) -> Result<Directive, MergeFault> {
    let Some(item) = list
        .iter()
        .filter_map(Value::as_object)
        .find(|map| map.contains_key(DIRECTIVE))
    else {
        return Ok(Directive::Merge);
    };
    if item.len() > 1 {
        return Ok(Directive::Merge);
    }
    let text = item.get(DIRECTIVE).and_then(scalar_text).unwrap_or_default();
    let directive = named(&text)?;
    let empty = |item: &Value| item.is_null() || item.as_object().is_some_and(Map::is_empty);
    list.retain(|item| !empty(item) && item.get(DIRECTIVE).and_then(scalar_text).as_ref() != Some(&text));
    Ok(directive)
}

fn named(text: &str) -> Result<Directive, MergeFault> {
    match text {
        "merge" => Ok(Directive::Merge),
        "replace" => Ok(Directive::Replace),
        "delete" => Ok(Directive::Delete),
        other => Err(MergeFault::Directive(other.to_owned())),
    }
}

/// The scalars of both lists without repeats, the patch's first.
fn union(patch: Vec<Value>, dest: Vec<Value>, budget: &Budget) -> Vec<Value> {
    let items = patch.iter().chain(&dest);
    budget.owe(items.map(|item| measure(item).0).sum());
    let mut seen = HashSet::new();
    patch
        .into_iter()
        .chain(dest)
        .filter(|item| seen.insert(scalar_text(item).unwrap_or_else(|| item.to_string())))
        .collect()
}

/// Whether an item lacks a key or two items have equal keys.
fn repeats(list: &[Value], keys: &[String]) -> bool {
    let mut seen = HashSet::with_capacity(list.len());
    list.iter().any(|item| {
        let identity = identity(item, keys);
        identity.first().is_none_or(String::is_empty) || !seen.insert(identity)
    }) || keys.len() > 1 && list.len() > 1
}

/// The texts of an item's keys; empty where one is missing.
fn identity(item: &Value, keys: &[String]) -> Vec<String> {
    keys.iter()
        .map(|key| item.get(key).and_then(scalar_text).unwrap_or_default())
        .collect()
}

/// The distinct identities of all items, the patch's first. With several keys, an incomplete identity is
/// completed from a compatible one.
fn identities(
    patch: &[Value],
    dest: &[Value],
    keys: &[String],
    budget: &Budget,
) -> Result<Vec<Vec<String>>, Exhausted> {
    let mut seen = HashSet::new();
    let mut all: Vec<Vec<String>> = Vec::new();
    for item in patch.iter().chain(dest) {
        let identity = identity(item, keys);
        if seen.insert(identity.clone()) {
            all.push(identity);
        }
    }
    if keys.len() > 1 {
        for left in 0..all.len() {
            // the identity before it was completed
            let one = all[left].clone();
            budget.spend(2 * ITEM_STEPS * all.len())?;
            for right in 0..all.len() {
                if let Some(both) = complete(&one, &all[right]) {
                    all[left].clone_from(&both);
                    all[right] = both;
                }
            }
        }
    }
    Ok(all)
}

fn complete(left: &[String], right: &[String]) -> Option<Vec<String>> {
    let mut common = false;
    let mut both = Vec::with_capacity(left.len());
    for (left, right) in left.iter().zip(right) {
        if left == right {
            common = true;
        } else if !left.is_empty() && !right.is_empty() {
            return None;
        }
        both.push(if left.is_empty() { right } else { left }.clone());
    }
    common.then_some(both)
}

/// The keys that occur in any identity; all of them if none does.
fn valid_keys(identities: &[Vec<String>], count: usize) -> Vec<usize> {
    let used: Vec<usize> = (0..count)
        .filter(|at| identities.iter().any(|identity| !identity[*at].is_empty()))
        .collect();
    if used.is_empty() {
        (0..count).collect()
    } else {
        used
    }
}

/// Whether an item has these values under these keys. Keys without a value are ignored unless all lack one:
/// then the item's must be empty.
fn fits(item: &Value, keys: &[&str], values: &[&str]) -> bool {
    let some = values.iter().any(|value| !value.is_empty());
    item.is_object()
        && keys
            .iter()
            .zip(values)
            .all(|(key, value)| match value.is_empty() {
                true if some => true,
                true => item.get(*key).is_some_and(|field| field == ""),
                false => has(item, key, value),
            })
}

fn key_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "null".into(),
        value => scalar_str(value).unwrap_or_default(),
    }
}

/// Whether a map's field has this text; empty matches any.
fn has(item: &Value, key: &str, text: &str) -> bool {
    match item.get(key) {
        None => false,
        Some(value) => text.is_empty() || key_text(value) == text,
    }
}

/// Replaces the matching items by an element, or appends it; `None` removes them.
fn set(list: &mut Vec<Value>, element: Option<Value>, keys: &[&str], values: &[&str]) {
    let maps_only = values.first().is_some_and(|value| !value.is_empty());
    let mut found = false;
    let old = std::mem::take(list);
    for item in old {
        if item.is_null() || item.as_object().is_some_and(Map::is_empty) {
            continue;
        }
        if !item.is_object() && maps_only {
            list.push(item);
            continue;
        }
        let matches =
            !values.is_empty() && keys.iter().zip(values).all(|(key, value)| has(&item, key, value));
        if !matches {
            if !values.is_empty() {
                list.push(item);
            }
            continue;
        }
        found = true;
        list.extend(element.clone());
    }
    if !found {
        list.extend(element);
    }
}

/// Appends the remaining items. An item without its key replaces everything before it, as in kustomize.
fn append(
    merged: &mut Vec<Value>,
    dest: Vec<Value>,
    keys: &[&str],
    budget: &Budget,
) -> Result<(), Exhausted> {
    for item in dest {
        budget.spend(2 * ITEM_STEPS * (1 + merged.len()) + measure(&item).0 / 8)?;
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            match item.get(*key) {
                None => merged.push(item.clone()),
                Some(value) => values.push(key_text(value).into_owned()),
            }
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if keys.len() > 1 {
            set(merged, None, keys, &values);
        }
        set(merged, Some(item), keys, &values);
    }
    Ok(())
}

fn plain(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| Value::from(text), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_manifest::yaml::{self, Options};

    /// Expected values come from kustomize, found by `cargo xtask property`.
    #[test]
    fn quirks_of_lists() {
        let check = |target: &str, patch: &str, expected: &str| {
            let read = |text: &str| {
                let head = "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: ";
                let documents = yaml::load(&format!("{head}{text}}}}}}}"), &Options::default()).unwrap();
                match documents.into_iter().next().unwrap().value {
                    Value::Object(map) => map,
                    other => panic!("{other}"),
                }
            };
            let merged = merge(read(target), read(patch), Schema::built_in(), &Budget::default()).unwrap();
            assert_eq!(merged, Some(read(expected).into()), "{target} + {patch}");
        };
        // an item without its key leaves only itself
        check(
            "{}",
            "{containers: [{name: a}, {image: x}]}",
            "{containers: [{image: x}]}",
        );
        // a deleted item removes others with its key
        check(
            "{hostAliases: []}",
            "{hostAliases: [{$patch: delete, ip: x}, {ip: x}]}",
            "{hostAliases: []}",
        );
        // directives in a new list stay
        check(
            "{}",
            "{imagePullSecrets: [{$patch: replace}]}",
            "{imagePullSecrets: [{$patch: replace}]}",
        );
        // ports without a protocol match those with one
        check(
            "{containers: [{name: b, ports: [{containerPort: 8080}]}]}",
            "{containers: [{name: b, ports: [{hostPort: 80}, {containerPort: 80}]}]}",
            "{containers: [{name: b, ports: [{containerPort: 8080}, {containerPort: 80}]}]}",
        );
    }
}
