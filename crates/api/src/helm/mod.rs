//! `helm.toolkit.fluxcd.io/v2`: releases of Helm charts.

use crate::kustomize::{HealthCheckExpression, IgnoreRule, Inventory, ValuesKind};
use crate::meta::{CommonMetadata, DependencyReference, Duration, Image, KubeConfigReference, Patch};
use crate::schema::any;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod actions;
mod chart;
mod status;

pub use actions::{
    ChartNameChangeStrategy, CrdsPolicy, DeletionPropagation, Filter, Install, InstallRemediation,
    InstallStrategy, ReleaseStrategy, RemediationStrategy, Rollback, ServerSideApply, Test, Uninstall,
    Upgrade, UpgradeRemediation, UpgradeStrategy,
};
pub use chart::{
    ChartReference, ChartReferenceKind, ChartTemplate, ChartTemplateSource, ChartTemplateSpec,
    ChartTemplateVerification,
};
pub use status::{HelmReleaseStatus, ReleaseAction, Snapshot, TestHook};

/// The group's name.
pub const GROUP: &str = "helm.toolkit.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v2";

/// A release of a Helm chart.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "helm.toolkit.fluxcd.io",
    version = "v2",
    kind = "HelmRelease",
    plural = "helmreleases",
    singular = "helmrelease",
    shortname = "hr",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-appliers",
    namespaced,
    status = "HelmReleaseStatus",
    derive = "PartialEq",
    doc = "A Helm chart, released and kept so.",
    annotation("kustomize.toolkit.fluxcd.io/substitute", "disabled"),
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))",
    "message": "either chart or chartRef must be set",
}]))]
pub struct HelmReleaseSpec {
    /// The template of the release's HelmChart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartTemplate>,
    /// A reference to a source with the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_ref: Option<ChartReference>,
    /// Labels and annotations for all objects of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// HelmReleases that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependencyReference>,
    /// The handling of drift between the cluster and the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// CEL expressions for the health of custom kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpression>,
    /// The options of an install.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// The interval of reconciliation.
    pub interval: Duration,
    /// The target cluster; defaults to this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigReference>,
    /// The number of revisions to keep; default 5, unlimited if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub max_history: Option<i64>,
    /// Use one client for all steps of a reconciliation; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_client: Option<bool>,
    /// The objects that post-renderers get; default combined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_render_strategy: Option<PostRenderStrategy>,
    /// Post-renderers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_renderers: Vec<PostRenderer>,
    /// The release's name; defaults to the target namespace and the object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// The options of a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The ServiceAccount to impersonate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// The namespace of Helm's release storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The namespace of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// The options of tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// The timeout of an action; default 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The options of an uninstall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
    /// The options of an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The chart's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any")]
    pub values: Option<Value>,
    /// ConfigMaps and Secrets with values, merged in order, before `values`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_from: Vec<ValuesReference>,
    /// The strategy to wait for readiness; default poller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_strategy: Option<WaitStrategy>,
}

/// The handling of drift between the cluster and the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetection {
    /// Fields whose drift is ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// The mode of drift detection; default disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
}

string_enum! {
    /// The handling of drift.
    pub enum DriftMode {
        /// Corrects drift.
        Enabled = "enabled",
        /// Reports drift.
        Warn = "warn",
        /// Ignores drift.
        #[default]
        Disabled = "disabled",
    }
}

string_enum! {
    /// The objects that post-renderers get.
    pub enum PostRenderStrategy {
        /// All except hooks.
        NoHooks = "nohooks",
        /// Hooks and other objects together.
        #[default]
        Combined = "combined",
        /// Hooks and other objects separately.
        Separate = "separate",
    }
}

/// A post-renderer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostRenderer {
    /// Kustomize patches and images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<KustomizeRenderer>,
}

/// A post-renderer that runs kustomize.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KustomizeRenderer {
    /// Image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Patches to apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
}

/// A ConfigMap or Secret with values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesReference {
    /// ConfigMap or Secret.
    pub kind: ValuesKind,
    /// Use the value literally, as Helm's --set-literal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Ignore a missing object or key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The path to merge a single value at; by default the values are merged at the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 250),
        regex(pattern = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$")
    )]
    pub target_path: Option<String>,
    /// The key of the values; default values.yaml.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[\-._a-zA-Z0-9]+$"))]
    pub values_key: Option<String>,
}

/// The way to wait for readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitStrategy {
    /// The name of the strategy.
    pub name: WaitStrategyName,
}

string_enum! {
    /// The ways to wait for readiness.
    pub enum WaitStrategyName {
        /// By the health checks of Kustomizations.
        #[default]
        Poller = "poller",
        /// By Helm's own.
        Legacy = "legacy",
    }
}
