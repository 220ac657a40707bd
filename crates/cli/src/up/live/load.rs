//! Loads the content of panes through the API, as the commands of the same names do.

use super::model::Request;
use super::pane::{Content, EVENT_COLUMNS, View};
use crate::diagnosis::Reader;
use crate::diff;
use crate::explain::{self, labelled_owner};
use crate::failure::chain;
use crate::kinds::Kinds;
use crate::table;
use equate_apply::id::ObjectId;
use equate_manifest::object::Object;
use equate_manifest::yaml;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::PathBuf;

/// Namespaces whose pods are listed, objects of one list, and pods whose cause is looked for.
const NAMESPACES_MAX: usize = 50;
const LIST_MAX: u32 = 500;
const DIAGNOSED_MAX: usize = 20;
/// Owners that are followed upwards.
const OWNERS_MAX: usize = 4;

const MASK: &str = "***";

#[derive(Clone)]
pub(super) struct Loader {
    pub(super) client: Client,
    pub(super) kinds: Kinds,
    /// The directory that is explained from: the repository's, or the current one.
    pub(super) directory: PathBuf,
    /// Whether the repository is in that directory.
    pub(super) is_local: bool,
}

impl Loader {
    pub(super) async fn load(&self, request: &Request) -> Content {
        let loaded = match request.view {
            View::Explain => {
                let explained =
                    explain::explain(&self.client, &self.kinds, &request.id, &self.directory).await;
                return match explained {
                    Ok(explanation) => Content::Explanation(Box::new(explanation)),
                    Err(error) => Content::Failed(chain(&error)),
                };
            }
            View::Pods => self.pods(&request.id).await,
            View::Events => self.events(&request.id).await,
            View::Yaml => self.yaml(&request.id).await,
            View::Diff => self.diff(&request.id).await,
        };
        loaded.map_or_else(Content::Failed, Content::Text)
    }

    /// The cause of an object's state in one line, if it has one.
    pub(super) async fn cause(&self, id: &ObjectId) -> Option<String> {
        explain::cause(&self.client, &self.kinds, id).await
    }

    async fn object(&self, id: &ObjectId) -> Result<Object, String> {
        let reader = Reader::new(self.client.clone());
        match reader.object(id, "").await {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(format!("{id} does not exist")),
            Err(error) => Err(chain(&error)),
        }
    }

    async fn events(&self, id: &ObjectId) -> Result<String, String> {
        let reader = Reader::new(self.client.clone());
        let found = reader.events(&id.kind, &id.namespace, &id.name).await;
        let found = found.map_err(|error| format!("cannot list its events: {}", chain(&error)))?;
        if found.is_empty() {
            return Ok("no events".to_owned());
        }
        let now = Timestamp::now();
        let lines = found.iter().map(|(when, reason, message)| {
            let age = when.map(|when| table::since(when, now)).unwrap_or_default();
            let message = message.trim().replace('\n', &format!("\n{:EVENT_COLUMNS$}", ""));
            format!("{age:EVENT_COLUMNS$}{reason}: {message}\n")
        });
        Ok(lines.collect())
    }

    async fn yaml(&self, id: &ObjectId) -> Result<String, String> {
        let mut object = self.object(id).await?;
        let is_secret = object.kind() == "Secret" && object.api_version() == "v1";
        let mut value = Value::Object(std::mem::take(&mut object.0));
        if let Some(meta) = value["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        if is_secret {
            mask(&mut value);
        }
        Ok(yaml::to_string(&value))
    }

    async fn diff(&self, id: &ObjectId) -> Result<String, String> {
        if !self.is_local {
            return Err(
                "the repository is not on this machine, so there is no working tree to compare".into(),
            );
        }
        let (owner, only) = match &*id.kind {
            "Kustomization" => (Some(id.clone()), None),
            "GitRepository" => (None, None),
            _ => {
                let reader = Reader::new(self.client.clone());
                let owner = labelled_owner(&reader, &self.object(id).await?).await;
                let owner = owner.ok_or_else(|| format!("nothing in git applies {id}"))?;
                if &*owner.kind != "Kustomization" {
                    return Err(format!(
                        "{owner} applies {id}; only Kustomizations can be compared"
                    ));
                }
                (Some(owner), Some(id))
            }
        };
        let preview = diff::preview_in_up(&self.client, &self.directory, owner.as_ref(), only).await;
        preview.map_err(|error| chain(&error))
    }

    /// The pods of a workload, of a namespace, or of everything in an inventory.
    async fn pods(&self, id: &ObjectId) -> Result<String, String> {
        let object = self.object(id).await?;
        let mut wanted = BTreeSet::from([id.clone()]);
        let entries = object
            .0
            .get("status")
            .and_then(|status| status.get("inventory")?.get("entries")?.as_array());
        let entries = entries.into_iter().flatten();
        wanted.extend(entries.filter_map(|entry| ObjectId::from_inventory(entry["id"].as_str()?).ok()));
        let is_namespace = &*id.kind == "Namespace" && id.group.is_empty();
        let namespaces: BTreeSet<&str> = match is_namespace {
            true => BTreeSet::from([&*id.name]),
            false => wanted
                .iter()
                .map(|id| &*id.namespace)
                .filter(|name| !name.is_empty())
                .collect(),
        };
        let mut lines = String::new();
        let mut diagnosed = 0;
        let now = Timestamp::now();
        for namespace in namespaces.into_iter().take(NAMESPACES_MAX) {
            let above = self.owners(namespace).await?;
            for pod in self.list::<Pod>(namespace).await? {
                let chain = owners_of(&pod, namespace, &above);
                if !is_namespace && !chain.iter().any(|owner| wanted.contains(owner)) {
                    continue;
                }
                let row = PodRow::of(&pod, now);
                lines.push_str(&row.text);
                if row.healthy || diagnosed == DIAGNOSED_MAX {
                    continue;
                }
                diagnosed += 1;
                if let Some(cause) = self
                    .cause(&ObjectId::new("", "Pod", namespace, &pod.name_any()))
                    .await
                {
                    lines.push_str(&format!("    {cause}\n"));
                }
            }
        }
        match lines.is_empty() {
            true => Ok("no pods".to_owned()),
            false => Ok(lines),
        }
    }

