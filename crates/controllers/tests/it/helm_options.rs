//! HelmReleases with the options of their spec, on the embedded API.

use equate_api::helm::HelmRelease;
use equate_api::meta::{ConditionType, condition};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::helm_releases::{
    DEPLOYMENT, change, conditions, has_event, is, map, ready, records, release, start, until,
};
use crate::session::DEADLINE;
use crate::tenancy;
use equate_testkit::eventually::eventually;

const BROKEN: &str = "ImagePullBackOff";

#[tokio::test]
async fn a_release_of_helm_is_taken_over() {
    let mut session = start(&[]).await;
    release(&session, "app", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    let before = map(&session, "app-map").await.unwrap();
    // as if Helm had written it: no status, no annotation of ours
    session.stop().await;
    let secrets: Api<Secret> = Api::namespaced(session.client.clone(), &session.home);
    let patch = json!({ "metadata": { "annotations": { "helm.equate.dev/operation": null } } });
    session
        .merge::<Secret>("@home", "sh.helm.release.v1.app.v1", patch)
        .await;
    let bare = json!({ "metadata": { "finalizers": null } });
    session.merge::<HelmRelease>("@home", "app", bare).await;
    session.delete::<HelmRelease>("@home", "app").await;
    assert!(
        secrets
            .get_opt("sh.helm.release.v1.app.v1")
            .await
            .unwrap()
            .is_some()
    );
    session.engine(crate::session::Options::default()).await;
    release(&session, "app", json!({ "values": { "value": "ours" } })).await;
    let status = ready(&session, "app", "UpgradeSucceeded", 2).await;
    assert_eq!(status.history.len(), 1);
    assert_eq!(records(&session, "app").await, ["v1 superseded", "v2 deployed"]);
    let after = map(&session, "app-map").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.data.unwrap()["value"], "ours");
    session.end().await;
}

#[tokio::test]
async fn a_failed_install_is_removed_before_the_next_attempt() {
    let session = start(&[DEPLOYMENT]).await;
    let broken = json!({ "annotations": { "equate.dev/simulate": BROKEN } });
    release(
        &session,
        "app",
        json!({ "timeout": "2s", "values": broken, "install": { "remediation": { "retries": 1 } } }),
    )
    .await;
    let status = until(&session, "app", "no retries are left", |status| {
        is(status, ConditionType::Stalled, "True", "RetriesExceeded")
    })
    .await;
    assert_eq!(status.install_failures, Some(2), "{:?}", conditions(&status));
    has_event(
        &session,
        "app",
        "UninstallSucceeded Helm uninstall remediation for release",
    )
    .await;
    // the last failure stays, so that it can be looked at
    assert_eq!(records(&session, "app").await, ["v1 failed"]);
    assert!(map(&session, "app-map").await.is_some());
    session.end().await;
}

#[tokio::test]
async fn failures_are_retried_without_remediation() {
    let session = start(&[DEPLOYMENT]).await;
    let broken = json!({ "annotations": { "equate.dev/simulate": BROKEN } });
    let retry = json!({ "strategy": { "name": "RetryOnFailure", "retryInterval": "1s" } });
    release(
        &session,
        "app",
        json!({ "timeout": "2s", "values": broken, "install": retry, "upgrade": retry }),
    )
    .await;
    until(&session, "app", "it is tried again", |status| {
        status.history.first().is_some_and(|latest| latest.version >= 2)
    })
    .await;
    change(&session, "app", json!({ "spec": { "values": null } })).await;
    let status = until(&session, "app", "ready", |status| {
        is(status, ConditionType::Ready, "True", "UpgradeSucceeded")
    })
    .await;
    assert_eq!(status.install_failures.unwrap_or_default(), 0);
    session.end().await;
}

fn test_hook(annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: check\n  annotations: {{helm.sh/hook: test{annotations}}}\nspec:\n  \
         restartPolicy: Never\n  containers:\n  - {{name: main, image: busybox}}\n"
    )
}

#[tokio::test]
async fn tests_of_the_chart_run_after_the_release() {
    let hook = test_hook("");
    let session = start(&[("charts/app/templates/test.yaml", &hook)]).await;
    release(&session, "app", json!({ "test": { "enable": true } })).await;
    let status = ready(&session, "app", "TestSucceeded", 1).await;
    let tested = condition(&status.conditions, ConditionType::TestSuccess).unwrap();
    assert!(
        tested
            .message
            .ends_with("with chart app@1.0.0: 1 test hook completed successfully"),
        "{}",
        tested.message
    );
    let hooks = status.history[0].test_hooks.clone().unwrap();
    assert!(hooks.contains_key("check"), "{hooks:?}");
    session.end().await;
}

