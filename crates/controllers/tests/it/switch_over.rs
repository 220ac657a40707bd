//! From Flux to Equate and back: Equate finds Flux's objects unchanged, and leaves the state that Flux
//! would leave.
//!
//! Flux does not run here. The test writes its state: objects applied by the field manager
//! `kustomize-controller` with its labels, statuses by `gotk-kustomize-controller`, an inventory in the
//! order of applying, an artifact at an unreachable address. Back with Flux, the same apply is repeated:
//! that changes no `resourceVersion`.

use std::collections::BTreeMap;

use equate_api::kustomize::Kustomization;
use equate_api::source::GitRepository;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::Call;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, Options, Session, document};

const FLUX: &str = "kustomize-controller";
const FLUX_STATUS: &str = "gotk-kustomize-controller";
const FLUX_SOURCES: &str = "http://source-controller.flux-system.svc.cluster.local.";
const CLIENT_SIDE: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn config_map(name: &str, value: &str, annotations: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "@home" },
        "data": { "value": value },
    });
    if annotations
        .as_object()
        .is_some_and(|annotations| !annotations.is_empty())
    {
        object["metadata"]["annotations"] = annotations;
    }
    object
}

fn namespace() -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "@home-more" } })
}

fn web() -> Value {
    deployment("web", "example.org/web:1")
}

/// Without `replicas`: an autoscaler owns them.
fn deployment(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": "@home" },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{
                    "name": "main",
                    "image": image,
                    "resources": { "limits": { "cpu": "1000m", "memory": "128Mi" } },
                    "ports": [{ "containerPort": 80, "name": "http" }],
                }] },
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "web", "namespace": "@home" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] },
    })
}

fn others() -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "web", "namespace": "@home" },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "web", "namespace": "@home" },
            "type": "Opaque",
            "data": { "token": "aHVudGVyMg==" },
        }),
    ]
}

/// A session in which Flux has applied these objects and is gone. Nothing runs yet.
struct Left {
    session: Session,
    objects: Vec<Value>,
    revision: String,
}

impl Left {
    async fn by_flux(objects: Vec<Value>) -> Left {
        let files: Vec<(String, String)> = objects
            .iter()
            .map(|object| (file(object), document(object)))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let mut session = Session::anywhere(&files).await;
        session.stop().await;
        session.lose_artifacts();
        let revision = session.commit(&[]);
        let left = Left {
            objects: objects.iter().map(|object| here(&session, object)).collect(),
            session,
            revision,
        };
        for object in &left.objects {
            match ignored(object) {
                // Flux left it to its creator
                true => left.put(object, "somebody").await,
                false => drop(left.apply(object).await),
            }
        }
        left.publish().await;
        left.reconcile().await;
        left
    }

