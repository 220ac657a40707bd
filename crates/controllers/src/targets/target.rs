//! A cluster to apply to, and the rights to use.
//!
//! All access to managed objects goes through a run's [`Access`], with the identity to use. Equate's own
//! objects (custom resources, sources, events) always use this process's own client.
//!
//! An owner with a ServiceAccount, its own or the [`Policy`]'s, acts as `system:serviceaccount:<its
//! namespace>:<name>`, never of another namespace. The API server authorizes each request. All
//! identities share a cluster's connections, discovery and watches. These see more than an identity may;
//! [`ScopedView`] limits that (decision 0010).

use std::sync::Arc;

use equate_apply::cluster::{Cluster, InvalidUserName};
use equate_apply::owner::{Owner, OwnerKind};
use kube::Client;
use kube::client::Body;

use super::remote::ConfigDigest;
use crate::kit::feed::Pace;
use crate::kit::watcher::ObjectWatcher;
use crate::kit::watcher::view::ScopedView;
use crate::policy::Policy;

/// Identifies a target cluster. Objects of different clusters are unrelated, even with equal names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetCluster {
    /// The cluster of this process.
    Local,
    /// Another one, by its fingerprint.
    Remote([u8; 32]),
    /// None that could be found.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) target: TargetCluster,
    /// For requests, with the identity to use.
    pub(crate) cluster: Cluster,
    /// For observations; watched with the rights of the cluster's opener.
    pub(crate) view: ScopedView,
    pub(crate) account: Option<String>,
    pub(crate) config: Option<ConfigDigest>,
}

impl Access {
    pub(crate) fn full(
        target: TargetCluster,
        cluster: Cluster,
        watcher: ObjectWatcher,
        by: &'static OwnerKind,
    ) -> Self {
        Self {
            target,
            cluster,
            view: ScopedView::full(watcher, by),
            account: None,
            config: None,
        }
    }

    /// No cluster: every request fails, no object is known.
    pub(crate) fn none(pace: Pace, by: &'static OwnerKind) -> Self {
        let refuse = |_: http::Request<Body>| async {
            let refusal = std::io::Error::other("the target cluster is unknown");
            Err::<http::Response<Body>, _>(refusal)
        };
        let client = Client::new(tower::service_fn(refuse), "default");
        let watcher = ObjectWatcher::new(client.clone(), pace, Arc::new(()), |_| {});
        Self::full(TargetCluster::Unknown, Cluster::new(client), watcher, by)
    }

    /// The same cluster for an owner that acts as an account there.
    pub(crate) fn acting_as(&self, account: &str, owner: Owner) -> Result<Self, InvalidUserName> {
        let cluster = self.cluster.acting_as(&user(&owner.namespace, account))?;
        Ok(Self {
            target: self.target.clone(),
            cluster,
            view: self.view.narrowed(owner),
            account: Some(account.to_owned()),
            config: self.config,
        })
    }

    /// Whether another is the same cluster, opened by the same kubeconfig, with the same rights.
    pub(crate) fn is(&self, other: &Access) -> bool {
        self.target == other.target && self.config == other.config && self.account == other.account
    }
}

pub(crate) fn user(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// The ServiceAccount to impersonate for an owner that names this one.
pub(crate) fn account<'a>(named: Option<&'a str>, policy: &'a Policy) -> Option<&'a str> {
    let named = named.filter(|name| !name.is_empty());
    let account = named.or(policy.default_service_account.as_deref());
    account.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_user() {
        assert_eq!(
            user("team-a", "deployer"),
            "system:serviceaccount:team-a:deployer"
        );
    }
}
