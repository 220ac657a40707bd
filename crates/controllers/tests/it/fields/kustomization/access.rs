//! The identity, and the target cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::super::{config, manifest};
use crate::session::{Options, Session};

/// Lets `deployer` apply ConfigMaps.
async fn grant(session: &Session) {
    let rules =
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"] }]);
    let role = manifest("Role", "deployer", json!({ "rules": rules }));
    session.create(serde_json::from_str(&role).unwrap()).await;
    let binding = json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer" },
        "subjects": [{ "kind": "ServiceAccount", "name": "deployer", "namespace": "@home" }],
    });
    let binding = manifest("RoleBinding", "deployer", binding);
    session.create(serde_json::from_str(&binding).unwrap()).await;
}

/// The account's rights limit the Kustomization, although this process has more.
#[tokio::test]
async fn spec_service_account_name() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let account = manifest("ServiceAccount", "deployer", json!({}));
    session.create(serde_json::from_str(&account).unwrap()).await;
    let spec = json!({ "serviceAccountName": "deployer", "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    let who = session.here("system:serviceaccount:@home:deployer");
    assert!(message.contains(&who), "{message}");
    session.exists("ConfigMap", "a", false).await;

    grant(&session).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

/// Another target cluster, here the same one by another way: a kubeconfig with a token of `deployer`.
pub(in crate::fields) async fn kubeconfig(session: &Session, key: &str) -> Box<dyn std::any::Any + Send> {
    let account = manifest("ServiceAccount", "deployer", json!({}));
    session.create(serde_json::from_str(&account).unwrap()).await;
    let (address, authority, serving) = session.address().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(session.client.clone(), &session.home);
    let (params, request) = (PostParams::default(), TokenRequest::default());
    let given = accounts.create_token_request("deployer", &params, &request);
    let token = given.await.unwrap().status.unwrap().token;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
        "clusters": [{ "name": "it", "cluster": {
            "server": address, "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{ "name": "it", "user": { "token": token } }],
    });
    let data = json!({ key: kubeconfig.to_string() });
    let secret = manifest("Secret", "cluster", json!({ "stringData": data }));
    session.create(serde_json::from_str(&secret).unwrap()).await;
    serving
}

/// The kubeconfig's account first lacks the rights, then has them.
async fn check_opened(session: &Session, reference: Value) {
    let spec = json!({ "kubeConfig": { "secretRef": reference }, "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    let who = session.here("system:serviceaccount:@home:deployer");
    assert!(message.contains(&who), "{message}");
    session.exists("ConfigMap", "a", false).await;
    grant(session).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
}

#[tokio::test]
async fn spec_kube_config_secret_ref_name() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let _serving = kubeconfig(&session, "value.yaml").await;
    check_opened(&session, json!({ "name": "cluster" })).await;
    session.end().await;
}

#[tokio::test]
async fn spec_kube_config_secret_ref_key() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let _serving = kubeconfig(&session, "production").await;
    check_opened(&session, json!({ "name": "cluster", "key": "production" })).await;
    session.end().await;
}

/// The same with a requested token.
#[tokio::test]
async fn spec_kube_config_config_map_ref_name() {
    let files = [("apps/a.yaml", &*config("a", "one"))];
    let session = Session::anywhere_with(&files, Options::with_tokens()).await;
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
    let spec = json!({ "kubeConfig": { "configMapRef": { "name": "cluster" } }, "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    let who = session.here("system:serviceaccount:@home:deployer");
    assert!(message.contains(&who), "{message}");
    session.exists("ConfigMap", "a", false).await;
    grant(&session).await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}
