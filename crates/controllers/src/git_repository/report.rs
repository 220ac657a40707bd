//! The end of a run, as a status; pure: the same state always gives the same status, so nothing unchanged
//! is written. Conditions, reasons and messages are those of Flux's source-controller, from its
//! `gitrepository_controller.go` (v1.9): failures keep `observedGeneration`, successes and stalls update
//! it.

use equate_api::meta::{
    ConditionStatus, ConditionType, Reason, condition, is_true, remove_condition, set_condition,
};
use equate_api::source::{Artifact, GitRepositoryStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::act::{Done, Published};
use super::declared::Declared;
use super::failure::Failure;
use crate::kit::controller::{Next, Notice, Report, Retry};
use crate::kit::events::Severity;

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &GitRepositoryStatus,
    done: Done,
    now: Timestamp,
) -> Report<GitRepositoryStatus> {
    let draft = StatusDraft::new(declared, before, now);
    match done {
        Done::Kept { url } => {
            let status = draft.kept(url).finish();
            let artifact = status.artifact.as_ref().filter(|_| recovered(before, &status));
            let notice = artifact.map(|artifact| {
                let message = format!("stored artifact for commit '{}'", artifact.revision);
                about_artifact(&status, Reason::Succeeded.as_str(), message)
            });
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let status = draft.published(&published).finish();
            let message = format!("stored artifact for commit '{}'", published.summary);
            let stored = before.artifact.as_ref();
            let same = stored.is_some_and(|artifact| artifact.digest == published.stored.digest);
            let reason = match same {
                false => Some("NewArtifact"),
                true => recovered(before, &status).then_some(Reason::Succeeded.as_str()),
            };
            let notice = reason.map(|reason| about_artifact(&status, reason, message));
            ended(status, notice, Next::Interval)
        }
        Done::Failed {
            failure,
            revision,
            lost,
        } => {
            let draft = if lost { draft.lost() } else { draft };
            failed(declared, before, draft, &failure, revision.as_deref())
        }
        Done::Unopened => Report {
            ended: false,
            failed: true,
            ..ended(before.clone(), None, Next::BackoffWithin(declared.interval))
        },
        Done::NotRemoved(error) => {
            let message = format!("garbage collection for deleted resource failed: {error}");
            let notice = Notice::new(Severity::Warning, "GarbageCollectionFailed", message);
            Report {
                ended: false,
                failed: true,
                ..ended(before.clone(), Some(notice), Next::Backoff)
            }
        }
    }
}

fn failed(
    declared: &Declared,
    before: &GitRepositoryStatus,
    draft: StatusDraft<'_>,
    failure: &Failure,
    revision: Option<&str>,
) -> Report<GitRepositoryStatus> {
    let waits_for_include = failure.condition == Some(ConditionType::IncludeUnavailable);
    let severity = match waits_for_include {
        // waiting is no fault
        true => Severity::Normal,
        false => Severity::Warning,
    };
    let (status, next, notify) = match failure.retry {
        Retry::Never => {
            let status = draft.stalled(failure).finish();
            let new = status != *before;
            (status, Next::Await, new)
        }
        Retry::Interval | Retry::Backoff => {
            let next = match waits_for_include {
                // the included repository wakes it
                true => Next::Interval,
                false => failure.general().next(declared.interval),
            };
            (draft.failed(failure, revision).finish(), next, true)
        }
    };
    let severity = match failure.retry {
        Retry::Never => Severity::Warning,
        Retry::Interval | Retry::Backoff => severity,
    };
    let notice = Notice::new(severity, failure.reason.as_str(), &failure.message);
    let notice = match (severity, &status.artifact) {
        (Severity::Normal, Some(artifact)) => with_artifact(notice, artifact),
        _ => notice,
    };
    Report {
        failed: severity == Severity::Warning,
        ..ended(status, notify.then_some(notice), next)
    }
}

