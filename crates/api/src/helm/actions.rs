//! Helm's actions and their options.

use crate::meta::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a first release is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// What is done with the CRDs of the chart; Create when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Whether the target namespace is made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_namespace: bool,
    /// Whether hooks are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Whether the objects are not held against the cluster's schemas.
    #[serde(
        rename = "disableOpenAPIValidation",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub disable_open_api_validation: bool,
    /// Whether the values are not held against the chart's schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_schema_validation: bool,
    /// Whether an object of another release is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_take_ownership: bool,
    /// Whether readiness is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Whether the end of Jobs is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// What is done about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<InstallRemediation>,
    /// Whether the name of a deleted release may be used again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Whether the API server merges the changes; true when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<bool>,
    /// Whether the CRDs of the chart are left out; `crds` says it better.
    #[serde(rename = "skipCRDs", default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_crds: bool,
    /// What comes after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<InstallStrategy>,
    /// How long the action may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The remediation of a failed install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallRemediation {
    /// Whether a failed test is no failure; as `test` says when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Whether the last failure is undone too; no when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// How often it is tried again; endlessly when negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub retries: Option<i64>,
}

/// The strategy after a failed install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
    "message": ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
}]))]
pub struct InstallStrategy {
    /// Which way.
    pub name: ReleaseStrategy,
    /// How long to wait between tries; five minutes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
}

/// How a release is renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// What is done when the chart's name changes; Reinstall when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_name_change_strategy: Option<ChartNameChangeStrategy>,
    /// Whether objects made by a failed action are deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup_on_fail: bool,
    /// What is done with the CRDs of the chart; Skip when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Whether hooks are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Whether the objects are not held against the cluster's schemas.
    #[serde(
        rename = "disableOpenAPIValidation",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub disable_open_api_validation: bool,
    /// Whether the values are not held against the chart's schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_schema_validation: bool,
    /// Whether an object of another release is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_take_ownership: bool,
    /// Whether readiness is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Whether the end of Jobs is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// Whether objects are replaced where a change is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Whether the values of the last release are kept as defaults.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_values: bool,
    /// What is done about a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<UpgradeRemediation>,
    /// Whether the API server merges the changes; auto when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
    /// What comes after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<UpgradeStrategy>,
    /// How long the action may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The remediation of a failed upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeRemediation {
    /// Whether a failed test is no failure; as `test` says when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Whether the last failure is undone too; yes if there are retries, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// How often it is tried again; endlessly when negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub retries: Option<i64>,
    /// How it is undone; rollback when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

/// The strategy after a failed upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
    "message": ".retryInterval can only be set when .name is 'RetryOnFailure'",
}]))]
pub struct UpgradeStrategy {
    /// Which way.
    pub name: ReleaseStrategy,
    /// How long to wait between tries; five minutes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
}

/// How a release is rolled back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Whether objects made by a failed action are deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup_on_fail: bool,
    /// Whether hooks are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Whether readiness is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Whether the end of Jobs is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// Whether objects are replaced where a change is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Accepted for compatibility; Helm no longer does it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recreate: bool,
    /// Whether the API server merges the changes; auto when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
    /// How long the action may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// How a release is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// How the objects' dependents go.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "background"))]
    pub deletion_propagation: Option<DeletionPropagation>,
    /// Whether hooks are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Whether readiness is not waited for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Whether the records are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_history: bool,
    /// How long the action may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// How a release is tested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// Whether tests run after a release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enable: bool,
    /// Which tests run; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// Whether a failed test is no failure of the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_failures: bool,
    /// How long the action may take; the release's timeout when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// A test by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Whether this test is left out, not run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude: bool,
    /// The test's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

string_enum! {
    /// The handling of the chart's CRDs.
    pub enum CrdsPolicy {
        /// Leaves CRDs alone.
        Skip = "Skip",
        /// Creates new ones and leaves others alone.
        #[default]
        Create = "Create",
        /// Creates new ones and replaces others.
        CreateReplace = "CreateReplace",
    }
}

string_enum! {
    /// The strategy after a failed action.
    pub enum ReleaseStrategy {
        /// Remediates the release.
        #[default]
        RemediateOnFailure = "RemediateOnFailure",
        /// Retries the action.
        RetryOnFailure = "RetryOnFailure",
    }
}

string_enum! {
    /// The remediation of a failed upgrade.
    pub enum RemediationStrategy {
        /// Rolls back to the last successful release.
        #[default]
        Rollback = "rollback",
        /// Uninstalls the release.
        Uninstall = "uninstall",
    }
}

string_enum! {
    /// The use of server-side apply.
    pub enum ServerSideApply {
        /// Always.
        Enabled = "enabled",
        /// Never.
        Disabled = "disabled",
        /// As in the last release.
        #[default]
        Auto = "auto",
    }
}

string_enum! {
    /// The handling of a changed chart name.
    pub enum ChartNameChangeStrategy {
        /// Upgrades the release.
        InPlaceUpdate = "InPlaceUpdate",
        /// Uninstalls and installs the release.
        #[default]
        Reinstall = "Reinstall",
    }
}

string_enum! {
    /// The deletion propagation.
    pub enum DeletionPropagation {
        /// Dependents are deleted after their owner.
        #[default]
        Background = "background",
        /// Dependents are deleted before their owner.
        Foreground = "foreground",
        /// Dependents stay.
        Orphan = "orphan",
    }
}
