//! The resources of a build, in order, with indexes by current and by any id.
//!
//! An index is built when it is asked for and dropped by whatever changes ids,
//! so that no step scans all resources for each of them.

use crate::error::Fault;
use crate::resource::{Behavior, Key, Resource};
use crate::schema::Schema;
use std::collections::HashMap;

/// Resources in order of their appearance.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    items: Vec<Resource>,
    /// By current id.
    current: Option<HashMap<Key, usize>>,
    /// By current and former ids.
    any: Option<HashMap<Key, Vec<usize>>>,
}

impl Collection {
    pub(crate) fn items(&self) -> &[Resource] {
        &self.items
    }

    /// The resources, to change anything of.
    pub(crate) fn items_mut(&mut self) -> &mut Vec<Resource> {
        self.current = None;
        self.any = None;
        &mut self.items
    }

    /// The resources, to change anything of but what ids are made of.
    pub(crate) fn contents_mut(&mut self) -> &mut [Resource] {
        &mut self.items
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn into_items(self) -> Vec<Resource> {
        self.items
    }

    /// Adds a resource whose id must be new.
    pub(crate) fn append(&mut self, resource: Resource, schema: &Schema) -> Result<(), Fault> {
        let key = resource.key(schema);
        let at = self.items.len();
        let current = self.current(schema);
        if current.contains_key(&key) {
            return Err(Fault::AlreadyRegistered {
                id: resource.id().to_string(),
            });
        }
        current.insert(key, at);
        if let Some(any) = &mut self.any {
            for key in resource.all_keys(schema) {
                add(any, key, at);
            }
        }
        self.items.push(resource);
        Ok(())
    }

    pub(crate) fn append_all(&mut self, resources: Vec<Resource>, schema: &Schema) -> Result<(), Fault> {
        resources
            .into_iter()
            .try_for_each(|resource| self.append(resource, schema))
    }

    /// The places of the resources that are or were called so, in order.
    pub(crate) fn by_any_id(&mut self, key: &Key, schema: &Schema) -> Vec<usize> {
        let items = &self.items;
        let any = self.any.get_or_insert_with(|| {
            let mut any = HashMap::with_capacity(items.len());
            for (at, item) in items.iter().enumerate() {
                for key in item.all_keys(schema) {
                    add(&mut any, key, at);
                }
            }
            any
        });
        any.get(key).cloned().unwrap_or_default()
    }

    /// Adds a generated resource, or lets it replace or merge into the one it means.
    pub(crate) fn absorb(&mut self, mut resource: Resource, schema: &Schema) -> Result<(), Fault> {
        let id = || resource.id().to_string();
        let matches = self.by_any_id(&resource.key(schema), schema);
        match (&matches[..], resource.behavior) {
            ([], Behavior::Merge | Behavior::Replace) => Err(Fault::NothingToMerge { id: id() }),
            ([], Behavior::Unspecified | Behavior::Create) => self.append(resource, schema),
            (&[at], Behavior::Replace) => {
                resource.inherit(&self.items[at]);
                self.items[at] = resource;
                Ok(())
            }
            (&[at], Behavior::Merge) => {
                resource.inherit(&self.items[at]);
                resource.merge_data(&self.items[at])?;
                resource.note.clone_from(&self.items[at].note);
                self.items[at] = resource;
                Ok(())
            }
            ([_], behavior @ (Behavior::Unspecified | Behavior::Create)) => {
                let behavior = behavior.to_string();
                Err(Fault::Exists { id: id(), behavior })
            }
            (several, _) => Err(Fault::SeveralToMerge {
                id: id(),
                candidates: several
                    .iter()
                    .map(|at| self.items[*at].id().to_string())
                    .collect(),
            }),
        }
    }

    /// Drops the resources at these places (ascending).
    pub(crate) fn remove(&mut self, places: &[usize]) {
        if places.is_empty() {
            return;
        }
        let mut at = 0;
        let mut doomed = places.iter().copied().peekable();
        self.items_mut().retain(|_| {
            let keep = doomed.next_if_eq(&at).is_none();
            at += 1;
            keep
        });
    }

    fn current(&mut self, schema: &Schema) -> &mut HashMap<Key, usize> {
        let items = &self.items;
        self.current.get_or_insert_with(|| {
            items
                .iter()
                .enumerate()
                .map(|(at, item)| (item.key(schema), at))
                .collect()
        })
    }
}

fn add(index: &mut HashMap<Key, Vec<usize>>, key: Key, at: usize) {
    let places = index.entry(key).or_default();
    if places.last() != Some(&at) {
        places.push(at);
    }
}
