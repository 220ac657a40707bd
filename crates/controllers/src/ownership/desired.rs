//! What each owner wants applied, as values: known as soon as it is built, long before it
//! is applied, so that nobody deletes an object that has only moved.
//!
//! A want is bound to what it was built from, the spec's generation and the artifact's digest.
//! What was built from something older is not trusted where it matters: [`DesiredState::is_of`].

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owned::Digest;
use equate_apply::policy::Mode;
use tokio::time::Instant;

use crate::ObjectRef;

/// What an owner wants applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredSet {
    /// Exactly this.
    Known(Arc<BuiltObjects>),
    /// Nobody can tell, for it cannot be built; why, as the end of a sentence about it.
    Unknown(&'static str),
}

impl DesiredSet {
    /// No object.
    pub fn nothing() -> Self {
        Self::Known(Arc::default())
    }
}

/// The objects of a build.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BuiltObjects {
    /// Sorted.
    ids: Vec<ObjectId>,
    /// Those of them that are left alone on their own wish.
    ignored: BTreeSet<ObjectId>,
    /// The owners of other objects among them, as far as they are applied as they are written: each of them
    /// may want what is no longer declared elsewhere, once it is there.
    pub appliers: Vec<Applier>,
}

/// An owner of other objects that another declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applier {
    /// Which owner it is.
    pub owner: ObjectRef,
    /// What it is going to be built from; none where it is suspended.
    pub source: Option<ObjectRef>,
    /// The same as an object of the cluster.
    pub id: ObjectId,
    /// The digest of what is declared.
    pub digest: Digest,
}

impl BuiltObjects {
    /// What a build holds, also what is left alone on its own wish: git holds it. `applies` says which kind
    /// of owner an object is, if it is one, and what it is built from.
    pub fn of(
        desired: &[Desired],
        applies: impl Fn(&Desired) -> Option<(&'static str, Option<ObjectRef>)>,
    ) -> Self {
        let mut ids: Vec<ObjectId> = desired.iter().map(|desired| desired.id.clone()).collect();
        ids.sort();
        ids.dedup();
        let as_written = |desired: &&Desired| {
            !desired.own_loop
                && !desired.policy.ignored()
                && matches!(desired.policy.mode, Mode::Override | Mode::Merge)
        };
        let appliers = desired.iter().filter(as_written).filter_map(|desired| {
            let (kind, source) = applies(desired)?;
            Some(Applier {
                owner: ObjectRef::new(kind, &*desired.id.namespace, &*desired.id.name),
                source,
                id: desired.id.clone(),
                digest: desired.digest,
            })
        });
        let ignored = desired.iter().filter(|desired| desired.policy.ignored());
        Self {
            ids,
            ignored: ignored.map(|desired| desired.id.clone()).collect(),
            appliers: appliers.collect(),
        }
    }

    /// Whether a variable that was not substituted is part of a name.
    pub fn have_variables(&self) -> bool {
        let named = |part: &str| part.contains('$');
        self.ids.iter().any(|id| named(&id.namespace) || named(&id.name))
    }

    /// Which they are.
    pub fn ids(&self) -> &[ObjectId] {
        &self.ids
    }

    /// Whether an object is among them, and is never applied.
    pub fn ignores(&self, id: &ObjectId) -> bool {
        self.ignored.contains(id)
    }

    /// Whether an object is among them.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.ids.binary_search(id).is_ok()
    }
}

/// What an owner wants, and what that was found out from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    /// The generation of its spec.
    pub generation: i64,
    /// The digest of its source's artifact.
    pub artifact: String,
    /// What it wants.
    pub wants: DesiredSet,
    /// Whether all of that is applied, so that owners among it are as they are wanted.
    pub applied: bool,
    /// The owners among it that were applied, with the digests of what the API server made
    /// of them: it may store another form than it was sent.
    pub forms: Vec<(ObjectId, Digest)>,
}

impl DesiredState {
    /// Whether it was found out from this generation of the spec and this artifact.
    pub fn is_of(&self, generation: i64, artifact: &str) -> bool {
        self.generation == generation && self.artifact == artifact
    }

    /// Whether an object that has this digest in the cluster is as it was applied.
    pub fn formed(&self, id: &ObjectId, owned: Digest) -> bool {
        self.forms
            .iter()
            .any(|(formed, form)| formed == id && *form == owned)
    }

    /// What it is known to want.
    pub fn wanted(&self) -> &[ObjectId] {
        match &self.wants {
            DesiredSet::Known(objects) => objects.ids(),
            DesiredSet::Unknown(_) => &[],
        }
    }

    /// Whether it is known to want an object.
    pub fn wants(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if objects.contains(id))
    }

    /// Whether it wants an object, and leaves it alone.
    pub fn ignores(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if objects.ignores(id))
    }

    /// Whether it is known not to want an object.
    pub fn leaves(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if !objects.contains(id))
    }
}

/// What an owner waits for of others: to be woken, not to be held up in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// Each word of these. Of many that all have to speak it is one: nothing goes on before it
    /// does, and a set for each who waits would be as many sets as owners.
    pub of: BTreeSet<ObjectRef>,
    /// When the last of those has had its time.
    pub until: Option<Instant>,
}

impl Watched {
    /// Whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// What is held and not declared any more.
pub(crate) fn undeclared(desired: &[Desired], held: &Inventory) -> Inventory {
    let wanted: BTreeSet<&ObjectId> = desired.iter().map(|desired| &desired.id).collect();
    let gone = held.iter().filter(|(id, _)| !wanted.contains(id));
    gone.map(|(id, version)| (id.clone(), version.to_owned()))
        .collect()
}
