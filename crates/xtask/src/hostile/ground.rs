//! The namespace of one attack, and the means of a tenant there.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::archive;
use super::servers::{Contacts, Server};
use super::session::{KINDS, KUSTOMIZE, Outcome, Session, kind_api, ready, whole};
use crate::bench::session::api;

/// Requests of an attacker at once.
const AT_ONCE: usize = 16;
/// The time for an attack to begin.
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// CPU time of the controllers, in seconds, after which they are in the middle of the attack.
const BUSY: f64 = 2.0;

/// The size of attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// For CI, with a dev binary.
    Small,
    Full,
}

pub(super) struct Ground<'s> {
    pub(super) session: &'s Session,
    pub(super) name: String,
    pub(super) scale: Scale,
}

/// The sign that an attack has begun.
pub(super) enum Sign {
    /// It has when it is launched.
    Launched,
    /// A server of the attacker has this many requests or connections.
    Contacted(Arc<Contacts>, usize),
    /// The controllers work, or this Kustomization or HelmRelease is ready or has failed.
    Worked(&'static str),
    /// This object is ready or has failed.
    Judged(&'static str, &'static str),
    /// The condition `Ready` of this object has this text.
    Said(&'static str, &'static str, &'static str),
}

/// A rule that an attacker must not break; the error says how it did.
pub(super) enum Rule {
    None,
    /// The server gets no request.
    Untouched(Arc<Contacts>),
    /// There is no such object.
    Absent(&'static str, &'static str),
    /// The object does not become ready.
    NeverReady(&'static str, &'static str),
    /// Neither a status of this namespace nor the log has the text.
    Hidden(String),
}

/// A launched attack: what it holds lives until it is over.
pub(super) struct Threat {
    pub(super) holds: Vec<Box<dyn Any>>,
    pub(super) sign: Sign,
    pub(super) rule: Rule,
}

impl Threat {
    pub(super) fn new(sign: Sign) -> Self {
        Self {
            holds: Vec::new(),
            sign,
            rule: Rule::None,
        }
    }

    pub(super) fn holding(mut self, held: impl Any) -> Self {
        self.holds.push(Box::new(held));
        self
    }

    pub(super) fn rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }
}

impl<'s> Ground<'s> {
    pub(super) async fn new(session: &'s Session, name: &str, scale: Scale) -> Outcome<Self> {
        session.tenant(name).await?;
        Ok(Self {
            session,
            name: name.to_owned(),
            scale,
        })
    }

    pub(super) fn pick(&self, small: usize, full: usize) -> usize {
        match self.scale {
            Scale::Small => small,
            Scale::Full => full,
        }
    }

    pub(super) async fn create(&self, mut object: Value) -> Outcome {
        object["metadata"]["namespace"] = json!(self.name);
        self.session.create(object).await
    }

    pub(super) async fn create_all(&self, objects: Vec<Value>) -> Outcome {
        let all = stream::iter(objects).map(|object| self.create(object));
        all.buffer_unordered(AT_ONCE).try_collect().await
    }

