//! What was seen of a Kustomization, as values: all that a decision depends on.
//!
//! A run of the engine fills it from memory, the mirrors, the watches and the ownership graph; a preview
//! fills it from trees and reads. Neither decides anything.

use std::sync::Arc;
use std::time::Duration;

use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use equate_apply::plan;
use tokio::time::Instant;

use super::health::Verdict;
use super::objects::Objects;
use crate::Key;
use crate::dependencies::DependencySeen;
use crate::kustomization::declared::Declared;
use crate::kustomization::inputs::artifact::SourceSeen;
use crate::kustomization::reasons::{Failure, Stall};
use crate::ownership::contest::Contest;
use crate::ownership::desired::DesiredSet;

/// What was seen of a Kustomization and its surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// When the run began.
    pub(crate) began: Instant,
    /// Whether those that have more to do go first: only its source woke it, and it has not stood back yet.
    pub(crate) deferrable: bool,
    /// What has to be there before anything is built.
    pub(crate) prerequisites: Arc<Prerequisites>,
    /// Why its target cluster cannot be reached, if it cannot.
    pub(crate) no_access: Option<Failure>,
    /// The token of the request that the run answers.
    pub(crate) request: Option<String>,
    /// Whether its status says that it is ready.
    pub(crate) ready: bool,
    /// What this process did last; nothing after a start.
    pub(crate) last: Option<Last>,
    /// What it wants, where that was built without being carried out.
    pub(crate) ahead: Ahead,
    /// What crosses the border of the shard.
    pub(crate) exchange: Exchange,
    /// Since when something is waited for.
    pub(crate) since: Since,
    /// How often one that waits looks by itself.
    pub(crate) dependency_retry: Duration,
    /// The objects that a plan would be about.
    pub(crate) objects: Option<Objects>,
    /// What is asked before objects of a deleted Kustomization go, and after.
    pub(crate) deletion: Deletion,
}

impl Seen {
    /// What this process did last, if that is what there is to do now.
    pub(crate) fn current(&self, ks: &Declared) -> Option<&Last> {
        let last = self.last.as_ref();
        last.filter(|last| last.inputs_hold && last.generation == ks.generation)
    }

    /// A build whose objects are to be applied, and nothing else known: what a preview begins with.
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

/// What has to be there before anything is built: looked at once in a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prerequisites {
    /// The source and its artifact.
    pub(crate) source: SourceSeen,
    /// The digest of its artifact; where there is none to read, of the one that its status names.
    pub(crate) published: Option<String>,
    /// Whether this process knows that this is what the source has now.
    pub(crate) looked: bool,
    /// The Kustomizations this one depends on, as they are declared.
    pub(crate) dependencies: Vec<(Key, DependencySeen)>,
    /// The way from this Kustomization back to itself through `dependsOn`, if there is one.
    pub(crate) cycle: Option<Vec<Key>>,
    /// What the policy does not let it have.
    pub(crate) denied: Option<Stall>,
    /// What in its spec cannot be read, and why.
    pub(crate) invalid: Option<Stall>,
}

/// What this process did last for a Kustomization.
#[derive(Debug, Clone)]
pub(crate) struct Last {
    /// The generation of the spec that was carried out.
    pub(crate) generation: i64,
    /// The revision.
    pub(crate) revision: String,
    /// The first revision of which the same was built: what a confirmation names.
    pub(crate) since: String,
    /// The token of the request that was taken up.
    pub(crate) token: Option<String>,
    /// Whether the present artifact holds what was built from, unchanged.
    pub(crate) inputs_hold: bool,
    /// Whether its build is still here.
    pub(crate) built: bool,
    /// Whether nothing was built but this very loop.
    pub(crate) empty: bool,
    /// What it wants; none if that could not be found out.
    pub(crate) wants: Option<DesiredSet>,
    /// Whether all of that was applied at some time.
    pub(crate) applied: bool,
    /// All that this run applied, if it got through all stages.
    pub(crate) passed: Option<Passed>,
    /// Whether anything was changed that no status tells of yet.
    pub(crate) changed: bool,
    /// Whether the status says that its revision is applied and ready.
    pub(crate) said: bool,
    /// Whether the status says that its revision is in progress, and nothing of health checks.
    pub(crate) in_progress: bool,
    /// Since when health is waited for.
    pub(crate) checking_since: Instant,
    /// Whether somebody said that it may delete whatever it deletes.
    pub(crate) confirmed: bool,
    /// The objects that others hold, each with whether this process reconciles the other.
    pub(crate) contests: Vec<(Contest, bool)>,
    /// Whether the cluster differs from what was applied and the time to correct it has come.
    pub(crate) drifted: bool,
    /// Whether an object that another Kustomization held is free now, or one that had to go is gone.
    pub(crate) freed: bool,
    /// Whether a dependency is another than it was when this was tried.
    pub(crate) hope: bool,
    /// Whether anything has to be healthy.
    pub(crate) checked: bool,
    /// Whether the objects that have to be healthy are.
    pub(crate) health: Verdict,
    /// How far it came.
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
            said: false,
            in_progress: false,
            checking_since: until,
            confirmed: false,
            contests: Vec::new(),
            drifted: false,
            freed: false,
            hope: false,
            checked: false,
            health: Verdict::Healthy,
            phase: Phase::Staged { until },
        }
    }
}

