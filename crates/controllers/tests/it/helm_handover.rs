//! Flux's own helm-controller and this one hand releases over, in both directions, on a real cluster. A release
//! gets no revision, and no object changes. `EQUATE_HELM_CONTROLLER` names the program, as
//! `cargo xtask test-peers` does.
//!
//! The charts are artifacts of sources that nothing reconciles.

use std::collections::BTreeMap;
use std::process::Stdio;

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_api::source::{HelmChart, OciRepository};
use equate_testkit::eventually::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{CustomResourceExt as _, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::artifact_server::{ArtifactServer, published};
use crate::helm_releases::{change, conditions, until};
use crate::session::{DEADLINE, Options, Session};

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

pub(crate) const CHART: [(&str, &str); 6] = [
    (
        "app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 1.0.0\nappVersion: \"7\"\nannotations: {a: '<b>'}\n",
    ),
    (
        "app/values.yaml",
        "value: one\nnumber: 1\nlist: [1, 2.5, null, true]\n",
    ),
    (
        "app/templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-map\ndata:\n  value: {{ .Values.value | quote }}\n  \
         revision: {{ .Release.Revision | quote }}\n",
    ),
    (
        "app/templates/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: 1\n  selector:\n    \
         matchLabels: {app: {{ .Release.Name }}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    \
         spec:\n      containers:\n      - {name: main, image: nginx, resources: {limits: {cpu: 1000m}}}\n",
    ),
    (
        "app/templates/hook.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: \
         \"pre-install,pre-upgrade\", helm.sh/hook-weight: \"-5\"}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      \
         containers:\n      - {name: main, image: busybox}\n",
    ),
    (
        "app/templates/test.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations: {helm.sh/hook: test}\nspec:\n  \
         template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - {name: main, image: busybox}\n",
    ),
];

/// Names and specs of releases.
fn specs() -> Vec<(String, Value)> {
    let patch = "[{\"op\": \"add\", \"path\": \"/data/more\", \"value\": \"yes\"}]";
    let table = [
        ("plain", json!({})),
        (
            "values",
            json!({ "values": { "value": "<two> & é", "nested": { "a": [1, 1.5, null, "x"], "big": 12345678901u64 } } }),
        ),
        (
            "from",
            json!({ "valuesFrom": [{ "kind": "ConfigMap", "name": "values" }] }),
        ),
        (
            "rendered",
            json!({ "postRenderers": [{ "kustomize": { "patches": [
                { "target": { "kind": "ConfigMap" }, "patch": patch },
            ] } }] }),
        ),
        (
            "marked",
            json!({ "commonMetadata": { "labels": { "team": "a" }, "annotations": { "note": "b" } } }),
        ),
        ("tested", json!({ "test": { "enable": true } })),
        ("drift", json!({ "driftDetection": { "mode": "enabled" } })),
        ("called", json!({ "releaseName": "other-name", "maxHistory": 2 })),
        (
            "client",
            json!({ "install": { "serverSideApply": false }, "upgrade": { "serverSideApply": "disabled" } }),
        ),
        (
            "bare",
            json!({ "install": { "disableHooks": true }, "chartRef": { "kind": "HelmChart", "name": "chart" } }),
        ),
    ];
    let all = std::env::var("EQUATE_HANDOVER_ALL").is_ok();
    let kept = table.into_iter().filter(|(name, _)| all || *name != "values");
    kept.map(|(name, spec)| (name.to_owned(), spec)).collect()
}

/// The real helm-controller.
struct HelmController(Child);

impl HelmController {
    /// `None` without the program.
    fn start(session: &Session) -> Option<Self> {
        let Ok(program) = std::env::var("EQUATE_HELM_CONTROLLER") else {
            eprintln!("skipped: EQUATE_HELM_CONTROLLER is not set, run `cargo xtask test-peers`");
            return None;
        };
        let log = session.folder().join("helm-controller.log");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let child = Command::new(program)
            .args([
                "--watch-all-namespaces=false",
                "--enable-leader-election=false",
                "--log-level=error",
            ])
            .args([
                "--metrics-addr=127.0.0.1:0",
                "--health-addr=127.0.0.1:0",
                "--concurrent=10",
            ])
            .env("KUBECONFIG", std::env::var("EQUATE_TEST_KUBECONFIG").unwrap())
            .env("RUNTIME_NAMESPACE", &session.home)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        Some(Self(child.unwrap()))
    }

    async fn stop(mut self) {
        self.0.kill().await.unwrap();
    }
}

/// A session whose engine does not run, with the sources of two charts.
pub(crate) async fn stage() -> (Session, ArtifactServer) {
    let mut session = Session::anywhere(&[]).await;
    session.stop().await;
    for definition in [HelmChart::crd(), OciRepository::crd(), HelmRelease::crd()] {
        session.define(definition).await;
    }
    let releases: Api<HelmRelease> = Api::namespaced(session.client.clone(), &session.home);
    let charts: Api<HelmChart> = Api::namespaced(session.client.clone(), &session.home);
    let repositories: Api<OciRepository> = Api::namespaced(session.client.clone(), &session.home);
    let served = async || {
        releases.list(&ListParams::default()).await?;
        charts.list(&ListParams::default()).await?;
        repositories.list(&ListParams::default()).await
    };
    eventually("the kinds are served", DEADLINE, served).await;
    let server = ArtifactServer::start().await;
    let repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": { "name": "oci" },
        "spec": { "url": "oci://local.invalid/app", "interval": "10m" },
    });
    let chart = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart", "metadata": { "name": "chart" },
        "spec": { "chart": "app", "interval": "10m", "sourceRef": { "kind": "HelmRepository", "name": "none" } },
    });
    let values = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "values" },
        "data": { "values.yaml": "value: from\n" },
    });
    create::<OciRepository>(&session, repository).await;
    create::<HelmChart>(&session, chart).await;
    create::<ConfigMap>(&session, values).await;
    let artifact = server.publish("app-1.0.0.tgz", &format!("1.0.0@{DIGEST}"), &CHART);
    source::<OciRepository>(&session, "oci", &artifact).await;
    let artifact = server.publish("chart-1.0.0.tgz", "1.0.0", &CHART);
    source::<HelmChart>(&session, "chart", &artifact).await;
    (session, server)
}

