//! Follows an object of each kind to the objects that it depends on.

use super::read::{EventLine, Reader, untyped};
use super::{Node, NodeHealth, network};
use crate::status::StatusText;
use equate_apply::id::ObjectId;
use equate_manifest::object::Object;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cmp::Reverse;
use std::fmt::Debug;

const READS_MAX: usize = 8;
/// Pods and Jobs of one object that are read closely; the unhealthy ones first.
const PODS_MAX: usize = 10;

/// Warnings about a controller that cannot create its pods.
const CREATION: [&str; 4] = [
    "FailedCreate",
    "FailedScheduling",
    "ProvisioningFailed",
    "FailedBinding",
];

impl Reader {
    pub(super) fn node<'a>(&'a self, id: &'a ObjectId, object: &'a Object) -> BoxFuture<'a, Node> {
        Box::pin(async move {
            let node = Node::of_status(id.to_string(), &StatusText::of(object));
            match self.followed(id, object, node.clone()).await {
                Ok(node) => node,
                Err(error) => {
                    let said = node.text();
                    let said = [said, error].into_iter().filter(|text| !text.is_empty());
                    let said = said.collect::<Vec<_>>().join("; ");
                    node.because("", said)
                }
            }
        })
    }

    async fn followed(&self, id: &ObjectId, object: &Object, node: Node) -> Result<Node, String> {
        let unhealthy = !node.is_healthy();
        match (&*id.group, &*id.kind) {
            ("apps", "Deployment") if unhealthy => {
                let selector = selector(object);
                let sets: Vec<ReplicaSet> = self.controlled(object, selector.as_ref()).await?;
                let sets = current_sets(sets);
                let children = self.children(&sets).await;
                Ok(self.with_creation(id, object, node, children).await)
            }
            ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet") if unhealthy => {
                let selector = selector(object);
                let pods: Vec<Pod> = self.controlled(object, selector.as_ref()).await?;
                let children = self.pods(pods).await;
                Ok(self.with_creation(id, object, node, children).await)
            }
            ("batch", "Job") if unhealthy => {
                let pods: Vec<Pod> = self.controlled(object, selector(object).as_ref()).await?;
                let children = self.pods(pods).await;
                let node = of_job(object, node);
                Ok(self.with_creation(id, object, node, children).await)
            }
            ("batch", "CronJob") => {
                let mut jobs: Vec<Job> = self.controlled(object, None).await?;
                jobs.sort_by_key(|job| Reverse(job.creation_timestamp().map(|time| time.0)));
                jobs.truncate(1);
                let children = self.children(&jobs).await;
                let failed = children
                    .into_iter()
                    .filter(|job| job.health == NodeHealth::Failed);
                Ok(node.judged_by(failed.collect()))
            }
            ("", "Pod") => {
                let pod: Pod = typed(object)?;
                Ok(self.pod(&pod).await)
            }
            ("", "PersistentVolumeClaim") if unhealthy => {
                let claim: PersistentVolumeClaim = typed(object)?;
                Ok(self.claim(&claim, node).await)
            }
            ("", "Service") => {
                let service: Service = typed(object)?;
                self.service(&service, node).await
            }
            ("networking.k8s.io", "Ingress") => {
                let ingress: Ingress = typed(object)?;
                self.ingress(&ingress, node).await
            }
            _ => Ok(node),
        }
    }

    async fn children<K>(&self, objects: &[K]) -> Vec<Node>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + ResourceExt
            + Serialize
            + DeserializeOwned
            + Debug
            + Clone
            + Sync,
    {
        let mut nodes = Vec::new();
        for one in objects {
            let Some(object) = untyped(one) else { continue };
            let id = ObjectId::of(&object);
            nodes.push(self.node(&id, &object).await);
        }
        nodes
    }

    pub(super) async fn pods(&self, mut pods: Vec<Pod>) -> Vec<Node> {
        pods.sort_by_key(|pod| {
            (
                super::pod::is_ready(pod),
                Reverse(pod.creation_timestamp().map(|t| t.0)),
            )
        });
        let left = pods.split_off(pods.len().min(PODS_MAX));
        let read = stream::iter(pods)
            .map(|pod| async move { self.pod(&pod).await })
            .buffered(READS_MAX);
        let mut nodes: Vec<Node> = read.collect().await;
        nodes.extend(left.iter().filter(|pod| super::pod::is_ready(pod)).map(|pod| {
            let name = format!("Pod/{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            Node::new(name, NodeHealth::Healthy)
        }));
        nodes
    }

    /// Adds the reason why a controller has no pods: a condition or a warning tells it.
    async fn with_creation(
        &self,
        id: &ObjectId,
        object: &Object,
        mut node: Node,
        children: Vec<Node>,
    ) -> Node {
        let tells = children
            .iter()
            .any(|child| !child.is_healthy() && (!child.reason.is_empty() || !child.below.is_empty()));
        let refused = true_condition(object, "ReplicaFailure");
        if let Some((reason, message)) = refused {
            node.health = NodeHealth::Failed;
            node = node.because(reason, message);
        } else if !tells {
            let warnings = self.warnings(&id.kind, &id.namespace, &id.name).await;
            if let Some((when, reason, message)) = creation_warning(&warnings) {
                node.health = NodeHealth::Failed;
                node = node.because(reason.clone(), message.clone()).since(*when);
            } else if object
                .0
                .get("spec")
                .and_then(|spec| spec.get("paused")?.as_bool())
                == Some(true)
            {
                node = node.because("Paused", "its rollout is paused (spec.paused)");
            }
        }
        node.set_below(children);
        node
    }

    /// The claims of a pod's volumes.
    pub(super) async fn claims_of(&self, pod: &Pod, namespace: &str) -> Vec<Node> {
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let names = volumes.filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref()?;
            Some(claim.claim_name.clone())
        });
        let mut nodes = Vec::new();
        for name in names.take(PODS_MAX) {
            let object = format!("PersistentVolumeClaim/{namespace}/{name}");
            match self.get::<PersistentVolumeClaim>(namespace, &name).await {
                Ok(Some(claim)) => {
                    let Some(untyped) = untyped(&claim) else { continue };
                    let id = ObjectId::of(&untyped);
                    nodes.push(self.node(&id, &untyped).await);
                }
                Ok(None) => nodes.push(Node::missing(object)),
                Err(error) => nodes.push(Node::new(object, NodeHealth::Waiting).because("", error)),
            }
        }
        nodes
    }

    async fn claim(&self, claim: &PersistentVolumeClaim, node: Node) -> Node {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let class = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.storage_class_name.as_deref());
        if let Some(class) = class.filter(|class| !class.is_empty()) {
            let api: Api<StorageClass> = Api::all(self.client.clone());
            if let Ok(None) = api.get_opt(class).await {
                let missing = Node::missing(format!("StorageClass/{class}"));
                return node.judged_by(vec![missing]);
            }
        }
        let warnings = self.warnings("PersistentVolumeClaim", &namespace, &name).await;
        match creation_warning(&warnings) {
            Some((when, reason, message)) => {
                let mut node = node.because(reason.clone(), message.clone()).since(*when);
                node.health = NodeHealth::Failed;
                node
            }
            None => node.because("", "is not bound to a volume"),
        }
    }

    async fn service(&self, service: &Service, node: Node) -> Result<Node, String> {
        let Some(selector) = network::selector(service) else {
            return Ok(node);
        };
        let namespace = service.namespace().unwrap_or_default();
        let pods: Vec<Pod> = self.list(&namespace, Some(selector.as_str())).await?;
        let node = network::service(node, service, &selector, &pods);
        if node.is_healthy() || pods.iter().any(super::pod::is_ready) {
            return Ok(node);
        }
        let below = self.pods(pods).await;
        Ok(node.judged_by(below))
    }

    async fn ingress(&self, ingress: &Ingress, mut node: Node) -> Result<Node, String> {
        let namespace = ingress.namespace().unwrap_or_default();
        let mut below = Vec::new();
        for (name, ports) in network::backends(ingress) {
            let object = format!("Service/{namespace}/{name}");
            let Some(service) = self.get::<Service>(&namespace, &name).await? else {
                below.push(Node::missing(object));
                continue;
            };
            if let Some(absent) = network::missing_port(&service, &ports) {
                let missing = Node::new(object, NodeHealth::Failed);
                below.push(missing.because("PortNotFound", format!("has no port {absent}")));
                continue;
            }
            below.extend(self.children(std::slice::from_ref(&service)).await);
        }
        for name in network::certificates(ingress) {
            let found = self
                .get::<k8s_openapi::api::core::v1::Secret>(&namespace, &name)
                .await?;
            if found.is_none() {
                below.push(Node::missing(format!("Secret/{namespace}/{name}")));
            }
        }
        if node.is_healthy() {
            node = node.because("", "");
        }
        Ok(node.judged_by(below))
    }
}

