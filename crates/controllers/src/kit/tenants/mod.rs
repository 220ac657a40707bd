//! Tenants: each has a share of the workers and processors.
//!
//! A tenant is all namespaces with one value of the label [`LABEL`], or else a namespace. A platform
//! namespace is always a tenant of its own: its name decides, because labels could be forged.

pub(super) mod ledger;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::feed::{self, Change, Collection, Item, Pace};

/// How long fetches wait for the labels after a start.
const LABELS_WAIT: Duration = Duration::from_secs(10);

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
    /// Whether nobody waits for the labels any more.
    settled: watch::Sender<bool>,
}

impl Tenants {
    /// The tenants of a cluster whose labels are followed, with these platform namespaces. The default
    /// follows nothing: each namespace is a tenant.
    pub fn of_cluster(platform: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(Known {
            labels: RwLock::default(),
            platform: platform.into_iter().collect(),
            follows: true,
            settled: watch::Sender::new(false),
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

    /// The owner of a namespace's git mirrors: its tenant, or the platform as a whole. After a start, it waits for
    /// the labels, so that no repository is fetched for two owners.
    pub(crate) async fn mirror_owner(&self, namespace: &str) -> String {
        if self.0.platform.contains(namespace) {
            return "platform".to_owned();
        }
        let mut settled = self.0.settled.subscribe();
        let listed = settled.wait_for(|settled| *settled || !self.0.follows);
        if timeout(LABELS_WAIT, listed).await.is_err() {
            tracing::warn!(
                "no labels of namespaces within {}s; git repositories are fetched without",
                LABELS_WAIT.as_secs()
            );
            self.0.settled.send_replace(true);
        }
        self.of(namespace).to_string()
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
        let settles = match &change {
            Change::Listed(..) | Change::Unserved => true,
            Change::Failed(error) => error.is_refusal(),
            Change::Applied(_) | Change::Deleted(_) | Change::Bookmark(_) => false,
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
        drop(labels);
        if settles {
            self.0.settled.send_replace(true);
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
    use futures::FutureExt as _;
    use tokio::time::Instant;

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

    #[tokio::test(start_paused = true)]
    async fn first_fetch_waits_for_the_labels() {
        let all = || Tenants::of_cluster(["flux-system".to_owned(), "ingress".to_owned()]);
        let tenants = all();
        let own = tenants.clone();
        let first = tokio::spawn(async move { own.mirror_owner("team-a").await });
        tokio::task::yield_now().await;
        assert!(!first.is_finished());
        let value = ("team-a".to_owned(), Some("shop".to_owned()));
        tenants.take_in(Change::Listed(1, vec![Item { version: 1, value }]));
        assert_eq!(first.await.unwrap(), "tenant shop");
        tenants.label("team-b", Some("shop"));
        assert_eq!(tenants.mirror_owner("team-b").await, "tenant shop");
        assert_eq!(tenants.mirror_owner("team-c").await, "namespace team-c");
        assert_eq!(tenants.mirror_owner("ingress").await, "platform");
        assert_eq!(tenants.mirror_owner("flux-system").await, "platform");

        let waited = async |tenants: &Tenants| {
            let begun = Instant::now();
            assert_eq!(tenants.mirror_owner("team-a").await, "namespace team-a");
            begun.elapsed()
        };
        let unanswered = all();
        let platform = unanswered.mirror_owner("ingress");
        assert_eq!(platform.now_or_never().as_deref(), Some("platform"));
        assert_eq!(waited(&unanswered).await, LABELS_WAIT);
        assert_eq!(waited(&unanswered).await, Duration::ZERO);
        assert_eq!(waited(&Tenants::default()).await, Duration::ZERO);
        let refused = all();
        refused.take_in(Change::Unserved);
        assert_eq!(waited(&refused).await, Duration::ZERO);
    }
}
