//! Previews of a commit, also of moves and ownership conflicts.

use equate_api::kustomize::Kustomization;
use equate_apply::cluster::Cluster;
use equate_controllers::Policy;
use equate_controllers::kustomization::preview::{Fleet, Settings};
use equate_git::LocalRepository;
use equate_source::{Ignore, Limits, Tree};
use kube::api::ListParams;
use serde_json::json;

use crate::session::{Session, config_map, document, kustomization};

/// The repository's files in the working tree.
fn worktree(session: &Session) -> Tree {
    let local = LocalRepository::discover(session.repository.path()).unwrap();
    let files = local.files().unwrap();
    Tree::from_files(&local.root, &files, &Ignore::new(None), &Limits::default()).unwrap()
}

/// The preview of each Kustomization if the working tree were committed, without unchanged objects.
async fn foreseen(session: &Session) -> Vec<String> {
    let tree = worktree(session);
    let all = session
        .kustomizations()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let cluster = Cluster::new(session.client.clone());
    let settings = |_: &Kustomization| Settings::default();
    let fleet = Fleet::build(&cluster, all, |_| Some(&tree), settings).await;
    let mut lines = Vec::new();
    for kustomization in fleet.kustomizations() {
        let name = kustomization.metadata.name.clone().unwrap();
        match fleet.preview(kustomization).await {
            Ok(preview) => {
                assert!(preview.failures.is_empty(), "{name}: {:?}", preview.failures);
                let steps = preview.plan.steps().map(ToString::to_string);
                let steps = steps.filter(|step| !step.ends_with("(unchanged)"));
                lines.extend(steps.map(|step| format!("{name}: {}", step.lines().next().unwrap())));
            }
            Err(error) => lines.push(format!(
                "{name}: error {}",
                error.to_string().lines().next().unwrap()
            )),
        }
    }
    lines
}

