//! The objects of an artifact.

use equate_testkit::bucket::{BucketFault, BucketOptions};
use serde_json::{Value, json};

use super::Store;
use crate::session::Options;

/// The objects that were fetched since the last call.
fn fetched(store: &Store) -> Vec<String> {
    let requests = store.server.take().into_iter();
    let mut keys: Vec<String> = requests
        .filter_map(|request| {
            Some(
                request
                    .strip_prefix("GET /apps/")?
                    .strip_suffix(" 200")?
                    .to_owned(),
            )
        })
        .filter(|key| !key.starts_with('?'))
        .collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn spec_prefix() {
    let store = Store::open().await;
    for key in ["apps/a.yaml", "apps/b.yaml", "appsets.yaml", "other.yaml"] {
        store.server.put(key, key);
    }
    store.source("app", json!({ "prefix": "apps/" })).await;
    store
        .holds(
            "app",
            &[("apps/a.yaml", "apps/a.yaml"), ("apps/b.yaml", "apps/b.yaml")],
        )
        .await;
    store.session.end().await;
}

/// It has no default patterns, and comes after the `.sourceignore` of the bucket.
#[tokio::test]
async fn spec_ignore() {
    let store = Store::open().await;
    for key in ["a.md", "docs/a.yaml", "docs/b.yaml", "logo.png"] {
        store.server.put(key, key);
    }
    store.server.put(".sourceignore", "docs/\n");
    store.source("app", json!({})).await;
    let file = (".sourceignore", "docs/\n");
    store
        .holds("app", &[file, ("a.md", "a.md"), ("logo.png", "logo.png")])
        .await;
    store
        .change("app", json!({ "ignore": "*.md\n!docs/b.yaml\n" }))
        .await;
    store
        .holds(
            "app",
            &[file, ("docs/b.yaml", "docs/b.yaml"), ("logo.png", "logo.png")],
        )
        .await;
    store.session.end().await;
}

/// Only changed objects are fetched; those of an unchanged revision never.
#[tokio::test]
async fn annotation_requested_at() {
    let options = BucketOptions {
        page: 2,
        ..BucketOptions::default()
    };
    let store = Store::with(options, Options::default()).await;
    for key in ["a.yaml", "b/c.yaml", "d.yaml", "empty/", "x y.yaml"] {
        store.server.put(key, key);
    }
    store.source("app", json!({})).await;
    let all = [
        ("a.yaml", "a.yaml"),
        ("b/c.yaml", "b/c.yaml"),
        ("d.yaml", "d.yaml"),
        ("x y.yaml", "x y.yaml"),
    ];
    let status = store.holds("app", &all).await;
    assert_eq!(fetched(&store), ["a.yaml", "b/c.yaml", "d.yaml", "x%20y.yaml"]);
    let key = "source.toolkit.fluxcd.io/revision";
    let revision = status["artifact"]["revision"].as_str().unwrap();
    store.session.carries("Bucket", "app", key, revision).await;
    store
        .says("app", "Succeeded", "stored artifact: revision 'sha256:")
        .await;

    store.ask("app", "same").await;
    let pointer = "/status/lastHandledReconcileAt";
    store.session.is("Bucket", "app", pointer, json!("same")).await;
    assert_eq!(fetched(&store), Vec::<String>::new());

    store.server.put("d.yaml", "new");
    store.server.put("e.yaml", "e");
    store.server.remove("a.yaml");
    store.ask("app", "changed").await;
    let now = [
        ("b/c.yaml", "b/c.yaml"),
        ("d.yaml", "new"),
        ("e.yaml", "e"),
        ("x y.yaml", "x y.yaml"),
    ];
    store.holds("app", &now).await;
    assert_eq!(fetched(&store), ["d.yaml", "e.yaml"]);

    // a failed fetch keeps the artifact
    store.server.put("e.yaml", "e, and more");
    store.server.fault(BucketFault::Cut, 3);
    store.ask("app", "cut").await;
    store
        .says(
            "app",
            "BucketOperationFailed",
            "fetch from bucket 'apps' failed: failed to get 'e.yaml' object",
        )
        .await;
    let now = [
        ("b/c.yaml", "b/c.yaml"),
        ("d.yaml", "new"),
        ("e.yaml", "e, and more"),
        ("x y.yaml", "x y.yaml"),
    ];
    store.holds("app", &now).await;

    // a path that is both a file and a directory
    store.server.put("e.yaml/f", "f");
    store.ask("app", "both").await;
    let status = store
        .says(
            "app",
            "BucketOperationFailed",
            "it is both a file and a directory",
        )
        .await;
    assert_ne!(status["artifact"], Value::Null);
    store.session.end().await;
}
