//! ArtifactGenerator.

mod artifacts;
mod sources;
mod status;

use equate_api::extensions::ArtifactGenerator;
use equate_api::source::ExternalArtifact;
use equate_controllers::Policy;
use equate_testkit::eventually::eventually;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use super::merge;
use crate::session::{DEADLINE, Options, Session};

const KIND: &str = "ArtifactGenerator";
const MADE: &str = "ExternalArtifact";

const FILES: [(&str, &str); 5] = [
    ("apps/db/a.yaml", "a: db\n"),
    ("apps/web/a.yaml", "a: web\n"),
    ("apps/web/b.md", "text"),
    ("common/a.yaml", "a: common\nb: {c: 1}\n"),
    ("common/over.yaml", "b: {d: 2}\n"),
];

async fn start() -> Session {
    start_with(&FILES, Options::default()).await
}

async fn start_with(files: &[(&str, &str)], options: Options) -> Session {
    let options = Options {
        policy: Policy {
            external_artifacts: true,
            ..Policy::default()
        },
        kinds: vec![ExternalArtifact::crd(), ArtifactGenerator::crd()],
        ..options
    };
    Session::anywhere_with(files, options).await
}

/// The session's repository as the source `git`.
fn git() -> Value {
    json!({ "alias": "git", "kind": "GitRepository", "name": "fleet" })
}

/// A generator `split` of that source.
async fn generate(session: &Session, spec: Value) {
    let mut whole = json!({ "sources": [git()] });
    merge(&mut whole, &spec);
    session.declare(KIND, "split", whole).await;
}

/// An artifact `app` with these copy operations.
fn copies(operations: Value) -> Value {
    json!({ "artifacts": [{ "name": "app", "copy": operations }] })
}

/// Waits until the generator has succeeded; returns its status.
async fn succeeded(session: &Session, count: usize) -> Value {
    let message = format!("reconciliation succeeded, generated {count} artifact(s)");
    session.reports(KIND, "split", "Succeeded", &message).await
}

/// Waits until an ExternalArtifact has these files; returns it.
async fn holds(session: &Session, name: &str, expected: &[(&str, &str)]) -> Value {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let what = format!("ExternalArtifact {name} holds {expected:?}");
    eventually(&what, DEADLINE, async || {
        let object = session.look(MADE, "@home", name).await;
        match session.contents(&object["status"]["artifact"]) {
            Some(files) if files == expected => Ok(object),
            files => Err(format!("{files:?} {object}")),
        }
    })
    .await
}
