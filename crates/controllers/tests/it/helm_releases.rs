//! HelmReleases on the embedded API: charts of a git repository, simulated workloads, Helm's records.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use equate_api::meta::{ConditionType, condition};
use equate_api::source::HelmChart;
use equate_controllers::CommitWait;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::CustomResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, Options, Session};

const CHART: (&str, &str) = (
    "charts/app/Chart.yaml",
    "apiVersion: v2\nname: app\nversion: 1.0.0\nappVersion: \"7\"\n",
);
const VALUES: (&str, &str) = ("charts/app/values.yaml", "value: one\nimage: nginx:1\n");
const MAP: (&str, &str) = (
    "charts/app/templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-map\ndata:\n  value: {{ .Values.value | quote }}\n  \
     revision: {{ .Release.Revision | quote }}\n",
);
pub(crate) const DEPLOYMENT: (&str, &str) = (
    "charts/app/templates/deployment.yaml",
    "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: 1\n  selector:\n    \
     matchLabels: {app: a}\n  template:\n    metadata:\n      labels: {app: a}\n      annotations: {{ .Values.annotations | \
     default dict | toJson }}\n    spec:\n      containers:\n      - {name: main, image: {{ .Values.image }}}\n",
);

pub(crate) async fn start(files: &[(&str, &str)]) -> Session {
    let mut all = vec![CHART, VALUES, MAP];
    all.extend(files);
    let kinds = vec![HelmChart::crd(), HelmRelease::crd()];
    Session::with(
        &all,
        Options {
            kinds,
            ..Options::default()
        },
    )
    .await
}

fn spec(fields: Value) -> Value {
    let mut spec = json!({
        "interval": "10m",
        "chart": { "spec": { "chart": "charts/app", "sourceRef": { "kind": "GitRepository", "name": "fleet" } } },
    });
    for (field, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(field)),
            value => spec[field] = value.clone(),
        }
    }
    spec
}

pub(crate) async fn release(session: &Session, name: &str, fields: Value) {
    let object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": name, "namespace": session.home, "labels": session.labels() },
        "spec": spec(fields),
    });
    let object: HelmRelease = serde_json::from_value(object).unwrap();
    let releases: Api<HelmRelease> = Api::namespaced(session.client.clone(), &session.home);
    releases.create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) async fn change(session: &Session, name: &str, patch: Value) {
    session.merge::<HelmRelease>("@home", name, patch).await;
}

pub(crate) async fn until(
    session: &Session,
    name: &str,
    what: &str,
    passes: impl Fn(&HelmReleaseStatus) -> bool,
) -> HelmReleaseStatus {
    let what = format!("HelmRelease {name}: {what}");
    eventually(&what, DEADLINE, async || {
        let object: Option<HelmRelease> = session.get("@home", name).await;
        let status = object.and_then(|object| object.status).unwrap_or_default();
        match passes(&status) {
            true => Ok(status),
            false => Err(format!("{:?}", conditions(&status))),
        }
    })
    .await
}

pub(crate) fn conditions(status: &HelmReleaseStatus) -> Vec<String> {
    let each = status.conditions.iter();
    each.map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

pub(crate) fn is(status: &HelmReleaseStatus, of: ConditionType, is: &str, reason: &str) -> bool {
    condition(&status.conditions, of).is_some_and(|found| found.status == is && found.reason == reason)
}

pub(crate) async fn ready(session: &Session, name: &str, reason: &str, version: i64) -> HelmReleaseStatus {
    until(
        session,
        name,
        &format!("ready by {reason} at revision {version}"),
        |status| {
            is(status, ConditionType::Ready, "True", reason)
                && condition(&status.conditions, ConditionType::Reconciling).is_none()
                && status
                    .history
                    .first()
                    .is_some_and(|latest| latest.version == version)
        },
    )
    .await
}

/// The names and statuses of the records of a release, oldest first.
pub(crate) async fn records(session: &Session, name: &str) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), &session.home);
    let labels = format!("owner=helm,name={name}");
    let found = secrets
        .list(&ListParams::default().labels(&labels))
        .await
        .unwrap();
    let mut found: Vec<(i64, String)> = found
        .into_iter()
        .map(|secret| {
            let labels = secret.metadata.labels.unwrap();
            (labels["version"].parse().unwrap(), labels["status"].clone())
        })
        .collect();
    found.sort();
    found
        .into_iter()
        .map(|(version, status)| format!("v{version} {status}"))
        .collect()
}

