//! Conditions: types, reasons, and updates without noise.
//!
//! Equal states give equal lists: the transition time changes only with the status, and the order is fixed.
//! So an unchanged state needs no write.

use jiff::{SignedDuration, Timestamp, TimestampRound, Unit};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::cmp::Reverse;

/// The definitions' limit for a message; a longer one is truncated and marked.
pub const MESSAGE_CHARACTERS_MAX: usize = 32_768;

const CUT: &str = " [message cut]";

string_enum! {
    /// The type of a condition.
    pub enum ConditionType {
        /// The object matches its spec.
        #[default]
        Ready = "Ready",
        /// The object is being reconciled.
        Reconciling = "Reconciling",
        /// The object cannot progress until something changes.
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
        /// Whether the source's signature is valid.
        SourceVerified = "SourceVerified",
        /// An included source has no artifact.
        IncludeUnavailable = "IncludeUnavailable",
        /// The applied objects are healthy.
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
    /// The status of a condition.
    pub enum ConditionStatus {
        /// It applies.
        True = "True",
        /// It does not apply.
        False = "False",
        /// Not known yet.
        #[default]
        Unknown = "Unknown",
    }
}

string_enum! {
    /// The reason of a condition, as programs and alerts match it.
    pub enum Reason {
        /// The operation succeeded.
        #[default]
        Succeeded = "Succeeded",
        /// The operation failed, and no other reason fits.
        Failed = "Failed",
        /// Reconciliation is in progress.
        Progressing = "Progressing",
        /// Reconciliation is in progress after a failure.
        ProgressingWithRetry = "ProgressingWithRetry",
        /// The object is suspended.
        Suspended = "Suspended",
        /// Something the object depends on is not ready.
        DependencyNotReady = "DependencyNotReady",
        /// A policy forbids the reference.
        AccessDenied = "AccessDenied",
        /// A CEL expression is invalid.
        InvalidCelExpression = "InvalidCELExpression",
        /// A feature gate is disabled.
        FeatureGateDisabled = "FeatureGateDisabled",

        /// The Git operation failed.
        GitOperationFailed = "GitOperationFailed",
        /// The repository has no commit yet.
        EmptyGitRepository = "EmptyGitRepository",
        /// The credentials are missing or refused.
        AuthenticationFailed = "AuthenticationFailed",
        /// The URL is invalid.
        UrlInvalid = "URLInvalid",
        /// The tags of a repository could not be read.
        ReadOperationFailed = "ReadOperationFailed",
        /// The bucket could not be read.
        BucketOperationFailed = "BucketOperationFailed",
        /// The OCI artifact could not be pulled.
        OciArtifactPullFailed = "OCIArtifactPullFailed",
        /// The OCI artifact's layer could not be used.
        OciArtifactLayerOperationFailed = "OCIArtifactLayerOperationFailed",
        /// The Helm index could not be read.
        IndexationFailed = "IndexationFailed",
        /// The object that a chart is from cannot be read.
        SourceUnavailable = "SourceUnavailable",
        /// The source of a chart has no artifact.
        NoSourceArtifact = "NoSourceArtifact",
        /// The reference names no chart.
        InvalidChartReference = "InvalidChartReference",
        /// The chart could not be pulled.
        ChartPullError = "ChartPullError",
        /// The chart's version cannot be changed.
        MetadataPatchError = "MetadataPatchError",
        /// The values files cannot be merged.
        ValuesFilesError = "ValuesFilesError",
        /// A chart that the chart needs cannot be added.
        DependencyBuildError = "DependencyBuildError",
        /// The chart could not be packaged.
        ChartPackageError = "ChartPackageError",
        /// The chart's signature is missing or invalid.
        ChartVerificationError = "ChartVerificationError",
        /// The chart was pulled.
        ChartPullSucceeded = "ChartPullSucceeded",
        /// The chart was packaged.
        ChartPackageSucceeded = "ChartPackageSucceeded",
        /// The artifact is of the newest revision.
        ArtifactUpToDate = "ArtifactUpToDate",
        /// The STS configuration is invalid.
        InvalidStsConfiguration = "InvalidSTSConfiguration",
        /// The provider's configuration is invalid.
        InvalidProviderConfiguration = "InvalidProviderConfiguration",
        /// The signature is invalid.
        VerificationError = "VerificationError",
        /// The spec asks to verify the tag's signature but names no tag.
        InvalidVerificationMode = "InvalidVerificationMode",
        /// The tag is not signed.
        InvalidGitObject = "InvalidGitObject",
        /// The tag's signature is invalid.
        InvalidTagSignature = "InvalidTagSignature",
        /// The commit's signature is invalid.
        InvalidCommitSignature = "InvalidCommitSignature",
        /// An included object does not exist.
        NotFound = "NotFound",
        /// Two objects include each other.
        IncludeCycle = "IncludeCycle",
        /// A path leads outside of the repository.
        IllegalPath = "IllegalPath",
        /// Copying files from another artifact failed.
        CopyFailure = "CopyFailure",
        /// A newer revision was found.
        NewRevision = "NewRevision",
        /// A newer chart was found.
        NewChart = "NewChart",
        /// The ignore rules, includes or other parts of the spec differ from the artifact's.
        SpecChanged = "SpecChanged",
        /// The artifact is no longer in the store.
        NoArtifact = "NoArtifact",
        /// Creating a directory failed.
        DirectoryCreationFailed = "DirCreationFailed",
        /// Reading a file's metadata failed.
        StatOperationFailed = "StatOperationFailed",
        /// Updating a symbolic link failed.
        SymlinkUpdateFailed = "SymlinkUpdateFailed",
        /// Copying files failed.
        CopyOperationFailed = "CopyOperationFailed",
        /// Writing the archive failed.
        ArchiveOperationFailed = "ArchiveOperationFailed",
        /// A source of an ArtifactGenerator cannot be used.
        SourceFetchFailed = "SourceFetchFailed",
        /// The spec contradicts itself.
        ValidationFailed = "ValidationFailed",
        /// An annotation disables the object.
        ReconciliationDisabled = "ReconciliationDisabled",

        /// The Kustomization is applied.
        ReconciliationSucceeded = "ReconciliationSucceeded",
        /// Applying failed.
        ReconciliationFailed = "ReconciliationFailed",
        /// The source's artifact is missing or cannot be fetched.
        ArtifactFailed = "ArtifactFailed",
        /// The manifests cannot be built.
        BuildFailed = "BuildFailed",
        /// The applied objects did not become healthy.
        HealthCheckFailed = "HealthCheckFailed",
        /// A newer revision canceled the health check.
        HealthCheckCanceled = "HealthCheckCanceled",
        /// Deleting objects that are no longer declared failed.
        PruneFailed = "PruneFailed",

        /// The release was installed.
        InstallSucceeded = "InstallSucceeded",
        /// The install failed.
        InstallFailed = "InstallFailed",
        /// The release was upgraded.
        UpgradeSucceeded = "UpgradeSucceeded",
        /// The upgrade failed.
        UpgradeFailed = "UpgradeFailed",
        /// The tests passed.
        TestSucceeded = "TestSucceeded",
        /// A test failed.
        TestFailed = "TestFailed",
        /// The tests have not run yet.
        AwaitingTests = "AwaitingTests",
        /// The release was rolled back.
        RollbackSucceeded = "RollbackSucceeded",
        /// The rollback failed.
        RollbackFailed = "RollbackFailed",
        /// The release was uninstalled.
        UninstallSucceeded = "UninstallSucceeded",
        /// The uninstall failed.
        UninstallFailed = "UninstallFailed",
        /// An interrupted operation of the release was found.
        PendingRelease = "PendingRelease",
        /// The cluster differs from the release.
        DriftDetected = "DriftDetected",
        /// The cluster does not differ from the release.
        NoDriftDetected = "NoDriftDetected",
        /// The chart's source is not ready.
        SourceNotReady = "SourceNotReady",
        /// The values cannot be composed.
        ValuesError = "ValuesError",
        /// The target cluster cannot be reached.
        RestClientError = "RESTClientError",
        /// The version of the chart cannot be combined with the revision of its source.
        ChartMutateError = "ChartMutateError",
        /// The state of the release is unknown.
        StateError = "StateError",
        /// An operation failed before it changed the release.
        ReconcileError = "ReconcileError",
        /// No retries are left.
        RetriesExceeded = "RetriesExceeded",
        /// No earlier release can be restored.
        MissingRollbackTarget = "MissingRollbackTarget",

        /// The spec uses a field that Equate does not support; Equate's own.
        Unsupported = "Unsupported",
        /// The build is empty, and pruning everything needs a confirmation; Equate's own.
        EmptyRender = "EmptyRender",
        /// The revision would prune more than the budget without a confirmation; Equate's own.
        PruneBudgetExceeded = "PruneBudgetExceeded",
        /// Another owner declares the same object; Equate's own.
        OwnershipConflict = "OwnershipConflict",
        /// The objects of another Kustomization are unknown; Equate's own.
        OthersUnknown = "OthersUnknown",
        /// Another Kustomization needs an object that would be pruned; Equate's own.
        StillNeeded = "StillNeeded",
        /// Another Kustomization has not yet taken over an object; Equate's own.
        NotTaken = "NotTaken",
        /// Another controller repeatedly changes declared fields; Equate's own.
        DriftRepeats = "DriftRepeats",
    }
}

/// Finds the condition of a type.
pub fn condition(conditions: &[Condition], of: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == of.as_str())
}

/// Whether a condition exists with status True.
pub fn is_true(conditions: &[Condition], of: ConditionType) -> bool {
    condition(conditions, of).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}

/// Sets a condition. Its transition time changes only with its status.
///
/// The list is kept in Flux's order: `Stalled`, `Reconciling`, `Ready`, then the newest generation first,
/// then by name. A message longer than [`MESSAGE_CHARACTERS_MAX`] is truncated.
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

/// Removes a condition. Returns whether it existed.
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

/// Kubernetes' times have no fractions: one with a fraction would differ after reading it back.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Floor);
    time.round(down)
        .unwrap_or_else(|_| time.saturating_sub(SignedDuration::ZERO).unwrap_or(time))
}
