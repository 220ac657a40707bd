//! Answers without an end: the watches of each namespace, in all and per host. They hold a connection and
//! memory for as long as they last, and so are no [requests at once](crate::Hosts).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watches of a namespace of one host.
const PER_HOST: usize = 128;
/// Watches of a namespace.
const PER_NAMESPACE: usize = 256;

/// A namespace has as many watches as it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "namespace {namespace} has {watches} watches of {}, the most that are possible; apply fewer kinds of objects \
     there, or from another namespace",
    host.as_deref().unwrap_or("other clusters")
)]
pub struct TooManyWatches {
    /// The namespace.
    pub namespace: String,
    /// The host, if its limit is reached.
    pub host: Option<String>,
    /// The watches.
    pub watches: usize,
}

/// By namespace and host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<String, Counts>>>);

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    hosts: HashMap<String, usize>,
}

/// One watch, until it is dropped.
#[derive(Debug)]
pub struct WatchSlot {
    watches: Watches,
    namespace: String,
    host: String,
}

impl Watches {
    pub(crate) fn begin(&self, namespace: &str, host: &str) -> Result<WatchSlot, TooManyWatches> {
        let host = host.to_ascii_lowercase();
        let mut known = self.known();
        let (of_host, all) = known.get(namespace).map_or((0, 0), |counts| {
            (counts.hosts.get(&host).copied().unwrap_or_default(), counts.all)
        });
        let refused = |host, watches| TooManyWatches {
            namespace: namespace.to_owned(),
            host,
            watches,
        };
        if of_host >= PER_HOST {
            return Err(refused(Some(host), of_host));
        }
        if all >= PER_NAMESPACE {
            return Err(refused(None, all));
        }
        let counts = known.entry(namespace.to_owned()).or_default();
        counts.all += 1;
        *counts.hosts.entry(host.clone()).or_default() += 1;
        drop(known);
        Ok(WatchSlot {
            watches: self.clone(),
            namespace: namespace.to_owned(),
            host,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        let mut known = self.watches.known();
        let Some(counts) = known.get_mut(&self.namespace) else {
            return;
        };
        counts.all -= 1;
        if let Some(of_host) = counts.hosts.get_mut(&self.host) {
            *of_host -= 1;
            if *of_host == 0 {
                counts.hosts.remove(&self.host);
            }
        }
        if counts.all == 0 {
            known.remove(&self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_bounded_per_host_and_namespace() {
        let watches = Watches::default();
        let mut held: Vec<_> = (0..PER_HOST)
            .map(|_| watches.begin("a", "One:443").unwrap())
            .collect();
        let refusal = watches.begin("a", "one:443").unwrap_err();
        assert!(
            refusal
                .to_string()
                .starts_with("namespace a has 128 watches of one:443"),
            "{refusal}"
        );
        assert!(watches.begin("b", "one:443").is_ok());
        held.extend((PER_HOST..PER_NAMESPACE).map(|_| watches.begin("a", "two:443").unwrap()));
        let refusal = watches.begin("a", "three:443").unwrap_err();
        assert!(
            refusal
                .to_string()
                .starts_with("namespace a has 256 watches of other clusters"),
            "{refusal}"
        );
        held.pop();
        held.push(watches.begin("a", "three:443").unwrap());
        held.clear();
        assert!(watches.known().is_empty());
    }
}
