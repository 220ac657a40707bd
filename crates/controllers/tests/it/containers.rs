//! A Namespace or CustomResourceDefinition that leaves git stays while another Kustomization needs objects
//! in it.

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::ConditionType;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use kube::api::Api;
use kube::core::ClusterResourceScope;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Session, config_map, document, inventory, said};

fn namespace() -> String {
    document(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } }))
}

fn x(value: &str) -> String {
    let mut map: Value = serde_json::from_str(&config_map("x", value)).unwrap();
    map["metadata"]["namespace"] = json!("web");
    document(&map)
}

/// The uid of a cluster-scoped object that exists and is not terminating.
async fn uid<K>(session: &Session, name: &str) -> Option<String>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let object = Api::<K>::all(session.client.clone())
        .get_opt(name)
        .await
        .unwrap()?;
    let meta = object.meta();
    meta.deletion_timestamp
        .is_none()
        .then(|| meta.uid.clone().unwrap())
}

async fn goes<K>(session: &Session, name: &str)
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let gone = async || match Api::<K>::all(session.client.clone()).get_opt(name).await.unwrap() {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.meta())),
    };
    eventually(&format!("{name} is gone"), DEADLINE, gone).await;
}

fn held(status: &KustomizationStatus) -> String {
    said(status, ConditionType::PruneBlocked)
}

/// `infra` declares the namespace, `apps` the objects in it.
async fn start(more: &[(&str, &str)]) -> (Session, String) {
    let (web, x, a) = (namespace(), x("one"), config_map("a", "one"));
    let mut files = vec![
        ("infra/web.yaml", &*web),
        ("infra/a.yaml", &*a),
        ("apps/x.yaml", &*x),
    ];
    let b = config_map("b", "one");
    files.push(("apps/b.yaml", &*b));
    files.extend(more);
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("infra", "infra", json!({})).await;
    session
        .kustomize("apps", "apps", json!({ "dependsOn": [{ "name": "infra" }] }))
        .await;
    session.ready("infra", &revision).await;
    session.ready("apps", &revision).await;
    (session, revision)
}

/// `infra` keeps the namespace, and names the owner that needs it.
async fn stays(session: &Session, revision: &str) {
    session.ready("infra", revision).await;
    let status = session
        .until("infra", "says what it keeps", |status| !held(status).is_empty())
        .await;
    assert_eq!(
        held(&status),
        "not deleted yet: Namespace/web, needed by ConfigMap/web/x of Kustomization/flux-system/apps. \
         It is deleted when no owner declares or holds such an object"
    );
    assert!(inventory(&status).contains(&"_web__Namespace".to_owned()));
}

#[tokio::test]
async fn a_namespace_stays_while_another_declares_objects_in_it() {
    let (session, _) = start(&[]).await;
    let (web, map) = (
        uid::<Namespace>(&session, "web").await.unwrap(),
        session.get::<ConfigMap>("web", "x").await.unwrap().metadata.uid,
    );
    let revision = session.commit(&[("infra/web.yaml", None)]);
    session.ready("apps", &revision).await;
    stays(&session, &revision).await;
    assert_eq!(uid::<Namespace>(&session, "web").await, Some(web));
    assert_eq!(
        session.get::<ConfigMap>("web", "x").await.unwrap().metadata.uid,
        map
    );
    // no longer declared there either, it is deleted without a request
    let revision = session.commit(&[("apps/x.yaml", None)]);
    session.ready("apps", &revision).await;
    goes::<Namespace>(&session, "web").await;
    let status = session
        .until("infra", "keeps nothing", |status| held(status).is_empty())
        .await;
    assert!(!inventory(&status).contains(&"_web__Namespace".to_owned()));
    session.end().await;
}

