//! What a run came to, as a status: pure, and the same state always gives the same status, so that nothing
//! is written where nothing changed. Conditions, reasons and sentences are those of Flux's
//! source-controller; which of them stand in a status when is read from its `gitrepository_controller.go`
//! (v1.9): failures keep `observedGeneration` where it was, successes and stalls move it.

use equate_api::meta::{
    ConditionStatus, ConditionType, Reason, condition, is_true, remove_condition, set_condition,
};
use equate_api::source::{Artifact, GitRepositoryStatus};
use equate_source::Stored;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::declared::Declared;
use super::failure::Failure;

/// Writes a status: one GitRepository at one moment.
#[derive(Debug)]
pub(super) struct Report<'a> {
    declared: &'a Declared,
    now: Timestamp,
    status: GitRepositoryStatus,
    /// Whether this is the end of the run that was asked for.
    answers: bool,
}

impl<'a> Report<'a> {
    /// Begins with the status as it stands.
    pub(super) fn new(declared: &'a Declared, before: &GitRepositoryStatus, now: Timestamp) -> Self {
        let mut status = before.clone();
        // with a first word of ours the definition's default goes: it says that nothing was seen
        status.observed_generation = status.observed_generation.or(Some(-1));
        Self {
            declared,
            now,
            status,
            answers: true,
        }
    }

    pub(super) fn finish(mut self) -> GitRepositoryStatus {
        if let Some(token) = self.declared.requested_at.as_ref().filter(|_| self.answers) {
            self.status.last_handled_reconcile_at = Some(token.clone());
        }
        self.status
    }

    /// It is suspended: only that it was seen.
    #[must_use]
    pub(super) fn rested(mut self) -> Self {
        if !self.status.conditions.is_empty() {
            self.status.observed_generation = Some(self.declared.generation);
        }
        let ready = self.status.conditions.iter_mut();
        for ready in ready.filter(|condition| condition.type_ == ConditionType::Ready.as_str()) {
            ready.observed_generation = Some(self.declared.generation);
        }
        self
    }

    /// Something takes longer than people like to wait without a word.
    #[must_use]
    pub(super) fn progressing(mut self, revision: Option<&str>) -> Self {
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
        self.answers = false;
        self
    }

    /// Nothing more happens until somebody changes the spec.
    #[must_use]
    pub(super) fn stalled(mut self, failure: &Failure) -> Self {
        self.clear(ConditionType::Reconciling);
        self.tell(failure);
        self.set(
            ConditionType::Stalled,
            ConditionStatus::True,
            failure.reason,
            &failure.message,
        );
        self.status.observed_generation = Some(self.declared.generation);
        self
    }

    /// It did not work, and is tried again. `revision` is the one that could not be had, if it got so far.
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
        self.tell(failure);
        self
    }

    /// The artifact that the status names is not in the store: whoever asks for it would get nothing.
    #[must_use]
    pub(super) fn lost(mut self) -> Self {
        self.status.artifact = None;
        self.clear(ConditionType::ArtifactInStorage);
        self
    }

    /// The artifact is what the repository says. Its address may be another one than before.
    #[must_use]
    pub(super) fn kept(mut self, url: impl FnOnce(&str) -> String) -> Self {
        if let Some(artifact) = &mut self.status.artifact {
            artifact.url = url(&artifact.path);
        }
        self.succeeded()
    }

    /// There is a new artifact.
    #[must_use]
    pub(super) fn published(
        mut self,
        stored: &Stored,
        included: &[Artifact],
        verified: Option<&str>,
    ) -> Self {
        // Kubernetes' times have no fractions: one that had would differ from what is read back
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
        self.status.included_artifacts = included.to_vec();
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

    /// The failure's own condition and `Ready`; of the failures before it nothing stays. That an earlier
    /// revision was verified stays true until this one is not.
    fn tell(&mut self, failure: &Failure) {
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

/// Whether a failure stood in `before` and none does in `after`.
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
