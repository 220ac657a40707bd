//! An object that moves from one Kustomization to another in one commit is handed over. It is never
//! deleted, in any order of runs and waits.

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::ConditionType;
use equate_testkit::eventually::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::session::{
    DEADLINE, File, HOME, Options, Session, config_map, document, inventory, kustomization, said,
};

const OWNER: &str = "kustomize.toolkit.fluxcd.io/name";

/// The uid of a ConfigMap in `default`, and the owner in its labels.
async fn found(session: &Session, name: &str) -> Option<(String, String)> {
    let map: ConfigMap = session.get("default", name).await?;
    let labels = map.metadata.labels.unwrap_or_default();
    let owner = labels.get(OWNER).cloned().unwrap_or_default();
    Some((map.metadata.uid.unwrap_or_default(), owner))
}

async fn uid(session: &Session, name: &str) -> String {
    found(session, name).await.unwrap().0
}

/// Waits until an object belongs to a Kustomization, with an unchanged uid.
async fn taken(session: &Session, what: &str, name: &str, by: &str, uid: &str) {
    let look = async || match found(session, name).await {
        Some((_, owner)) if owner == by => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually(&format!("{what}: {name} belongs to {by}"), DEADLINE, look).await;
    let (now, _) = found(session, name).await.unwrap();
    assert_eq!(now, uid, "{what}: {name} was deleted and made anew");
    never_deleted(session, what, name);
}

fn never_deleted(session: &Session, what: &str, name: &str) {
    let path = format!("/configmaps/{name}");
    for call in session.faults.log() {
        let deletes = call.to_string().starts_with("DELETE ") && call.path.ends_with(&path);
        assert!(!deletes, "{what}: {call}");
    }
}

fn holds(status: &KustomizationStatus, name: &str) -> bool {
    inventory(status).contains(&format!("default_{name}__ConfigMap"))
}

async fn lets_go(session: &Session, kustomization: &str, name: &str) {
    let what = format!("does not hold {name} any more");
    session
        .until(kustomization, &what, |status| !holds(status, name))
        .await;
}

/// `x` and `gone` in one directory, `own` in the other.
fn before(from: &str, to: &str) -> Vec<(String, String)> {
    vec![
        (format!("{from}/keep.yaml"), config_map("keep", "one")),
        (format!("{from}/gone.yaml"), config_map("gone", "one")),
        (format!("{from}/x.yaml"), config_map("x", "one")),
        (format!("{to}/own.yaml"), config_map("own", "one")),
    ]
}

async fn start(from: &str, to: &str) -> Session {
    let files = before(from, to);
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    Session::start(&files).await
}

/// `x` moves and changes, `gone` is removed, and `more` is committed.
fn moves(session: &Session, from: &str, to: &str, more: &[File<'_>]) -> String {
    let (old, new, gone) = (
        format!("{from}/x.yaml"),
        format!("{to}/x.yaml"),
        format!("{from}/gone.yaml"),
    );
    let x = config_map("x", "moved");
    let mut files: Vec<File<'_>> = vec![(&old, None), (&new, Some(&x)), (&gone, None)];
    files.extend(more);
    session.commit(&files)
}

/// Events between the commits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    Nothing,
    /// The engine is stopped during the commit.
    Away,
    /// It has also lost its fetched artifacts.
    Wiped,
}

async fn check(from: &str, to: &str, specs: [Value; 2], meanwhile: Meanwhile) {
    let what = format!("{from} to {to}, {specs:?}, {meanwhile:?}");
    let mut session = start(from, to).await;
    let revision = session.commit(&[]);
    let [from_spec, to_spec] = specs;
    session.kustomize(from, from, from_spec).await;
    session.kustomize(to, to, to_spec).await;
    session.ready(from, &revision).await;
    session.ready(to, &revision).await;
    let x = uid(&session, "x").await;
    let built = session.stats().builds;

    if meanwhile != Meanwhile::Nothing {
        session.stop().await;
    }
    if meanwhile == Meanwhile::Wiped {
        session.lose_artifacts();
    }
    let revision = moves(&session, from, to, &[]);
    if meanwhile != Meanwhile::Nothing {
        session.engine(Options::default()).await;
    }
    let to_status = session.ready(to, &revision).await;
    session.ready(from, &revision).await;
    taken(&session, &what, "x", to, &x).await;
    session.value("default", "x", Some("moved")).await;
    // an object that did not move is pruned
    session.value("default", "gone", None).await;
    lets_go(&session, from, "x").await;
    assert!(holds(&to_status, "x"), "{what}: {to_status:?}");
    for name in [from, to] {
        let status = session
            .until(name, "nothing is held up", |status| {
                said(status, ConditionType::PruneBlocked).is_empty()
            })
            .await;
        assert_eq!(said(&status, ConditionType::OwnershipConflict), "", "{what}");
        let events = session.events(name).await;
        if events.iter().any(|event| event.contains("OwnershipConflict")) {
            let other = if name == from { to } else { from };
            panic!(
                "{what}: {name}: {events:?}; {other}: {:?}",
                session.events(other).await
            );
        }
    }
    if meanwhile == Meanwhile::Nothing {
        // one build for each change, also of the one that waited
        assert_eq!(session.stats().builds, built + 2, "{what}");
    }
    session.end().await;
}

#[tokio::test]
async fn in_any_order_of_names() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        check(from, to, [json!({}), json!({})], Meanwhile::Nothing).await;
    }
}

