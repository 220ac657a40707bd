//! The options of an upgrade.

use serde_json::{Value, json};

use super::install::{CRD, older_definition, short_names};
use super::{
    KIND, METADATA, event, fails, installed, push, ready, records, stalls, start, start_with, value, written,
};
use crate::fields::manifest;
use crate::fields::objects::told;
use crate::session::{Options, Session};

/// An install, and then an upgrade with other values and options.
async fn upgraded(session: &Session, upgrade: Value, values: Value) {
    installed(session, json!({})).await;
    session
        .respec(KIND, "app", json!({ "upgrade": upgrade, "values": values }))
        .await;
}

/// Another version of the chart, with more files.
async fn next_version(session: &Session, name: &str, files: &[(&str, Option<&str>)]) {
    let metadata = METADATA
        .replace("1.0.0", "1.1.0")
        .replace("name: app", &format!("name: {name}"));
    let mut all = vec![("charts/app/Chart.yaml", Some(&*metadata))];
    all.extend(files);
    push(session, &all).await;
}

/// A chart of another name is the same release.
#[tokio::test]
async fn spec_upgrade_chart_name_change_strategy_in_place_update() {
    let session = start().await;
    installed(
        &session,
        json!({ "upgrade": { "chartNameChangeStrategy": "InPlaceUpdate" } }),
    )
    .await;
    next_version(&session, "other", &[]).await;
    let status = ready(&session, "UpgradeSucceeded", 2).await;
    assert_eq!(status["history"][0]["chartName"], json!("other"));
    records(&session, &["v1 superseded", "v2 deployed"]).await;
    session.end().await;
}

/// It is another release: the old one goes first.
#[tokio::test]
async fn spec_upgrade_chart_name_change_strategy_reinstall() {
    let session = start().await;
    installed(
        &session,
        json!({ "upgrade": { "chartNameChangeStrategy": "Reinstall" } }),
    )
    .await;
    next_version(&session, "other", &[]).await;
    event(&session, "UninstallSucceeded").await;
    session
        .is(KIND, "app", "/status/history/0/chartName", json!("other"))
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    records(&session, &["v1 deployed"]).await;
    session.end().await;
}

/// The objects that a failed upgrade created.
#[tokio::test]
async fn spec_upgrade_cleanup_on_fail() {
    for cleans in [true, false] {
        let session = start().await;
        let values = json!({ "extra": "more", "broken": true });
        upgraded(&session, json!({ "cleanupOnFail": cleans }), values).await;
        stalls(&session, "UpgradeFailed", "").await;
        session.exists("ConfigMap", "app-extra", !cleans).await;
        session.exists("ConfigMap", "app-map", true).await;
        session.end().await;
    }
}

/// The short names after an upgrade to a version with a CRD, without and with an older CRD.
async fn defined(upgrade: Value, absent: Option<&[&str]>, older: &[&str]) {
    for (has_older, expected) in [(false, absent), (true, Some(older))] {
        let session = start().await;
        if has_older {
            older_definition(&session).await;
        }
        installed(&session, json!({ "upgrade": upgrade })).await;
        next_version(&session, "app", &[("charts/app/crds/widget.yaml", Some(CRD))]).await;
        ready(&session, "UpgradeSucceeded", 2).await;
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(short_names(&session).await, expected, "{upgrade} {has_older}");
        session.end().await;
    }
}

#[tokio::test]
async fn spec_upgrade_crds_skip() {
    defined(json!({ "crds": "Skip" }), None, &[]).await;
}

#[tokio::test]
async fn spec_upgrade_crds_create() {
    defined(json!({ "crds": "Create" }), Some(&["wd"]), &[]).await;
}

#[tokio::test]
async fn spec_upgrade_crds_create_replace() {
    defined(json!({ "crds": "CreateReplace" }), Some(&["wd"]), &["wd"]).await;
}

