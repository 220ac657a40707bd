//! Names, namespaces, times, identity, dependencies, annotations.

use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::{
    KIND, delete, event, installed, push, ready, records, records_in, release, stalls, start, start_with,
    value,
};
use crate::fields::kustomization::access::kubeconfig;
use crate::fields::{manifest, objects::told};
use crate::session::{DEADLINE, Options, Session};

/// Another name is another release: the old one goes first.
#[tokio::test]
async fn spec_release_name() {
    let session = start().await;
    installed(&session, json!({ "releaseName": "mine" })).await;
    session
        .is("ConfigMap", "mine-map", "/data/value", json!("one"))
        .await;
    assert_eq!(records_in(&session, "@home", "mine").await, ["v1 deployed"]);
    session
        .respec(KIND, "app", json!({ "releaseName": "other" }))
        .await;
    session
        .is("ConfigMap", "other-map", "/data/value", json!("one"))
        .await;
    session.exists("ConfigMap", "mine-map", false).await;
    assert!(records_in(&session, "@home", "mine").await.is_empty());
    session.end().await;
}

/// Its name is a part of the release's name.
#[tokio::test]
async fn spec_target_namespace() {
    let session = start().await;
    session.namespace("@home-target").await;
    installed(&session, json!({ "targetNamespace": "@home-target" })).await;
    let name = session.here("@home-target-app-map");
    session
        .is_in("@home-target", "ConfigMap", &name, "/data/value", json!("one"))
        .await;
    let name = session.here("@home-target-app");
    assert_eq!(records_in(&session, "@home", &name).await, ["v1 deployed"]);
    session.end().await;
}

#[tokio::test]
async fn spec_storage_namespace() {
    let session = start().await;
    session.namespace("@home-records").await;
    installed(&session, json!({ "storageNamespace": "@home-records" })).await;
    assert_eq!(
        records_in(&session, "@home-records", "app").await,
        ["v1 deployed"]
    );
    records(&session, &[]).await;
    value(&session, "one").await;
    session.end().await;
}

/// The newest revisions stay.
#[tokio::test]
async fn spec_max_history() {
    let session = start().await;
    installed(&session, json!({ "maxHistory": 2 })).await;
    for (number, text) in [(2, "two"), (3, "three"), (4, "four")] {
        session
            .respec(KIND, "app", json!({ "values": { "value": text } }))
            .await;
        ready(&session, "UpgradeSucceeded", number).await;
    }
    records(&session, &["v3 superseded", "v4 deployed"]).await;
    session.end().await;
}

/// A release that is not suspended is released meanwhile; deleting the other leaves its objects.
#[tokio::test]
async fn spec_suspend() {
    let session = start().await;
    installed(&session, json!({})).await;
    session
        .respec(
            KIND,
            "app",
            json!({ "suspend": true, "values": { "value": "two" } }),
        )
        .await;
    release(&session, "also", json!({})).await;
    session
        .is("ConfigMap", "also-map", "/data/value", json!("one"))
        .await;
    value(&session, "one").await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    ready(&session, "UpgradeSucceeded", 2).await;
    value(&session, "two").await;
    session.respec(KIND, "app", json!({ "suspend": true })).await;
    delete(&session).await;
    session.exists(KIND, "app", false).await;
    value(&session, "two").await;
    records(&session, &["v1 superseded", "v2 deployed"]).await;
    session.end().await;
}

/// A lost record is noticed without a request.
#[tokio::test]
async fn spec_interval() {
    let session = start().await;
    installed(&session, json!({ "interval": "1s" })).await;
    session
        .delete::<Secret>("@home", "sh.helm.release.v1.app.v1")
        .await;
    records(&session, &["v1 deployed"]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_timeout() {
    let session = start().await;
    release(
        &session,
        "app",
        json!({ "timeout": "1s", "values": { "stuck": true } }),
    )
    .await;
    stalls(
        &session,
        "InstallFailed",
        "timeout waiting for: [Deployment/@home/app-stuck",
    )
    .await;
    session.end().await;
}

/// Of either value: all releases of a cluster share connections.
#[tokio::test]
async fn spec_persistent_client() {
    let session = start().await;
    installed(&session, json!({ "persistentClient": false })).await;
    session
        .respec(
            KIND,
            "app",
            json!({ "persistentClient": true, "values": { "value": "two" } }),
        )
        .await;
    ready(&session, "UpgradeSucceeded", 2).await;
    value(&session, "two").await;
    session.end().await;
}

/// Lets `deployer` release ConfigMaps.
async fn grant(session: &Session) {
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"] }]);
    let role = manifest("Role", "releaser", json!({ "rules": rules }));
    session.create(serde_json::from_str(&role).unwrap()).await;
    let binding = json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "releaser" },
        "subjects": [{ "kind": "ServiceAccount", "name": "deployer", "namespace": "@home" }],
    });
    let binding = manifest("RoleBinding", "releaser", binding);
    session.create(serde_json::from_str(&binding).unwrap()).await;
    let path = "/api/v1/namespaces/@home/secrets";
    session.may("system:serviceaccount:@home:deployer", path).await;
}

