//! Automations that commit new images to git.

use super::ImageReference;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{conditions, label_selector, unobserved};
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
    /// How Git is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSpec>,
    /// How often the repository is looked at without being told.
    pub interval: Duration,
    /// Which ImagePolicies of the namespace count; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub policy_selector: Option<LabelSelector>,
    /// The repository.
    pub source_ref: UpdateSource,
    /// Whether the automation rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Which files are changed, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "strategy": "Setters" }))]
    pub update: Option<UpdateSpec>,
}

/// How Git is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSpec {
    /// What is checked out; what the source names when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutSpec>,
    /// What the commit looks like.
    pub commit: CommitSpec,
    /// Where the commit goes; to the branch checked out when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<PushSpec>,
}

/// The revision to check out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckoutSpec {
    /// Which revision.
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
    /// What it is signed with.
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
    /// The key's kind; gpg when absent.
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
    /// Options for the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// A refspec, for what a branch cannot say.
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
    /// The source's namespace; the automation's when absent.
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

/// Which files are changed, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSpec {
    /// The directory; the whole repository when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How.
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

/// What is known of an automation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ImageUpdateAutomationStatus {
    /// The automation's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// When it ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_automation_run_time: Option<Time>,
    /// The token of the last run that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last commit made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_push_commit: Option<String>,
    /// When it was pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_push_time: Option<Time>,
    /// The generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the policies said in the last run, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_policies: BTreeMap<String, ImageReference>,
    /// The source's revision in the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_source_revision: Option<String>,
}
