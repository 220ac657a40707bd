//! Health checks.

use equate_api::meta::{ConditionType, condition};
use serde_json::json;

use super::super::{config, workload};
use super::apply::never_available;
use crate::session::Session;

#[tokio::test]
async fn spec_wait() {
    let session = Session::anywhere(&[("apps/web.yaml", &*never_available())]).await;
    session.kustomize("apps", "apps", json!({ "wait": true })).await;
    session.exists("Deployment", "web", true).await;
    session
        .until("apps", "waits", |status| {
            let progress = condition(&status.conditions, ConditionType::Reconciling);
            progress.is_some_and(|progress| progress.message.starts_with("Running health checks"))
        })
        .await;
    let revision = session.commit(&[("apps/web.yaml", Some(&*workload("web", "registry.invalid/web:1")))]);
    let status = session.ready("apps", &revision).await;
    let healthy = condition(&status.conditions, ConditionType::Healthy).unwrap();
    assert_eq!((&*healthy.status, &*healthy.reason), ("True", "Succeeded"));
    session.end().await;
}

/// Named objects are awaited, also those of other owners, and no others.
async fn waits_for(named: serde_json::Value) {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/web.yaml", &*never_available()),
    ];
    let session = Session::anywhere(&files).await;
    session
        .kustomize("apps", "apps", json!({ "healthChecks": [named] }))
        .await;
    session
        .until("apps", "waits", |status| {
            let progress = condition(&status.conditions, ConditionType::Reconciling);
            progress.is_some_and(|progress| progress.message.starts_with("Running health checks"))
        })
        .await;
    let object = super::super::manifest("ConfigMap", "later", json!({}));
    session.create(serde_json::from_str(&object).unwrap()).await;
    session
        .until("apps", "is ready", |status| {
            condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| ready.status == "True")
        })
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_checks_name() {
    waits_for(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "later" })).await;
}

#[tokio::test]
async fn spec_health_checks_namespace() {
    waits_for(json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "later", "namespace": "@home" }))
        .await;
}

/// An object of that kind, and no other of that name.
#[tokio::test]
async fn spec_health_checks_kind() {
    let files = [
        ("apps/a.yaml", &*config("web", "one")),
        ("apps/web.yaml", &*never_available()),
    ];
    let session = Session::anywhere(&files).await;
    let check = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "web" }]);
    session
        .kustomize("apps", "apps", json!({ "healthChecks": check }))
        .await;
    session
        .until("apps", "is ready", |status| {
            condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| ready.status == "True")
        })
        .await;
    let check = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }]);
    session
        .patch(
            "apps",
            json!({ "spec": { "healthChecks": check, "timeout": "1s", "retryInterval": "1s" } }),
        )
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Deployment"), "{message}");
    session.end().await;
}

/// The default is `apps/v1`, as in Flux.
#[tokio::test]
async fn spec_health_checks_api_version_by_default() {
    let session = Session::anywhere(&[("apps/web.yaml", &*never_available())]).await;
    let check = json!([{ "kind": "Deployment", "name": "web" }]);
    session
        .kustomize(
            "apps",
            "apps",
            json!({ "healthChecks": check, "timeout": "1s", "retryInterval": "1s" }),
        )
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Deployment"), "{message}");
    let revision = session.commit(&[("apps/web.yaml", Some(&*workload("web", "registry.invalid/web:1")))]);
    session.ready("apps", &revision).await;
    session.end().await;
}

#[tokio::test]
async fn spec_health_checks_api_version() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "one"))]).await;
    let check = json!([{ "apiVersion": "absent.test/v1", "kind": "Nothing", "name": "a" }]);
    session
        .kustomize(
            "apps",
            "apps",
            json!({ "healthChecks": check, "timeout": "1s", "retryInterval": "1s" }),
        )
        .await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("Nothing"), "{message}");
    session.end().await;
}

fn is_ready(status: &equate_api::kustomize::KustomizationStatus) -> bool {
    condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| ready.status == "True")
}

/// A Kustomization of one ConfigMap with a value, with expressions about it.
async fn expressions(value: &str, check: serde_json::Value, spec: serde_json::Value) -> Session {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", value))]).await;
    let mut all = json!({ "wait": true, "healthCheckExprs": [check] });
    super::super::merge(&mut all, &spec);
    session.kustomize("apps", "apps", all).await;
    session
}

async fn running(session: &Session) {
    session
        .until("apps", "waits", |status| {
            let progress = condition(&status.conditions, ConditionType::Reconciling);
            progress.is_some_and(|progress| progress.message.starts_with("Running health checks"))
        })
        .await;
}

#[tokio::test]
async fn spec_health_check_exprs_current() {
    let check = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "data.value == 'two'" });
    let session = expressions("one", check, json!({})).await;
    running(&session).await;
    let revision = session.commit(&[("apps/a.yaml", Some(&*config("a", "two")))]);
    let status = session.ready("apps", &revision).await;
    let healthy = condition(&status.conditions, ConditionType::Healthy).unwrap();
    assert_eq!((&*healthy.status, &*healthy.reason), ("True", "Succeeded"));
    session.end().await;
}

