//! Conditions: which exist, why they are set, and how one is set without noise.
//!
//! Equal states give equal conditions: the transition time moves only with the
//! status, the order is fixed, so an unchanged state is an unchanged list and
//! needs no write.

use jiff::{SignedDuration, Timestamp, TimestampRound, Unit};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::cmp::Reverse;

/// The longest message the definitions admit; a longer one is cut, and says so.
pub const MESSAGE_CHARACTERS_MAX: usize = 32_768;

const CUT: &str = " [message cut]";

string_enum! {
    /// Which aspect of an object a condition speaks of.
    pub enum ConditionType {
        /// The object is what its spec asks for.
        #[default]
        Ready = "Ready",
        /// Work on the object goes on.
        Reconciling = "Reconciling",
        /// Nothing more happens until somebody changes something.
        Stalled = "Stalled",
        /// The source's artifact can be fetched.
        ArtifactInStorage = "ArtifactInStorage",
        /// A newer revision exists than the artifact's.
        ArtifactOutdated = "ArtifactOutdated",
        /// The source could not be fetched.
        FetchFailed = "FetchFailed",
        /// A chart could not be built.
        BuildFailed = "BuildFailed",
        /// The artifact could not be stored.
        StorageOperationFailed = "StorageOperationFailed",
        /// Whether the source's signature holds.
        SourceVerified = "SourceVerified",
        /// An included source has no artifact.
        IncludeUnavailable = "IncludeUnavailable",
        /// What was applied works.
        Healthy = "Healthy",
        /// Another owner declares one of the objects; Equate's own.
        OwnershipConflict = "OwnershipConflict",
        /// Objects that are no longer declared are not deleted yet; Equate's own.
        PruneBlocked = "PruneBlocked",
        /// The chart is released.
        Released = "Released",
        /// The release's tests passed.
        TestSuccess = "TestSuccess",
        /// A failed release was rolled back or removed.
        Remediated = "Remediated",
        /// The cluster differs from what was applied.
        Drifted = "Drifted",
    }
}

string_enum! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
        /// Nobody knows yet.
        #[default]
        Unknown = "Unknown",
    }
}

string_enum! {
    /// Why a condition is as it is, in one word that programs and alerts match on.
    pub enum Reason {
        /// It worked.
        #[default]
        Succeeded = "Succeeded",
        /// It did not, and no other reason fits.
        Failed = "Failed",
        /// Work goes on.
        Progressing = "Progressing",
        /// Work goes on after a failure.
        ProgressingWithRetry = "ProgressingWithRetry",
        /// The object is suspended.
        Suspended = "Suspended",
        /// Something the object depends on is not ready.
        DependencyNotReady = "DependencyNotReady",
        /// A policy forbids the reference.
        AccessDenied = "AccessDenied",
        /// A CEL expression is wrong.
        InvalidCelExpression = "InvalidCELExpression",
        /// A feature is switched off.
        FeatureGateDisabled = "FeatureGateDisabled",

        /// The Git operation failed.
        GitOperationFailed = "GitOperationFailed",
        /// The repository has no commit yet.
        EmptyGitRepository = "EmptyGitRepository",
        /// The credentials are missing or refused.
        AuthenticationFailed = "AuthenticationFailed",
        /// The address cannot be used.
        UrlInvalid = "URLInvalid",
        /// The bucket could not be read.
        BucketOperationFailed = "BucketOperationFailed",
        /// The OCI artifact could not be pulled.
        OciArtifactPullFailed = "OCIArtifactPullFailed",
        /// The OCI artifact's layer could not be used.
        OciArtifactLayerOperationFailed = "OCIArtifactLayerOperationFailed",
        /// The Helm index could not be read.
        IndexationFailed = "IndexationFailed",
        /// The chart was pulled.
        ChartPullSucceeded = "ChartPullSucceeded",
        /// The chart was packaged.
        ChartPackageSucceeded = "ChartPackageSucceeded",
        /// The artifact is of the newest revision.
        ArtifactUpToDate = "ArtifactUpToDate",
        /// The STS configuration is wrong.
        InvalidStsConfiguration = "InvalidSTSConfiguration",
        /// The provider's configuration is wrong.
        InvalidProviderConfiguration = "InvalidProviderConfiguration",
        /// The signature does not hold.
        VerificationError = "VerificationError",
        /// The tag's signature is to be verified, and no tag is asked for.
        InvalidVerificationMode = "InvalidVerificationMode",
        /// The tag is not signed.
        InvalidGitObject = "InvalidGitObject",
        /// The tag's signature does not hold.
        InvalidTagSignature = "InvalidTagSignature",
        /// The commit's signature does not hold.
        InvalidCommitSignature = "InvalidCommitSignature",
        /// What is to be included does not exist.
        NotFound = "NotFound",
        /// What is to be included includes the one that includes it.
        IncludeCycle = "IncludeCycle",
        /// A path that leads out of the repository.
        IllegalPath = "IllegalPath",
        /// Files of another artifact cannot be taken.
        CopyFailure = "CopyFailure",
        /// A newer revision was found.
        NewRevision = "NewRevision",
        /// A newer chart was found.
        NewChart = "NewChart",
        /// The ignore rules, includes or other parts of the spec differ from the artifact's.
        SpecChanged = "SpecChanged",
        /// The artifact is no longer in the store.
        NoArtifact = "NoArtifact",
        /// A directory could not be made.
        DirectoryCreationFailed = "DirCreationFailed",
        /// A file or directory could not be examined.
        StatOperationFailed = "StatOperationFailed",
        /// A symbolic link could not be renewed.
        SymlinkUpdateFailed = "SymlinkUpdateFailed",
        /// Files could not be copied.
        CopyOperationFailed = "CopyOperationFailed",
        /// The archive could not be written.
        ArchiveOperationFailed = "ArchiveOperationFailed",

        /// The Kustomization is applied.
        ReconciliationSucceeded = "ReconciliationSucceeded",
        /// Applying failed.
        ReconciliationFailed = "ReconciliationFailed",
        /// The source's artifact is missing or cannot be fetched.
        ArtifactFailed = "ArtifactFailed",
        /// The manifests cannot be built.
        BuildFailed = "BuildFailed",
        /// What was applied did not become healthy.
        HealthCheckFailed = "HealthCheckFailed",
        /// Waiting for health was given up for a newer revision.
        HealthCheckCanceled = "HealthCheckCanceled",
        /// What is no longer declared could not be removed.
        PruneFailed = "PruneFailed",

        /// The spec uses a field that Equate does not support; Equate's own.
        Unsupported = "Unsupported",
        /// Nothing is declared any more, and nothing is removed without a confirmation; Equate's own.
        EmptyRender = "EmptyRender",
        /// More would be removed at once than is allowed without a confirmation; Equate's own.
        PruneBudgetExceeded = "PruneBudgetExceeded",
        /// Another owner declares the same object; Equate's own.
        OwnershipConflict = "OwnershipConflict",
        /// It is not known what another Kustomization declares; Equate's own.
        OthersUnknown = "OthersUnknown",
        /// Another Kustomization needs what would go with it; Equate's own.
        StillNeeded = "StillNeeded",
        /// Another Kustomization is to take what is not declared any more; Equate's own.
        NotTaken = "NotTaken",
        /// Another controller keeps changing what is declared; Equate's own.
        DriftRepeats = "DriftRepeats",
    }
}

