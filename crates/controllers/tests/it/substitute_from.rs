//! `spec.postBuild.substituteFrom`: precedence of values, times of reading, and secrecy.

use equate_api::source::OciRepository;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Rule, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Options, Session, all_kinds, config_map, ready};

const LABEL: &str = "reconcile.fluxcd.io/watch";
/// A secret value that must not leak.
const HIDDEN: &str = "hunter2-and-more";

/// Creates a ConfigMap or Secret in the Kustomizations' namespace.
async fn make(session: &Session, kind: &str, name: &str, labels: Value, values: Value) {
    let meta = json!({ "name": name, "namespace": HOME, "labels": labels });
    let params = PostParams::default();
    if kind == "Secret" {
        let object = json!({ "metadata": meta, "stringData": values });
        let api: Api<Secret> = Api::namespaced(session.client.clone(), HOME);
        api.create(&params, &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    } else {
        let object = json!({ "metadata": meta, "data": values });
        let api: Api<ConfigMap> = Api::namespaced(session.client.clone(), HOME);
        api.create(&params, &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }
}

/// The number of reads of an object by name.
fn reads(session: &Session, name: &str) -> usize {
    let log = session.faults.log();
    let path = format!("/{name}");
    log.iter()
        .filter(|call| !call.is_write() && call.path.ends_with(&path))
        .count()
}

async fn runs(session: &Session, more: u64) {
    let reached = session.stats().runs + more;
    let look = async || match session.stats().runs {
        runs if runs >= reached => Ok(()),
        runs => Err(runs),
    };
    eventually("it ran again", DEADLINE, look).await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from() {
    let session = Session::start(&[(
        "apps/a.yaml",
        &config_map("NAME", "${first} ${second} ${third:-none}"),
    )])
    .await;
    make(
        &session,
        "ConfigMap",
        "one",
        json!({}),
        json!({ "first": "1", "second": "1", "third": "1" }),
    )
    .await;
    make(
        &session,
        "ConfigMap",
        "two",
        json!({}),
        json!({ "first": "2", "second": "two\nlines\n" }),
    )
    .await;
    make(&session, "Secret", "three", json!({}), json!({ "first": "3" })).await;
    make(
        &session,
        "ConfigMap",
        "wrong",
        json!({}),
        json!({ "not.a.name": "1" }),
    )
    .await;
    let map = |name: &str| json!({ "kind": "ConfigMap", "name": name });
    let secret = |name: &str| json!({ "kind": "Secret", "name": name });
    let lost = |optional: bool| json!({ "kind": "Secret", "name": "lost", "optional": optional });
    // a value, or the message of BuildFailed
    let cases: [(&str, Value, Value, Result<&str, &str>); 8] = [
        ("a", json!([map("one")]), json!({}), Ok("1 1 1")),
        (
            "b",
            json!([map("one"), map("two")]),
            json!({}),
            Ok("2 twolines 1"),
        ),
        ("c", json!([map("two"), map("one")]), json!({}), Ok("1 1 1")),
        (
            "d",
            json!([map("two"), secret("three")]),
            json!({}),
            Ok("3 twolines none"),
        ),
        (
            "e",
            json!([map("two"), secret("three")]),
            json!({ "first": "own" }),
            Ok("own twolines none"),
        ),
        ("f", json!([lost(true), map("one")]), json!({}), Ok("1 1 1")),
        (
            "g",
            json!([map("one"), lost(false)]),
            json!({}),
            Err(
                "post build failed: substitute from 'Secret/lost' error: secrets \"lost\" not found in namespace \"flux-system\"",
            ),
        ),
        (
            "h",
            json!([map("one"), map("wrong")]),
            json!({}),
            Err(
                "post build failed: envsubst error: 'not.a.name' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$'",
            ),
        ),
    ];
    for (name, from, inline, expected) in cases {
        let spec = json!({
            "postBuild": { "substituteFrom": from, "substitute": inline },
            "patches": [{
                "patch": format!("[{{\"op\": \"replace\", \"path\": \"/metadata/name\", \"value\": \"{name}\"}}]"),
                "target": { "kind": "ConfigMap" },
            }],
        });
        session.kustomize(name, "apps", spec).await;
        match expected {
            Ok(value) => session.value("default", name, Some(value)).await,
            Err(message) => assert_eq!(session.fails(name, "BuildFailed").await, message),
        }
    }
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_is_read_at_its_interval() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "${shown}")),
        ("other/b.yaml", "# nothing\n"),
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
    make(
        &session,
        "ConfigMap",
        "plain",
        json!({}),
        json!({ "shown": "one" }),
    )
    .await;
    let from = json!([{ "kind": "ConfigMap", "name": "plain" }]);
    session
        .kustomize("apps", "apps", json!({ "postBuild": { "substituteFrom": from } }))
        .await;
    session.value("default", "a", Some("one")).await;
    let first = session.commit(&[("other/b.yaml", Some("# something\n"))]);
    session.ready("apps", &first).await;
    let (built, read) = (session.stats().builds, reads(&session, "plain"));

    // a revision that changes nothing for it, and unchanged values: one read, no build
    let second = session.commit(&[("other/b.yaml", Some("# something else\n"))]);
    session.ready("apps", &second).await;
    assert_eq!(
        (session.stats().builds, reads(&session, "plain")),
        (built, read + 1)
    );

    // the same, and other values
    session
        .merge::<ConfigMap>(HOME, "plain", json!({ "data": { "shown": "two" } }))
        .await;
    let third = session.commit(&[("other/b.yaml", Some("# nothing again\n"))]);
    session.ready("apps", &third).await;
    session.value("default", "a", Some("two")).await;

    // on request
    session
        .merge::<ConfigMap>(HOME, "plain", json!({ "data": { "shown": "three" } }))
        .await;
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
    session.patch("apps", asked).await;
    session.value("default", "a", Some("three")).await;

    // at its interval: one request each
    session
        .patch("apps", json!({ "spec": { "interval": "1s" } }))
        .await;
    session
        .merge::<ConfigMap>(HOME, "plain", json!({ "data": { "shown": "four" } }))
        .await;
    session.value("default", "a", Some("four")).await;
    // the run writes its status after the object, and its event concurrently
    runs(&session, 1).await;
    session.watches_all().await;
    let built = session.stats().builds;
    session.faults.clear_log();
    let before = session.stats().runs;
    runs(&session, 3).await;
    let (mut calls, ran) = (session.faults.log(), session.stats().runs - before);
    calls.retain(|call| !call.path.contains("/events"));
    assert_eq!(session.stats().builds, built);
    let written: Vec<_> = calls.iter().filter(|call| call.is_write()).collect();
    assert!(written.is_empty(), "{written:#?}");
    assert!(calls.len() as u64 <= ran + 1, "{calls:#?} of {ran} runs");
    // its version is unchanged, so its values are not read
    let values: Vec<_> = calls.iter().filter(|call| !call.metadata).collect();
    assert!(values.is_empty(), "{values:#?}");
    session.end().await;
}

/// Each change counts at the next interval, also one that only the metadata of another object shows.
#[tokio::test]
async fn kustomization_post_build_substitute_from_follows_objects_without_a_label() {
    let session = Session::start(&[("apps/a.yaml", &config_map("a", "${shown:-none}"))]).await;
    make(&session, "ConfigMap", "one", json!({}), json!({ "other": "x" })).await;
    make(&session, "Secret", "two", json!({}), json!({ "shown": "second" })).await;
    let from = json!([
        { "kind": "ConfigMap", "name": "one" },
        { "kind": "ConfigMap", "name": "late", "optional": true },
    ]);
    let spec = json!({ "postBuild": { "substituteFrom": from }, "interval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    session.value("default", "a", Some("none")).await;
    // an optional one appears
    make(
        &session,
        "ConfigMap",
        "late",
        json!({}),
        json!({ "shown": "late" }),
    )
    .await;
    session.value("default", "a", Some("late")).await;
    // it is another object under the same name
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), HOME);
    maps.delete("late", &DeleteParams::default()).await.unwrap();
    make(
        &session,
        "ConfigMap",
        "late",
        json!({}),
        json!({ "shown": "again" }),
    )
    .await;
    session.value("default", "a", Some("again")).await;
    // it is gone
    maps.delete("late", &DeleteParams::default()).await.unwrap();
    session.value("default", "a", Some("none")).await;
    // the same objects, and one more
    let from = json!([
        { "kind": "ConfigMap", "name": "one" },
        { "kind": "ConfigMap", "name": "late", "optional": true },
        { "kind": "Secret", "name": "two" },
    ]);
    session
        .patch(
            "apps",
            json!({ "spec": { "postBuild": { "substituteFrom": from } } }),
        )
        .await;
    session.value("default", "a", Some("second")).await;
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_reads_rejected_values_once() {
    let session = Session::start(&[("apps/a.yaml", &config_map("a", "${v0}"))]).await;
    let names: Vec<String> = (0..9).map(|number| format!("v{number}")).collect();
    for name in &names {
        let values = json!({ name: "x".repeat(1_000_000) });
        make(&session, "ConfigMap", name, json!({}), values).await;
    }
    let from: Vec<Value> = names
        .iter()
        .map(|name| json!({ "kind": "ConfigMap", "name": name }))
        .collect();
    let spec = json!({ "postBuild": { "substituteFrom": from }, "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let refused =
        "post build failed: spec.postBuild.substituteFrom refers to more than 8388608 bytes of values";
    assert_eq!(session.fails("apps", "BuildFailed").await, refused);
    session.faults.clear_log();
    runs(&session, 2).await;
    let mut calls = session.faults.log();
    calls.retain(|call| call.path.contains("/configmaps/v"));
    assert!(!calls.is_empty());
    let values: Vec<_> = calls.iter().filter(|call| !call.metadata).collect();
    assert!(values.is_empty(), "{values:#?}");

    // other values count at once
    session
        .merge::<ConfigMap>(HOME, "v0", json!({ "data": { "v0": "small" } }))
        .await;
    session.value("default", "a", Some("small")).await;
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_wakes_where_it_is_labelled() {
    let session = Session::start(&[("apps/a.yaml", &config_map("a", "${shown} ${other}"))]).await;
    let labels = json!({ LABEL: "Enabled" });
    make(
        &session,
        "ConfigMap",
        "told",
        labels.clone(),
        json!({ "shown": "one" }),
    )
    .await;
    make(
        &session,
        "Secret",
        "hidden",
        labels.clone(),
        json!({ "other": "1" }),
    )
    .await;
    let from = json!([{ "kind": "ConfigMap", "name": "told" }, { "kind": "Secret", "name": "hidden" }]);
    let spec = json!({ "postBuild": { "substituteFrom": from }, "retryInterval": "10m" });
    session.kustomize("apps", "apps", spec).await;
    session.value("default", "a", Some("one 1")).await;
    session
        .merge::<ConfigMap>(HOME, "told", json!({ "data": { "shown": "two" } }))
        .await;
    session.value("default", "a", Some("two 1")).await;
    session
        .merge::<Secret>(HOME, "hidden", json!({ "stringData": { "other": "2" } }))
        .await;
    session.value("default", "a", Some("two 2")).await;

    // a change beside the values builds nothing
    let (built, read) = (session.stats().builds, reads(&session, "told"));
    session
        .merge::<ConfigMap>(
            HOME,
            "told",
            json!({ "metadata": { "annotations": { "note": "x" } } }),
        )
        .await;
    let look = async || match reads(&session, "told") {
        now if now > read => Ok(()),
        now => Err(now),
    };
    eventually("it is read", DEADLINE, look).await;
    assert_eq!(session.stats().builds, built);

    // with a passing interval, nothing is read
    session
        .patch("apps", json!({ "spec": { "interval": "1s" } }))
        .await;
    runs(&session, 2).await;
    session.faults.clear_log();
    runs(&session, 3).await;
    assert_eq!((reads(&session, "told"), reads(&session, "hidden")), (0, 0));

    // a deleted one is missed at once, and found again at once
    session.delete::<Secret>(HOME, "hidden").await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(message.contains("'Secret/hidden'"), "{message}");
    session.value("default", "a", Some("two 2")).await;
    make(&session, "Secret", "hidden", labels, json!({ "other": "3" })).await;
    session.value("default", "a", Some("two 3")).await;
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_without_permission() {
    let session = Session::start(&[("apps/a.yaml", &config_map("a", "${shown}"))]).await;
    make(
        &session,
        "Secret",
        "hidden",
        json!({}),
        json!({ "shown": HIDDEN }),
    )
    .await;
    let path = format!("/api/v1/namespaces/{HOME}/secrets/hidden");
    session
        .faults
        .add(Rule::new(Verb::Read, path, Fault::status(403)));
    let from = json!([{ "kind": "Secret", "name": "hidden", "optional": true }]);
    let spec = json!({ "postBuild": { "substituteFrom": from }, "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(
        message.starts_with("post build failed: substitute from 'Secret/hidden' error: "),
        "{message}"
    );
    session.value("default", "a", None).await;
    session.faults.clear();
    session.value("default", "a", Some(HIDDEN)).await;
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_hides_secrets() {
    // a label may not have spaces: the API server quotes the refused value
    let labelled = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "a", "namespace": "default", "labels": { "shown": "no label ${shown}" } },
    });
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default}\ndata: {value: '${quoted}'}\n";
    let files = [("apps/a.yaml", &*labelled.to_string()), ("broken/b.yaml", broken)];
    let session = Session::start(&files).await;
    let quoted = format!("x'\n{HIDDEN}: [");
    make(
        &session,
        "Secret",
        "hidden",
        json!({}),
        json!({ "shown": HIDDEN, "quoted": quoted }),
    )
    .await;
    let from = json!([{ "kind": "Secret", "name": "hidden" }]);
    for (name, reason, said) in [
        ("apps", "ReconciliationFailed", "no label *****"),
        ("broken", "BuildFailed", "is not YAML after substitution"),
    ] {
        session
            .kustomize(name, name, json!({ "postBuild": { "substituteFrom": from } }))
            .await;
        let message = session.fails(name, reason).await;
        assert!(message.contains(said), "{message}");
        session.event(name, said).await;
        let object = session.kustomizations().get(name).await.unwrap();
        let (status, events) = (
            json!(object.status).to_string(),
            session.events(name).await.join("\n"),
        );
        assert!(!status.contains(HIDDEN), "{status}");
        assert!(!events.contains(HIDDEN), "{events}");
    }
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_hides_what_expressions_derive() {
    const SECRET: &str = "hunter2 of the Database";
    let table = [
        ("upper", "${shown^^}", "HUNTER2 OF"),
        ("first", "${shown^}", "Hunter2 of"),
        ("piece", "${shown:0:12}", "hunter2 of t"),
        ("replaced", "${shown/of/OF}", "hunter2 OF"),
        ("trimmed", "${shown%Data*}", "hunter2 of"),
        ("nested", "${none:-no ${shown,,}}", "the database"),
        ("default", "${none:-no ${shown}}", "of the Database"),
        ("quoted", "${other:4}", "pass"),
    ];
    let labelled = |name: &str, value: &str| {
        let metadata =
            json!({ "name": name, "namespace": "default", "labels": { "shown": format!("not {value}") } });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }).to_string()
    };
    let files: Vec<(String, String)> = table
        .iter()
        .map(|(name, value, _)| (format!("{name}/a.yaml"), labelled(name, value)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::start(&files).await;
    let data = json!({ "shown": SECRET, "other": r#"the <pass "word"> & more"# });
    make(&session, "Secret", "hidden", json!({}), data).await;
    let from = json!([{ "kind": "Secret", "name": "hidden" }]);
    for (name, _, derived) in table {
        let spec = json!({ "postBuild": { "substituteFrom": from } });
        session.kustomize(name, name, spec).await;
        let message = session.fails(name, "ReconciliationFailed").await;
        assert!(message.contains("*****"), "{name}: {message}");
        session.event(name, "*****").await;
        let object = session.kustomizations().get(name).await.unwrap();
        let status = json!(object.status).to_string();
        let events = session.events(name).await.join("\n");
        assert!(!status.contains(derived), "{name}: {status}");
        assert!(!events.contains(derived), "{name}: {events}");
    }
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_hides_secrets_in_health() {
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": { "name": "charts", "namespace": HOME, "labels": { "far": "yes" } },
        "spec": { "url": "oci://registry.invalid/${shown^^}", "interval": "10m" },
    });
    let options = Options {
        // the source is of another process
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let session = Session::with(&[("apps/a.yaml", &*source.to_string())], options).await;
    session.define(OciRepository::crd()).await;
    make(
        &session,
        "Secret",
        "hidden",
        json!({}),
        json!({ "shown": "hunter2" }),
    )
    .await;
    let from = json!([{ "kind": "Secret", "name": "hidden" }]);
    let spec = json!({ "postBuild": { "substituteFrom": from }, "wait": true, "retryInterval": "1s" });
    session.kustomize("apps", "apps", spec).await;
    let api: Api<OciRepository> = Api::namespaced(session.client.clone(), HOME);
    let report = async |condition: Value| {
        let mut condition = condition;
        condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        let status = json!({ "status": { "observedGeneration": 1, "conditions": [condition] } });
        let (params, status) = (PatchParams::default(), Patch::Merge(status));
        api.patch_status("charts", &params, &status).await
    };
    let ready = json!({ "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored" });
    eventually("it is applied", DEADLINE, async || report(ready.clone()).await).await;
    session.ready("apps", &session.commit(&[])).await;
    let stalled = json!({
        "type": "Stalled", "status": "True", "reason": "URLInvalid",
        "message": "no registry at oci://registry.invalid/HUNTER2",
    });
    report(stalled).await.unwrap();
    let message = session.fails("apps", "HealthCheckFailed").await;
    assert!(message.contains("oci://registry.invalid/*****"), "{message}");
    session.end().await;
}

#[tokio::test]
async fn kustomization_post_build_substitute_from_a_dependencys_objects() {
    let mut made: Value = serde_json::from_str(&config_map("made", "")).unwrap();
    made["metadata"]["namespace"] = json!(HOME);
    made["data"] = json!({ "shown": "one" });
    let files = [
        ("apps/a.yaml", &*config_map("a", "${shown}")),
        ("infra/made.yaml", &*made.to_string()),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    let from = json!([{ "kind": "ConfigMap", "name": "made" }]);
    let spec = json!({
        "postBuild": { "substituteFrom": from },
        "dependsOn": [{ "name": "infra" }],
        "retryInterval": "10m",
    });
    session.kustomize("apps", "apps", spec).await;
    assert!(
        session
            .fails("apps", "DependencyNotReady")
            .await
            .contains("infra")
    );
    session.kustomize("infra", "infra", json!({})).await;
    let status = session.ready("apps", &revision).await;
    assert!(ready(&status).0 == "True");
    session.value("default", "a", Some("one")).await;
    session.end().await;
}
