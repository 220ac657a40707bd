//! The status of a release.

use super::Inventory;
use crate::meta::{Condition, Duration};
use crate::schema::{conditions, unobserved};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of a release.
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
    /// The HelmChart made for this release, as `<namespace>/<name>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_chart: Option<String>,
    /// The releases, newest first, up to the last one that worked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Snapshot>,
    /// Failed first releases since the last success or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_failures: Option<i64>,
    /// The objects of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The digest of the values of the last try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_config_digest: Option<String>,
    /// The generation of the spec of the last try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_generation: Option<i64>,
    /// What the last try did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_release_action: Option<ReleaseAction>,
    /// How long the last try took.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_attempted_release_action_duration: Option<Duration>,
    /// The chart's version in the last try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The digest of the chart's OCI artifact in the last try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision_digest: Option<String>,
    /// The SHA-1 of the values of the last try, as older controllers wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_values_checksum: Option<String>,
    /// The token of the last forced release that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_force_at: Option<String>,
    /// The token of the last run that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The token of the last reset that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reset_at: Option<String>,
    /// The number of the last release, as older controllers wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub last_release_revision: Option<i64>,
    /// The digest of the common metadata of the last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_common_metadata_digest: Option<String>,
    /// The generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The digest of the post-renderers of the last release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_post_renderers_digest: Option<String>,
    /// The namespace of Helm's records.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// Failed renewals since the last success or change.
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

/// One release, as it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Which action made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The version of this record's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The version of the application the chart names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// The chart's name.
    pub chart_name: String,
    /// The chart's version.
    pub chart_version: String,
    /// The digest of the values.
    pub config_digest: String,
    /// When it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Time>,
    /// The digest of the release.
    pub digest: String,
    /// When the first release was made.
    pub first_deployed: Time,
    /// When this one was made.
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
    /// Its tests by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub test_hooks: BTreeMap<String, TestHook>,
    /// Its number.
    #[schemars(schema_with = "crate::schema::int")]
    pub version: i64,
}

/// A test, as it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestHook {
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completed: Option<Time>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_started: Option<Time>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