async fn create<K>(session: &Session, object: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + serde::Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.home);
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Publishes an artifact; the source is ready.
async fn source<K>(session: &Session, name: &str, artifact: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    published::<K>(session, name, artifact).await;
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "observedGeneration": 1, "conditions": [condition] } });
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.home);
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

pub(crate) async fn release(session: &Session, name: &str, spec: &Value) {
    let mut object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": name, "labels": session.labels() },
        "spec": { "interval": "10m", "timeout": "1m", "chartRef": { "kind": "OCIRepository", "name": "oci" } },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    create::<HelmRelease>(session, object).await;
}

pub(crate) async fn ready(session: &Session, name: &str) -> HelmReleaseStatus {
    until(session, name, "ready", |status| {
        let is = |of: &str, is: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.type_ == of && condition.status == is)
        };
        is("Ready", "True") && !is("Reconciling", "True")
    })
    .await
}

/// Every object of the releases, with its identity and version.
async fn objects(session: &Session) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (client, home) = (session.client.clone(), &session.home);
    let list = ListParams::default();
    let records = ListParams::default().labels("owner=helm");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), home);
    for object in secrets.list(&records).await.unwrap() {
        let version = object.resource_version().unwrap();
        found.insert(format!("Secret {}", object.name_any()), version);
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), home);
    for object in maps.list(&list).await.unwrap() {
        let version = object.resource_version().unwrap();
        found.insert(format!("ConfigMap {}", object.name_any()), version);
    }
    let jobs: Api<Job> = Api::namespaced(client.clone(), home);
    for object in jobs.list(&list).await.unwrap() {
        found.insert(format!("Job {}", object.name_any()), object.uid().unwrap());
    }
    let deployments: Api<Deployment> = Api::namespaced(client, home);
    for object in deployments.list(&list).await.unwrap() {
        let version = format!("{} {:?}", object.uid().unwrap(), object.metadata.generation);
        found.insert(format!("Deployment {}", object.name_any()), version);
    }
    found
}

/// Requests a run of each release, and compares the state with the one before.
async fn takes_over(session: &Session, what: &str, names: &[String], before: &BTreeMap<String, String>) {
    let mut wrong = Vec::new();
    for name in names {
        let history = ready(session, name).await.history;
        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": what } } });
        change(session, name, request).await;
        until(
            session,
            name,
            &format!("{what}: the request is answered"),
            |status| status.last_handled_reconcile_at.as_deref() == Some(what),
        )
        .await;
        let status = ready(session, name).await;
        if status.history != history {
            let (was, is) = (json!(history), json!(status.history));
            wrong.push(format!("{name}: {was} became {is}; {:#?}", conditions(&status)));
        }
    }
    let after = objects(session).await;
    for (object, version) in before {
        if after.get(object) != Some(version) {
            wrong.push(format!("{object}: {version} became {:?}", after.get(object)));
        }
    }
    wrong.extend(
        after
            .keys()
            .filter(|object| !before.contains_key(*object))
            .cloned(),
    );
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_real_helm_controller_and_ours_take_releases_over() {
    let (mut session, _server) = stage().await;
    let Some(theirs) = HelmController::start(&session) else {
        session.end().await;
        return;
    };
    let mut names: Vec<String> = Vec::new();
    for (name, spec) in specs() {
        release(&session, &name, &spec).await;
        names.push(name);
    }
    for name in &names {
        ready(&session, name).await;
    }
    theirs.stop().await;
    let before = objects(&session).await;
    session.engine(Options::default()).await;
    takes_over(&session, "from-theirs-to-ours", &names, &before).await;
    for (name, mut spec) in specs() {
        if spec.get("releaseName").is_some() {
            spec["releaseName"] = "ours-other".into();
        }
        let name = format!("ours-{name}");
        release(&session, &name, &spec).await;
        names.push(name);
    }
    for name in &names {
        ready(&session, name).await;
    }
    session.stop().await;
    let before = objects(&session).await;
    let theirs = HelmController::start(&session).unwrap();
    takes_over(&session, "from-ours-to-theirs", &names, &before).await;
    theirs.stop().await;
    session.end().await;
}
