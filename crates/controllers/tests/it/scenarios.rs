//! The stories of Flux's own end-to-end tests about Kustomizations, with our own manifests: their
//! assertions, on either API.

use equate_testkit::eventually::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::session::{DEADLINE, Session, document};

const KUBECTL: &str = "kubectl";

fn deployment(name: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "registry.invalid/app:1" }] },
            },
        },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name },
        "spec": { "selector": { "app": name }, "ports": [{ "port": 80, "name": "http" }] },
    })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn kustomization(fields: Value) -> String {
    let mut object = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization" });
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    document(&object)
}

fn health(names: &[&str], namespace: &str) -> Value {
    let checks = names.iter().map(
        |name| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": namespace }),
    );
    checks.collect()
}

async fn create<K>(session: &Session, object: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_str(&session.here(&object.to_string())).unwrap();
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.home);
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test]
async fn overlays_of_one_base_become_ready_in_their_namespaces() {
    let overlay = |stage: &str, tag: &str| {
        kustomization(json!({
            "namespace": format!("@home-{stage}"),
            "resources": ["namespace.yaml", "../../base/backend", "../../base/frontend"],
            "images": [{ "name": "registry.invalid/app", "newTag": tag }],
            "labels": [{ "pairs": { "stage": stage } }],
        }))
    };
    let mut files = vec![
        (
            "deploy/overlays/staging/kustomization.yaml",
            overlay("staging", "2-rc"),
        ),
        (
            "deploy/overlays/staging/namespace.yaml",
            document(&namespace("@home-staging")),
        ),
        (
            "deploy/overlays/production/kustomization.yaml",
            overlay("production", "1"),
        ),
        (
            "deploy/overlays/production/namespace.yaml",
            document(&namespace("@home-production")),
        ),
    ];
    let base = || kustomization(json!({ "resources": ["deployment.yaml", "service.yaml"] }));
    files.extend([
        ("deploy/base/backend/kustomization.yaml", base()),
        (
            "deploy/base/backend/deployment.yaml",
            document(&deployment("backend", None)),
        ),
        ("deploy/base/backend/service.yaml", document(&service("backend"))),
        ("deploy/base/frontend/kustomization.yaml", base()),
        (
            "deploy/base/frontend/deployment.yaml",
            document(&deployment("frontend", None)),
        ),
        (
            "deploy/base/frontend/service.yaml",
            document(&service("frontend")),
        ),
    ]);
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let session = Session::anywhere(&files).await;
    let revision = session.commit(&[]);
    for stage in ["staging", "production"] {
        let checks = health(&["backend", "frontend"], &format!("@home-{stage}"));
        let spec = json!({ "healthChecks": checks, "timeout": "2m" });
        let path = format!("./deploy/overlays/{stage}/");
        session.kustomize(&format!("webapp-{stage}"), &path, spec).await;
    }
    for (stage, image) in [
        ("staging", "registry.invalid/app:2-rc"),
        ("production", "registry.invalid/app:1"),
    ] {
        session.ready(&format!("webapp-{stage}"), &revision).await;
        for name in ["backend", "frontend"] {
            let home = format!("@home-{stage}");
            let found: Deployment = session.get(&home, name).await.unwrap();
            let pod = found.spec.template.spec.unwrap();
            assert_eq!(pod.containers[0].image.as_deref(), Some(image));
            assert_eq!(found.metadata.labels.unwrap()["stage"], stage);
            assert!(session.get::<Service>(&home, name).await.is_some());
        }
    }
    session.end().await;
}

#[tokio::test]
async fn dependencies_become_ready_in_their_order() {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": "webapp", "namespace": "@home-webapp" },
    });
    let webapp = Some("@home-webapp");
    let files = [
        (
            "webapp/common/namespace.yaml",
            document(&namespace("@home-webapp")),
        ),
        ("webapp/common/account.yaml", document(&account)),
        (
            "webapp/backend/deployment.yaml",
            document(&deployment("backend", webapp)),
        ),
        (
            "webapp/frontend/deployment.yaml",
            document(&deployment("frontend", webapp)),
        ),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let session = Session::anywhere(&files).await;
    let revision = session.commit(&[]);
    let part = async |name: &str, on: Value| {
        let checks = health(
            if name == "common" {
                &[]
            } else {
                std::slice::from_ref(&name)
            },
            "@home-webapp",
        );
        let spec = json!({ "dependsOn": on, "healthChecks": checks, "timeout": "2m" });
        session.kustomize(name, &format!("./webapp/{name}/"), spec).await;
    };
    part("frontend", json!([{ "name": "common" }, { "name": "backend" }])).await;
    part("backend", json!([{ "name": "common" }])).await;
    for name in ["frontend", "backend"] {
        session.fails(name, "DependencyNotReady").await;
        assert!(session.get::<Deployment>("@home-webapp", name).await.is_none());
    }
    part("common", json!([])).await;
    for name in ["common", "backend", "frontend"] {
        session.ready(name, &revision).await;
    }
    assert!(
        session
            .get::<Deployment>("@home-webapp", "frontend")
            .await
            .is_some()
    );
    session.end().await;
}