    /// Applies an object as Flux does; returns the result.
    async fn apply(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["metadata"]["labels"] = json!({
            "kustomize.toolkit.fluxcd.io/name": "apps",
            "kustomize.toolkit.fluxcd.io/namespace": self.session.home,
        });
        // Flux fills in defaults that the API server would compare
        for ports in ["/spec/ports", "/spec/template/spec/containers/0/ports"] {
            let ports = object.pointer_mut(ports).and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                port["protocol"] = "TCP".into();
            }
        }
        let (api, name) = self.api(&object);
        let params = PatchParams::apply(FLUX).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await.unwrap();
        serde_json::to_value(applied).unwrap()
    }

    /// Applies an object, or a part of one, as another manager.
    async fn put(&self, object: &Value, by: &str) {
        let object = here(&self.session, object);
        let (api, name) = self.api(&object);
        let params = PatchParams::apply(by);
        api.patch(&name, &params, &Patch::Apply(&object)).await.unwrap();
    }

    async fn publish(&self) {
        let api: Api<GitRepository> = Api::namespaced(self.session.client.clone(), &self.session.home);
        let commit = self.revision.rsplit_once(':').unwrap().1;
        let path = format!("gitrepository/{}/fleet/{commit}.tar.gz", self.session.home);
        let status = json!({ "status": {
            "observedGeneration": 1,
            "conditions": [
                condition("Ready", "Succeeded", &format!("stored artifact for revision '{}'", self.revision)),
                condition("ArtifactInStorage", "Succeeded", &format!("stored artifact for revision '{}'", self.revision)),
            ],
            "artifact": {
                "digest": format!("sha256:{}", "0".repeat(64)),
                "lastUpdateTime": "2026-01-01T00:00:00Z",
                "path": path,
                "revision": self.revision,
                "size": 1234,
                "url": format!("{FLUX_SOURCES}/{path}"),
            },
        }});
        let params = manager("gotk-source-controller");
        let finalizers = json!({ "metadata": { "finalizers": ["finalizers.fluxcd.io"] } });
        api.patch("fleet", &params, &Patch::Merge(finalizers))
            .await
            .unwrap();
        api.patch_status("fleet", &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn reconcile(&self) {
        let session = &self.session;
        session.kustomize("apps", "apps", json!({})).await;
        let params = manager(FLUX_STATUS);
        let finalizers = json!({ "metadata": { "finalizers": ["finalizers.fluxcd.io"] } });
        let api = session.kustomizations();
        api.patch("apps", &params, &Patch::Merge(finalizers))
            .await
            .unwrap();
        // in the order of applying, as Flux writes it
        let entries: Vec<Value> = self.objects.iter().map(entry).collect();
        let status = json!({ "status": {
            "observedGeneration": 1,
            "lastAppliedRevision": self.revision,
            "lastAttemptedRevision": self.revision,
            "conditions": [
                condition("Ready", "ReconciliationSucceeded", &format!("Applied revision: {}", self.revision)),
            ],
            "inventory": { "entries": entries },
            "history": [{
                "digest": format!("sha256:{}", "1".repeat(64)),
                "firstReconciled": "2026-01-01T00:00:00Z",
                "lastReconciled": "2026-01-02T00:00:00Z",
                "lastReconciledDuration": "1.234567s",
                "lastReconciledStatus": "ReconciliationSucceeded",
                "metadata": { "revision": self.revision },
                "totalReconciliations": 7,
            }],
        }});
        api.patch_status("apps", &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    /// Changes an object as this manager.
    async fn touch(&self, object: &Value, by: &str, patch: Value) {
        let (api, name) = self.api(&here(&self.session, object));
        api.patch(&name, &manager(by), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn delete(&self, object: &Value) {
        let (api, name) = self.api(&here(&self.session, object));
        api.delete(&name, &DeleteParams::background()).await.unwrap();
    }

    async fn look(&self, object: &Value) -> Value {
        let (api, name) = self.api(&here(&self.session, object));
        serde_json::to_value(api.get_opt(&name).await.unwrap()).unwrap()
    }

    /// All objects, without fields that workload controllers keep writing.
    async fn all(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for object in &self.objects {
            let mut found = self.look(object).await;
            if object["kind"] == "Deployment" {
                found["status"].take();
                found["metadata"]["resourceVersion"].take();
                found["metadata"]["annotations"].take();
                found["metadata"]["managedFields"] = appliers(&found).into();
            }
            all.insert(file(object), found);
        }
        all
    }

    async fn kustomization(&self) -> Kustomization {
        self.session.kustomizations().get("apps").await.unwrap()
    }

    /// Starts Equate, and waits until it has published the source and built from it.
    async fn take_over(&mut self) {
        self.session.faults.clear_log();
        self.session.engine(Options::default()).await;
        let session = &self.session;
        let built = async || match session.stats() {
            stats if stats.builds == 1 && stats.queue == 0 => Ok(()),
            stats => Err(format!("{stats:?}")),
        };
        eventually("it is built once", DEADLINE, built).await;
    }

    /// Changes one object in git, and waits until that is applied: by then all others were observed.
    async fn go_on(&mut self, object: Value) {
        let revision = self.session.commit(&[(&file(&object), Some(&document(&object)))]);
        self.session.ready("apps", &revision).await;
        let object = here(&self.session, &object);
        let changed = self.objects.iter_mut().find(|old| file(old) == file(&object));
        *changed.unwrap() = object;
        self.revision = revision;
    }

    fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let (api_version, kind) = (
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        );
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.session.client.clone();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => (Api::namespaced_with(client, namespace, &resource), name),
            None => (Api::all_with(client, &resource), name),
        }
    }

    /// Stops Equate; the state is complete for Flux, and the same apply changes nothing.
    async fn give_back(mut self, but: &[&str]) {
        self.session.stop().await;
        let kustomization = self.kustomization().await;
        let metadata = &kustomization.metadata;
        assert_eq!(
            metadata.finalizers.as_deref(),
            Some(&["finalizers.fluxcd.io".to_owned()][..])
        );
        let managers = metadata.managed_fields.iter().flatten();
        let mut managers: Vec<&str> = managers.filter_map(|entry| entry.manager.as_deref()).collect();
        managers.retain(|manager| *manager != FLUX_STATUS);
        assert_eq!(
            managers.len(),
            1,
            "who declared it, and nobody else: {managers:?}"
        );
        let status = kustomization.status.unwrap();
        assert_eq!(status.observed_generation, Some(1));
        let mut held = crate::session::inventory(&status);
        held.sort();
        let mut expected: Vec<String> = self.objects.iter().map(id).collect();
        expected.sort();
        assert_eq!(held, expected);

        for object in self.objects.iter().filter(|object| !ignored(object)) {
            let before = self.look(object).await;
            let labels = &before["metadata"]["labels"];
            assert_eq!(labels["kustomize.toolkit.fluxcd.io/name"], "apps", "{before}");
            assert_eq!(
                labels["kustomize.toolkit.fluxcd.io/namespace"], *self.session.home,
                "{before}"
            );
            if but.contains(&object["metadata"]["name"].as_str().unwrap()) {
                continue;
            }
            let after = self.apply(object).await;
            assert_eq!(appliers(&before), appliers(&after), "{}", file(object));
            if object["kind"] != "Deployment" {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                assert_eq!(version(&before), version(&after), "{}", file(object));
            }
        }
        self.session.end().await;
    }
}

/// Whether Flux has an object in its inventory, and does not apply it.
fn ignored(object: &Value) -> bool {
    object["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/ssa"] == "Ignore"
}

fn here(session: &Session, object: &Value) -> Value {
    serde_json::from_str(&session.here(&object.to_string())).unwrap()
}

fn manager(name: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(name.to_owned()),
        ..PatchParams::default()
    }
}

fn condition(of: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": of, "status": "True", "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn file(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_lowercase();
    let name = text(&object["metadata"]["name"]);
    // the name may contain the namespace: as it is in git
    let name = name.rsplit_once("-more").map_or(&*name, |_| "more").to_owned();
    format!("apps/{}-{name}.yaml", text(&object["kind"]))
}

fn id(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let group = match &*text(&object["apiVersion"]) {
        "v1" => String::new(),
        other => other.split_once('/').unwrap().0.to_owned(),
    };
    format!(
        "{}_{}_{group}_{}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&object["kind"])
    )
}

fn entry(object: &Value) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap();
    let version = api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version);
    json!({ "id": id(object), "v": version })
}

/// The managed fields of an object without its status, which workload controllers write at any time.
fn appliers(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let status = |entry: &&Value| !entry["subresource"].is_null();
    entries.iter().filter(|entry| !status(entry)).cloned().collect()
}

fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut names: Vec<&str> = entries
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn objects_of_flux_are_taken_over_and_given_back_without_writes() {
    let ssa = |how: &str| json!({ "kustomize.toolkit.fluxcd.io/ssa": how });
    let if_not_present = config_map("if-not-present", "one", ssa("IfNotPresent"));
    let merge = config_map("merge", "one", ssa("Merge"));
    let ignored = config_map("ignored", "one", ssa("Ignore"));
    let scaled = |image: &str| deployment("scaled", image);
    let disabled = json!({ "kustomize.toolkit.fluxcd.io/reconcile": "disabled" });
    let disabled = config_map("disabled", "one", disabled);
    let plain = config_map("plain", "one", json!({}));
    let mut objects = vec![
        namespace(),
        plain,
        if_not_present.clone(),
        merge.clone(),
        disabled.clone(),
        ignored.clone(),
    ];
    objects.extend(others());
    objects.extend([service(), web(), scaled("example.org/web:1")]);
    let mut left = Left::by_flux(objects).await;
    // changes that Flux lets others make
    left.touch(
        &web(),
        "kube-controller-manager",
        json!({ "spec": { "replicas": 3 } }),
    )
    .await;
    left.touch(
        &if_not_present,
        "somebody",
        json!({ "data": { "value": "theirs" } }),
    )
    .await;
    left.touch(&disabled, "somebody", json!({ "data": { "value": "theirs" } }))
        .await;
    left.touch(&merge, "kubectl-edit", json!({ "data": { "added": "theirs" } }))
        .await;
    left.touch(&ignored, "somebody", json!({ "data": { "value": "theirs" } }))
        .await;
    let mut replicas = scaled("");
    replicas["spec"] = json!({ "replicas": 5 });
    left.put(&replicas, "autoscaler").await;
    let (before, kustomization) = (left.all().await, left.kustomization().await);

    left.take_over().await;
    for (file, object) in left.all().await {
        assert_eq!(object, before[&file], "{file}");
    }
    left.session.stop().await;
    let writes = left.session.faults.log();
    let known = |call: &&Call| {
        let path = call.to_string();
        // its own artifact replaces Flux's, with an event
        path.contains("/gitrepositories/fleet/status") || path.contains("/events")
    };
    let writes: Vec<String> = writes
        .iter()
        .filter(|call| call.is_write() && !known(call))
        .map(ToString::to_string)
        .collect();
    assert_eq!(writes, Vec::<String>::new());
    let reads = left.session.faults.log();
    let objects = [
        "/configmaps/",
        "/secrets/",
        "/services/",
        "/serviceaccounts/",
        "/deployments/",
        "/namespaces/",
    ];
    let alone = |call: &&Call| {
        let path = call.path.trim_start_matches("/api/v1/namespaces/");
        !call.watch && objects.iter().any(|kind| path.contains(kind))
    };
    let reads: Vec<String> = reads.iter().filter(alone).map(ToString::to_string).collect();
    let reads: Vec<String> = reads
        .into_iter()
        .filter(|path| !path.contains("/events") && !path.contains("toolkit"))
        .collect();
    assert_eq!(reads, Vec::<String>::new());
    assert_eq!(left.kustomization().await, kustomization);

    // the next commit changes one object, and no other
    left.take_over().await;
    left.go_on(config_map("plain", "two", json!({}))).await;
    let after = left.all().await;
    for (file, object) in &before {
        match &**file {
            "apps/configmap-plain.yaml" => {
                assert_eq!(after[file]["data"]["value"], "two");
                assert_eq!(after[file]["metadata"]["uid"], object["metadata"]["uid"]);
                assert_eq!(managers(&after[file]), [FLUX]);
            }
            file => assert_eq!(after[file], *object, "{file}"),
        }
    }
    let status = left.kustomization().await.status.unwrap();
    assert_eq!(
        status.history[1].total_reconciliations, 7,
        "what Flux wrote stays"
    );

    // a field that another manager applies stays, even when its object changes
    left.go_on(scaled("example.org/web:2")).await;
    let found = left.look(&scaled("")).await;
    assert_eq!(found["spec"]["replicas"], 5);
    let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "example.org/web:2");
    let before = &before["apps/deployment-scaled.yaml"];
    assert_eq!(found["metadata"]["uid"], before["metadata"]["uid"]);
    let autoscalers = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let theirs = entries.iter().filter(|entry| entry["manager"] == "autoscaler");
        theirs.cloned().collect::<Vec<_>>()
    };
    assert_eq!(autoscalers(&found), autoscalers(before));
    assert_eq!(autoscalers(&found).len(), 1);
    left.give_back(&["if-not-present", "disabled"]).await;
}

