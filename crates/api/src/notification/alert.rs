//! Alerts and their providers.

use super::EventSource;
use crate::meta::{Duration, LocalReference};
use crate::schema::TIMEOUT;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which events go to which provider.
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
    /// Sent along with every event; what the event says itself wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub event_metadata: BTreeMap<String, String>,
    /// The least severity that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "info"))]
    pub event_severity: Option<Severity>,
    /// Whose events are sent.
    pub event_sources: Vec<EventSource>,
    /// Regular expressions: events whose message matches one are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusion_list: Vec<String>,
    /// Regular expressions: only events whose message matches one are sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inclusion_list: Vec<String>,
    /// The provider.
    pub provider_ref: LocalReference,
    /// A line sent along; eventMetadata says it better.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub summary: Option<String>,
    /// Whether the alert rests.
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
    /// Where the service is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// A Secret with the certificates of the service and of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// The channel to send to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub channel: Option<String>,
    /// A CEL expression over event, provider and alert that gives a commit status its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_status_expr: Option<String>,
    /// Accepted for compatibility; nothing is done at intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// The proxy's address; proxySecretRef says it better.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = r"^(http|https)://.*$"))]
    pub proxy: Option<String>,
    /// A Secret with the proxy's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with the service's address and credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A ServiceAccount to authenticate as, with a cloud's service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Whether the provider rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How long sending one event may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = TIMEOUT))]
    pub timeout: Option<Duration>,
    /// Which service.
    #[serde(rename = "type")]
    pub kind: ProviderType,
    /// The name to send under.
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