/// The ReplicaSets that have or want pods, the latest first.
fn current_sets(mut sets: Vec<ReplicaSet>) -> Vec<ReplicaSet> {
    sets.sort_by_key(|set| Reverse(set.creation_timestamp().map(|time| time.0)));
    let latest = sets.first().map(ResourceExt::name_any);
    sets.retain(|set| {
        let wanted = set.spec.replicas.unwrap_or(1);
        let has = set.status.as_ref().map_or(0, |status| status.replicas);
        wanted > 0 || has > 0 || Some(set.name_any()) == latest
    });
    sets
}

fn of_job(object: &Object, node: Node) -> Node {
    let suspended = object
        .0
        .get("spec")
        .and_then(|spec| spec.get("suspend")?.as_bool());
    match true_condition(object, "Failed") {
        Some((reason, message)) => node.because(reason, message),
        None if suspended == Some(true) => node.because("Suspended", "it is suspended (spec.suspend)"),
        None => node,
    }
}

fn creation_warning(warnings: &[EventLine]) -> Option<&EventLine> {
    let mut latest = warnings.iter().rev();
    latest.find(|(_, reason, _)| CREATION.contains(&reason.as_str()))
}

fn true_condition(object: &Object, kind: &str) -> Option<(String, String)> {
    let conditions = object.0.get("status")?.get("conditions")?.as_array()?;
    let is = |one: &&Value| one["type"] == kind && one["status"] == "True";
    let found = conditions.iter().find(is)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

fn selector(object: &Object) -> Option<LabelSelector> {
    let selector = object.0.get("spec")?.get("selector")?;
    serde_json::from_value(selector.clone()).ok()
}

fn typed<K: DeserializeOwned>(object: &Object) -> Result<K, String> {
    serde_json::from_value(Value::Object(object.0.clone()))
        .map_err(|error| format!("cannot decode it: {error}"))
}
