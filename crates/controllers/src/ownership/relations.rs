//! Relations between owners and the objects they name, indexed by the other end. Pure.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use equate_apply::id::ObjectId;

use super::declaration::Declaration;
use crate::ObjectRef;
use crate::kit::inputs::InputRef;
use crate::kit::shrink::shrink;

/// The owners that are related to each `T`.
#[derive(Debug)]
pub(super) struct Relation<T>(HashMap<T, Owners>);

/// At least one. Nearly all objects have a single owner, and a set of one takes 700 bytes.
#[derive(Debug)]
pub(super) enum Owners {
    One(ObjectRef),
    Many(BTreeSet<ObjectRef>),
}

impl Owners {
    pub(super) fn iter(&self) -> impl Iterator<Item = &ObjectRef> + Clone {
        let (one, many) = match self {
            Self::One(owner) => (Some(owner), None),
            Self::Many(owners) => (None, Some(owners)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn insert(&mut self, owner: &ObjectRef) {
        match self {
            Self::One(known) if known == owner => {}
            Self::One(known) => *self = Self::Many([known.clone(), owner.clone()].into()),
            Self::Many(owners) => drop(owners.insert(owner.clone())),
        }
    }

    /// Returns whether any is left.
    fn remove(&mut self, owner: &ObjectRef) -> bool {
        match self {
            Self::One(known) => known != owner,
            Self::Many(owners) => {
                owners.remove(owner);
                !owners.is_empty()
            }
        }
    }
}

impl<T> Default for Relation<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone + Eq + Hash> Relation<T> {
    pub(super) fn of(&self, end: &T) -> impl Iterator<Item = &ObjectRef> + Clone + use<'_, T> {
        self.0.get(end).into_iter().flat_map(Owners::iter)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&T, &Owners)> {
        self.0.iter()
    }

    pub(super) fn link<'a>(&mut self, ends: impl IntoIterator<Item = &'a T>, owner: &ObjectRef)
    where
        T: 'a,
    {
        for end in ends {
            match self.0.entry(end.clone()) {
                Entry::Occupied(mut owners) => owners.get_mut().insert(owner),
                Entry::Vacant(place) => drop(place.insert(Owners::One(owner.clone()))),
            }
        }
    }

    pub(super) fn unlink<'a>(&mut self, ends: impl IntoIterator<Item = &'a T>, owner: &ObjectRef)
    where
        T: 'a,
    {
        for end in ends {
            if self.0.get_mut(end).is_some_and(|owners| !owners.remove(owner)) {
                self.0.remove(end);
                shrink(&mut self.0);
            }
        }
    }
}

/// The relations that follow from declarations alone.
#[derive(Debug, Default)]
pub(super) struct Relations {
    pub(super) readers: Relation<ObjectRef>,
    pub(super) dependents: Relation<ObjectRef>,
    pub(super) input_readers: Relation<InputRef>,
    pub(super) holders: Relation<ObjectId>,
    /// The owners that another applied.
    pub(super) children: Relation<ObjectRef>,
}

impl Relations {
    /// Replaces the relations of an owner. Returns the objects that left its inventory.
    ///
    /// Most changes are of the status and leave the relations as they are; an inventory is long.
    pub(super) fn replace(
        &mut self,
        owner: &ObjectRef,
        before: Option<&Declaration>,
        now: Option<&Declaration>,
    ) -> Vec<ObjectId> {
        let (old, new) = (before.map(|d| &d.source), now.map(|d| &d.source));
        if old != new {
            self.readers.unlink(old, owner);
            self.readers.link(new, owner);
        }
        let (old, new) = (before.map(|d| &d.depends_on), now.map(|d| &d.depends_on));
        if old != new {
            self.dependents
                .unlink(old.into_iter().flat_map(|all| &**all), owner);
            self.dependents
                .link(new.into_iter().flat_map(|all| &**all), owner);
        }
        let (old, new) = (before.map(|d| &d.inputs), now.map(|d| &d.inputs));
        if old != new {
            self.input_readers.unlink(old.into_iter().flatten(), owner);
            self.input_readers.link(new.into_iter().flatten(), owner);
        }
        let parent = |declaration: Option<&Declaration>| declaration.and_then(|d| d.parent.clone());
        let (old, new) = (parent(before), parent(now));
        if old != new {
            self.children.unlink(&old, owner);
            self.children.link(&new, owner);
        }
        let holds = |declaration: Option<&Declaration>| {
            declaration.map_or_else(Arc::default, |declaration| Arc::clone(&declaration.holds))
        };
        let (old, new) = (holds(before), holds(now));
        if old == new {
            return Vec::new();
        }
        let freed: Vec<ObjectId> = old.difference(&new).cloned().collect();
        self.holders.unlink(&freed, owner);
        self.holders.link(new.difference(&old), owner);
        freed
    }
}
