//! The chart of a release.

use crate::meta::{CommonMetadata, Duration, LocalReference};
use crate::source::{ChartSourceKind, ReconcileStrategy, SignatureProvider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The template of a HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplate {
    /// Its labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CommonMetadata>,
    /// Its spec.
    pub spec: ChartTemplateSpec,
}

/// The spec of a templated HelmChart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplateSpec {
    /// The chart's name in a Helm repository, or its path in another source.
    #[schemars(length(min = 1, max = 2048))]
    pub chart: String,
    /// Ignore missing values files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_missing_values_files: bool,
    /// The interval to check the source; defaults to the release's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// The trigger of a new chart artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ChartVersion"))]
    pub reconcile_strategy: Option<ReconcileStrategy>,
    /// The source of the chart.
    pub source_ref: ChartTemplateSource,
    /// Values files of the chart or the source, merged in order into the chart's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<String>,
    /// The verification of the chart's signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<ChartTemplateVerification>,
    /// The chart version, as a range of semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "*"))]
    pub version: Option<String>,
}

/// The source of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplateSource {
    /// The source's API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The source's kind.
    pub kind: ChartSourceKind,
    /// The source's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The source's namespace; defaults to the release's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// The signatures that a chart needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartTemplateVerification {
    /// The tool that verifies the signature.
    #[schemars(extend("default" = "cosign"))]
    pub provider: SignatureProvider,
    /// A Secret with the public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// A reference to a source with a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartReference {
    /// The source's API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The source's kind.
    pub kind: ChartReferenceKind,
    /// The source's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The source's namespace; defaults to the release's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

string_enum! {
    /// The kinds of sources with charts.
    pub enum ChartReferenceKind {
        /// An OCI repository.
        #[default]
        OciRepository = "OCIRepository",
        /// A HelmChart declared elsewhere.
        HelmChart = "HelmChart",
        /// An ExternalArtifact, made by a third party.
        ExternalArtifact = "ExternalArtifact",
    }
}