#[tokio::test]
async fn a_failed_test_fails_the_release() {
    let hook = test_hook(", equate.dev/simulate: Error");
    let session = start(&[("charts/app/templates/test.yaml", &hook)]).await;
    release(
        &session,
        "app",
        json!({ "test": { "enable": true }, "timeout": "10s" }),
    )
    .await;
    let status = until(&session, "app", "the test failed", |status| {
        is(status, ConditionType::Stalled, "True", "RetriesExceeded")
    })
    .await;
    assert!(
        is(&status, ConditionType::TestSuccess, "False", "TestFailed"),
        "{:?}",
        conditions(&status)
    );
    assert!(is(&status, ConditionType::Released, "True", "InstallSucceeded"));
    session.end().await;
}

#[tokio::test]
async fn namespaces_names_and_metadata_are_those_of_the_spec() {
    let session = start(&[]).await;
    let post = json!([{ "kustomize": { "patches": [{
        "target": { "kind": "ConfigMap" },
        "patch": "- {op: add, path: /data/patched, value: \"yes\"}",
    }] } }]);
    release(
        &session,
        "app",
        json!({
            "targetNamespace": "elsewhere",
            "storageNamespace": session.home,
            "releaseName": "mine",
            "install": { "createNamespace": true },
            "commonMetadata": { "labels": { "team": "a" } },
            "postRenderers": post,
        }),
    )
    .await;
    let status = ready(&session, "app", "InstallSucceeded", 1).await;
    assert_eq!(status.history[0].namespace, "elsewhere");
    assert_eq!(records(&session, "mine").await, ["v1 deployed"]);
    let spaces: Api<Namespace> = Api::all(session.client.clone());
    assert!(spaces.get_opt("elsewhere").await.unwrap().is_some());
    let applied: ConfigMap = session.get("elsewhere", "mine-map").await.unwrap();
    assert_eq!(applied.data.unwrap()["patched"], "yes");
    assert_eq!(applied.metadata.labels.unwrap()["team"], "a");

    // another name is another release: the old one goes first
    change(&session, "app", json!({ "spec": { "releaseName": "other" } })).await;
    until(&session, "app", "installed anew", |status| {
        status
            .history
            .first()
            .is_some_and(|latest| latest.name == "other" && latest.status == "deployed")
    })
    .await;
    assert!(records(&session, "mine").await.is_empty());
    assert!(session.get::<ConfigMap>("elsewhere", "mine-map").await.is_none());
    session.end().await;
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const WIDGET: &str = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\n";

#[tokio::test]
async fn definitions_of_the_chart_come_first_and_stay() {
    let session = start(&[
        ("charts/app/crds/widget.yaml", CRD),
        ("charts/app/templates/widget.yaml", WIDGET),
    ])
    .await;
    release(&session, "app", json!({ "upgrade": { "crds": "CreateReplace" } })).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    let changed = CRD.replace("singular: widget,", "singular: widget, shortNames: [wd],");
    session.commit(&[
        ("charts/app/crds/widget.yaml", Some(&changed)),
        (
            "charts/app/Chart.yaml",
            Some("apiVersion: v2\nname: app\nversion: 1.1.0\n"),
        ),
    ]);
    let push = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "push" } } });
    session
        .merge::<equate_api::source::GitRepository>("@home", "fleet", push)
        .await;
    ready(&session, "app", "UpgradeSucceeded", 2).await;
    let definition = definitions.get("widgets.example.org").await.unwrap();
    assert_eq!(definition.spec.names.short_names, Some(vec!["wd".to_owned()]));
    session.delete::<HelmRelease>("@home", "app").await;
    eventually("the release is gone", DEADLINE, async || {
        let left: Option<HelmRelease> = session.get("@home", "app").await;
        left.map_or(Ok(()), |_| Err("it is there"))
    })
    .await;
    assert!(
        definitions
            .get_opt("widgets.example.org")
            .await
            .unwrap()
            .is_some()
    );
    session.end().await;
}

#[tokio::test]
async fn a_kind_without_a_definition_fails_before_anything_changes() {
    let session = start(&[("charts/app/templates/widget.yaml", WIDGET)]).await;
    release(&session, "app", json!({})).await;
    let status = until(&session, "app", "refused", |status| {
        is(status, ConditionType::Released, "False", "InstallFailed")
    })
    .await;
    let released = condition(&status.conditions, ConditionType::Released).unwrap();
    let why = "unable to build kubernetes objects from release manifest: the cluster has no kind Widget in \
               example.org/v1; is its CustomResourceDefinition applied?";
    assert!(released.message.ends_with(why), "{}", released.message);
    assert!(records(&session, "app").await.is_empty());
    assert!(map(&session, "app-map").await.is_none());
    session.end().await;
}

