//! A queue of keys with one run per key at a time. The tenant that used the workers least is next; within a
//! tenant, requested keys run first, the others in the order of their wakes.
//!
//! - a key that is woken while it waits runs once, with all the reasons;
//! - a key that is woken while it runs, runs again afterwards, at the end of the queue;
//! - a failed run is retried with exponential backoff, or later if the run asks for that; a wake in
//!   between runs at once;
//! - a waiting key costs no worker and no task, only an entry in a map;
//! - a run that waits for a host outside the cluster has no worker meanwhile ([`without_worker`]), nor
//!   one that waits long for a processor;
//! - the platform has a worker that no other tenant can take;
//! - a run that lasts lends its worker to a tenant that has none: long runs do not delay a tenant's first run.
//!
//! `core` and `line` have the rules, without time or tasks. This file adds a clock and workers.

mod core;
mod line;
mod seat;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::core::{Begun, Core, Free, Taken};
use self::seat::{Absence, Seat, Workers};
use super::backoff::{Backoff, Jitter};
use super::tenants::{Tenant, Tenants};
use super::wake::{Reason, Reasons};
use super::yielding::YieldPolicy;

#[cfg(test)]
pub(crate) use self::seat::as_run_of;
pub use self::seat::without_worker;
pub(crate) use self::seat::{add_wait, computing, tenant, waited};

/// A key whose tenant has a share of the runs.
pub trait Namespaced {
    /// The namespace.
    fn namespace(&self) -> &str;
}

/// The facts that a run gets when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunInfo {
    /// Its reasons.
    pub reasons: Reasons,
    /// How long the key was ready and had no worker. Unlike client-go's, the time starts after an
    /// earlier run of the same key.
    pub waited: Duration,
    /// Whether it waited more than ten seconds while keys of other tenants ran: its tenant had used its
    /// share.
    pub throttled: bool,
}

/// When a key runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Not before it is woken.
    Wait,
    /// After this time, for this reason, unless it is woken before.
    After(Duration, Reason),
    /// The same, in the middle of an attempt: earlier failures still count for the next backoff.
    Pause(Duration, Reason),
    /// The run failed: after the backoff.
    Backoff,
    /// The run failed: after the backoff, but no later than this.
    BackoffWithin(Duration),
}

impl Requeue {
    /// Whether the run failed.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Wait | Self::After(..) | Self::Pause(..) => false,
            Self::Backoff | Self::BackoffWithin(_) => true,
        }
    }
}

/// The settings of a queue.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of concurrent runs, at least one. The platform's own comes on top, and as many again for tenants
    /// that have none while all are taken by long runs.
    pub workers: usize,
    /// The tenants of the keys' namespaces.
    pub tenants: Tenants,
    /// The tenants whose runs let those of others go first on the runtime's threads.
    pub yielding: YieldPolicy,
    /// The delays after failures.
    pub backoff: Backoff,
    /// The jitter of the backoff.
    pub jitter: Jitter,
    /// How long runs may take to end when the queue is stopped; then they are aborted.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 8,
            tenants: Tenants::default(),
            yielding: YieldPolicy::default(),
            backoff: Backoff::RECONCILE,
            jitter: Jitter::random(),
            grace: Duration::from_secs(10),
        }
    }
}

/// Totals and the current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Wakes by reason, in the order of [`Reason::ALL`]; also those that joined others.
    pub wakes: [u64; Reason::ALL.len()],
    /// Runs by reason, in the order of [`Reason::ALL`].
    pub runs_by_reason: [u64; Reason::ALL.len()],
    /// Started runs.
    pub runs: u64,
    /// Failed runs.
    pub failed: u64,
    /// Panicked runs; they count as failed, too.
    pub panicked: u64,
    /// The total time between ready and run.
    pub waited: Duration,
    /// Keys in the queue.
    pub ready: usize,
    /// Running keys.
    pub running: usize,
    /// The running keys that wait for hosts outside the cluster or for processors, without a worker.
    pub away: usize,
    /// Keys that are due later.
    pub waiting: usize,
}

impl Counts {
    /// Wakes for one reason.
    pub const fn wakes(&self, reason: Reason) -> u64 {
        self.wakes[reason as usize]
    }

    /// Runs for one reason.
    pub const fn runs_for(&self, reason: Reason) -> u64 {
        self.runs_by_reason[reason as usize]
    }

    /// Whether nothing runs or is ready.
    pub const fn idle(&self) -> bool {
        self.ready == 0 && self.running == 0
    }
}

/// The queue; clones are the same queue.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    // never held across an await: every use is one call into the core
    core: Mutex<Core<K>>,
    /// Runs that wait for a worker again.
    returning: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    /// The one waiter is `run`; a permit is kept while it does not wait.
    changed: Notify,
    yielding: YieldPolicy,
    workers: usize,
    grace: Duration,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<K> Queue<K>
