//! Two Kustomizations that declare one object report the conflict, and correction stops instead of
//! flapping. The rules decide the owner, not the order of runs.

use std::time::Duration;

use equate_api::meta::{ConditionType, condition};
use equate_api::source::GitRepository;
use equate_testkit::eventually::eventually;
use equate_testkit::faults::{Fault, Rule, Verb};
use equate_testkit::git::Repository;
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Options, Session, config_map, said};
use crate::tenancy::create;

#[tokio::test]
async fn two_kustomizations_of_one_object_conflict() {
    let files = [
        ("one/a.yaml", &*config_map("a", "one")),
        ("two/a.yaml", &*config_map("a", "two")),
        ("two/b.yaml", &*config_map("b", "two")),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("one", "one", json!({})).await;
    session.ready("one", &revision).await;
    session.kustomize("two", "two", json!({})).await;

    let message = session.fails("two", "OwnershipConflict").await;
    assert!(
        message.contains("ConfigMap/default/a (also declared by Kustomization/flux-system/one)"),
        "{message}"
    );
    let by_two = "ConfigMap/default/a (also declared by Kustomization/flux-system/two)";
    session
        .until("one", by_two, |status| {
            said(status, ConditionType::OwnershipConflict) == by_two
        })
        .await;
    // the later one does not take it, and takes all others
    session.value("default", "a", Some("one")).await;
    session.value("default", "b", Some("two")).await;
    session.ready("one", &revision).await;
    assert_eq!(session.stats().corrections, 0);

    // dropped by the first, it is handed over to the second, not deleted
    let revision = session.commit(&[("one/a.yaml", Some(&*config_map("c", "one")))]);
    session.value("default", "a", Some("two")).await;
    session.ready("two", &revision).await;
    let calm = |status: &equate_api::kustomize::KustomizationStatus| {
        said(status, ConditionType::OwnershipConflict).is_empty()
            && status.last_applied_revision.as_ref() == Some(&revision)
    };
    session.until("one", "not contested any more", calm).await;
    session.end().await;
}

/// Kustomizations of directories of the same names. They are created while the engine is stopped, so that
/// only the rules order them. The declared ConfigMap is `default/x`; its value names the writer.
async fn siblings(specs: &[(&str, Value)]) -> Session {
    let files: Vec<(String, String)> = specs
        .iter()
        .map(|(name, _)| (format!("{name}/x.yaml"), config_map("x", name)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let mut session = Session::start(&files).await;
    session.stop().await;
    for (name, spec) in specs {
        session.kustomize(name, name, spec.clone()).await;
    }
    session
}

/// Waits for the conflict in a Kustomization's status.
async fn contested(session: &Session, name: &str, by: &str) {
    let message = session.fails(name, "OwnershipConflict").await;
    let other = format!("ConfigMap/default/x (also declared by Kustomization/flux-system/{by})");
    assert!(message.contains(&other), "{message}");
}

fn writes(session: &Session) -> usize {
    let calls = session.faults.log();
    let writes = calls.iter().filter(|call| call.is_write());
    writes.filter(|call| call.path.ends_with("/configmaps/x")).count()
}

/// Delays each write to a Kustomization, so that it builds after the others.
fn slow(session: &Session, name: &str) {
    let path = format!("/kustomizations/{name}");
    let slow = Fault::Slow(Duration::from_millis(300));
    session.faults.add(Rule::new(Verb::Patch, path, slow));
}

#[tokio::test]
async fn the_first_sibling_by_name_owns_a_shared_object() {
    for late in ["a", "b", "c"] {
        let specs = ["c", "b", "a"].map(|name| (name, json!({})));
        let mut session = siblings(&specs).await;
        slow(&session, late);
        session.engine(Options::default()).await;
        let revision = session.commit(&[]);
        session.ready("a", &revision).await;
        contested(&session, "b", "a").await;
        contested(&session, "c", "a").await;
        session.value("default", "x", Some("a")).await;
        assert_eq!(writes(&session), 1, "{late} is late");
        session.end().await;
    }
}

#[tokio::test]
async fn claims_do_not_wait_for_dependencies() {
    let specs = [
        ("a", json!({ "dependsOn": [{ "name": "later" }] })),
        ("b", json!({})),
    ];
    let mut session = siblings(&specs).await;
    session.engine(Options::default()).await;
    contested(&session, "b", "a").await;
    session.value("default", "x", None).await;
    // a suspended one wants nothing
    session.patch("a", json!({ "spec": { "suspend": true } })).await;
    session.value("default", "x", Some("b")).await;
    let revision = session.commit(&[]);
    session.ready("b", &revision).await;
    // and the holder keeps it
    let on = json!({ "spec": { "suspend": false, "dependsOn": null } });
    session.patch("a", on).await;
    contested(&session, "a", "b").await;
    assert_eq!(writes(&session), 1);
    session.end().await;
}

#[tokio::test]
async fn a_dependent_has_lower_precedence() {
    let specs = [
        ("a", json!({ "dependsOn": [{ "name": "b" }] })),
        ("b", json!({})),
        ("c", json!({})),
    ];
    let mut session = siblings(&specs).await;
    slow(&session, "b");
    session.engine(Options::default()).await;
    let revision = session.commit(&[]);
    session.ready("b", &revision).await;
    contested(&session, "a", "b").await;
    contested(&session, "c", "b").await;
    session.value("default", "x", Some("b")).await;
    session.end().await;
}

#[tokio::test]
async fn unbuildable_and_suspended_ones_want_nothing() {
    let specs = [
        ("a", json!({ "path": "./missing" })),
        ("b", json!({ "suspend": true })),
        (
            "c",
            json!({ "postBuild": { "substituteFrom": [{ "kind": "ConfigMap", "name": "missing" }] } }),
        ),
        ("d", json!({})),
    ];
    let mut session = siblings(&specs).await;
    slow(&session, "c");
    session.engine(Options::default()).await;
    let revision = session.commit(&[]);
    session.ready("d", &revision).await;
    session.value("default", "x", Some("d")).await;
    session.end().await;
}

#[tokio::test]
async fn an_object_added_to_two_goes_to_the_first() {
    for late in ["a", "b"] {
        let files = [
            ("a/own.yaml", &*config_map("own-a", "a")),
            ("b/own.yaml", &*config_map("own-b", "b")),
            ("c/y.yaml", &*config_map("y", "c")),
        ];
        let session = Session::start(&files).await;
        let revision = session.commit(&[]);
        for name in ["a", "b", "c"] {
            session.kustomize(name, name, json!({})).await;
            session.ready(name, &revision).await;
        }
        slow(&session, late);
        let (a, b, y) = (config_map("x", "a"), config_map("x", "b"), config_map("y", "a"));
        let revision = session.commit(&[
            ("a/x.yaml", Some(&*a)),
            ("b/x.yaml", Some(&*b)),
            // the holder keeps its object
            ("a/y.yaml", Some(&*y)),
        ]);
        contested(&session, "b", "a").await;
        session.value("default", "x", Some("a")).await;
        assert_eq!(writes(&session), 1, "{late} is late");
        let message = session.fails("a", "OwnershipConflict").await;
        assert!(
            message.contains("ConfigMap/default/y (also declared by Kustomization/flux-system/c)"),
            "{message}"
        );
        session.ready("c", &revision).await;
        session.value("default", "y", Some("c")).await;
        // dropped by the first, it belongs to the second
        session.commit(&[("a/x.yaml", None)]);
        session.value("default", "x", Some("b")).await;
        session.end().await;
    }
}

#[tokio::test]
async fn an_object_of_two_sources_has_one_owner() {
    let other = Repository::init().unwrap();
    other.commit(&[("x.yaml", Some(&config_map("x", "a")))]).unwrap();
    let mut session = siblings(&[("b", json!({}))]).await;
    let url = "https://local.invalid/other";
    let source = json!({
        "metadata": { "name": "other" },
        "spec": { "url": url, "interval": "10m", "ref": { "branch": "main" } },
    });
    create::<GitRepository>(&session, HOME, source).await;
    let spec = json!({ "sourceRef": { "kind": "GitRepository", "name": "other" } });
    session.kustomize("a", "./", spec).await;
    let others = vec![(url.to_owned(), other.path().to_owned())];
    session
        .engine(Options {
            others,
            ..Options::default()
        })
        .await;
    // whichever it is
    let ready = async || {
        let mut ready = Vec::new();
        for name in ["a", "b"] {
            let object = session.kustomizations().get(name).await.unwrap();
            let conditions = object.status.unwrap_or_default().conditions;
            ready.extend(condition(&conditions, ConditionType::Ready).map(|ready| ready.reason.clone()));
        }
        ready.sort();
        match ready == ["OwnershipConflict", "ReconciliationSucceeded"] {
            true => Ok(()),
            false => Err(format!("{ready:?}")),
        }
    };
    eventually("one has it and the other says so", DEADLINE, ready).await;
    assert_eq!(writes(&session), 1);
    session.end().await;
}
