//! Helm's actions and their options.

use crate::meta::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The options of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Install {
    /// The handling of the chart's CRDs; default Create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Create the target namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_namespace: bool,
    /// Do not run hooks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Do not validate the objects against the cluster's OpenAPI schemas.
    #[serde(
        rename = "disableOpenAPIValidation",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub disable_open_api_validation: bool,
    /// Do not validate the values against the chart's schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_schema_validation: bool,
    /// Fail if an object belongs to another release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_take_ownership: bool,
    /// Do not wait for objects to become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Do not wait for Jobs to complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// The remediation of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<InstallRemediation>,
    /// Allow the name of a deleted release to be used again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Use server-side apply; default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<bool>,
    /// Do not install the chart's CRDs. Deprecated: use `crds`.
    #[serde(rename = "skipCRDs", default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_crds: bool,
    /// The strategy after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<InstallStrategy>,
    /// The timeout of the action; defaults to the release's timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The remediation of a failed install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallRemediation {
    /// Ignore failed tests; defaults to `test.ignoreFailures`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Remediate the last failure too; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// The number of retries; unlimited if negative.
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
    /// The name of the strategy.
    pub name: ReleaseStrategy,
    /// The delay between attempts; default 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
}

/// The options of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// The handling of a changed chart name; default Reinstall.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart_name_change_strategy: Option<ChartNameChangeStrategy>,
    /// Delete new objects if the action fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup_on_fail: bool,
    /// The handling of the chart's CRDs; default Skip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<CrdsPolicy>,
    /// Do not run hooks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Do not validate the objects against the cluster's OpenAPI schemas.
    #[serde(
        rename = "disableOpenAPIValidation",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub disable_open_api_validation: bool,
    /// Do not validate the values against the chart's schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_schema_validation: bool,
    /// Fail if an object belongs to another release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_take_ownership: bool,
    /// Do not wait for objects to become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Do not wait for Jobs to complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// Replace objects whose update is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Keep the values of the last release as defaults.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_values: bool,
    /// The remediation of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation: Option<UpgradeRemediation>,
    /// Use server-side apply; default auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
    /// The strategy after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<UpgradeStrategy>,
    /// The timeout of the action; defaults to the release's timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The remediation of a failed upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeRemediation {
    /// Ignore failed tests; defaults to `test.ignoreFailures`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_test_failures: Option<bool>,
    /// Remediate the last failure too; defaults to true if `retries` is greater than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediate_last_failure: Option<bool>,
    /// The number of retries; unlimited if negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub retries: Option<i64>,
    /// The strategy of the remediation; default rollback.
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
    /// The name of the strategy.
    pub name: ReleaseStrategy,
    /// The delay between attempts; default 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
}

/// The options of a rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollback {
    /// Delete new objects if the action fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup_on_fail: bool,
    /// Do not run hooks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Do not wait for objects to become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Do not wait for Jobs to complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait_for_jobs: bool,
    /// Replace objects whose update is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Accepted for compatibility; Helm no longer supports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recreate: bool,
    /// Use server-side apply; default auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
    /// The timeout of the action; defaults to the release's timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The options of an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Uninstall {
    /// The deletion propagation of the objects' dependents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "background"))]
    pub deletion_propagation: Option<DeletionPropagation>,
    /// Do not run hooks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hooks: bool,
    /// Do not wait for objects to become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_wait: bool,
    /// Keep the release history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_history: bool,
    /// The timeout of the action; defaults to the release's timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The options of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Test {
    /// Run the tests after an install or upgrade.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enable: bool,
    /// The tests to run; default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Filter>,
    /// Ignore failed tests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_failures: bool,
    /// The timeout of the action; defaults to the release's timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// A test by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Exclude this test.
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
