//! The memory of a HelmRelease between runs. It may be lost: storage, status and cluster have all that matters.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use equate_apply::id::ObjectId;
use equate_apply::owned::Digest;
use equate_helm::Values;
use equate_helm::release::Release;
use tokio::time::Instant;

use super::act::operation::Operation;
use super::decide::seen::{Chart, Drift};
use super::declared::{Class, Declared};
use super::storage::Stored;
use super::values::{Composed, ValuesError};
use crate::dependencies::ready::ReadyExpressions;
use crate::kit::inputs::RejectedValues;
use crate::targets::remote::RemoteHandle;
use crate::targets::target::Access;

/// State between runs.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) access: Option<Access>,
    pub(crate) remote: Option<RemoteHandle>,
    /// The chart of the artifact with this digest.
    pub(crate) chart: Option<Chart>,
    /// When this process created the HelmChart of the template.
    pub(crate) chart_created: Option<Instant>,
    /// The chart itself, while an operation needs it.
    pub(crate) loaded: Option<Arc<equate_helm::Chart>>,
    pub(crate) values: Option<Composed>,
    /// The generation that they were composed for.
    pub(crate) values_generation: i64,
    pub(crate) rejected_values: Option<RejectedValues<ValuesError>>,
    pub(crate) records: Option<Records>,
    pub(crate) operation: Option<Box<Operation>>,
    /// The CRDs that have to be established before the chart is rendered.
    pub(crate) definitions: Option<Definitions>,
    /// The classes of actions that the present attempt has run.
    pub(crate) attempted: BTreeSet<Class>,
    /// The next attempt of the retry strategy.
    pub(crate) retry: Option<NextAttempt>,
    /// The start of the wait for the rest of a commit.
    pub(crate) held_since: Option<Instant>,
    /// The fields of the release's objects in the cluster, as they were found or made.
    pub(crate) expected: HashMap<ObjectId, Digest>,
    pub(crate) ready_expressions: Option<Arc<ReadyExpressions>>,
    pub(crate) this_run: ThisRun,
}

/// When the same inputs are tried again.
#[derive(Debug, Clone)]
pub(crate) struct NextAttempt {
    pub(crate) at: Instant,
    pub(crate) inputs: AttemptInputs,
}

/// The inputs of an attempt: with others, or by request, the next one begins at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttemptInputs {
    generation: i64,
    requested_at: Option<String>,
    /// The digest of the chart's artifact.
    artifact: Option<String>,
    config_digest: Option<String>,
}

impl Memory {
    pub(crate) fn attempt_inputs(&self, declared: &Declared) -> AttemptInputs {
        AttemptInputs {
            generation: declared.generation,
            requested_at: declared.requested_at.clone(),
            artifact: self.chart.as_ref().map(|chart| chart.artifact.clone()),
            config_digest: self.values.as_ref().map(|values| values.digest.clone()),
        }
    }
}

/// The knowledge of one run only.
#[derive(Debug, Default)]
pub(crate) struct ThisRun {
    pub(crate) has_looked: bool,
    /// All records, until one is written.
    pub(crate) listed: Option<Vec<Stored>>,
    pub(crate) values_read: bool,
    pub(crate) rounds: usize,
    pub(crate) drift: Option<Vec<Drift>>,
}

/// The last record of the release, as read.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    /// The last one; none if there is no record.
    pub(crate) last: Option<LastRecord>,
}

/// The last record, without its content.
#[derive(Debug, Clone)]
pub(crate) struct LastRecord {
    pub(crate) version: u64,
    pub(crate) resource_version: String,
    pub(crate) status: equate_helm::release::Status,
    pub(crate) chart_name: String,
    pub(crate) chart_version: String,
    /// The digest with the digest of this OCI artifact.
    pub(crate) digest: (String, String),
    /// The owner of the operation that made it.
    pub(crate) operation: Option<String>,
    pub(crate) config_digest: String,
    /// Its values, if an upgrade keeps them.
    pub(crate) config: Option<Arc<Values>>,
}

/// Applied CRDs.
#[derive(Debug, Clone)]
pub(crate) struct Definitions {
    pub(crate) of: (i64, String),
    pub(crate) waits: Vec<ObjectId>,
    pub(crate) until: Instant,
}

impl LastRecord {
    pub(crate) fn of(
        release: &Release,
        operation: Option<String>,
        oci_digest: &str,
        resource_version: &str,
        keeps_values: bool,
    ) -> Self {
        let chart = release.chart.as_ref();
        let digest = equate_helm::release::digest(release, oci_digest).unwrap_or_default();
        Self {
            version: release.version,
            resource_version: resource_version.to_owned(),
            status: release.info.status.clone(),
            chart_name: chart.map(|chart| chart.name().to_owned()).unwrap_or_default(),
            chart_version: chart.map(|chart| chart.version().to_owned()).unwrap_or_default(),
            digest: (oci_digest.to_owned(), digest),
            operation,
            config_digest: equate_helm::release::config_digest(&release.config),
            config: keeps_values.then(|| Arc::new(release.config.clone())),
        }
    }
}