pub(crate) async fn events(session: &Session, name: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(session.client.clone(), &session.home);
    let list = events.list(&ListParams::default()).await.unwrap();
    let about = list.items.into_iter().filter(|event| {
        event.involved_object.name.as_deref() == Some(name)
            && event.involved_object.kind.as_deref() == Some("HelmRelease")
    });
    about
        .map(|event| {
            format!(
                "{} {}",
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default()
            )
        })
        .collect()
}

pub(crate) async fn has_event(session: &Session, name: &str, text: &str) {
    eventually(
        &format!("an event of {name} with {text:?}"),
        DEADLINE,
        async || {
            let events = events(session, name).await;
            match events.iter().any(|event| event.contains(text)) {
                true => Ok(()),
                false => Err(events.join("\n")),
            }
        },
    )
    .await;
}

pub(crate) async fn map(session: &Session, name: &str) -> Option<ConfigMap> {
    session.get("@home", name).await
}

#[tokio::test]
async fn a_chart_is_installed_upgraded_and_removed() {
    let session = start(&[DEPLOYMENT]).await;
    release(&session, "app", json!({ "values": { "value": "two" } })).await;
    let status = ready(&session, "app", "InstallSucceeded", 1).await;
    let home = session.home.clone();
    assert!(
        conditions(&status).contains(&format!(
            "Released=True InstallSucceeded: Helm install succeeded for release {home}/app.v1 with chart app@1.0.0"
        )),
        "{:?}",
        conditions(&status)
    );
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.helm_chart, Some(format!("{home}/{home}-app")));
    assert_eq!(status.storage_namespace, Some(home.clone()));
    assert_eq!(status.last_attempted_revision.as_deref(), Some("1.0.0"));
    assert_eq!(status.history[0].app_version.as_deref(), Some("7"));
    assert_eq!(status.history[0].action.as_deref(), Some("install"));
    let held: Vec<String> = status
        .inventory
        .unwrap()
        .entries
        .into_iter()
        .map(|entry| entry.id)
        .collect();
    assert_eq!(
        held,
        [
            format!("{home}_app-map__ConfigMap"),
            format!("{home}_app_apps_Deployment")
        ]
    );
    assert_eq!(records(&session, "app").await, ["v1 deployed"]);
    let applied = map(&session, "app-map").await.unwrap();
    let (labels, annotations) = (
        applied.metadata.labels.unwrap(),
        applied.metadata.annotations.unwrap(),
    );
    assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(labels["helm.toolkit.fluxcd.io/name"], "app");
    assert_eq!(annotations["meta.helm.sh/release-name"], "app");
    assert_eq!(applied.data.unwrap()["value"], "two");

    change(
        &session,
        "app",
        json!({ "spec": { "values": { "value": "three" } } }),
    )
    .await;
    ready(&session, "app", "UpgradeSucceeded", 2).await;
    assert_eq!(records(&session, "app").await, ["v1 superseded", "v2 deployed"]);
    let data = map(&session, "app-map").await.unwrap().data.unwrap();
    assert_eq!((&*data["value"], &*data["revision"]), ("three", "2"));

    session.delete::<HelmRelease>("@home", "app").await;
    eventually("the release is gone", DEADLINE, async || {
        let left: Option<HelmRelease> = session.get("@home", "app").await;
        left.map_or(Ok(()), |left| {
            Err(format!("{:?}", conditions(&left.status.unwrap_or_default())))
        })
    })
    .await;
    assert!(map(&session, "app-map").await.is_none());
    assert!(records(&session, "app").await.is_empty());
    let chart: Option<HelmChart> = session.get("@home", &format!("{home}-app")).await;
    assert!(chart.is_none_or(|chart| chart.metadata.deletion_timestamp.is_some()));
    session.end().await;
}

