//! The options of an install.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{
    KIND, event, fails, installed, ready, records, release, stalls, start, start_with, value, written,
};
use crate::fields::manifest;
use crate::fields::objects::told;
use crate::session::{Options, Session};

/// A CRD of this session.
pub(super) const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.@home.example.org}
spec:
  group: \"@home.example.org\"
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// The short names of that CRD; none where it is absent.
pub(super) async fn short_names(session: &Session) -> Option<Vec<String>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    let name = session.here("widgets.@home.example.org");
    let found = definitions.get_opt(&name).await.unwrap()?;
    Some(found.spec.names.short_names.unwrap_or_default())
}

/// Creates the CRD without its short name.
pub(super) async fn older_definition(session: &Session) {
    let mut object: Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.@home.example.org" },
        "spec": {
            "group": "@home.example.org", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    object = serde_json::from_str(&session.here(&object.to_string())).unwrap();
    let definition: CustomResourceDefinition = serde_json::from_value(object).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
}

/// The short names after an install, without and with an older CRD.
async fn defined(install: Value, absent: Option<&[&str]>, older: &[&str]) {
    for (has_older, expected) in [(false, absent), (true, Some(older))] {
        let session = start_with(&[("charts/app/crds/widget.yaml", CRD)], Options::default()).await;
        if has_older {
            older_definition(&session).await;
        }
        installed(&session, json!({ "install": install })).await;
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(short_names(&session).await, expected, "{install} {has_older}");
        session.end().await;
    }
}

#[tokio::test]
async fn spec_install_crds_skip() {
    defined(json!({ "crds": "Skip" }), None, &[]).await;
}

#[tokio::test]
async fn spec_install_crds_create() {
    defined(json!({ "crds": "Create" }), Some(&["wd"]), &[]).await;
    defined(json!({}), Some(&["wd"]), &[]).await;
}

#[tokio::test]
async fn spec_install_crds_create_replace() {
    defined(json!({ "crds": "CreateReplace" }), Some(&["wd"]), &["wd"]).await;
}

#[tokio::test]
async fn spec_install_skip_crds() {
    defined(json!({ "skipCRDs": true }), None, &[]).await;
}

#[tokio::test]
async fn spec_install_create_namespace() {
    for creates in [true, false] {
        let session = start().await;
        let install = json!({ "createNamespace": creates });
        let spec = json!({ "targetNamespace": "@home-new", "releaseName": "app", "install": install });
        release(&session, "app", spec).await;
        match creates {
            true => {
                let value = json!("one");
                session
                    .is_in("@home-new", "ConfigMap", "app-map", "/data/value", value)
                    .await;
            }
            false => drop(stalls(&session, "InstallFailed", "@home-new").await),
        }
        session.end().await;
    }
}

/// A hook of an install runs, or does not.
async fn hooked(disabled: bool) {
    let session = start().await;
    let install = json!({ "disableHooks": disabled });
    installed(
        &session,
        json!({ "values": { "pre-install": "plain" }, "install": install }),
    )
    .await;
    session.exists("ConfigMap", "app-pre-install", !disabled).await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_disable_hooks() {
    hooked(true).await;
    hooked(false).await;
}

/// Of either value: the API server validates.
#[tokio::test]
async fn spec_install_disable_open_apivalidation() {
    let field = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\nunknown: true\n";
    for disabled in [true, false] {
        let session = start_with(&[("charts/app/templates/odd.yaml", field)], Options::default()).await;
        let install = json!({ "disableOpenAPIValidation": disabled });
        release(&session, "app", json!({ "install": install })).await;
        stalls(&session, "InstallFailed", "unknown").await;
        session.end().await;
    }
}

const SCHEMA: (&str, &str) = (
    "charts/app/values.schema.json",
    r#"{"type": "object", "properties": {"value": {"enum": ["one", "two"]}}}"#,
);

#[tokio::test]
async fn spec_install_disable_schema_validation() {
    let session = start_with(&[SCHEMA], Options::default()).await;
    release(&session, "app", json!({ "values": { "value": "odd" } })).await;
    fails(&session, "InstallFailed", "schema").await;
    session
        .respec(
            KIND,
            "app",
            json!({ "install": { "disableSchemaValidation": true } }),
        )
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    value(&session, "odd").await;
    session.end().await;
}

/// An object that exists already.
#[tokio::test]
async fn spec_install_disable_take_ownership() {
    let session = start().await;
    let theirs = manifest("ConfigMap", "app-map", json!({ "data": { "value": "theirs" } }));
    session.create(serde_json::from_str(&theirs).unwrap()).await;
    release(
        &session,
        "app",
        json!({ "install": { "disableTakeOwnership": true } }),
    )
    .await;
    fails(&session, "InstallFailed", "invalid ownership metadata").await;
    value(&session, "theirs").await;
    session
        .respec(
            KIND,
            "app",
            json!({ "install": { "disableTakeOwnership": false } }),
        )
        .await;
    ready(&session, "InstallSucceeded", 1).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_disable_wait() {
    let session = start().await;
    installed(
        &session,
        json!({ "values": { "stuck": true }, "install": { "disableWait": true } }),
    )
    .await;
    session.exists("Deployment", "app-stuck", true).await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_disable_wait_for_jobs() {
    let session = start().await;
    release(
        &session,
        "app",
        json!({ "timeout": "1s", "values": { "job": true } }),
    )
    .await;
    stalls(&session, "InstallFailed", "Job/@home/app-job").await;
    let others = json!({ "releaseName": "other", "install": { "disableWaitForJobs": true } });
    session.respec(KIND, "app", others).await;
    session.reports(KIND, "app", "InstallSucceeded", "").await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_timeout() {
    let session = start().await;
    let spec = json!({ "timeout": "1h", "install": { "timeout": "1s" }, "values": { "stuck": true } });
    release(&session, "app", spec).await;
    stalls(&session, "InstallFailed", "timeout waiting for").await;
    session.end().await;
}

/// One more attempt, from nothing.
#[tokio::test]
async fn spec_install_remediation_retries() {
    let session = start().await;
    let install = json!({ "remediation": { "retries": 1 } });
    release(
        &session,
        "app",
        json!({ "install": install, "values": { "broken": true } }),
    )
    .await;
    let status = stalls(&session, "InstallFailed", "").await;
    assert_eq!(status["installFailures"], json!(2), "{status}");
    event(
        &session,
        "UninstallSucceeded Helm uninstall remediation for release",
    )
    .await;
    records(&session, &["v1 failed"]).await;
    session.end().await;
}

/// The failed release is removed, or it stays to be looked at.
#[tokio::test]
async fn spec_install_remediation_remediate_last_failure() {
    for last in [true, false] {
        let session = start().await;
        let install = json!({ "remediation": { "remediateLastFailure": last } });
        release(
            &session,
            "app",
            json!({ "install": install, "values": { "broken": true } }),
        )
        .await;
        session
            .condition(KIND, "app", "Stalled", "RetriesExceeded", "")
            .await;
        match last {
            true => {
                session
                    .condition(KIND, "app", "Remediated", "UninstallSucceeded", "")
                    .await;
                records(&session, &[]).await;
            }
            false => records(&session, &["v1 failed"]).await,
        }
        session.exists("ConfigMap", "app-map", !last).await;
        session.end().await;
    }
}

#[tokio::test]
async fn spec_install_remediation_ignore_test_failures() {
    for ignores in [true, false] {
        let session = start().await;
        let remediation = json!({ "ignoreTestFailures": ignores, "remediateLastFailure": true });
        let spec = json!({
            "install": { "remediation": remediation }, "test": { "enable": true },
            "values": { "test": "fails" },
        });
        release(&session, "app", spec).await;
        session
            .condition(KIND, "app", "TestSuccess", "TestFailed", "")
            .await;
        match ignores {
            true => {
                session.demand(KIND, "app", "now").await;
                let status = session.look(KIND, "@home", "app").await["status"].clone();
                assert_eq!(told(&status, "Remediated"), Value::Null, "{status}");
                assert_eq!(status["installFailures"], Value::Null, "{status}");
                records(&session, &["v1 deployed"]).await;
            }
            false => {
                session
                    .condition(KIND, "app", "Remediated", "UninstallSucceeded", "")
                    .await;
                records(&session, &[]).await;
            }
        }
        session.end().await;
    }
}

/// The name of a release whose history was kept.
#[tokio::test]
async fn spec_install_replace() {
    let session = start().await;
    installed(&session, json!({ "uninstall": { "keepHistory": true } })).await;
    super::delete(&session).await;
    session.exists(KIND, "app", false).await;
    records(&session, &["v1 uninstalled"]).await;
    release(&session, "app", json!({})).await;
    fails(&session, "InstallFailed", "release name check failed").await;
    session
        .respec(KIND, "app", json!({ "install": { "replace": true } }))
        .await;
    ready(&session, "InstallSucceeded", 2).await;
    value(&session, "one").await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_server_side_apply() {
    for (server_side, operation, other) in [(true, "Apply", "Update"), (false, "Update", "Apply")] {
        let session = start().await;
        installed(&session, json!({ "install": { "serverSideApply": server_side } })).await;
        written(&session, operation, other).await;
        session.end().await;
    }
}

/// Each attempt begins with a new install.
#[tokio::test]
async fn spec_install_strategy_name_remediate_on_failure() {
    let session = start().await;
    let install = json!({ "strategy": { "name": "RemediateOnFailure" }, "remediation": { "retries": 1 } });
    release(
        &session,
        "app",
        json!({ "install": install, "values": { "broken": true } }),
    )
    .await;
    stalls(&session, "InstallFailed", "").await;
    records(&session, &["v1 failed"]).await;
    session.end().await;
}

/// Each further attempt is an upgrade.
#[tokio::test]
async fn spec_install_strategy_name_retry_on_failure() {
    let session = start().await;
    let strategy = json!({ "strategy": { "name": "RetryOnFailure", "retryInterval": "1s" } });
    let spec = json!({ "install": strategy, "upgrade": strategy, "values": { "broken": true } });
    release(&session, "app", spec).await;
    event(&session, "UpgradeFailed").await;
    session
        .respec(KIND, "app", json!({ "values": { "broken": false } }))
        .await;
    session.reports(KIND, "app", "UpgradeSucceeded", "").await;
    session.end().await;
}

#[tokio::test]
async fn spec_install_strategy_retry_interval() {
    let session = start().await;
    let strategy = |interval: &str| json!({ "name": "RetryOnFailure", "retryInterval": interval });
    let metadata = json!({ "labels": { "reconcile.fluxcd.io/watch": "Enabled" } });
    let data = json!({ "values.yaml": "broken: true\n", "other": "extra: one\n" });
    let map = manifest(
        "ConfigMap",
        "values",
        json!({ "metadata": metadata, "data": data }),
    );
    session.create(serde_json::from_str(&map).unwrap()).await;
    let from = |key: &str| json!([{ "kind": "ConfigMap", "name": "values", "valuesKey": key }]);
    let spec = json!({ "install": { "strategy": strategy("1h") }, "valuesFrom": from("values.yaml") });
    release(&session, "app", spec).await;
    event(&session, "InstallFailed").await;
    records(&session, &["v1 failed"]).await;
    // whatever wakes it before its time, with the same inputs, is no reason to try again
    release(&session, "other", json!({ "valuesFrom": from("other") })).await;
    let extra = async |value: &str| {
        let expected = json!(value);
        session
            .is("ConfigMap", "other-extra", "/data/value", expected)
            .await;
    };
    extra("one").await;
    session
        .set(
            "ConfigMap",
            "values",
            json!({ "data": { "other": "extra: two\n" } }),
        )
        .await;
    extra("two").await;
    records(&session, &["v1 failed"]).await;
    session
        .respec(KIND, "app", json!({ "install": { "strategy": strategy("1s") } }))
        .await;
    event(&session, "UpgradeFailed").await;
    session.end().await;
}
