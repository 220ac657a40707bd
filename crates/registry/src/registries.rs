//! State that all repositories share: HTTP clients, tokens, and pauses that registries asked for. Each map
//! is bounded, because tenants choose its keys.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_egress::{Egress, Substitute};
use reqwest::header::HeaderValue;
use tokio::time::Instant;

use crate::access::{Access, Key};
use crate::error::Problem;
use crate::limits::Limits;
use crate::local::{Local, ReadImages};
use crate::name::Repository;
use crate::remote::Remote;

const CLIENTS_MAX: usize = 256;
const TOKENS_MAX: usize = 4096;
const PAUSES_MAX: usize = 4096;
const SCHEMES_MAX: usize = 4096;
const CLIENT_UNUSED_MAX: Duration = Duration::from_secs(60 * 60);
/// A registry may begin to serve TLS.
const SCHEME_MAX: Duration = Duration::from_secs(10 * 60);
/// A longer pause is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// The registries of a process. Clones share everything.
#[derive(Debug, Clone)]
pub struct Registries(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) egress: Egress,
    pub(crate) limits: Limits,
    clients: Mutex<Bounded<Key, reqwest::Client>>,
    tokens: Mutex<Bounded<Key, HeaderValue>>,
    /// By namespace and host.
    pauses: Mutex<Bounded<(String, String), ()>>,
    /// Whether a registry that may be served without TLS is.
    plain: Mutex<Bounded<(Key, String), bool>>,
    /// Reads the directories that stand for repositories.
    read: Option<ReadImages>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registries")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Registries {
    /// Registries behind this way out.
    #[must_use]
    pub fn new(egress: Egress, limits: Limits) -> Self {
        Self::of(egress, limits, None)
    }

    /// The same, and the repositories that a directory stands for are read there.
    #[must_use]
    pub fn reading(egress: Egress, limits: Limits, read: ReadImages) -> Self {
        Self::of(egress, limits, Some(read))
    }

    fn of(egress: Egress, limits: Limits, read: Option<ReadImages>) -> Self {
        Self(Arc::new(Inner {
            egress,
            limits,
            clients: Mutex::new(Bounded::new(CLIENTS_MAX)),
            tokens: Mutex::new(Bounded::new(TOKENS_MAX)),
            pauses: Mutex::new(Bounded::new(PAUSES_MAX)),
            plain: Mutex::new(Bounded::new(SCHEMES_MAX)),
            read,
        }))
    }

    /// Opens a repository. The time limit begins now.
    ///
    /// # Errors
    /// The certificates or the proxy are unusable.
    pub fn open(&self, repository: Repository, access: Access) -> Result<Remote, crate::Error> {
        let client = self.0.client(&access);
        let client = client.map_err(|problem| problem.of("connect to", repository.to_string()))?;
        Ok(Remote::new(self.clone(), repository, access, client))
    }

    /// The directory that stands for a repository, which then needs no credentials.
    #[must_use]
    pub fn substitute(&self, repository: &Repository) -> Option<Substitute> {
        self.0.read.as_ref()?;
        let substitutes = self.0.egress.substitutes();
        repository.urls().iter().find_map(|url| substitutes.find(url))
    }

    pub(crate) fn local(&self, repository: &Repository) -> Option<Local> {
        let place = self.substitute(repository)?;
        Some(Local::new(place, Arc::clone(self.0.read.as_ref()?)))
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }
}

impl Inner {
    fn client(&self, access: &Access) -> Result<reqwest::Client, Problem> {
        let (key, now) = (access.client_key(), Instant::now());
        if let Some(client) = lock(&self.clients).extend(&key, now, now + CLIENT_UNUSED_MAX) {
            return Ok(client);
        }
        // reading certificates is slow, and others must not wait for it
        let client = access.client(&self.egress)?;
        lock(&self.clients).insert(key, client.clone(), now, now + CLIENT_UNUSED_MAX);
        Ok(client)
    }

    pub(crate) fn token(&self, key: &Key) -> Option<HeaderValue> {
        lock(&self.tokens).get(key, Instant::now())
    }

    pub(crate) fn keep_token(&self, key: Key, token: HeaderValue, lasts: Duration) {
        let now = Instant::now();
        lock(&self.tokens).insert(key, token, now, now + lasts);
    }

    pub(crate) fn forget_token(&self, key: &Key) {
        lock(&self.tokens).remove(key);
    }

    /// How long the registry wants no request of the namespace.
    pub(crate) fn pause(&self, namespace: &str, host: &str) -> Option<Duration> {
        let (key, now) = ((namespace.to_owned(), host.to_owned()), Instant::now());
        lock(&self.pauses).until(&key, now).map(|until| until - now)
    }

    pub(crate) fn keep_pause(&self, namespace: &str, host: &str, pause: Duration) {
        let (key, now) = ((namespace.to_owned(), host.to_owned()), Instant::now());
        lock(&self.pauses).insert(key, (), now, now + pause.min(PAUSE_MAX));
    }

    pub(crate) fn is_plain(&self, client: Key, registry: &str) -> Option<bool> {
        lock(&self.plain).get(&(client, registry.to_owned()), Instant::now())
    }

    pub(crate) fn keep_plain(&self, client: Key, registry: &str, plain: bool) {
        let now = Instant::now();
        lock(&self.plain).insert((client, registry.to_owned()), plain, now, now + SCHEME_MAX);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Values that end at a time. The first to end makes room for a new one.
#[derive(Debug)]
struct Bounded<K, V> {
    max: usize,
    values: HashMap<K, (V, Instant)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Bounded<K, V> {
    fn new(max: usize) -> Self {
        Self {
            max,
            values: HashMap::new(),
        }
    }

    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (value, until) = self.values.get(key)?;
        (*until > now).then(|| value.clone())
    }

    fn until(&self, key: &K, now: Instant) -> Option<Instant> {
        let (_, until) = self.values.get(key)?;
        (*until > now).then_some(*until)
    }

    fn extend(&mut self, key: &K, now: Instant, until: Instant) -> Option<V> {
        let value = self.get(key, now)?;
        self.values.insert(key.clone(), (value.clone(), until));
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, now: Instant, until: Instant) {
        if self.values.len() >= self.max && !self.values.contains_key(&key) {
            self.values.retain(|_, (_, until)| *until > now);
        }
        while self.values.len() >= self.max && !self.values.contains_key(&key) {
            let first = self.values.iter().min_by_key(|(_, (_, until))| *until);
            let Some(first) = first.map(|(key, _)| key.clone()) else {
                break;
            };
            self.values.remove(&first);
        }
        self.values.insert(key, (value, until));
    }

    fn remove(&mut self, key: &K) {
        self.values.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_and_are_bounded() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut values = Bounded::new(2);
        values.insert("a", 1, at(0), at(10));
        values.insert("b", 2, at(0), at(20));
        values.insert("c", 3, at(0), at(30));
        assert_eq!(
            [values.get(&"a", at(0)), values.get(&"b", at(0))],
            [None, Some(2)]
        );
        assert_eq!(values.get(&"b", at(20)), None);
        assert_eq!(values.extend(&"c", at(0), at(40)), Some(3));
        assert_eq!(values.until(&"c", at(0)), Some(at(40)));
    }
}