/// The begin, the outcome, and Ready. The status of the HelmChart does not count.
#[tokio::test]
async fn an_install_writes_three_statuses() {
    let session = start(&[]).await;
    let mut counts = Vec::new();
    // on a busy machine, a wait of more than a second for the chart or a preparation writes one more
    while counts.last() != Some(&3) && counts.len() < 20 {
        let (name, before) = (format!("app-{}", counts.len()), session.stats().status_patches);
        release(&session, &name, json!({})).await;
        ready(&session, &name, "InstallSucceeded", 1).await;
        counts.push(session.stats().status_patches - before);
    }
    assert!(
        counts.contains(&3) && counts.iter().all(|count| *count >= 3),
        "{counts:?}"
    );
    session.end().await;
}

/// A crash after the creation of the HelmChart loses the status that names it.
#[tokio::test]
async fn chart_that_no_status_names_is_deleted_with_its_release() {
    let session = start(&[]).await;
    release(&session, "app", json!({ "dependsOn": [{ "name": "absent" }] })).await;
    until(&session, "app", "waits", |status| {
        is(status, ConditionType::Ready, "False", "DependencyNotReady")
    })
    .await;
    let name = format!("{}-app", session.home);
    assert!(session.get::<HelmChart>("@home", &name).await.is_some());
    let releases: Api<HelmRelease> = Api::namespaced(session.client.clone(), &session.home);
    let lost = Patch::Merge(json!({ "status": { "helmChart": null } }));
    releases
        .patch_status("app", &PatchParams::default(), &lost)
        .await
        .unwrap();
    session.delete::<HelmRelease>("@home", "app").await;
    eventually("release and chart are gone", DEADLINE, async || {
        let release = session.get::<HelmRelease>("@home", "app").await;
        let chart = session.get::<HelmChart>("@home", &name).await;
        match (release, chart) {
            (None, None) => Ok(()),
            left => Err(format!("{left:?}")),
        }
    })
    .await;
    session.end().await;
}

#[tokio::test]
async fn a_failed_upgrade_is_rolled_back_and_a_fix_goes_forward() {
    let session = start(&[DEPLOYMENT]).await;
    release(
        &session,
        "app",
        json!({ "timeout": "2s", "upgrade": { "remediation": { "retries": 1 } } }),
    )
    .await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    let broken = json!({ "annotations": { "equate.dev/simulate": "ImagePullBackOff" }, "value": "broken" });
    change(&session, "app", json!({ "spec": { "values": broken } })).await;
    let status = until(&session, "app", "no retries are left", |status| {
        is(status, ConditionType::Stalled, "True", "RetriesExceeded")
    })
    .await;
    assert!(
        is(&status, ConditionType::Ready, "False", "RollbackSucceeded"),
        "{:?}",
        conditions(&status)
    );
    assert!(is(
        &status,
        ConditionType::Remediated,
        "True",
        "RollbackSucceeded"
    ));
    assert_eq!(status.upgrade_failures, Some(2));
    // two attempts, each rolled back
    let records = records(&session, "app").await;
    assert_eq!(
        records.last().map(String::as_str),
        Some("v5 deployed"),
        "{records:?}"
    );
    assert_eq!(
        map(&session, "app-map").await.unwrap().data.unwrap()["value"],
        "one"
    );
    has_event(&session, "app", "UpgradeFailed Helm upgrade failed for release").await;
    has_event(
        &session,
        "app",
        "RollbackSucceeded Helm rollback to previous release",
    )
    .await;

    change(
        &session,
        "app",
        json!({ "spec": { "values": { "annotations": null, "value": "fixed" } } }),
    )
    .await;
    let status = ready(&session, "app", "UpgradeSucceeded", 6).await;
    assert_eq!((status.failures, status.upgrade_failures), (None, None));
    assert_eq!(
        map(&session, "app-map").await.unwrap().data.unwrap()["value"],
        "fixed"
    );
    session.end().await;
}

