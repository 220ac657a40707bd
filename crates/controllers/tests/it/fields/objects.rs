//! Objects of any kind of Flux: how tests make and change them, and what their statuses and artifacts say.

use std::fmt::Debug;

use equate_helm::chart::File;
use equate_helm::package::Package;
use equate_source::{Entry, Limits, Tree};
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::session::{DEADLINE, Session};

impl Session {
    /// Defines a kind, and waits until it is served.
    pub(super) async fn serves<K>(&self)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + CustomResourceExt
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.define(K::crd()).await;
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.home);
        let list = async || api.list(&ListParams::default()).await;
        eventually("the kind is served", DEADLINE, list).await;
    }

    /// Creates an object with a spec, for this session's engine.
    pub(crate) async fn declare(&self, kind: &str, name: &str, spec: Value) {
        self.declare_in("@home", kind, name, spec).await;
    }

    /// The same in another namespace.
    pub(super) async fn declare_in(&self, namespace: &str, kind: &str, name: &str, spec: Value) {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": self.labels() });
        let version = super::api_version(kind);
        let object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
        self.create(object).await;
    }

    /// Changes any part of an object, as the field manager `somebody`.
    pub(super) async fn set(&self, kind: &str, name: &str, patch: Value) {
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let patch: Value = serde_json::from_str(&self.here(&patch.to_string())).unwrap();
        let api = self.anything(kind, "@home");
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Changes the spec of an object.
    pub(super) async fn respec(&self, kind: &str, name: &str, spec: Value) {
        self.set(kind, name, json!({ "spec": spec })).await;
    }

    /// Sets an annotation.
    pub(super) async fn annotate(&self, kind: &str, name: &str, annotation: &str, value: Value) {
        let patch = json!({ "metadata": { "annotations": { annotation: value } } });
        self.set(kind, name, patch).await;
    }

    /// Requests a run, and waits until it has ended.
    pub(crate) async fn demand(&self, kind: &str, name: &str, token: &str) {
        self.annotate(kind, name, "reconcile.fluxcd.io/requestedAt", json!(token))
            .await;
        self.is(kind, name, "/status/lastHandledReconcileAt", json!(token))
            .await;
    }

    /// Creates a Secret.
    pub(crate) async fn conceal(&self, name: &str, data: Value) {
        let text = super::manifest("Secret", name, json!({ "stringData": data }));
        self.create(serde_json::from_str(&text).unwrap()).await;
    }

    /// Waits until `Ready` has this reason and this in its message; returns the status.
    pub(crate) async fn reports(&self, kind: &str, name: &str, reason: &str, message: &str) -> Value {
        self.condition(kind, name, "Ready", reason, message).await
    }

    /// The same of another condition.
    pub(super) async fn condition(
        &self,
        kind: &str,
        name: &str,
        of: &str,
        reason: &str,
        message: &str,
    ) -> Value {
        let message = self.here(message);
        let what = format!("{of} of {kind} {name} is {reason}: {message}");
        eventually(&what, DEADLINE, async || {
            let status = self.look(kind, "@home", name).await["status"].clone();
            let found = told(&status, of);
            let text = found["message"].as_str().unwrap_or_default();
            match found["reason"] == *reason && text.contains(&message) {
                true => Ok(status),
                false => Err(status["conditions"].to_string()),
            }
        })
        .await
    }

    /// Waits until the spec's generation is observed; returns the status.
    pub(super) async fn observed(&self, kind: &str, name: &str) -> Value {
        let what = format!("the generation of {kind} {name} is observed");
        eventually(&what, DEADLINE, async || {
            let object = self.look(kind, "@home", name).await;
            let generation = object["metadata"]["generation"].clone();
            match object["status"]["observedGeneration"] == generation {
                true => Ok(object["status"].clone()),
                false => Err(object["status"].to_string()),
            }
        })
        .await
    }

    /// An object is stalled because its field is not supported.
    pub(super) async fn refuses(&self, kind: &str, name: &str, message: &str) {
        let status = self.reports(kind, name, "Unsupported", message).await;
        assert_eq!(told(&status, "Stalled")["status"], json!("True"), "{status}");
    }

    /// None of these texts is in the status of an object or in an event.
    pub(super) async fn conceals(&self, kind: &str, name: &str, words: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.home);
        let events = events.list(&ListParams::default()).await.unwrap();
        let object = self.look(kind, "@home", name).await;
        let said = format!("{:?} {}", events.items, object["status"]);
        for word in words {
            assert!(!said.contains(word), "{word}: {said}");
        }
    }

    /// The bytes of an artifact; `None` where there is none, or a newer one has replaced it.
    pub(super) fn archived(&self, artifact: &Value) -> Option<Vec<u8>> {
        let folder = self.folder().join("artifacts");
        let bytes = std::fs::read(folder.join(artifact["path"].as_str()?)).ok()?;
        (artifact["digest"] == *format!("sha256:{}", hex(&bytes))).then_some(bytes)
    }

    /// The files of an artifact, by path.
    pub(super) fn contents(&self, artifact: &Value) -> Option<Vec<(String, String)>> {
        let archive = self.archived(artifact)?;
        let tree = Tree::from_archive(&*archive, &Limits::default()).unwrap();
        let mut files = Vec::new();
        below(&tree, "", &mut files);
        Some(files)
    }
}

/// A condition of a status, or null.
pub(super) fn told(status: &Value, of: &str) -> Value {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == *of)
        .cloned()
        .unwrap_or_default()
}

/// The SHA-256 of some bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The files below a directory, by path.
fn below(tree: &Tree, directory: &str, files: &mut Vec<(String, String)>) {
    for (name, entry) in tree.list(directory).unwrap_or_default() {
        let path = match directory {
            "" => name,
            directory => format!("{directory}/{name}"),
        };
        match entry {
            Entry::Directory { .. } => below(tree, &path, files),
            _ => {
                let text = String::from_utf8_lossy(&tree.read(&path).unwrap()).into_owned();
                files.push((path, text));
            }
        }
    }
}

/// Packs a chart of these files, with the value `value: one` and a ConfigMap of it.
pub(crate) fn packed(name: &str, version: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"7\"\n");
    let own = [
        ("Chart.yaml", &*metadata),
        ("values.yaml", "value: one\n"),
        ("templates/map.yaml", MAP),
    ];
    let all = own.iter().chain(files).map(|(name, data)| File {
        name: (*name).into(),
        data: data.as_bytes().into(),
    });
    let package = Package::from_tree(all, &equate_helm::Limits::default()).unwrap();
    package.write().unwrap()
}

/// The template of a ConfigMap `<release>-map` with a value and the revision.
pub(super) const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-map\n\
    data:\n  value: {{ .Values.value | quote }}\n  revision: {{ .Release.Revision | quote }}\n";

/// An index with charts of these names, versions and URLs.
pub(crate) fn index(charts: &[(&str, &str, &str)]) -> String {
    let mut entries = serde_json::Map::new();
    for (name, version, url) in charts {
        let entry = json!({ "apiVersion": "v2", "name": name, "version": version, "urls": [url] });
        let versions = entries.entry((*name).to_owned()).or_insert(json!([]));
        versions.as_array_mut().unwrap().push(entry);
    }
    json!({ "apiVersion": "v1", "entries": entries }).to_string()
}
