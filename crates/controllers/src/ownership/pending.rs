//! Who has to be built before it is known who has an object that nobody holds.
//!
//! Of one source those that come before ([`Rank`]) and are not built from its artifact yet: what they
//! want is not known. And the children of one that is being applied, as long as they are not there as it
//! declares them. A child whose parent waits for something is none: nobody waits for a dependency of
//! another.
//!
//! To ask costs the look at the first of a sorted set. The set is made when somebody asks for an
//! artifact for the first time, and kept with each build from then on: a thousand of one
//! source that are all new ask a thousand times and more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::arbitration::Rank;
use crate::ObjectRef;

/// Those that have to be built first.
#[derive(Debug, Default)]
pub(crate) struct PendingBuilds {
    /// By source, since somebody asked.
    unbuilt: HashMap<ObjectRef, Unbuilt>,
    /// By the parent that applies them.
    children: HashMap<ObjectRef, Children>,
}

/// Those that are not built from the artifact of their source.
#[derive(Debug)]
struct Unbuilt {
    artifact: String,
    ranks: BTreeSet<Rank>,
}

/// What one that is being applied creates and changes.
#[derive(Debug, Default)]
struct Children {
    /// Whether it still is; else those are left that nobody has told of yet.
    applying: bool,
    coming: BTreeMap<Rank, Coming>,
}

/// A child that is not there yet as its parent declares it.
#[derive(Debug)]
struct Coming {
    source: ObjectRef,
    /// The generation that the API server gave it, once it is applied.
    generation: Option<i64>,
}

/// One that has to be built first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Which.
    pub(crate) owner: ObjectRef,
    /// Its parent, where that has to apply it before.
    pub(crate) parent: Option<ObjectRef>,
}

impl PendingBuilds {
    /// The artifact of a source that somebody asked about last.
    pub(crate) fn artifact(&self, source: &ObjectRef) -> Option<&str> {
        self.unbuilt.get(source).map(|unbuilt| &*unbuilt.artifact)
    }

    /// Notes all that are not built from the artifact of a source.
    pub(crate) fn learn(&mut self, source: &ObjectRef, artifact: &str, ranks: BTreeSet<Rank>) {
        let artifact = artifact.to_owned();
        self.unbuilt.insert(source.clone(), Unbuilt { artifact, ranks });
    }

    /// Notes whether one that reads a source is not built from that artifact.
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

    /// Forgets who is not built of a source: who asks next looks at all that read it.
    pub(crate) fn forget_source(&mut self, source: &ObjectRef) {
        self.unbuilt.remove(source);
    }

    /// The same of all sources: the order is another.
    pub(crate) fn forget_order(&mut self) {
        self.unbuilt.clear();
    }

    /// Whether an owner is being applied.
    pub(crate) fn is_applying(&self, parent: &ObjectRef) -> bool {
        self.children
            .get(parent)
            .is_some_and(|children| children.applying)
    }

    /// Notes that an owner is being applied, and the children that it creates or changes. Those that
    /// it has applied already stay until somebody tells of them.
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

    /// Notes the generation of a child that was applied: somebody may tell of it later.
    pub(crate) fn applied(&mut self, parent: &ObjectRef, child: &Rank, generation: i64) {
        let children = self.children.get_mut(parent);
        if let Some(coming) = children.and_then(|children| children.coming.get_mut(child)) {
            coming.generation = Some(generation);
        }
    }

    /// Notes that an owner is there in this generation.
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

    /// Notes that an owner is not being applied any more: of its children those come that it has
    /// applied. Whether it was.
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

    /// Forgets an owner that is gone: as a parent, and as a child that nobody has told of.
    pub(crate) fn forget(&mut self, owner: &ObjectRef) {
        self.children.remove(owner);
        for children in self.children.values_mut() {
            children.coming.retain(|rank, _| rank.owner() != *owner);
        }
        self.children
            .retain(|_, children| children.applying || !children.coming.is_empty());
    }

    /// Those of a source that come before, the last one first: they are mostly built in order.
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