/// A release `app` whose pods never become ready.
async fn hanging_install() -> Session {
    let session = start(&[DEPLOYMENT]).await;
    let broken = json!({ "annotations": { "equate.dev/simulate": "ImagePullBackOff" } });
    release(&session, "app", json!({ "timeout": "1h", "values": broken })).await;
    until(&session, "app", "it waits", |status| {
        is(status, ConditionType::Ready, "Unknown", "Progressing") && status.inventory.is_some()
    })
    .await;
    session
}

#[tokio::test]
async fn a_fix_does_not_wait_for_a_rollout_that_hangs() {
    let session = hanging_install().await;
    change(
        &session,
        "app",
        json!({ "spec": { "values": { "annotations": null } } }),
    )
    .await;
    ready(&session, "app", "UpgradeSucceeded", 2).await;
    session.end().await;
}

#[tokio::test]
async fn a_record_that_is_deleted_during_its_operation_is_made_anew() {
    let session = hanging_install().await;
    session
        .delete::<Secret>("@home", "sh.helm.release.v1.app.v1")
        .await;
    change(
        &session,
        "app",
        json!({ "spec": { "values": { "annotations": null } } }),
    )
    .await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    assert_eq!(records(&session, "app").await, ["v1 deployed"]);
    session.end().await;
}

#[tokio::test]
async fn hooks_run_by_weight_and_are_deleted_by_policy() {
    let job = |name: &str, hook: &str, weight: &str, policy: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n    helm.sh/hook: {hook}\n    \
             helm.sh/hook-weight: \"{weight}\"\n    helm.sh/hook-delete-policy: {policy}\nspec:\n  template:\n    spec:\n      \
             restartPolicy: Never\n      containers:\n      - {{name: main, image: busybox}}\n"
        )
    };
    let (first, second, after) = (
        job("first", "pre-install", "-5", "before-hook-creation"),
        job("second", "pre-install", "5", "hook-succeeded"),
        job("after", "post-install", "0", "before-hook-creation"),
    );
    let session = start(&[
        ("charts/app/templates/second.yaml", &second),
        ("charts/app/templates/first.yaml", &first),
        ("charts/app/templates/after.yaml", &after),
    ])
    .await;
    release(&session, "app", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    let log = session.faults.log();
    let written = |name: &str| {
        log.iter()
            .position(|call| call.path.ends_with(&format!("/{name}")) && call.method == "PATCH")
            .unwrap_or_else(|| panic!("{name} is not written: {log:?}"))
    };
    assert!(written("first") < written("second"));
    assert!(written("second") < written("app-map"));
    assert!(written("app-map") < written("after"));
    let left: [Option<Job>; 2] = [
        session.get("@home", "first").await,
        session.get("@home", "second").await,
    ];
    assert!(
        left[0].is_some()
            && left[1]
                .as_ref()
                .is_none_or(|job| job.metadata.deletion_timestamp.is_some())
    );
    session.end().await;
}

#[tokio::test]
async fn a_failed_hook_fails_the_install_at_once() {
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    helm.sh/hook: pre-install\nspec:\n  \
                backoffLimit: 0\n  template:\n    metadata:\n      annotations: {equate.dev/simulate: Error}\n    spec:\n      \
                restartPolicy: Never\n      containers:\n      - {name: main, image: busybox}\n";
    let session = start(&[("charts/app/templates/hook.yaml", hook)]).await;
    release(&session, "app", json!({ "timeout": "5s" })).await;
    let status = until(&session, "app", "the install failed", |status| {
        is(status, ConditionType::Stalled, "True", "RetriesExceeded")
    })
    .await;
    let released = condition(&status.conditions, ConditionType::Released).unwrap();
    assert!(
        released.message.contains("failed pre-install: "),
        "{}",
        released.message
    );
    assert!(released.message.contains("migrate"), "{}", released.message);
    assert_eq!(records(&session, "app").await, ["v1 failed"]);
    session.end().await;
}

