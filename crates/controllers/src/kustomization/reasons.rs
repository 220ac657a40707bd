//! Why a Kustomization is not ready, as values that answer for themselves: the condition's reason,
//! the sentence, and when it is worth trying again.
//!
//! Where Flux has a sentence for the same thing, it begins the same: people match on it.

use std::fmt;
use std::time::Duration;

use equate_api::kustomize::SourceKind;
use equate_api::meta::{ALLOW_EMPTY, PRUNE_BUDGET, PRUNE_CONFIRM, Reason};
use equate_apply::cluster::ApplyError;
use equate_apply::plan::Exceeded;

use crate::Key;
use crate::kit::read::chain;
use crate::ownership::contest::Contest;
use crate::targets::remote::RemoteClusterError;

/// Something is missing that wakes the Kustomization when it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The API server does not serve its source's kind.
    SourceUnserved(SourceKind, Key),
    /// It is not known yet whether the source exists; why not, if something is in the way.
    SourceUnlisted(Key, Option<String>),
    /// The source does not exist.
    SourceAbsent(SourceKind, Key),
    /// The source has no artifact.
    NoArtifact(SourceKind, Key),
    /// The source's artifact is not in the store.
    NotStored(SourceKind, Key),
    /// The source's artifact is on its way.
    Fetching {
        /// Its revision.
        revision: String,
        /// Why the last attempt failed, if one did.
        trouble: Option<String>,
    },
    /// The source's artifact could not be fetched.
    Unfetched {
        /// Its revision.
        revision: String,
        /// Whether the source does not have it any more.
        gone: bool,
        /// What happened, and what to do.
        why: String,
    },
    /// A dependency does not exist.
    DependencyAbsent(Key),
    /// A dependency is not ready.
    DependencyNotReady(Key),
    /// A dependency is ready at another revision of the common source.
    DependencyBehind(Key),
    /// A dependency's `readyExpr` does not hold.
    DependencyUnmet(Key),
    /// A dependency's `readyExpr` has no answer, and why.
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

    /// When to look again if nothing wakes us: a safety net, as every interval here. `usually` is
    /// what was asked for.
    pub fn look_again(&self, usually: Duration) -> Duration {
        match self {
            // the store is filled by a controller of this process that may not write a status for it
            Wait::NotStored(..) => Duration::from_secs(1),
            _ => usually,
        }
    }

    /// Whether it usually is over so soon that a word about it is noise.
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
            Wait::NoArtifact(kind @ SourceKind::GitRepository, key) => {
                write!(f, "Source artifact not found, waiting for {kind}/{key}")
            }
            Wait::NoArtifact(kind, key) => write!(
                f,
                "Source artifact not found, waiting for {kind}/{key}, which Equate does not reconcile; \
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
                    "Source is not ready, artifact not found, waiting for {kind}/{key}"
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

/// Nothing happens until somebody changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stall {
    /// What a field is for needs a feature gate of Flux's that is closed.
    Gated {
        /// The field.
        field: &'static str,
        /// What it is for.
        purpose: &'static str,
        /// The gate.
        gate: &'static str,
    },
    /// An expression in its spec cannot be read, and why.
    Expression(String),
    /// It may not read its source, and why.
    AccessDenied(String),
    /// It depends on itself; the way there and back.
    Cycle(Vec<Key>),
    /// The revision declares nothing, and everything held would be deleted.
    EmptyRender {
        /// The Kustomization.
        key: Key,
        /// The revision.
        revision: String,
        /// How many objects it holds.
        held: usize,
    },
    /// The revision would delete more than it may.
    PruneBudget {
        /// The Kustomization.
        key: Key,
        /// The revision.
        revision: String,
        /// What it would delete.
        exceeded: Exceeded,
    },
    /// A setting of the Kustomization means nothing, and why.
    Setting(String),
    /// The inventory in the status cannot be read.
    Inventory(String),
    /// What is referred to is of another namespace, and the policy keeps them apart.
    CrossNamespace(SourceKind, Key),
    /// It names a ServiceAccount that there cannot be.
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
                "revision {revision} declares no objects, and pruning would delete all {held} objects of its inventory; \
                 nothing was changed. If this is meant, confirm with: {}",
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

/// What would be deleted, and how to say that it is meant.
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

/// Why an object was not applied. As Flux says it, people match on that: it begins with the object, and
/// with a dry run, though there was none. Where the object comes from is last.
pub fn refusal(failure: &equate_apply::cluster::Failure) -> String {
    let (id, why) = (&failure.id, chain(&failure.error));
    let word = match &failure.error {
        ApplyError::Invalid { .. } | ApplyError::Immutable { .. } => " (Invalid)",
        ApplyError::Forbidden { .. } => " (Forbidden)",
        ApplyError::Unauthorized { .. } => " (Unauthorized)",
        ApplyError::Conflict { .. } => " (Conflict)",
        ApplyError::NoSuchKind { .. } => "",
        ApplyError::NamespaceMissing { namespace } => {
            let origin = origin(failure);
            return format!("{id} not found: namespaces \"{namespace}\" not found{origin}");
        }
        // what has no words of Flux's
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
    format!("{id} dry-run failed{word}: {why}{}", origin(failure))
}

fn origin(failure: &equate_apply::cluster::Failure) -> String {
    let origin = failure.origin.as_ref();
    origin.map(|origin| format!(" ({origin})")).unwrap_or_default()
}

/// When a failure is worth another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not before the inputs or the spec are others.
    Never,
    /// After `spec.retryInterval`.
    Interval,
    /// Soon, and later each time: the API server was busy or away.
    Backoff,
}

/// How the message of an artifact without `spec.path` begins; with the same reason as waiting for one.
pub const PATH_NOT_FOUND: &str = "kustomization path not found: ";

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The directory is not in the artifact.
    PathAbsent(String),
    /// The manifests cannot be built.
    Build(String),
    /// A variable has no value, or is none.
    Substitution(String),
    /// Something that is encrypted does not open.
    Sealed(String),
    /// The variables for it cannot be read.
    Values(String),
    /// They are not built in this time.
    BuildTimeout(Duration),
    /// The artifact's content cannot be read.
    Artifact(String),
    /// Objects were refused, or cannot be applied at all.
    Apply(String),
    /// The API server could not be reached, or was busy.
    Unreachable(String),
    /// Objects that are no longer declared could not be deleted.
    Prune(String),
    /// A stage did not become healthy in time, and what comes after it was not applied.
    Stage(String),
    /// What was applied is not healthy; for how long it was waited, and for what.
    Health(Duration, String),
    /// Others hold objects that this one declares.
    OwnershipConflict(Vec<Contest>),
}

