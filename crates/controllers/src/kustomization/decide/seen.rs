//! The observations about a Kustomization, as values: all that a decision depends on.
//!
//! A run fills them from memory, the mirrors, the watches and the ownership graph; a preview from trees and
//! reads. Neither decides anything.

use std::sync::Arc;
use std::time::Duration;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan;
use tokio::time::Instant;

use super::health::HealthSummary;
use super::objects::Objects;
use crate::Key;
use crate::dependencies::DependencySeen;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::SourceSeen;
use crate::kustomization::reasons::{Failure, Stall};
use crate::ownership::contest::Contest;
use crate::ownership::desired::DesiredSet;

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) began: Instant,
    /// Whether objects with more to do go first: only its source woke it, and it was not deferred yet.
    pub(crate) deferrable: bool,
    pub(crate) prerequisites: Arc<Prerequisites>,
    pub(crate) no_access: Option<Failure>,
    /// The token of the request that the run answers.
    pub(crate) request: Option<String>,
    pub(crate) ready: bool,
    /// The last work of this process; none after a start.
    pub(crate) last: Option<Last>,
    /// Its desired state, where that was built without being applied.
    pub(crate) ahead: Ahead,
    pub(crate) exchange: Exchange,
    pub(crate) since: Since,
    pub(crate) dependency_retry: Duration,
    pub(crate) objects: Option<Objects>,
    pub(crate) deletion: Deletion,
}

impl Seen {
    /// The last work of this process, if the spec and the revision are the same.
    pub(crate) fn current(&self, ks: &Declared) -> Option<&Last> {
        let last = self.last.as_ref();
        last.filter(|last| last.inputs_hold && last.generation == ks.generation)
    }

    /// A build to apply, with nothing else known: the start of a preview.
    pub(crate) fn of_build(revision: &str, last: Last, objects: Objects, now: Instant) -> Self {
        let source = SourceSeen::Stored {
            revision: revision.to_owned(),
        };
        Self {
            began: now,
            deferrable: false,
            prerequisites: Arc::new(Prerequisites {
                source,
                published: Some(revision.to_owned()),
                looked: true,
                dependencies: Vec::new(),
                cycle: None,
                denied: None,
                identity_gate: false,
                invalid: None,
            }),
            no_access: None,
            request: None,
            ready: false,
            last: Some(last),
            ahead: Ahead::Missing,
            exchange: Exchange::default(),
            since: Since::default(),
            dependency_retry: Duration::ZERO,
            objects: Some(objects),
            deletion: Deletion::default(),
        }
    }
}

/// The prerequisites of a build; observed once in a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prerequisites {
    pub(crate) source: SourceSeen,
    /// The digest of its artifact, else the one that the source's status names.
    pub(crate) published: Option<String>,
    /// Whether this process knows that this is the source's present artifact.
    pub(crate) looked: bool,
    pub(crate) dependencies: Vec<(Key, DependencySeen)>,
    /// The cycle from this Kustomization back to itself through `dependsOn`.
    pub(crate) cycle: Option<Vec<Key>>,
    pub(crate) denied: Option<Stall>,
    /// ObjectLevelWorkloadIdentity.
    pub(crate) identity_gate: bool,
    pub(crate) invalid: Option<Stall>,
}

/// The last work of this process for a Kustomization.
#[derive(Debug, Clone)]
pub(crate) struct Last {
    pub(crate) generation: i64,
    pub(crate) revision: String,
    /// The first revision with the same build: a confirmation names it.
    pub(crate) since: String,
    /// The token of the request that was taken up.
    pub(crate) token: Option<String>,
    /// Whether the present artifact has the same inputs.
    pub(crate) inputs_hold: bool,
    pub(crate) built: bool,
    /// Whether the build has no objects but those of Equate's own loop.
    pub(crate) empty: bool,
    pub(crate) wants: Option<DesiredSet>,
    /// Whether all of that was applied at some time.
    pub(crate) applied: bool,
    /// The objects that this run applied, if it passed all stages.
    pub(crate) passed: Option<Passed>,
    /// Whether there are changes that no status reports yet.
    pub(crate) changed: bool,
    /// Whether the status says that its revision is applied and ready.
    pub(crate) reported: bool,
    /// Whether the status says that its revision is in progress, without health checks.
    pub(crate) in_progress: bool,
    pub(crate) checking_since: Instant,
    pub(crate) confirmed: bool,
    /// The objects of other owners, each with whether this process reconciles the other.
    pub(crate) contests: Vec<(Contest, bool)>,
    /// Whether the cluster differs and the time to correct it has come.
    pub(crate) drifted: bool,
    /// Whether an object of another Kustomization was released, or an object that had to disappear did.
    pub(crate) freed: bool,
    /// Whether a dependency changed since the last try.
    pub(crate) hope: bool,
    pub(crate) checked: bool,
    pub(crate) health: HealthSummary,
    pub(crate) phase: Phase,
}

