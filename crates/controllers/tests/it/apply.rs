//! Objects of the repository are applied and become healthy.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::session::{Options, Session, config_map, deployment, inventory};

#[tokio::test]
async fn a_repository_becomes_objects() {
    let web = deployment("web", "example.org/web:1", json!({}));
    let files = [
        (
            "apps/kustomization.yaml",
            "resources: [settings.yaml, web.yaml]\nnamePrefix: shop-\n",
        ),
        ("apps/settings.yaml", &*config_map("settings", "one")),
        ("apps/web.yaml", &*web),
        ("elsewhere/other.yaml", &*config_map("other", "one")),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "./apps", json!({ "wait": true })).await;
    let status = session.ready("apps", &revision).await;

    session.value("default", "shop-settings", Some("one")).await;
    let web: Deployment = session.get("default", "shop-web").await.unwrap();
    assert_eq!(web.status.unwrap_or_default().available_replicas, Some(1));
    assert_eq!(
        inventory(&status),
        [
            "default_shop-settings__ConfigMap",
            "default_shop-web_apps_Deployment"
        ]
    );
    assert!(session.get::<ConfigMap>("default", "other").await.is_none());

    let settings: ConfigMap = session.get("default", "shop-settings").await.unwrap();
    let labels = settings.metadata.labels.unwrap_or_default();
    assert_eq!(labels["kustomize.toolkit.fluxcd.io/name"], "apps");
    assert_eq!(labels["kustomize.toolkit.fluxcd.io/namespace"], "flux-system");
    let managers = settings.metadata.managed_fields.unwrap_or_default();
    let managers: Vec<_> = managers.into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["kustomize-controller"]);

    assert_eq!(status.last_applied_revision.as_ref(), Some(&revision));
    assert_eq!(status.last_attempted_revision.as_ref(), Some(&revision));
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.history.len(), 1);
    assert_eq!(
        status.history[0].last_reconciled_status,
        "ReconciliationSucceeded"
    );
    assert_eq!(status.history[0].metadata["revision"], revision);
    session
        .event(
            "apps",
            "Normal Progressing ConfigMap/default/shop-settings created\nDeployment/default/shop-web created",
        )
        .await;
    session
        .event(
            "apps",
            "Normal ReconciliationSucceeded Reconciliation finished in ",
        )
        .await;
    session.event("apps", "Health check passed in ").await;
    session.end().await;
}

#[tokio::test]
async fn kinds_and_their_objects_come_in_one_commit() {
    let definition = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: widgets.example.org }
spec:
  group: example.org
  names: { kind: Widget, plural: widgets, singular: widget }
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
"#;
    let widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata: { name: w, namespace: things }\nspec: { size: 1 }\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: { name: things }\n";
    let files = [
        ("apps/a.yaml", widget),
        ("apps/b.yaml", definition),
        ("apps/c.yaml", namespace),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    let status = session.ready("apps", &revision).await;
    assert_eq!(
        inventory(&status),
        [
            "_things__Namespace",
            "_widgets.example.org_apiextensions.k8s.io_CustomResourceDefinition",
            "things_w_example.org_Widget",
        ]
    );
    session.end().await;
}

#[tokio::test]
async fn an_undefined_kind_fails_by_name_and_file() {
    let gadget = "apiVersion: example.org/v1\nkind: Gadget\nmetadata: { name: g, namespace: default }\n";
    let session = Session::start(&[("apps/gadget.yaml", gadget)]).await;
    session.kustomize("apps", "apps", json!({})).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert_eq!(
        message,
        "Gadget/default/g dry-run failed: no matches for kind \"Gadget\" in version \"example.org/v1\" \
         (apps/gadget.yaml:1)"
    );
    session.end().await;
}

#[tokio::test]
async fn objects_without_a_namespace_need_a_default() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: m }\ndata: { value: one }\n";
    let mut session = Session::start(&[("apps/m.yaml", map)]).await;
    session.kustomize("apps", "apps", json!({})).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.starts_with("ConfigMap/m namespace not specified (apps/m.yaml:1)"),
        "{message}"
    );
    let options = Options {
        default_namespace: Some("default".to_owned()),
        ..Options::default()
    };
    session.engine(options).await;
    session.value("default", "m", Some("one")).await;
    session.end().await;
}
