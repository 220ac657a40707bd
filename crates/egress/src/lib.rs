//! Connections to hosts that tenants name: clusters, git repositories, artifacts, key services.
//!
//! | module | content |
//! |---|---|
//! | `address` | the addresses that may be dialled |
//! | `dial` | names are resolved, checked and dialled in one step; deadlines |
//! | `hosts` | the number of requests at once per namespace and host, and hosts that do not answer |
//!
//! A request passes three gates. [`Egress::enter`] bounds what one namespace may have under way, and
//! refuses a host that did not answer this namespace. [`Egress::connect`] and the clients made of it dial
//! only checked addresses: the address that was checked is the one that is dialled, so a name that
//! resolves differently the second time gains nothing. The caller sets the deadlines of an answer and the
//! limit of its size.
//!
//! Hosts that the operator's flags and environment name are exempt from the address policy
//! ([`Egress::exempting`]).

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

/// The way out to hosts that tenants name. Clones share everything.
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

    /// The same for hosts of tenants; these hosts, which the operator names, may have any address.
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
    ///
    /// If the host did not answer the namespace several times, until it is tried again.
    pub async fn enter(&self, namespace: &str, host: &str) -> Result<Admission, Refusal> {
        self.0.hosts.enter(namespace, host).await
    }

    /// The requests under way and the hosts that do not answer.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    /// The policy for a host; none if the host is exempt or everything is allowed.
    fn policy_for(&self, host: &str) -> Option<&AddressPolicy> {
        let policy = self.0.policy.as_ref()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_exempt = !self.0.exempt.is_empty() && self.0.exempt.contains(&host.to_ascii_lowercase());
        (!is_exempt).then_some(policy)
    }
}