impl Failure {
    /// The reason of `Ready`.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::PathAbsent(_) | Failure::Artifact(_) => Reason::ArtifactFailed,
            Failure::Build(_)
            | Failure::Substitution(_)
            | Failure::Sealed(_)
            | Failure::Values(_)
            | Failure::BuildTimeout(_) => Reason::BuildFailed,
            Failure::Apply(_) | Failure::Unreachable(_) | Failure::Stage(_) => Reason::ReconciliationFailed,
            Failure::Prune(_) => Reason::PruneFailed,
            Failure::Health(..) => Reason::HealthCheckFailed,
            Failure::OwnershipConflict(_) => Reason::OwnershipConflict,
        }
    }

    /// The same with its words changed.
    #[must_use]
    pub fn reworded(self, word: impl Fn(&str) -> String) -> Self {
        match self {
            Failure::Build(why) => Failure::Build(word(&why)),
            Failure::Substitution(why) => Failure::Substitution(word(&why)),
            Failure::Sealed(why) => Failure::Sealed(word(&why)),
            Failure::Values(why) => Failure::Values(word(&why)),
            Failure::Apply(why) => Failure::Apply(word(&why)),
            Failure::Unreachable(why) => Failure::Unreachable(word(&why)),
            Failure::Prune(why) => Failure::Prune(word(&why)),
            Failure::Stage(why) => Failure::Stage(word(&why)),
            Failure::Health(waited, why) => Failure::Health(waited, word(&why)),
            // nothing in them comes from an object
            Failure::PathAbsent(_)
            | Failure::BuildTimeout(_)
            | Failure::Artifact(_)
            | Failure::OwnershipConflict(_) => self,
        }
    }

    /// When it is worth another try.
    pub fn retry(&self) -> Retry {
        match self {
            // pure functions of inputs that have not changed
            Failure::PathAbsent(_) | Failure::Build(_) | Failure::Substitution(_) | Failure::Sealed(_) => {
                Retry::Never
            }
            Failure::Unreachable(_) => Retry::Backoff,
            // a machine that is less busy may be done in time
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
            Failure::PathAbsent(path) => write!(
                f,
                "{PATH_NOT_FOUND}{path} is not in the artifact; check spec.path and the revision"
            ),
            Failure::Build(why) => write!(f, "kustomize build failed: {why}"),
            Failure::BuildTimeout(timeout) => write!(
                f,
                "kustomize build failed: stopped because it took longer than {} (spec.timeout)",
                go(*timeout)
            ),
            Failure::Substitution(why)
            | Failure::Sealed(why)
            | Failure::Values(why)
            | Failure::Artifact(why)
            | Failure::Apply(why)
            | Failure::Unreachable(why)
            | Failure::Prune(why)
            | Failure::Stage(why) => f.write_str(why),
            Failure::Health(waited, why) => write!(f, "health check failed after {}: {why}", go(*waited)),
            Failure::OwnershipConflict(contests) => {
                f.write_str("not applied, because another Kustomization owns them: ")?;
                for (place, contest) in contests.iter().enumerate() {
                    write!(f, "{}{contest}", if place > 0 { ", " } else { "" })?;
                }
                f.write_str("; declare each object in one Kustomization only")
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

/// A length of time as Flux writes it, without more digits than anybody reads.
pub fn go(time: Duration) -> equate_api::meta::Duration {
    let whole = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    whole.into()
}
