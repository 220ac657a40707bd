//! Automations that commit new images to git.

use super::ImageReference;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{conditions, label_selector, time, unobserved};
use crate::source::GitReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where new images are committed, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "image.toolkit.fluxcd.io",
    version = "v1",
    kind = "ImageUpdateAutomation",
    plural = "imageupdateautomations",
    singular = "imageupdateautomation",
    shortname = "iua",
    shortname = "imgupd",
    shortname = "imgauto",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-images",
    namespaced,
    status = "ImageUpdateAutomationStatus",
    derive = "PartialEq",
    doc = "New images, committed to git.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Last run","type":"string","jsonPath":".status.lastAutomationRunTime","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ImageUpdateAutomationSpec {
    /// The Git operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSpec>,
    /// The interval of reconciliation.
    pub interval: Duration,
    /// A selector of ImagePolicies in the namespace; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub policy_selector: Option<LabelSelector>,
    /// The repository.
    pub source_ref: UpdateSource,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The files to update, and the strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "strategy": "Setters" }))]
    pub update: Option<UpdateSpec>,
}

/// The Git operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSpec {
    /// The revision to check out; defaults to the source's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutSpec>,
    /// The commit to make.
    pub commit: CommitSpec,
    /// The target of the push; defaults to the checked-out branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<PushSpec>,
}

/// The revision to check out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutSpec {
    /// The revision to check out.
    #[serde(rename = "ref")]
    pub reference: GitReference,
}

/// The commit to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitSpec {
    /// Its author.
    pub author: CommitAuthor,
    /// A Go template of its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_template: Option<String>,
    /// Values for the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub message_template_values: BTreeMap<String, String>,
    /// The signing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<SigningKey>,
}

/// A commit's author.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitAuthor {
    /// The mail address.
    pub email: String,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The key that signs a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningKey {
    /// A Secret with the key.
    pub secret_ref: LocalReference,
    /// The key's type; default gpg.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SigningKeyType>,
}

string_enum! {
    /// The types of signing keys.
    pub enum SigningKeyType {
        /// An OpenPGP key.
        #[default]
        Gpg = "gpg",
        /// An SSH key.
        Ssh = "ssh",
    }
}

/// The target of a push.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushSpec {
    /// The branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Push options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The refspec to push.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refspec: Option<String>,
}

/// The repository to update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSource {
    /// The source's API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The source's kind.
    #[schemars(extend("default" = "GitRepository"))]
    pub kind: UpdateSourceKind,
    /// The source's name.
    pub name: String,
    /// The source's namespace; defaults to the automation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

string_enum! {
    /// The kinds that an automation can update.
    pub enum UpdateSourceKind {
        /// A Git repository.
        #[default]
        GitRepository = "GitRepository",
    }
}

/// The files to update, and the strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSpec {
    /// The directory to update; defaults to the whole repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Setters"))]
    pub strategy: Option<UpdateStrategy>,
}

string_enum! {
    /// The ways to change files.
    pub enum UpdateStrategy {
        /// Changes values whose line has a `$imagepolicy` comment.
        #[default]
        Setters = "Setters",
    }
}

/// The status of an automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ImageUpdateAutomationStatus {
    /// The automation's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// When it last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub last_automation_run_time: Option<Time>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last commit made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_push_commit: Option<String>,
    /// When it was pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time")]
    pub last_push_time: Option<Time>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The selected images in the last run, by policy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_policies: BTreeMap<String, ImageReference>,
    /// The source's revision in the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_source_revision: Option<String>,
}
