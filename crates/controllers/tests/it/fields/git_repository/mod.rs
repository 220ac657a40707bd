//! GitRepository.

mod content;
mod fetch;
mod network;
mod status;
mod verify;

use equate_source::{Entry, Limits, Tree};
use equate_testkit::eventually::eventually;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::session::{DEADLINE, Session, URL};

impl Session {
    /// A GitRepository of the session's repository, with an interval of an hour unless the spec sets one.
    async fn source(&self, name: &str, spec: Value) {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": { "name": name, "namespace": "@home", "labels": self.labels() },
            "spec": { "url": URL, "interval": "1h", "ref": { "branch": "main" } },
        });
        super::merge(&mut object["spec"], &spec);
        self.create(object).await;
    }

    async fn change(&self, name: &str, spec: Value) {
        let patch = json!({ "spec": spec });
        self.merge::<equate_api::source::GitRepository>("@home", name, patch)
            .await;
    }

    async fn secret(&self, name: &str, data: Value) {
        let text = super::manifest("Secret", name, json!({ "stringData": data }));
        self.create(serde_json::from_str(&text).unwrap()).await;
    }

    /// Waits until a GitRepository has this reason and message; returns its status.
    async fn says(&self, name: &str, reason: &str, message: &str) -> Value {
        let message = self.here(message);
        let what = format!("GitRepository {name} says {reason} {message}");
        eventually(&what, DEADLINE, async || {
            let status = self.look("GitRepository", "@home", name).await["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions
                .into_iter()
                .find(|condition| condition["type"] == "Ready");
            let ready = ready.unwrap_or_default();
            let text = ready["message"].as_str().unwrap_or_default();
            match ready["reason"] == *reason && text.contains(&message) {
                true => Ok(status),
                false => Err(ready.to_string()),
            }
        })
        .await
    }

    /// Waits until its artifact is of this commit.
    async fn stored(&self, name: &str, commit: &str) -> Value {
        self.says(name, "Succeeded", &format!("sha1:{commit}'")).await
    }

    /// Waits until its artifact holds these files.
    async fn holds(&self, name: &str, expected: &[&str]) -> Value {
        eventually(
            &format!("the artifact of {name} holds {expected:?}"),
            DEADLINE,
            async || {
                let status = self.look("GitRepository", "@home", name).await["status"].clone();
                match self.files(&status["artifact"]) {
                    Some(files) if files == expected => Ok(status),
                    files => Err(format!("{files:?}")),
                }
            },
        )
        .await
    }

    /// The files of an artifact; `None` where there is none, or a newer one has replaced it.
    fn files(&self, artifact: &Value) -> Option<Vec<String>> {
        let path = self.folder().join("artifacts").join(artifact["path"].as_str()?);
        let archive = std::fs::read(path).ok()?;
        let digest = Sha256::digest(&archive);
        let digest = digest.iter().map(|byte| format!("{byte:02x}"));
        if artifact["digest"] != *format!("sha256:{}", digest.collect::<String>()) {
            return None;
        }
        let tree = Tree::from_archive(&*archive, &Limits::default()).unwrap();
        let mut files = Vec::new();
        below(&tree, "", &mut files);
        Some(files)
    }
}

/// The files below a directory, by path.
fn below(tree: &Tree, directory: &str, files: &mut Vec<String>) {
    for (name, entry) in tree.list(directory).unwrap_or_default() {
        let path = match directory {
            "" => name,
            directory => format!("{directory}/{name}"),
        };
        match entry {
            Entry::Directory { .. } => below(tree, &path, files),
            _ => files.push(path),
        }
    }
}
