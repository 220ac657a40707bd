//! The resources of a build, in order, with indexes by id, name and kind.
//!
//! An index is built on demand and dropped by any change that may alter an id. Indexes hold hashes of current
//! and former names and never forget, so every hit is compared with the query. Deleted resources keep their
//! places until the next full pass: a thousand deletions do not shift all others a thousand times.

use crate::budget::{Budget, measure_map};
use crate::error::Fault;
use crate::resource::{Behavior, Called, Resource};
use crate::schema::Schema;
use crate::selector::Matcher;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{BuildHasher as _, Hash};

#[derive(Debug, Default)]
pub(crate) struct Collection {
    items: Vec<Resource>,
    /// Places of deleted resources.
    gone: HashSet<usize>,
    ids: Option<Index>,
    names: Option<Index>,
    kinds: Option<Index>,
    budget: Budget,
}

/// The steps to index a resource under one id or name.
const INDEX_STEPS: usize = 16;

impl Collection {
    pub(crate) fn within(budget: &Budget) -> Self {
        Self {
            budget: budget.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn budget(&self) -> Budget {
        self.budget.clone()
    }

    pub(crate) fn items(&mut self) -> &[Resource] {
        self.sweep();
        &self.items
    }

    /// The resources, mutable; drops the indexes.
    pub(crate) fn items_mut(&mut self) -> &mut Vec<Resource> {
        self.sweep();
        self.forget();
        &mut self.items
    }

    /// The resources, for changes that leave ids alone.
    pub(crate) fn contents_mut(&mut self) -> &mut [Resource] {
        self.sweep();
        &mut self.items
    }

    /// One resource, for changes that leave its id alone.
    pub(crate) fn content_mut(&mut self, at: usize) -> &mut Resource {
        &mut self.items[at]
    }

    /// Changes one resource, including its id.
    pub(crate) fn change<T>(
        &mut self,
        at: usize,
        schema: &Schema,
        change: impl FnOnce(&mut Resource) -> T,
    ) -> T {
        let done = change(&mut self.items[at]);
        self.note(at, schema);
        done
    }

    fn forget(&mut self) {
        self.ids = None;
        self.names = None;
        self.kinds = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.gone.len()
    }

    pub(crate) fn into_items(mut self) -> Vec<Resource> {
        self.sweep();
        self.items
    }

    pub(crate) fn append(&mut self, resource: Resource, schema: &Schema) -> Result<(), Fault> {
        let hash = self.ids(schema).hash(&resource.called(schema));
        self.append_hashed(resource, hash, schema)
    }

    pub(crate) fn append_all(&mut self, mut resources: Vec<Resource>, schema: &Schema) -> Result<(), Fault> {
        self.items.reserve(resources.len());
        let workers = self.budget.workers();
        let ids = self.ids(schema);
        ids.0.reserve(resources.len());
        let hash =
            |(): &mut (), resource: &mut Resource| Ok::<_, Infallible>(ids.hash(&resource.called(schema)));
        let hashes = workers.map(&mut resources, || (), hash).done;
        resources
            .into_iter()
            .zip(hashes)
            .try_for_each(|(resource, hash)| self.append_hashed(resource, hash, schema))
    }

    fn append_hashed(&mut self, resource: Resource, hash: u64, schema: &Schema) -> Result<(), Fault> {
        let known = self.ids(schema).places_of(hash).to_vec();
        if !known.is_empty() {
            let called = resource.called(schema);
            let same = self.those(known, |other| other.called(schema) == called);
            if !same.is_empty() {
                return Err(Fault::AlreadyRegistered {
                    id: resource.id().to_string(),
                });
            }
        }
        let at = self.items.len();
        if let Some(ids) = &mut self.ids {
            ids.add_hash(hash, at);
            for former in resource.all_formerly() {
                ids.add(&former, at);
            }
        }
        if let Some(names) = &mut self.names {
            resource.all_names().for_each(|name| names.add(name, at));
        }
        if let Some(kinds) = &mut self.kinds {
            resource.all_kinds().for_each(|kind| kinds.add(kind, at));
        }
        self.budget.owe(resource.steps() * INDEX_STEPS);
        self.items.push(resource);
        Ok(())
    }

    /// The places of resources with this current or former id, in order.
    pub(crate) fn by_any_id(&mut self, called: &Called<'_>, schema: &Schema) -> Vec<usize> {
        let known = self.ids(schema).places(called).to_vec();
        self.those(known, |resource| {
            resource.all_called(schema).any(|other| other == *called)
        })
    }

    /// The places of resources with this current or former name, in order.
    pub(crate) fn by_any_name(&mut self, name: &str) -> Vec<usize> {
        let known = self.names().places(name).to_vec();
        self.those(known, |resource| resource.all_names().any(|other| other == name))
    }

    /// The places of resources with this current or former kind, in order.
    pub(crate) fn by_any_kind(&mut self, kind: &str) -> Vec<usize> {
        let known = self.kinds().places(kind).to_vec();
        self.those(known, |resource| resource.all_kinds().any(|other| other == kind))
    }

    /// The places of resources a matcher may match, in order: those with its one name or kind, else all.
    pub(crate) fn candidates(&mut self, matcher: &Matcher) -> Vec<usize> {
        match (matcher.only_name(), matcher.only_kind()) {
            (Some(name), _) => self.by_any_name(name),
            (None, Some(kind)) => self.by_any_kind(kind),
            (None, None) => self.everything(),
        }
    }

    pub(crate) fn everything(&self) -> Vec<usize> {
        self.budget.owe(self.items.len() / 4);
        (0..self.items.len())
            .filter(|at| !self.gone.contains(at))
            .collect()
    }

    pub(crate) fn at(&self, place: usize) -> &Resource {
        &self.items[place]
    }

    /// Adds a generated resource, or replaces or merges into the one it names.
    pub(crate) fn absorb(&mut self, mut resource: Resource, schema: &Schema) -> Result<(), Fault> {
        let id = || resource.id().to_string();
        let matches = self.by_any_id(&resource.called(schema), schema);
        match (&matches[..], resource.behavior) {
            ([], Behavior::Merge | Behavior::Replace) => Err(Fault::NothingToMerge { id: id() }),
            ([], Behavior::Unspecified | Behavior::Create) => self.append(resource, schema),
            (&[at], Behavior::Replace) => {
                self.budget.spend(copy_steps(&self.items[at]))?;
                resource.inherit(&self.items[at]);
                self.change(at, schema, |old| *old = resource);
                Ok(())
            }
            (&[at], Behavior::Merge) => {
                self.budget.spend(copy_steps(&self.items[at]))?;
                resource.inherit(&self.items[at]);
                resource.merge_data(&self.items[at])?;
                resource.note.clone_from(&self.items[at].note);
                self.change(at, schema, |old| *old = resource);
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

    pub(crate) fn remove(&mut self, places: &[usize]) {
        self.gone.extend(places);
    }

    fn sweep(&mut self) {
        if self.gone.is_empty() {
            return;
        }
        let gone = std::mem::take(&mut self.gone);
        let mut at = 0;
        self.items.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        self.budget.owe(at);
        self.forget();
    }

    fn those(&self, mut places: Vec<usize>, are: impl Fn(&Resource) -> bool) -> Vec<usize> {
        self.budget
            .owe(places.iter().map(|at| 4 * self.items[*at].steps()).sum());
        places.retain(|at| !self.gone.contains(at) && are(&self.items[*at]));
        places
    }

    fn ids(&mut self, schema: &Schema) -> &mut Index {
        self.ids.get_or_insert_with(|| {
            let mut index = Index::default();
            for (at, item) in self.items.iter().enumerate() {
                self.budget.owe(item.steps() * INDEX_STEPS);
                item.all_called(schema).for_each(|called| index.add(&called, at));
            }
            index
        })
    }

    fn names(&mut self) -> &Index {
        self.names.get_or_insert_with(|| {
            let mut index = Index::default();
            for (at, item) in self.items.iter().enumerate() {
                self.budget.owe(item.steps() * INDEX_STEPS);
                item.all_names().for_each(|name| index.add(name, at));
            }
            index
        })
    }

    fn kinds(&mut self) -> &Index {
        self.kinds.get_or_insert_with(|| {
            let mut index = Index::default();
            for (at, item) in self.items.iter().enumerate() {
                self.budget.owe(item.steps() * INDEX_STEPS);
                item.all_kinds().for_each(|kind| index.add(kind, at));
            }
            index
        })
    }

    fn note(&mut self, at: usize, schema: &Schema) {
        let item = &self.items[at];
        self.budget.owe(item.steps() * INDEX_STEPS);
        if let Some(ids) = &mut self.ids {
            item.all_called(schema).for_each(|called| ids.add(&called, at));
        }
        if let Some(names) = &mut self.names {
            item.all_names().for_each(|name| names.add(name, at));
        }
        if let Some(kinds) = &mut self.kinds {
            item.all_kinds().for_each(|kind| kinds.add(kind, at));
        }
    }
}

/// The steps to copy a resource's content.
pub(crate) fn copy_steps(resource: &Resource) -> usize {
    measure_map(&resource.object.0).0 / 4
}

#[derive(Debug, Default)]
struct Index(HashMap<u64, Places>);

/// Usually there is only one.
#[derive(Debug)]
enum Places {
    One(usize),
    Several(Vec<usize>),
}

impl Index {
    fn hash(&self, what: &(impl Hash + ?Sized)) -> u64 {
        self.0.hasher().hash_one(what)
    }

    fn places(&self, what: &(impl Hash + ?Sized)) -> &[usize] {
        self.places_of(self.hash(what))
    }

    fn places_of(&self, hash: u64) -> &[usize] {
        match self.0.get(&hash) {
            None => &[],
            Some(Places::One(at)) => std::slice::from_ref(at),
            Some(Places::Several(places)) => places,
        }
    }

    fn add(&mut self, what: &(impl Hash + ?Sized), at: usize) {
        self.add_hash(self.hash(what), at);
    }

    fn add_hash(&mut self, hash: u64, at: usize) {
        let places = self.0.entry(hash).or_insert(Places::One(at));
        match places {
            Places::One(known) if *known == at => {}
            Places::One(known) => {
                let mut both = vec![*known, at];
                both.sort_unstable();
                *places = Places::Several(both);
            }
            Places::Several(known) => {
                if let Err(between) = known.binary_search(&at) {
                    known.insert(between, at);
                }
            }
        }
    }
}