#[tokio::test]
async fn drift_is_corrected_except_where_it_is_ignored() {
    let session = start(&[]).await;
    release(
        &session,
        "app",
        json!({ "driftDetection": { "mode": "enabled", "ignore": [{ "paths": ["/data/revision"] }] } }),
    )
    .await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    let patch = json!({ "data": { "value": "by hand", "revision": "9" } });
    session.merge::<ConfigMap>("@home", "app-map", patch).await;
    eventually("the value is corrected", DEADLINE, async || {
        let data = map(&session, "app-map").await.unwrap().data.unwrap();
        match data["value"].as_str() {
            "one" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    let data = map(&session, "app-map").await.unwrap().data.unwrap();
    assert_eq!(data["revision"], "9");
    has_event(&session, "app", "DriftDetected Cluster state of release").await;
    has_event(&session, "app", "DriftCorrected Cluster state of release").await;
    session.delete::<ConfigMap>("@home", "app-map").await;
    eventually("the object is created again", DEADLINE, async || {
        map(&session, "app-map").await.map(drop).ok_or("gone")
    })
    .await;
    // no revision more
    assert_eq!(records(&session, "app").await, ["v1 deployed"]);
    session.end().await;
}

#[tokio::test]
async fn values_come_from_config_maps_and_secrets() {
    let session = start(&[]).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "values", "namespace": session.home },
        "data": { "values.yaml": STANDARD.encode("value: hunter2-secret\n") },
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), &session.home);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    release(
        &session,
        "app",
        json!({ "valuesFrom": [{ "kind": "Secret", "name": "values" }] }),
    )
    .await;
    let status = ready(&session, "app", "InstallSucceeded", 1).await;
    assert_eq!(
        map(&session, "app-map").await.unwrap().data.unwrap()["value"],
        "hunter2-secret"
    );
    let shown = serde_json::to_string(&status).unwrap() + &events(&session, "app").await.join("\n");
    assert!(!shown.contains("hunter2"), "{shown}");
    release(
        &session,
        "other",
        json!({ "valuesFrom": [{ "kind": "ConfigMap", "name": "none" }] }),
    )
    .await;
    let home = session.home.clone();
    let status = until(&session, "other", "no values", |status| {
        is(status, ConditionType::Ready, "False", "ValuesError")
    })
    .await;
    let ready = condition(&status.conditions, ConditionType::Ready).unwrap();
    assert_eq!(
        ready.message,
        format!(
            "could not resolve ConfigMap chart values reference '{home}/none' with key 'values.yaml': configmaps \
             \"none\" not found"
        )
    );
    session.end().await;
}

#[tokio::test]
async fn unchanged_values_are_not_read_again() {
    let session = start(&[]).await;
    let values = |value: &str| json!({ "data": { "values.yaml": format!("value: {value}\n") } });
    let mut object = values("one");
    object["metadata"] = json!({ "name": "values", "namespace": session.home });
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), &session.home);
    maps.create(&PostParams::default(), &object).await.unwrap();
    let from = json!({ "valuesFrom": [{ "kind": "ConfigMap", "name": "values" }], "interval": "1s" });
    release(&session, "app", from).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    // two requests mean that a whole run lies between them
    let asked = async || {
        session.faults.clear_log();
        eventually("the values are asked for", DEADLINE, async || {
            let mut calls = session.faults.log();
            calls.retain(|call| call.path.ends_with("/configmaps/values"));
            match calls.len() {
                0..3 => Err(calls.len()),
                _ => Ok(calls),
            }
        })
        .await
    };
    let calls = asked().await;
    assert!(calls.iter().all(|call| call.metadata), "{calls:#?}");
    session.merge::<ConfigMap>("@home", "values", values("two")).await;
    ready(&session, "app", "UpgradeSucceeded", 2).await;
    assert_eq!(
        map(&session, "app-map").await.unwrap().data.unwrap()["value"],
        "two"
    );

    // values that are not valid are read once
    session.merge::<ConfigMap>("@home", "values", values("[")).await;
    until(&session, "app", "bad values", |status| {
        is(status, ConditionType::Ready, "False", "ValuesError")
    })
    .await;
    let calls = asked().await;
    assert!(calls.iter().all(|call| call.metadata), "{calls:#?}");
    session
        .merge::<ConfigMap>("@home", "values", values("three"))
        .await;
    ready(&session, "app", "UpgradeSucceeded", 3).await;
    session.end().await;
}

