//! The observations of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use equate_api::helm::HelmReleaseStatus;
use equate_api::meta::Reason;
use equate_helm::release::Status;

use crate::helm_release::declared::{Action, Class};

/// Everything that the decision depends on. Parts that an earlier obstacle makes irrelevant are not looked
/// at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: HelmReleaseStatus,
    /// Why its rules for objects are invalid.
    pub(crate) problem: Option<String>,
    pub(crate) own_chart: OwnChart,
    pub(crate) unnamed_chart: UnnamedChart,
    pub(crate) dependencies: Dependencies,
    pub(crate) source: Source,
    pub(crate) values: Values,
    pub(crate) access: Access,
    pub(crate) storage: Storage,
    /// The operation in progress.
    pub(crate) operation: Option<Basis>,
    /// The classes of actions that this attempt has run.
    pub(crate) attempted: BTreeSet<Class>,
    /// Whether a kind that the last attempt lacked is defined now.
    pub(crate) kind_defined: bool,
    /// The time until the next attempt of the retry strategy with the same inputs.
    pub(crate) retry_in: Option<Duration>,
    /// The object that does not match its commit yet, and may belong to the next upgrade.
    pub(crate) applying: Option<String>,
    /// The objects that differ from the release, if that is looked at.
    pub(crate) drift: Vec<Drift>,
}

/// The HelmChart that a HelmRelease owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnChart {
    /// It refers to another source.
    None,
    /// It exists as declared.
    AsDeclared,
    /// It has to be created or changed.
    Differs,
    /// HelmCharts are not listed yet.
    Unlisted,
}

/// The HelmChart of a deleted HelmRelease, if its status names none: the status was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnnamedChart {
    None,
    /// It exists, with this namespace and name.
    Exists(String),
    /// HelmCharts are not listed yet.
    Unlisted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dependencies {
    Ready,
    NotReady(String),
    /// A `readyExpr` is invalid, or there are too many.
    Invalid(Reason, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    NotLooked,
    /// A policy forbids the reference.
    Denied(String),
    /// It cannot be read.
    Absent(String),
    /// It has no current artifact.
    NotReady(String),
    /// The artifact is being fetched; the last trouble.
    Loading(Option<String>),
    /// The artifact has no readable chart.
    Failed(String),
    /// Its revision does not match the chart.
    Mismatch(String),
    Ready(Chart),
}

/// A chart, with the version that the release gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) app_version: String,
    /// The digest of the OCI artifact.
    pub(crate) oci_digest: Option<String>,
    /// The digest of the artifact.
    pub(crate) artifact: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Values {
    NotLooked,
    Failed(String),
    /// Their digest.
    Ready(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    NotLooked,
    Open,
    /// The target cluster cannot be opened, and whether its kubeconfig does not exist.
    Failed(String, bool),
    /// The ServiceAccount does not exist.
    NoAccount(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Storage {
    NotLooked,
    Failed(String),
    /// There is no record.
    Empty,
    /// The last record.
    Last(Last),
}

/// The last record of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) version: u64,
    pub(crate) status: Status,
    pub(crate) chart_name: String,
    pub(crate) chart_version: String,
    /// Whether it is the one that the status has.
    pub(crate) observed: bool,
    /// The interrupted operation of this HelmRelease that can be resumed.
    pub(crate) interrupted: Option<Basis>,
    /// Whether the last successful record of the status is still there.
    pub(crate) previous: Previous,
    /// The digest of its values with the declared ones over them, if an upgrade keeps its values.
    pub(crate) kept_values: Option<String>,
}

impl Last {
    /// The digest of the values that an upgrade would give the release.
    pub(crate) fn values<'a>(&'a self, declared: &'a str) -> &'a str {
        self.kept_values.as_deref().unwrap_or(declared)
    }
}

/// The record to roll back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Previous {
    /// None is known.
    None,
    /// It is as the status has it.
    Intact(u64),
    /// It is gone, or was changed.
    Changed(String),
    Unread(String),
}

/// The inputs of an operation: with others, it would be another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) action: Action,
    pub(crate) generation: i64,
    pub(crate) chart_version: String,
    pub(crate) config_digest: String,
}

/// A difference between an object and the release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drift {
    pub(crate) object: String,
    /// Additions, changes and removals; `None` if the object is gone.
    pub(crate) changes: Option<[usize; 3]>,
}

impl Drift {
    /// Upstream's line.
    pub(crate) fn line(&self) -> String {
        match self.changes {
            None => format!("{} removed", self.object),
            Some([added, changed, removed]) => format!(
                "{} changed ({added} additions, {changed} changes, {removed} removals)",
                self.object
            ),
        }
    }
}
