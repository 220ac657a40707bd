//! Helm repositories and charts.

use super::{Artifact, OciIdentity, OciProvider, SignatureProvider};
use crate::meta::{AccessFrom, Condition, Duration, LocalReference};
use crate::schema::{TIMEOUT, conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A repository of Helm charts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "HelmRepository",
    plural = "helmrepositories",
    singular = "helmrepository",
    shortname = "helmrepo",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-sources",
    namespaced,
    status = "HelmRepositoryStatus",
    derive = "PartialEq",
    doc = "A repository of Helm charts.",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepositorySpec {
    /// The namespaces that may refer to it. Accepted for compatibility, not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_from: Option<AccessFrom>,
    /// A Secret with the server's CA and the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// Use plain HTTP with an OCI registry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The interval to check the index; default 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Send credentials also to other hosts named in the index.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pass_credentials: bool,
    /// The provider of authentication with an OCI registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "generic"))]
    pub provider: Option<OciProvider>,
    /// A Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The timeout to fetch the index; default 1m.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT))]
    pub timeout: Option<Duration>,
    /// An index on a web server, or a registry.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<HelmRepositoryType>,
    /// The repository's address.
    #[schemars(regex(pattern = r"^(http|https|oci)://.*$"))]
    pub url: String,
}

string_enum! {
    /// The types of Helm repositories.
    pub enum HelmRepositoryType {
        /// An index on a web server.
        #[default]
        Default = "default",
        /// An OCI registry.
        Oci = "oci",
    }
}

/// The status of a Helm repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct HelmRepositoryStatus {
    /// The artifact of the last revision fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// The source's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The stable URL of the newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A chart of a source.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "HelmChart",
    plural = "helmcharts",
    singular = "helmchart",
    shortname = "hc",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-sources",
    namespaced,
    status = "HelmChartStatus",
    derive = "PartialEq",
    doc = "A Helm chart, fetched or packaged.",
    printcolumn = r#"{"name":"Chart","type":"string","jsonPath":".spec.chart"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Source Kind","type":"string","jsonPath":".spec.sourceRef.kind"}"#,
    printcolumn = r#"{"name":"Source Name","type":"string","jsonPath":".spec.sourceRef.name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.verify) || self.sourceRef.kind == 'HelmRepository'",
    "message": "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'",
}]))]
pub struct HelmChartSpec {
    /// The chart's name in a Helm repository, or its path in another source.
    pub chart: String,
    /// Ignore missing values files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_missing_values_files: bool,
    /// The interval to check the source.
    pub interval: Duration,
    /// The trigger of a new chart artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ChartVersion"))]
    pub reconcile_strategy: Option<ReconcileStrategy>,
    /// The source of the chart.
    pub source_ref: ChartSource,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Values files of the chart or the source, merged in order into the chart's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<String>,
    /// The verification of the chart's signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<ChartVerification>,
    /// The chart version, as a range of semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "*"))]
    pub version: Option<String>,
}

string_enum! {
    /// The trigger of a new chart artifact.
    pub enum ReconcileStrategy {
        /// A new version of the chart.
        #[default]
        ChartVersion = "ChartVersion",
        /// A new revision of its source.
        Revision = "Revision",
    }
}

/// The source of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSource {
    /// The source's API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The source's kind.
    pub kind: ChartSourceKind,
    /// The source's name.
    pub name: String,
}

string_enum! {
    /// The kinds of chart sources.
    pub enum ChartSourceKind {
        /// A Helm repository.
        #[default]
        HelmRepository = "HelmRepository",
        /// A Git repository.
        GitRepository = "GitRepository",
        /// A bucket.
        Bucket = "Bucket",
    }
}

/// The signatures that a chart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartVerification {
    /// Accepted signers, if no keys are given; one must match.
    #[serde(default, rename = "matchOIDCIdentity", skip_serializing_if = "Vec::is_empty")]
    pub match_oidc_identity: Vec<OciIdentity>,
    /// The tool that verifies the signature.
    #[schemars(extend("default" = "cosign"))]
    pub provider: SignatureProvider,
    /// A Secret with the public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// The status of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct HelmChartStatus {
    /// The artifact of the last revision fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// The source's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The chart's name in the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_chart_name: Option<String>,
    /// The revision of the source that the chart was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_source_artifact_revision: Option<String>,
    /// The values files in the artifact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_values_files: Vec<String>,
    /// The stable URL of the newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}