fn ended(status: GitRepositoryStatus, notice: Option<Notice>, next: Next) -> Report<GitRepositoryStatus> {
    Report {
        status,
        notices: notice.into_iter().collect(),
        next,
        ended: true,
        failed: false,
    }
}

fn about_artifact(status: &GitRepositoryStatus, reason: &str, message: String) -> Notice {
    let notice = Notice::new(Severity::Normal, reason, message);
    match &status.artifact {
        Some(artifact) => with_artifact(notice, artifact),
        None => notice,
    }
}

fn with_artifact(notice: Notice, artifact: &Artifact) -> Notice {
    notice
        .with("revision", &artifact.revision)
        .with("digest", &artifact.digest)
}

#[derive(Debug)]
pub(super) struct StatusDraft<'a> {
    declared: &'a Declared,
    now: Timestamp,
    status: GitRepositoryStatus,
}

impl<'a> StatusDraft<'a> {
    pub(super) fn new(declared: &'a Declared, before: &GitRepositoryStatus, now: Timestamp) -> Self {
        let mut status = before.clone();
        // the first status replaces the default of the CRD, which means that nothing was observed
        status.observed_generation = status.observed_generation.or(Some(-1));
        Self {
            declared,
            now,
            status,
        }
    }

    pub(super) fn finish(self) -> GitRepositoryStatus {
        self.status
    }

    pub(super) fn suspended(mut self) -> GitRepositoryStatus {
        if !self.status.conditions.is_empty() {
            self.status.observed_generation = Some(self.declared.generation);
        }
        let ready = self.status.conditions.iter_mut();
        for ready in ready.filter(|condition| condition.type_ == ConditionType::Ready.as_str()) {
            ready.observed_generation = Some(self.declared.generation);
        }
        self.finish()
    }

    /// An operation takes long enough for a status about its progress.
    pub(super) fn progressing(mut self, revision: Option<&str>) -> GitRepositoryStatus {
        let message = self.progress(revision);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::Progressing,
            &message,
        );
        let ready = condition(&self.status.conditions, ConditionType::Ready);
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
    pub(super) fn stalled(mut self, failure: &Failure) -> Self {
        self.clear(ConditionType::Reconciling);
        self.set_failure(failure);
        self.set(
            ConditionType::Stalled,
            ConditionStatus::True,
            failure.reason,
            &failure.message,
        );
        self.status.observed_generation = Some(self.declared.generation);
        self
    }

