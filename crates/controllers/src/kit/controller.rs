//! A controller: four verbs over one kind. Everything else that a controller needs, the kit does.
//!
//! | verb | may | must not |
//! |---|---|---|
//! | [`observe`](Controller::observe) | read: mirrors, watches, stores, the API server, hosts | write |
//! | [`decide`](Controller::decide) | compare values | read, write, look at a clock |
//! | [`act`](Controller::act) | write: objects, stores, statuses ahead of what they announce | choose |
//! | [`report`](Controller::report) | say how it ended, as a status and events | read, write |
//!
//! The kit finds the object, adds and removes the finalizer, honours `spec.suspend`, answers requests
//! (`reconcile.fluxcd.io/requestedAt`), writes the status if it changed, publishes events, spreads intervals
//! and repeats what failed. It calls the verbs in this order, again from `observe` as long as `act` answers
//! [`Acted::Again`], at most [`ROUNDS_MAX`] times; then the object goes back to the queue.
//!
//! No verb waits for something that another object does: the report says what ends the run, and a change
//! begins the next one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::InventoryEntry;
use equate_api::meta::{
    Condition, ConditionStatus, ConditionType, Reason as Why, remove_condition, set_condition,
};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::about::About;
use super::events::Severity;
use super::mirror::{Change, What};
use super::reconciliation::{Reconciliation, Stop};
use super::services::Kit;
use super::wake::Reason;
use crate::{Key, ObjectRef};

/// So often the verbs are called in one run before the object goes back to the queue.
pub const ROUNDS_MAX: usize = 4;

/// A controller of one kind.
pub trait Controller: Sized + Send + Sync + 'static {
    /// The custom resource.
    type Object: Reconcilable;
    /// An object as this controller reads it: parsed once, with defaults filled in.
    type Declared: Send + Sync;
    /// The memory of an object between runs; it may be lost with the process. A run that panics loses it, too:
    /// it may have been half changed.
    type Memory: Default + Send + 'static;
    /// What was seen.
    type Seen: Send + Sync;
    /// What to do, with no choice left.
    type Plan: fmt::Debug + PartialEq + Send;
    /// What was done.
    type Done: Send;

    /// The controller as data.
    const ABOUT: &'static About;

    /// Whether suspended objects go through the verbs as well: where other objects depend on what one says of
    /// itself also then. Else the kit leaves them alone.
    const ATTENDS_SUSPENDED: bool = false;

    /// The controller of one process.
    fn new(kit: &Arc<Kit>) -> Self;

    /// Parses an object.
    ///
    /// # Errors
    /// When its spec has no meaning: the object stalls until somebody changes it. One that is being deleted
    /// goes to [`Controller::release_undeclared`] then.
    fn declare(object: &Self::Object) -> Result<Self::Declared, Failure>;

    /// Reads all that the decision depends on.
    ///
    /// # Errors
    /// When the object is gone, or a status could not be written.
    fn observe(
        &self,
        run: &mut Reconciliation<'_, Self>,
        declared: &Self::Declared,
    ) -> impl Future<Output = Result<Self::Seen, Stop>> + Send;

    /// Decides: total and pure.
    fn decide(declared: &Self::Declared, seen: &Self::Seen, now: Instant) -> Self::Plan;

    /// Carries a plan out.
    ///
    /// # Errors
    /// When the object is gone, or a status could not be written. All other failures are part of what was
    /// done: the report says them.
    fn act(
        &self,
        run: &mut Reconciliation<'_, Self>,
        declared: &Self::Declared,
        seen: Self::Seen,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Acted<Self::Done>, Stop>> + Send;

    /// Says how the run ended. `before` is the status as it stands.
    fn report(
        declared: &Self::Declared,
        before: &StatusOf<Self>,
        done: Self::Done,
        now: Timestamp,
    ) -> Report<StatusOf<Self>>;

    /// Cleans up after an object that is being deleted and that [`Controller::declare`] refuses, by its status
    /// and what is remembered of it. The finalizer goes, and the answer is published as the event that says
    /// what became of what the object left. By default that stays: override this where something has to be
    /// deleted first.
    ///
    /// # Errors
    /// When that could not be deleted: the status says so, the finalizer stays, and the failure says when it is
    /// tried again.
    fn release_undeclared(
        &self,
        _run: &mut Reconciliation<'_, Self>,
        refused: &Failure,
    ) -> impl Future<Output = Result<Notice, Failure>> + Send {
        std::future::ready(Ok(Notice::left(refused)))
    }

    /// The objects to wake when one of this kind changes; by default that one, unless its status alone did.
    fn affected(&self, change: &Change<Self::Object>) -> Vec<(ObjectRef, Reason)> {
        let own = ObjectRef::of(Self::ABOUT.kind, &change.key);
        own_reason(change.what)
            .map(|reason| (own, reason))
            .into_iter()
            .collect()
    }

    /// Ready when objects can be reconciled: what a controller has to know of other kinds is known.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// How often an object is looked at without being woken.
    fn interval(&self, object: &Self::Object) -> Duration {
        object.interval()
    }

    /// The object is suspended: watches of its own are not needed until it is resumed.
    fn suspend(&self, _key: &Key, _memory: Self::Memory) {}

    /// The status of an object that is suspended.
    fn suspended(_declared: &Self::Declared, status: StatusOf<Self>) -> StatusOf<Self> {
        status
    }

    /// A run ended, and its status is written.
    fn finished(&self, _key: &Key) {}

    /// The object is not reconciled here any more: nothing of it stays in this process.
    fn forget(&self, _key: &Key, _memory: Self::Memory, _why: Absence) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The status of a controller's objects.
pub type StatusOf<C> = <<C as Controller>::Object as Reconcilable>::Status;

/// Why the object itself runs after a change of it.
pub fn own_reason(what: What) -> Option<Reason> {
    match what {
        // what is remembered of it goes with it
        What::Gone => Some(Reason::Deleted),
        other => other.reason(),
    }
}

/// Why an object is not reconciled here any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It does not exist any more.
    Deleted,
    /// Another process reconciles it.
    OtherShard,
}

