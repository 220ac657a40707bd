//! Where the objects of an owner go, as its spec says it; and the way there, for any controller that
//! applies objects.

use equate_apply::owner::Owner;

use super::kube_config_source::KubeConfigSource;
use super::remote::{RemoteClusterError, RemoteHandle};
use super::target::Access;
use crate::key::is_name;
use crate::kit::services::Kit;

/// Where an owner applies.
#[derive(Debug)]
pub(crate) struct Destination<'a> {
    pub(crate) owner: Owner,
    /// What opens another cluster, if that is where.
    pub(crate) kube_config: Option<&'a KubeConfigSource>,
    /// The ServiceAccount to act as, if one: see [`super::target::account`].
    pub(crate) account: Option<&'a str>,
}

/// Why there is no way to a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    /// The other cluster is not reached.
    #[error(transparent)]
    Remote(#[from] RemoteClusterError),
    /// No ServiceAccount can have this name.
    #[error("{0:?} is not a name that a ServiceAccount can have")]
    Account(String),
}

impl Kit {
    /// The way to a destination. `held` is what opened the other cluster last, and what does now: it is
    /// read again only if `rereads` says so, which is told whether changes of it are watched.
    ///
    /// # Errors
    /// When the other cluster cannot be opened, or nobody can be acted as by this name.
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

    /// The cluster that a Secret or ConfigMap opens.
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
            let told = held.version.is_some() && self.inputs.version(&holder) == held.version;
            if !rereads(told) {
                return Ok(held.clone());
            }
        }
        let opened = self
            .remote_clusters
            .open(&self.client, namespace, opener, &self.settings.policy);
        match (opened.await, held) {
            // it was there a moment ago, and nobody says that it is another
            (Err(error), Some(held)) if error.is_passing() => Ok(held.clone()),
            (opened, _) => opened,
        }
    }
}
