//! Why a Kustomization is not ready, as values: the condition's reason and message, and the time of the
//! next try.
//!
//! Messages that Flux has, too, begin as Flux's do: people match on them.

use std::fmt;
use std::time::Duration;

use equate_api::kustomize::SourceKind;
use equate_api::meta::{ALLOW_EMPTY, PRUNE_BUDGET, PRUNE_CONFIRM, Reason};
use equate_apply::cluster::ApplyError;
use equate_apply::plan::Exceeded;

use crate::Key;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::object_rules::Problem;
use crate::ownership::contest::Contests;
use crate::targets::remote::RemoteClusterError;

/// A missing prerequisite. Its arrival wakes the Kustomization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The API server does not serve its source's kind.
    SourceUnserved(SourceKind, Key),
    /// It is unknown whether the source exists; the text is the cause, if there is one.
    SourceUnlisted(Key, Option<String>),
    /// The source does not exist.
    SourceAbsent(SourceKind, Key),
    /// The source has no artifact.
    NoArtifact(SourceKind, Key),
    /// The source has no artifact, and this process has no controller of its kind.
    NoArtifactElsewhere(SourceKind, Key),
    /// The source's artifact is not in the store.
    NotStored(SourceKind, Key),
    /// The source's artifact is being fetched.
    Fetching {
        /// Its revision.
        revision: String,
        /// The error of the last attempt, if it failed.
        trouble: Option<String>,
    },
    /// Fetching the source's artifact failed.
    Unfetched {
        /// Its revision.
        revision: String,
        /// Whether the source no longer has it.
        gone: bool,
        /// The error, and the remedy.
        why: String,
    },
    /// A dependency does not exist.
    DependencyAbsent(Key),
    /// A dependency is not ready.
    DependencyNotReady(Key),
    /// A dependency is ready at another revision of the common source.
    DependencyBehind(Key),
    /// A dependency's `readyExpr` is false.
    DependencyUnmet(Key),
    /// A dependency's `readyExpr` fails, with the cause.
    DependencyUnanswered(Key, String),
}

impl Wait {
    /// The reason of `Ready`.
    pub fn reason(&self) -> Reason {
        match self {
            Wait::SourceUnserved(..)
            | Wait::SourceAbsent(..)
            | Wait::SourceUnlisted(..)
            | Wait::NoArtifact(..)
            | Wait::NoArtifactElsewhere(..)
            | Wait::NotStored(..)
            | Wait::Fetching { trouble: Some(_), .. }
            | Wait::Unfetched { .. } => Reason::ArtifactFailed,
            Wait::Fetching { trouble: None, .. } => Reason::Progressing,
            Wait::DependencyAbsent(_)
            | Wait::DependencyNotReady(_)
            | Wait::DependencyBehind(_)
            | Wait::DependencyUnmet(_)
            | Wait::DependencyUnanswered(..) => Reason::DependencyNotReady,
        }
    }

    /// The delay until the next check without a wake-up, a safety net. `usually` is the configured one.
    pub fn recheck_after(&self, usually: Duration) -> Duration {
        match self {
            // the store is filled by a controller of this process that may write no status for it
            Wait::NotStored(..) => Duration::from_secs(1),
            _ => usually,
        }
    }

