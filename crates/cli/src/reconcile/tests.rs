use super::{Args, Goal, RunState, reconcile, run_state};
use crate::failure::Failure;
use crate::fixture::{FLEET, Fixture};
use crate::objects::{self, Namespaces};
use crate::watch::watch_object;
use clap::Parser;
use equate_api::meta::{FORCE_AT, REQUESTED_AT, RESET_AT};
use futures::StreamExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parsed(line: &str) -> Args {
    let words = std::iter::once("reconcile").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap().args
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    printed_in(fixture, false, line).await
}

async fn printed_in(fixture: &Fixture, in_up: bool, line: &str) -> String {
    let mut out = Vec::new();
    match reconcile(
        (&fixture.connection.client, in_up),
        &fixture.kinds,
        &parsed(line),
        &mut out,
    )
    .await
    {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(error) => format!("{}error: {error}\n", String::from_utf8(out).unwrap()),
    }
}

#[tokio::test]
async fn releases_are_forced_and_reset() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let client = fixture.connection.client.clone();
    let here = Namespaces::One("flux-system".to_owned());
    let releases = objects::api(&client, fixture.kinds.named("HelmRelease").unwrap(), &here);
    let (said, ()) = futures::join!(
        printed(&fixture, "hr redis --force --reset"),
        controller(releases.clone(), "redis", "True", "installed"),
    );
    assert_eq!(said, "helmrelease/redis is ready: installed\n");
    let annotations = releases.get("redis").await.unwrap().metadata.annotations.unwrap();
    let requested = annotations.get(REQUESTED_AT);
    assert!(requested.is_some());
    assert_eq!(annotations.get(FORCE_AT), requested);
    assert_eq!(annotations.get(RESET_AT), requested);
    let refused = "error: --force is for HelmReleases, not for a GitRepository\n";
    assert_eq!(printed(&fixture, "source git fleet --force").await, refused);
    let refused = "error: --reset is for HelmReleases, not for a GitRepository\n";
    assert_eq!(printed(&fixture, "source git fleet --reset").await, refused);
}

/// Answers a request like a controller: handles its token and sets a condition.
async fn controller(api: Api<DynamicObject>, name: &str, status: &str, message: &str) {
    let mut states = watch_object(&api, name).boxed();
    while let Some(state) = states.next().await {
        let Ok(Some(object)) = state else { continue };
        let Some(token) = object
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(REQUESTED_AT))
        else {
            continue;
        };
        let condition = json!({
            "type": "Ready", "status": status, "reason": "Because", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": object.metadata.generation,
        });
        let patch = json!({ "status": { "conditions": [condition], "lastHandledReconcileAt": token } });
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        return;
    }
}

#[tokio::test]
async fn reconciliation_is_requested_and_awaited() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let client = fixture.connection.client.clone();
    let here = Namespaces::One("flux-system".to_owned());
    let served = |kind: &str| objects::api(&client, fixture.kinds.named(kind).unwrap(), &here);
    let (sources, kustomizations) = (served("GitRepository"), served("Kustomization"));

    let (said_ready, ()) = futures::join!(
        printed(&fixture, "source git fleet"),
        controller(sources.clone(), "fleet", "True", "stored"),
    );
    assert_eq!(said_ready, "gitrepository/fleet is ready: stored\n");

    let clear = json!({ "metadata": { "annotations": { REQUESTED_AT: null } } });
    sources
        .patch("fleet", &PatchParams::default(), &Patch::Merge(&clear))
        .await
        .unwrap();
    let (said_failed, (), ()) = futures::join!(
        printed(&fixture, "ks apps --with-source"),
        controller(sources, "fleet", "True", "stored again"),
        controller(kustomizations, "apps", "False", "no such file"),
    );
    assert_eq!(
        said_failed,
        "gitrepository/fleet is ready: stored again\n\
         error: Kustomization flux-system/apps is not ready: Because: no such file\n"
    );

    let check =
        async |line: &str, expected: &str| assert_eq!(printed(&fixture, line).await, expected, "{line}");
    check(
        "ks new -n default",
        "error: Kustomization default/new is suspended\n",
    )
    .await;
    check("ks", "error: missing the name of the Kustomization\n").await;
    check(
        "sources all x",
        "error: \"sources all x\" does not name a single kind\n",
    )
    .await;
    check(
        "alert x",
        "error: an Alert has no status, so its reconciliation cannot be observed\n",
    )
    .await;
    check(
        "hr redis --timeout 10ms",
        "error: HelmRelease flux-system/redis did not finish within 10ms: no controller has answered yet\n",
    )
    .await;
    // in another cluster Flux's own controller may answer
    for kind in ["ImageRepository", "Alert"] {
        let refused = format!("error: an {kind} is unsupported: Equate has no controller for it yet\n");
        assert_eq!(printed_in(&fixture, true, &format!("{kind} x")).await, refused);
    }
    check(
        "Kustomization/default/new",
        "error: Kustomization default/new is suspended\n",
    )
    .await;
    check(
        "Kustomization/default/new -n flux-system",
        "error: new is in namespace default, and --namespace says flux-system\n",
    )
    .await;
}

