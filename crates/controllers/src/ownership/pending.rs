//! The owners to build before it is known which owner gets an object without a holder.
//!
//! These are the owners of the same source that come before ([`Rank`]) and are not built from its
//! artifact. The children of an owner that is being applied count until they exist as declared. If the
//! parent waits, its children do not count: no owner waits for another's dependency.
//!
//! A query costs one lookup in a sorted set, which the first query for an artifact makes and each build
//! updates: a thousand new owners of one source query it a thousand times and more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::arbitration::Rank;
use crate::ObjectRef;

#[derive(Debug, Default)]
pub(crate) struct PendingBuilds {
    unbuilt: HashMap<ObjectRef, Unbuilt>,
    children: HashMap<ObjectRef, Children>,
}

#[derive(Debug)]
struct Unbuilt {
    artifact: String,
    ranks: BTreeSet<Rank>,
}

#[derive(Debug, Default)]
struct Children {
    /// Whether the apply is running. Afterwards only the children that are not declared yet are left.
    applying: bool,
    coming: BTreeMap<Rank, Coming>,
}

/// A child that does not exist yet as its parent declares it.
#[derive(Debug)]
struct Coming {
    source: ObjectRef,
    generation: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) owner: ObjectRef,
    /// Its parent, if that has to apply it first.
    pub(crate) parent: Option<ObjectRef>,
}

impl PendingBuilds {
    /// The artifact of the last query for a source.
    pub(crate) fn artifact(&self, source: &ObjectRef) -> Option<&str> {
        self.unbuilt.get(source).map(|unbuilt| &*unbuilt.artifact)
    }

    pub(crate) fn learn(&mut self, source: &ObjectRef, artifact: &str, ranks: BTreeSet<Rank>) {
        let artifact = artifact.to_owned();
        self.unbuilt.insert(source.clone(), Unbuilt { artifact, ranks });
    }

    pub(crate) fn set(&mut self, source: &ObjectRef, rank: Rank, is_unbuilt: bool) {
        let Some(unbuilt) = self.unbuilt.get_mut(source) else {
            return;
        };
        if is_unbuilt {
            unbuilt.ranks.insert(rank);
        } else {
            unbuilt.ranks.remove(&rank);
        }
    }

    /// Drops the set of a source; the next query makes it again.
    pub(crate) fn forget_source(&mut self, source: &ObjectRef) {
        self.unbuilt.remove(source);
    }

    /// Drops the sets of all sources, because the order changed.
    pub(crate) fn forget_order(&mut self) {
        self.unbuilt.clear();
    }

    pub(crate) fn is_applying(&self, parent: &ObjectRef) -> bool {
        self.children
            .get(parent)
            .is_some_and(|children| children.applying)
    }

    /// Notes the start of an apply, with the children that it creates or changes. Children that it
    /// applied before stay until they are declared.
    pub(crate) fn begin(&mut self, parent: &ObjectRef, coming: impl Iterator<Item = (Rank, ObjectRef)>) {
        let children = self.children.entry(parent.clone()).or_default();
        children.applying = true;
        children.coming.retain(|_, coming| coming.generation.is_some());
        for (rank, source) in coming {
            let generation = None;
            children
                .coming
                .entry(rank)
                .or_insert(Coming { source, generation });
        }
    }

    /// Notes the generation of an applied child; its declaration may come later.
    pub(crate) fn applied(&mut self, parent: &ObjectRef, child: &Rank, generation: i64) {
        let children = self.children.get_mut(parent);
        if let Some(coming) = children.and_then(|children| children.coming.get_mut(child)) {
            coming.generation = Some(generation);
        }
    }

    pub(crate) fn seen(&mut self, child: &Rank, generation: i64) {
        for children in self.children.values_mut() {
            let coming = children.coming.get(child);
            if coming.is_some_and(|coming| coming.generation.is_none_or(|applied| applied <= generation)) {
                children.coming.remove(child);
            }
        }
        self.children
            .retain(|_, children| children.applying || !children.coming.is_empty());
    }

    /// Notes the end of an apply: only the applied children are still expected. Returns whether it was
    /// running.
    pub(crate) fn end(&mut self, parent: &ObjectRef) -> bool {
        let Some(mut children) = self.children.remove(parent) else {
            return false;
        };
        let was = std::mem::take(&mut children.applying);
        children.coming.retain(|_, coming| coming.generation.is_some());
        if !children.coming.is_empty() {
            self.children.insert(parent.clone(), children);
        }
        was
    }

    pub(crate) fn forget(&mut self, owner: &ObjectRef) {
        self.children.remove(owner);
        for children in self.children.values_mut() {
            children.coming.retain(|rank, _| rank.owner() != *owner);
        }
        self.children
            .retain(|_, children| children.applying || !children.coming.is_empty());
    }

    /// The owners of a source that come before, last first: they are mostly built in order.
    pub(crate) fn before<'a>(
        &'a self,
        source: &'a ObjectRef,
        own: &'a Rank,
    ) -> impl Iterator<Item = Pending> + 'a {
        let owner = own.owner();
        let others = self.children.iter().filter(move |(parent, _)| **parent != owner);
        let coming = others.flat_map(move |(parent, children)| {
            let before = children.coming.range(..own).rev();
            let before = before.filter(move |(_, coming)| coming.source == *source);
            before.map(|(rank, _)| Pending {
                owner: rank.owner(),
                parent: Some(parent.clone()),
            })
        });
        let unbuilt = self.unbuilt.get(source).into_iter();
        let unbuilt = unbuilt.flat_map(move |unbuilt| unbuilt.ranks.range(..own).rev());
        coming.chain(unbuilt.map(|rank| Pending {
            owner: rank.owner(),
            parent: None,
        }))
    }
}
