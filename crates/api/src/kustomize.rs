//! `kustomize.toolkit.fluxcd.io/v1`: objects built from a source and kept applied.

use crate::meta::{
    CommonMetadata, Condition, DependencyReference, Duration, Image, KubeConfigReference, LocalReference,
    Patch, Selector,
};
use crate::schema::{conditions, time, unobserved};
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

/// A Kustomization: builds objects from a source and keeps them applied.
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
    /// The annotations in which kustomize records an object's origin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub build_metadata: Vec<BuildMetadata>,
    /// Labels and annotations for all applied objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<CommonMetadata>,
    /// Directories with kustomize components, relative to the path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// The decryption of manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
    /// The handling of applied objects when this Kustomization is deleted; default MirrorPrune.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Kustomizations that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependencyReference>,
    /// Recreate objects whose change is refused as immutable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub force: bool,
    /// CEL expressions for the health of custom kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_check_exprs: Vec<HealthCheckExpression>,
    /// Objects that must be healthy before this Kustomization is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheck>,
    /// Fields whose drift is ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<IgnoreRule>,
    /// Ignore missing components.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_missing_components: bool,
    /// Image names, tags and digests to replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The interval of reconciliation.
    pub interval: Duration,
    /// The target cluster; defaults to this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfigReference>,
    /// A prefix of every object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// A suffix of every object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// Patches of the built objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// The directory of the source to build; defaults to its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The steps after the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_build: Option<PostBuild>,
    /// Delete objects that are no longer declared.
    pub prune: bool,
    /// The delay after a failure; defaults to the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Duration>,
    /// The ServiceAccount to impersonate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// The source of the manifests.
    pub source_ref: SourceReference,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The namespace of all applied objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target_namespace: Option<String>,
    /// The timeout of applying and health checks; defaults to the interval minus 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Wait until all applied objects are healthy.
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

/// The decryption of manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// The decryption provider.
    pub provider: DecryptionProvider,
    /// A Secret with the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount to authenticate with at a key service.
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

/// CEL expressions for the health of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckExpression {
    /// The kind's API version; only the group is compared.
    pub api_version: String,
    /// True if the object is healthy.
    pub current: String,
    /// True if the object has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// True while the object is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// The kind; defaults to every kind of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// An object that must be healthy.
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
    /// Its namespace; defaults to the Kustomization's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Fields whose drift is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreRule {
    /// The fields, as JSON pointers.
    pub paths: Vec<String>,
    /// The objects; default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Selector>,
}

/// The steps after the build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostBuild {
    /// Values of variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitute: BTreeMap<String, String>,
    /// ConfigMaps and Secrets with values of variables. Later ones override earlier ones, and `substitute`
    /// overrides all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitute_from: Vec<SubstituteReference>,
    /// When variables are substituted; default WithVariables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substitute_strategy: Option<SubstituteStrategy>,
}

/// A ConfigMap or Secret with values of variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubstituteReference {
    /// ConfigMap or Secret.
    pub kind: ValuesKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Ignore a missing object or key.
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

/// The source of the manifests.
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
    /// The source's namespace; defaults to the Kustomization's.
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

/// The status of a Kustomization.
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
    /// The applied objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// The origin revision of the last applied artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_origin_revision: Option<String>,
    /// The last applied revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_revision: Option<String>,
    /// The last attempted revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_revision: Option<String>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A distinct result of reconciliation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRecord {
    /// The digest of the built objects.
    pub digest: String,
    /// When it first occurred.
    #[schemars(schema_with = "time")]
    pub first_reconciled: Time,
    /// When it last occurred.
    #[schemars(schema_with = "time")]
    pub last_reconciled: Time,
    /// The duration of the last reconciliation.
    #[schemars(with = "String")]
    pub last_reconciled_duration: Duration,
    /// The reason of `Ready` after the last reconciliation.
    pub last_reconciled_status: String,
    /// Metadata of the result: revision and originRevision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How often it occurred.
    pub total_reconciliations: i64,
}

/// The applied objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The objects.
    pub entries: Vec<InventoryEntry>,
}

/// An applied object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// `<namespace>_<name>_<group>_<kind>`; parts may be empty, a colon in a name is two underscores.
    pub id: String,
    /// Its API version, without the group.
    pub v: String,
}
