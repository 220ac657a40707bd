//! The order of work on processors, without threads or clocks.
//!
//! - The tenant with the least use is next. A job of another pauses for it after [`QUANTUM`].
//! - A job that has used [`SLOW`] continues in the slow lane: one processor, and those that are idle. Its
//!   jobs take turns of [`SLOW_TURN`].
//! - A tenant with [`SLOW_MAX`] slow jobs begins no others: paused jobs keep their memory. The platform, and
//!   a tenant without others, may have one for each processor.
//! - One more processor is for the platform alone; a slow job of the platform may stay there.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::kit::tenants::Tenant;
use crate::kit::tenants::ledger::Ledger;

pub(super) const QUANTUM: Duration = Duration::from_millis(50);
pub(super) const SLOW: Duration = Duration::from_secs(1);
pub(super) const SLOW_TURN: Duration = Duration::from_millis(250);
pub(super) const SLOW_MAX: usize = 2;

pub(super) type JobId = u64;

#[derive(Debug)]
pub(super) struct Schedule {
    processors: usize,
    ledger: Ledger,
    jobs: HashMap<JobId, Job>,
    queues: HashMap<Tenant, Queues>,
    // jobs on processors
    normal: usize,
    platform: usize,
    slow: usize,
}

#[derive(Debug)]
struct Job {
    tenant: Tenant,
    stage: Stage,
    used: Duration,
    used_in_turn: Duration,
    is_slow: bool,
    is_stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    On(Lane),
    Paused,
    /// It was stopped while it paused, and ends without a turn.
    Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Normal,
    Platform,
    Slow,
}

/// The jobs of a tenant.
#[derive(Debug, Default)]
struct Queues {
    is_platform: bool,
    new: VecDeque<JobId>,
    paused: VecDeque<JobId>,
    slow: VecDeque<JobId>,
    jobs: usize,
    slow_jobs: usize,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    New,
    Paused,
    Slow,
}

impl Queues {
    fn queue(&mut self, which: Which) -> &mut VecDeque<JobId> {
        match which {
            Which::New => &mut self.new,
            Which::Paused => &mut self.paused,
            Which::Slow => &mut self.slow,
        }
    }

    fn are_empty(&self) -> bool {
        self.new.is_empty() && self.paused.is_empty() && self.slow.is_empty()
    }

    fn next(&self, lane: Lane, slow_max: usize) -> Option<Which> {
        let quick = || match () {
            () if !self.paused.is_empty() => Some(Which::Paused),
            () if !self.new.is_empty() && self.slow_jobs < slow_max => Some(Which::New),
            () => None,
        };
        let slow = || (!self.slow.is_empty()).then_some(Which::Slow);
        match lane {
            Lane::Normal => quick(),
            Lane::Platform if self.is_platform => quick().or_else(slow),
            Lane::Platform => None,
            Lane::Slow => slow(),
        }
    }
}

impl Schedule {
    pub(super) fn new(processors: usize) -> Self {
        Self {
            processors: processors.max(1),
            ledger: Ledger::default(),
            jobs: HashMap::new(),
            queues: HashMap::new(),
            normal: 0,
            platform: 0,
            slow: 0,
        }
    }

    pub(super) fn submit(&mut self, job: JobId, tenant: &Tenant, is_platform: bool) {
        let new = Job {
            tenant: tenant.clone(),
            stage: Stage::New,
            used: Duration::ZERO,
            used_in_turn: Duration::ZERO,
            is_slow: false,
            is_stopped: false,
        };
        self.jobs.insert(job, new);
        let queues = self.queues.entry(tenant.clone()).or_default();
        queues.is_platform = is_platform;
        queues.jobs += 1;
        queues.new.push_back(job);
        self.ledger.enter(tenant);
        self.ledger.wait(tenant);
    }

