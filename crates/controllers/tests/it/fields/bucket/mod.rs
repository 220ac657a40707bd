//! Bucket, with a store in the same process that computes the signatures itself.

mod access;
mod content;
mod status;

use equate_api::source::Bucket;
use equate_source::{Entry, Limits, Tree};
use equate_testkit::bucket::{BucketOptions, BucketServer};
use equate_testkit::eventually::eventually;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::session::{DEADLINE, Options, Session};

/// A session with a store and the Secret `keys` for it.
struct Store {
    session: Session,
    server: BucketServer,
}

impl Store {
    async fn open() -> Store {
        Self::with(BucketOptions::default(), Options::default()).await
    }

    async fn with(store: BucketOptions, options: Options) -> Store {
        Self::of(BucketServer::start(store).unwrap(), options).await
    }

    async fn of(server: BucketServer, options: Options) -> Store {
        let kinds = vec![Bucket::crd()];
        let session = Session::anywhere_with(&[], Options { kinds, ..options }).await;
        let store = Store { session, server };
        let keys = json!({ "accesskey": "access", "secretkey": "secret/key+1" });
        store.secret("keys", keys).await;
        store
    }

    /// A Bucket of the store, with an interval of an hour unless the spec sets one.
    async fn source(&self, name: &str, spec: Value) {
        self.session.create(self.object(name, &spec)).await;
    }

    fn object(&self, name: &str, spec: &Value) -> Value {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "Bucket",
            "metadata": { "name": name, "namespace": "@home", "labels": self.session.labels() },
            "spec": {
                "bucketName": "apps",
                "endpoint": self.server.endpoint(),
                "insecure": true,
                "interval": "1h",
                "secretRef": { "name": "keys" },
            },
        });
        super::merge(&mut object["spec"], spec);
        let fields = object["spec"].as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        object
    }

    async fn change(&self, name: &str, spec: Value) {
        let patch = json!({ "spec": spec });
        self.session.merge::<Bucket>("@home", name, patch).await;
    }

    /// Requests a run now.
    async fn ask(&self, name: &str, token: &str) {
        let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } });
        self.session.merge::<Bucket>("@home", name, asked).await;
    }

    async fn secret(&self, name: &str, data: Value) {
        let text = super::manifest("Secret", name, json!({ "stringData": data }));
        self.session.create(serde_json::from_str(&text).unwrap()).await;
    }

    /// Waits until it has this reason and message; returns its status.
    async fn says(&self, name: &str, reason: &str, message: &str) -> Value {
        let message = self.session.here(message);
        let what = format!("Bucket {name} says {reason} {message}");
        eventually(&what, DEADLINE, async || {
            let object = self.session.look("Bucket", "@home", name).await;
            let status = object["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let mut conditions = conditions.into_iter();
            let ready = conditions
                .find(|condition| condition["type"] == "Ready")
                .unwrap_or_default();
            let text = ready["message"].as_str().unwrap_or_default();
            match ready["reason"] == *reason && text.contains(&message) {
                true => Ok(status),
                false => Err(ready.to_string()),
            }
        })
        .await
    }

    /// Waits until its artifact holds these files; returns its status.
    async fn holds(&self, name: &str, expected: &[(&str, &str)]) -> Value {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let what = format!("the artifact of {name} holds {expected:?}");
        eventually(&what, DEADLINE, async || {
            let object = self.session.look("Bucket", "@home", name).await;
            let status = object["status"].clone();
            match self.files(&status["artifact"]) {
                Some(files) if files == expected => Ok(status),
                files => Err(format!("{files:?} {status}")),
            }
        })
        .await
    }

    /// The bytes of an artifact; `None` where there is none, or a newer one has replaced it.
    fn bytes(&self, artifact: &Value) -> Option<Vec<u8>> {
        let folder = self.session.folder().join("artifacts");
        let archive = std::fs::read(folder.join(artifact["path"].as_str()?)).ok()?;
        let digest = Sha256::digest(&archive);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        (artifact["digest"] == *format!("sha256:{digest}")).then_some(archive)
    }

    fn files(&self, artifact: &Value) -> Option<Vec<(String, String)>> {
        let archive = self.bytes(artifact)?;
        let tree = Tree::from_archive(&*archive, &Limits::default()).unwrap();
        let mut files = Vec::new();
        below(&tree, "", &mut files);
        Some(files)
    }
}

/// The files below a directory, by path.
fn below(tree: &Tree, directory: &str, files: &mut Vec<(String, String)>) {
    for (name, entry) in tree.list(directory).unwrap_or_default() {
        let path = match directory {
            "" => name,
            directory => format!("{directory}/{name}"),
        };
        match entry {
            Entry::Directory { .. } => below(tree, &path, files),
            _ => {
                let text = String::from_utf8_lossy(&tree.read(&path).unwrap()).into_owned();
                files.push((path, text));
            }
        }
    }
}