    /// Whether it is usually over so soon that a status would be noise.
    pub fn passing(&self) -> bool {
        matches!(
            self,
            Wait::NotStored(..)
                | Wait::SourceUnlisted(..)
                | Wait::Fetching { .. }
                | Wait::DependencyNotReady(_)
                | Wait::DependencyBehind(_)
                | Wait::DependencyUnmet(_)
        )
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::SourceUnserved(kind, key) => write!(
                f,
                "unable to get source '{key}': no matches for kind \"{kind}\" in version \
                 \"source.toolkit.fluxcd.io/v1\"; install its CustomResourceDefinition"
            ),
            Wait::SourceUnlisted(key, why) => write!(
                f,
                "unable to get source '{key}': {}",
                why.as_deref().unwrap_or("sources of its kind are not listed yet")
            ),
            Wait::SourceAbsent(kind, key) => {
                write!(f, "{kind}.source.toolkit.fluxcd.io \"{}\" not found", key.name)
            }
            Wait::NoArtifact(kind, key) => {
                write!(f, "Source artifact not found, waiting for {kind}/{key}")
            }
            Wait::NoArtifactElsewhere(kind, key) => write!(
                f,
                "Source artifact not found, waiting for {kind}/{key}, which this process does not reconcile; \
                 check that its controller runs"
            ),
            Wait::Fetching { revision, trouble } => {
                write!(f, "Fetching manifests for revision {revision}")?;
                trouble.iter().try_for_each(|why| write!(f, ": {why}"))
            }
            Wait::Unfetched { why, .. } => f.write_str(why),
            Wait::NotStored(kind, key) => {
                write!(
                    f,
                    "Source is not ready, artifact not found, waiting for {kind}/{key}: the store has no artifact \
                     with the digest in its status that it published"
                )
            }
            Wait::DependencyAbsent(key) => write!(
                f,
                "dependency '{key}' not found: kustomizations.kustomize.toolkit.fluxcd.io \"{}\" not found",
                key.name
            ),
            Wait::DependencyNotReady(key) => write!(f, "dependency '{key}' is not ready"),
            Wait::DependencyBehind(key) => write!(f, "dependency '{key}' revision is not up to date"),
            Wait::DependencyUnmet(key) => {
                write!(f, "dependency '{key}' is not ready according to readyExpr eval")
            }
            Wait::DependencyUnanswered(key, why) => write!(f, "dependency '{key}' is not ready: {why}"),
        }
    }
}

/// A failure that lasts until a person changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stall {
    /// The use of a field needs a closed feature gate of Flux.
    Gated {
        /// The field.
        field: &'static str,
        /// The use.
        purpose: &'static str,
        /// The gate.
        gate: &'static str,
    },
    /// A CEL expression in its spec cannot be read.
    Expression(String),
    /// It may not read its source.
    AccessDenied(String),
    /// It depends on itself; the path of the cycle.
    Cycle(Vec<Key>),
    /// The revision declares no objects, so all objects of the inventory would be deleted.
    EmptyRender {
        /// The Kustomization.
        key: Key,
        /// The revision.
        revision: String,
        /// The number of objects in the inventory.
        held: usize,
    },
    /// The revision would delete more than the prune budget allows.
    PruneBudget {
        /// The Kustomization.
        key: Key,
        /// The revision.
        revision: String,
        /// The deletions.
        exceeded: Exceeded,
    },
    /// A setting of the Kustomization is invalid.
    Setting(String),
    /// The inventory in the status cannot be read.
    Inventory(String),
    /// The source is in another namespace, and the policy forbids that.
    CrossNamespace(SourceKind, Key),
    /// It names an invalid ServiceAccount.
    Account(String),
}

impl Stall {
    /// The reason of `Ready` and `Stalled`.
    pub fn reason(&self) -> Reason {
        match self {
            Stall::Gated { .. } => Reason::FeatureGateDisabled,
            Stall::AccessDenied(_) => Reason::AccessDenied,
            Stall::Expression(_) => Reason::InvalidCelExpression,
            Stall::Cycle(_) => Reason::DependencyNotReady,
            Stall::EmptyRender { .. } => Reason::EmptyRender,
            Stall::PruneBudget { .. } => Reason::PruneBudgetExceeded,
            Stall::Setting(_) | Stall::Inventory(_) | Stall::Account(_) => Reason::ReconciliationFailed,
            Stall::CrossNamespace(..) => Reason::AccessDenied,
        }
    }
}