#[tokio::test]
async fn a_restart_takes_the_release_as_it_is() {
    let mut session = start(&[DEPLOYMENT]).await;
    release(&session, "app", json!({})).await;
    let before = ready(&session, "app", "InstallSucceeded", 1).await;
    session.engine(Options::default()).await;
    change(
        &session,
        "app",
        json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } }),
    )
    .await;
    let after = until(&session, "app", "the request is answered", |status| {
        status.last_handled_reconcile_at.as_deref() == Some("now")
    })
    .await;
    assert_eq!(after.history, before.history);
    assert_eq!(records(&session, "app").await, ["v1 deployed"]);
    // a forced release is one revision
    change(
        &session,
        "app",
        json!({ "metadata": { "annotations": {
            "reconcile.fluxcd.io/requestedAt": "later", "reconcile.fluxcd.io/forceAt": "later",
        } } }),
    )
    .await;
    let forced = ready(&session, "app", "UpgradeSucceeded", 2).await;
    assert_eq!(forced.last_handled_force_at.as_deref(), Some("later"));
    session.end().await;
}

#[tokio::test]
async fn an_interrupted_install_is_resumed_with_the_same_revision() {
    let mut session = start(&[DEPLOYMENT]).await;
    let slow = json!({ "annotations": { "equate.dev/simulate": "ImagePullBackOff" } });
    release(&session, "app", json!({ "timeout": "3s", "values": slow })).await;
    until(&session, "app", "it waits", |status| status.inventory.is_some()).await;
    assert_eq!(records(&session, "app").await, ["v1 pending-install"]);
    session.kill();
    session.engine(Options::default()).await;
    // it goes on waiting for the same revision, until its time is over
    until(&session, "app", "the install failed", |status| {
        is(status, ConditionType::Released, "False", "InstallFailed")
    })
    .await;
    assert_eq!(records(&session, "app").await, ["v1 failed"]);
    session.end().await;
}

#[tokio::test]
async fn a_strangers_pending_release_is_unlocked() {
    let mut session = start(&[]).await;
    release(&session, "app", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    session.stop().await;
    // as Helm leaves it when it is killed: another revision, without our annotation
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), &session.home);
    let mut stored = serde_json::to_value(secrets.get("sh.helm.release.v1.app.v1").await.unwrap()).unwrap();
    stored["kind"] = json!("Secret");
    let mut record = equate_helm::release::from_object(&stored).unwrap();
    record.version = 2;
    record.info.status = equate_helm::release::Status::PendingUpgrade;
    let pending = equate_helm::release::to_object(
        &record,
        equate_helm::release::Driver::Secret,
        &session.home,
        equate_helm::release::Stamp::Created(1),
    )
    .unwrap();
    let pending: Secret = serde_json::from_value(pending).unwrap();
    secrets.create(&PostParams::default(), &pending).await.unwrap();
    session.engine(Options::default()).await;
    ready(&session, "app", "UpgradeSucceeded", 3).await;
    has_event(&session, "app", "PendingRelease Unlocked Helm release").await;
    session.end().await;
}

