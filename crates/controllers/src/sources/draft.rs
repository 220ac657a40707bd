//! The status of a source and its events, as all kinds of sources write them; pure. Conditions, reasons and
//! messages are those of Flux's source-controller v1.9: failures keep `observedGeneration`, successes and
//! stalls update it.

use std::time::Duration;

use equate_api::meta::{
    ConditionStatus, ConditionType, Reason, condition, is_true, remove_condition, set_condition,
};
use equate_api::source::{
    Artifact, BucketStatus, GitRepositoryStatus, HelmChartStatus, HelmRepositoryStatus, OciRepositoryStatus,
};
use equate_source::Stored;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::failure::{CONDITIONS, Failure};
use crate::kit::Status;
use crate::kit::controller::{Next, Notice, Report, Retry};
use crate::kit::events::Severity;

/// The status of a source.
pub(crate) trait SourceStatus: Status {
    fn artifact(&self) -> Option<&Artifact>;

    fn set_artifact(&mut self, artifact: Option<Artifact>);
}

macro_rules! source_status {
    ($($status:ty),+ $(,)?) => {$(
        impl SourceStatus for $status {
            fn artifact(&self) -> Option<&Artifact> {
                self.artifact.as_ref()
            }

            fn set_artifact(&mut self, artifact: Option<Artifact>) {
                self.artifact = artifact;
            }
        }
    )+};
}

source_status!(
    BucketStatus,
    GitRepositoryStatus,
    HelmChartStatus,
    HelmRepositoryStatus,
    OciRepositoryStatus,
);

/// A newer revision than the artifact's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutdatedBy {
    /// The reason of `ArtifactOutdated`.
    pub(crate) reason: Reason,
    /// Such as `new upstream revision 'main@sha1:…'`.
    pub(crate) text: String,
}

/// A status while a report changes it.
#[derive(Debug)]
pub(crate) struct Draft<S> {
    pub(crate) status: S,
    generation: i64,
    now: Timestamp,
}

impl<S: SourceStatus> Draft<S> {
    pub(crate) fn new(before: &S, generation: i64, now: Timestamp) -> Self {
        let mut status = before.clone();
        // the first status replaces the default of the CRD, which means that nothing was observed
        let observed = status.observed_generation();
        *observed = observed.or(Some(-1));
        Self {
            status,
            generation,
            now,
        }
    }

    pub(crate) fn finish(self) -> S {
        self.status
    }

    pub(crate) fn suspended(mut self) -> S {
        if !self.status.conditions().is_empty() {
            *self.status.observed_generation() = Some(self.generation);
        }
        let observed = [ConditionType::Ready.as_str(), ConditionType::Reconciling.as_str()];
        let conditions = self.status.conditions().iter_mut();
        for condition in conditions.filter(|condition| observed.contains(&&*condition.type_)) {
            condition.observed_generation = Some(self.generation);
        }
        self.finish()
    }

    /// An operation takes long enough for a status about its progress.
    pub(crate) fn progressing(mut self, news: Option<&OutdatedBy>) -> S {
        let message = self.progress(news);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::Progressing,
            &message,
        );
        let ready = condition(self.status.conditions(), ConditionType::Ready);
        if ready.is_none_or(|ready| ready.status == ConditionStatus::Unknown.as_str()) {
            self.set(
                ConditionType::Ready,
                ConditionStatus::Unknown,
                Reason::Progressing,
                &message,
            );
        }
        self.finish()
    }

    /// Nothing happens until the spec changes.
    #[must_use]
    pub(crate) fn stalled(mut self, failure: &Failure) -> Self {
        self.clear(ConditionType::Reconciling);
        self.set_failure(failure);
        self.set(
            ConditionType::Stalled,
            ConditionStatus::True,
            failure.reason,
            &failure.message,
        );
        *self.status.observed_generation() = Some(self.generation);
        self
    }

    #[must_use]
    pub(crate) fn failed(mut self, failure: &Failure, news: Option<&OutdatedBy>) -> Self {
        let message = self.progress(news);
        self.clear(ConditionType::Stalled);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::ProgressingWithRetry,
            &message,
        );
        if let (Some(news), Some(_)) = (news, self.status.artifact()) {
            self.set(
                ConditionType::ArtifactOutdated,
                ConditionStatus::True,
                news.reason,
                &news.text,
            );
        }
        self.set_failure(failure);
        self
    }

    /// The artifact of the status is missing from the store, so its URL serves nothing.
    #[must_use]
    pub(crate) fn lost(mut self) -> Self {
        self.status.set_artifact(None);
        self.clear(ConditionType::ArtifactInStorage);
        self
    }

    /// The URL of the artifact may have changed.
    #[must_use]
    pub(crate) fn moved(mut self, url: Option<String>) -> Self {
        if let (Some(artifact), Some(url)) = (self.status.artifact().cloned(), url) {
            self.status.set_artifact(Some(Artifact { url, ..artifact }));
        }
        self
    }

    #[must_use]
    pub(crate) fn stored(mut self, stored: &Stored) -> Self {
        self.status.set_artifact(Some(artifact(stored)));
        self
    }

    /// The artifact is up to date.
    #[must_use]
    pub(crate) fn succeeded(mut self, reason: Reason, message: &str) -> Self {
        let over = [
            ConditionType::ArtifactOutdated,
            ConditionType::Reconciling,
            ConditionType::Stalled,
        ];
        for gone in CONDITIONS.into_iter().chain(over) {
            self.clear(gone);
        }
        for done in [ConditionType::ArtifactInStorage, ConditionType::Ready] {
            self.set(done, ConditionStatus::True, reason, message);
        }
        *self.status.observed_generation() = Some(self.generation);
        self
    }

    /// Sets the failure's own condition and `Ready`, and removes earlier failures. An earlier successful
    /// verification remains until this revision fails its own.
    fn set_failure(&mut self, failure: &Failure) {
        let verified = ConditionType::SourceVerified;
        if failure.condition == Some(verified) {
            self.clear(ConditionType::ArtifactOutdated);
            self.set(verified, ConditionStatus::False, failure.reason, &failure.message);
        } else if !is_true(self.status.conditions(), verified) {
            self.clear(verified);
        }
        for kind in CONDITIONS {
            match failure.condition == Some(kind) {
                true => self.set(kind, ConditionStatus::True, failure.reason, &failure.message),
                false => self.clear(kind),
            }
        }
        self.set(
            ConditionType::Ready,
            ConditionStatus::False,
            failure.reason,
            &failure.message,
        );
    }

    fn progress(&self, news: Option<&OutdatedBy>) -> String {
        let generation = self.generation;
        let (_, observed) = self.status.observed();
        match (news, observed, self.status.artifact()) {
            (Some(news), _, _) => format!("building artifact: {}", news.text),
            (None, _, None) => "building artifact".to_owned(),
            (None, observed, Some(_)) if observed != Some(generation) => format!(
                "processing object: new generation {} -> {generation}",
                observed.unwrap_or(-1)
            ),
            (None, _, Some(_)) => "reconciliation in progress".to_owned(),
        }
    }

    pub(crate) fn set(&mut self, of: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        let (generation, now) = (self.generation, self.now);
        set_condition(
            self.status.conditions(),
            of,
            status,
            reason,
            message,
            generation,
            now,
        );
    }

    pub(crate) fn clear(&mut self, of: ConditionType) {
        remove_condition(self.status.conditions(), of);
    }
}

