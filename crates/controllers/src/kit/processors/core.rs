//! The order of work on processors, without threads: the caller sets the time.
//!
//! - The tenant with the least use is next. A job of another pauses for it after [`QUANTUM`].
//! - A job that has used [`SLOW`] continues in the slow lane: one processor, and those that are idle. Its
//!   jobs take turns of [`SLOW_TURN`].
//! - A tenant with [`SLOW_MAX`] slow jobs begins no others: paused jobs keep their memory. The platform, and
//!   a tenant without others, may have one for each processor.
//! - A new job begins at once, beside those on the processors, if its tenant has no other begun job, has used no more
//!   than the others or little of late, and its jobs of late were short: it has a quick place, of which there are a
//!   few. After [`QUICK`] it waits for a processor.
//! - One more processor is for the platform alone; a slow job of the platform may stay there.
//! - All jobs but the platform's together hold at most `held_max` bytes, and one large job more: the solo
//!   job, which goes on until it ends. If they hold more, the tenant with the most use gives up its largest
//!   job: it becomes the solo job, or it is displaced and begins again as a later solo job. A job smaller than
//!   [`LARGE`] is never displaced.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use equate_priority::{Limit, UsedTime};

use crate::kit::tenants::Tenant;
use crate::kit::tenants::ledger::Ledger;

pub(super) const QUANTUM: Duration = Duration::from_millis(50);
pub(super) const QUICK: Duration = Duration::from_millis(10);
/// Within this, jobs of a tenant use little: a tenth of each processor. A steady tenant has soon used more than
/// those that arrive.
const LITTLE: Limit = Limit {
    most: Duration::from_millis(250),
    per_second: Duration::from_millis(100),
    debt_max: Duration::from_secs(5),
};
/// The same for all of these tenants together, so that they leave processors to the runtime's threads.
const ALL_LITTLE: Limit = Limit {
    most: Duration::from_millis(500),
    per_second: Duration::from_millis(500),
    debt_max: Duration::from_secs(5),
};
/// The most tenants whose long jobs are remembered. With more, those without use are dropped.
const TENANTS_MAX: usize = 1_024;
pub(super) const SLOW: Duration = Duration::from_secs(1);
pub(super) const SLOW_TURN: Duration = Duration::from_millis(250);
pub(super) const SLOW_MAX: usize = 2;
/// The bytes of a job that can be displaced.
pub(super) const LARGE: usize = 4 << 20;

pub(super) type JobId = u64;

#[derive(Debug)]
pub(super) struct Schedule {
    processors: usize,
    /// The quick places.
    quick_max: usize,
    ledger: Ledger,
    jobs: HashMap<JobId, Job>,
    queues: HashMap<Tenant, Queues>,
    long: LongJobs,
    pub(super) recent: RecentUse,
    // jobs on processors
    quick: usize,
    normal: usize,
    platform: usize,
    slow: usize,
    /// The bytes of all jobs but the solo job and the platform's.
    held: usize,
    held_max: usize,
    solo: Option<JobId>,
    /// Jobs that wait to be the solo job.
    solos: usize,
}

#[derive(Debug)]
struct Job {
    tenant: Tenant,
    begins: Begins,
    stage: Stage,
    used: Duration,
    used_in_turn: Duration,
    held: usize,
    is_slow: bool,
    is_stopped: bool,
}

/// When a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    InTurn,
    /// As the solo job: it was displaced before.
    Solo,
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
    Quick,
    Normal,
    Platform,
    Slow,
}

/// The jobs of a tenant.
#[derive(Debug, Default)]
struct Queues {
    is_platform: bool,
    new: VecDeque<JobId>,
    solo: VecDeque<JobId>,
    paused: VecDeque<JobId>,
    slow: VecDeque<JobId>,
    jobs: usize,
    slow_jobs: usize,
}

