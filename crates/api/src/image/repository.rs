//! Image repositories whose tags are scanned.

use crate::meta::{AccessFrom, Condition, Duration, LocalReference};
use crate::schema::{TIMEOUT, conditions, time, unobserved};
use crate::source::OciProvider;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image repository whose tags are scanned.
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
    /// The namespaces that may refer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_from: Option<AccessFrom>,
    /// A Secret with the registry's CA and the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// Regular expressions of tags to exclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 25), extend("default" = [r"^.*\.sig$"]))]
    pub exclusion_list: Option<Vec<String>>,
    /// The image, without scheme and tag.
    pub image: String,
    /// Use plain HTTP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The interval of scans.
    pub interval: Duration,
    /// The provider of authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "generic"))]
    pub provider: Option<OciProvider>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with the registry's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount with the pull secrets or cloud identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The timeout of a scan; defaults to the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT))]
    pub timeout: Option<Duration>,
}

/// The status of an image repository.
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
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The result of the last scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scan_result: Option<ScanResult>,
    /// The exclusion list of the last scan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_exclusion_list: Vec<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScanResult {
    /// Up to ten tags, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latest_tags: Vec<String>,
    /// A digest of all tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When the tags were scanned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub scan_time: Option<Time>,
    /// The number of tags.
    #[schemars(schema_with = "crate::schema::int")]
    pub tag_count: i64,
}
