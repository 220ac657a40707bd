//! A controller as data: all that others have to know of it.
//!
//! The engine, the CLI, metrics, Leases and the manifests of `equate install` read this and nothing else of
//! a controller, so a new kind needs no line of theirs.

use equate_apply::owner::OwnerKind;

/// A kind that Equate reconciles, and the controller that does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The kind, `Kustomization`.
    pub kind: &'static str,
    /// The kind's name in URLs, `kustomizations`.
    pub plural: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The version of the API.
    pub version: &'static str,
    /// Other names that people have for the kind on a command line, `ks`.
    pub aliases: &'static [&'static str],
    /// The word under which Flux's command line lists the kind with others, `sources`.
    pub family: Option<&'static str>,
    /// Flux's controller that reconciles the kind, `kustomize-controller`: what `--controllers`, Leases,
    /// ServiceAccounts, events and log lines name. Taking over from Flux needs its name.
    pub component: &'static str,
    /// The finalizer of its objects; none where nothing has to be cleaned up.
    pub finalizer: Option<&'static str>,
    /// The field manager of status and finalizer.
    pub status_manager: &'static str,
    /// How its objects mark what they apply; none where they apply nothing.
    pub owner: Option<&'static OwnerKind>,
    /// How many objects are reconciled at once.
    pub concurrency: Concurrency,
    /// Whether its objects have `spec.suspend`.
    pub suspends: bool,
    /// The columns of `equate get` beside name, readiness, message and age.
    pub columns: &'static [Column],
}

impl About {
    /// What most kinds have, to be written after `..`; each names itself.
    pub const DEFAULT: About = About {
        kind: "",
        plural: "",
        group: "",
        version: "v1",
        aliases: &[],
        family: None,
        component: "",
        finalizer: None,
        status_manager: "",
        owner: None,
        concurrency: Concurrency::Computes,
        suspends: true,
        columns: &[],
    };
}

/// How many objects of a kind are reconciled at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// As many as `--concurrent` says: a run holds a processor.
    Computes,
    /// At least so many: a run mostly waits for a host, and a handful of silent hosts must not hold up the
    /// others.
    Waits {
        /// The least.
        at_least: usize,
    },
}

impl Concurrency {
    /// The number, where `--concurrent` says this.
    pub fn limit(self, concurrent: usize) -> usize {
        match self {
            Self::Computes => concurrent.max(1),
            Self::Waits { at_least } => concurrent.max(at_least),
        }
    }
}

/// A column of `equate get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its header, `REVISION`.
    pub header: &'static str,
    /// Where its value is in the object, as a JSON pointer, `/status/lastAppliedRevision`.
    pub pointer: &'static str,
}
