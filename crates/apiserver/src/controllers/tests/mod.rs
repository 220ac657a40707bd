//! The controllers over a store in memory, with a paused clock.
//!
//! [`Bench`] implements only deletion and preconditions; the rest of a write is the pipeline's, and tested
//! there.

mod definitions;
mod garbage;
mod namespaces;
mod small;

use super::{Action, Cluster, Profile, Propagation, Served, start};
use crate::status::{ApiError, Cause, GroupResource};
use crate::store::{Change, CommitError, Expect, Key, ResourceId, Snapshot, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

const SERVED: &[(&str, &str, &str, bool)] = &[
    ("", "configmaps", "ConfigMap", true),
    ("", "events", "Event", true),
    ("", "namespaces", "Namespace", false),
    ("", "nodes", "Node", false),
    ("", "pods", "Pod", true),
    ("", "serviceaccounts", "ServiceAccount", true),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
    ),
    ("example.com", "widgets", "Widget", true),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false),
];

struct Bench {
    store: Store,
    start: Instant,
    broken: AtomicU64,
}

fn key(text: &str) -> Key {
    let (plural, path) = text.split_once(' ').unwrap();
    let group = SERVED.iter().find(|s| s.1 == plural).unwrap().0;
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    Key::new(&ResourceId::new(group, plural), namespace, name)
}

/// `configmaps ns/name word...`: `@KIND:NAME` an owner (`!` if it blocks, `?` with a foreign uid), `+NAME` a finalizer.
fn object(text: &str) -> (Key, Value) {
    let mut words = text.split(' ');
    let place = format!("{} {}", words.next().unwrap(), words.next().unwrap());
    let key = key(&place);
    let (group, _, kind, _) = SERVED.iter().find(|s| s.1 == key.resource.plural()).unwrap();
    let version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    let mut meta = json!({ "name": key.name, "uid": format!("uid-{}", key.name) });
    if !key.namespace.is_empty() {
        meta["namespace"] = json!(key.namespace);
    }
    let (mut owners, mut finalizers) = (Vec::new(), Vec::new());
    for word in words {
        if let Some(owner) = word.strip_prefix('@') {
            let (kind, name) = owner.split_once(':').unwrap();
            let bare = name.trim_end_matches(['!', '?']);
            let uid = if name.ends_with('?') {
                "uid-foreign".to_owned()
            } else {
                format!("uid-{bare}")
            };
            let served = SERVED.iter().find(|s| s.2 == kind);
            let group = served.map_or("unserved.example.com", |s| s.0);
            let version = if group.is_empty() {
                "v1".to_owned()
            } else {
                format!("{group}/v1")
            };
            let mut owner = json!({ "apiVersion": version, "kind": kind, "name": bare, "uid": uid });
            if name.ends_with('!') {
                owner["blockOwnerDeletion"] = json!(true);
            }
            owners.push(owner);
        } else if let Some(finalizer) = word.strip_prefix('+') {
            finalizers.push(finalizer);
        }
    }
    if !owners.is_empty() {
        meta["ownerReferences"] = json!(owners);
    }
    if !finalizers.is_empty() {
        meta["finalizers"] = json!(finalizers);
    }
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": meta });
    if *kind == "Namespace" {
        object["spec"] = json!({ "finalizers": ["kubernetes"] });
        object["status"] = json!({ "phase": "Active" });
    }
    (key, object)
}

fn deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    list.iter().map(|f| f.as_str().unwrap().to_owned()).collect()
}

fn held(object: &Value) -> bool {
    let own = object["spec"]["finalizers"].as_array();
    !finalizers(object).is_empty() || (object["kind"] == "Namespace" && own.is_some_and(|l| !l.is_empty()))
}

impl Bench {
    fn start(profile: &Profile) -> (Arc<Self>, JoinHandle<()>) {
        let bench = Self::new();
        let running = bench.run(profile);
        (bench, running)
    }

    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: Store::in_memory(),
            start: Instant::now(),
            broken: AtomicU64::new(0),
        })
    }

    fn run(self: &Arc<Self>, profile: &Profile) -> JoinHandle<()> {
        tokio::spawn(start(Arc::clone(self), profile, "PEM"))
    }

    /// Waits until the controllers have nothing left to do: a paused clock advances only then.
    async fn idle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn later(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn put(&self, text: &str) {
        let (key, object) = object(text);
        self.put_value(key, object).await;
    }

    async fn put_value(&self, key: Key, object: Value) {
        let expect = Expect::Any;
        self.store
            .commit(vec![Change::Put { key, object, expect }])
            .await
            .unwrap();
    }

    async fn delete(&self, text: &str, propagation: Propagation) {
        let key = key(text);
        let uid = self.get(text).unwrap()["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned();
        let action = Action::Delete {
            key,
            uid,
            revision: None,
            propagation,
        };
        self.perform(action).await.unwrap();
    }

    async fn patch(&self, text: &str, patch: Value) {
        let action = Action::Merge {
            key: key(text),
            endpoint: "",
            patch,
            manager: "test",
        };
        self.perform(action).await.unwrap();
    }

    fn get(&self, text: &str) -> Option<Value> {
        self.store.snapshot().get(&key(text)).map(|e| e.object().clone())
    }

    /// One line per object except namespaces and Events: place, `~` if being deleted, owners, finalizers.
    fn shown(&self) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let mut out = Vec::new();
        for resource in snapshot.resources() {
            if matches!(resource.plural(), "namespaces" | "events") {
                continue;
            }
            for (path, entry) in snapshot.list(resource, None) {
                let object = entry.object();
                let mut line = format!("{} {path}", resource.plural());
                if deleting(object) {
                    line.push_str(" ~");
                }
                for owner in object["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    line.push_str(&format!(" @{}", owner["name"].as_str().unwrap()));
                    if owner["blockOwnerDeletion"] == true {
                        line.push('!');
                    }
                }
                for finalizer in finalizers(object) {
                    line.push_str(&format!(" +{finalizer}"));
                }
                out.push(line);
            }
        }
        out
    }

    fn check(&self, want: &[&str]) {
        assert_eq!(self.shown(), want);
    }

    async fn replace(&self, key: Key, revision: u64, mut object: Value) -> Result<(), ApiError> {
        let expect = Expect::Revision(revision);
        let change = if deleting(&object) && !held(&object) {
            Change::Delete {
                key: key.clone(),
                expect,
                last: Some(object),
            }
        } else {
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.retain(|_, v| !v.is_null());
            }
            Change::Put {
                key: key.clone(),
                object,
                expect,
            }
        };
        match self.store.commit(vec![change]).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict { .. }) => Err(conflict(&key)),
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }
}

