//! `notification.toolkit.fluxcd.io`: alerts about events, and webhooks that request reconciliations.

mod alert;
mod receiver;

pub use alert::{Alert, AlertSpec, Provider, ProviderSpec, ProviderType, Severity};
pub use receiver::{
    OidcProvider, OidcValidation, OidcVariable, Receiver, ReceiverResource, ReceiverSpec, ReceiverStatus,
    ReceiverType,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The group's name.
pub const GROUP: &str = "notification.toolkit.fluxcd.io";
/// The version receivers are served in.
pub const RECEIVER_VERSION: &str = "v1";
/// The version alerts and providers are served in.
pub const ALERT_VERSION: &str = "v1beta3";

/// A selector of objects that emit events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventSource {
    /// Their API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Their kind.
    pub kind: EventKind,
    /// Labels of the objects; only with the name `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Their name; `*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Their namespace; defaults to the referring object's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub namespace: Option<String>,
}

string_enum! {
    /// The kinds that emit events.
    pub enum EventKind {
        /// A bucket.
        Bucket = "Bucket",
        /// A Git repository.
        #[default]
        GitRepository = "GitRepository",
        /// A Kustomization.
        Kustomization = "Kustomization",
        /// A Helm release.
        HelmRelease = "HelmRelease",
        /// A Helm chart.
        HelmChart = "HelmChart",
        /// A Helm repository.
        HelmRepository = "HelmRepository",
        /// An image repository.
        ImageRepository = "ImageRepository",
        /// A choice among an image's tags.
        ImagePolicy = "ImagePolicy",
        /// An automation that commits new images.
        ImageUpdateAutomation = "ImageUpdateAutomation",
        /// An OCI repository.
        OciRepository = "OCIRepository",
        /// A generator of artifacts.
        ArtifactGenerator = "ArtifactGenerator",
        /// An ExternalArtifact, made by a third party.
        ExternalArtifact = "ExternalArtifact",
    }
}
