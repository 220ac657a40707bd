//! Git repositories.

use super::Artifact;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{TIMEOUT, conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Git repository, and which of its revisions.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "GitRepository",
    plural = "gitrepositories",
    singular = "gitrepository",
    shortname = "gitrepo",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-sources",
    namespaced,
    status = "GitRepositoryStatus",
    derive = "PartialEq",
    doc = "A Git repository whose revisions become artifacts.",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider == 'aws'))",
    "message": "serviceAccountName can only be set when provider is 'azure' or 'aws'",
}]))]
pub struct GitRepositorySpec {
    /// Paths to exclude from the artifact, in .gitignore syntax; replaces the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<String>,
    /// Other GitRepositories whose artifacts are copied into this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Include>,
    /// The interval of reconciliation.
    pub interval: Duration,
    /// The provider of authentication; default generic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<GitProvider>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// Fetch submodules too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recurse_submodules: bool,
    /// The revision to check out; default branch master.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitReference>,
    /// A Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount to authenticate with at a cloud provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// The only directories to check out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sparse_checkout: Vec<String>,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The timeout of a Git operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT, "default" = "60s"))]
    pub timeout: Option<Duration>,
    /// The repository's address.
    #[schemars(regex(pattern = r"^(http|https|ssh)://.*$"))]
    pub url: String,
    /// The verification of signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<GitVerification>,
}

impl GitRepositorySpec {
    /// The timeout of a Git operation; a minute by default.
    pub fn timeout(&self) -> std::time::Duration {
        self.timeout
            .map_or(std::time::Duration::from_secs(60), Duration::get)
    }
}

string_enum! {
    /// The providers of authentication.
    pub enum GitProvider {
        /// Any Git server.
        #[default]
        Generic = "generic",
        /// AWS CodeCommit.
        Aws = "aws",
        /// Azure DevOps.
        Azure = "azure",
        /// A GitHub App.
        Github = "github",
    }
}

/// The revision to check out: commit before name, semver, tag and branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitReference {
    /// The tip of this branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The commit of a reference by its full name, such as refs/pull/1/head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The newest tag in this range of semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// The tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Another repository's artifact, copied in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Include {
    /// The path to copy from; defaults to the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_path: Option<String>,
    /// The GitRepository.
    pub repository: LocalReference,
    /// The path to copy to; defaults to the repository's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_path: Option<String>,
}

/// The verification of signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitVerification {
    /// The Git objects whose signatures are verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "HEAD"))]
    pub mode: Option<GitVerificationMode>,
    /// A Secret with the public keys.
    pub secret_ref: LocalReference,
}

string_enum! {
    /// The Git objects whose signatures are verified.
    pub enum GitVerificationMode {
        /// The commit, as older manifests write it.
        LegacyHead = "head",
        /// The commit.
        #[default]
        Head = "HEAD",
        /// The tag.
        Tag = "Tag",
        /// The tag and the commit.
        TagAndHead = "TagAndHEAD",
    }
}

/// The status of a Git repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct GitRepositoryStatus {
    /// The artifact of the last revision fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// The repository's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The artifacts copied into this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub included_artifacts: Vec<Artifact>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The ignore rules of the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// The includes of the artifact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_include: Vec<Include>,
    /// Whether the artifact contains submodules.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observed_recurse_submodules: bool,
    /// The directories the artifact is limited to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observed_sparse_checkout: Vec<String>,
    /// The verified Git objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_verification_mode: Option<String>,
}
