//! The tests of a chart.

use serde_json::{Value, json};

use super::{KIND, installed, ready, release, start, start_with};
use crate::fields::objects::told;
use crate::session::Options;

#[tokio::test]
async fn spec_test_enable() {
    let session = start().await;
    let status = installed(&session, json!({ "values": { "test": "plain" } })).await;
    assert_eq!(status["history"][0]["testHooks"], Value::Null);
    session.exists("ConfigMap", "app-test", false).await;
    session
        .respec(KIND, "app", json!({ "test": { "enable": true } }))
        .await;
    let status = session
        .reports(KIND, "app", "TestSucceeded", "1 test hook completed successfully")
        .await;
    assert_eq!(
        status["history"][0]["testHooks"]["app-test"]["phase"],
        json!("Succeeded")
    );
    session.exists("ConfigMap", "app-test", true).await;
    session.end().await;
}

/// The tests that run, of `app-test` and `second`.
async fn selected(filters: Value, expected: &[&str]) {
    let second =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second, annotations: {helm.sh/hook: test}}\n";
    let session = start_with(
        &[("charts/app/templates/second.yaml", second)],
        Options::default(),
    )
    .await;
    let test = json!({ "enable": true, "filters": filters });
    release(
        &session,
        "app",
        json!({ "test": test, "values": { "test": "plain" } }),
    )
    .await;
    let status = ready(&session, "TestSucceeded", 1).await;
    let hooks = status["history"][0]["testHooks"].as_object().unwrap();
    let names: Vec<&str> = hooks.keys().map(String::as_str).collect();
    assert_eq!(names, expected);
    for name in ["app-test", "second"] {
        session.exists("ConfigMap", name, expected.contains(&name)).await;
    }
    session.end().await;
}

#[tokio::test]
async fn spec_test_filters_name() {
    selected(json!([{ "name": "second" }]), &["second"]).await;
    selected(json!([]), &["app-test", "second"]).await;
}

#[tokio::test]
async fn spec_test_filters_exclude() {
    selected(json!([{ "name": "second", "exclude": true }]), &["app-test"]).await;
}

/// A failed test is no failure of the release.
#[tokio::test]
async fn spec_test_ignore_failures() {
    for ignores in [true, false] {
        let session = start().await;
        let test = json!({ "enable": true, "ignoreFailures": ignores });
        release(
            &session,
            "app",
            json!({ "test": test, "values": { "test": "fails" } }),
        )
        .await;
        session
            .condition(KIND, "app", "TestSuccess", "TestFailed", "app-test")
            .await;
        match ignores {
            true => {
                let status = session.reports(KIND, "app", "InstallSucceeded", "").await;
                assert_eq!(told(&status, "Ready")["status"], json!("True"));
                assert_eq!(told(&status, "Stalled"), Value::Null);
            }
            false => {
                session
                    .condition(KIND, "app", "Stalled", "RetriesExceeded", "")
                    .await;
                session.reports(KIND, "app", "TestFailed", "").await;
            }
        }
        session.end().await;
    }
}

#[tokio::test]
async fn spec_test_timeout() {
    let session = start().await;
    let test = json!({ "enable": true, "timeout": "1s" });
    release(
        &session,
        "app",
        json!({ "timeout": "1h", "test": test, "values": { "test": "hangs" } }),
    )
    .await;
    session
        .condition(KIND, "app", "TestSuccess", "TestFailed", "timeout waiting for")
        .await;
    session.end().await;
}