fn write(session: &Session, path: &str, text: Option<&str>) {
    let path = session.repository.path().join(path);
    match text {
        Some(text) => {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        None => std::fs::remove_file(path).unwrap(),
    }
}

#[tokio::test]
async fn a_moved_object_is_not_deleted_and_created() {
    let (x, keep, own) = (
        config_map("x", "one"),
        config_map("keep", "one"),
        config_map("own", "one"),
    );
    let files = [("a/x.yaml", &*x), ("a/keep.yaml", &*keep), ("b/own.yaml", &*own)];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    for name in ["a", "b"] {
        session.kustomize(name, name, json!({})).await;
        session.ready(name, &revision).await;
    }
    let check = async |what: &str, expected: &[&str]| {
        assert_eq!(foreseen(&session).await, expected, "{what}");
    };
    check("nothing is different", &[]).await;

    for path in ["a/new.yaml", "b/new.yaml"] {
        write(&session, path, Some(&config_map("new", "one")));
    }
    check(
        "both declare a new object",
        &[
            "a: create ConfigMap/default/new",
            "b: keep ConfigMap/default/new (owned by Kustomization flux-system/a)",
        ],
    )
    .await;
    for path in ["a/new.yaml", "b/new.yaml"] {
        write(&session, path, None);
    }

    write(&session, "b/x.yaml", Some(&config_map("x", "two")));
    check(
        "declared twice",
        &["b: keep ConfigMap/default/x (owned by Kustomization flux-system/a)"],
    )
    .await;

    write(&session, "a/x.yaml", None);
    check(
        "moved",
        &[
            "a: keep ConfigMap/default/x (handed over to Kustomization flux-system/b)",
            "b: patch ConfigMap/default/x (changed)",
        ],
    )
    .await;

    write(
        &session,
        "b/kustomization.yaml",
        Some("resources: [missing.yaml]\n"),
    );
    let lines = foreseen(&session).await;
    assert_eq!(
        lines[0],
        "a: keep ConfigMap/default/x (not pruned until it is known what Kustomization flux-system/b declares)"
    );
    assert!(
        lines[1].starts_with("b: error kustomize build failed"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);

    write(&session, "b/kustomization.yaml", None);
    write(&session, "b/x.yaml", None);
    check("removed", &["a: prune ConfigMap/default/x"]).await;

    // to one that the same commit declares
    write(&session, "b/c.yaml", Some(&declared("c", "c")));
    write(&session, "c/x.yaml", Some(&config_map("x", "two")));
    check(
        "moved to a new one",
        &[
            "a: keep ConfigMap/default/x (handed over to Kustomization flux-system/c)",
            "b: create Kustomization/flux-system/c",
            "c: patch ConfigMap/default/x (changed)",
        ],
    )
    .await;
    session.end().await;
}

/// A Kustomization as a file of the repository.
fn declared(name: &str, path: &str) -> String {
    document(&serde_json::to_value(kustomization(name, path, json!({}))).unwrap())
}

/// A Kustomization that is removed in the same commit wants nothing, whatever its directory declares; the
/// preview equals the later result.
#[tokio::test]
async fn a_removed_kustomization_wants_nothing() {
    let files = [
        ("root/a.yaml", declared("a", "a")),
        ("root/b.yaml", declared("b", "b")),
        ("root/mid.yaml", declared("mid", "mid")),
        ("a/x.yaml", config_map("x", "one")),
        ("a/keep.yaml", config_map("keep", "one")),
        ("b/own.yaml", config_map("own", "one")),
        ("b/moves.yaml", config_map("moves", "one")),
        ("mid/leaf.yaml", declared("leaf", "leaf")),
        ("leaf/low.yaml", config_map("low", "one")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("root", "root", json!({})).await;
    for name in ["root", "a", "b", "mid", "leaf"] {
        session.ready(name, &revision).await;
    }

    let (x, moves) = (config_map("x", "two"), config_map("moves", "two"));
    let late = declared("late", "late");
    let changes = [
        ("root/b.yaml", None),
        ("root/mid.yaml", None),
        ("a/x.yaml", None),
        ("b/x.yaml", Some(&*x)),
        ("b/moves.yaml", None),
        ("a/moves.yaml", Some(&*moves)),
        // objects that only a removed one declares are not created
        ("mid/late.yaml", Some(&*late)),
        ("late/x.yaml", Some(&*x)),
    ];
    for (path, text) in changes {
        write(&session, path, text);
    }
    assert_eq!(
        foreseen(&session).await,
        [
            "a: patch ConfigMap/default/moves (changed)",
            "a: prune ConfigMap/default/x",
            "b: prune ConfigMap/default/own",
            "b: keep ConfigMap/default/moves (handed over to Kustomization flux-system/a)",
            "leaf: prune ConfigMap/default/low",
            "mid: prune Kustomization/flux-system/leaf",
            "root: prune Kustomization/flux-system/mid",
            "root: prune Kustomization/flux-system/b",
        ]
    );

    let revision = session.commit(&changes);
    for name in ["root", "a"] {
        session.ready(name, &revision).await;
    }
    for (name, value) in [("x", None), ("own", None), ("low", None), ("moves", Some("two"))] {
        session.value("default", name, value).await;
    }
    assert_eq!(foreseen(&session).await, Vec::<String>::new());
    session.end().await;
}

#[tokio::test]
async fn containers_of_needed_objects_are_kept() {
    let web = document(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } }));
    let x = config_map("x", "one").replace("\"default\"", "\"web\"");
    let keep = config_map("keep", "one");
    let files = [
        ("a/web.yaml", &*web),
        ("a/keep.yaml", &*keep),
        ("b/x.yaml", &*x),
        ("b/keep.yaml", &*config_map("keep-too", "one")),
    ];
    let session = Session::start(&files).await;
    let revision = session.commit(&[]);
    session.kustomize("a", "a", json!({})).await;
    session.ready("a", &revision).await;
    session.kustomize("b", "b", json!({})).await;
    session.ready("b", &revision).await;
    write(&session, "a/web.yaml", None);
    assert_eq!(
        foreseen(&session).await,
        [
            "a: keep Namespace/web (not pruned while Kustomization flux-system/b has ConfigMap/web/x, which \
             would be deleted with it)"
        ]
    );
    write(&session, "b/x.yaml", None);
    assert_eq!(
        foreseen(&session).await,
        ["a: prune Namespace/web", "b: prune ConfigMap/web/x"]
    );
    session.end().await;
}

#[tokio::test]
async fn the_number_of_previewed_kustomizations_is_limited() {
    let session = Session::start(&[("root/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("root", "root", json!({})).await;
    session.ready("root", &revision).await;
    let all: Vec<String> = (0..1005).map(|n| declared(&format!("k{n}"), "lost")).collect();
    write(&session, "root/more.yaml", Some(&all.join("\n---\n")));
    let lines = foreseen(&session).await;
    let expected = "error more than 1004 Kustomizations are declared, which is the limit of a preview; check \
                    whether one declares itself, directly or through others";
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.ends_with(expected), "{line}");
    }
    session.end().await;
}

#[tokio::test]
async fn an_exceeded_prune_budget_is_previewed() {
    let files: Vec<(String, String)> = (0..12)
        .map(|n| (format!("a/c{n:02}.yaml"), config_map(&format!("c{n:02}"), "one")))
        .collect();
    let given: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let session = Session::start(&given).await;
    let revision = session.commit(&[]);
    session.kustomize("a", "a", json!({})).await;
    session.ready("a", &revision).await;
    for (path, _) in &files[5..] {
        write(&session, path, None);
    }
    let lines = foreseen(&session).await;
    let expected: Vec<String> = (5..12)
        .rev()
        .map(|n| format!("a: keep ConfigMap/default/c{n:02} (not pruned, the prune budget is exceeded)"))
        .collect();
    assert_eq!(lines, expected);
    write(&session, &files[5].0, Some(&files[5].1));
    assert_eq!(foreseen(&session).await[0], "a: prune ConfigMap/default/c11");
    session.end().await;
}

/// As controllers with the same flags would act.
#[tokio::test]
async fn a_missing_account_is_previewed_as_the_default_one() {
    let session = Session::start(&[("apps/a.yaml", &*config_map("a", "one"))]).await;
    let revision = session.commit(&[]);
    session.kustomize("apps", "apps", json!({})).await;
    session.ready("apps", &revision).await;
    session
        .repository
        .commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))])
        .unwrap();
    let tree = worktree(&session);
    let all = session
        .kustomizations()
        .list(&ListParams::default())
        .await
        .unwrap();
    let cluster = Cluster::new(session.client.clone());
    let settings = |_: &Kustomization| Settings {
        policy: Policy {
            default_service_account: Some("nobody".to_owned()),
            ..Policy::default()
        },
        ..Settings::default()
    };
    let fleet = Fleet::build(&cluster, all.items, |_| Some(&tree), settings).await;
    let apps = fleet.kustomizations().next().unwrap();
    let preview = fleet.preview(apps).await.unwrap();
    let refused = format!("{:?}", preview.failures);
    let home = session.here("@home");
    let who = format!("system:serviceaccount:{home}:nobody");
    assert!(refused.contains(&who) && refused.contains("cannot"), "{refused}");
    session.end().await;
}