impl Last {
    /// A build that begins to be applied.
    pub(crate) fn of_build(generation: i64, revision: &str, until: Instant) -> Self {
        Self {
            generation,
            revision: revision.to_owned(),
            since: revision.to_owned(),
            token: None,
            inputs_hold: true,
            built: true,
            empty: false,
            wants: None,
            applied: false,
            passed: None,
            changed: false,
            reported: false,
            in_progress: false,
            checking_since: until,
            confirmed: false,
            contests: Vec::new(),
            drifted: false,
            freed: false,
            hope: false,
            checked: false,
            health: HealthSummary::Healthy,
            phase: Phase::Staged { until },
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) plan: Arc<plan::Plan>,
    pub(crate) desired: Arc<Vec<Desired>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A stage is applied, and the next waits for its health until then.
    Staged {
        until: Instant,
    },
    /// All is applied; health checks run until then.
    Checking {
        until: Instant,
    },
    Ready {
        /// An object stopped being healthy, and has until then to recover.
        until: Option<Instant>,
    },
    Unhealthy {
        retry: Instant,
    },
    Failed {
        /// None where only other inputs can help.
        retry: Option<Instant>,
    },
    /// Nothing was applied, because it would delete too much.
    Unconfirmed,
}

/// The desired state of a build that is not applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ahead {
    Missing,
    /// It could not be built, because the API server did not answer.
    Unreached,
    Wants(DesiredSet),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Exchange {
    /// Objects that it wants and another shard holds, with the versions of their holders.
    pub(crate) claims: Inventory,
    /// Objects that another shard claims and it does not want.
    pub(crate) released: Inventory,
    /// Questions to ask first: a claim without the permission to write does not count.
    pub(crate) questions: Questions,
}

impl Exchange {
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.released.is_empty()
    }
}

/// Questions to the API server: who may write which objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Questions {
    pub(crate) objects: Vec<Question>,
    /// About objects of others in a Namespace or of a CustomResourceDefinition: for each container until
    /// one may be written.
    pub(crate) containers: Vec<Vec<Question>>,
    /// The objects in question; asked once in a run, whether or not there was an answer.
    pub(crate) about: Vec<ObjectId>,
}

impl Questions {
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.containers.iter().all(Vec::is_empty)
    }

    #[must_use]
    pub(crate) fn and(mut self, others: Questions) -> Self {
        self.objects.extend(others.objects);
        self.containers.extend(others.containers);
        self.about.extend(others.about);
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) by: Owner,
    pub(crate) user: String,
    pub(crate) id: ObjectId,
    pub(crate) version: String,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Since {
    pub(crate) missing: Option<Instant>,
    pub(crate) others: Option<Instant>,
    pub(crate) terminating_until: Option<Instant>,
}

/// The checks before and after the objects of a deleted Kustomization are deleted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletion {
    /// Whether an account must exist that may delete them.
    pub(crate) acts_as: bool,
    /// The result of the check before; none until it ran.
    pub(crate) prepared: Option<Prepared>,
    /// The objects that this run deleted, and those that still exist.
    pub(crate) deleted: Option<Deleted>,
}

/// The result of the check before deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Whether the account that deletes exists; true if unknown.
    pub(crate) account: bool,
    /// Whether kinds of awaited objects are not listed yet.
    pub(crate) starting: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Deleted {
    pub(crate) plan: Arc<plan::Plan>,
    pub(crate) remaining: Vec<ObjectId>,
    /// Whether some of them are not watched and must be polled.
    pub(crate) blind: bool,
}