#[tokio::test]
async fn spec_upgrade_disable_hooks() {
    for disabled in [true, false] {
        let session = start().await;
        let values = json!({ "pre-upgrade": "plain", "value": "two" });
        upgraded(&session, json!({ "disableHooks": disabled }), values).await;
        ready(&session, "UpgradeSucceeded", 2).await;
        session.exists("ConfigMap", "app-pre-upgrade", !disabled).await;
        session.end().await;
    }
}

/// Of either value: the API server validates.
#[tokio::test]
async fn spec_upgrade_disable_open_apivalidation() {
    let field = "{{ if .Values.odd }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\nunknown: true\n{{ end }}";
    for disabled in [true, false] {
        let session = start_with(&[("charts/app/templates/odd.yaml", field)], Options::default()).await;
        let upgrade = json!({ "disableOpenAPIValidation": disabled });
        upgraded(&session, upgrade, json!({ "odd": true })).await;
        stalls(&session, "UpgradeFailed", "unknown").await;
        session.end().await;
    }
}

#[tokio::test]
async fn spec_upgrade_disable_schema_validation() {
    let schema = r#"{"type": "object", "properties": {"value": {"enum": ["one", "two"]}}}"#;
    let files = [("charts/app/values.schema.json", schema)];
    let session = start_with(&files, Options::default()).await;
    upgraded(&session, json!({}), json!({ "value": "odd" })).await;
    fails(&session, "UpgradeFailed", "schema").await;
    session
        .respec(
            KIND,
            "app",
            json!({ "upgrade": { "disableSchemaValidation": true } }),
        )
        .await;
    session.reports(KIND, "app", "UpgradeSucceeded", "").await;
    value(&session, "odd").await;
    session.end().await;
}

