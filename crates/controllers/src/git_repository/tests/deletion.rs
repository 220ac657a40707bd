//! A GitRepository that is deleted while its artifact is made.

use serde_json::json;

use crate::sources::charts::HelmSettings;
use crate::sources::testing::{GIT_URL, Session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_ends_the_making_of_an_artifact() {
    let session = Session::start(HelmSettings::default()).await;
    // minutes of comparisons: each tries each place of the name
    let names: Vec<String> = (0..400)
        .map(|number| format!("{}{number}", "a".repeat(240)))
        .collect();
    let patterns: String = (0..9000)
        .map(|number| format!("*{}-{number}\n", "a".repeat(90)))
        .collect();
    let mut files: Vec<(&str, Option<&str>)> = names.iter().map(|name| (&**name, Some("a"))).collect();
    files.push((".sourceignore", Some(&patterns)));
    session.repository.commit(&files).unwrap();
    let spec = json!({ "url": GIT_URL, "ref": { "branch": "main" }, "interval": "1h" });
    session
        .create("GitRepository", "long", json!({ "spec": spec }))
        .await;
    session.ready("GitRepository", "long", "Progressing", "").await;
    session.delete("GitRepository", "long").await;
    assert_eq!(session.warnings().await, Vec::<String>::new());
    session.stop().await;
}
