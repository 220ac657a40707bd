//! With whose rights.

use serde_json::json;

use super::super::{config, manifest};
use crate::session::Session;

/// What its account may not do is not done, though this process may.
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
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}