impl From<Problem> for Stall {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Expression(why) => Stall::Expression(why),
            Problem::Setting(why) => Stall::Setting(why),
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stall::Gated { field, purpose, gate } => write!(
                f,
                "to use {field} for {purpose} please enable the {gate} feature gate in the controller"
            ),
            Stall::Expression(why) | Stall::Setting(why) => write!(
                f,
                "Reconciliation failed terminally due to configuration error: {why}"
            ),
            Stall::AccessDenied(why) => f.write_str(why),
            Stall::Cycle(way) => {
                f.write_str("dependency cycle: ")?;
                for (place, key) in way.iter().enumerate() {
                    write!(f, "{}{key}", if place > 0 { " -> " } else { "" })?;
                }
                f.write_str("; remove one of these from spec.dependsOn")
            }
            Stall::EmptyRender { key, revision, held } => write!(
                f,
                "revision {revision} declares no objects, and pruning would delete {} of its inventory; \
                 nothing was changed. If this is meant, confirm with: {}",
                match held {
                    1 => "the 1 object".to_owned(),
                    held => format!("all {held} objects"),
                },
                annotate(key, ALLOW_EMPTY, revision)
            ),
            Stall::PruneBudget {
                key,
                revision,
                exceeded,
            } => write!(
                f,
                "revision {revision} is not applied and nothing was changed: {}",
                over_budget(key, revision, exceeded)
            ),
            Stall::CrossNamespace(kind, key) => write!(
                f,
                "can't access '{kind}/{key}', cross-namespace references have been blocked"
            ),
            Stall::Account(name) => write!(
                f,
                "spec.serviceAccountName {name:?} is not a name that a ServiceAccount can have"
            ),
            Stall::Inventory(why) => write!(f, "status.inventory cannot be read: {why}"),
        }
    }
}

/// The deletions, and the command that confirms them.
pub fn over_budget(key: &Key, revision: &str, exceeded: &Exceeded) -> String {
    format!(
        "{exceeded} ({PRUNE_BUDGET}): {}. If this is meant, confirm with: {}",
        exceeded.named(),
        annotate(key, PRUNE_CONFIRM, revision)
    )
}

fn annotate(key: &Key, annotation: &str, value: &str) -> String {
    format!(
        "kubectl -n {} annotate --overwrite kustomization.kustomize.toolkit.fluxcd.io/{} {annotation}={value}",
        key.namespace, key.name
    )
}

/// The message for an object that was not applied. People match on Flux's message, so it begins with the
/// object and "dry-run" although there was none. The object's origin is last.
pub fn refusal(failure: &equate_apply::cluster::Failure) -> String {
    let (id, why) = (&failure.id, chain(&failure.error));
    let reason = match &failure.error {
        ApplyError::Invalid { .. } | ApplyError::Immutable { .. } => " (Invalid)",
        ApplyError::Forbidden { .. } => " (Forbidden)",
        ApplyError::Unauthorized { .. } => " (Unauthorized)",
        ApplyError::Conflict { .. } => " (Conflict)",
        ApplyError::NoSuchKind { .. } => "",
        ApplyError::NamespaceMissing { namespace } => {
            let origin = origin(failure);
            return format!("{id} not found: namespaces \"{namespace}\" not found{origin}");
        }
        // Flux has no message for these
        _ => return chain(failure),
    };
    let why = match &failure.error {
        ApplyError::NoSuchKind { gvk } => format!(
            "no matches for kind \"{}\" in version \"{}\"",
            gvk.kind,
            gvk.group_version()
        ),
        _ => why,
    };
    format!("{id} dry-run failed{reason}: {why}{}", origin(failure))
}

fn origin(failure: &equate_apply::cluster::Failure) -> String {
    let origin = failure.origin.as_ref();
    origin.map(|origin| format!(" ({origin})")).unwrap_or_default()
}

/// When a failure is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// When the inputs or the spec change.
    Never,
    /// After `spec.retryInterval`.
    Interval,
    /// Soon, and later each time: the API server was busy or did not answer.
    Backoff,
}

/// The beginning of the message when the artifact lacks `spec.path`; its reason is also that of a missing
/// artifact.
pub const PATH_NOT_FOUND: &str = "kustomization path not found: ";

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The directory is not in the artifact; another one may be meant.
    PathAbsent {
        /// `spec.path`.
        path: String,
        /// The directory that is meant, perhaps.
        nearest: Option<String>,
    },
    /// The manifests cannot be built.
    Build(String),
    /// A variable has no value, or an invalid one.
    Substitution(String),
    /// Decryption failed.
    Decryption(String),
    /// The variables cannot be read.
    Values(String),
    /// The build exceeded this time.
    BuildTimeout(TimeLimit),
    /// The artifact's content cannot be read.
    Artifact(String),
    /// The API server refused objects, or they cannot be applied.
    Apply(String),
    /// The API server was busy or did not answer.
    Unreachable(String),
    /// Pruning failed.
    Prune(String),
    /// A stage did not become healthy in time, so later stages were not applied.
    Stage(String),
    /// Applied objects are not healthy; the time waited, and the objects.
    Health(Duration, String),
    /// Other owners hold declared objects.
    OwnershipConflict(Contests),
}