/// What a run applied, stage by stage, to the last.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    /// The plan that was carried out.
    pub(crate) plan: Arc<plan::Plan>,
    /// What was declared.
    pub(crate) desired: Arc<Vec<Desired>>,
}

/// How far a Kustomization came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A stage is applied, and the next waits for it until then.
    Staged {
        /// When waiting becomes failing.
        until: Instant,
    },
    /// All is applied; what has to be healthy is waited for until then.
    Checking {
        /// When waiting becomes failing.
        until: Instant,
    },
    /// All is as it should be.
    Ready {
        /// Something has stopped being healthy, and has this long to become so again.
        until: Option<Instant>,
    },
    /// All is applied, but something is not healthy.
    Unhealthy {
        /// When it is applied again.
        retry: Instant,
    },
    /// Something failed.
    Failed {
        /// When to try again; never where only other inputs can help.
        retry: Option<Instant>,
    },
    /// Nothing was applied, for it would delete too much.
    Unconfirmed,
}

/// What a build says that is not carried out yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// There is no such build of what there is now.
    Missing,
    /// It could not be built, for the API server could not be asked.
    Unreached,
    /// What it wants.
    Wants(DesiredSet),
}

/// What crosses the border of the shard.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Exchange {
    /// What it wants and another shard holds, with the versions that its holders have it in.
    pub(crate) claims: Inventory,
    /// What another shard claims and it does not want.
    pub(crate) released: Inventory,
    /// What has to be asked first: a want without the right to it counts for nothing.
    pub(crate) questions: Questions,
}

impl Exchange {
    /// Whether nothing does.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.released.is_empty()
    }
}

/// What the API server is to be asked: who may write what.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Questions {
    /// About single objects.
    pub(crate) objects: Vec<Question>,
    /// About what others need in a Namespace or of a CustomResourceDefinition: of each container until one
    /// may.
    pub(crate) containers: Vec<Vec<Question>>,
    /// The objects for whose sake it is asked; once in a run, whether or not there was an answer.
    pub(crate) about: Vec<ObjectId>,
}

impl Questions {
    /// Whether there is nothing to ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.containers.iter().all(Vec::is_empty)
    }

    /// These and others.
    #[must_use]
    pub(crate) fn and(mut self, others: Questions) -> Self {
        self.objects.extend(others.objects);
        self.containers.extend(others.containers);
        self.about.extend(others.about);
        self
    }
}

/// Whether an owner may write an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// Who that is.
    pub(crate) by: Owner,
    /// Whom it acts as.
    pub(crate) user: String,
    /// The object.
    pub(crate) id: ObjectId,
    /// The version of its API, where that is known.
    pub(crate) version: String,
}

/// Since when something is waited for; nothing where it is not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Since {
    /// For something that is missing.
    pub(crate) missing: Option<Instant>,
    /// For a word of other Kustomizations.
    pub(crate) others: Option<Instant>,
    /// Until when objects that are deleted are waited for.
    pub(crate) terminating_until: Option<Instant>,
}

/// What is asked before the objects of a deleted Kustomization go, and after.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletion {
    /// Whether somebody has to be there who may delete them.
    pub(crate) acts_as: bool,
    /// Whether that is so, and what is followed; nothing where nobody looked yet.
    pub(crate) prepared: Option<Prepared>,
    /// What this run deleted, and what of it is still there.
    pub(crate) deleted: Option<Deleted>,
}

/// What was found out before anything is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Whether the account that deletes is there; also where nobody can say.
    pub(crate) account: bool,
    /// Whether kinds are not listed yet whose objects are waited for.
    pub(crate) starting: bool,
}

/// What a run deleted.
#[derive(Debug, Clone)]
pub(crate) struct Deleted {
    /// The plan that was carried out.
    pub(crate) plan: Arc<plan::Plan>,
    /// What of it is still there.
    pub(crate) remaining: Vec<ObjectId>,
    /// Whether some of that is not watched: it has to be asked for again.
    pub(crate) blind: bool,
}
