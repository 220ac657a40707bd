//! Artifacts of OCI registries.

use super::Artifact;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{TIMEOUT, conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A repository of an OCI registry, and which of its artifacts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.toolkit.fluxcd.io",
    version = "v1",
    kind = "OCIRepository",
    root = "OciRepository",
    plural = "ocirepositories",
    singular = "ocirepository",
    shortname = "ocirepo",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-sources",
    namespaced,
    status = "OciRepositoryStatus",
    derive = "PartialEq",
    doc = "A repository of an OCI registry whose artifacts become ours.",
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".spec.url"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct OciRepositorySpec {
    /// A Secret with the registry's CA and the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// Paths to exclude from the artifact, in .gitignore syntax; replaces the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore: Option<String>,
    /// Use plain HTTP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// The interval of reconciliation.
    pub interval: Duration,
    /// The layer with the content; defaults to the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer_selector: Option<LayerSelector>,
    /// The provider of authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "generic"))]
    pub provider: Option<OciProvider>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// The artifact to pull; default tag latest.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<OciReference>,
    /// A Secret with the registry's credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount with the pull secrets or cloud identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The timeout of a registry operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT, "default" = "60s"))]
    pub timeout: Option<Duration>,
    /// The repository's address, without a tag.
    #[schemars(regex(pattern = r"^oci://.*$"))]
    pub url: String,
    /// The verification of signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<OciVerification>,
}

string_enum! {
    /// The providers of OCI registries.
    pub enum OciProvider {
        /// Any registry.
        #[default]
        Generic = "generic",
        /// Amazon ECR.
        Aws = "aws",
        /// Azure Container Registry.
        Azure = "azure",
        /// Google Artifact Registry.
        Gcp = "gcp",
    }
}

/// The artifact to pull: digest before semver and tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciReference {
    /// The digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The newest tag in this range of semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// A regular expression that tags in the range must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semver_filter: Option<String>,
    /// The tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The layer with the content, and its handling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerSelector {
    /// The first layer of this media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The handling of the layer; default extract.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<LayerOperation>,
}

string_enum! {
    /// The handling of a layer.
    pub enum LayerOperation {
        /// Unpack it.
        #[default]
        Extract = "extract",
        /// Store it unchanged.
        Copy = "copy",
    }
}

/// The verification of signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciVerification {
    /// Accepted signers, if no keys are given; one must match.
    #[serde(default, rename = "matchOIDCIdentity", skip_serializing_if = "Vec::is_empty")]
    pub match_oidc_identity: Vec<OciIdentity>,
    /// The tool that verifies the signature.
    #[schemars(extend("default" = "cosign"))]
    pub provider: SignatureProvider,
    /// A Secret with the public keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A Secret with Sigstore's trusted root, where it is not the public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_root_secret_ref: Option<LocalReference>,
}

/// A signer by its OpenID Connect identity; both are regular expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OciIdentity {
    /// The issuer of the signer's identity.
    pub issuer: String,
    /// The signer's identity.
    pub subject: String,
}

string_enum! {
    /// The tools that sign artifacts.
    pub enum SignatureProvider {
        /// Sigstore's cosign.
        #[default]
        Cosign = "cosign",
        /// Notary's notation.
        Notation = "notation",
    }
}

/// The status of an OCI repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct OciRepositoryStatus {
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
    /// The ignore rules of the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// The layer selection of the artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_layer_selector: Option<LayerSelector>,
    /// The stable URL of the newest artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}
