//! A controller: four verbs over one kind.
//!
//! | verb | may | must not |
//! |---|---|---|
//! | [`observe`](Controller::observe) | read: mirrors, watches, stores, the API server, hosts | write |
//! | [`decide`](Controller::decide) | compare values | read, write, use a clock |
//! | [`act`](Controller::act) | write: objects, stores, statuses ahead of what they announce | choose |
//! | [`report`](Controller::report) | return the final status and events | read, write |
//!
//! The kit calls them in this order, again from `observe` while `act` returns [`Acted::Again`], at most
//! [`ROUNDS_MAX`] times. It manages finalizer, `spec.suspend`, requests
//! (`reconcile.fluxcd.io/requestedAt`), status writes, events, intervals and retries.
//!
//! No verb waits for another object: the report ends the run, and a change of the other object starts
//! the next one.

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

/// The number of rounds in one run before the object goes back to the queue.
pub const ROUNDS_MAX: usize = 4;

/// A controller of one kind.
pub trait Controller: Sized + Send + Sync + 'static {
    /// The custom resource.
    type Object: Reconcilable;
    /// An object as this controller reads it: parsed once, with defaults.
    type Declared: Send + Sync;
    /// State of an object between runs. It may be lost with the process, and a panic drops it, because
    /// it may be half changed.
    type Memory: Default + Send + 'static;
    /// The observations.
    type Seen: Send + Sync;
    /// The actions, with no choice left.
    type Plan: fmt::Debug + PartialEq + Send;
    /// The results.
    type Done: Send;

    /// The controller as data.
    const ABOUT: &'static About;

    /// Whether suspended objects go through the verbs as well, because other objects depend on their
    /// announcements. Otherwise the kit skips them.
    const ATTENDS_SUSPENDED: bool = false;

    /// Creates the controller of one process.
    fn new(kit: &Arc<Kit>) -> Self;

    /// Whether an object needs the kind's finalizer. One that does not, and has it, loses it with
    /// [`Acted::Released`].
    fn is_finalized(_object: &Self::Object) -> bool {
        true
    }

    /// Parses an object.
    fn declare(object: &Self::Object) -> Result<Self::Declared, Failure>;

    /// Reads everything that the decision depends on.
    fn observe(
        &self,
        run: &mut Reconciliation<'_, Self>,
        declared: &Self::Declared,
    ) -> impl Future<Output = Result<Self::Seen, Stop>> + Send;

    /// Decides: total and pure.
    fn decide(declared: &Self::Declared, seen: &Self::Seen, now: Instant) -> Self::Plan;

    /// Carries a plan out.
    fn act(
        &self,
        run: &mut Reconciliation<'_, Self>,
        declared: &Self::Declared,
        seen: Self::Seen,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Acted<Self::Done>, Stop>> + Send;

    /// Reports how the run ended. `before` is the current status.
    fn report(
        declared: &Self::Declared,
        before: &StatusOf<Self>,
        done: Self::Done,
        now: Timestamp,
    ) -> Report<StatusOf<Self>>;

    /// Cleans up after an object that is being deleted and that [`Controller::declare`] refuses, from
    /// its status and memory. Then the finalizer goes, and the returned event says what happened to the
    /// objects it applied. By default they stay.
    fn release_undeclared(
        &self,
        _run: &mut Reconciliation<'_, Self>,
        refused: &Failure,
    ) -> impl Future<Output = Result<Notice, Failure>> + Send {
        std::future::ready(Ok(Notice::left(refused)))
    }

    /// The objects to wake after a change of this kind. By default the object itself, unless only its
    /// status changed.
    fn affected(&self, change: &Change<Self::Object>) -> Vec<(ObjectRef, Reason)> {
        let own = ObjectRef::of(Self::ABOUT.kind, &change.key);
        own_reason(change.what)
            .map(|reason| (own, reason))
            .into_iter()
            .collect()
    }

    /// Completes when the controller knows enough of other kinds to reconcile.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// How often an object runs without being woken.
    fn interval(&self, object: &Self::Object) -> Duration {
        object.interval()
    }

    /// The object is suspended: release its watches until it is resumed.
    fn suspend(&self, _key: &Key, _memory: Self::Memory) {}

    /// The status of a suspended object.
    fn suspended(_declared: &Self::Declared, status: StatusOf<Self>) -> StatusOf<Self> {
        status
    }

    /// A run ended, and its status is written.
    fn finished(&self, _key: &Key) {}

    /// The object is not reconciled here any more: drop all its state.
    fn forget(&self, _key: &Key, _memory: Self::Memory, _why: Absence) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The status of a controller's objects.
pub type StatusOf<C> = <<C as Controller>::Object as Reconcilable>::Status;

/// The reason for the object's own run after a change of it.
pub fn own_reason(what: What) -> Option<Reason> {
    match what {
        // its memory goes with it
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

    /// Its status, as last written.
    fn status(&self) -> Option<&Self::Status>;

    /// `spec.interval`, or its equivalent.
    fn interval(&self) -> Duration;

    /// `spec.retryInterval`, or its equivalent: the longest wait after a failure.
    fn retry_interval(&self) -> Duration {
        self.interval()
    }

    /// `spec.suspend`.
    fn is_suspended(&self) -> bool {
        false
    }

    /// Whether nothing is done for it, so that it never gets conditions: others only read its spec.
    fn is_static(&self) -> bool {
        false
    }

    /// The current revision, for lists; `None` for kinds without revisions.
    fn revision(&self) -> Option<&str> {
        None
    }

    /// The time since when it has its revision, for lists; `None` if its status does not tell.
    fn revision_time(&self) -> Option<Timestamp> {
        None
    }

    /// The inventory in its status.
    fn inventory(&self) -> &[InventoryEntry] {
        &[]
    }
}

/// The parts of a status that all of Flux's kinds have.
pub trait Status: Clone + Default + PartialEq + fmt::Debug + Serialize + Send + Sync + 'static {
    /// `conditions`, and their `observedGeneration`.
    fn observed(&self) -> (&[Condition], Option<i64>);

    /// `conditions`.
    fn conditions(&mut self) -> &mut Vec<Condition>;

    /// `observedGeneration`.
    fn observed_generation(&mut self) -> &mut Option<i64>;

    /// `lastHandledReconcileAt`.
    fn last_handled_reconcile_at(&mut self) -> &mut Option<String>;
}

/// Implements [`Status`] for types with these three fields.
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
    /// It fetched missing inputs: observe and decide again.
    Again,
    /// It is done; the report describes it.
    Done(D),
    /// It ends without a report.
    Unreported(Next),
    /// The cleanup of a deleted object is complete: its finalizer can go.
    Released,
}