/// The tenants whose jobs of late were longer than [`QUICK`]: the longest, halved with each job since.
#[derive(Debug, Default)]
struct LongJobs(HashMap<Tenant, Duration>);

impl LongJobs {
    fn contains(&self, tenant: &Tenant) -> bool {
        self.0.contains_key(tenant)
    }

    fn note(&mut self, tenant: Tenant, used: Duration) {
        // one that is not remembered had short jobs
        let before = self.0.get(&tenant).copied().unwrap_or(Duration::ZERO);
        let longest = used.max(before / 2);
        if longest <= QUICK {
            self.0.remove(&tenant);
            return;
        }
        self.0.insert(tenant, longest);
        let shortest = self.0.iter().min_by_key(|(_, used)| **used);
        if let Some(shortest) = shortest.map(|(tenant, _)| tenant.clone())
            && self.0.len() > TENANTS_MAX
        {
            self.0.remove(&shortest);
        }
    }
}

/// The use of each tenant of late.
#[derive(Debug)]
pub(super) struct RecentUse {
    used: HashMap<Tenant, UsedTime>,
    little: Limit,
    /// Of all tenants together whose use is little.
    all: UsedTime,
    all_little: Limit,
    /// The time of all further calls.
    pub(super) now: Instant,
}

impl RecentUse {
    fn of(processors: usize) -> Self {
        let share = u32::try_from(processors.max(1)).unwrap_or(u32::MAX);
        Self {
            used: HashMap::new(),
            little: times(LITTLE, share),
            all: UsedTime::default(),
            all_little: times(ALL_LITTLE, share),
            now: Instant::now(),
        }
    }

    fn charge(&mut self, tenant: &Tenant, cost: Duration) {
        let (limit, now) = (self.little, self.now);
        if self.used.len() >= TENANTS_MAX {
            self.used.retain(|_, used| !used.used(limit, now).is_zero());
        }
        let used = self.used.entry(tenant.clone()).or_default();
        if used.is_left(limit, now) {
            self.all.charge(self.all_little, now, cost);
        }
        used.charge(limit, now, cost);
    }

    fn is_little(&self, tenant: &Tenant) -> bool {
        let used = self.used.get(tenant);
        let is_left = used.is_none_or(|used| used.is_left(self.little, self.now));
        is_left && self.all.is_left(self.all_little, self.now)
    }
}