#[tokio::test]
async fn changes_in_between_are_corrected_as_by_flux() {
    let of = |name: &str| config_map(name, "one", json!({}));
    let objects = ["applied", "edited", "added", "drifted", "missing", "well"].map(of);
    let mut left = Left::by_flux(objects.into()).await;
    let well = left.look(&of("well")).await;
    let applied =
        json!({ "metadata": { "annotations": { CLIENT_SIDE: "{}\n" } }, "data": { "value": "two" } });
    left.touch(&of("applied"), "kubectl-client-side-apply", applied)
        .await;
    left.touch(
        &of("edited"),
        "kubectl-edit",
        json!({ "data": { "value": "two" } }),
    )
    .await;
    left.touch(
        &of("added"),
        "kubectl-edit",
        json!({ "data": { "added": "two" } }),
    )
    .await;
    let drifted = json!({ "data": { "value": "two", "theirs": "two" } });
    left.touch(&of("drifted"), "somebody", drifted).await;
    left.delete(&of("missing")).await;
    let before = left.all().await;

    left.take_over().await;
    let ours = json!({ "value": "one" });
    let theirs = json!({ "value": "one", "theirs": "two" });
    let table = [
        ("applied", &ours, &[FLUX][..]),
        ("edited", &ours, &[FLUX]),
        ("added", &ours, &[FLUX]),
        ("drifted", &theirs, &[FLUX, "somebody"]),
        ("missing", &ours, &[FLUX]),
    ];
    for (name, data, by) in table {
        let right = async || {
            let found = left.look(&of(name)).await;
            match !found.is_null() && found["data"] == *data && managers(&found) == by {
                true => Ok(found),
                false => Err(found.to_string()),
            }
        };
        let found = eventually(name, DEADLINE, right).await;
        assert!(found["metadata"]["annotations"][CLIENT_SIDE].is_null(), "{found}");
        let was = &before[&file(&of(name))];
        let same = was.is_null() || found["metadata"]["uid"] == was["metadata"]["uid"];
        assert!(same, "{name} was recreated");
    }
    assert_eq!(left.look(&of("well")).await, well);
    left.session.ready("apps", &left.revision).await;
    left.give_back(&[]).await;
}