#[tokio::test]
async fn spec_health_check_exprs_failed() {
    let check = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "true", "failed": "data.value == 'bad'" });
    let session = expressions("bad", check, json!({})).await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    let expected =
        session.here("failed early due to stalled resources: [ConfigMap/@home/a status: 'Failed']");
    assert!(message.ends_with(&expected), "{message}");
    session.end().await;
}

#[tokio::test]
async fn spec_health_check_exprs_in_progress() {
    let check = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "inProgress": "data.value == 'one'", "failed": "true", "current": "true",
    });
    let session = expressions("one", check, json!({ "timeout": "1s", "retryInterval": "1s" })).await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    let expected = session.here("timeout waiting for: [ConfigMap/@home/a status: 'InProgress']");
    assert!(message.ends_with(&expected), "{message}");
    session.end().await;
}

/// Only the group is compared.
#[tokio::test]
async fn spec_health_check_exprs_api_version() {
    let check = json!({ "apiVersion": "v7", "kind": "ConfigMap", "current": "data.value == 'two'" });
    let session = expressions("one", check, json!({ "timeout": "1s", "retryInterval": "1s" })).await;
    session.fails("apps", "HealthCheckFailed").await;
    let other = json!([{ "apiVersion": "other.test/v1", "kind": "ConfigMap", "current": "false" }]);
    session
        .patch("apps", json!({ "spec": { "healthCheckExprs": other } }))
        .await;
    session.until("apps", "is ready", is_ready).await;
    session.end().await;
}

/// None is all kinds of the group. A change evaluates the present objects again.
#[tokio::test]
async fn spec_health_check_exprs_kind() {
    let check = json!({ "apiVersion": "v1", "current": "data.value == 'two'" });
    let session = expressions("one", check, json!({ "timeout": "1s", "retryInterval": "1s" })).await;
    session.fails("apps", "HealthCheckFailed").await;
    for (check, ready) in [
        (
            json!({ "apiVersion": "v1", "kind": "Secret", "current": "false" }),
            true,
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "false" }),
            false,
        ),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "data.value == 'one'" }),
            true,
        ),
    ] {
        session
            .patch("apps", json!({ "spec": { "healthCheckExprs": [check] } }))
            .await;
        session
            .until("apps", "is told anew", |status| is_ready(status) == ready)
            .await;
    }
    session.end().await;
}

/// A missing field counts as in progress, with the cause in the message.
#[tokio::test]
async fn spec_health_check_exprs_current_of_a_field_that_is_not_there() {
    let check = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "status.ready" });
    let session = expressions("one", check, json!({ "timeout": "1s", "retryInterval": "1s" })).await;
    let message = session.fails("apps", "HealthCheckFailed").await;
    let expected = session.here(
        "timeout waiting for: [ConfigMap/@home/a status: 'Unknown': failed to evaluate the CEL expression \
         'status.ready': no such attribute(s): status.ready]",
    );
    assert!(message.ends_with(&expected), "{message}");
    session.end().await;
}

#[tokio::test]
async fn spec_health_check_exprs_current_that_cannot_be_read() {
    let check = json!({ "apiVersion": "v1", "kind": "ConfigMap", "current": "data." });
    let session = expressions("one", check, json!({})).await;
    let message = session.fails("apps", "InvalidCELExpression").await;
    let expected = "Reconciliation failed terminally due to configuration error: failed to create custom status \
                    evaluator for healthchecks[0]: failed to parse the expression Current: ";
    assert!(message.starts_with(expected), "{message}");
    session.exists("ConfigMap", "a", false).await;
    session.end().await;
}

/// Each Kustomization has its own expressions for the same object, and learns of its changes.
#[tokio::test]
async fn spec_health_check_exprs_current_of_what_another_made() {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("more/b.yaml", &*config("b", "one")),
    ];
    let mut session = Session::anywhere(&files).await;
    let spec = |value: &str| {
        json!({
            "healthChecks": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "later" }],
            "healthCheckExprs": [
                { "apiVersion": "v1", "kind": "ConfigMap", "current": format!("data.value == '{value}'") },
            ],
        })
    };
    session.kustomize("apps", "apps", spec("two")).await;
    session.kustomize("more", "more", spec("three")).await;
    running(&session).await;
    session
        .create(serde_json::from_str(&config("later", "one")).unwrap())
        .await;
    let home = session.here("@home");
    let set = async |session: &Session, value: &str| {
        let patch = json!({ "data": { "value": value } });
        session
            .merge::<k8s_openapi::api::core::v1::ConfigMap>(&home, "later", patch)
            .await;
    };
    set(&session, "two").await;
    session.until("apps", "is ready", is_ready).await;
    session.until("more", "is not", |status| !is_ready(status)).await;
    session.engine(crate::session::Options::default()).await;
    set(&session, "three").await;
    session.until("more", "is ready", is_ready).await;
    session.end().await;
}
