//! The record of a revision.
//!
//! Fields and JSON are Helm 4's. Records of Helm 3 are read as well, without inventing missing fields. As
//! in Helm, unknown fields are dropped. `Debug` omits values and manifests, which hold secrets.

use crate::chart::{Chart, File, Values};
use crate::hooks::{Hook, or_default, time};
use crate::open::open_words;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

open_words! {
    /// The status of a revision.
    Status {
        /// The status is unknown.
        Unknown = "unknown",
        /// Its objects are in the cluster.
        Deployed = "deployed",
        /// Its objects are gone.
        Uninstalled = "uninstalled",
        /// A later revision has replaced it.
        Superseded = "superseded",
        /// The operation failed.
        Failed = "failed",
        /// Its objects are being deleted.
        Uninstalling = "uninstalling",
        /// Its first revision is being installed.
        PendingInstall = "pending-install",
        /// A later revision is being installed.
        PendingUpgrade = "pending-upgrade",
        /// An earlier revision is being restored.
        PendingRollback = "pending-rollback",
    }
}

impl Status {
    /// Whether an operation is in progress.
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl Default for Status {
    /// The status of an old record without one.
    fn default() -> Self {
        Self::Other("".into())
    }
}

open_words! {
    /// The side that merges objects with the cluster's.
    ApplyMethod {
        /// The client, by three-way merge.
        ClientSide = "csa",
        /// The server, by server-side apply.
        ServerSide = "ssa",
    }
}

/// One revision of a release.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Release {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its status.
    #[serde(deserialize_with = "or_default")]
    pub info: Info,
    /// Its chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<RecordedChart>,
    /// The user's values.
    #[serde(
        skip_serializing_if = "serde_json::Map::is_empty",
        deserialize_with = "or_default"
    )]
    pub config: Values,
    /// Its objects, without hooks.
    #[serde(skip_serializing_if = "str::is_empty", with = "crate::open::shared_text")]
    pub manifest: Arc<str>,
    /// Its hooks.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub hooks: Vec<Hook>,
    /// The revision, from 1: Go's int.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "revision")]
    pub version: u64,
    /// The default namespace of its objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The apply method. Helm 3 wrote none: it is client-side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_method: Option<ApplyMethod>,
    /// User labels, stored on the record's object.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}.v{} ({})",
            self.namespace, self.name, self.version, self.info.status
        )
    }
}

/// The state of a revision. Times are RFC 3339.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// When the release was first deployed.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "time")]
    pub first_deployed: Option<Box<str>>,
    /// When this revision was deployed.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "time")]
    pub last_deployed: Option<Box<str>>,
    /// When it was deleted.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "time")]
    pub deleted: Option<Box<str>>,
    /// The last operation, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its status.
    #[serde(skip_serializing_if = "is_not_said")]
    pub status: Status,
    /// The restored revision of a rollback. Since Helm 4.3.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "revision")]
    pub rollback_revision: u64,
    /// The chart's notes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Live objects; Helm does not store them.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub resources: Value,
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("status", &self.status)
            .field("last_deployed", &self.last_deployed)
            .finish_non_exhaustive()
    }
}

/// A chart as a record holds it: without the files of its subcharts. Fields not read here are kept
/// verbatim.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedChart {
    /// `Chart.yaml`.
    pub metadata: Value,
    /// `Chart.lock`.
    pub lock: Value,
    /// The files below `templates/`.
    pub templates: Option<Vec<RecordedFile>>,
    /// Its own values, with those of its subcharts.
    pub values: Option<Values>,
    /// The schema of values, in base64.
    pub schema: Option<String>,
    /// The modification time of the schema. Since Helm 4.
    #[serde(rename = "schemamodtime", skip_serializing_if = "Option::is_none")]
    pub schema_modified: Option<String>,
    /// Its other files.
    pub files: Option<Vec<RecordedFile>>,
    /// Its modification time. Since Helm 4.
    #[serde(rename = "modtime", skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl fmt::Debug for RecordedChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.name(), self.version())
    }
}

/// A file of a recorded chart.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedFile {
    /// Its path below the chart.
    pub name: String,
    /// Its content, in base64.
    pub data: Option<String>,
    /// Its modification time. Since Helm 4.
    #[serde(rename = "modtime", skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl fmt::Debug for RecordedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Go's zero time.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

impl RecordedChart {
    /// Helm 4's record of a chart. Its dependencies must be resolved: the values hold those of enabled
    /// subcharts, and the metadata lists no others.
    pub fn of(chart: &Chart) -> Result<Self, serde_json::Error> {
        Ok(Self {
            metadata: serde_json::to_value(&*chart.metadata)?,
            lock: serde_json::to_value(chart.lock.as_deref())?,
            templates: recorded(&chart.templates),
            values: Some((*chart.values).clone()),
            schema: chart.schema.as_ref().map(|schema| STANDARD.encode(schema)),
            schema_modified: Some(NO_TIME.to_owned()),
            files: recorded(&chart.files),
            modified: None,
        })
    }

    /// The chart's name.
    pub fn name(&self) -> &str {
        self.said("name")
    }

    /// The chart's version.
    pub fn version(&self) -> &str {
        self.said("version")
    }

    /// The version of its application.
    pub fn app_version(&self) -> &str {
        self.said("appVersion")
    }

    fn said(&self, key: &str) -> &str {
        self.metadata.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

fn recorded(files: &[File]) -> Option<Vec<RecordedFile>> {
    let record = |file: &File| RecordedFile {
        name: file.name.to_string(),
        data: Some(STANDARD.encode(&file.data)),
        modified: None,
    };
    (!files.is_empty()).then(|| files.iter().map(record).collect())
}

fn revision<'de, D: Deserializer<'de>>(reader: D) -> Result<u64, D::Error> {
    let number = i64::deserialize(reader)?;
    u64::try_from(number).map_err(|_| D::Error::custom("a revision is below zero"))
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_not_said(status: &Status) -> bool {
    status.as_str().is_empty()
}