#[tokio::test]
async fn a_definition_made_for_want_of_one_gives_way_to_the_charts() {
    let complete = CRD.replace("singular: widget,", "singular: widget, shortNames: [wd],");
    let takes_nothing = json!({ "install": { "disableTakeOwnership": true } });
    for place in ["crds", "templates"] {
        let file = format!("charts/app/{place}/definition.yaml");
        let session = start(&[(&file, &complete)]).await;
        let made = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "widgets.example.org", "annotations": { "equate.dev/definition": "schemaless" },
            },
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": { "kind": "Widget", "plural": "widgets" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } },
                }],
            },
        });
        let made: CustomResourceDefinition = serde_json::from_value(made).unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(session.client.clone());
        definitions.create(&PostParams::default(), &made).await.unwrap();
        release(&session, "app", takes_nothing.clone()).await;
        ready(&session, "app", "InstallSucceeded", 1).await;
        let definition = definitions.get("widgets.example.org").await.unwrap();
        assert_eq!(
            definition.spec.names.short_names,
            Some(vec!["wd".to_owned()]),
            "{place}"
        );
        session.end().await;
    }
}

#[tokio::test]
async fn objects_of_others_are_adopted_unless_the_spec_forbids_it() {
    let session = start(&[]).await;
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "app-map", "namespace": session.home } });
    let other: ConfigMap = serde_json::from_value(other).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), &session.home);
    maps.create(&PostParams::default(), &other).await.unwrap();
    let ours_only = json!({ "disableTakeOwnership": true });
    release(&session, "app", json!({ "install": ours_only })).await;
    let status = until(&session, "app", "refused", |status| {
        is(status, ConditionType::Released, "False", "InstallFailed")
    })
    .await;
    let released = condition(&status.conditions, ConditionType::Released).unwrap();
    assert!(
        released.message.contains("ConfigMap \"app-map\" in namespace")
            && released.message.contains("invalid ownership metadata"),
        "{}",
        released.message
    );
    assert!(records(&session, "app").await.is_empty());
    change(
        &session,
        "app",
        json!({ "spec": { "install": { "disableTakeOwnership": false } } }),
    )
    .await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    session.end().await;
}

#[tokio::test]
async fn a_kept_history_shows_the_removal() {
    let session = start(&[]).await;
    release(&session, "app", json!({ "uninstall": { "keepHistory": true } })).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    session.delete::<HelmRelease>("@home", "app").await;
    eventually("the release is gone", DEADLINE, async || {
        let left: Option<HelmRelease> = session.get("@home", "app").await;
        left.map_or(Ok(()), |_| Err("it is there"))
    })
    .await;
    assert_eq!(records(&session, "app").await, ["v1 uninstalled"]);
    assert!(map(&session, "app-map").await.is_none());
    session.end().await;
}

#[tokio::test]
async fn a_suspended_release_is_left_alone_and_removed_without_its_objects() {
    let session = start(&[]).await;
    release(&session, "app", json!({})).await;
    ready(&session, "app", "InstallSucceeded", 1).await;
    change(
        &session,
        "app",
        json!({ "spec": { "suspend": true, "values": { "value": "later" } } }),
    )
    .await;
    session.delete::<HelmRelease>("@home", "app").await;
    eventually("the release is gone", DEADLINE, async || {
        let left: Option<HelmRelease> = session.get("@home", "app").await;
        left.map_or(Ok(()), |_| Err("it is there"))
    })
    .await;
    assert_eq!(
        map(&session, "app-map").await.unwrap().data.unwrap()["value"],
        "one"
    );
    assert_eq!(records(&session, "app").await, ["v1 deployed"]);
    session.end().await;
}

#[tokio::test]
async fn a_service_account_limits_a_release() {
    let session = start(&[DEPLOYMENT]).await;
    release(&session, "app", json!({ "serviceAccountName": "deployer" })).await;
    let status = until(&session, "app", "it may not read the records", |status| {
        conditions(status).join("\n").contains("forbidden")
    })
    .await;
    let shown = conditions(&status).join("\n");
    assert!(
        shown.contains("secrets") && shown.contains("forbidden"),
        "{shown}"
    );
    assert!(map(&session, "app-map").await.is_none());
    session.end().await;
}

#[tokio::test]
async fn a_chart_reference_needs_no_chart_of_its_own() {
    let session = start(&[]).await;
    let chart = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": { "name": "shared", "labels": session.labels() },
        "spec": { "interval": "10m", "chart": "charts/app", "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
    });
    tenancy::create::<equate_api::source::HelmChart>(&session, "@home", chart).await;
    let by_reference = json!({ "chart": null, "chartRef": { "kind": "HelmChart", "name": "shared" } });
    release(&session, "app", by_reference.clone()).await;
    let status = ready(&session, "app", "InstallSucceeded", 1).await;
    assert_eq!(status.helm_chart, None);
    release(&session, "own", json!({})).await;
    ready(&session, "own", "InstallSucceeded", 1).await;
    let own = format!("{}-own", session.home);
    assert!(
        session
            .get::<equate_api::source::HelmChart>("@home", &own)
            .await
            .is_some()
    );
    change(&session, "own", json!({ "spec": by_reference })).await;
    eventually("its own chart is gone", DEADLINE, async || {
        let left = session.get::<equate_api::source::HelmChart>("@home", &own).await;
        left.map_or(Ok(()), |_| Err("it is there"))
    })
    .await;
    assert_eq!(records(&session, "own").await, ["v1 deployed"]);
    session.end().await;
}
