//! Alerts and their providers.

use super::EventSource;
use crate::meta::{Duration, LocalReference};
use crate::schema::TIMEOUT;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An alert that sends events to a provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "notification.toolkit.fluxcd.io",
    version = "v1beta3",
    kind = "Alert",
    plural = "alerts",
    singular = "alert",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-notifications",
    namespaced,
    derive = "PartialEq",
    doc = "Which events go to which provider.",
    annotation("kustomize.toolkit.fluxcd.io/substitute", "disabled"),
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AlertSpec {
    /// Metadata added to every event; the event's own metadata takes precedence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_metadata: BTreeMap<String, String>,
    /// The minimum severity of events to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "info"))]
    pub event_severity: Option<Severity>,
    /// The objects whose events are sent.
    pub event_sources: Vec<EventSource>,
    /// Regular expressions: events whose message matches one are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusion_list: Vec<String>,
    /// Regular expressions: only events whose message matches one are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inclusion_list: Vec<String>,
    /// The provider.
    pub provider_ref: LocalReference,
    /// A summary added to events. Deprecated: use eventMetadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub summary: Option<String>,
    /// Suspend the alert.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

string_enum! {
    /// The severity of an event.
    pub enum Severity {
        /// Informational.
        #[default]
        Info = "info",
        /// A failure.
        Error = "error",
    }
}

/// A service that events are sent to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "notification.toolkit.fluxcd.io",
    version = "v1beta3",
    kind = "Provider",
    plural = "providers",
    singular = "provider",
    category = "all",
    category = "fluxcd",
    category = "fluxcd-notifications",
    namespaced,
    derive = "PartialEq",
    doc = "A service that events are sent to.",
    annotation("kustomize.toolkit.fluxcd.io/substitute", "disabled"),
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type == 'github' || self.type == 'gitlab' || self.type == 'gitea' || self.type == 'bitbucketserver' || self.type == 'bitbucket' || self.type == 'azuredevops' || !has(self.commitStatusExpr)",
    "message": "spec.commitStatusExpr is only supported for the 'github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', 'azuredevops' provider types",
}]))]
pub struct ProviderSpec {
    /// The service's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// A Secret with the service's CA and the client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// The channel to send to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub channel: Option<String>,
    /// A CEL expression over event, provider and alert for the id of a commit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_status_expr: Option<String>,
    /// Accepted for compatibility; has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// The proxy's address. Deprecated: use proxySecretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^(http|https)://.*$"))]
    pub proxy: Option<String>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with the service's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// The ServiceAccount to authenticate with at a cloud service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Suspend the provider.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The timeout to send an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT))]
    pub timeout: Option<Duration>,
    /// The type of service.
    #[serde(rename = "type")]
    pub kind: ProviderType,
    /// The user name of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub username: Option<String>,
}

string_enum! {
    /// The types of providers.
    pub enum ProviderType {
        /// Slack.
        Slack = "slack",
        /// Discord.
        Discord = "discord",
        /// Microsoft Teams.
        MsTeams = "msteams",
        /// Rocket.Chat.
        Rocket = "rocket",
        /// Any webhook.
        #[default]
        Generic = "generic",
        /// Any webhook that checks a signature.
        GenericHmac = "generic-hmac",
        /// Commit statuses of GitHub.
        Github = "github",
        /// Commit statuses of GitLab.
        Gitlab = "gitlab",
        /// Commit statuses of Gitea.
        Gitea = "gitea",
        /// Comments on Gitea's pull requests.
        GiteaPullRequestComment = "giteapullrequestcomment",
        /// Commit statuses of Bitbucket Server.
        BitbucketServer = "bitbucketserver",
        /// Commit statuses of Bitbucket.
        Bitbucket = "bitbucket",
        /// Commit statuses of Azure DevOps.
        AzureDevOps = "azuredevops",
        /// Google Chat.
        GoogleChat = "googlechat",
        /// Google Pub/Sub.
        GooglePubSub = "googlepubsub",
        /// Webex.
        Webex = "webex",
        /// Sentry.
        Sentry = "sentry",
        /// Azure Event Hubs.
        AzureEventHub = "azureeventhub",
        /// Telegram.
        Telegram = "telegram",
        /// Lark.
        Lark = "lark",
        /// Matrix.
        Matrix = "matrix",
        /// Opsgenie.
        Opsgenie = "opsgenie",
        /// Prometheus Alertmanager.
        Alertmanager = "alertmanager",
        /// Grafana annotations.
        Grafana = "grafana",
        /// Repository dispatches of GitHub.
        GithubDispatch = "githubdispatch",
        /// Comments on GitHub's pull requests.
        GithubPullRequestComment = "githubpullrequestcomment",
        /// Comments on GitLab's merge requests.
        GitlabMergeRequestComment = "gitlabmergerequestcomment",
        /// PagerDuty.
        PagerDuty = "pagerduty",
        /// Datadog.
        Datadog = "datadog",
        /// NATS.
        Nats = "nats",
        /// Zulip.
        Zulip = "zulip",
        /// OpenTelemetry traces.
        Otel = "otel",
    }
}
