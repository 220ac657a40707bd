//! `source.extensions.fluxcd.io/v1beta1`: artifacts composed of other sources.

use crate::meta::{CommonMetadata, Condition};
use crate::schema::conditions;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The group's name.
pub const GROUP: &str = "source.extensions.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v1beta1";

/// `@alias`.
const ALIAS: &str = r"^@([a-z0-9]([a-z0-9_-]*[a-z0-9])?)$";
const ALIAS_PATH: &str = r"^@([a-z0-9]([a-z0-9_-]*[a-z0-9])?)/(.*)$";

/// A generator that composes artifacts of other sources.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "source.extensions.fluxcd.io",
    version = "v1beta1",
    kind = "ArtifactGenerator",
    plural = "artifactgenerators",
    singular = "artifactgenerator",
    shortname = "ag",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-sources",
    namespaced,
    status = "ArtifactGeneratorStatus",
    derive = "PartialEq",
    doc = "Artifacts composed of other sources.",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": r"has(self.pathPattern) && size(self.pathPattern) > 0 || self.artifacts.all(a, a.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
    "message": "artifact names must be valid Kubernetes object names when pathPattern is not set",
}]))]
pub struct ArtifactGeneratorSpec {
    /// The artifacts to make.
    #[schemars(length(min = 1, max = 1000))]
    pub artifacts: Vec<OutputArtifact>,
    /// Labels and annotations of the ExternalArtifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Directories of a source, each of which gets artifacts of its own: `@alias/apps/{app}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), extend("pattern" = ALIAS_PATH))]
    pub path_pattern: Option<String>,
    /// The sources.
    #[schemars(length(min = 1, max = 1000))]
    pub sources: Vec<GeneratorSource>,
}

/// An artifact to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputArtifact {
    /// The copy operations, in order.
    #[schemars(length(min = 1))]
    pub copy: Vec<CopyOperation>,
    /// The ExternalArtifact's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The source whose revision is the artifact's origin, as `@alias`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("pattern" = ALIAS))]
    pub origin_revision: Option<String>,
    /// The source whose revision is the artifact's, as `@alias`; defaults to a digest of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("pattern" = ALIAS))]
    pub revision: Option<String>,
}

/// Files to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopyOperation {
    /// Patterns of paths to exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub exclude: Vec<String>,
    /// The files to copy, as `@alias/pattern`.
    #[schemars(length(min = 1, max = 1024), extend("pattern" = ALIAS_PATH))]
    pub from: String,
    /// The handling of a file that exists already; default Overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<CopyStrategy>,
    /// The target, as `@artifact/path`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^@(artifact)/(.*)$"))]
    pub to: String,
}

string_enum! {
    /// The handling of a file that exists already.
    pub enum CopyStrategy {
        /// Replaces it.
        #[default]
        Overwrite = "Overwrite",
        /// Merges YAML into it.
        Merge = "Merge",
        /// Unpacks archives.
        Extract = "Extract",
    }
}

/// A source to take files from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratorSource {
    /// Its name in this generator.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"))]
    pub alias: String,
    /// Its kind.
    pub kind: GeneratorSourceKind,
    /// Its name.
    #[schemars(length(max = 253), regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,
    /// Its namespace; defaults to the generator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
}

string_enum! {
    /// The kinds of generator sources.
    pub enum GeneratorSourceKind {
        /// A bucket.
        Bucket = "Bucket",
        /// A Git repository.
        #[default]
        GitRepository = "GitRepository",
        /// An OCI repository.
        OciRepository = "OCIRepository",
        /// A Helm chart.
        HelmChart = "HelmChart",
        /// An ExternalArtifact, made by a third party.
        ExternalArtifact = "ExternalArtifact",
    }
}

/// The status of a generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactGeneratorStatus {
    /// The generator's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The artifacts made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<GeneratedArtifact>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// A digest of the sources' revisions in the last reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_sources_digest: Option<String>,
    /// Not a field of the kind: its conditions name the generation.
    #[serde(skip)]
    pub observed_generation: Option<i64>,
}

/// An artifact that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedArtifact {
    /// The archive's digest.
    pub digest: String,
    /// The archive's file name.
    pub filename: String,
    /// The ExternalArtifact's name.
    pub name: String,
    /// The ExternalArtifact's namespace.
    pub namespace: String,
}
