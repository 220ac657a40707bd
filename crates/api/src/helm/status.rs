//! The status of a release.

use super::Inventory;
use crate::meta::{Condition, Duration};
use crate::schema::{conditions, time, unobserved};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The status of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct HelmReleaseStatus {
    /// The release's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// Failures since the last success or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// The release's HelmChart, as `<namespace>/<name>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_chart: Option<String>,
    /// The releases, newest first, up to the last successful one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Snapshot>,
    /// Failed installs since the last success or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_failures: Option<i64>,
    /// The objects of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The digest of the values of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_config_digest: Option<String>,
    /// The generation of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_generation: Option<i64>,
    /// The action of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action: Option<ReleaseAction>,
    /// The duration of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_attempted_release_action_duration: Option<Duration>,
    /// The chart version of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The digest of the chart's OCI artifact in the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision_digest: Option<String>,
    /// The SHA-1 of the values of the last attempt, written by older controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_values_checksum: Option<String>,
    /// The token of the last requested forced release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_force_at: Option<String>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The token of the last requested reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reset_at: Option<String>,
    /// The revision of the last release, written by older controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub last_release_revision: Option<i64>,
    /// The digest of the common metadata of the last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_common_metadata_digest: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The digest of the post-renderers of the last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_post_renderers_digest: Option<String>,
    /// The namespace of Helm's release storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// Failed upgrades since the last success or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_failures: Option<i64>,
}

string_enum! {
    /// The action of an attempt.
    pub enum ReleaseAction {
        /// Installed the release.
        #[default]
        Install = "install",
        /// Upgraded the release.
        Upgrade = "upgrade",
    }
}

/// A revision of the release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The action that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The version of this record's format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The chart's appVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// The chart's name.
    pub chart_name: String,
    /// The chart's version.
    pub chart_version: String,
    /// The digest of the values.
    pub config_digest: String,
    /// When it was uninstalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub deleted: Option<Time>,
    /// The digest of the release.
    pub digest: String,
    /// When the release was first deployed.
    #[schemars(schema_with = "time")]
    pub first_deployed: Time,
    /// When this revision was deployed.
    #[schemars(schema_with = "time")]
    pub last_deployed: Time,
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
    /// The digest of the chart's OCI artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci_digest: Option<String>,
    /// Helm's status of it.
    pub status: String,
    /// Its tests by name; empty if it has none, missing if they have not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, TestHook>")]
    pub test_hooks: Option<BTreeMap<String, TestHook>>,
    /// Its revision number.
    #[schemars(schema_with = "crate::schema::int")]
    pub version: i64,
}

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestHook {
    /// When it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub last_completed: Option<Time>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub last_started: Option<Time>,
    /// Its final phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
