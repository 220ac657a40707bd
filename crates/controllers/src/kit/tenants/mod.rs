//! Tenants: each has a share of the workers and processors.
//!
//! A tenant is all namespaces with one value of the label [`LABEL`], or else a namespace. A platform
//! namespace is always a tenant of its own: its name decides, because labels could be forged.

pub(super) mod ledger;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::core::v1::Namespace;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::feed::{self, Change, Collection, Item, Pace};

/// The label of namespaces that share as one tenant.
pub const LABEL: &str = "toolkit.fluxcd.io/tenant";

/// The owner of a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// A namespace without the label.
    Namespace(Arc<str>),
    /// All namespaces with this value of the label.
    Labelled(Arc<str>),
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Labelled(name) => write!(f, "tenant {name}"),
        }
    }
}

/// The tenants of namespaces; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Tenants(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    // held for a map operation
    labels: RwLock<HashMap<String, Arc<str>>>,
    platform: BTreeSet<String>,
    follows: bool,
}

impl Tenants {
    /// The tenants of a cluster whose labels are followed, with these platform namespaces. The default
    /// follows nothing: each namespace is a tenant.
    pub fn of_cluster(platform: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(Known {
            labels: RwLock::default(),
            platform: platform.into_iter().collect(),
            follows: true,
        }))
    }

    /// The tenant of a namespace.
    pub fn of(&self, namespace: &str) -> Tenant {
        let labels = self.0.labels.read().unwrap_or_else(PoisonError::into_inner);
        match labels.get(namespace) {
            Some(label) if !self.0.platform.contains(namespace) => Tenant::Labelled(Arc::clone(label)),
            _ => Tenant::Namespace(namespace.into()),
        }
    }

    /// Whether a tenant has a share that no other can take.
    pub fn is_platform(&self, tenant: &Tenant) -> bool {
        matches!(tenant, Tenant::Namespace(name) if self.0.platform.contains(&**name))
    }

    pub(super) fn have_platform(&self) -> bool {
        !self.0.platform.is_empty()
    }

    /// Follows the labels until the handle is dropped.
    pub(super) fn follow(&self, client: Client, pace: Pace) -> Option<AbortOnDropHandle<()>> {
        if !self.0.follows {
            return None;
        }
        let collection = Collection {
            client,
            path: Namespace::url_path(&(), None),
            labels: Some(LABEL.to_owned()),
            fields: None,
            metadata: true,
        };
        let (tenants, mut refused) = (self.clone(), false);
        let deliver = move |change| {
            if let Change::Failed(error) = &change
                && error.is_refusal()
                && !std::mem::replace(&mut refused, true)
            {
                tracing::warn!(%error, "cannot watch the labels of namespaces; each namespace is a tenant");
            }
            tenants.take_in(change);
        };
        let read = |object: Partial| {
            let text = object.metadata.resource_version.clone().unwrap_or_default();
            let version = text.parse().map_err(|_| text)?;
            let label = object.metadata.labels.and_then(|mut labels| labels.remove(LABEL));
            let value = (object.metadata.name.unwrap_or_default(), label);
            Ok(Item { version, value })
        };
        let follow = feed::follow(collection, pace, Arc::new(Notify::new()), read, deliver);
        Some(AbortOnDropHandle::new(tokio::spawn(follow)))
    }

    fn take_in(&self, change: Change<(String, Option<String>)>) {
        let mut labels = self.0.labels.write().unwrap_or_else(PoisonError::into_inner);
        let set = |labels: &mut HashMap<String, Arc<str>>, (namespace, label): (String, Option<String>)| {
            match label.filter(|label| !label.is_empty()) {
                Some(label) => labels.insert(namespace, label.into()),
                None => labels.remove(&namespace),
            };
        };
        match change {
            Change::Listed(_, items) => {
                labels.clear();
                items.into_iter().for_each(|item| set(&mut labels, item.value));
            }
            Change::Applied(item) => set(&mut labels, item.value),
            Change::Deleted(item) => set(&mut labels, (item.value.0, None)),
            Change::Bookmark(_) | Change::Unserved | Change::Failed(_) => {}
        }
    }

    #[cfg(test)]
    pub(super) fn label(&self, namespace: &str, label: Option<&str>) {
        let value = (namespace.to_owned(), label.map(str::to_owned));
        self.take_in(Change::Applied(Item { version: 1, value }));
    }
}

#[derive(Clone, Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_groups_namespaces_except_those_of_the_platform() {
        let tenants = Tenants::of_cluster(["flux-system".to_owned()]);
        tenants.label("team-a", Some("shop"));
        tenants.label("team-b", Some("shop"));
        tenants.label("flux-system", Some("shop"));
        tenants.label("shop", Some(""));
        let of = |namespace: &str| tenants.of(namespace).to_string();
        assert_eq!(of("team-a"), "tenant shop");
        assert_eq!(of("team-b"), "tenant shop");
        // a namespace named like a label is another tenant
        assert_eq!(of("shop"), "namespace shop");
        assert_eq!(of("flux-system"), "namespace flux-system");
        assert!(tenants.is_platform(&tenants.of("flux-system")));
        assert!(!tenants.is_platform(&Tenant::Labelled("flux-system".into())));
        tenants.label("team-a", None);
        assert_eq!(of("team-a"), "namespace team-a");
        tenants.take_in(Change::Listed(2, Vec::new()));
        assert_eq!(of("team-b"), "namespace team-b");
    }
}
