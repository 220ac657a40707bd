//! The destination of an owner's objects, and the access to it, for any controller that applies objects.

use equate_apply::owner::Owner;

use super::kube_config_source::KubeConfigSource;
use super::remote::{RemoteClusterError, RemoteHandle};
use super::target::Access;
use crate::key::is_name;
use crate::kit::services::Kit;

#[derive(Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) owner: Owner,
    /// The opener of another cluster, if any.
    pub(crate) kube_config: Option<&'a KubeConfigSource>,
    /// The ServiceAccount to impersonate: see [`super::target::account`].
    pub(crate) account: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Remote(#[from] RemoteClusterError),
    #[error("{0:?} is not a name that a ServiceAccount can have")]
    Account(String),
}

impl Kit {
    /// The access to a destination. `held` is the last opener of the other cluster, and is updated. It
    /// is read again only if `rereads` says so, which gets whether its changes are watched.
    pub(crate) async fn access(
        &self,
        to: &Destination<'_>,
        held: &mut Option<RemoteHandle>,
        rereads: impl Fn(bool) -> bool,
    ) -> Result<Access, AccessError> {
        let full = match to.kube_config {
            None => {
                *held = None;
                self.here(to.owner.kind)
            }
            Some(opener) => {
                let namespace = &to.owner.namespace;
                let opened = self.remote(namespace, opener, held.as_ref(), rereads).await?;
                held.insert(opened).remote.full(to.owner.kind)
            }
        };
        let Some(account) = to.account else {
            return Ok(full);
        };
        let refused = || AccessError::Account(account.to_owned());
        let acting = full.acting_as(account, to.owner.clone());
        acting.ok().filter(|_| is_name(account)).ok_or_else(refused)
    }

    async fn remote(
        &self,
        namespace: &str,
        opener: &KubeConfigSource,
        held: Option<&RemoteHandle>,
        rereads: impl Fn(bool) -> bool,
    ) -> Result<RemoteHandle, RemoteClusterError> {
        self.inputs.begin();
        let held = held.filter(|held| held.is_of(opener));
        if let Some(held) = held {
            let holder = opener.holder(namespace);
            let watched = held.version.is_some() && self.inputs.version(&holder) == held.version;
            if !rereads(watched) {
                return Ok(held.clone());
            }
        }
        let opened = self.remote_clusters.open(
            &self.client,
            namespace,
            opener,
            &self.settings.policy,
            &self.settings.egress,
        );
        match (opened.await, held) {
            // it existed a moment ago, and there is no sign of a change
            (Err(error), Some(held)) if error.is_passing() => Ok(held.clone()),
            (opened, _) => opened,
        }
    }
}