impl Failure {
    /// The reason of `Ready`.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::PathAbsent { .. } | Failure::Artifact(_) => Reason::ArtifactFailed,
            Failure::Build(_)
            | Failure::Substitution(_)
            | Failure::Decryption(_)
            | Failure::Values(_)
            | Failure::BuildTimeout(_) => Reason::BuildFailed,
            Failure::Apply(_) | Failure::Unreachable(_) | Failure::Stage(_) => Reason::ReconciliationFailed,
            Failure::Prune(_) => Reason::PruneFailed,
            Failure::Health(..) => Reason::HealthCheckFailed,
            Failure::OwnershipConflict(_) => Reason::OwnershipConflict,
        }
    }

    /// The same with a rewritten message.
    #[must_use]
    pub fn map_message(self, map: impl Fn(&str) -> String) -> Self {
        match self {
            Failure::Build(why) => Failure::Build(map(&why)),
            Failure::Substitution(why) => Failure::Substitution(map(&why)),
            Failure::Decryption(why) => Failure::Decryption(map(&why)),
            Failure::Values(why) => Failure::Values(map(&why)),
            Failure::Apply(why) => Failure::Apply(map(&why)),
            Failure::Unreachable(why) => Failure::Unreachable(map(&why)),
            Failure::Prune(why) => Failure::Prune(map(&why)),
            Failure::Stage(why) => Failure::Stage(map(&why)),
            Failure::Health(waited, why) => Failure::Health(waited, map(&why)),
            // no text of an object is in them
            Failure::PathAbsent { .. }
            | Failure::BuildTimeout(_)
            | Failure::Artifact(_)
            | Failure::OwnershipConflict(_) => self,
        }
    }

    /// When the failure is retried.
    pub fn retry(&self) -> Retry {
        match self {
            // the same inputs fail again
            Failure::PathAbsent { .. }
            | Failure::Build(_)
            | Failure::Substitution(_)
            | Failure::Decryption(_) => Retry::Never,
            Failure::Unreachable(_) => Retry::Backoff,
            // with less load it may end in time
            Failure::BuildTimeout(_)
            | Failure::Values(_)
            | Failure::Artifact(_)
            | Failure::Apply(_)
            | Failure::Prune(_)
            | Failure::Stage(_)
            | Failure::Health(..)
            | Failure::OwnershipConflict(_) => Retry::Interval,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::PathAbsent { path, nearest } => {
                write!(f, "{PATH_NOT_FOUND}{path} is not in the artifact; ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean ./{nearest}?"),
                    None => f.write_str("check spec.path and the revision"),
                }
            }
            Failure::Build(why) => write!(f, "kustomize build failed: {why}"),
            Failure::BuildTimeout(limit) => {
                write!(
                    f,
                    "kustomize build failed: stopped because it took longer than {limit}"
                )
            }
            Failure::Substitution(why)
            | Failure::Decryption(why)
            | Failure::Values(why)
            | Failure::Artifact(why)
            | Failure::Apply(why)
            | Failure::Unreachable(why)
            | Failure::Prune(why)
            | Failure::Stage(why) => f.write_str(why),
            Failure::Health(waited, why) => {
                write!(f, "health check failed after {}: {why}", flux_duration(*waited))
            }
            Failure::OwnershipConflict(contests) => {
                write!(
                    f,
                    "not applied, because another Kustomization owns them: {contests}; declare each object in one \
                     Kustomization only"
                )
            }
        }
    }
}

impl From<RemoteClusterError> for Failure {
    fn from(error: RemoteClusterError) -> Self {
        let why = error.to_string();
        match error {
            _ if error.is_passing() => Failure::Unreachable(why),
            RemoteClusterError::Unread { .. }
            | RemoteClusterError::UnreadMap { .. }
            | RemoteClusterError::NoKey { .. }
            | RemoteClusterError::WorkloadIdentity { .. }
            | RemoteClusterError::Refused { .. } => Failure::Apply(why),
        }
    }
}

/// A duration as Flux writes it, without fractions of milliseconds.
pub fn flux_duration(time: Duration) -> equate_api::meta::Duration {
    let whole = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    whole.into()
}
