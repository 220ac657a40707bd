//! The requests of each namespace to each host: a number at once, in all and per host. A host that did not
//! answer several times in a row is closed for the namespace that asked, and for no other. Only
//! connections, TLS and the process's own deadlines count, never a time limit that the tenant chose.
//!
//! A host without requests is kept only while its failures count, and a namespace keeps a number of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::silence::{CLOSED, Silence};

/// Requests of a namespace to one host at once.
const PER_HOST: usize = 8;
/// Requests of a namespace at once.
const PER_NAMESPACE: usize = 16;
/// Silent answers in a row that close a host.
const FAILURES_MAX: u32 = 3;
/// It doubles with each failed trial.
const CLOSED_FIRST: Duration = Duration::from_secs(10);
const CLOSED_MAX: Duration = Duration::from_secs(300);
/// Failed hosts that are remembered per namespace; the one whose last failure is the oldest is dropped.
const FAILED_HOSTS_MAX: usize = 256;
/// Failures this long ago are forgotten: longer than a host is closed.
const FAILURES_KEPT: Duration = Duration::from_secs(600);
/// More than one end can add, so that forgetting keeps up, and few enough for the lock.
const FORGOTTEN_AT_ONCE: usize = 16;

/// A host is closed for a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{host} did not answer {failures} {CLOSED} {namespace} to it wait for {}s more{}",
    after.as_secs().max(1),
    why.map(|why| format!(" ({})", why.words())).unwrap_or_default()
)]
pub struct Refusal {
    /// The host.
    pub host: String,
    /// The namespace.
    pub namespace: String,
    /// The failures.
    pub failures: u32,
    /// When the host is tried again.
    pub after: Duration,
    /// Why it did not answer, if that was reported.
    pub why: Option<Silence>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The host answered.
    Answered,
    /// No connection, no TLS, or no answer within the process's own deadline.
    Silent,
}

/// A namespace's requests to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShare {
    /// The namespace.
    pub namespace: String,
    /// The host.
    pub host: String,
    /// Requests under way or waiting.
    pub requests: usize,
    /// Until when the host is closed.
    pub closed: Option<Duration>,
}

/// All namespaces and hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    // held for some map operations, whatever the number of hosts
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    namespaces: HashMap<String, Namespace>,
    /// The failed hosts without requests in the order of their last failures: the time, namespace and host.
    failed: BTreeMap<u64, (Instant, String, String)>,
    tickets: u64,
}

#[derive(Debug)]
struct Namespace {
    slots: Arc<Semaphore>,
    hosts: HashMap<String, Host>,
    /// Its part of all failed hosts.
    failed: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Host {
    slots: Arc<Semaphore>,
    /// Requests under way or waiting.
    users: usize,
    failures: u32,
    /// Why it did not answer.
    why: Option<Silence>,
    /// The host is closed until then.
    closed: Option<Instant>,
    /// The place among the failed hosts, if it has one.
    filed: Option<u64>,
}

impl Default for Namespace {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(PER_NAMESPACE)),
            hosts: HashMap::new(),
            failed: BTreeMap::new(),
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(PER_HOST)),
            users: 0,
            failures: 0,
            why: None,
            closed: None,
            filed: None,
        }
    }
}

/// The permission for one request. Without a reported outcome, the host stays as it was.
pub struct Admission {
    user: User,
    outcome: Option<Outcome>,
    why: Option<Silence>,
    _slots: [OwnedSemaphorePermit; 2],
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("namespace", &self.user.namespace)
            .field("host", &self.user.host)
            .finish_non_exhaustive()
    }
}

impl Admission {
    /// Reports how the request ended. The first report counts.
    pub fn report(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
    }

    /// Adds why the host did not answer: later refusals say it.
    pub fn because(&mut self, why: Silence) {
        self.why = Some(why);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            self.user.ended(outcome, self.why);
        }
    }
}

/// Counted while it waits, too.
struct User {
    known: Arc<Mutex<Known>>,
    namespace: String,
    host: String,
}

