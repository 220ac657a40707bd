//! Webhooks.

use super::EventKind;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who may call, and which objects a call asks to run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "notification.toolkit.fluxcd.io",
    version = "v1",
    kind = "Receiver",
    plural = "receivers",
    singular = "receiver",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-notifications",
    namespaced,
    status = "ReceiverStatus",
    derive = "PartialEq",
    doc = "A webhook that asks objects to run.",
    annotation("kustomize.toolkit.fluxcd.io/substitute", "disabled"),
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",
        "message": "generic-oidc receivers must define at least one oidcProvider",
    },
    {
        "rule": "self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",
        "message": "oidcProviders can only be set when type is generic-oidc",
    },
    {
        "rule": "self.type != 'generic-oidc' || !has(self.secretRef)",
        "message": "secretRef cannot be set when type is generic-oidc",
    },
    {
        "rule": "self.type == 'generic-oidc' || has(self.secretRef)",
        "message": "secretRef is required when type is not generic-oidc",
    },
]))]
pub struct ReceiverSpec {
    /// Which of the caller's events count; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// How often the receiver is looked at without being told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10m"))]
    pub interval: Option<Duration>,
    /// Whose tokens are accepted, with the type generic-oidc.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuerURL"]))]
    pub oidc_providers: Vec<OidcProvider>,
    /// A CEL expression over req, res and claims that picks among all resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_filter: Option<String>,
    /// The objects that are asked to run.
    pub resources: Vec<ReceiverResource>,
    /// A Secret with the token that callers prove to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Whether the receiver rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Who calls, and so how a call is proved.
    #[serde(rename = "type")]
    pub kind: ReceiverType,
}

string_enum! {
    /// The types of webhook senders.
    pub enum ReceiverType {
        /// Any sender that knows the path.
        #[default]
        Generic = "generic",
        /// Any sender that signs the body.
        GenericHmac = "generic-hmac",
        /// Any sender with an OpenID Connect token.
        GenericOidc = "generic-oidc",
        /// GitHub.
        Github = "github",
        /// GitLab.
        Gitlab = "gitlab",
        /// Bitbucket Server.
        Bitbucket = "bitbucket",
        /// Harbor.
        Harbor = "harbor",
        /// Docker Hub.
        DockerHub = "dockerhub",
        /// Quay.
        Quay = "quay",
        /// Google's registries.
        Gcr = "gcr",
        /// Nexus Repository.
        Nexus = "nexus",
        /// Azure Container Registry.
        Acr = "acr",
        /// Any sender of CDEvents.
        CdEvents = "cdevents",
    }
}

/// Objects that are asked to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverResource {
    /// Their API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// A CEL expression over req, res and claims that picks among these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Their kind.
    pub kind: EventKind,
    /// Labels they have, with the name `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Their name; `*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Their namespace; the receiver's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub namespace: Option<String>,
}

/// Whose tokens are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    /// Whom the token is for; notification-controller when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Who issued the token.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = r"^https?://"))]
    pub issuer_url: String,
    /// What has to hold of the token.
    #[schemars(length(min = 1))]
    pub validations: Vec<OidcValidation>,
    /// Values computed from the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<OidcVariable>,
}

/// What has to hold of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcValidation {
    /// A CEL expression over claims and vars.
    pub expression: String,
    /// What is answered when it does not hold.
    pub message: String,
}

/// A value computed from a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcVariable {
    /// A CEL expression over claims and vars.
    pub expression: String,
    /// The value's name.
    pub name: String,
}

/// What is known of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ReceiverStatus {
    /// The receiver's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last run that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The generation of the spec this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The path to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
}
