//! The desired objects of each owner. Known after the build, long before the apply, so that no owner
//! deletes an object that has only moved.
//!
//! A desired state belongs to its inputs: the generation of the spec and the digest of the artifact. One
//! from older inputs is not trusted where it matters: [`DesiredState::is_of`].

use std::collections::BTreeSet;
use std::sync::Arc;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owned::Digest;
use equate_apply::policy::Mode;
use tokio::time::Instant;

use crate::ObjectRef;

/// The objects that an owner wants to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredSet {
    /// Exactly these.
    Known(Arc<BuiltObjects>),
    /// Unknown, because the build fails. The text is the reason, as the end of a sentence.
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
    /// Objects that disable reconciliation by their own annotation.
    ignored: BTreeSet<ObjectId>,
    /// The owners among the objects that are applied unchanged. Each may want objects that are no longer
    /// declared elsewhere, once it exists.
    pub appliers: Vec<Applier>,
}

/// An owner that another owner declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applier {
    /// The owner.
    pub owner: ObjectRef,
    /// Its source; `None` if it is suspended.
    pub source: Option<ObjectRef>,
    /// The owner as an object of the cluster.
    pub id: ObjectId,
    /// The digest of its declared form.
    pub digest: Digest,
}

impl BuiltObjects {
    /// The objects of a build, with those that disable reconciliation: git declares them as well.
    /// `applies` returns the kind and source of an object that is an owner.
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

    /// The objects of a rendered chart, without owners among them.
    pub fn of_ids(mut ids: Vec<ObjectId>) -> Self {
        ids.sort();
        ids.dedup();
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Whether a name contains a variable that was not substituted.
    pub fn have_variables(&self) -> bool {
        let named = |part: &str| part.contains('$');
        self.ids.iter().any(|id| named(&id.namespace) || named(&id.name))
    }

    /// The ids, sorted.
    pub fn ids(&self) -> &[ObjectId] {
        &self.ids
    }

    /// Whether an object is part of the build and disables reconciliation.
    pub fn ignores(&self, id: &ObjectId) -> bool {
        self.ignored.contains(id)
    }

    /// Whether an object is part of the build.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.ids.binary_search(id).is_ok()
    }
}

/// The desired objects of an owner, and the inputs that they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    /// The generation of its spec.
    pub generation: i64,
    /// The digest of its source's artifact.
    pub artifact: String,
    /// The desired objects.
    pub wants: DesiredSet,
    /// Whether all of them are applied, so that the owners among them are up to date.
    pub applied: bool,
    /// The applied owners among them, with the digests of the API server's answers: it may store another
    /// form.
    pub forms: Vec<(ObjectId, Digest)>,
}

impl DesiredState {
    /// Whether it comes from this generation and this artifact.
    pub fn is_of(&self, generation: i64, artifact: &str) -> bool {
        self.generation == generation && self.artifact == artifact
    }

    /// Whether the live object with this digest is as it was applied.
    pub fn formed(&self, id: &ObjectId, owned: Digest) -> bool {
        self.forms
            .iter()
            .any(|(formed, form)| formed == id && *form == owned)
    }

    /// The desired objects, if known.
    pub fn wanted(&self) -> &[ObjectId] {
        match &self.wants {
            DesiredSet::Known(objects) => objects.ids(),
            DesiredSet::Unknown(_) => &[],
        }
    }

    /// Whether an object is known to be desired.
    pub fn wants(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if objects.contains(id))
    }

    /// Whether an object is desired and disables reconciliation.
    pub fn ignores(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if objects.ignores(id))
    }

    /// Whether an object is known not to be desired.
    pub fn leaves(&self, id: &ObjectId) -> bool {
        matches!(&self.wants, DesiredSet::Known(objects) if !objects.contains(id))
    }
}

/// The announcements that wake an owner. They never block a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// The owners. If many have to announce, this is only one of them: nothing proceeds before it does,
    /// and one set per waiting owner would cost as many sets as there are owners.
    pub of: BTreeSet<ObjectRef>,
    /// The last deadline of these.
    pub until: Option<Instant>,
}

impl Watched {
    /// Whether it waits for nothing.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// The objects that are held and not declared any more.
pub(crate) fn undeclared(desired: &[Desired], held: &Inventory) -> Inventory {
    let wanted: BTreeSet<&ObjectId> = desired.iter().map(|desired| &desired.id).collect();
    let gone = held.iter().filter(|(id, _)| !wanted.contains(id));
    gone.map(|(id, version)| (id.clone(), version.to_owned()))
        .collect()
}