where
    K: Namespaced + Clone + Eq + Hash + fmt::Display + Send + 'static,
{
    /// An empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            inner: Arc::new(Inner {
                core: Mutex::new(Core::new(settings.backoff, settings.jitter, settings.tenants)),
                returning: Mutex::default(),
                changed: Notify::new(),
                yielding: settings.yielding,
                workers: settings.workers.max(1),
                grace: settings.grace,
            }),
        }
    }

    /// Queues the key, or makes it run again.
    pub fn wake(&self, key: K, reason: Reason) {
        self.core().wake(key, reason, Instant::now());
        self.inner.changed.notify_one();
    }

    /// Queues the key after this time, unless it is due earlier.
    pub fn wake_after(&self, key: K, delay: Duration, reason: Reason) {
        self.core().wake_at(key, Instant::now() + delay, reason);
        self.inner.changed.notify_one();
    }

    /// Drops the state of a key, because its object is gone.
    pub fn forget(&self, key: &K) {
        self.core().forget(key);
    }

    /// How many runs of the key failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.core().failures(key)
    }

    /// The numbers.
    pub fn counts(&self) -> Counts {
        self.core().counts()
    }

    /// Runs keys until the queue is stopped; then waits for the present runs as long as the settings
    /// allow. Dropping the future aborts them.
    ///
    /// A run that panics has failed; the queue goes on.
    pub async fn run<F, R>(&self, stop: CancellationToken, handler: F)
    where
        F: Fn(K, RunInfo) -> R,
        R: Future<Output = Requeue> + Send + 'static,
    {
        let mut runs = Runs::new(self.clone());
        while !stop.is_cancelled() {
            let due = self.start_runs(&mut runs, &handler);
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.inner.changed.notified() => {}
                () = runs.end_one() => {}
                () = sleep_until(due) => {}
            }
        }
        let ended = async {
            while !runs.tasks.is_empty() {
                self.inner
                    .returning()
                    .drain()
                    .for_each(|(_, worker)| drop(worker));
                tokio::select! {
                    () = runs.end_one() => {}
                    () = self.inner.changed.notified() => {}
                }
            }
        };
        if tokio::time::timeout(self.inner.grace, ended).await.is_err() {
            tracing::warn!(grace = ?self.inner.grace, "runs did not end in time and are aborted");
        }
    }

    fn start_runs<F, R>(&self, runs: &mut Runs<K>, handler: &F) -> Option<Instant>
    where
        F: Fn(K, RunInfo) -> R,
        R: Future<Output = Requeue> + Send + 'static,
    {
        let mut core = self.core();
        let now = Instant::now();
        core.expire(now);
        loop {
            let free = core.free(self.inner.workers, now);
            if free == Free::NONE {
                break;
            }
            match core.take(free, now) {
                None => break,
                Some(Taken::Run(run)) => drop(self.inner.returning().remove(&run)),
                Some(Taken::Key(Begun {
                    key,
                    info,
                    run,
                    tenant,
                })) => {
                    tracing::debug!(%key, reasons = %info.reasons, waited = ?info.waited, "run");
                    let yielding = &self.inner.yielding;
                    let handling = yielding.run(&tenant, handler(key.clone(), info));
                    let seat = Seat::new(Arc::clone(&self.inner) as Arc<dyn Workers>, run, tenant.clone());
                    let run = seat.taken_by(handling);
                    let task = match yielding.background(&tenant) {
                        Some(background) => background.spawn_in(&mut runs.tasks, run),
                        None => runs.tasks.spawn(run),
                    };
                    runs.keys.insert(task.id(), key);
                }
            }
        }
        core.next_due().into_iter().chain(core.next_lent(now)).min()
    }

    fn core(&self) -> MutexGuard<'_, Core<K>> {
        self.inner.core()
    }
}

impl<K> Workers for Inner<K>
where
    K: Namespaced + Clone + Eq + Hash + Send,
{
    fn leave(&self, run: u64, tenant: &Tenant, absence: Absence) {
        {
            let mut core = self.core();
            core.put_down(run, Instant::now());
            core.away(absence).add(tenant);
        }
        // an earlier wait of the run has ended: it goes on beside the new one
        drop(self.returning().remove(&run));
        self.changed.notify_one();
    }

    fn come_back(&self, run: u64, tenant: &Tenant, absence: Absence, worker: Option<oneshot::Sender<()>>) {
        {
            let mut core = self.core();
            core.away(absence).remove(tenant);
            match worker {
                None => core.pick_up(run, Instant::now()),
                Some(worker) => {
                    core.want_worker(run, Instant::now());
                    let mut returning = self.returning();
                    returning.retain(|_, worker| !worker.is_closed());
                    returning.insert(run, worker);
                }
            }
        }
        // another key of the tenant may run
        self.changed.notify_one();
    }
}

impl<K> Inner<K> {
    fn core(&self) -> MutexGuard<'_, Core<K>> {
        // a panic leaves no half-done state in the core: its calls are total
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locked after the core, if both are.
    fn returning(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
        self.returning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Runs<K> {
    queue: Queue<K>,
    tasks: JoinSet<Requeue>,
    keys: HashMap<Id, K>,
}

impl<K> Runs<K>
where
    K: Namespaced + Clone + Eq + Hash + fmt::Display + Send + 'static,
{
    fn new(queue: Queue<K>) -> Self {
        Self {
            queue,
            tasks: JoinSet::new(),
            keys: HashMap::new(),
        }
    }

    /// Waits for one run to end and queues its key again; forever if there is none.
    async fn end_one(&mut self) {
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(key) = self.keys.remove(&id) else { return };
        let requeue = match ended {
            Ok((_, requeue)) => requeue,
            Err(error) => self.broken(&key, &error),
        };
        self.queue.core().finish(&key, requeue, Instant::now());
    }

    fn broken(&self, key: &K, error: &JoinError) -> Requeue {
        tracing::error!(%key, %error, "a run panicked and is retried");
        self.queue.core().panicked();
        Requeue::Backoff
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
