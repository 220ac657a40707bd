//! Webhooks.

use super::EventKind;
use crate::meta::{Condition, Duration, LocalReference};
use crate::schema::{conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A webhook that requests reconciliations of objects.
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
    /// The sender's events to handle; default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The interval of reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10m"))]
    pub interval: Option<Duration>,
    /// The issuers of accepted tokens, for the type generic-oidc.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuerURL"]))]
    pub oidc_providers: Vec<OidcProvider>,
    /// A CEL expression over req, res and claims that filters all resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_filter: Option<String>,
    /// The objects to reconcile.
    pub resources: Vec<ReceiverResource>,
    /// A Secret with the shared token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Suspend the receiver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The type of sender, which decides how calls are verified.
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

/// A selector of objects to reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverResource {
    /// Their API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// A CEL expression over req, res and claims that filters these objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Their kind.
    pub kind: EventKind,
    /// Labels of the objects; only with the name `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Their name; `*` for all.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Their namespace; defaults to the receiver's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub namespace: Option<String>,
}

/// An issuer of accepted tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    /// The token's audience; default notification-controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The token's issuer.
    #[serde(rename = "issuerURL")]
    #[schemars(regex(pattern = r"^https?://"))]
    pub issuer_url: String,
    /// Conditions that the token must meet.
    #[schemars(length(min = 1))]
    pub validations: Vec<OidcValidation>,
    /// Values computed from the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<OidcVariable>,
}

/// A condition that a token must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcValidation {
    /// A CEL expression over claims and vars.
    pub expression: String,
    /// The answer if the condition is false.
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

/// The status of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ReceiverStatus {
    /// The receiver's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The path to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
}