#[tokio::test]
async fn with_dependencies_in_either_direction() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let on = |name: &str| json!({ "dependsOn": [{ "name": name }] });
        check(from, to, [json!({}), on(from)], Meanwhile::Nothing).await;
        check(from, to, [on(to), json!({})], Meanwhile::Nothing).await;
    }
}

#[tokio::test]
async fn while_the_engine_is_stopped() {
    for meanwhile in [Meanwhile::Away, Meanwhile::Wiped] {
        for (from, to) in [("a", "b"), ("b", "a")] {
            let on = |name: &str| json!({ "dependsOn": [{ "name": name }], "wait": true });
            check(from, to, [json!({}), on(from)], meanwhile).await;
            check(from, to, [on(to), json!({})], meanwhile).await;
        }
    }
}

/// A kustomization.yaml that cannot be built.
const BROKEN: &str = "resources: [missing.yaml]\n";

async fn started(from: &str, to: &str) -> (Session, String) {
    let session = start(from, to).await;
    let revision = session.commit(&[]);
    session.kustomize(from, from, json!({})).await;
    session.kustomize(to, to, json!({})).await;
    session.ready(from, &revision).await;
    session.ready(to, &revision).await;
    let x = uid(&session, "x").await;
    (session, x)
}

async fn held_up(session: &Session, name: &str, revision: &str) -> String {
    session.ready(name, revision).await;
    let status = session
        .until(name, "pruning is held up", |status| {
            !said(status, ConditionType::PruneBlocked).is_empty()
        })
        .await;
    assert!(holds(&status, "x") && holds(&status, "gone"), "{status:?}");
    said(&status, ConditionType::PruneBlocked)
}

#[tokio::test]
async fn to_one_that_cannot_be_built() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let (session, x) = started(from, to).await;
        let file = format!("{to}/kustomization.yaml");
        let revision = moves(&session, from, to, &[(&file, Some(BROKEN))]);
        session.fails(to, "BuildFailed").await;
        // the former owner is ready, and names the kept objects and the other Kustomization
        let message = held_up(&session, from, &revision).await;
        assert_eq!(
            message,
            format!(
                "not deleted yet: ConfigMap/default/x, ConfigMap/default/gone; may have moved to \
                 Kustomization/flux-system/{to}, which cannot be built at this revision. Pruning continues when that Kustomization \
                 is repaired, suspended or deleted"
            )
        );
        never_deleted(&session, "broken", "x");
        never_deleted(&session, "broken", "gone");

        let revision = session.commit(&[(&file, None)]);
        session.ready(to, &revision).await;
        taken(&session, "repaired", "x", to, &x).await;
        session.value("default", "gone", None).await;
        lets_go(&session, from, "x").await;
        session
            .until(from, "is not held up any more", |status| {
                said(status, ConditionType::PruneBlocked).is_empty()
            })
            .await;
        session.end().await;
    }
}

#[tokio::test]
async fn a_broken_one_blocks_deletions_until_suspended() {
    let (session, _) = started("a", "b").await;
    let revision = session.commit(&[
        ("a/x.yaml", None),
        ("a/gone.yaml", None),
        ("b/kustomization.yaml", Some(BROKEN)),
    ]);
    held_up(&session, "a", &revision).await;
    session.patch("b", json!({ "spec": { "suspend": true } })).await;
    session.value("default", "x", None).await;
    session.value("default", "gone", None).await;
    lets_go(&session, "a", "x").await;
    session.end().await;
}

#[tokio::test]
async fn one_without_a_directory_blocks_nobody() {
    let (session, _) = started("a", "b").await;
    session.kustomize("lost", "lost", json!({})).await;
    session.fails("lost", "ArtifactFailed").await;
    let revision = session.commit(&[("a/x.yaml", None)]);
    session.ready("a", &revision).await;
    session.value("default", "x", None).await;
    session.end().await;
}