/// An object that exists already.
#[tokio::test]
async fn spec_upgrade_disable_take_ownership() {
    let session = start().await;
    let theirs = manifest("ConfigMap", "app-extra", json!({ "data": { "value": "theirs" } }));
    session.create(serde_json::from_str(&theirs).unwrap()).await;
    upgraded(
        &session,
        json!({ "disableTakeOwnership": true }),
        json!({ "extra": "ours" }),
    )
    .await;
    fails(&session, "UpgradeFailed", "invalid ownership metadata").await;
    session
        .is("ConfigMap", "app-extra", "/data/value", json!("theirs"))
        .await;
    session
        .respec(
            KIND,
            "app",
            json!({ "upgrade": { "disableTakeOwnership": false } }),
        )
        .await;
    session.reports(KIND, "app", "UpgradeSucceeded", "").await;
    session
        .is("ConfigMap", "app-extra", "/data/value", json!("ours"))
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_disable_wait() {
    let session = start().await;
    upgraded(&session, json!({ "disableWait": true }), json!({ "stuck": true })).await;
    ready(&session, "UpgradeSucceeded", 2).await;
    session.exists("Deployment", "app-stuck", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_disable_wait_for_jobs() {
    let session = start().await;
    upgraded(&session, json!({ "timeout": "1s" }), json!({ "job": true })).await;
    stalls(&session, "UpgradeFailed", "Job/@home/app-job").await;
    session
        .respec(KIND, "app", json!({ "upgrade": { "disableWaitForJobs": true } }))
        .await;
    session.reports(KIND, "app", "UpgradeSucceeded", "").await;
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_timeout() {
    let session = start().await;
    installed(
        &session,
        json!({ "timeout": "1h", "upgrade": { "timeout": "1s" } }),
    )
    .await;
    session
        .respec(KIND, "app", json!({ "values": { "stuck": true } }))
        .await;
    stalls(&session, "UpgradeFailed", "timeout waiting for").await;
    session.end().await;
}

/// Client-side, objects are replaced: fields of others go.
#[tokio::test]
async fn spec_upgrade_force() {
    for forced in [false, true] {
        let session = start().await;
        let upgrade = json!({ "serverSideApply": "disabled", "force": forced });
        installed(
            &session,
            json!({ "install": { "serverSideApply": false }, "upgrade": upgrade }),
        )
        .await;
        session
            .set("ConfigMap", "app-map", json!({ "data": { "theirs": "kept" } }))
            .await;
        session
            .respec(KIND, "app", json!({ "values": { "value": "two" } }))
            .await;
        ready(&session, "UpgradeSucceeded", 2).await;
        value(&session, "two").await;
        let left = if forced { Value::Null } else { json!("kept") };
        session.is("ConfigMap", "app-map", "/data/theirs", left).await;
        session.end().await;
    }
}

/// Values of the last release are kept where the spec has none.
#[tokio::test]
async fn spec_upgrade_preserve_values() {
    for (preserves, expected) in [(true, "two"), (false, "one")] {
        let session = start().await;
        let spec = json!({ "values": { "value": "two" }, "upgrade": { "preserveValues": preserves } });
        installed(&session, spec).await;
        session
            .respec(
                KIND,
                "app",
                json!({ "values": { "value": null, "extra": "more" } }),
            )
            .await;
        ready(&session, "UpgradeSucceeded", 2).await;
        session
            .is("ConfigMap", "app-extra", "/data/value", json!("more"))
            .await;
        value(&session, expected).await;
        // the release is as declared: no revision follows
        session.demand(KIND, "app", "again").await;
        records(&session, &["v1 superseded", "v2 deployed"]).await;
        session.end().await;
    }
}

/// One more attempt.
#[tokio::test]
async fn spec_upgrade_remediation_retries() {
    let session = start().await;
    let values = json!({ "broken": true, "value": "two" });
    upgraded(&session, json!({ "remediation": { "retries": 1 } }), values).await;
    let status = stalls(&session, "UpgradeFailed", "").await;
    assert_eq!(status["upgradeFailures"], json!(2), "{status}");
    session.end().await;
}

/// The last failure is rolled back, or it stays to be looked at.
#[tokio::test]
async fn spec_upgrade_remediation_remediate_last_failure() {
    for last in [true, false] {
        let session = start().await;
        let values = json!({ "broken": true, "value": "two" });
        let remediation = json!({ "remediation": { "remediateLastFailure": last } });
        upgraded(&session, remediation, values).await;
        stalls(&session, "UpgradeFailed", "").await;
        match last {
            true => {
                session.reports(KIND, "app", "RollbackSucceeded", "").await;
                value(&session, "one").await;
            }
            false => {
                session.reports(KIND, "app", "UpgradeFailed", "").await;
                value(&session, "two").await;
            }
        }
        session.end().await;
    }
}

#[tokio::test]
async fn spec_upgrade_remediation_strategy_rollback() {
    let session = start().await;
    let remediation = json!({ "retries": 1, "strategy": "rollback" });
    let values = json!({ "broken": true, "value": "two" });
    upgraded(&session, json!({ "remediation": remediation }), values).await;
    session
        .condition(KIND, "app", "Stalled", "RetriesExceeded", "")
        .await;
    session
        .condition(KIND, "app", "Remediated", "RollbackSucceeded", "")
        .await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_remediation_strategy_uninstall() {
    let session = start().await;
    let remediation = json!({ "retries": 1, "strategy": "uninstall" });
    let values = json!({ "broken": true, "value": "two" });
    upgraded(&session, json!({ "remediation": remediation }), values).await;
    event(
        &session,
        "UninstallSucceeded Helm uninstall remediation for release",
    )
    .await;
    // the next attempt begins from nothing
    event(&session, "InstallFailed").await;
    records(&session, &["v1 failed"]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_remediation_ignore_test_failures() {
    for ignores in [true, false] {
        let session = start().await;
        let remediation = json!({ "ignoreTestFailures": ignores, "remediateLastFailure": true });
        installed(&session, json!({ "upgrade": { "remediation": remediation } })).await;
        let values = json!({ "test": "fails", "value": "two" });
        session
            .respec(
                KIND,
                "app",
                json!({ "test": { "enable": true }, "values": values }),
            )
            .await;
        match ignores {
            true => {
                session
                    .condition(KIND, "app", "TestSuccess", "TestFailed", "")
                    .await;
                session.demand(KIND, "app", "now").await;
                let status = session.look(KIND, "@home", "app").await["status"].clone();
                assert_eq!(told(&status, "Remediated"), Value::Null, "{status}");
                records(&session, &["v1 superseded", "v2 deployed"]).await;
                value(&session, "two").await;
            }
            false => {
                session
                    .condition(KIND, "app", "Remediated", "RollbackSucceeded", "")
                    .await;
                value(&session, "one").await;
            }
        }
        session.end().await;
    }
}

/// The way in which an upgrade writes, after an install by the given way.
async fn by(mode: &str, install: bool, operation: &str, other: &str) {
    let session = start().await;
    let upgrade = json!({ "serverSideApply": mode });
    installed(
        &session,
        json!({ "install": { "serverSideApply": install }, "upgrade": upgrade }),
    )
    .await;
    session
        .respec(KIND, "app", json!({ "values": { "value": "two" } }))
        .await;
    ready(&session, "UpgradeSucceeded", 2).await;
    value(&session, "two").await;
    written(&session, operation, other).await;
    session.end().await;
}

/// Fields of earlier updates become those of the apply.
#[tokio::test]
async fn spec_upgrade_server_side_apply_enabled() {
    by("enabled", false, "Apply", "Update").await;
}

#[tokio::test]
async fn spec_upgrade_server_side_apply_disabled() {
    by("disabled", false, "Update", "Apply").await;
}

/// As the last release.
#[tokio::test]
async fn spec_upgrade_server_side_apply_auto() {
    by("auto", false, "Update", "Apply").await;
    by("auto", true, "Apply", "Update").await;
}

/// A failed upgrade is rolled back.
#[tokio::test]
async fn spec_upgrade_strategy_name_remediate_on_failure() {
    let session = start().await;
    let upgrade = json!({ "strategy": { "name": "RemediateOnFailure" }, "remediation": { "retries": 1 } });
    upgraded(&session, upgrade, json!({ "broken": true, "value": "two" })).await;
    event(&session, "RollbackSucceeded").await;
    session.end().await;
}

/// A failed upgrade is tried again, and not rolled back.
#[tokio::test]
async fn spec_upgrade_strategy_name_retry_on_failure() {
    let session = start().await;
    let strategy = json!({ "name": "RetryOnFailure", "retryInterval": "1s" });
    let values = json!({ "broken": true, "value": "two" });
    upgraded(&session, json!({ "strategy": strategy }), values).await;
    session
        .is(KIND, "app", "/status/history/0/version", json!(3))
        .await;
    value(&session, "two").await;
    session
        .respec(KIND, "app", json!({ "values": { "broken": false } }))
        .await;
    session.reports(KIND, "app", "UpgradeSucceeded", "").await;
    let events = crate::helm_releases::events(&session, "app").await.join("\n");
    assert!(!events.contains("Rollback"), "{events}");
    session.end().await;
}

#[tokio::test]
async fn spec_upgrade_strategy_retry_interval() {
    let session = start().await;
    let strategy = |interval: &str| json!({ "name": "RetryOnFailure", "retryInterval": interval });
    upgraded(
        &session,
        json!({ "strategy": strategy("1h") }),
        json!({ "broken": true }),
    )
    .await;
    event(&session, "UpgradeFailed").await;
    records(&session, &["v1 deployed", "v2 failed"]).await;
    session
        .respec(KIND, "app", json!({ "upgrade": { "strategy": strategy("1s") } }))
        .await;
    session
        .is(KIND, "app", "/status/history/0/version", json!(4))
        .await;
    session.end().await;
}
