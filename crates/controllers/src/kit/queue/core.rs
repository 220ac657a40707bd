//! The queue's rules without time or tasks: instants are passed in.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::kit::backoff::{Backoff, Jitter};
use crate::kit::wake::{Reason, Reasons};

use super::line::{Line, Place};
use super::seat::AWAY_MAX;
use super::{Counts, Namespaced, Requeue, RunInfo};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Neither wanted nor running; perhaps due later.
    Idle,
    Ready {
        place: Place,
        since: Instant,
    },
    /// Running; `again` are the reasons that came meanwhile.
    Running {
        again: Reasons,
        forget: bool,
    },
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
    running: usize,
    /// Runs without a worker, by namespace.
    away: HashMap<String, usize>,
    backoff: Backoff,
    jitter: Jitter,
    counts: Counts,
}

impl<K: Namespaced + Clone + Eq + Hash> Core<K> {
    pub(super) fn new(backoff: Backoff, jitter: Jitter) -> Self {
        Self {
            entries: HashMap::new(),
            line: Line::default(),
            timers: BTreeMap::new(),
            tickets: 0,
            running: 0,
            away: HashMap::new(),
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
            Stage::Running { again, forget } => {
                again.extend(reasons);
                *forget = false;
            }
            Stage::Ready { place, .. } => {
                entry.reasons.extend(reasons);
                if is_requested {
                    *place = self.line.advance(&key, *place);
                }
            }
            Stage::Idle => {
                entry.reasons.extend(reasons);
                let place = self.line.push(key, is_requested);
                entry.stage = Stage::Ready { place, since: now };
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

    /// Starts the key whose turn it is. Its timer is dropped: the run decides when the next one is.
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, RunInfo)> {
        let away = &self.away;
        let may_run = |namespace: &str| away.get(namespace).is_none_or(|runs| *runs < AWAY_MAX);
        let key = self.line.pop(may_run)?;
        let entry = self.entries.get_mut(&key)?;
        if let Some((at, ticket, _)) = entry.due.take() {
            self.timers.remove(&(at, ticket));
        }
        let waited = match entry.stage {
            Stage::Ready { since, .. } => now.saturating_duration_since(since),
            Stage::Idle | Stage::Running { .. } => Duration::ZERO,
        };
        let reasons = std::mem::take(&mut entry.reasons);
        entry.stage = Stage::Running {
            again: Reasons::NONE,
            forget: false,
        };
        self.running += 1;
        self.counts.runs += 1;
        self.counts.waited += waited;
        for reason in reasons.iter() {
            self.counts.runs_by_reason[reason as usize] += 1;
        }
        Some((key, RunInfo { reasons, waited }))
    }

    pub(super) fn finish(&mut self, key: &K, requeue: Requeue, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Stage::Running { again, forget } = entry.stage else {
            return;
        };
        self.running -= 1;
        entry.stage = Stage::Idle;
        if requeue.is_failure() {
            self.counts.failed += 1;
            entry.failures = entry.failures.saturating_add(1);
        } else {
            entry.failures = 0;
        }
        let next = next_run(requeue, entry.failures, self.backoff, &self.jitter);
        // a `wake_at` during the run stays; the run can only make it earlier
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
            Stage::Running { again, forget } => {
                *again = Reasons::NONE;
                *forget = true;
            }
            Stage::Ready { place, .. } => {
                let place = *place;
                self.line.remove(key, place);
                self.entries.remove(key);
            }
            Stage::Idle => {
                self.entries.remove(key);
            }
        }
    }

    /// A run of the namespace waits without a worker.
    pub(super) fn leave(&mut self, namespace: &str) {
        *self.away.entry(namespace.to_owned()).or_default() += 1;
    }

    pub(super) fn come_back(&mut self, namespace: &str) {
        if let Some(runs) = self.away.get_mut(namespace) {
            *runs -= 1;
            if *runs == 0 {
                self.away.remove(namespace);
            }
        }
    }

    /// The runs that have a worker.
    pub(super) fn at_work(&self) -> usize {
        self.running.saturating_sub(self.away.values().sum())
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
            running: self.running,
            waiting: self.timers.len(),
            away: self.away.values().sum(),
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
        Requeue::After(delay, reason) => Some((delay, reason)),
        Requeue::Backoff => Some((backoff.delay(failures, jitter), Reason::Retry)),
        Requeue::BackoffWithin(most) => Some((backoff.delay(failures, jitter).min(most), Reason::Retry)),
    }
}
