//! Artifacts of sources.

use crate::schema::DIGEST;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The archive of one revision of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The archive's digest, `sha256:<hex>`; whoever fetches it compares.
    #[schemars(extend("pattern" = DIGEST))]
    pub digest: String,
    /// When this artifact was stored.
    pub last_update_time: Time,
    /// What the source says about the revision, such as an image's annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Where the archive lies in the store, relative to its root.
    pub path: String,
    /// Which revision, such as `main@sha1:<hex>`.
    pub revision: String,
    /// The archive's length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Where the archive is served.
    pub url: String,
}