impl User {
    fn ended(&self, outcome: Outcome, why: Option<Silence>) {
        let mut known = lock(&self.known);
        let Some(host) = known.host(&self.namespace, &self.host) else {
            return;
        };
        match outcome {
            Outcome::Answered => (host.failures, host.closed) = (0, None),
            Outcome::Silent => {
                host.why = why;
                host.failures = host.failures.saturating_add(1);
                if let Some(doublings) = host.failures.checked_sub(FAILURES_MAX) {
                    let delay = CLOSED_FIRST.saturating_mul(1 << doublings.min(8)).min(CLOSED_MAX);
                    host.closed = Some(Instant::now() + delay);
                }
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        lock(&self.known).leave(&self.namespace, &self.host, Instant::now());
    }
}

impl Known {
    fn host(&mut self, namespace: &str, host: &str) -> Option<&mut Host> {
        self.namespaces.get_mut(namespace)?.hosts.get_mut(host)
    }

    /// Adds a request; a host with requests has no place among the failed ones.
    fn join(&mut self, namespace: &str, host: &str) -> Slots {
        let own = self.namespaces.entry(namespace.to_owned()).or_default();
        let pair = own.hosts.entry(host.to_owned()).or_default();
        pair.users += 1;
        if let Some(ticket) = pair.filed.take() {
            own.failed.remove(&ticket);
            self.failed.remove(&ticket);
        }
        [Arc::clone(&pair.slots), Arc::clone(&own.slots)]
    }

    /// Removes a request, and the failed hosts that are too many or too old.
    fn leave(&mut self, namespace: &str, host: &str, now: Instant) {
        let Some(own) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let Some(pair) = own.hosts.get_mut(host) else {
            return;
        };
        pair.users = pair.users.saturating_sub(1);
        match (pair.users, pair.failures) {
            (0, 0) => self.remove(namespace, host),
            (0, _) => {
                self.tickets += 1;
                pair.filed = Some(self.tickets);
                own.failed.insert(self.tickets, host.to_owned());
                let surplus = match own.failed.len() > FAILED_HOSTS_MAX {
                    true => own.failed.first_key_value().map(|(_, host)| host.clone()),
                    false => None,
                };
                let failed = (now, namespace.to_owned(), host.to_owned());
                self.failed.insert(self.tickets, failed);
                if let Some(surplus) = surplus {
                    self.remove(namespace, &surplus);
                }
            }
            _ => {}
        }
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((_, (at, namespace, host))) = self.failed.first_key_value() else {
                return;
            };
            if *at + FAILURES_KEPT > now {
                return;
            }
            let (namespace, host) = (namespace.clone(), host.clone());
            self.remove(&namespace, &host);
        }
    }

    fn remove(&mut self, namespace: &str, host: &str) {
        let Some(own) = self.namespaces.get_mut(namespace) else {
            return;
        };
        if let Some(ticket) = own.hosts.remove(host).and_then(|pair| pair.filed) {
            own.failed.remove(&ticket);
            self.failed.remove(&ticket);
        }
        if own.hosts.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Refuses a request to a closed host. After its time, one request passes, the trial; returns whether
    /// this is the trial.
    fn check(&mut self, namespace: &str, host: &str) -> Result<bool, Refusal> {
        let Some(pair) = self.host(namespace, host) else {
            return Ok(false);
        };
        let Some(closed) = pair.closed else {
            return Ok(false);
        };
        let now = Instant::now();
        if closed <= now {
            pair.closed = Some(now + CLOSED_FIRST);
            return Ok(true);
        }
        Err(Refusal {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            failures: pair.failures,
            after: closed - now,
            why: pair.why,
        })
    }
}

/// Those of the host, then those of the namespace.
type Slots = [Arc<Semaphore>; 2];

impl Hosts {
    pub(crate) async fn enter(&self, namespace: &str, host: &str) -> Result<Admission, Refusal> {
        let host = host.to_ascii_lowercase();
        let (user, [of_host, of_namespace], is_trial) = self.join(namespace, &host)?;
        // requests that wait for a silent host take no slot of the namespace
        let first = Arc::clone(&of_host).acquire_owned().await;
        // it may have been closed meanwhile
        if !is_trial {
            lock(&self.known).check(namespace, &host)?;
        }
        let second = of_namespace.acquire_owned().await;
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(Admission {
                user,
                outcome: None,
                why: None,
                _slots: [first, second],
            }),
            // never closed, but the type allows it
            _ => Err(Refusal {
                host,
                namespace: namespace.to_owned(),
                failures: 0,
                after: CLOSED_FIRST,
                why: None,
            }),
        }
    }

    fn join(&self, namespace: &str, host: &str) -> Result<(User, Slots, bool), Refusal> {
        let mut known = lock(&self.known);
        let is_trial = known.check(namespace, host)?;
        let slots = known.join(namespace, host);
        drop(known);
        let user = User {
            known: Arc::clone(&self.known),
            namespace: namespace.to_owned(),
            host: host.to_owned(),
        };
        Ok((user, slots, is_trial))
    }

    /// The pairs in use, closed or with failures, by namespace and host.
    #[must_use]
    pub fn shares(&self) -> Vec<HostShare> {
        let now = Instant::now();
        let known = lock(&self.known);
        let pairs = known
            .namespaces
            .iter()
            .flat_map(|(name, own)| own.hosts.iter().map(move |(host, pair)| (name, host, pair)));
        let mut shares: Vec<_> = pairs
            .map(|(namespace, host, pair)| HostShare {
                namespace: namespace.clone(),
                host: host.clone(),
                requests: pair.users,
                closed: pair.closed.and_then(|at| at.checked_duration_since(now)),
            })
            .collect();
        drop(known);
        shares.sort_by(|a, b| (&a.namespace, &a.host).cmp(&(&b.namespace, &b.host)));
        shares
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fail(hosts: &Hosts, namespace: &str, host: &str, times: u32) {
        for _ in 0..times {
            let mut admission = hosts.enter(namespace, host).await.unwrap();
            admission.report(Outcome::Silent);
            admission.because(Silence::Unresolved);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_host_is_closed_for_the_namespace_that_asked() {
        let hosts = Hosts::default();
        fail(&hosts, "a", "Silent:443", FAILURES_MAX).await;
        let refusal = hosts.enter("a", "silent:443").await.unwrap_err();
        assert_eq!((refusal.failures, refusal.after), (FAILURES_MAX, CLOSED_FIRST));
        assert_eq!(
            Silence::in_message(&refusal.to_string()),
            Some(Silence::Unresolved)
        );
        assert!(hosts.enter("b", "silent:443").await.is_ok());
        assert!(hosts.enter("a", "other:443").await.is_ok());
        // one trial after the pause, and the others wait for its outcome
        tokio::time::advance(CLOSED_FIRST).await;
        let mut trial = hosts.enter("a", "silent:443").await.unwrap();
        assert!(hosts.enter("a", "silent:443").await.is_err());
        trial.report(Outcome::Silent);
        drop(trial);
        let refusal = hosts.enter("a", "silent:443").await.unwrap_err();
        assert_eq!(refusal.after, 2 * CLOSED_FIRST);
        tokio::time::advance(2 * CLOSED_FIRST).await;
        hosts
            .enter("a", "silent:443")
            .await
            .unwrap()
            .report(Outcome::Answered);
        assert!(hosts.enter("a", "silent:443").await.is_ok());
        assert_eq!(hosts.shares(), [], "nothing is kept of hosts that answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_has_a_number_of_requests_at_once() {
        let hosts = Hosts::default();
        let enter = async |namespace: &str, host: &str| {
            tokio::time::timeout(Duration::from_secs(1), hosts.enter(namespace, host))
                .await
                .ok()
        };
        let mut held = Vec::new();
        for _ in 0..PER_HOST {
            held.push(enter("a", "one").await.unwrap().unwrap());
        }
        assert!(enter("a", "one").await.is_none(), "the host's share is used");
        assert!(enter("b", "one").await.is_some());
        for _ in PER_HOST..PER_NAMESPACE {
            held.push(enter("a", "two").await.unwrap().unwrap());
        }
        assert!(
            enter("a", "three").await.is_none(),
            "the namespace's share is used"
        );
        held.pop();
        assert!(enter("a", "three").await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_hosts_are_bounded() {
        let hosts = Hosts::default();
        for failures in 1..=FAILURES_MAX {
            for host in 0..FAILED_HOSTS_MAX + 50 {
                fail(&hosts, "a", &format!("host-{failures}-{host}"), failures).await;
            }
            assert_eq!(hosts.shares().len(), FAILED_HOSTS_MAX, "{failures}");
        }
        let newest = format!("host-{FAILURES_MAX}-{}", FAILED_HOSTS_MAX + 49);
        assert!(hosts.enter("a", &newest).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn old_failures_are_forgotten() {
        let hosts = Hosts::default();
        for namespace in 0..FORGOTTEN_AT_ONCE {
            fail(&hosts, &format!("gone-{namespace}"), "silent", 1).await;
        }
        fail(&hosts, "closed", "silent", FAILURES_MAX).await;
        tokio::time::advance(FAILURES_KEPT).await;
        fail(&hosts, "b", "other", 1).await;
        let names =
            |hosts: &Hosts| -> Vec<_> { hosts.shares().into_iter().map(|share| share.namespace).collect() };
        // as many as one end forgets at once
        assert_eq!(names(&hosts), ["b", "closed"]);
        drop(hosts.enter("b", "third").await.unwrap());
        assert_eq!(names(&hosts), ["b"]);
        let known = lock(&hosts.known);
        assert_eq!((known.namespaces.len(), known.failed.len()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_waited_for_a_closed_host_are_refused() {
        let hosts = Arc::new(Hosts::default());
        let mut held = Vec::new();
        for _ in 0..PER_HOST {
            held.push(hosts.enter("a", "silent").await.unwrap());
        }
        let waiting = tokio::spawn({
            let hosts = Arc::clone(&hosts);
            async move { hosts.enter("a", "silent").await.map(drop) }
        });
        tokio::task::yield_now().await;
        for mut admission in held {
            admission.report(Outcome::Silent);
        }
        assert!(waiting.await.unwrap().is_err());
    }
}
