//! The requests of a diagnosis.

use super::Node;
use super::pod::{self, LogRequest, Logs};
use crate::events;
use crate::failure::chain;
use equate_apply::cluster::{ApplyError, Cluster};
use equate_apply::id::ObjectId;
use equate_manifest::object::Object;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_TIMEOUT: Duration = Duration::from_secs(5);
/// Limits of one list, and of the end of a log.
const LIST_MAX: u32 = 500;
const LOG_LINES_MAX: i64 = 5;
const LOG_BYTES_MAX: i64 = 4096;
const LOG_CHARS_MAX: usize = 300;

/// An event: time, reason, message.
pub(crate) type EventLine = (Option<Timestamp>, String, String);

/// Reads objects for a diagnosis. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(super) client: Client,
    cluster: Cluster,
}

impl Reader {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            cluster: Cluster::new(client.clone()),
            client,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The object in any served version, preferably this one; none if it does not exist.
    pub(crate) async fn object(&self, id: &ObjectId, version: &str) -> Result<Option<Object>, ApplyError> {
        self.cluster.get(id, version, READ_TIMEOUT).await
    }

    /// Follows an object down to its pods.
    pub(crate) async fn diagnose(&self, id: &ObjectId, object: &Object) -> Node {
        self.node(id, object).await
    }

    pub(super) async fn get<K>(&self, namespace: &str, name: &str) -> Result<Option<K>, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await;
        found.map_err(|error| format!("cannot read {} {name}: {}", K::kind(&()), chain(&error)))
    }

    /// The objects of a kind in a namespace, by labels.
    pub(super) async fn list<K>(&self, namespace: &str, labels: Option<&str>) -> Result<Vec<K>, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let parameters = ListParams {
            label_selector: labels.map(str::to_owned),
            limit: Some(LIST_MAX),
            ..ListParams::default()
        };
        let found = api.list(&parameters).await;
        let found = found.map_err(|error| format!("cannot list {}: {}", K::plural(&()), chain(&error)));
        Ok(found?.items)
    }

    /// The objects of a kind whose controller is this object.
    pub(super) async fn controlled<K>(
        &self,
        owner: &Object,
        selector: Option<&LabelSelector>,
    ) -> Result<Vec<K>, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let labels = selector.and_then(selector_text);
        let uid = owner.metadata().and_then(|meta| meta.get("uid")?.as_str());
        let mut found: Vec<K> = self.list(owner.namespace(), labels.as_deref()).await?;
        found.retain(|one| {
            let owners = one.owner_references().iter();
            uid.is_some() && owners.clone().any(|owner| Some(owner.uid.as_str()) == uid)
        });
        Ok(found)
    }

    /// The warnings about an object, oldest first; none if they cannot be read.
    pub(super) async fn warnings(&self, kind: &str, namespace: &str, name: &str) -> Vec<EventLine> {
        let found = self.event_list(kind, namespace, name).await.unwrap_or_default();
        let warnings = found
            .into_iter()
            .filter(|event| event.type_.as_deref() == Some("Warning"));
        warnings.map(line).collect()
    }

    /// The events about an object, oldest first.
    pub(crate) async fn events(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<EventLine>, kube::Error> {
        let found = self.event_list(kind, namespace, name).await?;
        Ok(found.into_iter().map(line).collect())
    }

    async fn event_list(&self, kind: &str, namespace: &str, name: &str) -> Result<Vec<Event>, kube::Error> {
        let namespace = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let about = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let mut found = api.list(&ListParams::default().fields(&about)).await?.items;
        found.sort_by_key(events::order);
        Ok(found)
    }

    pub(super) async fn pod(&self, pod: &Pod) -> Node {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let object = format!("Pod/{namespace}/{name}");
        let succeeded = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
        if pod::is_ready(pod) || succeeded {
            return pod::node(&object, pod, &[], &Logs::new());
        }
        let warnings = self.warnings("Pod", &namespace, &name).await;
        let mut logs = Logs::new();
        for request in pod::log_requests(pod) {
            if let Some(line) = self.last_line(&namespace, &name, &request).await {
                logs.insert(request, line);
            }
        }
        let mut node = pod::node(&object, pod, &warnings, &logs);
        let claims = self.claims_of(pod, &namespace).await;
        node.set_below(claims.into_iter().filter(|claim| !claim.is_healthy()).collect());
        node
    }

    /// The last line that a container wrote; none where there is no log, as without a kubelet.
    async fn last_line(&self, namespace: &str, pod: &str, request: &LogRequest) -> Option<String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let parameters = |previous| LogParams {
            container: Some(request.container.clone()),
            previous,
            tail_lines: Some(LOG_LINES_MAX),
            limit_bytes: Some(LOG_BYTES_MAX),
            ..LogParams::default()
        };
        let read = async |previous| {
            let parameters = parameters(previous);
            let read = tokio::time::timeout(LOG_TIMEOUT, api.logs(pod, &parameters)).await;
            pod::last_line(&read.ok()?.ok()?)
        };
        let line = match read(request.previous).await {
            None if request.previous => read(false).await,
            line => line,
        }?;
        Some(line.chars().take(LOG_CHARS_MAX).collect())
    }
}

fn line(event: Event) -> EventLine {
    (
        events::last_seen(&event),
        event.reason.unwrap_or_default(),
        event.message.unwrap_or_default(),
    )
}

/// The labels of a selector as text; none for expressions, which few objects have.
fn selector_text(selector: &LabelSelector) -> Option<String> {
    let labels = selector.match_labels.as_ref()?;
    Some(labels_text(labels))
}

pub(super) fn labels_text(labels: &std::collections::BTreeMap<String, String>) -> String {
    let pairs = labels.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

/// A typed object in the form that health is computed from.
pub(super) fn untyped<K>(object: &K) -> Option<Object>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut value = serde_json::to_value(object).ok()?;
    // items of lists have neither
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    Object::from_value(value)
}
