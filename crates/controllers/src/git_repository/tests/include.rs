//! `spec.include`, `spec.sparseCheckout` and `spec.recurseSubmodules`, on the embedded API.

use equate_api::meta::{ConditionType, condition};
use equate_api::source::GitRepositoryStatus;
use equate_source::Tree;
use equate_testkit::eventually::eventually;
use equate_testkit::git::Repository;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::run::{DEADLINE, Running, Session, URL};

const OTHER: &str = "https://local.invalid/other";

/// The files of a status's artifact; none when a newer artifact has replaced it.
fn files(running: &Running, status: &GitRepositoryStatus) -> Option<Vec<String>> {
    fn below(tree: &Tree, path: &str, found: &mut Vec<String>) {
        for (name, entry) in tree.list(path).unwrap() {
            let path = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            match entry {
                equate_source::Entry::File { .. } => found.push(path),
                equate_source::Entry::Directory { .. } => {
                    found.push(format!("{path}/"));
                    below(tree, &path, found);
                }
            }
        }
    }
    let tree = running.tree(&status.artifact.as_ref()?.digest)?;
    let mut found = Vec::new();
    below(&tree, "", &mut found);
    Some(found)
}

pub(super) fn spec(more: Value) -> Value {
    let mut spec = json!({ "url": URL, "ref": { "branch": "main" }, "interval": "1h" });
    let Value::Object(more) = more else {
        panic!("{more} is no object");
    };
    for (field, value) in more {
        spec[field] = value;
    }
    spec
}

