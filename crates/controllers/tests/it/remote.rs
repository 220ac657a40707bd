//! Git over a failing network: no object that git holds is pruned, no other source waits, and the cluster
//! follows after recovery.

use std::time::Duration;

use equate_api::meta::{ConditionType, condition};
use equate_api::source::{GitRepository, GitRepositoryStatus};
use equate_testkit::eventually::eventually;
use equate_testkit::git::{Fault, HttpServer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::session::{DEADLINE, HOME, Session, config_map, ready};

/// A session whose Kustomization `apps` reads a repository over HTTP; `None` without git.
async fn start(files: &[(&str, &str)]) -> Option<(Session, HttpServer)> {
    let session = Session::start(files).await;
    let server = session.repository.serve_http().unwrap()?;
    source(&session, "remote", json!({ "url": server.url() })).await;
    let spec = json!({ "sourceRef": { "kind": "GitRepository", "name": "remote" } });
    session.kustomize("apps", "apps", spec).await;
    Some((session, server))
}

/// A GitRepository of `main` with an interval of a second.
async fn source(session: &Session, name: &str, spec: Value) {
    let mut object = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": { "name": name, "namespace": HOME },
        "spec": { "interval": "1s", "ref": { "branch": "main" } },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    let object: GitRepository = serde_json::from_value(object).unwrap();
    let api: Api<GitRepository> = Api::namespaced(session.client.clone(), HOME);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Waits until a source's `Ready` has this reason and text.
async fn says(session: &Session, name: &str, reason: &str, text: &str) -> GitRepositoryStatus {
    let what = format!("GitRepository {name} says {reason} {text}");
    let look = async || {
        let object: GitRepository = session.get(HOME, name).await.ok_or("it is gone")?;
        let status = object.status.unwrap_or_default();
        let said = condition(&status.conditions, ConditionType::Ready);
        let said = said.map(|ready| (ready.reason.clone(), ready.message.clone()));
        match said {
            Some((own, message)) if own == reason && message.contains(text) => Ok(status),
            said => Err(format!("{said:?}")),
        }
    };
    eventually(&what, DEADLINE, look).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_host_changes_nothing() {
    let files = [("apps/a.yaml", &*config_map("a", "one"))];
    let Some((session, server)) = start(&files).await else {
        return;
    };
    session.value("default", "a", Some("one")).await;
    let before = says(&session, "remote", "Succeeded", "stored artifact").await;
    let revision = before.artifact.as_ref().unwrap().revision.clone();
    session.ready("apps", &revision).await;
    let faults = [
        (
            Fault::Status(401),
            "GitOperationFailed",
            "the host requires credentials (HTTP 401)",
        ),
        (
            Fault::Status(403),
            "GitOperationFailed",
            "the host forbids access (HTTP 403)",
        ),
        (
            Fault::Status(404),
            "GitOperationFailed",
            "no such repository (HTTP 404)",
        ),
        (
            Fault::Status(503),
            "GitOperationFailed",
            "the host failed (HTTP 503)",
        ),
        (
            Fault::Garbage,
            "GitOperationFailed",
            "its answer is not git's protocol",
        ),
        (
            Fault::Page,
            "GitOperationFailed",
            "its answer is not git's protocol",
        ),
        (Fault::Cut(10), "GitOperationFailed", "the connection broke"),
    ];
    for (fault, reason, text) in faults {
        server.set(fault.clone());
        let status = says(&session, "remote", reason, text).await;
        assert_eq!(status.artifact, before.artifact, "{fault:?}");
        // Back to health in between, so that no failure waits for the backoff of all before it.
        server.set(Fault::None);
        says(&session, "remote", "Succeeded", "stored artifact").await;
    }
    let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))]);
    session.value("default", "a", Some("two")).await;
    session.ready("apps", &revision).await;

    drop(server);
    let status = says(&session, "remote", "GitOperationFailed", "no connection").await;
    assert_eq!(status.artifact.unwrap().revision, revision);
    let apps = session.kustomizations().get("apps").await.unwrap();
    let said = ready(&apps.status.unwrap());
    assert_eq!(said, ("True".to_owned(), format!("Applied revision: {revision}")));
    assert!(session.get::<ConfigMap>("default", "a").await.is_some());
    session.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_pack_keeps_the_artifact() {
    // Incompressible text: the list of refs fits through the limit, the pack does not.
    let noise = |seed: u64| -> String {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
        };
        (0..8_000).map(|_| next()).collect()
    };
    let one = config_map("a", &noise(1));
    let Some((session, server)) = start(&[("apps/a.yaml", &*one)]).await else {
        return;
    };
    session.value("default", "a", Some(&noise(1))).await;
    let before = says(&session, "remote", "Succeeded", "stored artifact").await;
    for fault in [Fault::Cut(3_000), Fault::Status(500)] {
        server.set(fault.clone());
        let two = config_map("a", &noise(2));
        let revision = session.commit(&[
            ("apps/a.yaml", Some(&*two)),
            ("apps/b.yaml", Some(&*config_map("b", "new"))),
        ]);
        let status = says(&session, "remote", "GitOperationFailed", "failed to checkout").await;
        assert_eq!(status.artifact, before.artifact);
        if fault == Fault::Cut(3_000) {
            let outdated = condition(&status.conditions, ConditionType::ArtifactOutdated).unwrap();
            assert!(outdated.message.contains(&revision), "{}", outdated.message);
        }
    }
    assert!(session.get::<ConfigMap>("default", "b").await.is_none());
    server.set(Fault::None);
    session.value("default", "b", Some("new")).await;
    session.value("default", "a", Some(&noise(2))).await;
    session.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_push_is_followed() {
    let files = [
        ("apps/a.yaml", &*config_map("a", "one")),
        ("apps/b.yaml", &*config_map("b", "one")),
    ];
    let Some((session, _server)) = start(&files).await else {
        return;
    };
    session.value("default", "a", Some("one")).await;
    session.value("default", "b", Some("one")).await;
    let other = [
        ("apps/b.yaml", Some(&*config_map("b", "another history"))),
        ("apps/c.yaml", Some(&*config_map("c", "new"))),
    ];
    let commit = session
        .repository
        .commit_to("other", "rewritten", &other)
        .unwrap();
    session.repository.set_branch("main", &commit).unwrap();
    session.value("default", "b", Some("another history")).await;
    session.value("default", "c", Some("new")).await;
    session.value("default", "a", None).await;
    session.ready("apps", &format!("main@sha1:{commit}")).await;

    // The branch is deleted: applied objects stay, and the message names the existing branches.
    session.repository.delete_branch("main").unwrap();
    says(
        &session,
        "remote",
        "GitOperationFailed",
        "branch \"main\" does not exist",
    )
    .await;
    says(&session, "remote", "GitOperationFailed", "near it: other").await;
    assert!(session.get::<ConfigMap>("default", "c").await.is_some());
    session.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_hosts_block_no_other_source() {
    let files = [("apps/a.yaml", &*config_map("a", "one"))];
    let session = Session::start(&files).await;
    let (Some(silent), Some(server)) = (
        session.repository.serve_http().unwrap(),
        session.repository.serve_http().unwrap(),
    ) else {
        return;
    };
    silent.set(Fault::Silence);
    // More of them than an engine runs Kustomizations at once, each for longer than this test waits.
    for at in 0..12 {
        let spec = json!({ "url": silent.url(), "timeout": "10m" });
        source(&session, &format!("silent-{at:02}"), spec).await;
    }
    let what = "each waits for an answer";
    eventually(what, DEADLINE, async || {
        let object: Option<GitRepository> = session.get(HOME, "silent-00").await;
        match object
            .and_then(|object| object.status)
            .is_some_and(|status| !status.conditions.is_empty())
        {
            true => Ok(()),
            false => Err("nothing is said yet"),
        }
    })
    .await;
    source(&session, "remote", json!({ "url": server.url() })).await;
    says(&session, "remote", "Succeeded", "stored artifact").await;

    // A slow host, within the timeout.
    server.set(Fault::Delay(Duration::from_millis(200)));
    let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))]);
    says(&session, "remote", "Succeeded", &revision).await;
    drop(silent);
    session.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_host_times_out() {
    let files = [("apps/a.yaml", &*config_map("a", "one"))];
    let Some((session, server)) = start(&files).await else {
        return;
    };
    session.value("default", "a", Some("one")).await;
    server.set(Fault::Stall);
    session
        .merge::<GitRepository>(HOME, "remote", json!({ "spec": { "timeout": "1s" } }))
        .await;
    says(&session, "remote", "GitOperationFailed", "it took longer than 1s").await;
    server.set(Fault::None);
    let revision = session.commit(&[("apps/a.yaml", Some(&*config_map("a", "two")))]);
    session.value("default", "a", Some("two")).await;
    session.ready("apps", &revision).await;
    session.end().await;
}
