//! The queue's rules without time or tasks: instants are passed in.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::wake::{Reason, Reasons};

use super::line::{Class, Line, Place, Queued};
use super::seat::{AWAY_MAX, Absence, COMPUTING_MAX, COMPUTING_MIN};
use super::{Counts, Namespaced, Requeue, RunInfo};
use crate::kit::tenants::{Tenant, Tenants};

const THROTTLED_AFTER: Duration = Duration::from_secs(10);
/// A run that has had its worker for so long lends it to a tenant that has none.
pub(super) const LENDS_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Neither wanted nor running; perhaps due later.
    Idle,
    Ready {
        tenant: Tenant,
        place: Place,
        since: Instant,
        /// The runs of others until then.
        others: u64,
    },
    /// Running; `again` are the reasons that came meanwhile.
    Running { run: u64, again: Reasons, forget: bool },
}

#[derive(Debug)]
struct Run {
    tenant: Tenant,
    worker: Worker,
}

impl Run {
    /// When it lends its worker. A lent one is lent once.
    fn lends_from(&self) -> Option<Instant> {
        match self.worker {
            Worker::Held {
                from, is_lent: false, ..
            } => Some(from + LENDS_AFTER),
            Worker::Held { .. } | Worker::None | Worker::Wanted(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Worker {
    /// The time before `since` is charged.
    Held {
        since: Instant,
        from: Instant,
        is_lent: bool,
    },
    None,
    Wanted(Place),
}

/// Runs by tenant: those without a worker for a reason, or those with one.
#[derive(Debug, Default)]
pub(super) struct Away {
    runs: HashMap<Tenant, usize>,
    all: usize,
}

impl Away {
    fn of(&self, tenant: &Tenant) -> usize {
        self.runs.get(tenant).copied().unwrap_or_default()
    }

    /// Of the platform's namespaces.
    fn platform(&self, tenants: &Tenants) -> usize {
        let of = self.runs.iter().filter(|(tenant, _)| tenants.is_platform(tenant));
        of.map(|(_, runs)| runs).sum()
    }

    pub(super) fn add(&mut self, tenant: &Tenant) {
        *self.runs.entry(tenant.clone()).or_default() += 1;
        self.all += 1;
    }

    pub(super) fn remove(&mut self, tenant: &Tenant) {
        if let Some(runs) = self.runs.get_mut(tenant) {
            *runs -= 1;
            self.all -= 1;
            if *runs == 0 {
                self.runs.remove(tenant);
            }
        }
    }
}

/// The tenants that may take a worker now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Free {
    Any,
    Some {
        /// The platform has its own.
        platform: bool,
        /// One is lent to a tenant without any.
        lent: bool,
    },
}

impl Free {
    pub(super) const NONE: Self = Self::Some {
        platform: false,
        lent: false,
    };
}

/// An item whose turn it is.
#[derive(Debug)]
pub(super) enum Taken<K> {
    Key(Begun<K>),
    /// A begun run has a worker again.
    Run(u64),
}

#[derive(Debug)]
pub(super) struct Begun<K> {
    pub(super) key: K,
    pub(super) info: RunInfo,
    pub(super) run: u64,
    pub(super) tenant: Tenant,
}

#[derive(Debug)]
struct Entry {
    stage: Stage,
    reasons: Reasons,
    due: Option<(Instant, u64, Reason)>,
    failures: u32,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            stage: Stage::Idle,
            reasons: Reasons::NONE,
            due: None,
            failures: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Core<K> {
    entries: HashMap<K, Entry>,
    line: Line<K>,
    /// The number orders keys that are due in the same instant, oldest first.
    timers: BTreeMap<(Instant, u64), K>,
    tickets: u64,
    runs: HashMap<u64, Run>,
    /// Runs with a worker.
    at_work: Away,
    /// Those of them with a lent one.
    lent: usize,
    away: Away,
    computing: Away,
    tenants: Tenants,
    backoff: Backoff,
    jitter: Jitter,
    counts: Counts,
}

impl<K: Namespaced + Clone + Eq + Hash> Core<K> {
    pub(super) fn new(backoff: Backoff, jitter: Jitter, tenants: Tenants) -> Self {
        Self {
            entries: HashMap::new(),
            line: Line::default(),
            timers: BTreeMap::new(),
            tickets: 0,
            runs: HashMap::new(),
            at_work: Away::default(),
            lent: 0,
            away: Away::default(),
            computing: Away::default(),
            tenants,
            backoff,
            jitter,
            counts: Counts::default(),
        }
    }

    /// Queues the key, or makes it run again after the present run.
    pub(super) fn wake(&mut self, key: K, reason: Reason, now: Instant) {
        self.counts.wakes[reason as usize] += 1;
        self.want(key, reason.into(), now);
    }

    fn want(&mut self, key: K, reasons: Reasons, now: Instant) {
        let is_requested = reasons.contains(Reason::Requested);
        let entry = self.entries.entry(key.clone()).or_default();
        match &mut entry.stage {
            Stage::Running { again, forget, .. } => {
                again.extend(reasons);
                *forget = false;
            }
            Stage::Ready { tenant, place, .. } => {
                entry.reasons.extend(reasons);
                if is_requested {
                    *place = self.line.advance(tenant, *place);
                }
            }
            Stage::Idle => {
                entry.reasons.extend(reasons);
                let tenant = self.tenants.of(key.namespace());
                let class = match is_requested {
                    true => Class::Requested,
                    false => Class::Routine,
                };
                let place = self.line.push(&tenant, Queued::Key(key), class);
                entry.stage = Stage::Ready {
                    place,
                    since: now,
                    others: self.line.taken_by_others(&tenant),
                    tenant,
                };
            }
        }
    }

    pub(super) fn wake_at(&mut self, key: K, at: Instant, reason: Reason) {
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some((due, ticket, _)) = entry.due {
            if due <= at {
                return;
            }
            self.timers.remove(&(due, ticket));
        }
        self.tickets += 1;
        entry.due = Some((at, self.tickets, reason));
        self.timers.insert((at, self.tickets), key);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.timers.first_entry() {
            let at = entry.key().0;
            if at > now {
                return;
            }
            let key = entry.remove();
            let due = self.entries.get_mut(&key).and_then(|entry| entry.due.take());
            if let Some((_, _, reason)) = due {
                self.wake(key, reason, at);
            }
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Of this many and the platform's. As many again are lent while there are long runs; a lent worker is nobody
    /// else's afterwards, so the first in the line gets the next one that is free.
    pub(super) fn free(&self, workers: usize, now: Instant) -> Free {
        let platform = self.at_work.platform(&self.tenants);
        if self.at_work.all - self.lent - platform.min(1) < workers {
            return Free::Any;
        }
        let lends = |run: &&Run| run.lends_from().is_some_and(|from| now >= from);
        Free::Some {
            platform: platform == 0 && self.tenants.have_platform(),
            lent: self.lent < workers && self.runs.values().filter(lends).count() > self.lent,
        }
    }

    /// When a run lends its worker next; none if nobody waits for one.
    pub(super) fn next_lent(&self, now: Instant) -> Option<Instant> {
        let lends = self
            .runs
            .values()
            .filter_map(Run::lends_from)
            .filter(|at| *at > now);
        (!self.line.is_empty()).then(|| lends.min()).flatten()
    }

    /// Gives a free worker to the item whose turn it is. The timer of a key is dropped: the run decides
    /// when the next one is.
    pub(super) fn take(&mut self, free: Free, now: Instant) -> Option<Taken<K>> {
        self.charge_runs(now);
        let (away, computing, at_work) = (&self.away, &self.computing, &self.at_work);
        let computing_max = match computing.all < COMPUTING_MAX {
            true => AWAY_MAX,
            false => COMPUTING_MIN,
        };
        let may = |tenant: &Tenant, class: Class| {
            let begins = away.of(tenant) < AWAY_MAX && computing.of(tenant) < computing_max;
            let is_free = match free {
                Free::Any => true,
                Free::Some { platform, lent } => {
                    platform && self.tenants.is_platform(tenant) || lent && at_work.of(tenant) == 0
                }
            };
            is_free && (begins || class == Class::Begun)
        };
        let (tenant, item, others_now) = self.line.pop(may)?;
        let is_lent = match free {
            Free::Any => false,
            Free::Some { platform, .. } => !(platform && self.tenants.is_platform(&tenant)),
        };
        self.at_work.add(&tenant);
        self.lent += usize::from(is_lent);
        let worker = Worker::Held {
            since: now,
            from: now,
            is_lent,
        };
        let key = match item {
            Queued::Run(run) => {
                if let Some(run) = self.runs.get_mut(&run) {
                    run.worker = worker;
                }
                return Some(Taken::Run(run));
            }
            Queued::Key(key) => key,
        };
        self.tickets += 1;
        let number = self.tickets;
        let run = Run {
            tenant: tenant.clone(),
            worker,
        };
        self.runs.insert(number, run);
        let entry = self.entries.get_mut(&key)?;
        if let Some((at, ticket, _)) = entry.due.take() {
            self.timers.remove(&(at, ticket));
        }
        let reasons = std::mem::take(&mut entry.reasons);
        let begun = Stage::Running {
            run: number,
            again: Reasons::NONE,
            forget: false,
        };
        let (waited, others) = match std::mem::replace(&mut entry.stage, begun) {
            Stage::Ready { since, others, .. } => (now.saturating_duration_since(since), others),
            Stage::Idle | Stage::Running { .. } => (Duration::ZERO, others_now),
        };
        self.counts.runs += 1;
        self.counts.waited += waited;
        for reason in reasons.iter() {
            self.counts.runs_by_reason[reason as usize] += 1;
        }
        let info = RunInfo {
            reasons,
            waited,
            throttled: waited > THROTTLED_AFTER && others_now > others,
        };
        Some(Taken::Key(Begun {
            key,
            info,
            run: number,
            tenant,
        }))
    }

    pub(super) fn finish(&mut self, key: &K, requeue: Requeue, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Stage::Running { run, again, forget } = entry.stage else {
            return;
        };
        entry.stage = Stage::Idle;
        if requeue.is_failure() {
            self.counts.failed += 1;
            entry.failures = entry.failures.saturating_add(1);
        } else if !matches!(requeue, Requeue::Pause(..)) {
            entry.failures = 0;
        }
        let failures = entry.failures;
        self.put_down(run, now);
        self.runs.remove(&run);
        let next = next_run(requeue, failures, self.backoff, &self.jitter);
        // a `wake_at` during the run stays; the run can only make it earlier
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let wanted_later = entry.due.is_some() || !again.is_empty();
        if forget && !wanted_later {
            self.entries.remove(key);
            return;
        }
        if let (Some((after, reason)), false) = (next, forget) {
            self.wake_at(key.clone(), now + after, reason);
        }
        if !again.is_empty() {
            self.want(key.clone(), again, now);
        }
        let idle = |entry: &Entry| entry.stage == Stage::Idle && entry.due.is_none() && entry.failures == 0;
        if self.entries.get(key).is_some_and(idle) {
            self.entries.remove(key);
        }
    }

    /// Drops the place, the timer and the failures of a key. A run in progress ends, and nothing follows
    /// it unless the key is woken again. Costs the logarithm of the number of keys.
    pub(super) fn forget(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if let Some((at, ticket, _)) = entry.due.take() {
            self.timers.remove(&(at, ticket));
        }
        match &mut entry.stage {
            Stage::Running { again, forget, .. } => {
                *again = Reasons::NONE;
                *forget = true;
            }
            Stage::Ready { tenant, place, .. } => {
                self.line.remove(tenant, *place);
                self.entries.remove(key);
            }
            Stage::Idle => {
                self.entries.remove(key);
            }
        }
    }

    /// A run gives up its worker, and its tenant is charged for the time since it got it.
    pub(super) fn put_down(&mut self, run: u64, now: Instant) {
        let Some(of) = self.runs.get_mut(&run) else { return };
        let tenant = of.tenant.clone();
        match std::mem::replace(&mut of.worker, Worker::None) {
            Worker::Held { since, is_lent, .. } => {
                self.at_work.remove(&tenant);
                self.lent -= usize::from(is_lent);
                let held = now.saturating_duration_since(since);
                self.line.ledger.charge(&tenant, held);
                self.line.ledger.leave(&tenant);
            }
            Worker::Wanted(place) => self.line.remove(&tenant, place),
            Worker::None => {}
        }
    }

    /// A run goes on with a worker, even if there is none free.
    pub(super) fn pick_up(&mut self, run: u64, now: Instant) {
        self.put_down(run, now);
        if let Some(of) = self.runs.get_mut(&run) {
            of.worker = Worker::Held {
                since: now,
                from: now,
                is_lent: false,
            };
            let tenant = of.tenant.clone();
            self.line.ledger.enter(&tenant);
            self.at_work.add(&tenant);
        }
    }

    /// A run waits for its tenant's turn to have a worker again.
    pub(super) fn want_worker(&mut self, run: u64, now: Instant) {
        self.put_down(run, now);
        if let Some(of) = self.runs.get_mut(&run) {
            let place = self.line.push(&of.tenant, Queued::Run(run), Class::Begun);
            of.worker = Worker::Wanted(place);
        }
    }

    pub(super) fn away(&mut self, absence: Absence) -> &mut Away {
        match absence {
            Absence::Host => &mut self.away,
            Absence::Processor => &mut self.computing,
        }
    }

    fn charge_runs(&mut self, now: Instant) {
        for run in self.runs.values_mut() {
            if let Worker::Held { since, .. } = &mut run.worker {
                let held = now.saturating_duration_since(*since);
                if !held.is_zero() {
                    self.line.ledger.charge(&run.tenant, held);
                    *since = now;
                }
            }
        }
    }

    pub(super) fn panicked(&mut self) {
        self.counts.panicked += 1;
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            ready: self.line.len(),
            running: self.runs.len(),
            waiting: self.timers.len(),
            away: self.away.all + self.computing.all,
            ..self.counts
        }
    }
}

/// When the key runs next: after a failure the backoff, or the run's own limit if that is earlier
/// (Flux's `retryInterval`).
fn next_run(
    requeue: Requeue,
    failures: u32,
    backoff: Backoff,
    jitter: &Jitter,
) -> Option<(Duration, Reason)> {
    match requeue {
        Requeue::Wait => None,
        Requeue::After(delay, reason) | Requeue::Pause(delay, reason) => Some((delay, reason)),
        Requeue::Backoff => Some((backoff.delay(failures, jitter), Reason::Retry)),
        Requeue::BackoffWithin(most) => Some((backoff.delay(failures, jitter).min(most), Reason::Retry)),
    }
}
