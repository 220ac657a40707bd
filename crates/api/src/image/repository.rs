//! Image repositories whose tags are scanned.

use crate::meta::{AccessFrom, Condition, Duration, LocalReference};
use crate::schema::{TIMEOUT, conditions, unobserved};
use crate::source::OciProvider;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image whose tags are read.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "image.toolkit.fluxcd.io",
    version = "v1",
    kind = "ImageRepository",
    plural = "imagerepositories",
    singular = "imagerepository",
    shortname = "imgrepo",
    shortname = "imagerepo",
    namespaced,
    status = "ImageRepositoryStatus",
    derive = "PartialEq",
    doc = "An image whose tags are read.",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image"}"#,
    printcolumn = r#"{"name":"Tags","type":"string","jsonPath":".status.lastScanResult.tagCount"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Last scan","type":"string","jsonPath":".status.lastScanResult.scanTime","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ImageRepositorySpec {
    /// Which namespaces may refer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_from: Option<AccessFrom>,
    /// A Secret with the certificates of the registry and of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// Regular expressions of tags to leave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 25), extend("default" = [r"^.*\.sig$"]))]
    pub exclusion_list: Option<Vec<String>>,
    /// The image, without scheme and tag.
    pub image: String,
    /// Whether plain HTTP is used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// How often the tags are read without being told.
    pub interval: Duration,
    /// Whose way of authenticating is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "generic"))]
    pub provider: Option<OciProvider>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with the registry's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A ServiceAccount whose pull secrets or cloud identity is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Whether the image rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How long reading the tags may take; the interval when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT))]
    pub timeout: Option<Duration>,
}

/// What is known of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ImageRepositoryStatus {
    /// The image's name in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_image_name: Option<String>,
    /// The image's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last run that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// What the last reading found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scan_result: Option<ScanResult>,
    /// The exclusions of the last reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_exclusion_list: Vec<String>,
    /// The generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScanResult {
    /// Up to ten of them, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latest_tags: Vec<String>,
    /// A digest over all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_time: Option<Time>,
    /// How many there are.
    #[schemars(schema_with = "crate::schema::int")]
    pub tag_count: i64,
}