    /// The controllers of the ReplicaSets and Jobs of a namespace.
    async fn owners(&self, namespace: &str) -> Result<HashMap<ObjectId, ObjectId>, String> {
        let mut above = HashMap::new();
        for set in self.list::<ReplicaSet>(namespace).await? {
            let id = ObjectId::new("apps", "ReplicaSet", namespace, &set.name_any());
            above.extend(controller(&set, namespace).map(|owner| (id, owner)));
        }
        for job in self.list::<Job>(namespace).await? {
            let id = ObjectId::new("batch", "Job", namespace, &job.name_any());
            above.extend(controller(&job, namespace).map(|owner| (id, owner)));
        }
        Ok(above)
    }

    async fn list<K>(&self, namespace: &str) -> Result<Vec<K>, String>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = api.list(&ListParams::default().limit(LIST_MAX)).await;
        let found = found.map_err(|error| format!("cannot list {}: {}", K::plural(&()), chain(&error)))?;
        Ok(found.items)
    }
}

fn mask(secret: &mut Value) {
    for field in ["data", "stringData"] {
        let values = secret.get_mut(field).and_then(Value::as_object_mut);
        for (_, value) in values.into_iter().flatten() {
            *value = MASK.into();
        }
    }
    // kubectl's copy of the whole object
    if let Some(annotations) = secret["metadata"]
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// A pod, its controller, and that one's controllers.
fn owners_of(pod: &Pod, namespace: &str, above: &HashMap<ObjectId, ObjectId>) -> Vec<ObjectId> {
    let mut chain = vec![ObjectId::new("", "Pod", namespace, &pod.name_any())];
    let mut next = controller(pod, namespace);
    while let Some(owner) = next.filter(|_| chain.len() <= OWNERS_MAX) {
        next = above.get(&owner).cloned();
        chain.push(owner);
    }
    chain
}

fn controller(object: &impl ResourceExt, namespace: &str) -> Option<ObjectId> {
    let owners = object.owner_references();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    Some(ObjectId::new(group, &owner.kind, namespace, &owner.name))
}

struct PodRow {
    text: String,
    healthy: bool,
}

impl PodRow {
    fn of(pod: &Pod, now: Timestamp) -> Self {
        let status = pod.status.as_ref();
        let phase = status
            .and_then(|status| status.phase.as_deref())
            .unwrap_or("Pending");
        let containers = status
            .and_then(|status| status.container_statuses.as_deref())
            .unwrap_or_default();
        let all = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        let ready = containers.iter().filter(|container| container.ready).count();
        let restarts: i32 = containers.iter().map(|container| container.restart_count).sum();
        let age = pod.creation_timestamp().map(|time| table::since(time.0, now));
        let healthy = phase == "Succeeded" || (ready == all && phase == "Running");
        let mark = if healthy { '✓' } else { '✗' };
        Self {
            text: format!(
                "{mark} {}/{}  {ready}/{all} ready  {phase}  restarts {restarts}  {}\n",
                pod.namespace().unwrap_or_default(),
                pod.name_any(),
                age.unwrap_or_default()
            ),
            healthy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_masked() {
        let mut secret = json!({
            "metadata": { "name": "a", "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "b": "c" } },
            "data": { "password": "aHVudGVyMg==" },
        });
        mask(&mut secret);
        assert_eq!(
            secret,
            json!({ "metadata": { "name": "a", "annotations": { "b": "c" } }, "data": { "password": "***" } })
        );
    }

    #[test]
    fn pods_belong_to_the_controllers_above_them() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "web-1-x", "namespace": "shop", "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": true }
            ] },
            "spec": { "containers": [{ "name": "web" }] },
            "status": { "phase": "Running", "containerStatuses": [
                { "name": "web", "ready": false, "restartCount": 3, "image": "", "imageID": "" }
            ] },
        }))
        .unwrap();
        let set = ObjectId::new("apps", "ReplicaSet", "shop", "web-1");
        let deployment = ObjectId::new("apps", "Deployment", "shop", "web");
        let above = HashMap::from([(set.clone(), deployment.clone())]);
        let chain = owners_of(&pod, "shop", &above);
        assert_eq!(
            chain,
            [ObjectId::new("", "Pod", "shop", "web-1-x"), set, deployment]
        );
        let row = PodRow::of(&pod, Timestamp::UNIX_EPOCH);
        assert_eq!(row.text, "✗ shop/web-1-x  0/1 ready  Running  restarts 3  \n");
    }
}
