//! Two Kustomizations with one object say so by name, and correction stops instead of flapping.

use equate_api::meta::ConditionType;
use serde_json::json;

use crate::session::{Session, config_map, said};

#[tokio::test]
async fn two_declare_one_object() {
    let files = [
        ("one/a.yaml", &*config_map("a", "one")),
        ("two/a.yaml", &*config_map("a", "two")),
        ("two/b.yaml", &*config_map("b", "two")),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("one", "one", json!({})).await;
    session.ready("one", &revision).await;
    session.kustomize("two", "two", json!({})).await;

    let message = session.fails("two", "Contested").await;
    assert!(
        message.contains("ConfigMap/default/a (also declared by Kustomization/flux-system/one)"),
        "{message}"
    );
    let by_two = "ConfigMap/default/a (also declared by Kustomization/flux-system/two)";
    session
        .until("one", by_two, |status| {
            said(status, ConditionType::Contested) == by_two
        })
        .await;
    // the later one does not take it, and takes all else
    session.value("default", "a", Some("one")).await;
    session.value("default", "b", Some("two")).await;
    session.ready("one", &revision).await;
    assert_eq!(session.stats().corrections, 0);

    // given up by the first, it is the second's: handed over, not deleted
    let revision = session.commit(&[("one/a.yaml", Some(&*config_map("c", "one")))]);
    session.value("default", "a", Some("two")).await;
    session.ready("two", &revision).await;
    let calm = |status: &equate_api::kustomize::KustomizationStatus| {
        said(status, ConditionType::Contested).is_empty()
            && status.last_applied_revision.as_ref() == Some(&revision)
    };
    session.until("one", "not contested any more", calm).await;
    session.end().await;
}
