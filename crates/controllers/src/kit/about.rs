//! A controller as data.
//!
//! The engine, the CLI, metrics, Leases and the manifests of `equate install` read only this of a
//! controller, so a new kind needs no line there.

use equate_apply::owner::OwnerKind;

/// A kind that Equate reconciles, and its controller.
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
    /// Short names of the kind on a command line, `ks`.
    pub aliases: &'static [&'static str],
    /// The group of kinds in Flux's command line, `sources`.
    pub family: Option<&'static str>,
    /// Flux's controller for the kind, `kustomize-controller`. `--controllers`, Leases, ServiceAccounts,
    /// events and log lines use it; an installation that takes over from Flux needs the same name.
    pub component: &'static str,
    /// The finalizer of its objects; `None` if nothing has to be cleaned up.
    pub finalizer: Option<&'static str>,
    /// The field manager of status and finalizer.
    pub status_manager: &'static str,
    /// How its objects mark the objects they apply; `None` if they apply nothing.
    pub owner: Option<&'static OwnerKind>,
    /// How many objects are reconciled at once.
    pub concurrency: Concurrency,
    /// Whether its objects have `spec.suspend`.
    pub suspends: bool,
    /// The columns of `equate get` in addition to name, readiness, message and age.
    pub columns: &'static [Column],
}

impl About {
    /// Defaults for `..`; each kind sets its own names.
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
    /// As many as `--concurrent`: a run keeps a processor busy.
    Computes,
    /// At least this many: a run mostly waits for a host, and a few unresponsive hosts must not block
    /// the others.
    Waits {
        /// The minimum.
        at_least: usize,
    },
}

impl Concurrency {
    /// The limit for this `--concurrent`.
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
    /// The header, `REVISION`.
    pub header: &'static str,
    /// The JSON pointers to its value, `/status/lastAppliedRevision`; the first that leads to one counts.
    pub pointers: &'static [&'static str],
    /// Whether it follows the message: Flux has no such column.
    pub is_after_message: bool,
}

impl Column {
    /// A column between the name and the readiness.
    pub const fn new(header: &'static str, pointers: &'static [&'static str]) -> Self {
        Self {
            header,
            pointers,
            is_after_message: false,
        }
    }

    /// The same after the message.
    #[must_use]
    pub const fn after_message(self) -> Self {
        Self {
            is_after_message: true,
            ..self
        }
    }
}
