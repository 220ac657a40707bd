//! OCIRepository, with a registry in the same process.

mod access;
mod content;
mod reference;
mod status;
mod verify;

use std::io::Write as _;

use equate_api::source::OciRepository;
use equate_source::{Entry, Limits, Tree};
use equate_testkit::eventually::eventually;
use equate_testkit::registry::{RegistryGuard, RegistryOptions, RegistryServer};
use flate2::Compression;
use flate2::write::GzEncoder;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::session::{DEADLINE, Options, Session};

/// The media type of Flux's own artifacts.
pub(crate) const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

/// A session with a registry.
struct Registry {
    session: Session,
    server: RegistryServer,
}

impl Registry {
    async fn open() -> Registry {
        Self::with(RegistryOptions::default(), Options::default()).await
    }

    async fn guarded(guard: RegistryGuard) -> Registry {
        let options = RegistryOptions {
            guard,
            ..RegistryOptions::default()
        };
        Self::with(options, Options::default()).await
    }

    async fn with(registry: RegistryOptions, options: Options) -> Registry {
        let kinds = vec![OciRepository::crd()];
        let session = Session::anywhere_with(&[], Options { kinds, ..options }).await;
        Registry {
            session,
            server: RegistryServer::start(registry).unwrap(),
        }
    }

    /// Pushes an artifact with these files. Returns its digest.
    fn push(&self, tag: &str, files: &[(&str, &str)]) -> String {
        self.server
            .artifact("org/app", tag, &[(CONTENT, &archive(files))], &[])
    }

    fn url(&self) -> String {
        format!("{}/org/app", self.server.url())
    }

    /// An OCIRepository of the registry, with an interval of an hour unless the spec sets one.
    async fn source(&self, name: &str, spec: Value) {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "OCIRepository",
            "metadata": { "name": name, "namespace": "@home", "labels": self.session.labels() },
            "spec": { "url": self.url(), "interval": "1h", "ref": { "tag": "v1" } },
        });
        super::merge(&mut object["spec"], &spec);
        self.session.create(object).await;
    }

    async fn change(&self, name: &str, spec: Value) {
        let patch = json!({ "spec": spec });
        self.session.merge::<OciRepository>("@home", name, patch).await;
    }

    /// Requests a run now.
    async fn ask(&self, name: &str, token: &str) {
        let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } });
        self.session.merge::<OciRepository>("@home", name, asked).await;
    }

    async fn secret(&self, name: &str, data: Value) {
        self.typed_secret(name, "Opaque", data).await;
    }

    async fn typed_secret(&self, name: &str, kind: &str, data: Value) {
        let more = json!({ "type": kind, "stringData": data });
        let text = super::manifest("Secret", name, more);
        self.session.create(serde_json::from_str(&text).unwrap()).await;
    }

    /// Credentials of the registry.
    async fn docker_secret(&self, name: &str, username: &str, password: &str) {
        let mut auths = serde_json::Map::new();
        auths.insert(
            self.server.authority(),
            json!({ "username": username, "password": password }),
        );
        let config = json!({ "auths": auths }).to_string();
        let data = json!({ ".dockerconfigjson": config });
        self.typed_secret(name, "kubernetes.io/dockerconfigjson", data)
            .await;
    }

    /// Waits until it has this reason and message; returns its status.
    async fn says(&self, name: &str, reason: &str, message: &str) -> Value {
        let message = self.session.here(message);
        let what = format!("OCIRepository {name} says {reason} {message}");
        eventually(&what, DEADLINE, async || {
            let object = self.session.look("OCIRepository", "@home", name).await;
            let status = object["status"].clone();
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

    /// Waits until its artifact is of this digest.
    async fn stored(&self, name: &str, digest: &str) -> Value {
        let status = self.says(name, "Succeeded", "stored artifact for digest").await;
        match status["artifact"]["revision"].as_str() {
            Some(revision) if revision.ends_with(digest) => status,
            _ => self.says(name, "Succeeded", &format!("{digest}'")).await,
        }
    }

    /// Waits until its artifact holds these files.
    async fn holds(&self, name: &str, expected: &[&str]) -> Value {
        let what = format!("the artifact of {name} holds {expected:?}");
        eventually(&what, DEADLINE, async || {
            let object = self.session.look("OCIRepository", "@home", name).await;
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

    fn files(&self, artifact: &Value) -> Option<Vec<String>> {
        let archive = self.bytes(artifact)?;
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

/// A `tar.gz`.
pub(crate) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}