#[tokio::test]
async fn impersonation_applies_and_deletes_with_the_rights_of_an_account() {
    let files = [
        ("app/deployment.yaml", document(&deployment("podinfo", None))),
        ("app/service.yaml", document(&service("podinfo"))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let session = Session::anywhere(&files).await;
    let revision = session.commit(&[]);
    let meta = json!({ "name": "gotk-reconciler", "namespace": "@home" });
    create::<ServiceAccount>(&session, json!({ "metadata": meta })).await;
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    create::<Role>(&session, json!({ "metadata": meta, "rules": rules })).await;
    let binding = json!({
        "metadata": meta,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gotk-reconciler" },
        "subjects": [{ "kind": "ServiceAccount", "name": "gotk-reconciler", "namespace": "@home" }],
    });
    create::<RoleBinding>(&session, binding).await;
    let user = "system:serviceaccount:@home:gotk-reconciler";
    session.may(user, "/api/v1/namespaces/@home/configmaps").await;
    let patch =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: podinfo\nspec:\n  minReadySeconds: 1\n";
    let spec = json!({
        "targetNamespace": "@home",
        "serviceAccountName": "gotk-reconciler",
        "patches": [{ "patch": patch, "target": { "kind": "Deployment" } }],
    });
    session.kustomize("podinfo", "./app", spec).await;
    session.ready("podinfo", &revision).await;
    let found: Deployment = session.get("@home", "podinfo").await.unwrap();
    assert_eq!(found.spec.min_ready_seconds, Some(1));
    session
        .delete::<equate_api::kustomize::Kustomization>("@home", "podinfo")
        .await;
    let gone = async || match session.get::<Deployment>("@home", "podinfo").await {
        None => Ok(()),
        Some(found) => Err(format!("{:?}", found.metadata)),
    };
    eventually("the Deployment goes", DEADLINE, gone).await;
    session.end().await;
}

#[tokio::test]
async fn kubectls_managed_fields_are_taken_over() {
    let git = deployment("podinfo", Some("@home"));
    let session = Session::anywhere(&[("app/deployment.yaml", &document(&git))]).await;
    let revision = session.commit(&[]);
    let object: Value = serde_json::from_str(&session.here(&git.to_string())).unwrap();
    let api: Api<Deployment> = Api::namespaced(session.client.clone(), &session.home);

    // kubectl apply
    let mut by_hand = object.clone();
    by_hand["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": object.to_string() });
    let params = PostParams {
        field_manager: Some("kubectl-client-side-apply".to_owned()),
        ..PostParams::default()
    };
    let created = serde_json::from_value(by_hand).unwrap();
    api.create(&params, &created).await.unwrap();
    session.kustomize("podinfo", "./app", json!({})).await;
    session.ready("podinfo", &revision).await;
    assert!(!by_kubectl(&api).await, "the client-side manager is not removed");

    // kubectl apply --server-side --force-conflicts
    let params = PatchParams::apply(KUBECTL).force();
    let applied = api.patch("podinfo", &params, &Patch::Apply(&object)).await;
    assert!(names_kubectl(&applied.unwrap()));
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
    session.patch("podinfo", asked).await;
    let handled = |status: &equate_api::kustomize::KustomizationStatus| {
        status.last_handled_reconcile_at.as_deref() == Some("now")
    };
    session.until("podinfo", "asked", handled).await;
    session.ready("podinfo", &revision).await;
    assert!(!by_kubectl(&api).await, "the server-side manager is not removed");
    session.end().await;
}

/// Whether any field of the Deployment has kubectl as its manager.
async fn by_kubectl(api: &Api<Deployment>) -> bool {
    names_kubectl(&api.get("podinfo").await.unwrap())
}

fn names_kubectl(found: &Deployment) -> bool {
    serde_json::to_string(found).unwrap().contains(KUBECTL)
}

#[tokio::test]
async fn an_object_without_a_spec_blocks_no_other() {
    let files = [("app/deployment.yaml", document(&deployment("web", Some("@home"))))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    // it changes the CRD: only on a cluster of its own
    let session = Session::start(&files).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    let name = "kustomizations.kustomize.toolkit.fluxcd.io";
    let mut definition = definitions.get(name).await.unwrap();
    let schema = definition.spec.versions[0].schema.as_mut().unwrap();
    // as in Flux's own CRD
    schema
        .open_api_v3_schema
        .as_mut()
        .unwrap()
        .required
        .take()
        .unwrap();
    definitions
        .replace(name, &PostParams::default(), &definition)
        .await
        .unwrap();
    let revision = session.commit(&[]);
    let resource = kube::api::ApiResource::erase::<equate_api::kustomize::Kustomization>(&());
    let api: Api<kube::api::DynamicObject> =
        Api::namespaced_with(session.client.clone(), &session.home, &resource);
    let empty = kube::api::DynamicObject::new("status-defaults", &resource);
    let create = async || api.create(&PostParams::default(), &empty).await;
    eventually("a spec is not asked for", DEADLINE, create).await;
    session.kustomize("apps", "./app", json!({})).await;
    session.ready("apps", &revision).await;
    api.delete("status-defaults", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    session.kustomize("more", "./none", json!({})).await;
    session.fails("more", "ArtifactFailed").await;
    session.end().await;
}

#[tokio::test]
async fn status_defaults_say_that_nothing_was_observed() {
    let mut session = Session::anywhere(&[]).await;
    session.stop().await;
    session.kustomize("status-defaults", "./", json!({})).await;
    let found = session.kustomizations().get("status-defaults").await.unwrap();
    let status = serde_json::to_value(found.status).unwrap();
    assert_eq!(status, json!({ "observedGeneration": -1 }));
    session.end().await;
}