#[tokio::test]
async fn to_a_suspended_or_waiting_one() {
    let (session, x) = started("a", "b").await;
    session.patch("b", json!({ "spec": { "suspend": true } })).await;
    let revision = moves(&session, "a", "b", &[]);
    session.ready("a", &revision).await;
    session.value("default", "gone", None).await;
    session.value("default", "x", Some("one")).await;
    // until it is taken, the first one remembers it
    let untaken = async |why: &str| {
        let message = format!(
            "not deleted, and not taken over yet: ConfigMap/default/x, for Kustomization/flux-system/b, which {why}. \
             It leaves the inventory when that owner takes it or no longer declares it"
        );
        let says = |status: &KustomizationStatus| {
            holds(status, "x") && said(status, ConditionType::PruneBlocked) == message
        };
        session.until("a", &message, says).await;
    };
    untaken("is suspended").await;
    let spec = json!({ "spec": { "suspend": false, "dependsOn": [{ "name": "later" }] } });
    session.patch("b", spec).await;
    session.fails("b", "DependencyNotReady").await;
    untaken("is not ready").await;
    let later = config_map("later", "one");
    let revision = session.commit(&[("later/later.yaml", Some(&later))]);
    session.kustomize("later", "later", json!({})).await;
    session.ready("later", &revision).await;
    taken(&session, "goes on", "x", "b", &x).await;
    lets_go(&session, "a", "x").await;
    session
        .until("a", "keeps nothing any more", |status| {
            said(status, ConditionType::PruneBlocked).is_empty()
        })
        .await;

    // the taker never takes it and no longer wants it: the former owner still has it
    session.patch("a", json!({ "spec": { "suspend": true } })).await;
    let x = config_map("x", "back");
    session.commit(&[("b/x.yaml", None), ("a/x.yaml", Some(&x))]);
    session
        .until("b", "has looked", |status| {
            status.last_applied_revision.as_ref() != Some(&revision)
        })
        .await;
    session.value("default", "x", Some("moved")).await;
    session.commit(&[("a/x.yaml", None)]);
    session.value("default", "x", None).await;
    session.end().await;
}

#[tokio::test]
async fn a_waiting_one_is_built_once() {
    let files = before("a", "b");
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let session = Session::start(&files).await;
    session
        .kustomize("b", "b", json!({ "dependsOn": [{ "name": "a" }] }))
        .await;
    session.fails("b", "DependencyNotReady").await;
    assert_eq!(session.stats().builds, 1);
    let revision = session.commit(&[("elsewhere/y.yaml", Some(&config_map("y", "one")))]);
    session.kustomize("a", "a", json!({})).await;
    session.ready("b", &revision).await;
    assert_eq!(session.stats().builds, 2, "one of each");
    session.end().await;
}

/// A Kustomization as a file of the repository.
fn file(name: &str, path: &str) -> String {
    document(&serde_json::to_value(kustomization(name, path, json!({}))).unwrap())
}

#[tokio::test]
async fn to_one_that_the_same_commit_declares() {
    for (from, to) in [("a", "b"), ("b", "a"), ("root", "b")] {
        let what = format!("{from} to {to}");
        let mut files = before(from, "other");
        if from != "root" {
            files.push((format!("root/{from}.yaml"), file(from, from)));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let session = Session::start(&files).await;
        let revision = session.commit(&[]);
        session.kustomize("root", "root", json!({})).await;
        session.ready("root", &revision).await;
        session.ready(from, &revision).await;
        let x = uid(&session, "x").await;
        let declared = file(to, to);
        let path = format!("root/{to}.yaml");
        let revision = moves(&session, from, to, &[(&path, Some(&declared))]);
        session.ready("root", &revision).await;
        session.ready(from, &revision).await;
        session.ready(to, &revision).await;
        taken(&session, &what, "x", to, &x).await;
        session.value("default", "gone", None).await;
        lets_go(&session, from, "x").await;
        session.end().await;
    }
}

#[tokio::test]
async fn from_one_that_the_same_commit_removes() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let what = format!("{from} to {to}");
        let mut files = before(from, to);
        for name in [from, to] {
            files.push((format!("root/{name}.yaml"), file(name, name)));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let session = Session::start(&files).await;
        let revision = session.commit(&[]);
        session.kustomize("root", "root", json!({})).await;
        for name in ["root", from, to] {
            session.ready(name, &revision).await;
        }
        let x = uid(&session, "x").await;
        let (path, keep) = (format!("root/{from}.yaml"), format!("{from}/keep.yaml"));
        let revision = moves(&session, from, to, &[(&path, None), (&keep, None)]);
        session.ready("root", &revision).await;
        session.ready(to, &revision).await;
        goes(&session, from).await;
        taken(&session, &what, "x", to, &x).await;
        session.value("default", "keep", None).await;
        session.end().await;
    }
}