/// That of several processors.
fn times(limit: Limit, processors: u32) -> Limit {
    Limit {
        per_second: limit.per_second.saturating_mul(processors),
        ..limit
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    New,
    Solo,
    Paused,
    Slow,
}

impl Queues {
    fn queue(&mut self, which: Which) -> &mut VecDeque<JobId> {
        match which {
            Which::New => &mut self.new,
            Which::Solo => &mut self.solo,
            Which::Paused => &mut self.paused,
            Which::Slow => &mut self.slow,
        }
    }

    fn are_empty(&self) -> bool {
        let all = [&self.new, &self.solo, &self.paused, &self.slow];
        all.iter().all(|queue| queue.is_empty())
    }

    /// Whether no job has begun.
    fn have_none_begun(&self) -> bool {
        self.jobs == self.new.len() + self.solo.len()
    }

    fn next(&self, lane: Lane, slow_max: usize, solo_is_free: bool) -> Option<Which> {
        let quick = || match () {
            () if !self.paused.is_empty() => Some(Which::Paused),
            () if self.slow_jobs >= slow_max => None,
            () if !self.new.is_empty() => Some(Which::New),
            () if !self.solo.is_empty() && solo_is_free => Some(Which::Solo),
            () => None,
        };
        let slow = || (!self.slow.is_empty()).then_some(Which::Slow);
        match lane {
            Lane::Quick => (self.have_none_begun() && !self.new.is_empty()).then_some(Which::New),
            Lane::Normal => quick(),
            Lane::Platform if self.is_platform => quick().or_else(slow),
            Lane::Platform => None,
            Lane::Slow => slow(),
        }
    }
}

impl Schedule {
    pub(super) fn new(processors: usize, quick_max: usize, held_max: usize) -> Self {
        Self {
            processors: processors.max(1),
            quick_max,
            ledger: Ledger::default(),
            jobs: HashMap::new(),
            queues: HashMap::new(),
            long: LongJobs::default(),
            recent: RecentUse::of(processors),
            quick: 0,
            normal: 0,
            platform: 0,
            slow: 0,
            held: 0,
            held_max,
            solo: None,
            solos: 0,
        }
    }

    pub(super) fn submit(&mut self, job: JobId, tenant: &Tenant, is_platform: bool, begins: Begins) {
        let new = Job {
            tenant: tenant.clone(),
            begins,
            stage: Stage::New,
            used: Duration::ZERO,
            used_in_turn: Duration::ZERO,
            held: 0,
            is_slow: false,
            is_stopped: false,
        };
        self.jobs.insert(job, new);
        let queues = self.queues.entry(tenant.clone()).or_default();
        queues.is_platform = is_platform;
        queues.jobs += 1;
        match begins {
            Begins::InTurn => queues.new.push_back(job),
            Begins::Solo => {
                queues.solo.push_back(job);
                self.solos += 1;
            }
        }
        self.ledger.enter(tenant);
        self.ledger.wait(tenant);
    }

    /// The jobs that go on now.
    pub(super) fn turns(&mut self) -> Vec<JobId> {
        std::iter::from_fn(|| self.turn()).collect()
    }

    fn turn(&mut self) -> Option<JobId> {
        let lanes = [Lane::Platform, Lane::Normal, Lane::Slow, Lane::Quick].into_iter();
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
        if matches!(which, Which::Solo) {
            self.solo = Some(job);
            self.solos -= 1;
        }
        let of = self.jobs.get_mut(&job)?;
        of.stage = Stage::On(lane);
        of.used_in_turn = Duration::ZERO;
        Some(job)
    }

    fn next(&self, lane: Lane) -> Option<(Tenant, Which)> {
        let is_alone = self.ledger.present() == 1;
        self.ledger.waiting().find_map(|tenant| {
            let queues = self.queues.get(tenant)?;
            if lane == Lane::Quick && !self.may_be_quick(tenant) {
                return None;
            }
            let slow_max = match is_alone || queues.is_platform {
                true => self.processors.max(SLOW_MAX),
                false => SLOW_MAX,
            };
            Some((tenant.clone(), queues.next(lane, slow_max, self.solo.is_none())?))
        })
    }

    /// Whether it begins with a low priority: its tenant has used more than its share.
    pub(super) fn begins_low(&self, job: JobId) -> bool {
        let Some(of) = self.jobs.get(&job) else {
            return false;
        };
        let is_platform = self.queues.get(&of.tenant).is_some_and(|all| all.is_platform);
        !is_platform && !self.may_be_quick(&of.tenant)
    }

    fn may_be_quick(&self, tenant: &Tenant) -> bool {
        let share = self.ledger.floor() + QUANTUM;
        let is_within = self.ledger.used(tenant) <= share || self.recent.is_little(tenant);
        is_within && !self.long.contains(tenant)
    }

    fn has_room(&self, lane: Lane) -> bool {
        match lane {
            Lane::Quick => self.quick < self.quick_max,
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
            Lane::Quick => &mut self.quick,
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
            Lane::Quick => had(QUICK),
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

    /// Records what a job holds. Returns the jobs that end for it; their memory counts no more.
    pub(super) fn hold(&mut self, job: JobId, bytes: usize) -> Vec<JobId> {
        let solo = self.solo;
        let of = self.jobs.get_mut(&job).filter(|of| !of.is_stopped);
        let Some(of) = of.filter(|_| solo != Some(job)) else {
            return Vec::new();
        };
        if self
            .queues
            .get(&of.tenant)
            .is_some_and(|queues| queues.is_platform)
        {
            return Vec::new();
        }
        self.held = self.held - of.held + bytes;
        of.held = bytes;
        std::iter::from_fn(|| self.displace()).collect()
    }

    fn displace(&mut self) -> Option<JobId> {
        while self.held > self.held_max {
            let large = self.jobs.iter().filter(|(_, of)| of.held >= LARGE);
            // the number decides between equals, not the order of the map
            let most = large.max_by_key(|(job, of)| (self.ledger.used(&of.tenant), of.held, **job));
            let job = *most?.0;
            self.release(job);
            if self.solo.is_some() || self.solos > 0 {
                self.stop(job);
                return Some(job);
            }
            self.solo = Some(job);
        }
        None
    }

    fn release(&mut self, job: JobId) {
        if let Some(of) = self.jobs.get_mut(&job) {
            self.held -= std::mem::take(&mut of.held);
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
        let Stage::On(lane @ (Lane::Quick | Lane::Normal | Lane::Platform)) = of.stage else {
            return;
        };
        of.stage = Stage::On(Lane::Slow);
        *self.on(lane) -= 1;
        self.slow += 1;
        self.mark_slow(job);
    }

    pub(super) fn finish(&mut self, job: JobId, cost: Duration) {
        self.charge(job, cost);
        if let Some(of) = self.jobs.get(&job) {
            let (tenant, used) = (of.tenant.clone(), of.used);
            self.long.note(tenant, used);
        }
        self.remove(job);
    }

    /// Whether it keeps the normal priority: it has a quick place, or is in its first [`QUICK`] and its tenant may have
    /// such places.
    pub(super) fn is_quick(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|of| match of.stage {
            Stage::On(Lane::Quick) => true,
            Stage::On(Lane::Normal) => of.used < QUICK && self.may_be_quick(&of.tenant),
            Stage::On(Lane::Platform) => of.used < QUICK,
            _ => false,
        })
    }

    /// A new job never begins; a paused one ends at once.
    pub(super) fn stop(&mut self, job: JobId) {
        let Some(of) = self.jobs.get_mut(&job) else { return };
        of.is_stopped = true;
        let stage = of.stage;
        // it ends soon
        self.release(job);
        match stage {
            Stage::New => self.remove(job),
            Stage::Paused => {
                if let Some(of) = self.jobs.get_mut(&job) {
                    of.stage = Stage::Ends;
                    let tenant = of.tenant.clone();
                    self.unqueue(&tenant, job);
                }
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
        self.recent.charge(&of.tenant, cost);
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
        self.release(job);
        self.solo = self.solo.filter(|solo| *solo != job);
        let Some(of) = self.jobs.remove(&job) else { return };
        self.unqueue(&of.tenant, job);
        match of.stage {
            Stage::On(lane) => *self.on(lane) -= 1,
            Stage::New if of.begins == Begins::Solo => self.solos -= 1,
            Stage::New | Stage::Paused | Stage::Ends => {}
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
        for which in [Which::New, Which::Solo, Which::Paused, Which::Slow] {
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
            Stage::On(Lane::Quick) => "quick",
            Stage::On(Lane::Normal) => "normal",
            Stage::On(Lane::Platform) => "platform",
            Stage::On(Lane::Slow) => "slow",
            Stage::New | Stage::Paused | Stage::Ends => "none",
        }
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.long.0.len()
    }

    #[cfg(test)]
    pub(super) fn has_solo(&self) -> bool {
        self.solo.is_some()
    }

    #[cfg(test)]
    pub(super) fn waiting_solos(&self) -> usize {
        self.solos
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let lanes = self.quick + self.normal + self.platform + self.slow;
        let counted = self.held + self.solos + usize::from(self.solo.is_some()) + lanes;
        self.jobs.is_empty() && self.queues.is_empty() && self.ledger.is_empty() && counted == 0
    }
}
