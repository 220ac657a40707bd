//! Artifacts of sources.

use crate::schema::{DIGEST, time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The archive of one revision of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The archive's digest, `sha256:<hex>`, to verify a download.
    #[schemars(extend("pattern" = DIGEST))]
    pub digest: String,
    /// When this artifact was stored.
    #[schemars(schema_with = "time")]
    pub last_update_time: Time,
    /// Metadata of the revision, such as an image's annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The path of the archive in the storage.
    pub path: String,
    /// The revision, such as `main@sha1:<hex>`.
    pub revision: String,
    /// The archive's length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The URL of the archive.
    pub url: String,
}