async fn goes(session: &Session, name: &str) {
    let gone = async || match session.get::<Kustomization>(HOME, name).await {
        None => Ok(()),
        Some(object) => Err(format!("{:?}", object.status)),
    };
    eventually(&format!("Kustomization {name} is gone"), DEADLINE, gone).await;
}

#[tokio::test]
async fn from_one_that_is_deleted_by_hand() {
    for (from, to) in [("a", "b"), ("b", "a")] {
        let what = format!("{from} to {to}");
        let (mut session, x) = started(from, to).await;
        // whichever runs first after the start, nothing has been built
        session.stop().await;
        let revision = moves(&session, from, to, &[]);
        session.delete::<Kustomization>(HOME, from).await;
        session.engine(Options::default()).await;
        goes(&session, from).await;
        session.ready(to, &revision).await;
        taken(&session, &what, "x", to, &x).await;
        session.value("default", "keep", None).await;

        // an unbuildable Kustomization blocks that, too
        let file = format!("{to}/kustomization.yaml");
        let more = config_map("more", "one");
        let revision = session.commit(&[("more/more.yaml", Some(&more))]);
        session.kustomize("more", "more", json!({})).await;
        session.ready("more", &revision).await;
        session.commit(&[(&file, Some(BROKEN))]);
        session.fails(to, "BuildFailed").await;
        session.delete::<Kustomization>(HOME, "more").await;
        let status = session
            .until("more", "is held up", |status| {
                !said(status, ConditionType::PruneBlocked).is_empty()
            })
            .await;
        let said = said(&status, ConditionType::PruneBlocked);
        assert!(
            said.starts_with("not deleted yet: ConfigMap/default/more; may"),
            "{said}"
        );
        session.value("default", "more", Some("one")).await;
        session.commit(&[(&file, None)]);
        goes(&session, "more").await;
        session.value("default", "more", None).await;
        session.end().await;
    }
}

#[tokio::test]
async fn to_another_namespace() {
    let session = start("a", "b").await;
    let team = Namespace {
        metadata: ObjectMeta {
            name: Some("team".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    Api::all(session.client.clone())
        .create(&PostParams::default(), &team)
        .await
        .unwrap();
    let source = json!({ "kind": "GitRepository", "name": "fleet", "namespace": HOME });
    let spec = json!({ "sourceRef": source, "dependsOn": [{ "name": "a", "namespace": HOME }] });
    let mut b = kustomization("b", "b", spec);
    b.metadata.namespace = Some("team".to_owned());
    let revision = session.commit(&[]);
    session.kustomize("a", "a", json!({})).await;
    Api::<Kustomization>::namespaced(session.client.clone(), "team")
        .create(&PostParams::default(), &b)
        .await
        .unwrap();
    session.ready("a", &revision).await;
    session.value("default", "own", Some("one")).await;
    let x = uid(&session, "x").await;
    let revision = moves(&session, "a", "b", &[]);
    session.ready("a", &revision).await;
    taken(&session, "to team/b", "x", "b", &x).await;
    session.value("default", "gone", None).await;
    lets_go(&session, "a", "x").await;
    session.end().await;
}

#[tokio::test]
async fn to_one_that_ignores_the_object() {
    let (session, x) = started("a", "b").await;
    let mut alone: Value = serde_json::from_str(&config_map("x", "moved")).unwrap();
    alone["metadata"]["annotations"] = json!({ "kustomize.toolkit.fluxcd.io/reconcile": "disabled" });
    let alone = document(&alone);
    let revision = session.commit(&[("a/x.yaml", None), ("b/x.yaml", Some(&alone))]);
    session.ready("b", &revision).await;
    let status = session
        .until("a", "says why it keeps x", |status| {
            !said(status, ConditionType::PruneBlocked).is_empty()
        })
        .await;
    assert_eq!(
        said(&status, ConditionType::PruneBlocked),
        "not deleted, and not taken over yet: ConfigMap/default/x, for Kustomization/flux-system/b, which ignores \
         it because of its annotations there, so nothing takes it. It leaves the inventory when that owner \
         takes it or no longer declares it"
    );
    assert!(holds(&status, "x"));
    session.value("default", "x", Some("one")).await;
    // a deleted Kustomization reports the objects that it leaves
    session.delete::<Kustomization>(HOME, "a").await;
    goes(&session, "a").await;
    session
        .event(
            "a",
            "not deleted: keep ConfigMap/default/x (handed over to Kustomization flux-system/b)",
        )
        .await;
    assert_eq!(uid(&session, "x").await, x);
    session.end().await;
}
