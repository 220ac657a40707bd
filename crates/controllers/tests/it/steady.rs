//! Without changes nothing happens, also after a start.

use equate_testkit::eventually::eventually;
use serde_json::json;

use crate::session::{DEADLINE, Options, Session, all_kinds, config_map, deployment};

#[tokio::test]
async fn a_start_without_changes_writes_nothing() {
    let web = deployment("web", "example.org/web:1", json!({}));
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/web.yaml", &*web),
    ];
    let mut session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({ "wait": true })).await;
    let status = session.ready("apps", &revision).await;
    session.stop().await;
    session.faults.clear_log();
    session.engine(Options::default()).await;
    let built = async || match session.stats() {
        stats if stats.builds == 1 && stats.queue == 0 => Ok(()),
        stats => Err(format!("{stats:?}")),
    };
    eventually("it is built once", DEADLINE, built).await;
    session.stop().await;
    let writes: Vec<_> = session
        .faults
        .log()
        .into_iter()
        .filter(equate_testkit::faults::Call::is_write)
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    let after = session
        .kustomizations()
        .get("apps")
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(after, status);
    session.end().await;
}

#[tokio::test]
async fn a_start_prunes_and_corrects() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let mut session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    session.stop().await;
    let edit = json!({ "data": { "value": "edited" } });
    session
        .merge::<k8s_openapi::api::core::v1::ConfigMap>("default", "a", edit)
        .await;
    let revision = session.commit(&[("apps/b.yaml", None)]);
    session.engine(Options::default()).await;
    session.ready("apps", &revision).await;
    session.value("default", "a", Some("one")).await;
    session.value("default", "b", None).await;
    session.end().await;
}

#[tokio::test]
async fn intervals_send_no_api_requests() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let kinds = all_kinds();
    let session = Session::with(
        &files,
        Options {
            kinds,
            ..Options::default()
        },
    )
    .await;
    let revision = session.commit(&[]);
    session
        .kustomize("apps", "apps", json!({ "interval": "50ms", "wait": true }))
        .await;
    session.ready("apps", &revision).await;
    session.event("apps", "Reconciliation finished").await;
    session.watches_all().await;
    let before = session.stats();
    session.faults.clear_log();
    let passed = async || match session.stats().runs - before.runs {
        20.. => Ok(()),
        runs => Err(format!("{runs} runs")),
    };
    eventually("twenty intervals pass", DEADLINE, passed).await;
    let calls: Vec<String> = session
        .faults
        .log()
        .iter()
        .filter(|call| !call.watch)
        .map(ToString::to_string)
        .collect();
    assert_eq!(calls, Vec::<String>::new());
    assert_eq!(session.stats().builds, before.builds);
    session.end().await;
}