/// An artifact of the store, for a status.
pub(crate) fn artifact(stored: &Stored) -> Artifact {
    // times in Kubernetes have no fractions: one with a fraction would differ after reading it back
    let updated = Timestamp::from_second(stored.updated.as_second()).unwrap_or(stored.updated);
    Artifact {
        digest: stored.digest.clone(),
        last_update_time: Time(updated),
        metadata: Default::default(),
        path: stored.path.clone(),
        revision: stored.revision.clone(),
        size: i64::try_from(stored.size).ok(),
        url: stored.url.clone(),
    }
}

pub(crate) fn recovered<S: SourceStatus>(before: &S, after: &S) -> bool {
    let failed = |status: &S| {
        let mut all = CONDITIONS.into_iter();
        all.any(|kind| condition(status.observed().0, kind).is_some())
    };
    failed(before) && !failed(after)
}

/// The run has ended with this status.
pub(crate) fn ended<S: SourceStatus>(status: S, notice: Option<Notice>, next: Next) -> Report<S> {
    Report {
        status,
        notices: notice.into_iter().collect(),
        next,
        ended: true,
        failed: false,
    }
}

/// The run has failed. A failure that waits for another object is no fault: a change of that object starts
/// the next run.
pub(crate) fn failed<S: SourceStatus>(
    before: &S,
    draft: Draft<S>,
    failure: &Failure,
    news: Option<&OutdatedBy>,
    interval: Duration,
    waits: bool,
) -> Report<S> {
    let (status, next, notify) = match failure.retry {
        Retry::Never => {
            let status = draft.stalled(failure).finish();
            let new = status != *before;
            (status, Next::Await, new)
        }
        Retry::Interval | Retry::Backoff => {
            let next = match waits {
                true => Next::Interval,
                false => failure.general().next(interval),
            };
            (draft.failed(failure, news).finish(), next, true)
        }
    };
    let severity = match waits && failure.retry != Retry::Never {
        true => Severity::Normal,
        false => Severity::Warning,
    };
    let notice = Notice::new(severity, failure.reason.as_str(), &failure.message);
    let notice = match (severity, status.artifact()) {
        (Severity::Normal, Some(artifact)) => with_artifact(notice, artifact),
        _ => notice,
    };
    Report {
        failed: severity == Severity::Warning,
        ..ended(status, notify.then_some(notice), next)
    }
}

/// The artifacts of a deleted object could not be removed.
pub(crate) fn not_removed<S: SourceStatus>(before: &S, error: &str) -> Report<S> {
    let message = format!("garbage collection for deleted resource failed: {error}");
    let notice = Notice::new(Severity::Warning, "GarbageCollectionFailed", message);
    Report {
        ended: false,
        failed: true,
        ..ended(before.clone(), Some(notice), Next::Backoff)
    }
}

/// An event about the artifact of a status.
pub(crate) fn about_artifact<S: SourceStatus>(status: &S, reason: &str, message: String) -> Notice {
    let notice = Notice::new(Severity::Normal, reason, message);
    match status.artifact() {
        Some(artifact) => with_artifact(notice, artifact),
        None => notice,
    }
}

fn with_artifact(notice: Notice, artifact: &Artifact) -> Notice {
    notice
        .with("revision", &artifact.revision)
        .with("digest", &artifact.digest)
}