#[tokio::test]
async fn a_namespace_is_pruned_with_all_its_objects_in_one_commit() {
    let (session, _) = start(&[]).await;
    let revision = session.commit(&[("infra/web.yaml", None), ("apps/x.yaml", None)]);
    session.ready("infra", &revision).await;
    session.ready("apps", &revision).await;
    goes::<Namespace>(&session, "web").await;
    session.end().await;
}

#[tokio::test]
async fn moved_objects_keep_their_former_namespace() {
    let (x, y) = (x("one"), x("one").replace("\"x\"", "\"y\""));
    let (session, _) = start(&[("infra/y.yaml", &*y)]).await;
    let map = session.get::<ConfigMap>("web", "y").await.unwrap().metadata.uid;
    let moved = [
        ("infra/web.yaml", None),
        ("infra/y.yaml", None),
        ("apps/x.yaml", None),
        ("apps/y.yaml", Some(&*y)),
    ];
    let revision = session.commit(&moved);
    session.ready("infra", &revision).await;
    session.ready("apps", &revision).await;
    assert_eq!(
        session.get::<ConfigMap>("web", "y").await.unwrap().metadata.uid,
        map
    );
    session.value("web", "x", None).await;
    assert!(uid::<Namespace>(&session, "web").await.is_some());
    // the Kustomization's own objects keep it, too
    let back = [("apps/y.yaml", None), ("infra/x.yaml", Some(&*x))];
    let revision = session.commit(&back);
    session.ready("infra", &revision).await;
    session.value("web", "x", Some("one")).await;
    session
        .until("infra", "keeps it for itself", |status| {
            held(status).contains("needed by ConfigMap/web/x of Kustomization/flux-system/infra")
        })
        .await;
    session.commit(&[("infra/x.yaml", None)]);
    goes::<Namespace>(&session, "web").await;
    session.end().await;
}

#[tokio::test]
async fn a_deleted_kustomizations_namespace_stays_while_another_needs_it() {
    let (session, revision) = start(&[]).await;
    session.delete::<Kustomization>(HOME, "infra").await;
    // its other objects are deleted
    session.value("default", "a", None).await;
    let status = session
        .until("infra", "says what it keeps", |status| !held(status).is_empty())
        .await;
    assert_eq!(inventory(&status), ["_web__Namespace"]);
    assert!(uid::<Namespace>(&session, "web").await.is_some());
    session.ready("apps", &revision).await;
    session.delete::<Kustomization>(HOME, "apps").await;
    goes::<Namespace>(&session, "web").await;
    let gone = async || match session.get::<Kustomization>(HOME, "infra").await {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.status)),
    };
    eventually("infra is gone", DEADLINE, gone).await;
    session.end().await;
}

fn definition(kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    document(&json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.org") },
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    }))
}

#[tokio::test]
async fn a_definition_stays_while_another_declares_objects_of_its_kind() {
    let (widgets, gadgets) = (definition("Widget"), definition("Gadget"));
    let widget = document(&json!({
        "apiVersion": "example.org/v1", "kind": "Widget",
        "metadata": { "name": "w", "namespace": "default" },
    }));
    let (session, _) = start(&[
        ("infra/widgets.yaml", &*widgets),
        ("infra/gadgets.yaml", &*gadgets),
        ("apps/w.yaml", &*widget),
    ])
    .await;
    let revision = session.commit(&[("infra/widgets.yaml", None), ("infra/gadgets.yaml", None)]);
    session.ready("infra", &revision).await;
    goes::<CustomResourceDefinition>(&session, "gadgets.example.org").await;
    let status = session
        .until("infra", "says what it keeps", |status| !held(status).is_empty())
        .await;
    assert_eq!(
        held(&status),
        "not deleted yet: CustomResourceDefinition/widgets.example.org, needed by Widget/default/w of \
         Kustomization/flux-system/apps. It is deleted when no owner declares or holds such an object"
    );
    session.commit(&[("apps/w.yaml", None)]);
    goes::<CustomResourceDefinition>(&session, "widgets.example.org").await;
    session.end().await;
}
