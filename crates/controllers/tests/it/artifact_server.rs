//! A server of artifacts, as other controllers have one, and sources with its artifacts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use equate_source::{Ignore, Limits, Tree};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use crate::session::Session;

/// Stands for the directory of the source.
const PLACE: &str = "@place";

/// Serves archives by name, at a port of its own.
pub(crate) struct ArtifactServer {
    address: String,
    site: Arc<Site>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Site {
    archives: Mutex<BTreeMap<String, Vec<u8>>>,
    asked: Mutex<BTreeMap<String, usize>>,
}

impl ArtifactServer {
    pub(crate) async fn start() -> ArtifactServer {
        let site = Arc::new(Site::default());
        let router = Router::new()
            .route("/{name}", get(serve))
            .route("/{kind}/{namespace}/{source}/{name}", get(serve_stored))
            .with_state(Arc::clone(&site));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        ArtifactServer { address, site, task }
    }

    /// Serves these files under a name; returns a `status.artifact` for [`published`].
    pub(crate) fn publish(&self, name: &str, revision: &str, files: &[(&str, &str)]) -> Value {
        self.publish_bytes(name, revision, archive(files))
    }

    /// The same for the bytes of a foreign archive.
    pub(crate) fn publish_bytes(&self, name: &str, revision: &str, bytes: Vec<u8>) -> Value {
        let hex: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.site.archives.lock().unwrap().insert(name.to_owned(), bytes);
        json!({
            "digest": format!("sha256:{hex}"),
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": name,
            "revision": revision,
            "url": format!("{}/{PLACE}/{name}", self.address),
        })
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Removes an archive, as garbage collection does.
    pub(crate) fn collect(&self, name: &str) {
        self.site.archives.lock().unwrap().remove(name);
    }

    pub(crate) fn asked(&self, name: &str) -> usize {
        self.site
            .asked
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or_default()
    }
}

impl Drop for ArtifactServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve_stored(
    site: State<Arc<Site>>,
    Path((_, _, _, name)): Path<(String, String, String, String)>,
) -> Result<Vec<u8>, StatusCode> {
    serve(site, Path(name)).await
}

async fn serve(State(site): State<Arc<Site>>, Path(name): Path<String>) -> Result<Vec<u8>, StatusCode> {
    *site.asked.lock().unwrap().entry(name.clone()).or_default() += 1;
    let found = site.archives.lock().unwrap().get(&name).cloned();
    found.ok_or(StatusCode::NOT_FOUND)
}

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let tree = Tree::from_directory(folder.path(), &Ignore::new(None), &Limits::default()).unwrap();
    let mut bytes = Vec::new();
    tree.write_archive(&mut bytes, &Limits::default()).unwrap();
    bytes
}

/// Sets the artifact of a source, as its controller does.
pub(crate) async fn published<K>(session: &Session, name: &str, artifact: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(session.client.clone(), &session.home);
    let params = PatchParams {
        field_manager: Some("gotk-source-controller".to_owned()),
        ..PatchParams::default()
    };
    let mut artifact = artifact.clone();
    let kind = K::kind(&()).to_lowercase();
    let url = artifact["url"].as_str().unwrap();
    artifact["url"] = url
        .replace(PLACE, &format!("{kind}/{}/{name}", session.home))
        .into();
    // the metadata of an earlier artifact is removed with it
    artifact["metadata"] = artifact["metadata"].take();
    let status = json!({ "status": { "artifact": artifact } });
    api.patch_status(name, &params, &Patch::Merge(status))
        .await
        .unwrap();
}