#[tokio::test]
async fn dependencies_are_waited_for() {
    let session = start(&[]).await;
    release(&session, "app", json!({ "dependsOn": [{ "name": "db" }] })).await;
    let home = session.home.clone();
    until(&session, "app", "it waits", |status| {
        condition(&status.conditions, ConditionType::Ready).is_some_and(|ready| {
            ready.reason == "DependencyNotReady"
                && ready
                    .message
                    .contains(&format!("unable to get '{home}/db' dependency"))
        })
    })
    .await;
    release(&session, "db", json!({})).await;
    ready(&session, "db", "InstallSucceeded", 1).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn too_many_dependencies_are_refused() {
    let session = start(&[]).await;
    let on: Vec<_> = (0..1_001).map(|at| json!({ "name": format!("r{at}") })).collect();
    release(&session, "app", json!({ "dependsOn": on })).await;
    until(&session, "app", "it is stalled", |status| {
        condition(&status.conditions, ConditionType::Stalled)
            .is_some_and(|stalled| stalled.message.contains("spec.dependsOn has 1001 entries"))
    })
    .await;
    session.end().await;
}

#[tokio::test]
async fn a_new_chart_version_is_released() {
    let session = start(&[]).await;
    release(&session, "app", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    session.commit(&[(
        "charts/app/Chart.yaml",
        Some("apiVersion: v2\nname: app\nversion: 1.1.0\n"),
    )]);
    session
        .merge::<equate_api::source::GitRepository>(
            "@home",
            "fleet",
            json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "push" } } }),
        )
        .await;
    let status = ready(&session, "app", "UpgradeSucceeded", 2).await;
    assert_eq!(status.history[0].chart_version, "1.1.0");
    session.end().await;
}

/// The chart, its values and the spec of one commit.
fn commit_of(round: usize) -> [(&'static str, String); 3] {
    [
        (
            "charts/app/Chart.yaml",
            format!("apiVersion: v2\nname: app\nversion: 1.{round}.0\n"),
        ),
        (
            "apps/values.yaml",
            format!(
                "apiVersion: v1
kind: ConfigMap
metadata: {{ name: values, namespace: \"@home\", labels: {{ reconcile.fluxcd.io/watch: Enabled }} }}
data: {{ values.yaml: 'value: v{round}' }}
"
            ),
        ),
        (
            "apps/release.yaml",
            format!(
                "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {{ name: app, namespace: \"@home\" }}
spec:
  interval: 10m
  chart: {{ spec: {{ chart: charts/app, sourceRef: {{ kind: GitRepository, name: fleet }} }} }}
  valuesFrom: [{{ kind: ConfigMap, name: values }}]
  values: {{ image: nginx:{round} }}
"
            ),
        ),
    ]
}

#[tokio::test]
async fn one_commit_is_one_revision() {
    let first = commit_of(0);
    let first: Vec<(&str, &str)> = first.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let mut files = vec![CHART, VALUES, MAP];
    files.extend(first);
    let options = Options {
        kinds: vec![HelmChart::crd(), HelmRelease::crd()],
        // on a busy machine an apply takes longer than the default
        commit_wait: CommitWait(Duration::from_secs(60)),
        ..Options::default()
    };
    let session = Session::with(&files, options).await;
    session.kustomize("apps", "apps", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    for round in 1..=5 {
        let commit = commit_of(round);
        let commit: Vec<(&str, Option<&str>)> = commit
            .iter()
            .map(|(path, text)| (*path, Some(text.as_str())))
            .collect();
        session.commit(&commit);
        session
            .merge::<equate_api::source::GitRepository>(
                "@home",
                "fleet",
                json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": round.to_string() } } }),
            )
            .await;
        session
            .value("@home", "app-map", Some(&format!("v{round}")))
            .await;
        let chart = format!("1.{round}.0");
        let status = until(&session, "app", &format!("chart {chart}"), |status| {
            is(status, ConditionType::Ready, "True", "UpgradeSucceeded")
                && status.history[0].chart_version == chart
        })
        .await;
        let image = session.get::<HelmRelease>("@home", "app").await.unwrap();
        assert_eq!(image.spec.values.unwrap()["image"], format!("nginx:{round}"));
        let version = i64::try_from(round).unwrap() + 1;
        assert_eq!(status.history[0].version, version, "{:?}", status.history);
    }
    let again = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "end" } } });
    change(&session, "app", again).await;
    let status = until(&session, "app", "the request is answered", |status| {
        status.last_handled_reconcile_at.as_deref() == Some("end")
    })
    .await;
    assert_eq!(status.history[0].version, 6);
    session.end().await;
}