/// A custom resource that a controller reconciles.
pub trait Reconcilable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its status.
    type Status: Status;

    /// What is written of it.
    fn status(&self) -> Option<&Self::Status>;

    /// `spec.interval`, or what takes its place.
    fn interval(&self) -> Duration;

    /// `spec.retryInterval`, or what takes its place: how long to wait after a failure at most.
    fn retry_interval(&self) -> Duration {
        self.interval()
    }

    /// `spec.suspend`.
    fn is_suspended(&self) -> bool {
        false
    }

    /// The revision that it stands at, for lists; none where its kind has no revisions.
    fn revision(&self) -> Option<&str> {
        None
    }

    /// What it applied, by its status.
    fn inventory(&self) -> &[InventoryEntry] {
        &[]
    }
}

/// The parts of a status that all of Flux's kinds have.
pub trait Status: Clone + Default + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static {
    /// `conditions`, and the `observedGeneration` that they are of.
    fn observed(&self) -> (&[Condition], Option<i64>);

    /// `conditions`.
    fn conditions(&mut self) -> &mut Vec<Condition>;

    /// `observedGeneration`.
    fn observed_generation(&mut self) -> &mut Option<i64>;

    /// `lastHandledReconcileAt`.
    fn last_handled_reconcile_at(&mut self) -> &mut Option<String>;
}

/// Implements [`Status`] for types that have its three fields under these names.
#[macro_export]
macro_rules! standard_status {
    ($($status:ty),+ $(,)?) => {$(
        impl $crate::kit::Status for $status {
            fn observed(&self) -> (&[::equate_api::meta::Condition], Option<i64>) {
                (&self.conditions, self.observed_generation)
            }

            fn conditions(&mut self) -> &mut Vec<::equate_api::meta::Condition> {
                &mut self.conditions
            }

            fn observed_generation(&mut self) -> &mut Option<i64> {
                &mut self.observed_generation
            }

            fn last_handled_reconcile_at(&mut self) -> &mut Option<String> {
                &mut self.last_handled_reconcile_at
            }
        }
    )+};
}

/// How far a plan was carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Acted<D> {
    /// It fetched what the decision asked for: look and decide again.
    Again,
    /// It is done; the report says so.
    Done(D),
    /// It ends without a word; when the object runs next.
    Silent(Next),
    /// Nothing is left of an object that is being deleted: its finalizer can go.
    Released,
}

