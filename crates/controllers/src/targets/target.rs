//! A cluster to apply to, and the rights to do it with.
//!
//! Everything that is done about managed objects goes through a run's [`Access`]: requests through
//! its cluster, which has the identity to act with; what is seen through its hub. What is ours
//! (custom resources, sources, events) goes through this process's own client, always.
//!
//! One that names a ServiceAccount, or for which the [`Policy`] does, acts as
//! `system:serviceaccount:<its namespace>:<name>`; of another namespace it cannot name one. What it
//! may then write, read and delete the API server decides at each request. All identities share the
//! connections of a cluster, what is known of its kinds, and its watches; that these see more than an
//! identity may is what [`ScopedView`] is for (decision 0010).
//!
//! One with a `kubeConfig` applies elsewhere ([`remote`](super::remote)).

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

/// Which cluster objects are in. Objects of different clusters have nothing to do with each other,
/// also if they have the same names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetCluster {
    /// The one this process serves.
    Local,
    /// Another one, by what tells it from others.
    Remote([u8; 32]),
    /// None that could be found.
    Unknown,
}

/// A target cluster, and the ways to it.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Which cluster that is.
    pub(crate) target: TargetCluster,
    /// For requests; with the identity of the one on whose behalf they are made.
    pub(crate) cluster: Cluster,
    /// What may be seen of managed objects; watched with the rights of whoever opens the cluster.
    pub(crate) hub: ScopedView,
    /// Whom it acts as, if not as who opens the cluster.
    pub(crate) account: Option<String>,
    /// The kubeconfig that opens the cluster, if one does.
    pub(crate) config: Option<ConfigDigest>,
}

impl Access {
    /// A cluster with all the rights of who opens it, for owners of a kind.
    pub(crate) fn full(
        target: TargetCluster,
        cluster: Cluster,
        hub: ObjectWatcher,
        by: &'static OwnerKind,
    ) -> Self {
        Self {
            target,
            cluster,
            hub: ScopedView::full(hub, by),
            account: None,
            config: None,
        }
    }

    /// No cluster: every request fails, nothing is seen.
    pub(crate) fn none(pace: Pace, by: &'static OwnerKind) -> Self {
        let refuse = |_: http::Request<Body>| async {
            let refusal = std::io::Error::other("it is not known which cluster this is for");
            Err::<http::Response<Body>, _>(refusal)
        };
        let client = Client::new(tower::service_fn(refuse), "default");
        let hub = ObjectWatcher::new(client.clone(), pace, Arc::new(()), |_| {});
        Self::full(TargetCluster::Unknown, Cluster::new(client), hub, by)
    }

    /// The same cluster for an owner that acts as an account there.
    pub(crate) fn acting_as(&self, account: &str, owner: Owner) -> Result<Self, InvalidUserName> {
        let cluster = self.cluster.acting_as(&user(&owner.namespace, account))?;
        Ok(Self {
            target: self.target.clone(),
            cluster,
            hub: self.hub.narrowed(owner),
            account: Some(account.to_owned()),
            config: self.config,
        })
    }

    /// Whether another is the same cluster, opened by the same kubeconfig, with the same rights.
    pub(crate) fn is(&self, other: &Access) -> bool {
        self.target == other.target && self.config == other.config && self.account == other.account
    }
}

/// The name of a ServiceAccount as a user.
pub(crate) fn user(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// The ServiceAccount that an owner acts as that names this one.
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
