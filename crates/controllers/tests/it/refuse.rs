//! A revision that cannot be built or would delete everything changes nothing.

use equate_api::meta::{ConditionType, is_true};
use serde_json::json;

use crate::session::{Session, config_map, ready};

#[tokio::test]
async fn broken_yaml_changes_nothing_and_is_located() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let session = Session::start(&files).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "b", Some("one")).await;
    let broken =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  value: [one\n";
    let revision = session.commit(&[("apps/a.yaml", Some(broken)), ("apps/b.yaml", None)]);
    let message = session.fails("apps", "BuildFailed").await;
    assert!(
        message.starts_with("kustomize build failed: apps/a.yaml:"),
        "{message}"
    );
    let place: Vec<&str> = message["kustomize build failed: apps/a.yaml:".len()..]
        .split(':')
        .collect();
    assert!(
        place[0].parse::<usize>().is_ok() && place[1].parse::<usize>().is_ok(),
        "{message}"
    );
    session.value("default", "a", Some("one")).await;
    session.value("default", "b", Some("one")).await;
    let status = session
        .kustomizations()
        .get("apps")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.last_attempted_revision.as_ref(), Some(&revision));
    assert_ne!(status.last_applied_revision.as_ref(), Some(&revision));
    session
        .event("apps", "Warning BuildFailed kustomize build failed: apps/a.yaml:")
        .await;

    let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))]);
    session.value("default", "a", Some("two")).await;
    session.value("default", "b", None).await;
    session.ready("apps", &revision).await;
    session.end().await;
}

#[tokio::test]
async fn an_empty_render_deletes_nothing_until_it_is_confirmed() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "a", Some("one")).await;
    let revision = session.commit(&[("apps/a.yaml", Some("# nothing is left\n"))]);
    let message = session.fails("apps", "EmptyRender").await;
    assert!(
        message.contains(&format!("equate.dev/allow-empty={revision}")),
        "{message}"
    );
    let status = session
        .kustomizations()
        .get("apps")
        .await
        .unwrap()
        .status
        .unwrap();
    assert!(is_true(&status.conditions, ConditionType::Stalled));
    session.value("default", "a", Some("one")).await;

    let confirm = json!({ "metadata": { "annotations": { "equate.dev/allow-empty": revision } } });
    session.patch("apps", confirm).await;
    session.value("default", "a", None).await;
    session.ready("apps", &revision).await;
    session.end().await;
}

#[tokio::test]
async fn a_missing_path_deletes_nothing() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    session.kustomize("apps", "apps", json!({})).await;
    session.value("default", "a", Some("one")).await;
    session.commit(&[
        ("apps/a.yaml", None),
        ("other/a.yaml", Some(&*config_map("a", "one"))),
    ]);
    let message = session.fails("apps", "ArtifactFailed").await;
    assert!(
        message.starts_with("kustomization path not found: apps "),
        "{message}"
    );
    session.value("default", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn a_misspelt_path_names_the_nearest() {
    let session = Session::start(&[("clusters/production/a.yaml", &*config_map("a", "one"))]).await;
    session.kustomize("apps", "clusters/production", json!({})).await;
    let file = ("clusters/production/a.yaml", Some(&*config_map("a", "two")));
    let revision = session.commit(&[file]);
    session.ready("apps", &revision).await;
    let path = json!({ "spec": { "path": "./cluster/production" } });
    session.patch("apps", path).await;
    let message = session.fails("apps", "ArtifactFailed").await;
    let expected = "kustomization path not found: ./cluster/production is not in the artifact; \
                    did you mean ./clusters/production?";
    assert_eq!(message, expected);
    session.end().await;
}

#[tokio::test]
async fn unsupported_fields_stall_and_are_named() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let spec = json!({ "decryption": { "provider": "sops", "serviceAccountName": "anyone" } });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "FeatureGateDisabled").await;
    assert!(
        message.starts_with("to use spec.decryption.serviceAccountName for"),
        "{message}"
    );
    session.value("default", "a", None).await;
    session
        .kustomize(
            "lost",
            "apps",
            json!({ "sourceRef": { "kind": "GitRepository", "name": "lost" } }),
        )
        .await;
    let message = session.fails("lost", "ArtifactFailed").await;
    assert_eq!(
        message,
        "GitRepository.source.toolkit.fluxcd.io \"lost\" not found"
    );

    session
        .patch("apps", json!({ "spec": { "decryption": null } }))
        .await;
    session.value("default", "a", Some("one")).await;
    let status = session
        .until("apps", "ready", |status| ready(status).0 == "True")
        .await;
    assert!(!is_true(&status.conditions, ConditionType::Stalled));
    session.end().await;
}