#[tokio::test]
async fn hints_name_the_object() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let client = fixture.connection.client.clone();
    let hint = async |line: &str| {
        let done = reconcile((&client, false), &fixture.kinds, &parsed(line), &mut Vec::new()).await;
        done.unwrap_err().hint_with_names().unwrap_or_default()
    };
    assert_eq!(
        hint("ks new -n default").await,
        "resume it with `equate resume kustomization new -n default`"
    );
    assert_eq!(
        hint("hr redis --timeout 10ms").await,
        "increase --timeout, or see the cause with `equate explain helmrelease redis -n flux-system`"
    );
    let here = Namespaces::One("flux-system".to_owned());
    let kustomizations = objects::api(&client, fixture.kinds.named("Kustomization").unwrap(), &here);
    let (said, ()) = futures::join!(
        hint("ks apps"),
        controller(kustomizations, "apps", "False", "no such file"),
    );
    assert_eq!(
        said,
        "see the cause with `equate explain kustomization apps -n flux-system`"
    );
}

#[test]
fn verdicts() {
    let check = |status: serde_json::Value, expected: RunState| {
        let object = json!({
            "apiVersion": "v1", "kind": "Kustomization", "metadata": { "name": "x", "generation": 2 }, "status": status,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        assert_eq!(run_state(&object, &Goal::Answered("t".to_owned())), expected);
    };
    let waiting = |why: &str| RunState::Waiting(why.to_owned());
    let ready = |status: &str, reason: &str, generation: i64| json!({ "type": "Ready", "status": status, "reason": reason, "message": "m", "observedGeneration": generation });
    let working =
        |reason: &str| json!({ "type": "Reconciling", "status": "True", "reason": reason, "message": "w" });
    let status = |conditions: Vec<serde_json::Value>| json!({ "lastHandledReconcileAt": "t", "conditions": conditions });
    let failed = || RunState::Failed {
        reason: "BuildFailed".to_owned(),
        message: "m".to_owned(),
    };
    check(json!({}), waiting("no controller has answered yet"));
    check(
        json!({ "lastHandledReconcileAt": "before", "conditions": [ready("False", "BuildFailed", 2)] }),
        waiting("no controller has answered yet"),
    );
    check(status(vec![ready("True", "Succeeded", 2)]), RunState::Ready);
    check(status(vec![ready("True", "Succeeded", 1)]), waiting("m"));
    check(
        status(vec![ready("True", "Succeeded", 2), working("Progressing")]),
        waiting("w"),
    );
    check(status(vec![ready("False", "BuildFailed", 2)]), failed());
    check(
        status(vec![
            ready("False", "BuildFailed", 2),
            working("ProgressingWithRetry"),
        ]),
        failed(),
    );
    check(
        status(vec![ready("False", "BuildFailed", 2), working("Progressing")]),
        waiting("w"),
    );
    check(
        status(vec![ready("False", "DependencyNotReady", 2)]),
        waiting("m"),
    );
}
