//! Reads the objects that a Kustomization or a HelmRelease waits for.

use super::ExplainError;
use super::chain::{self, Dependency, Seen, Source};
use crate::diagnosis::{Node, Reader};
use crate::kinds::{Kind, Kinds};
use crate::objects::{self, RequestError};
use equate_api::helm::HelmRelease;
use equate_api::kustomize::{InventoryEntry, Kustomization};
use equate_apply::id::ObjectId;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use kube::api::DynamicObject;
use std::collections::BTreeSet;

const READS_MAX: usize = 16;
/// Limits of the Kustomizations that are read and the unhealthy objects that are shown.
const CHAIN_MAX: usize = 100;
const UNHEALTHY_MAX: usize = 10;
/// A ready Kustomization with more objects is believed.
const INVENTORY_MAX: usize = 200;

pub(super) struct Steps<'a> {
    reader: Reader,
    kinds: &'a Kinds,
}

impl<'a> Steps<'a> {
    pub(super) fn new(reader: Reader, kinds: &'a Kinds) -> Self {
        Self { reader, kinds }
    }

    pub(super) fn look<'r>(
        &'r self,
        object: Kustomization,
        looked: &'r mut BTreeSet<String>,
    ) -> BoxFuture<'r, Result<Seen, ExplainError>> {
        Box::pin(async move {
            let client = self.reader.client();
            let source = self.source(&object).await?;
            let mut dependencies = Vec::new();
            for on in &object.spec.depends_on {
                let (namespace, name) = chain::dependency_key(&object, on);
                let called = chain::called(namespace, name);
                let known = if looked.len() >= CHAIN_MAX || !looked.insert(called.clone()) {
                    Dependency::Elsewhere
                } else {
                    match objects::get(client, self.kind()?, namespace, name).await {
                        Ok(found) => Dependency::Read(Box::new(self.look(typed(found)?, looked).await?)),
                        Err(RequestError::NotFound { .. }) => Dependency::Absent,
                        Err(error) => return Err(error.into()),
                    }
                };
                dependencies.push((called, known));
            }
            let unhealthy = self.unhealthy(&object).await;
            Ok(Seen {
                object,
                source,
                dependencies,
                unhealthy,
            })
        })
    }

    fn kind(&self) -> Result<&Kind, ExplainError> {
        let kind = self.kinds.named("Kustomization");
        kind.ok_or_else(|| RequestError::NotServed("kustomizations").into())
    }

    async fn source(&self, object: &Kustomization) -> Result<Source, ExplainError> {
        let reference = &object.spec.source_ref;
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        let called = format!("{}/{namespace}/{}", reference.kind, reference.name);
        let Some(kind) = self.kinds.named(&reference.kind.to_string()) else {
            return Ok(Source {
                called,
                ..Source::default()
            });
        };
        let found = match objects::get(self.reader.client(), kind, namespace, &reference.name).await {
            Ok(found) => found,
            Err(error @ (RequestError::NotFound { .. } | RequestError::NotServed(_))) => {
                return Ok(Source {
                    called,
                    trouble: Some(error.to_string()),
                    ..Source::default()
                });
            }
            Err(error) => return Err(error.into()),
        };
        let ready = objects::condition(&found, "Ready");
        let trouble = objects::text(ready, "status") == "False";
        let artifact = &found.data["status"]["artifact"];
        Ok(Source {
            called,
            revision: artifact["revision"].as_str().map(str::to_owned),
            updated: artifact["lastUpdateTime"]
                .as_str()
                .and_then(|time| time.parse().ok()),
            trouble: trouble.then(|| objects::text(ready, "message").to_owned()),
        })
    }

    /// Objects of the inventory that are unhealthy by the built-in rules; the Kustomization may have its own.
    async fn unhealthy(&self, object: &Kustomization) -> Vec<Node> {
        if object.spec.kube_config.is_some() || !object.spec.health_check_exprs.is_empty() {
            return Vec::new();
        }
        let held = object
            .status
            .as_ref()
            .and_then(|status| status.inventory.as_ref());
        let entries = held.map_or(&[][..], |inventory| &inventory.entries);
        let at_health = chain::is_at_health(object);
        if !at_health && (!chain::is_ready(object) || entries.len() > INVENTORY_MAX) {
            return Vec::new();
        }
        self.unhealthy_of(entries, at_health).await
    }

    /// The same for a HelmRelease that is not ready.
    pub(super) async fn unhealthy_in_release(&self, release: &HelmRelease) -> Vec<Node> {
        if release.spec.kube_config.is_some() || !release.spec.health_check_exprs.is_empty() {
            return Vec::new();
        }
        let status = release.status.as_ref();
        let held = status.and_then(|status| status.inventory.as_ref());
        let entries = held.map_or(&[][..], |inventory| &inventory.entries);
        self.unhealthy_of(entries, true).await
    }

    /// `with_flux` includes Flux's objects, which have an explanation of their own.
    async fn unhealthy_of(&self, entries: &[InventoryEntry], with_flux: bool) -> Vec<Node> {
        let ids = entries
            .iter()
            .filter_map(|entry| Some((ObjectId::from_inventory(&entry.id).ok()?, entry.v.clone())));
        let ids: Vec<(ObjectId, String)> = ids
            .filter(|(id, _)| with_flux || self.kinds.find(&id.group, &id.kind).is_none())
            .filter(|(id, _)| !self.kinds.is_unreconciled(&id.group, &id.kind))
            .collect();
        let each = stream::iter(ids).map(|(id, version)| async move {
            let node = match self.reader.object(&id, &version).await {
                Ok(Some(object)) => self.reader.diagnose(&id, &object).await,
                Ok(None) => Node::missing(id.to_string()),
                // the message names objects that cannot be read
                Err(_) => return None,
            };
            (!node.is_healthy()).then_some(node)
        });
        let found = each.buffered(READS_MAX).filter_map(|one| async move { one });
        found.take(UNHEALTHY_MAX).collect().await
    }
}

fn typed(object: DynamicObject) -> Result<Kustomization, ExplainError> {
    let (namespace, name) = objects::names(&object);
    let called = chain::called(namespace, name);
    let value = serde_json::to_value(object);
    value
        .and_then(serde_json::from_value)
        .map_err(|source| ExplainError::Unreadable {
            object: called,
            kind: "Kustomization",
            source,
        })
}
