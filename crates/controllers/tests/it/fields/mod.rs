//! One test for each field and annotation that Flux documents, on the embedded API and, the same test, on a
//! real one (`cargo xtask test-peers`).
//!
//! `docs/compatibility.d/fields.md` is generated from the names of these tests by `cargo xtask gen`: the
//! module is the kind, and a name begins with the field's path in words (`spec.patches.target.kind` is
//! `spec_patches_target_kind`), or with `annotation_` or `label_` and the part after the slash. A field
//! without a test here needs a reason there.
//!
//! All objects of a test are in `@home` or in namespaces whose names begin with it.

mod artifact_generator;
mod bucket;
mod external_artifact;
mod git_repository;
mod helm_chart;
mod helm_release;
mod helm_repository;
mod kustomization;
pub(crate) mod objects;
pub(crate) mod oci_repository;
mod signer;

use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, Session, document};

/// The API version of each kind.
fn api_version(kind: &str) -> &'static str {
    match kind {
        "Deployment" | "StatefulSet" => "apps/v1",
        "Role" | "RoleBinding" => "rbac.authorization.k8s.io/v1",
        "Kustomization" => "kustomize.toolkit.fluxcd.io/v1",
        "HelmRelease" => "helm.toolkit.fluxcd.io/v2",
        "ArtifactGenerator" => "source.extensions.fluxcd.io/v1beta1",
        "Bucket" | "ExternalArtifact" | "GitRepository" | "HelmChart" | "HelmRepository"
        | "OCIRepository" => "source.toolkit.fluxcd.io/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "Job" => "batch/v1",
        _ => "v1",
    }
}

impl Session {
    fn anything(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version(kind)
            .rsplit_once('/')
            .unwrap_or(("", api_version(kind)));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.here(namespace), &resource)
    }

    /// An object, or null where there is none.
    pub(crate) async fn look(&self, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.anything(kind, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    /// Waits until an object has this value at this place; null for none.
    async fn is(&self, kind: &str, name: &str, pointer: &str, expected: Value) {
        self.is_in("@home", kind, name, pointer, expected).await;
    }

    /// The same in another namespace.
    async fn is_in(&self, namespace: &str, kind: &str, name: &str, pointer: &str, expected: Value) {
        let expected: Value = serde_json::from_str(&self.here(&expected.to_string())).unwrap();
        let what = format!("{kind} {namespace}/{name} has {pointer} {expected}");
        eventually(&what, DEADLINE, async || {
            let object = self.look(kind, namespace, name).await;
            match object.pointer(pointer).unwrap_or(&Value::Null) {
                found if *found == expected => Ok(()),
                found => Err(format!("{found}")),
            }
        })
        .await;
    }

    /// Waits until an object exists, or does not.
    async fn exists(&self, kind: &str, name: &str, expected: bool) {
        self.exists_in("@home", kind, name, expected).await;
    }

    /// The same in another namespace.
    async fn exists_in(&self, namespace: &str, kind: &str, name: &str, expected: bool) {
        let what = format!("{kind} {namespace}/{name} is there: {expected}");
        eventually(&what, DEADLINE, async || {
            let object = self.look(kind, namespace, name).await;
            match object.is_null() {
                absent if absent != expected => Ok(()),
                _ => Err(object.to_string()),
            }
        })
        .await;
    }

    /// Changes an object as this field manager.
    async fn edit(&self, kind: &str, name: &str, manager: &str, patch: Value) {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let api = self.anything(kind, "@home");
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until an event about an object has this annotation.
    async fn carries(&self, kind: &str, name: &str, annotation: &str, value: &str) {
        let what = format!("an event of {kind} {name} has {annotation}: {value}");
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.home);
        eventually(&what, DEADLINE, async || {
            let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
            let listed = events.list(&ListParams::default().fields(&fields)).await;
            let listed = listed.map_err(|error| error.to_string())?.items;
            let carried = |event: &Event| {
                let annotations = event.metadata.annotations.as_ref();
                annotations.and_then(|all| all.get(annotation)).cloned()
            };
            let found: Vec<Option<String>> = listed.iter().map(carried).collect();
            match found.iter().flatten().any(|found| found == value) {
                true => Ok(()),
                false => Err(format!("{found:?}")),
            }
        })
        .await;
    }

    async fn create(&self, object: Value) {
        let object: Value = serde_json::from_str(&self.here(&object.to_string())).unwrap();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let kind = object.types.as_ref().map_or("", |types| &types.kind).to_owned();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let api = self.anything(&kind, &namespace);
        api.create(&kube::api::PostParams::default(), &object)
            .await
            .unwrap();
    }
}

/// A manifest in the session's namespace.
fn manifest(kind: &str, name: &str, more: Value) -> String {
    manifest_in("@home", kind, name, more)
}

/// The same of another namespace; of none where that is empty.
fn manifest_in(namespace: &str, kind: &str, name: &str, more: Value) -> String {
    let mut object = json!({ "apiVersion": api_version(kind), "kind": kind, "metadata": { "name": name } });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    merge(&mut object, &more);
    document(&object)
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn config(name: &str, value: &str) -> String {
    manifest("ConfigMap", name, json!({ "data": { "value": value } }))
}

fn workload(name: &str, image: &str) -> String {
    let spec = json!({
        "replicas": 0,
        "selector": { "matchLabels": { "app": name } },
        "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "main", "image": image }] },
        },
    });
    manifest("Deployment", name, json!({ "spec": spec }))
}

/// The output of git in a session's repository; `None` where it is not installed.
fn git(session: &Session, arguments: &[&str]) -> Option<String> {
    let path = session.repository.path().display().to_string();
    let mut all = vec!["-C", &path, "-c", "user.name=a", "-c", "user.email=a@b"];
    all.extend_from_slice(arguments);
    program("git", &all)
}

/// The output of a program that succeeds; `None`, with a line, where it is not installed. On a real cluster
/// it must be installed.
fn program(name: &str, arguments: &[&str]) -> Option<String> {
    let none = std::path::Path::new("/dev/null");
    let output = std::process::Command::new(name)
        .args(arguments)
        .envs([("GIT_CONFIG_GLOBAL", none), ("GIT_CONFIG_SYSTEM", none)])
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} {arguments:?}: {said}");
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        Err(error) => {
            let real = std::env::var("EQUATE_TEST_CLUSTER").is_ok_and(|cluster| cluster == "real");
            assert!(!real, "{name} has to be installed: {error}");
            eprintln!("skipped: {name}: {error}");
            None
        }
    }
}