    #[must_use]
    pub(super) fn failed(mut self, failure: &Failure, revision: Option<&str>) -> Self {
        let message = self.progress(revision);
        self.clear(ConditionType::Stalled);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::ProgressingWithRetry,
            &message,
        );
        if let (Some(revision), Some(_)) = (revision, &self.status.artifact) {
            let message = format!("new upstream revision '{revision}'");
            self.set(
                ConditionType::ArtifactOutdated,
                ConditionStatus::True,
                Reason::NewRevision,
                &message,
            );
        }
        self.set_failure(failure);
        self
    }

    /// The artifact of the status is missing from the store, so its URL serves nothing.
    #[must_use]
    pub(super) fn lost(mut self) -> Self {
        self.status.artifact = None;
        self.clear(ConditionType::ArtifactInStorage);
        self
    }

    /// The artifact is up to date. Its URL may have changed.
    #[must_use]
    pub(super) fn kept(mut self, url: Option<String>) -> Self {
        if let (Some(artifact), Some(url)) = (&mut self.status.artifact, url) {
            artifact.url = url;
        }
        self.succeeded()
    }

    #[must_use]
    pub(super) fn published(mut self, published: &Published) -> Self {
        let Published {
            stored,
            summary: _,
            verified,
            included,
        } = published;
        // times in Kubernetes have no fractions: one with a fraction would differ after reading it back
        let updated = Timestamp::from_second(stored.updated.as_second()).unwrap_or(stored.updated);
        self.status.artifact = Some(Artifact {
            digest: stored.digest.clone(),
            last_update_time: Time(updated),
            metadata: Default::default(),
            path: stored.path.clone(),
            revision: stored.revision.clone(),
            size: i64::try_from(stored.size).ok(),
            url: stored.url.clone(),
        });
        self.status.observed_ignore = self.declared.ignore.clone();
        self.status.observed_include = self.declared.include.clone();
        self.status.included_artifacts = included.clone();
        self.status.observed_recurse_submodules = self.declared.submodules;
        self.status.observed_sparse_checkout = self.declared.sparse.clone();
        if let (Some(verify), Some(message)) = (&self.declared.verify, verified) {
            self.status.source_verification_mode = Some(verify.mode.as_str().to_owned());
            self.set(
                ConditionType::SourceVerified,
                ConditionStatus::True,
                Reason::Succeeded,
                message,
            );
        }
        self.succeeded()
    }

    fn succeeded(mut self) -> Self {
        for gone in [
            ConditionType::FetchFailed,
            ConditionType::StorageOperationFailed,
            ConditionType::IncludeUnavailable,
            ConditionType::ArtifactOutdated,
            ConditionType::Reconciling,
            ConditionType::Stalled,
        ] {
            self.clear(gone);
        }
        if self.declared.verify.is_none() {
            self.clear(ConditionType::SourceVerified);
            self.status.source_verification_mode = None;
        }
        let revision = self
            .status
            .artifact
            .as_ref()
            .map_or("", |artifact| &*artifact.revision);
        let message = format!("stored artifact for revision '{revision}'");
        for done in [ConditionType::ArtifactInStorage, ConditionType::Ready] {
            self.set(done, ConditionStatus::True, Reason::Succeeded, &message);
        }
        self.status.observed_generation = Some(self.declared.generation);
        self
    }

    /// Sets the failure's own condition and `Ready`, and removes earlier failures. An earlier successful
    /// verification remains until this revision fails its own.
    fn set_failure(&mut self, failure: &Failure) {
        let verified = ConditionType::SourceVerified;
        if failure.condition == Some(verified) {
            self.clear(ConditionType::ArtifactOutdated);
            self.set(verified, ConditionStatus::False, failure.reason, &failure.message);
        } else if !is_true(&self.status.conditions, verified) {
            self.clear(verified);
        }
        for kind in [
            ConditionType::FetchFailed,
            ConditionType::StorageOperationFailed,
            ConditionType::IncludeUnavailable,
        ] {
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

    fn progress(&self, revision: Option<&str>) -> String {
        let generation = self.declared.generation;
        match (revision, self.status.observed_generation, &self.status.artifact) {
            (Some(revision), _, _) => format!("building artifact: new upstream revision '{revision}'"),
            (None, _, None) => "building artifact".to_owned(),
            (None, observed, Some(_)) if observed != Some(generation) => format!(
                "processing object: new generation {} -> {generation}",
                observed.unwrap_or(-1)
            ),
            (None, _, Some(_)) => "reconciliation in progress".to_owned(),
        }
    }

    fn set(&mut self, of: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        let generation = self.declared.generation;
        set_condition(
            &mut self.status.conditions,
            of,
            status,
            reason,
            message,
            generation,
            self.now,
        );
    }

    fn clear(&mut self, of: ConditionType) {
        remove_condition(&mut self.status.conditions, of);
    }
}

pub(super) fn recovered(before: &GitRepositoryStatus, after: &GitRepositoryStatus) -> bool {
    let failed = |status: &GitRepositoryStatus| {
        [
            ConditionType::FetchFailed,
            ConditionType::IncludeUnavailable,
            ConditionType::StorageOperationFailed,
        ]
        .into_iter()
        .any(|kind| condition(&status.conditions, kind).is_some())
    };
    failed(before) && !failed(after)
}