fn conflict(key: &Key) -> ApiError {
    ApiError::conflict(&GroupResource::new("", "x"), &key.name, "changed")
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

impl Cluster for Bench {
    fn store(&self) -> &Store {
        &self.store
    }

    fn served(&self, snapshot: &Snapshot, api_version: &str, kind: &str) -> Option<Served> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let (group, plural, _, namespaced) = *SERVED.iter().find(|s| s.0 == group && s.2 == kind)?;
        if kind == "Widget" {
            snapshot.get(&key("customresourcedefinitions widgets.example.com"))?;
        }
        let resource = ResourceId::new(group, plural);
        Some(Served { resource, namespaced })
    }

    fn now(&self) -> jiff::Timestamp {
        let passed = jiff::SignedDuration::try_from(self.start.elapsed()).unwrap();
        jiff::Timestamp::from_second(1_800_000_000).unwrap() + passed
    }

    async fn perform(&self, action: Action) -> Result<(), ApiError> {
        let refused = self
            .broken
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if refused.is_ok() {
            return Err(ApiError::internal("broken"));
        }
        let snapshot = self.store.snapshot();
        let found = |key: &Key| {
            let resource = GroupResource::new(key.resource.group(), key.resource.plural());
            let entry = snapshot.get(key).cloned();
            entry.ok_or_else(|| ApiError::not_found(&resource, &key.name))
        };
        match action {
            Action::Create { key, mut object, .. } => {
                if !key.namespace.is_empty() {
                    let namespace =
                        found(&Key::new(&ResourceId::new("", "namespaces"), "", &*key.namespace))?;
                    if deleting(namespace.object()) {
                        let mut error =
                            ApiError::forbidden(&GroupResource::new("", "x"), &key.name, "terminating");
                        error.details.as_mut().unwrap().causes.push(Cause {
                            reason: "NamespaceTerminating".to_owned(),
                            message: String::new(),
                            field: String::new(),
                        });
                        return Err(error);
                    }
                }
                object["metadata"]["uid"] = json!(format!("uid-{}", key.name));
                let put = Change::Put {
                    key: key.clone(),
                    object,
                    expect: Expect::Absent,
                };
                let exists = ApiError::already_exists(&GroupResource::new("", "x"), &key.name);
                self.store.commit(vec![put]).await.map(|_| ()).map_err(|_| exists)
            }
            Action::Merge {
                key,
                endpoint,
                mut patch,
                ..
            } => {
                let entry = found(&key)?;
                let mut object = entry.object().clone();
                for field in ["uid", "resourceVersion"] {
                    let wanted = patch["metadata"].get(field).cloned();
                    if wanted.is_some_and(|w| w != object["metadata"][field]) {
                        return Err(conflict(&key));
                    }
                }
                if endpoint.is_empty() {
                    patch.as_object_mut().unwrap().remove("status");
                }
                merge(&mut object, &patch);
                self.replace(key, entry.revision, object).await
            }
            Action::Apply { key, object, .. } => {
                let entry = found(&key)?;
                let mut new = entry.object().clone();
                new["rules"] = object["rules"].clone();
                self.replace(key, entry.revision, new).await
            }
            Action::Bind { .. } | Action::Kill { .. } => {
                Err(ApiError::internal("nothing here is bound or killed"))
            }
            Action::Delete {
                key,
                uid,
                revision,
                propagation,
            } => {
                let entry = found(&key)?;
                let mut object = entry.object().clone();
                if object["metadata"]["uid"] != uid || revision.is_some_and(|r| r != entry.revision) {
                    return Err(conflict(&key));
                }
                let mut list = finalizers(&object);
                list.retain(|f| f != "orphan" && f != "foregroundDeletion");
                match propagation {
                    Propagation::Background => {}
                    Propagation::Foreground => list.push("foregroundDeletion".to_owned()),
                    Propagation::Orphan => list.push("orphan".to_owned()),
                }
                let meta = object["metadata"].as_object_mut().unwrap();
                meta.insert("finalizers".to_owned(), json!(list));
                if list.is_empty() {
                    meta.remove("finalizers");
                }
                let now = self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                meta.entry("deletionTimestamp").or_insert(json!(now));
                self.replace(key, entry.revision, object).await
            }
        }
    }
}
