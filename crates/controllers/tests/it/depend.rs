//! A dependency chain becomes ready by events, not by intervals.

use serde_json::{Value, json};

use crate::session::{Session, config_map, document};

fn files() -> Vec<(String, String)> {
    (0..5)
        .map(|n| (format!("step{n}/a.yaml"), config_map(&format!("step{n}"), "one")))
        .collect()
}

#[tokio::test]
async fn a_chain_of_five_becomes_ready() {
    let files = files();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::start(&borrowed).await;
    let revision = session.commit(&[]);
    // the last first, so that each has to wait
    for n in (0..5).rev() {
        let on = if n > 0 {
            json!([{ "name": format!("step{}", n - 1) }])
        } else {
            json!([])
        };
        session
            .kustomize(
                &format!("step{n}"),
                &format!("step{n}"),
                json!({ "dependsOn": on }),
            )
            .await;
    }
    session.ready("step4", &revision).await;
    // a new revision goes through the chain again; the last applies after the first
    let revision = session.commit(&[("step4/a.yaml", Some(&*config_map("step4", "two")))]);
    session.ready("step4", &revision).await;
    session.value("default", "step4", Some("two")).await;
    session.end().await;
}

#[tokio::test]
async fn a_dependent_waits_and_names_its_dependency() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session
        .kustomize("apps", "apps", json!({ "dependsOn": [{ "name": "infra" }] }))
        .await;
    let message = session.fails("apps", "DependencyNotReady").await;
    assert_eq!(
        message,
        "dependency 'flux-system/infra' not found: kustomizations.kustomize.toolkit.fluxcd.io \"infra\" not found"
    );
    session.kustomize("infra", "lost", json!({})).await;
    let not_ready = "dependency 'flux-system/infra' is not ready";
    session
        .until("apps", not_ready, |status| {
            crate::session::ready(status).1 == not_ready
        })
        .await;
    session.value("default", "a", None).await;
    session.commit(&[("lost/b.yaml", Some(&*config_map("b", "one")))]);
    session.value("default", "a", Some("one")).await;
    assert_ne!(
        session
            .kustomizations()
            .get("apps")
            .await
            .unwrap()
            .status
            .unwrap()
            .last_applied_revision,
        Some(revision)
    );
    session.end().await;
}

#[tokio::test]
async fn a_dependency_cycle_is_named() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    session
        .kustomize("a", "apps", json!({ "dependsOn": [{ "name": "b" }] }))
        .await;
    session
        .kustomize("b", "apps", json!({ "dependsOn": [{ "name": "a" }] }))
        .await;
    let circle = "dependency cycle: flux-system/b -> flux-system/a -> flux-system/b; remove one of these from spec.dependsOn";
    session
        .until("b", "names the circle", |status| {
            crate::session::ready(status).1 == circle
        })
        .await;
    session.patch("b", json!({ "spec": { "dependsOn": null } })).await;
    session.value("default", "a", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn too_many_dependencies_are_refused() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let on: Vec<Value> = (0..1_001).map(|at| json!({ "name": format!("k{at}") })).collect();
    session
        .kustomize("apps", "apps", json!({ "dependsOn": on }))
        .await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(
        message.contains("spec.dependsOn has 1001 entries; the limit is 1000."),
        "{message}"
    );
    session
        .patch("apps", json!({ "spec": { "dependsOn": null } }))
        .await;
    session.value("default", "a", Some("one")).await;
    session.end().await;
}

/// A ConfigMap in a namespace that another Kustomization has to declare, and that namespace.
fn in_web() -> (String, String) {
    let mut map: Value = serde_json::from_str(&config_map("x", "one")).unwrap();
    map["metadata"]["namespace"] = json!("web");
    let web = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } });
    (document(&map), document(&web))
}

#[tokio::test]
async fn a_failure_is_retried_after_a_repair_elsewhere() {
    let (x, web) = in_web();
    let on = json!({ "dependsOn": [{ "name": "infra" }] });
    let files = [
        ("infra/a.yaml", &*config_map("a", "one")),
        ("more/web.yaml", &*web),
        ("apps/x.yaml", &*x),
    ];
    // by the next commit, which changes none of the failed files: with an interval of ten minutes
    let session = Session::start(&files).await;
    let first = session.commit(&[]);
    session.kustomize("infra", "infra", json!({})).await;
    session.kustomize("apps", "apps", on.clone()).await;
    session.ready("infra", &first).await;
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert!(message.contains("web"), "{message}");
    let second = session.commit(&[("infra/web.yaml", Some(&*web))]);
    session.ready("apps", &second).await;
    session.value("web", "x", Some("one")).await;
    session.end().await;

    // or by its dependency, at the same commit
    let session = Session::start(&files).await;
    let only = session.commit(&[]);
    session.kustomize("infra", "infra", json!({})).await;
    session.kustomize("apps", "apps", on).await;
    session.fails("apps", "ReconciliationFailed").await;
    let built = session.stats().builds;
    session
        .patch("infra", json!({ "spec": { "path": "more" } }))
        .await;
    session.ready("apps", &only).await;
    assert_eq!(session.stats().builds, built + 2, "one of each");
    session.end().await;
}

#[tokio::test]
async fn a_failed_build_is_reported_for_each_revision() {
    let session = Session::start(&[("apps/kustomization.yaml", "resources: [missing.yaml]\n")]).await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.fails("apps", "BuildFailed").await;
    // the tree does not change, so it is not built again
    let built = session.stats().builds;
    let second = session.commit(&[]);
    assert_ne!(first, second);
    let status = session
        .until("apps", "was tried at the second", |status| {
            status.last_attempted_revision.as_ref() == Some(&second)
        })
        .await;
    assert_eq!(crate::session::ready(&status).0, "False");
    assert_eq!(session.stats().builds, built);
    assert!(
        status.history.iter().all(|record| !record.digest.is_empty()),
        "{status:?}"
    );
    session.end().await;
}
