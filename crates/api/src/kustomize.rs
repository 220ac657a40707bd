//! `kustomize.toolkit.fluxcd.io/v1`: objects built from a source and kept applied.

use crate::meta::{
    CommonMetadata, Condition, DependencyReference, Duration, Image, KubeConfigReference, LocalReference,
    Patch, Selector,
};
use crate::schema::{conditions, unobserved};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The group's name.
pub const GROUP: &str = "kustomize.toolkit.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v1";

/// The most records in [`KustomizationStatus::history`].
pub const HISTORY_RECORDS_MAX: usize = 5;

/// What to build from a source, and how to keep it applied.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kustomize.toolkit.fluxcd.io",
    version = "v1",
    kind = "Kustomization",
    plural = "kustomizations",
    singular = "kustomization",
    shortname = "ks",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-appliers",
    namespaced,
    status = "KustomizationStatus",
    derive = "PartialEq",
    doc = "A directory of a source, built and kept applied.",
    annotation("kustomize.toolkit.fluxcd.io/substitute", "disabled"),
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct KustomizationSpec {
    /// Which annotations kustomize adds about where an object comes from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build_metadata: Vec<BuildMetadata>,
    /// Labels and annotations for everything that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Directories with kustomize components, relative to the path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// How encrypted manifests are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
    /// What becomes of the applied objects when this one is deleted; MirrorPrune when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Kustomizations that have to be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependencyReference>,
    /// Whether an object is recreated when a change to it is refused as immutable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub force: bool,
    /// How the health of custom kinds is told, by CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpression>,
    /// Objects that have to be healthy before this one is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    /// Fields whose drift is left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// Whether a component that does not exist is passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_missing_components: bool,
    /// Image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// How often the cluster is looked at without being told.
    pub interval: Duration,
    /// The cluster to apply to; the one this object lives in when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigReference>,
    /// Put before every name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// Put after every name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// Changes to what is built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// The directory of the source to build; its root when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is done with the manifests after the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_build: Option<PostBuild>,
    /// Whether objects that are no longer declared are deleted.
    pub prune: bool,
    /// How long to wait after a failure; the interval when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
    /// The ServiceAccount to act as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Where the manifests come from.
    pub source_ref: SourceReference,
    /// Whether the Kustomization rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The namespace of everything that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// How long applying and becoming healthy may take; half a minute less than the interval when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether everything that is applied has to be healthy before this one is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
}

impl KustomizationSpec {
    /// The delay after a failure; the interval by default.
    pub fn retry_interval(&self) -> std::time::Duration {
        self.retry_interval.unwrap_or(self.interval).get()
    }

    /// The timeout of applying and health checks: by default half a minute less than the interval, at least
    /// half a minute.
    pub fn timeout(&self) -> std::time::Duration {
        let margin = std::time::Duration::from_secs(30);
        let said = self.timeout.map(Duration::get);
        said.unwrap_or_else(|| self.interval.get().saturating_sub(margin))
            .max(margin)
    }
}

string_enum! {
    /// Annotations in which kustomize records an object's origin.
    pub enum BuildMetadata {
        /// The file the object was read from.
        #[default]
        OriginAnnotations = "originAnnotations",
        /// The transformers that changed the object.
        TransformerAnnotations = "transformerAnnotations",
    }
}

string_enum! {
    /// The handling of applied objects when their Kustomization is deleted.
    pub enum DeletionPolicy {
        /// Deletes them if `prune` is set.
        #[default]
        MirrorPrune = "MirrorPrune",
        /// Deletes them.
        Delete = "Delete",
        /// Deletes them and waits until they are gone.
        WaitForTermination = "WaitForTermination",
        /// Keeps them.
        Orphan = "Orphan",
    }
}

/// How encrypted manifests are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// Which tool encrypted them.
    pub provider: DecryptionProvider,
    /// A Secret with the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount that a key service is asked as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}

string_enum! {
    /// The decryption providers.
    pub enum DecryptionProvider {
        /// SOPS.
        #[default]
        Sops = "sops",
    }
}

/// How the health of a kind is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckExpression {
    /// The kind's API version, of which only the group counts.
    pub api_version: String,
    /// True when the object is healthy.
    pub current: String,
    /// True when it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// True while it is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// The kind; every kind of the group when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// An object that has to be healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Its API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; the Kustomization's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Fields whose drift is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreRule {
    /// The fields, as JSON pointers.
    pub paths: Vec<String>,
    /// Which objects; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// What is done with the manifests after the build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostBuild {
    /// Values of variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitute: BTreeMap<String, String>,
    /// ConfigMaps and Secrets with values of variables; a later one wins, `substitute` over all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitute_from: Vec<SubstituteReference>,
    /// When variables are looked for; WithVariables when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substitute_strategy: Option<SubstituteStrategy>,
}

/// A ConfigMap or Secret with values of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubstituteReference {
    /// Which of the two.
    pub kind: ValuesKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Whether it may be absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub optional: bool,
}

string_enum! {
    /// The kinds that supply values.
    pub enum ValuesKind {
        /// A Secret.
        Secret = "Secret",
        /// A ConfigMap.
        #[default]
        ConfigMap = "ConfigMap",
    }
}

string_enum! {
    /// When variables are substituted.
    pub enum SubstituteStrategy {
        /// If any variable has a value.
        #[default]
        WithVariables = "WithVariables",
        /// Always.
        Always = "Always",
    }
}

/// Where the manifests come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceReference {
    /// The source's API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The source's kind.
    pub kind: SourceKind,
    /// The source's name.
    pub name: String,
    /// The source's namespace; the Kustomization's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

string_enum! {
    /// The kinds of sources with manifests.
    pub enum SourceKind {
        /// An OCI repository.
        OciRepository = "OCIRepository",
        /// A Git repository.
        #[default]
        GitRepository = "GitRepository",
        /// A bucket.
        Bucket = "Bucket",
        /// An ExternalArtifact, made by a third party.
        ExternalArtifact = "ExternalArtifact",
    }
}

/// What is known of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct KustomizationStatus {
    /// The Kustomization's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The last few distinct results, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryRecord>,
    /// The objects that are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The revision the artifact was made from, of what is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_origin_revision: Option<String>,
    /// The revision that is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// The revision of the last try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The token of the last run that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A result, and since when it has been the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRecord {
    /// The digest of what was built.
    pub digest: String,
    /// When it came out first.
    pub first_reconciled: Time,
    /// When it came out last.
    pub last_reconciled: Time,
    /// How long the last run took.
    #[schemars(with = "String")]
    pub last_reconciled_duration: Duration,
    /// The reason of `Ready` after the last run.
    pub last_reconciled_status: String,
    /// What else is known of it: revision and originRevision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How often it came out.
    pub total_reconciliations: i64,
}

/// The objects that are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The objects.
    pub entries: Vec<InventoryEntry>,
}

/// One object that is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// `<namespace>_<name>_<group>_<kind>`; parts may be empty, a colon in a name is two underscores.
    pub id: String,
    /// The version of its API, without the group.
    pub v: String,
}
