//! The prune budget: `equate.dev/prune-budget`, `equate.dev/prune-confirm`.

use equate_api::meta::ConditionType;
use serde_json::{Value, json};

use crate::session::{File, Session, config_map_in, inventory, ready, said};

fn config_map(name: &str, value: &str) -> String {
    config_map_in("@home", name, value)
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|n| format!("c{n:02}")).collect()
}

/// A directory of ConfigMaps, one file each.
fn files(directory: &str, number: usize) -> Vec<(String, String)> {
    let all = names(number).into_iter();
    all.map(|name| (format!("{directory}/{name}.yaml"), config_map(&name, "one")))
        .collect()
}

/// Commits without the last files of a directory, and with other changes.
fn drop_last(session: &Session, directory: &str, of: usize, number: usize, more: &[File<'_>]) -> String {
    let paths: Vec<String> = names(of)
        .iter()
        .skip(of - number)
        .map(|name| format!("{directory}/{name}.yaml"))
        .collect();
    let dropped = paths.iter().map(|path| (path.as_str(), None));
    let all: Vec<File<'_>> = dropped.chain(more.iter().copied()).collect();
    session.commit(&all)
}

fn annotated(name: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

async fn start(directory: &str, number: usize) -> Session {
    let files = files(directory, number);
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    Session::anywhere(&files).await
}

#[tokio::test]
async fn too_many_deletions_change_nothing_until_confirmed() {
    let mut session = start("apps", 12).await;
    let first = session.commit(&[("elsewhere/a.yaml", Some(&*config_map("x", "one")))]);
    for name in ["apps", "elsewhere"] {
        session.kustomize(name, name, json!({})).await;
        session.ready(name, &first).await;
    }

    let two = config_map("c00", "two");
    let revision = drop_last(&session, "apps", 12, 7, &[("apps/c00.yaml", Some(&*two))]);
    let message = session.fails("apps", "PruneBudgetExceeded").await;
    let expected = format!(
        "revision {revision} is not applied and nothing was changed: 7 of 12 objects would be deleted, and the \
         prune budget is 50% (equate.dev/prune-budget): ConfigMap/@home/c11, "
    );
    assert!(message.starts_with(&session.here(&expected)), "{message}");
    let confirm = format!("equate.dev/prune-confirm={revision}");
    assert!(message.ends_with(&confirm), "{message}");
    session
        .event("apps", "Warning PruneBudgetExceeded revision ")
        .await;
    session.value("@home", "c00", Some("one")).await;
    session.value("@home", "c11", Some("one")).await;

    // a revision with the same build needs no build, and no other confirmation
    let builds = session.stats().builds;
    let newer = session.commit(&[("elsewhere/a.yaml", Some(&*config_map("x", "two")))]);
    session.ready("elsewhere", &newer).await;
    assert_eq!(session.stats().builds, builds + 1);
    assert_eq!(session.fails("apps", "PruneBudgetExceeded").await, message);
    session
        .patch("apps", annotated("equate.dev/prune-confirm", "main@sha1:0"))
        .await;

    // another process reaches the same result
    session.engine(crate::session::Options::default()).await;
    let anew = format!("equate.dev/prune-confirm={newer}");
    session
        .until("apps", "asks again", |status| ready(status).1.ends_with(&anew))
        .await;
    session.value("@home", "c11", Some("one")).await;
    session
        .patch("apps", annotated("equate.dev/prune-confirm", &newer))
        .await;
    let status = session.ready("apps", &newer).await;
    assert_eq!(inventory(&status).len(), 5);
    session.value("@home", "c00", Some("two")).await;
    session.value("@home", "c11", None).await;
    session.end().await;
}

#[tokio::test]
async fn a_confirmation_covers_equal_builds_and_a_revert_needs_none() {
    let session = start("apps", 12).await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &first).await;
    drop_last(
        &session,
        "apps",
        12,
        12,
        &[("apps/c00.yaml", Some(&*config_map("c00", "one")))],
    );
    session.fails("apps", "PruneBudgetExceeded").await;
    let back = files("apps", 12);
    let back: Vec<File<'_>> = back
        .iter()
        .map(|(path, text)| (path.as_str(), Some(text.as_str())))
        .collect();
    let reverted = session.commit(&back);
    let status = session.ready("apps", &reverted).await;
    assert_eq!(inventory(&status).len(), 12);

    let revision = drop_last(&session, "apps", 12, 11, &[]);
    session.fails("apps", "PruneBudgetExceeded").await;
    let newer = session.commit(&[("elsewhere/a.yaml", Some(&*config_map("x", "one")))]);
    session
        .patch("apps", annotated("equate.dev/prune-confirm", &revision))
        .await;
    let status = session.ready("apps", &newer).await;
    assert_eq!(inventory(&status), [session.here("@home_c00__ConfigMap")]);
    session.end().await;
}

#[tokio::test]
async fn the_annotation_sets_the_budget() {
    // of 4 objects; none means that it may continue
    let check = async |budget: &str, drops: usize, stops: Option<&str>| {
        let session = start("apps", 4).await;
        session.kustomize("apps", "apps", json!({})).await;
        let first = session.commit(&[]);
        session.ready("apps", &first).await;
        session
            .patch("apps", annotated("equate.dev/prune-budget", budget))
            .await;
        let revision = drop_last(&session, "apps", 4, drops, &[]);
        match stops {
            None => {
                let status = session.ready("apps", &revision).await;
                assert_eq!(inventory(&status).len(), 4 - drops, "{budget}");
            }
            Some(why) => {
                let message = session.fails("apps", "PruneBudgetExceeded").await;
                assert!(message.contains(why), "{budget}: {message}");
                session.value("@home", "c03", Some("one")).await;
                // a larger budget is as good as a confirmation
                session
                    .patch("apps", annotated("equate.dev/prune-budget", "100%"))
                    .await;
                session.ready("apps", &revision).await;
                session.value("@home", "c03", None).await;
            }
        }
        session.end().await;
    };
    check("2", 2, None).await;
    check(
        "1",
        2,
        Some("2 of 4 objects would be deleted, and the prune budget is 1 object (equate.dev/prune-budget)"),
    )
    .await;
    check("50%", 2, None).await;
    check("25%", 2, Some("the prune budget is 25% ")).await;
    check(
        "0",
        1,
        Some("1 of 4 objects would be deleted, and the prune budget is 0 objects"),
    )
    .await;
}

#[tokio::test]
async fn confirming_an_empty_render_confirms_all_deletions() {
    let session = start("apps", 2).await;
    let first = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session
        .patch("apps", annotated("equate.dev/prune-budget", "0"))
        .await;
    session.ready("apps", &first).await;
    let revision = drop_last(&session, "apps", 2, 2, &[("apps/c00.yaml", Some("# none\n"))]);
    session.fails("apps", "EmptyRender").await;
    session
        .patch("apps", annotated("equate.dev/allow-empty", &revision))
        .await;
    session.ready("apps", &revision).await;
    session.value("@home", "c00", None).await;
    session.end().await;
}

#[tokio::test]
async fn an_invalid_budget_is_an_error_and_blocks_no_deletion() {
    let session = start("apps", 2).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    session
        .patch("apps", annotated("equate.dev/prune-budget", "most"))
        .await;
    session.commit(&[("apps/c01.yaml", None)]);
    let message = session.fails("apps", "ReconciliationFailed").await;
    assert_eq!(
        message,
        "Reconciliation failed terminally due to configuration error: annotation equate.dev/prune-budget: \
         invalid prune budget \"most\": give a number of objects, such as 20, or a percentage, such as 50%"
    );
    session.value("@home", "c01", Some("one")).await;
    // the Kustomization may be deleted, even where nothing may be pruned
    session
        .delete::<equate_api::kustomize::Kustomization>("@home", "apps")
        .await;
    session.value("@home", "c00", None).await;
    session.end().await;
}

#[tokio::test]
async fn moves_and_deleted_kustomizations_need_no_budget() {
    let session = start("a", 12).await;
    session.kustomize("a", "a", json!({})).await;
    let first = session.commit(&[("b/own.yaml", Some(&*config_map("own", "one")))]);
    session.kustomize("b", "b", json!({})).await;
    for name in ["a", "b"] {
        session
            .patch(name, annotated("equate.dev/prune-budget", "0"))
            .await;
        session.ready(name, &first).await;
    }
    let moved = files("b", 12);
    let moved: Vec<File<'_>> = moved
        .iter()
        .skip(1)
        .map(|(path, text)| (path.as_str(), Some(text.as_str())))
        .collect();
    let revision = drop_last(&session, "a", 12, 11, &moved);
    session.ready("b", &revision).await;
    session.ready("a", &revision).await;
    session
        .until("a", "has handed over", |status| inventory(status).len() == 1)
        .await;
    session
        .delete::<equate_api::kustomize::Kustomization>("@home", "b")
        .await;
    session.value("@home", "c11", None).await;
    session.value("@home", "c00", Some("one")).await;
    session.end().await;
}

#[tokio::test]
async fn objects_kept_for_another_count_for_the_budget() {
    let session = start("a", 12).await;
    session.kustomize("a", "a", json!({})).await;
    let first = session.commit(&[("b/own.yaml", Some(&*config_map("own", "one")))]);
    session.kustomize("b", "b", json!({})).await;
    for name in ["a", "b"] {
        session.ready(name, &first).await;
    }
    // while b cannot be built it may want them, and nothing else is blocked
    let broken = drop_last(&session, "a", 12, 11, &[("b/own.yaml", Some("kind: [\n"))]);
    session.ready("a", &broken).await;
    session
        .until("a", "holds what may be wanted", |status| {
            said(status, ConditionType::PruneBlocked).contains("may have moved to")
        })
        .await;
    let repaired = session.commit(&[("b/own.yaml", Some(&*config_map("own", "two")))]);
    session.ready("b", &repaired).await;
    let status = session
        .until("a", "asks for a confirmation", |status| {
            said(status, ConditionType::PruneBlocked).contains("equate.dev/prune-confirm=")
        })
        .await;
    let held = said(&status, ConditionType::PruneBlocked);
    assert!(
        held.starts_with(
            "not deleted: 11 of 12 objects would be deleted, and the prune budget is 50% (equate.dev/prune-budget): "
        ),
        "{held}"
    );
    assert_eq!(inventory(&status).len(), 12);
    let (_, revision) = held.split_once("equate.dev/prune-confirm=").unwrap();
    session
        .patch("a", annotated("equate.dev/prune-confirm", revision))
        .await;
    session.value("@home", "c11", None).await;
    let status = session
        .until("a", "is done", |status| {
            said(status, ConditionType::PruneBlocked).is_empty() && inventory(status).len() == 1
        })
        .await;
    assert_eq!(ready(&status).0, "True");
    session.end().await;
}
