//! The options of a rollback.

use serde_json::{Value, json};

use super::{KIND, installed, start, value, written};
use crate::session::Session;

/// An install with a spec, and an upgrade that fails and is rolled back with these options.
async fn failed(session: &Session, rollback: Value, spec: Value) {
    let mut whole = json!({
        "rollback": rollback,
        "upgrade": { "remediation": { "remediateLastFailure": true } },
    });
    crate::fields::merge(&mut whole, &spec);
    installed(session, whole).await;
    let values = json!({ "value": "two", "broken": true, "extra": null });
    session.respec(KIND, "app", json!({ "values": values })).await;
}

/// Waits until the rollback has ended for a reason.
async fn ended(session: &Session, reason: &str, message: &str) -> Value {
    session
        .condition(KIND, "app", "Remediated", reason, message)
        .await
}

/// The objects that a failed rollback created.
#[tokio::test]
async fn spec_rollback_cleanup_on_fail() {
    for cleans in [true, false] {
        let session = start().await;
        let values = json!({ "extra": "more", "post-rollback": "fails" });
        installed(
            &session,
            json!({
                "values": values,
                "rollback": { "cleanupOnFail": cleans },
                "upgrade": { "remediation": { "remediateLastFailure": true } },
            }),
        )
        .await;
        // an upgrade that deletes it, and fails in its hook
        let values = json!({ "extra": null, "value": "two", "stuck": true });
        let upgrade = json!({ "timeout": "2s" });
        session
            .respec(KIND, "app", json!({ "values": values, "upgrade": upgrade }))
            .await;
        ended(&session, "RollbackFailed", "app-post-rollback").await;
        session.exists("ConfigMap", "app-extra", !cleans).await;
        value(&session, "one").await;
        session.end().await;
    }
}

/// The hooks are those of the revision that comes back.
#[tokio::test]
async fn spec_rollback_disable_hooks() {
    for disabled in [true, false] {
        let session = start().await;
        let spec = json!({ "values": { "post-rollback": "plain" } });
        failed(&session, json!({ "disableHooks": disabled }), spec).await;
        ended(&session, "RollbackSucceeded", "").await;
        session.exists("ConfigMap", "app-post-rollback", !disabled).await;
        value(&session, "one").await;
        session.end().await;
    }
}

/// A revision that was not waited for, either.
async fn not_waited_for(object: &str, install: Value, rollback: Value, reason: &str) {
    let session = start().await;
    let spec = json!({ "values": { object: true }, "install": install });
    failed(&session, rollback, spec).await;
    ended(&session, reason, "").await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_rollback_disable_wait() {
    let install = json!({ "disableWait": true });
    not_waited_for(
        "stuck",
        install,
        json!({ "disableWait": true }),
        "RollbackSucceeded",
    )
    .await;
}

#[tokio::test]
async fn spec_rollback_disable_wait_for_jobs() {
    let off = json!({ "disableWaitForJobs": true });
    not_waited_for("job", off.clone(), off.clone(), "RollbackSucceeded").await;
    not_waited_for("job", off, json!({ "timeout": "1s" }), "RollbackFailed").await;
}

#[tokio::test]
async fn spec_rollback_timeout() {
    let session = start().await;
    let spec = json!({
        "timeout": "1h", "values": { "stuck": true }, "install": { "disableWait": true },
    });
    failed(&session, json!({ "timeout": "1s" }), spec).await;
    ended(&session, "RollbackFailed", "timeout waiting for").await;
    session.end().await;
}

/// Client-side, objects are replaced: fields of others go.
#[tokio::test]
async fn spec_rollback_force() {
    for forced in [false, true] {
        let session = start().await;
        let spec = json!({
            "rollback": { "force": forced },
            "install": { "serverSideApply": false },
            "upgrade": { "remediation": { "remediateLastFailure": true } },
        });
        installed(&session, spec).await;
        session
            .set("ConfigMap", "app-map", json!({ "data": { "theirs": "kept" } }))
            .await;
        let values = json!({ "value": "two", "broken": true });
        session.respec(KIND, "app", json!({ "values": values })).await;
        ended(&session, "RollbackSucceeded", "").await;
        value(&session, "one").await;
        let left = if forced { Value::Null } else { json!("kept") };
        session.is("ConfigMap", "app-map", "/data/theirs", left).await;
        session.end().await;
    }
}

/// As in Flux, it recreates nothing any more.
#[tokio::test]
async fn spec_rollback_recreate() {
    let session = start().await;
    let spec = json!({
        "values": { "web": "registry.invalid/web:1" },
        "rollback": { "recreate": true },
        "upgrade": { "remediation": { "remediateLastFailure": true } },
    });
    installed(&session, spec).await;
    let before = session.look("Deployment", "@home", "app-web").await;
    let values = json!({ "web": "registry.invalid/web:2", "broken": true });
    session.respec(KIND, "app", json!({ "values": values })).await;
    ended(&session, "RollbackSucceeded", "").await;
    let image = "/spec/template/spec/containers/0/image";
    session
        .is("Deployment", "app-web", image, json!("registry.invalid/web:1"))
        .await;
    session
        .is(
            "Deployment",
            "app-web",
            "/metadata/uid",
            before["metadata"]["uid"].clone(),
        )
        .await;
    session.end().await;
}

/// The way in which a rollback writes, after an install by the given way.
async fn by(mode: &str, install: bool, operation: &str, other: &str) {
    let session = start().await;
    let spec = json!({ "install": { "serverSideApply": install } });
    failed(&session, json!({ "serverSideApply": mode }), spec).await;
    ended(&session, "RollbackSucceeded", "").await;
    value(&session, "one").await;
    written(&session, operation, other).await;
    session.end().await;
}

#[tokio::test]
async fn spec_rollback_server_side_apply_enabled() {
    by("enabled", false, "Apply", "Update").await;
}

#[tokio::test]
async fn spec_rollback_server_side_apply_disabled() {
    by("disabled", false, "Update", "Apply").await;
}

/// As the revision that comes back.
#[tokio::test]
async fn spec_rollback_server_side_apply_auto() {
    by("auto", false, "Update", "Apply").await;
    by("auto", true, "Apply", "Update").await;
}