/// How a run ended, to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct Report<S> {
    /// The status as it should stand; written where it differs.
    pub status: S,
    /// Events, published when the status is written.
    pub notices: Vec<Notice>,
    /// When the object runs next if nothing wakes it.
    pub next: Next,
    /// Whether what was asked for has ended, well or badly: then the status answers an open request.
    pub ended: bool,
    /// Whether the run failed, also where nothing repeats it: metrics count it as an error.
    pub failed: bool,
}

/// When an object runs next if nothing wakes it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Only when it is woken.
    Await,
    /// After its interval.
    Interval,
    /// After this time.
    After(Duration, Reason),
    /// The run failed: after the back-off, which doubles with each failure.
    Backoff,
    /// The same, but no later than this.
    BackoffWithin(Duration),
}

/// An event about the object of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether something is as it should be.
    pub severity: Severity,
    /// A condition's reason, `ReconciliationSucceeded`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Facts by name, like `revision`.
    pub metadata: BTreeMap<&'static str, String>,
}

impl Notice {
    /// An event without facts.
    pub fn new(severity: Severity, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
            reason: reason.into(),
            message: message.into(),
            metadata: BTreeMap::new(),
        }
    }

    /// The object is deleted without cleaning up, because its spec was refused.
    pub fn left(refused: &Failure) -> Self {
        let message = format!("deleted without cleaning up: {refused}; delete by hand what it left");
        Self::new(Severity::Warning, refused.reason.as_str(), message)
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.insert(name, value.into());
        self
    }
}

/// When a failure is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not before the spec or the inputs change: the object stalls.
    Never,
    /// After the retry interval.
    Interval,
    /// Soon, and later each time.
    Backoff,
}

/// Why a run failed: all that status, events, metrics and the queue need of an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason of `Ready`.
    pub reason: Why,
    /// For people: operation, object, cause, what to do.
    pub message: String,
    /// When it is worth another try.
    pub retry: Retry,
}

impl Failure {
    /// A failure that only a change of the spec or of the inputs can help.
    pub fn stalled(reason: Why, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry: Retry::Never,
        }
    }

    /// A failure that may pass by itself.
    pub fn passing(reason: Why, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry: Retry::Backoff,
        }
    }

    /// When an object that failed like this runs next.
    pub fn next(&self, retry_interval: Duration) -> Next {
        match self.retry {
            Retry::Never => Next::Await,
            Retry::Interval => Next::After(retry_interval, Reason::Retry),
            Retry::Backoff => Next::BackoffWithin(retry_interval),
        }
    }
}

/// Writes the conditions that every kind has, as kstatus and Flux's tools read them.
#[derive(Debug)]
pub struct StandardConditions<'a, S> {
    status: &'a mut S,
    generation: i64,
    now: Timestamp,
}

impl<'a, S: Status> StandardConditions<'a, S> {
    /// Conditions of a status, at a generation of the spec.
    pub fn new(status: &'a mut S, generation: i64, now: Timestamp) -> Self {
        Self {
            status,
            generation,
            now,
        }
    }

    /// The spec is carried out.
    pub fn ready(self, reason: Why, message: &str) {
        let Self {
            status,
            generation,
            now,
        } = self;
        for over in [ConditionType::Reconciling, ConditionType::Stalled] {
            remove_condition(status.conditions(), over);
        }
        let ready = ConditionType::Ready;
        set_condition(
            status.conditions(),
            ready,
            ConditionStatus::True,
            reason,
            message,
            generation,
            now,
        );
        *status.observed_generation() = Some(generation);
    }

    /// It is not, and why.
    pub fn failed(self, failure: &Failure) {
        let Self {
            status,
            generation,
            now,
        } = self;
        let (doing, over, why) = match failure.retry {
            Retry::Never => (ConditionType::Stalled, ConditionType::Reconciling, failure.reason),
            Retry::Interval | Retry::Backoff => (
                ConditionType::Reconciling,
                ConditionType::Stalled,
                Why::ProgressingWithRetry,
            ),
        };
        remove_condition(status.conditions(), over);
        for (of, is, reason) in [
            (doing, ConditionStatus::True, why),
            (ConditionType::Ready, ConditionStatus::False, failure.reason),
        ] {
            set_condition(
                status.conditions(),
                of,
                is,
                reason,
                &failure.message,
                generation,
                now,
            );
        }
        if failure.retry == Retry::Never {
            *status.observed_generation() = Some(generation);
        }
    }
}