    /// The jobs that go on now.
    pub(super) fn turns(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| self.turn()).collect()
    }

    fn turn(&mut self) -> Option<JobId> {
        let lanes = [Lane::Platform, Lane::Normal, Lane::Slow].into_iter();
        let mut lanes = lanes.filter(|lane| self.has_room(*lane));
        let (tenant, which, lane) = lanes.find_map(|lane| {
            let (tenant, which) = self.next(lane)?;
            Some((tenant, which, lane))
        })?;
        let queues = self.queues.get_mut(&tenant)?;
        let job = queues.queue(which).pop_front()?;
        let waits = !queues.are_empty();
        self.ledger.take(&tenant, waits);
        *self.on(lane) += 1;
        let of = self.jobs.get_mut(&job)?;
        of.stage = Stage::On(lane);
        of.used_in_turn = Duration::ZERO;
        Some(job)
    }

    fn next(&self, lane: Lane) -> Option<(Tenant, Which)> {
        let is_alone = self.ledger.present() == 1;
        self.ledger.waiting().find_map(|tenant| {
            let queues = self.queues.get(tenant)?;
            let slow_max = match is_alone || queues.is_platform {
                true => self.processors.max(SLOW_MAX),
                false => SLOW_MAX,
            };
            Some((tenant.clone(), queues.next(lane, slow_max)?))
        })
    }

    fn has_room(&self, lane: Lane) -> bool {
        match lane {
            Lane::Normal => self.normal < self.processors,
            Lane::Platform => self.platform == 0,
            Lane::Slow => self.slow < self.slow_processors(),
        }
    }

    fn slow_processors(&self) -> usize {
        self.processors.saturating_sub(self.normal).max(1)
    }

    fn on(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Normal => &mut self.normal,
            Lane::Platform => &mut self.platform,
            Lane::Slow => &mut self.slow,
        }
    }

    /// Charges a job. If others are to go first, it waits for its next turn, which may come at once.
    pub(super) fn pause(&mut self, job: JobId, cost: Duration) {
        self.charge(job, cost);
        let Some(of) = self.jobs.get(&job) else { return };
        let Stage::On(lane) = of.stage else { return };
        if of.is_stopped {
            return;
        }
        let (tenant, is_slow) = (of.tenant.clone(), of.is_slow);
        let had = |turn: Duration| of.used_in_turn >= turn;
        let pauses = match lane {
            Lane::Normal => is_slow || (had(QUANTUM) && self.is_less_used(&tenant, lane)),
            Lane::Platform => {
                let quick = self.next(lane).filter(|(_, which)| !matches!(which, Which::Slow));
                had(QUANTUM) && (is_slow && quick.is_some() || self.is_less_used(&tenant, lane))
            }
            Lane::Slow => self.slow > self.slow_processors() || (had(SLOW_TURN) && self.next(lane).is_some()),
        };
        if !pauses {
            return;
        }
        *self.on(lane) -= 1;
        if let Some(of) = self.jobs.get_mut(&job) {
            of.stage = Stage::Paused;
        }
        if let Some(queues) = self.queues.get_mut(&tenant) {
            let which = if is_slow { Which::Slow } else { Which::Paused };
            queues.queue(which).push_back(job);
            self.ledger.wait(&tenant);
        }
    }

    pub(super) fn is_paused(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|of| of.stage == Stage::Paused)
    }

    /// Whether its priority is to be low.
    pub(super) fn gives_way(&self, job: JobId) -> bool {
        let is_slow = |of: &Job| of.stage == Stage::On(Lane::Slow);
        self.is_shared() && self.jobs.get(&job).is_some_and(is_slow)
    }

    /// A job that does not pause gives its place to another, and goes on as one of the slow lane.
    pub(super) fn overdue(&mut self, job: JobId) {
        let Some(of) = self.jobs.get_mut(&job) else { return };
        let Stage::On(lane @ (Lane::Normal | Lane::Platform)) = of.stage else {
            return;
        };
        of.stage = Stage::On(Lane::Slow);
        *self.on(lane) -= 1;
        self.slow += 1;
        self.mark_slow(job);
    }

    pub(super) fn finish(&mut self, job: JobId, cost: Duration) {
        self.charge(job, cost);
        self.remove(job);
    }

    /// A new job never begins; a paused one ends at once.
    pub(super) fn stop(&mut self, job: JobId) {
        let Some(of) = self.jobs.get_mut(&job) else { return };
        of.is_stopped = true;
        match of.stage {
            Stage::New => self.remove(job),
            Stage::Paused => {
                of.stage = Stage::Ends;
                let tenant = of.tenant.clone();
                self.unqueue(&tenant, job);
            }
            // it may have no pauses
            Stage::On(_) => self.overdue(job),
            Stage::Ends => {}
        }
    }

    /// Whether several tenants have jobs.
    pub(super) fn is_shared(&self) -> bool {
        self.ledger.present() > 1
    }

    fn charge(&mut self, job: JobId, cost: Duration) {
        let Some(of) = self.jobs.get_mut(&job) else { return };
        of.used += cost;
        of.used_in_turn += cost;
        self.ledger.charge(&of.tenant, cost);
        if of.used >= SLOW {
            self.mark_slow(job);
        }
    }

    fn mark_slow(&mut self, job: JobId) {
        let of = self.jobs.get_mut(&job).filter(|of| !of.is_slow);
        let Some(of) = of else { return };
        of.is_slow = true;
        if let Some(queues) = self.queues.get_mut(&of.tenant) {
            queues.slow_jobs += 1;
        }
    }

    fn remove(&mut self, job: JobId) {
        let Some(of) = self.jobs.remove(&job) else { return };
        self.unqueue(&of.tenant, job);
        if let Stage::On(lane) = of.stage {
            *self.on(lane) -= 1;
        }
        if let Some(queues) = self.queues.get_mut(&of.tenant) {
            queues.jobs -= 1;
            queues.slow_jobs -= usize::from(of.is_slow);
            if queues.jobs == 0 {
                self.queues.remove(&of.tenant);
            }
        }
        self.ledger.leave(&of.tenant);
    }

    fn unqueue(&mut self, tenant: &Tenant, job: JobId) {
        let Some(queues) = self.queues.get_mut(tenant) else {
            return;
        };
        for which in [Which::New, Which::Paused, Which::Slow] {
            queues.queue(which).retain(|other| *other != job);
        }
        if queues.are_empty() {
            self.ledger.rest(tenant);
        }
    }

    fn is_less_used(&self, tenant: &Tenant, lane: Lane) -> bool {
        let next = self.next(lane);
        next.is_some_and(|(next, _)| self.ledger.used(&next) < self.ledger.used(tenant))
    }

    #[cfg(test)]
    pub(super) fn lane(&self, job: JobId) -> &'static str {
        match self.jobs[&job].stage {
            Stage::On(Lane::Normal) => "normal",
            Stage::On(Lane::Platform) => "platform",
            Stage::On(Lane::Slow) => "slow",
            Stage::New | Stage::Paused | Stage::Ends => "none",
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.queues.is_empty() && self.ledger.is_empty()
    }
}
