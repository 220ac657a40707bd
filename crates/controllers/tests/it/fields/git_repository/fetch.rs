//! The revision to fetch, and the time.

use equate_api::source::GitRepository;
use equate_testkit::git::Repository;
use serde_json::{Value, json};

use crate::session::{Options, Session, URL};

#[tokio::test]
async fn spec_url() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.source("app", json!({})).await;
    session.stored("app", &commit).await;
    let nothing = "https://127.0.0.1:1/nothing";
    session.change("app", json!({ "url": nothing })).await;
    session.says("app", "GitOperationFailed", nothing).await;
    session.change("app", json!({ "url": URL })).await;
    session.stored("app", &commit).await;
    session.end().await;
}

/// A repository without commits; the first commit is found.
#[tokio::test]
async fn spec_url_of_an_empty_repository() {
    let empty = Repository::init_bare().unwrap();
    let url = "https://local.invalid/empty";
    let options = Options {
        others: vec![(url.to_owned(), empty.path().to_owned())],
        ..Options::default()
    };
    let session = Session::anywhere_with(&[], options).await;
    session.source("app", json!({ "url": url })).await;
    let status = session
        .says("app", "EmptyGitRepository", "git repository is empty")
        .await;
    let failed = status["conditions"].as_array().unwrap().iter();
    let failed: Vec<&Value> = failed
        .filter(|condition| condition["type"] == "FetchFailed")
        .map(|condition| &condition["message"])
        .collect();
    assert_eq!(failed, ["git repository is empty"]);
    let commit = empty.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.stored("app", &commit).await;
    session.end().await;
}

#[tokio::test]
async fn spec_ref_branch() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let other = session
        .repository
        .commit_to("other", "other", &[("a.yaml", Some("a: other\n"))])
        .unwrap();
    session
        .source("app", json!({ "ref": { "branch": "other" } }))
        .await;
    let status = session.stored("app", &other).await;
    assert_eq!(
        status["artifact"]["revision"],
        json!(format!("other@sha1:{other}"))
    );
    session
        .change("app", json!({ "ref": { "branch": "absent" } }))
        .await;
    session.says("app", "GitOperationFailed", "absent").await;
    session.end().await;
}

/// The default is `master`.
#[tokio::test]
async fn spec_ref_branch_by_default() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let master = session
        .repository
        .commit_to("master", "other", &[("a.yaml", Some("a: master\n"))])
        .unwrap();
    session.source("app", json!({ "ref": null })).await;
    session.stored("app", &master).await;
    session.end().await;
}

#[tokio::test]
async fn spec_ref_tag() {
    let session = Session::anywhere(&[]).await;
    let tagged = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.repository.tag("v1", &tagged).unwrap();
    session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.source("app", json!({ "ref": { "tag": "v1" } })).await;
    let status = session.stored("app", &tagged).await;
    assert_eq!(status["artifact"]["revision"], json!(format!("v1@sha1:{tagged}")));
    session.end().await;
}

#[tokio::test]
async fn spec_ref_semver() {
    let session = Session::anywhere(&[]).await;
    let mut tagged = Vec::new();
    for tag in ["v1.2.0", "v1.10.0", "v2.0.0"] {
        let commit = session.repository.commit(&[("a.yaml", Some(tag))]).unwrap();
        session.repository.tag(tag, &commit).unwrap();
        tagged.push(commit);
    }
    session.source("app", json!({ "ref": { "semver": "1.x" } })).await;
    let status = session.stored("app", &tagged[1]).await;
    assert_eq!(
        status["artifact"]["revision"],
        json!(format!("v1.10.0@sha1:{}", tagged[1]))
    );
    session.end().await;
}

#[tokio::test]
async fn spec_ref_name() {
    let session = Session::anywhere(&[]).await;
    let wanted = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.repository.set_ref("refs/pull/1/head", &wanted).unwrap();
    session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session
        .source("app", json!({ "ref": { "name": "refs/pull/1/head" } }))
        .await;
    let status = session.stored("app", &wanted).await;
    let revision = format!("refs/pull/1/head@sha1:{wanted}");
    assert_eq!(status["artifact"]["revision"], json!(revision));
    session.end().await;
}

#[tokio::test]
async fn spec_ref_commit() {
    let session = Session::anywhere(&[]).await;
    let wanted = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session
        .source("app", json!({ "ref": { "branch": "main", "commit": wanted } }))
        .await;
    let status = session.stored("app", &wanted).await;
    assert_eq!(
        status["artifact"]["revision"],
        json!(format!("main@sha1:{wanted}"))
    );
    session.end().await;
}

#[tokio::test]
async fn spec_interval() {
    let session = Session::anywhere(&[]).await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    // a local directory is watched; a server is polled
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    session
        .source("app", json!({ "url": server.url(), "interval": "1s" }))
        .await;
    session.stored("app", &first).await;
    let second = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.stored("app", &second).await;
    session.end().await;
}

#[tokio::test]
async fn spec_suspend() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    session.source("app", json!({ "suspend": true })).await;
    session.source("also", json!({})).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.stored("also", &commit).await;
    let status = session.look("GitRepository", "@home", "app").await["status"].clone();
    assert_eq!(status["artifact"], json!(null));
    session.change("app", json!({ "suspend": false })).await;
    session.stored("app", &commit).await;
    session.end().await;
}

#[tokio::test]
async fn spec_timeout() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    server.set(equate_testkit::git::Fault::Silence);
    session
        .source("app", json!({ "url": server.url(), "timeout": "1s" }))
        .await;
    session.says("app", "GitOperationFailed", "1s").await;
    session.end().await;
}

#[tokio::test]
async fn annotation_requested_at() {
    let session = Session::anywhere(&[]).await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    session.source("app", json!({ "url": server.url() })).await;
    session.stored("app", &first).await;
    let second = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
    session.merge::<GitRepository>("@home", "app", asked).await;
    let status = session.stored("app", &second).await;
    assert_eq!(status["lastHandledReconcileAt"], json!("now"));
    session.end().await;
}

/// An object with a shard's key belongs to another process.
#[tokio::test]
async fn label_sharding_key() {
    let options = Options {
        selector: Some("!sharding.fluxcd.io/key".to_owned()),
        ..Options::default()
    };
    let session = Session::anywhere_with(&[], options).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.source("app", json!({ "suspend": true })).await;
    let key = |key: Value| json!({ "metadata": { "labels": { "sharding.fluxcd.io/key": key } } });
    session
        .merge::<GitRepository>("@home", "app", key(json!("one")))
        .await;
    session.change("app", json!({ "suspend": false })).await;
    session.source("also", json!({})).await;
    session.stored("also", &commit).await;
    let status = session.look("GitRepository", "@home", "app").await["status"].clone();
    assert_eq!(status["artifact"], Value::Null);
    session
        .merge::<GitRepository>("@home", "app", key(Value::Null))
        .await;
    session.stored("app", &commit).await;
    session.end().await;
}

/// Annotations of its events.
#[tokio::test]
async fn annotation_event() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    session.source("app", json!({ "suspend": true })).await;
    let team = json!({ "metadata": { "annotations": { "event.toolkit.fluxcd.io/team": "blue" } } });
    session.merge::<GitRepository>("@home", "app", team).await;
    session.change("app", json!({ "suspend": false })).await;
    session
        .carries("GitRepository", "app", "event.toolkit.fluxcd.io/team", "blue")
        .await;
    session.end().await;
}
