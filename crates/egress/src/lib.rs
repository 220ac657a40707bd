//! Connections to hosts that tenants name: clusters, git repositories, artifacts, key services.
//!
//! | module | content |
//! |---|---|
//! | `address` | the addresses that may be dialled |
//! | `dial` | names are resolved, checked and dialled in one step; deadlines |
//! | `hosts` | the number of requests at once per namespace and host, and hosts that do not answer |
//!
//! The checked address is the one that is dialled: a name that resolves differently the second time gains
//! nothing. The caller limits the time and size of an answer.

mod address;
mod dial;
mod hosts;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

pub use address::{AddressPolicy, RefusedAddress};
pub use dial::{ConnectError, Connector, HttpRefusal};
pub use hosts::{Admission, HostShare, Hosts, Outcome, Refusal};
pub use ipnet::IpNet;

/// The time limit of a connection, with the resolution of the name.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The way out. Clones share everything.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: Option<AddressPolicy>,
    exempt: HashSet<String>,
    hosts: Hosts,
}

impl Default for Egress {
    /// All addresses may be dialled: for programs that serve one user.
    fn default() -> Self {
        Self::of(None, HashSet::new())
    }
}

impl Egress {
    /// Only addresses that the policy allows.
    #[must_use]
    pub fn new(policy: AddressPolicy) -> Self {
        Self::of(Some(policy), HashSet::new())
    }

    /// The same, but these hosts, which the operator names, may have any address.
    #[must_use]
    pub fn exempting(policy: AddressPolicy, hosts: impl IntoIterator<Item = String>) -> Self {
        let exempt = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Self::of(Some(policy), exempt)
    }

    fn of(policy: Option<AddressPolicy>, exempt: HashSet<String>) -> Self {
        Self(Arc::new(Inner {
            policy,
            exempt,
            hosts: Hosts::default(),
        }))
    }

    /// Waits until the namespace may send one more request to the host.
    ///
    /// # Errors
    /// The host is closed for the namespace.
    pub async fn enter(&self, namespace: &str, host: &str) -> Result<Admission, Refusal> {
        self.0.hosts.enter(namespace, host).await
    }

    /// The requests by namespace and host.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    fn policy_for(&self, host: &str) -> Option<&AddressPolicy> {
        let policy = self.0.policy.as_ref()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_exempt = !self.0.exempt.is_empty() && self.0.exempt.contains(&host.to_ascii_lowercase());
        (!is_exempt).then_some(policy)
    }
}