    pub(super) async fn secret(&self, name: &str, data: Value) -> Outcome {
        self.create(
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data }),
        )
        .await
    }

    /// A GitRepository with more fields of its spec.
    pub(super) async fn repository(&self, name: &str, url: &str, more: Value) -> Outcome {
        let mut spec = json!({ "url": url, "interval": "1m", "ref": { "branch": "main" } });
        merge(&mut spec, more);
        self.create(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": name }, "spec": spec,
        }))
        .await
    }

    /// A Kustomization of the artifact `tree` with more fields of its spec.
    pub(super) fn kustomization(&self, name: &str, more: Value) -> Value {
        let mut spec = json!({
            "interval": "1m", "retryInterval": "1s", "timeout": "1h", "path": "./", "prune": true,
            "targetNamespace": self.name,
            "sourceRef": { "kind": "ExternalArtifact", "name": "tree" },
        });
        merge(&mut spec, more);
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": { "name": name }, "spec": spec,
        })
    }

    /// Publishes files as the artifact `tree`.
    pub(super) async fn tree(&self, files: &[(&str, &str)]) -> Outcome<Server> {
        self.artifact(archive::of(files)?).await
    }

    /// [`Ground::tree`] with one small ConfigMap.
    pub(super) async fn small_tree(&self) -> Outcome<Server> {
        self.tree(&[(
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n",
        )])
        .await
    }

    /// Publishes an archive as the artifact `tree`.
    pub(super) async fn artifact(&self, bytes: Vec<u8>) -> Outcome<Server> {
        let digest = digest(&bytes);
        let server = Server::file(bytes).await?;
        self.publish(&digest, server.address()).await?;
        Ok(server)
    }

    pub(super) async fn publish(&self, digest: &str, at: SocketAddr) -> Outcome {
        self.create(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "ExternalArtifact",
            "metadata": { "name": "tree" }, "spec": {},
        }))
        .await?;
        let artifact = artifact(digest, &format!("http://{at}/tree.tar.gz"));
        self.patch_status("ExternalArtifact", "tree", json!({ "artifact": artifact }))
            .await
    }

    pub(super) async fn patch_status(&self, kind: &str, name: &str, status: Value) -> Outcome {
        let api = kind_api(&self.session.client, kind, &self.name);
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn is_judged(&self, kind: &str, name: &str) -> bool {
        let said = self.condition(kind, name).await;
        !said.is_empty() && !said.starts_with("Unknown")
    }

    pub(super) async fn condition(&self, kind: &str, name: &str) -> String {
        self.session.condition(&self.name, kind, name).await
    }

    /// Waits until the attack has begun; returns whether it has.
    pub(super) async fn begun(&self, threat: &Threat, cpu_before: f64) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < BEGIN_MAX {
            let has = match &threat.sign {
                Sign::Launched => true,
                Sign::Contacted(contacts, count) => contacts.connections().max(contacts.requests()) >= *count,
                Sign::Worked(name) => {
                    let cpu = self.session.controllers.cpu().unwrap_or_default() - cpu_before;
                    cpu > BUSY
                        || self.is_judged("Kustomization", name).await
                        || self.is_judged("HelmRelease", name).await
                }
                Sign::Judged(kind, name) => self.is_judged(kind, name).await,
                Sign::Said(kind, name, text) => self.condition(kind, name).await.contains(text),
            };
            if has {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// `Ready` of the first object that has one.
    pub(super) async fn said(&self) -> Outcome<String> {
        for (group, version, kind) in KINDS {
            let own = api(&self.session.client, group, version, kind, &self.name);
            let all = own.list(&ListParams::default().limit(50)).await?.items;
            let said = all
                .iter()
                .find_map(|one| Some(format!("{kind} {}: {}", one.metadata.name.as_ref()?, ready(one)?)));
            if let Some(said) = said {
                return Ok(said);
            }
            let status = all.iter().find_map(|one| one.data.pointer("/status/conditions"));
            if let Some(status) = status {
                return Ok(format!("{kind}: {status}"));
            }
        }
        Ok("no object is judged".to_owned())
    }

    /// How the attacker broke its rule.
    pub(super) async fn broken(&self, rule: &Rule) -> Outcome<Option<String>> {
        Ok(match rule {
            Rule::None => None,
            Rule::Untouched(contacts) => {
                let count = contacts.requests();
                (count > 0).then(|| format!("an internal server got {count} requests"))
            }
            Rule::Absent(kind, name) => {
                let api = api(&self.session.client, "", "v1", kind, &self.name);
                let found = api.get_opt(name).await?;
                found.map(|_| format!("{kind} {name} was applied"))
            }
            Rule::NeverReady(kind, name) => {
                let said = self.condition(kind, name).await;
                said.starts_with("True").then(|| format!("{kind} {name}: {said}"))
            }
            Rule::Hidden(text) => {
                let kinds = whole(&self.session.client, KUSTOMIZE, "v1", "Kustomization");
                let all = kinds.list(&ListParams::default()).await?.items;
                let own = all
                    .iter()
                    .filter(|one| one.metadata.namespace.as_deref() == Some(&*self.name));
                let shown = own
                    .filter_map(|one| one.data.get("status"))
                    .find(|status| status.to_string().contains(text));
                let shown = shown.map(|status| format!("a status has the secret: {status}"));
                let logged = || {
                    let log = self.session.log();
                    let line = log.lines().find(|line| line.contains(text))?;
                    Some(format!("the log has the secret: {line}"))
                };
                shown.or_else(logged)
            }
        })
    }

    /// Deletes everything of the attacker, waits a little, and leaves the rest to the controllers.
    pub(super) async fn leave(&self) -> Outcome {
        let (delete, all) = (DeleteParams::default(), ListParams::default());
        let begun = Instant::now();
        for kind in ["Kustomization", "HelmRelease"] {
            let own = kind_api(&self.session.client, kind, &self.name);
            own.delete_collection(&delete, &all).await?;
            while begun.elapsed() < Duration::from_secs(3) {
                if own.list_metadata(&all).await?.items.is_empty() {
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        let namespaces = whole(&self.session.client, "", "v1", "Namespace");
        namespaces.delete(&self.name, &delete).await?;
        Ok(())
    }
}

/// Removes the finalizers left in a deleted namespace, as an administrator does: nobody can prune a Kustomization whose
/// kubeconfig is gone. Returns how many objects it were.
pub(super) async fn clear(session: &Session, namespace: &str) -> Outcome<usize> {
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let mut cleared = 0;
    for (_, _, kind) in KINDS {
        let own = kind_api(&session.client, kind, namespace);
        for left in own.list_metadata(&ListParams::default()).await?.items {
            let name = left.metadata.name.unwrap_or_default();
            match own.patch_metadata(&name, &PatchParams::default(), &none).await {
                Ok(_) => cleared += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(cleared)
}

/// `status.artifact`.
pub(super) fn artifact(digest: &str, url: &str) -> Value {
    json!({
        "digest": digest, "lastUpdateTime": "2026-01-01T00:00:00Z", "path": "tree.tar.gz",
        "revision": format!("latest@{digest}"), "url": url,
    })
}

pub(super) fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
