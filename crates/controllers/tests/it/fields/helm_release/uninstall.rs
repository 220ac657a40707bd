//! The options of an uninstall.

use equate_testkit::eventually::eventually;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{KIND, delete, installed, records, start};
use crate::session::{DEADLINE, Session};

/// An install with a Deployment whose ReplicaSet cannot go yet, and its deletion with this propagation.
/// Returns the name of the ReplicaSet.
async fn deleted(session: &Session, propagation: &str) -> String {
    let spec = json!({
        "values": { "web": "registry.invalid/web:1" },
        "uninstall": { "deletionPropagation": propagation, "disableWait": true },
    });
    installed(session, spec).await;
    let sets: Api<ReplicaSet> = Api::namespaced(session.client.clone(), &session.home);
    let labels = ListParams::default().labels("app=app-web");
    let name = eventually("there is a ReplicaSet", DEADLINE, async || {
        let found = sets.list(&labels).await.map_err(|error| error.to_string())?;
        let found = found.items.into_iter().next().ok_or("there is none")?;
        Ok::<_, String>(found.metadata.name.unwrap())
    })
    .await;
    hold(session, &name, json!(["equate.test/held"])).await;
    delete(session).await;
    name
}

async fn hold(session: &Session, name: &str, finalizers: Value) {
    let sets: Api<ReplicaSet> = Api::namespaced(session.client.clone(), &session.home);
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    sets.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// The Deployment goes first.
#[tokio::test]
async fn spec_uninstall_deletion_propagation_background() {
    let session = start().await;
    let name = deleted(&session, "background").await;
    session.exists("Deployment", "app-web", false).await;
    let sets: Api<ReplicaSet> = Api::namespaced(session.client.clone(), &session.home);
    eventually("the ReplicaSet is asked to go", DEADLINE, async || {
        let found = sets.get(&name).await.map_err(|error| error.to_string())?;
        found
            .metadata
            .deletion_timestamp
            .map(drop)
            .ok_or_else(|| "it is not".to_owned())
    })
    .await;
    hold(&session, &name, Value::Null).await;
    session.end().await;
}

/// The Deployment waits for its ReplicaSet.
#[tokio::test]
async fn spec_uninstall_deletion_propagation_foreground() {
    let session = start().await;
    let name = deleted(&session, "foreground").await;
    session.exists(KIND, "app", false).await;
    let finalizers = json!(["foregroundDeletion"]);
    session
        .is("Deployment", "app-web", "/metadata/finalizers", finalizers)
        .await;
    hold(&session, &name, Value::Null).await;
    session.exists("Deployment", "app-web", false).await;
    session.end().await;
}

/// The ReplicaSet stays.
#[tokio::test]
async fn spec_uninstall_deletion_propagation_orphan() {
    let session = start().await;
    let name = deleted(&session, "orphan").await;
    session.exists("Deployment", "app-web", false).await;
    let sets: Api<ReplicaSet> = Api::namespaced(session.client.clone(), &session.home);
    let left = sets.get(&name).await.unwrap();
    assert!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
    assert!(left.metadata.owner_references.unwrap_or_default().is_empty());
    hold(&session, &name, Value::Null).await;
    session.end().await;
}

#[tokio::test]
async fn spec_uninstall_disable_hooks() {
    for disabled in [true, false] {
        let session = start().await;
        let uninstall = json!({ "disableHooks": disabled });
        installed(
            &session,
            json!({ "values": { "pre-delete": "plain" }, "uninstall": uninstall }),
        )
        .await;
        delete(&session).await;
        session.exists(KIND, "app", false).await;
        session.exists("ConfigMap", "app-map", false).await;
        session.exists("ConfigMap", "app-pre-delete", !disabled).await;
        session.end().await;
    }
}

/// A release whose ConfigMap cannot go yet, and its deletion.
async fn held(session: &Session, uninstall: Value) {
    installed(session, json!({ "timeout": "1h", "uninstall": uninstall })).await;
    let finalizers = json!({ "metadata": { "finalizers": ["equate.test/held"] } });
    session.set("ConfigMap", "app-map", finalizers).await;
    delete(session).await;
    eventually("the object is asked to go", DEADLINE, async || {
        match session.look("ConfigMap", "@home", "app-map").await["metadata"]["deletionTimestamp"].is_string()
        {
            true => Ok(()),
            false => Err("it is not"),
        }
    })
    .await;
}

async fn let_go(session: &Session) {
    session
        .set(
            "ConfigMap",
            "app-map",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    session.exists("ConfigMap", "app-map", false).await;
    session.exists(KIND, "app", false).await;
}

/// The HelmRelease does not wait until its objects are gone.
#[tokio::test]
async fn spec_uninstall_disable_wait() {
    let session = start().await;
    held(&session, json!({ "disableWait": true })).await;
    session.exists(KIND, "app", false).await;
    session.exists("ConfigMap", "app-map", true).await;
    let_go(&session).await;
    session.end().await;
    let session = start().await;
    held(&session, json!({})).await;
    session.exists(KIND, "app", true).await;
    let_go(&session).await;
    session.end().await;
}

/// The wait fails, and another attempt follows.
#[tokio::test]
async fn spec_uninstall_timeout() {
    let session = start().await;
    held(&session, json!({ "timeout": "1s" })).await;
    let message = "timeout waiting for termination of: [ConfigMap/@home/app-map]";
    session
        .condition(KIND, "app", "Released", "UninstallFailed", message)
        .await;
    let_go(&session).await;
    session.end().await;
}

#[tokio::test]
async fn spec_uninstall_keep_history() {
    for (keeps, expected) in [(true, &["v1 uninstalled"][..]), (false, &[][..])] {
        let session = start().await;
        installed(&session, json!({ "uninstall": { "keepHistory": keeps } })).await;
        delete(&session).await;
        session.exists(KIND, "app", false).await;
        records(&session, expected).await;
        session.end().await;
    }
}
