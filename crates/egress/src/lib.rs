//! Connections to hosts that tenants name: clusters, git repositories, artifacts, key services.
//!
//! | module | content |
//! |---|---|
//! | `address` | the addresses that may be dialled |
//! | `dial` | names are resolved, checked and dialled in one step; deadlines |
//! | `proxy` | proxies of HTTP clients |
//! | `hosts` | the number of requests at once per namespace and host, and hosts that do not answer |
//! | `silence` | why a host gives no answer, in the words of all clients |
//! | `memory` | the memory of answers that are kept whole |
//! | `watches` | the number of watches per namespace and host |
//! | `substitutes` | directories of this machine that stand for places of hosts |
//!
//! The checked address is the one that is dialled: a name that resolves differently the second time gains
//! nothing. The caller limits the time and size of an answer.

mod address;
mod dial;
mod hosts;
mod memory;
mod proxy;
mod silence;
mod substitutes;
mod watches;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use watches::Watches;

pub use address::{AddressPolicy, RefusedAddress};
pub use dial::{ConnectError, Connector, HttpRefusal};
pub use hosts::{Admission, HostShare, Hosts, Outcome, Refusal};
pub use ipnet::IpNet;
pub use memory::{Displaced, HeldAnswer, Memory, RetryPauses};
pub use proxy::{Proxy, ProxyError};
pub use silence::{Silence, UNREACHABLE};
pub use substitutes::{Substitute, Substitutes, without_secrets};
pub use watches::{TooManyWatches, WatchSlot};

/// The time limit of a connection, with the resolution of the name.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The way out. Clones share everything.
#[derive(Debug, Clone)]
pub struct Egress {
    inner: Arc<Inner>,
    substitutes: Substitutes,
    /// Whether the hosts are named by the operator or the platform.
    trusts_hosts: bool,
}

#[derive(Debug)]
struct Inner {
    policy: Option<AddressPolicy>,
    /// By host in lowercase.
    exempt: HashMap<String, Ports>,
    hosts: Hosts,
    memory: Memory,
    watches: Watches,
}

impl Default for Egress {
    /// All addresses may be dialled: for programs that serve one user.
    fn default() -> Self {
        Self::of(None, HashMap::new())
    }
}

impl Egress {
    /// Only addresses that the policy allows.
    #[must_use]
    pub fn new(policy: AddressPolicy) -> Self {
        Self::of(Some(policy), HashMap::new())
    }

    /// The same, but these hosts, which the operator names, may have any address: at the port, or at all
    /// ports.
    #[must_use]
    pub fn exempting(policy: AddressPolicy, places: impl IntoIterator<Item = (String, Option<u16>)>) -> Self {
        let mut exempt: HashMap<String, Ports> = HashMap::new();
        for (host, port) in places {
            let ports = exempt.entry(bare(&host)).or_default();
            match port {
                None => ports.all = true,
                Some(port) => drop(ports.some.insert(port)),
            }
        }
        Self::of(Some(policy), exempt)
    }

    fn of(policy: Option<AddressPolicy>, exempt: HashMap<String, Ports>) -> Self {
        Self {
            inner: Arc::new(Inner {
                policy,
                exempt,
                hosts: Hosts::default(),
                memory: Memory::default(),
                watches: Watches::default(),
            }),
            substitutes: Substitutes::default(),
            trusts_hosts: false,
        }
    }

    /// The same, and a directory stands for the URL and everything below it.
    #[must_use]
    pub fn instead_of(self, url: &str, directory: &Path) -> Self {
        Self {
            substitutes: self.substitutes.instead_of(url, directory),
            ..self
        }
    }

    /// The same limits, for hosts that the operator or the platform names, such as the metadata service of a
    /// cloud: they may have any address. Never use it for a host that a tenant names.
    #[must_use]
    pub fn trusting_hosts(&self) -> Self {
        Self {
            trusts_hosts: true,
            ..self.clone()
        }
    }

    /// Whether it is for hosts that the operator or the platform names.
    #[must_use]
    pub fn trusts_hosts(&self) -> bool {
        self.trusts_hosts
    }

    /// The directories that stand for URLs: clients ask them first.
    #[must_use]
    pub fn substitutes(&self) -> &Substitutes {
        &self.substitutes
    }

    /// Waits until the namespace may send one more request to the host.
    ///
    /// # Errors
    /// The host is closed for the namespace.
    pub async fn enter(&self, namespace: &str, host: &str) -> Result<Admission, Refusal> {
        self.inner.hosts.enter(namespace, host).await
    }

    /// The memory of answers.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    /// Counts a watch of a host for a namespace.
    ///
    /// # Errors
    /// The namespace has as many as it may.
    pub fn begin_watch(&self, namespace: &str, host: &str) -> Result<WatchSlot, TooManyWatches> {
        self.inner.watches.begin(namespace, host)
    }

    /// The requests by namespace and host.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.inner.hosts
    }

    /// The ports at which a host may have any address.
    fn exempt(&self, host: &str) -> Option<&Ports> {
        match self.inner.exempt.is_empty() {
            true => None,
            false => self.inner.exempt.get(&bare(host)),
        }
    }

    fn policy(&self) -> Option<&AddressPolicy> {
        self.inner.policy.as_ref().filter(|_| !self.trusts_hosts)
    }
}

#[derive(Debug, Default)]
struct Ports {
    all: bool,
    some: BTreeSet<u16>,
}

impl Ports {
    fn contains(&self, port: Option<u16>) -> bool {
        self.all || port.is_some_and(|port| self.some.contains(&port))
    }
}

/// A host without the brackets of an IPv6 address, in lowercase.
fn bare(host: &str) -> String {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase()
}