/// The condition of a type.
pub fn condition(conditions: &[Condition], of: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == of.as_str())
}

/// Whether a condition is there and holds.
pub fn is_true(conditions: &[Condition], of: ConditionType) -> bool {
    condition(conditions, of).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// Sets a condition. Its transition time moves only when its status changes.
///
/// The list is kept in the order Flux writes: `Stalled`, `Reconciling`, `Ready`, then
/// the newest generation first, then by name. A message longer than
/// [`MESSAGE_CHARACTERS_MAX`] is cut.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    of: ConditionType,
    status: ConditionStatus,
    reason: Reason,
    message: &str,
    generation: i64,
    now: Timestamp,
) {
    let since = condition(conditions, of)
        .filter(|before| before.status == status.as_str())
        .map_or_else(
            || Time(whole_seconds(now)),
            |before| before.last_transition_time.clone(),
        );
    remove_condition(conditions, of);
    conditions.push(Condition {
        last_transition_time: since,
        message: within_limit(message),
        observed_generation: Some(generation),
        reason: reason.as_str().to_owned(),
        status: status.as_str().to_owned(),
        type_: of.as_str().to_owned(),
    });
    conditions.sort_by(|a, b| rank(a).cmp(&rank(b)));
}

/// Removes a condition; whether it was there.
pub fn remove_condition(conditions: &mut Vec<Condition>, of: ConditionType) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != of.as_str());
    conditions.len() < before
}

fn rank(condition: &Condition) -> (u8, Reverse<i64>, &str) {
    let first = |place| (place, Reverse(0), "");
    match condition.type_.as_str() {
        "Stalled" => first(0),
        "Reconciling" => first(1),
        "Ready" => first(2),
        other => (
            3,
            Reverse(condition.observed_generation.unwrap_or_default()),
            other,
        ),
    }
}

fn within_limit(message: &str) -> String {
    if message.chars().count() <= MESSAGE_CHARACTERS_MAX {
        return message.to_owned();
    }
    let kept = MESSAGE_CHARACTERS_MAX - CUT.len();
    message.chars().take(kept).chain(CUT.chars()).collect()
}

/// Kubernetes' times have no fractions: one that had would differ from what is read back.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Floor);
    time.round(down)
        .unwrap_or_else(|_| time.saturating_sub(SignedDuration::ZERO).unwrap_or(time))
}
