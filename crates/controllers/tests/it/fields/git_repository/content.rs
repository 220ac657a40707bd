//! The content of the artifact.

use equate_testkit::git::Repository;
use serde_json::json;

use super::super::git;
use crate::session::{Options, Session};

const FILES: [(&str, &str); 5] = [
    ("app/a.yaml", "a: 1\n"),
    ("app/logo.png", "no image"),
    ("app/notes.md", "notes"),
    ("lib/b.yaml", "b: 1\n"),
    ("README.md", "read"),
];

/// The patterns replace the default ones.
#[tokio::test]
async fn spec_ignore() {
    let session = Session::anywhere(&FILES).await;
    session.source("app", json!({})).await;
    let all = ["README.md", "app/a.yaml", "app/notes.md", "lib/b.yaml"];
    session.holds("app", &all).await;
    session.change("app", json!({ "ignore": "*.md\n/lib\n" })).await;
    session.holds("app", &["app/a.yaml", "app/logo.png"]).await;
    session.end().await;
}

/// The patterns of a file in the repository do, too.
#[tokio::test]
async fn spec_ignore_file() {
    let session = Session::anywhere(&FILES).await;
    session.commit(&[(".sourceignore", Some("*.md\n"))]);
    session.source("app", json!({})).await;
    session
        .holds(
            "app",
            &[".sourceignore", "app/a.yaml", "app/logo.png", "lib/b.yaml"],
        )
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_sparse_checkout() {
    let session = Session::anywhere(&FILES).await;
    session.source("app", json!({ "sparseCheckout": ["lib"] })).await;
    let status = session.holds("app", &["lib/b.yaml"]).await;
    assert_eq!(status["observedSparseCheckout"], json!(["lib"]));
    session.end().await;
}

/// The artifact of one repository inside another's.
async fn included(include: serde_json::Value, expected: &[&str]) {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    session
        .repository
        .commit_to(
            "other",
            "other",
            &[("deep/c.yaml", Some("c: 1\n")), ("d.yaml", Some("d: 1\n"))],
        )
        .unwrap();
    session
        .source("other", json!({ "ref": { "branch": "other" } }))
        .await;
    session.source("app", json!({ "include": [include] })).await;
    let status = session.holds("app", expected).await;
    assert_eq!(status["observedInclude"].as_array().map(Vec::len), Some(1));
    let part = &status["includedArtifacts"][0]["revision"];
    assert!(part.as_str().unwrap().starts_with("other@sha1:"), "{part}");
    session.end().await;
}

#[tokio::test]
async fn spec_include_repository_name() {
    let include = json!({ "repository": { "name": "other" } });
    included(include, &["a.yaml", "other/d.yaml", "other/deep/c.yaml"]).await;
}

#[tokio::test]
async fn spec_include_from_path() {
    let include = json!({ "repository": { "name": "other" }, "fromPath": "deep" });
    included(include, &["a.yaml", "other/c.yaml"]).await;
}

#[tokio::test]
async fn spec_include_to_path() {
    let include = json!({ "repository": { "name": "other" }, "fromPath": "deep", "toPath": "vendor/x" });
    included(include, &["a.yaml", "vendor/x/c.yaml"]).await;
}

#[tokio::test]
async fn spec_recurse_submodules() {
    let other = Repository::init().unwrap();
    let inner = other.commit(&[("i.yaml", Some("i: 1\n"))]).unwrap();
    let options = Options {
        others: vec![("https://local.invalid/other".to_owned(), other.path().to_owned())],
        ..Options::default()
    };
    let session = Session::anywhere_with(&[("a.yaml", "a: 1\n")], options).await;
    let modules = "[submodule \"in\"]\n\tpath = in\n\turl = ../other\n";
    let plain = session
        .repository
        .commit(&[(".gitmodules", Some(modules))])
        .unwrap();
    let link = format!("160000,{inner},in");
    let Some(_) = git(&session, &["read-tree", &plain]) else {
        return;
    };
    git(&session, &["update-index", "--add", "--cacheinfo", &link]);
    let tree = git(&session, &["write-tree"]).unwrap();
    let linked = git(&session, &["commit-tree", "-m", "linked", "-p", &plain, &tree]).unwrap();
    session.repository.set_branch("main", &linked).unwrap();
    session.source("app", json!({})).await;
    session.holds("app", &["a.yaml"]).await;
    session.change("app", json!({ "recurseSubmodules": true })).await;
    let status = session.holds("app", &["a.yaml", "in/i.yaml"]).await;
    assert_eq!(status["observedRecurseSubmodules"], json!(true));
    session.end().await;
}