/// The account first lacks the rights, then has them.
async fn limited(session: &Session, spec: Value) {
    release(session, "app", spec).await;
    let who = session.here("system:serviceaccount:@home:deployer");
    eventually("the account may not", DEADLINE, async || {
        let status = session.look(KIND, "@home", "app").await["status"].clone();
        let said = told(&status, "Ready")["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match said.contains(&who) && said.contains("forbidden") {
            true => Ok(()),
            false => Err(said),
        }
    })
    .await;
    session.exists("ConfigMap", "app-map", false).await;
    grant(session).await;
    session.demand(KIND, "app", "granted").await;
    value(session, "one").await;
}

#[tokio::test]
async fn spec_service_account_name() {
    let session = start().await;
    let account = manifest("ServiceAccount", "deployer", json!({}));
    session.create(serde_json::from_str(&account).unwrap()).await;
    limited(&session, json!({ "serviceAccountName": "deployer" })).await;
    session.end().await;
}

#[tokio::test]
async fn spec_kube_config_secret_ref_name() {
    let session = start().await;
    let _serving = kubeconfig(&session, "value.yaml").await;
    limited(
        &session,
        json!({ "kubeConfig": { "secretRef": { "name": "cluster" } } }),
    )
    .await;
    session.end().await;
}

#[tokio::test]
async fn spec_kube_config_secret_ref_key() {
    let session = start().await;
    let _serving = kubeconfig(&session, "production").await;
    let reference = json!({ "name": "cluster", "key": "production" });
    limited(&session, json!({ "kubeConfig": { "secretRef": reference } })).await;
    session.end().await;
}

/// The same with a requested token.
#[tokio::test]
async fn spec_kube_config_config_map_ref_name() {
    let session = start_with(&[], Options::with_tokens()).await;
    let account = manifest("ServiceAccount", "deployer", json!({}));
    session.create(serde_json::from_str(&account).unwrap()).await;
    let (address, authority, _serving) = session.address().await;
    let data = json!({
        "provider": "generic",
        "address": address,
        "ca.crt": authority,
        "serviceAccountName": "deployer",
        "audiences": "https://kubernetes.default.svc",
    });
    let cluster = manifest("ConfigMap", "cluster", json!({ "data": data }));
    session.create(serde_json::from_str(&cluster).unwrap()).await;
    limited(
        &session,
        json!({ "kubeConfig": { "configMapRef": { "name": "cluster" } } }),
    )
    .await;
    session.end().await;
}

