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

/// Which chart is released, with which values, and how.
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
    /// The HelmChart to make for this release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartTemplate>,
    /// A source that holds the chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_ref: Option<ChartReference>,
    /// Labels and annotations for everything the release holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// HelmReleases that have to be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependencyReference>,
    /// What is done about differences between the cluster and the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_detection: Option<DriftDetection>,
    /// How the health of custom kinds is told, by CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpression>,
    /// How a first release is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// How often the release is looked at without being told.
    pub interval: Duration,
    /// The cluster to release to; the one this object lives in when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigReference>,
    /// How many revisions Helm keeps: 5 when absent, all when 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub max_history: Option<i64>,
    /// Whether one client serves all steps of a run; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_client: Option<bool>,
    /// Which objects post-renderers see; combined when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_render_strategy: Option<PostRenderStrategy>,
    /// Changes to what the chart renders, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub post_renderers: Vec<PostRenderer>,
    /// The release's name; made of the target namespace and the object's name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 53))]
    pub release_name: Option<String>,
    /// How a release is rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The ServiceAccount to act as.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// The namespace of Helm's records.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub storage_namespace: Option<String>,
    /// Whether the release rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The namespace to release to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// How a release is tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// How long one action may take; five minutes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How a release is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uninstall: Option<Uninstall>,
    /// How a release is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The chart's values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any")]
    pub values: Option<Value>,
    /// ConfigMaps and Secrets with values, merged in order; `values` comes last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_from: Vec<ValuesReference>,
    /// How readiness is waited for; poller when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_strategy: Option<WaitStrategy>,
}

/// What is done about differences between the cluster and the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetection {
    /// Fields whose drift is left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// What is done; nothing when absent.
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

/// A change to what a chart renders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostRenderer {
    /// By kustomize.
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
    /// Which of the two.
    pub kind: ValuesKind,
    /// Whether the value is taken as it is, not parsed as Helm's --set does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Whether it may be absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Where a single value is put; everything is merged at the root when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 250),
        regex(pattern = r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$")
    )]
    pub target_path: Option<String>,
    /// The key that holds the values; values.yaml when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^[\-._a-zA-Z0-9]+$"))]
    pub values_key: Option<String>,
}

/// The way to wait for readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitStrategy {
    /// Which way.
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