pub(super) async fn holds(session: &Session, running: &Running, expected: &[&str]) -> GitRepositoryStatus {
    eventually(
        &format!("the artifact holds {expected:?}"),
        DEADLINE,
        async || {
            let status = session.status().await;
            let ready = condition(&status.conditions, ConditionType::Ready);
            if status.artifact.is_none() || ready.is_none_or(|ready| ready.status != "True") {
                return Err(format!("{ready:?}"));
            }
            match files(running, &status) {
                Some(found) if found == expected => Ok(status),
                found => Err(format!("{found:?}")),
            }
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_include() {
    let mut session = Session::start().await;
    let other = Repository::init().unwrap();
    session.others.push((OTHER.to_owned(), other.path().to_owned()));
    session
        .repository
        .commit(&[("own.yaml", Some("a: 1\n"))])
        .unwrap();
    other
        .commit(&[
            ("deploy/b.yaml", Some("b: 1\n")),
            ("deploy/deep/c.yaml", Some("c: 1\n")),
            ("top.yaml", Some("t: 1\n")),
        ])
        .unwrap();
    let running = session.run().await;
    let include = json!([
        { "repository": { "name": "other" } },
        { "repository": { "name": "other" }, "fromPath": "deploy", "toPath": "base/app" },
        { "repository": { "name": "other" }, "fromPath": "./top.yaml", "toPath": "/one.yaml" },
    ]);
    session.create(spec(json!({ "include": include }))).await;
    let status = session
        .ready("NotFound", "could not get resource for include 'other'")
        .await;
    let unavailable = condition(&status.conditions, ConditionType::IncludeUnavailable).unwrap();
    assert_eq!(
        (unavailable.status.as_str(), unavailable.reason.as_str()),
        ("True", "NotFound")
    );

    // the included source wakes it, although its interval is an hour
    session
        .create_named(
            "other",
            spec(json!({ "url": OTHER, "ref": { "branch": "gone" } })),
        )
        .await;
    session
        .ready("NoArtifact", "no artifact available for include 'other'")
        .await;
    session
        .patch_named("other", json!({ "spec": { "ref": { "branch": "main" } } }))
        .await;
    let expected = [
        "base/",
        "base/app/",
        "base/app/b.yaml",
        "base/app/deep/",
        "base/app/deep/c.yaml",
        "one.yaml",
        "other/",
        "other/deploy/",
        "other/deploy/b.yaml",
        "other/deploy/deep/",
        "other/deploy/deep/c.yaml",
        "other/top.yaml",
        "own.yaml",
    ];
    let before = holds(&session, &running, &expected).await;
    assert!(condition(&before.conditions, ConditionType::IncludeUnavailable).is_none());
    assert_eq!(serde_json::to_value(&before.observed_include).unwrap(), include);
    let artifact = session
        .api()
        .get("other")
        .await
        .unwrap()
        .status
        .unwrap()
        .artifact
        .unwrap();
    assert_eq!(before.included_artifacts, vec![artifact; 3]);

    let commit = other
        .commit(&[("deploy/new.yaml", Some("n: 1\n")), ("top.yaml", None)])
        .unwrap();
    // the file to copy is gone: the last artifact stays
    let status = session
        .ready("CopyFailure", "failed to copy 'other' include")
        .await;
    assert_eq!(status.artifact, before.artifact);
    let include = json!([{ "repository": { "name": "other" }, "fromPath": "deploy" }]);
    session.patch(json!({ "spec": { "include": include } })).await;
    let expected = [
        "other/",
        "other/b.yaml",
        "other/deep/",
        "other/deep/c.yaml",
        "other/new.yaml",
        "own.yaml",
    ];
    let status = holds(&session, &running, &expected).await;
    assert_eq!(
        status.included_artifacts[0].revision,
        format!("main@sha1:{commit}")
    );
    // the revision is its own
    assert_eq!(
        status.artifact.unwrap().revision,
        before.artifact.unwrap().revision
    );

    // the including source's patterns apply to all files
    session
        .patch(json!({ "spec": { "ignore": "/other/deep" } }))
        .await;
    holds(
        &session,
        &running,
        &["other/", "other/b.yaml", "other/new.yaml", "own.yaml"],
    )
    .await;
    session
        .patch(json!({ "spec": { "include": null, "ignore": null } }))
        .await;
    let status = holds(&session, &running, &["own.yaml"]).await;
    assert!(status.observed_include.is_empty() && status.included_artifacts.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_status_includes_no_artifact_of_another_source() {
    let session = Session::start().await;
    session
        .repository
        .commit(&[("own.yaml", Some("a: 1\n"))])
        .unwrap();
    let running = session.run().await;
    session.create_in("team-b", "secret", spec(json!({}))).await;
    let secret = session.ready_in("team-b", "secret", "stored artifact").await;
    // nobody repairs the status of a suspended one
    session
        .create_named("forged", spec(json!({ "suspend": true })))
        .await;
    let status = Patch::Merge(json!({ "status": { "artifact": secret.artifact } }));
    let api = session.api();
    api.patch_status("forged", &PatchParams::default(), &status)
        .await
        .unwrap();
    let include = json!([{ "repository": { "name": "forged" } }]);
    session.create(spec(json!({ "include": include }))).await;
    session
        .ready("CopyFailure", "that GitRepository 'forged' published")
        .await;
    // the same from the source itself
    let mirror = json!({ "suspend": false, "ref": { "branch": "main" } });
    session.patch_named("forged", json!({ "spec": mirror })).await;
    holds(&session, &running, &["forged/", "forged/own.yaml", "own.yaml"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_include_refuses_escaping_paths_and_cycles() {
    let session = Session::start().await;
    session
        .repository
        .commit(&[("own.yaml", Some("a: 1\n"))])
        .unwrap();
    let _running = session.run().await;
    session.create(spec(json!({}))).await;
    session.create_named("other", spec(json!({}))).await;
    session.ready_named("other", "Succeeded", "stored artifact").await;
    let before = session.ready("Succeeded", "stored artifact").await;
    let check = async |include: Value, reason: &str, message: &str| {
        session.patch(json!({ "spec": { "include": [include] } })).await;
        let status = session.ready(reason, message).await;
        assert_eq!(status.artifact, before.artifact);
    };
    let other = json!({ "name": "other" });
    check(
        json!({ "repository": other, "toPath": "a/../../b" }),
        "IllegalPath",
        "path calculation for include 'other' failed",
    )
    .await;
    check(
        json!({ "repository": other, "fromPath": "../secret" }),
        "IllegalPath",
        "path calculation for include 'other' failed",
    )
    .await;
    check(
        json!({ "repository": other, "toPath": "own.yaml" }),
        "CopyFailure",
        "a file exists there",
    )
    .await;
    check(
        json!({ "repository": { "name": "../apps/other" } }),
        "NotFound",
        "could not get resource for include '../apps/other'",
    )
    .await;
    check(
        json!({ "repository": { "name": "fleet" } }),
        "IncludeCycle",
        "leads back to 'fleet'",
    )
    .await;
    session
        .patch_named(
            "other",
            json!({ "spec": { "include": [{ "repository": { "name": "fleet" } }] } }),
        )
        .await;
    check(
        json!({ "repository": other }),
        "IncludeCycle",
        "include 'other' leads back to 'fleet'",
    )
    .await;

    // the end of the cycle wakes its members
    session
        .patch_named("other", json!({ "spec": { "include": null } }))
        .await;
    session.ready("Succeeded", "stored artifact").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_sparse_checkout() {
    let session = Session::start().await;
    let commit = session
        .repository
        .commit(&[
            ("app/a.yaml", Some("a: 1\n")),
            ("app/b.md", Some("b")),
            ("app/.sourceignore", Some("*.md\n")),
            ("app-old/c.yaml", Some("c: 1\n")),
            ("lib/deep/d.yaml", Some("d: 1\n")),
            ("top.yaml", Some("t: 1\n")),
        ])
        .unwrap();
    let running = session.run().await;
    let sparse = json!(["./app", "lib/deep/"]);
    session.create(spec(json!({ "sparseCheckout": sparse }))).await;
    let expected = [
        "app/",
        "app/.sourceignore",
        "app/a.yaml",
        "lib/",
        "lib/deep/",
        "lib/deep/d.yaml",
    ];
    let before = holds(&session, &running, &expected).await;
    assert_eq!(json!(before.observed_sparse_checkout), sparse);
    assert_eq!(
        before.artifact.as_ref().unwrap().revision,
        format!("main@sha1:{commit}")
    );

    for (path, text) in [("gone", "'gone'"), ("../x", "'../x'"), ("/app", "'/app'")] {
        session
            .patch(json!({ "spec": { "sparseCheckout": ["lib", path] } }))
            .await;
        let message = format!(
            "failed to sparse checkout directories : sparse checkout dir {text} does not exist in repository"
        );
        let status = session.ready("GitOperationFailed", &message).await;
        assert_eq!(status.artifact, before.artifact);
    }
    session
        .patch(json!({ "spec": { "sparseCheckout": ["top.yaml"] } }))
        .await;
    holds(&session, &running, &["top.yaml"]).await;
    session.patch(json!({ "spec": { "sparseCheckout": null } })).await;
    let status = holds(
        &session,
        &running,
        &[
            "app/",
            "app/.sourceignore",
            "app/a.yaml",
            "app-old/",
            "app-old/c.yaml",
            "lib/",
            "lib/deep/",
            "lib/deep/d.yaml",
            "top.yaml",
        ],
    )
    .await;
    assert!(status.observed_sparse_checkout.is_empty());
}