#[tokio::test]
async fn spec_depends_on_name() {
    let session = start().await;
    release(&session, "app", json!({ "dependsOn": [{ "name": "db" }] })).await;
    let message = "unable to get '@home/db' dependency";
    session.reports(KIND, "app", "DependencyNotReady", message).await;
    release(&session, "db", json!({})).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn spec_depends_on_namespace() {
    let session = start().await;
    session.namespace("@home-team").await;
    let on = json!([{ "name": "db", "namespace": "@home-team" }]);
    release(&session, "app", json!({ "dependsOn": on })).await;
    let message = "unable to get '@home-team/db' dependency";
    session.reports(KIND, "app", "DependencyNotReady", message).await;
    let source = json!({ "name": "fleet", "namespace": "@home" });
    let spec = super::whole(&session, json!({ "chart": { "spec": { "sourceRef": source } } }));
    session.declare_in("@home-team", KIND, "db", spec).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// `dep` is the dependency, `self` the dependent.
#[tokio::test]
async fn spec_depends_on_ready_expr() {
    let session = start().await;
    release(&session, "db", json!({})).await;
    session.exists("ConfigMap", "db-map", true).await;
    let expression = "has(dep.metadata.annotations) && dep.metadata.annotations['go'] == self.metadata.name";
    let on = json!([{ "name": "db", "readyExpr": expression }]);
    release(&session, "app", json!({ "dependsOn": on })).await;
    session
        .reports(
            KIND,
            "app",
            "DependencyNotReady",
            "not ready according to readyExpr",
        )
        .await;
    session.annotate(KIND, "db", "go", json!("app")).await;
    ready(&session, "InstallSucceeded", 1).await;
    let on = json!([{ "name": "db", "readyExpr": "dep.status ==" }]);
    session.respec(KIND, "app", json!({ "dependsOn": on })).await;
    session.reports(KIND, "app", "InvalidCELExpression", "").await;
    session.end().await;
}

#[tokio::test]
async fn annotation_requested_at() {
    let session = start().await;
    installed(&session, json!({})).await;
    session
        .delete::<Secret>("@home", "sh.helm.release.v1.app.v1")
        .await;
    session.demand(KIND, "app", "now").await;
    records(&session, &["v1 deployed"]).await;
    session.end().await;
}

/// Requests a run with another request of the same token.
async fn demand_with(session: &Session, annotation: &str, token: &str) {
    let annotation = format!("reconcile.fluxcd.io/{annotation}");
    let annotations = json!({ "reconcile.fluxcd.io/requestedAt": token, annotation: token });
    session
        .set(KIND, "app", json!({ "metadata": { "annotations": annotations } }))
        .await;
}

/// One more revision, although nothing changed.
#[tokio::test]
async fn annotation_force_at() {
    let session = start().await;
    installed(&session, json!({})).await;
    // another token than that of the request is no request
    session
        .annotate(KIND, "app", "reconcile.fluxcd.io/forceAt", json!("other"))
        .await;
    session.demand(KIND, "app", "plain").await;
    ready(&session, "InstallSucceeded", 1).await;
    demand_with(&session, "forceAt", "forced").await;
    ready(&session, "UpgradeSucceeded", 2).await;
    session.end().await;
}

/// Failures are forgotten, and the install is tried again.
#[tokio::test]
async fn annotation_reset_at() {
    let session = start().await;
    release(&session, "app", json!({ "values": { "broken": true } })).await;
    stalls(&session, "InstallFailed", "").await;
    let count = async || {
        let events = crate::helm_releases::events(&session, "app").await;
        events
            .iter()
            .filter(|event| event.starts_with("InstallFailed"))
            .count()
    };
    event(&session, "InstallFailed").await;
    let before = records_in(&session, "@home", "app").await;
    session.demand(KIND, "app", "plain").await;
    assert_eq!(records_in(&session, "@home", "app").await, before);
    demand_with(&session, "resetAt", "reset").await;
    session
        .is(KIND, "app", "/status/lastHandledResetAt", json!("reset"))
        .await;
    // it is attempted once more, from the upgrade of the failed release on
    records(&session, &["v1 failed", "v2 failed"]).await;
    assert!(count().await >= 1);
    session.end().await;
}

/// An object with a shard's key belongs to another process.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let session = start_with(&[], options).await;
    release(&session, "app", json!({ "suspend": true })).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    session.set(KIND, "app", key(json!("one"))).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    release(&session, "also", json!({})).await;
    session.exists("ConfigMap", "also-map", true).await;
    session.exists("ConfigMap", "app-map", false).await;
    session.set(KIND, "app", key(Value::Null)).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.end().await;
}

/// A change of a ConfigMap or Secret with this label is released at once.
#[tokio::test]
async fn label_watch() {
    let session = start().await;
    let labels = json!({ "labels": { "reconcile.fluxcd.io/watch": "Enabled" } });
    let data = json!({ "values.yaml": "value: map\n" });
    let map = manifest("ConfigMap", "values", json!({ "metadata": labels, "data": data }));
    session.create(serde_json::from_str(&map).unwrap()).await;
    let references = json!([{ "kind": "ConfigMap", "name": "values" }]);
    installed(&session, json!({ "valuesFrom": references })).await;
    value(&session, "map").await;
    let patch = json!({ "data": { "values.yaml": "value: changed\n" } });
    session.set("ConfigMap", "values", patch).await;
    value(&session, "changed").await;
    session.end().await;
}

/// Annotations of its events.
#[tokio::test]
async fn annotation_event() {
    let session = start().await;
    release(&session, "app", json!({ "suspend": true })).await;
    let annotation = "event.toolkit.fluxcd.io/team";
    session.annotate(KIND, "app", annotation, json!("blue")).await;
    session.respec(KIND, "app", json!({ "suspend": false })).await;
    session.carries(KIND, "app", annotation, "blue").await;
    session.end().await;
}

/// A new commit alone releases nothing.
#[tokio::test]
async fn spec_interval_without_a_change() {
    let session = start().await;
    installed(&session, json!({})).await;
    push(&session, &[("other", Some("1"))]).await;
    session.demand(KIND, "app", "now").await;
    records(&session, &["v1 deployed"]).await;
    session.end().await;
}