/// The end of a run, to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Report<S> {
    /// The desired status; written if it differs.
    pub status: S,
    /// Events, published when the status is written.
    pub notices: Vec<Notice>,
    /// The next run if nothing wakes the object.
    pub next: Next,
    /// Whether the requested reconciliation ended, successfully or not. Then the status answers an open
    /// request.
    pub ended: bool,
    /// Whether the run failed. Metrics count it as an error, also if nothing retries it.
    pub failed: bool,
}

/// When an object runs next if nothing wakes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Only when it is woken.
    Await,
    /// After its interval.
    Interval,
    /// After this time, for this reason.
    After(Duration, Reason),
    /// The same, in the middle of an attempt: earlier failures still count for the next backoff.
    Pause(Duration, Reason),
    /// The run failed: after the backoff.
    Backoff,
    /// The run failed: after the backoff, but no later than this.
    BackoffWithin(Duration),
}

/// An event about the object of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Normal or warning.
    pub severity: Severity,
    /// A condition's reason, `ReconciliationSucceeded`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Annotations by name, like `revision`.
    pub metadata: BTreeMap<&'static str, String>,
}

impl Notice {
    /// An event without metadata.
    pub fn new(severity: Severity, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity,
            reason: reason.into(),
            message: message.into(),
            metadata: BTreeMap::new(),
        }
    }

    /// The object is deleted without cleanup, because its spec was refused.
    pub fn left(refused: &Failure) -> Self {
        let message = format!("deleted without cleanup: {refused}; delete its objects by hand");
        Self::new(Severity::Warning, refused.reason.as_str(), message)
    }

    /// Adds metadata.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.insert(name, value.into());
        self
    }
}

/// When to retry a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not before the spec or the inputs change: the object stalls.
    Never,
    /// After the retry interval.
    Interval,
    /// Soon, with growing delays.
    Backoff,
}

/// Why a run failed: all that status, events, metrics and the queue need.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason of `Ready`.
    pub reason: Why,
    /// For people: operation, object, cause, what to do.
    pub message: String,
    /// When to retry.
    pub retry: Retry,
}

impl Failure {
    /// A failure that only a change of the spec or the inputs can fix.
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

/// Writes the conditions of every kind, as kstatus and Flux's tools read them.
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

    /// The spec is applied.
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

    /// The spec is not applied.
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
