//! The processors, shared by tenants: work that keeps one busy runs here, not on the runtime's threads.
//!
//! Each job has a thread from its first turn to its end. `core` decides whose turn it is; the others wait in
//! `Pause::here`. Work that mostly waits for disks or hosts belongs on the runtime's blocking threads.

mod core;
#[cfg(test)]
mod tests;
mod waiting_threads;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_priority::{ThreadId, priority, set_priority, this_thread, thread_time, time_of};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};

use self::core::{Begins, JobId, QUICK, Schedule};
use self::waiting_threads::WaitingThreads;
use super::queue;
use super::tenants::Tenants;

/// The use between two looks at the others.
const SLICE: Duration = Duration::from_millis(5);
const OVERDUE: Duration = Duration::from_secs(1);
/// The most memory of all jobs but one. It is less where the memory of the process is limited.
const HELD_MAX: usize = 128 << 20;
const MEMORY_SHARE: usize = 8;
/// Between two looks at the time that a quick job has used.
const QUICK_LEAST: Duration = Duration::from_millis(1);
const THROTTLED_AFTER: Duration = Duration::from_secs(10);

/// The `nice` value of jobs that have used more than [`QUICK`], or last for longer than [`LASTING`]: the runtime's threads,
/// which answer probes and hear of changes, come first. A short build should not wait for others' long ones. Jobs of a
/// tenant that has used more than its share may have it from their start.
const JOB_PRIORITY: i32 = 5;
/// The same while several tenants have jobs, and of sessions with hosts.
const SHARED_PRIORITY: i32 = 10;
/// The `nice` value of slow jobs.
const SLOW_PRIORITY: i32 = 19;
const LASTING: Duration = Duration::from_millis(100);

/// The threads of jobs.
#[derive(Debug, Clone)]
pub enum Threads {
    /// Threads of their own.
    Own,
    /// The blocking threads of a runtime: a paused clock waits for them.
    Runtime(Handle),
}

impl Threads {
    /// The present thread, if its priority may change: the runtime uses its own for others afterwards.
    fn this(&self) -> Option<ThreadId> {
        match self {
            Self::Own => this_thread(),
            Self::Runtime(_) => None,
        }
    }

    /// `nice` is the largest value with which the work may begin.
    fn start(&self, work: Work, nice: i32, own: &WaitingThreads) -> std::io::Result<()> {
        match self {
            Self::Own => own.start(work, nice),
            Self::Runtime(runtime) => {
                drop(runtime.spawn_blocking(work));
                Ok(())
            }
        }
    }
}

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JobError {
    #[error("the work panicked with message {0:?}")]
    Panicked(String),
    #[error("cannot start a thread; raise the limit of processes of this container")]
    NoThread,
    #[error("the work was on a processor for more than {0:?}")]
    Late(Duration),
    #[error("all builds together used too much memory")]
    Displaced,
}

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Processors(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    tenants: Tenants,
    threads: Threads,
    /// Those that are its own.
    waiting_threads: WaitingThreads,
    /// The use of the present thread.
    clock: fn() -> Duration,
    ids: AtomicU64,
}

struct State {
    core: Schedule,
    new: HashMap<JobId, Work>,
    gates: HashMap<JobId, Arc<Gate>>,
}

type Work = Box<dyn FnOnce() + Send>;

/// A job waits here for its turn.
#[derive(Debug)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// The same for those who wait for it.
    on: watch::Sender<bool>,
    /// Nanoseconds of the thread's clock.
    charged: AtomicU64,
    pauses: AtomicU64,
    is_displaced: AtomicBool,
    /// Nobody waits for the job. Set before its pause ends: work that is not over may still store its result.
    is_over: Arc<AtomicBool>,
    thread: OwnThread,
}

/// The thread of a piece of work, until that has ended: afterwards, its number may be another's.
#[derive(Debug, Default)]
struct OwnThread {
    id: Mutex<Option<ThreadId>>,
    nice: AtomicI32,
}

impl OwnThread {
    /// The work begins on this thread.
    fn begin(&self, id: Option<ThreadId>) {
        let mut own = self.id();
        *own = id;
        let Some(id) = *own else { return };
        // the thread may have been lowered by earlier work; above the normal priority it keeps its own
        let now = priority().unwrap_or_default().max(0);
        let nice = self.nice.fetch_max(now, Ordering::Relaxed);
        if nice > now {
            set_priority(id, nice);
        }
    }

    fn end(&self) {
        *self.id() = None;
    }

    /// Lowers its priority, unless it is as low; when it begins, if it has not.
    fn lower(&self, nice: i32) {
        // locked meanwhile
        let id = self.id();
        if self.nice.fetch_max(nice, Ordering::Relaxed) < nice
            && let Some(id) = *id
        {
            set_priority(id, nice);
        }
    }

    /// Its time on a processor, if the system knows it.
    fn used(&self) -> Option<Duration> {
        time_of((*self.id())?)
    }

    fn id(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lowers a thread on drop.
struct GivesWay(Arc<OwnThread>);

impl Drop for GivesWay {
    fn drop(&mut self) {
        self.0.lower(SHARED_PRIORITY);
    }
}

impl Gate {
    fn set(&self, open: bool) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        self.opened.notify_all();
        self.on.send_replace(open);
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = self.opened.wait_while(is_open, |open| !*open);
        drop(is_open.unwrap_or_else(PoisonError::into_inner));
    }

    fn cost(&self, now: Duration, least: Duration) -> Option<Duration> {
        let cost = now.saturating_sub(Duration::from_nanos(self.charged.load(Ordering::Relaxed)));
        (cost >= least).then(|| {
            self.begin(now);
            cost
        })
    }

    /// The rest of [`QUICK`] since the last charge. A thread that waits for a processor uses nothing.
    fn quick_time_left(&self) -> Option<Duration> {
        let before = Duration::from_nanos(self.charged.load(Ordering::Relaxed));
        let left = QUICK.checked_sub(self.thread.used()?.saturating_sub(before))?;
        Some(left.max(QUICK_LEAST))
    }

    fn begin(&self, now: Duration) {
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.charged.store(nanos, Ordering::Relaxed);
    }
}

/// The pauses of one job.
#[derive(Clone)]
pub(crate) struct Pause {
    shared: Arc<Shared>,
    gate: Arc<Gate>,
    job: JobId,
    begins: Begins,
}

/// The turns of work that can be stopped.
#[derive(Clone)]
pub(crate) struct Turns {
    pause: Pause,
}

impl Turns {
    /// Lets others go first, for work that holds this many bytes. Tells whether the work goes on.
    pub(crate) fn go_on(&self, held: usize) -> bool {
        self.pause.holding(held) && !self.pause.is_over()
    }

    /// The same for work that is never displaced.
    fn go_on_undisplaced(&self) -> bool {
        self.pause.here();
        !self.pause.is_over()
    }

    /// Is true once nobody waits for the work.
    pub(crate) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.pause.gate.is_over)
    }
}

impl Pause {
    /// Lets others go first. Called on the job's thread.
    pub(crate) fn here(&self) {
        self.rest(None);
    }

    /// The same for a job that holds this many bytes. Tells whether it goes on; otherwise it is to end, and
    /// its result is [`JobError::Displaced`].
    pub(crate) fn holding(&self, bytes: usize) -> bool {
        self.rest(Some(bytes));
        !self.gate.is_displaced.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.gate.is_over.load(Ordering::Acquire)
    }

    fn rest(&self, held: Option<usize>) {
        let now = (self.shared.clock)();
        let Some(cost) = self.gate.cost(now, SLICE) else {
            return;
        };
        self.gate.pauses.fetch_add(1, Ordering::Relaxed);
        let mut state = self.shared.state();
        state.core.pause(self.job, cost);
        if let Some(bytes) = held {
            self.shared.hold(&mut state, self.job, bytes);
        }
        let waiting = self.shared.turns(&mut state);
        if state.core.is_paused(self.job) {
            self.gate.set(false);
        }
        let nice = nice(&state.core, self.job);
        drop(state);
        self.gate.thread.lower(nice);
        self.shared.go_on(waiting);
        self.gate.wait();
        // without the clock of a thread, the wait would count
        self.gate.begin((self.shared.clock)());
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processors").finish_non_exhaustive()
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pause")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

impl Processors {
    pub(crate) fn new(number: usize, tenants: Tenants, threads: Threads) -> Self {
        let share = memory_limit().map_or(HELD_MAX, |limit| limit / MEMORY_SHARE);
        let schedule = Schedule::new(number, number, share.min(HELD_MAX));
        Self::with_clock(schedule, tenants, threads, thread_time)
    }

    /// With this limit instead of that of the machine.
    #[cfg(test)]
    pub(crate) fn holding(number: usize, held_max: usize) -> Self {
        let schedule = Schedule::new(number, 0, held_max);
        Self::with_clock(schedule, Tenants::default(), Threads::Own, thread_time)
    }

    pub(crate) fn of_machine(tenants: Tenants, threads: Threads) -> Self {
        let number = std::thread::available_parallelism().map_or(2, usize::from);
        Self::new(number, tenants, threads)
    }

    fn with_clock(core: Schedule, tenants: Tenants, threads: Threads, clock: fn() -> Duration) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                core,
                new: HashMap::new(),
                gates: HashMap::new(),
            }),
            tenants,
            waiting_threads: match &threads {
                Threads::Own => WaitingThreads::new(),
                Threads::Runtime(_) => WaitingThreads::default(),
            },
            threads,
            clock,
            ids: AtomicU64::new(0),
        }))
    }

    #[cfg(test)]
    pub(crate) fn are_idle(&self) -> bool {
        self.0.state().core.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn has_solo_job(&self) -> bool {
        self.0.state().core.has_solo()
    }

    #[cfg(test)]
    pub(crate) fn waiting_solo_jobs(&self) -> usize {
        self.0.state().core.waiting_solos()
    }

    pub(crate) fn pause(&self) -> Pause {
        self.pause_of(Begins::InTurn)
    }

    /// The pauses of a job that was displaced and begins again.
    pub(crate) fn pause_of_displaced(&self) -> Pause {
        self.pause_of(Begins::Solo)
    }

    fn pause_of(&self, begins: Begins) -> Pause {
        Pause {
            begins,
            shared: Arc::clone(&self.0),
            gate: Arc::new(Gate {
                is_open: Mutex::new(true),
                opened: Condvar::new(),
                on: watch::Sender::new(false),
                charged: AtomicU64::new(0),
                pauses: AtomicU64::new(0),
                is_displaced: AtomicBool::new(false),
                is_over: Arc::default(),
                thread: OwnThread::default(),
            }),
            job: self.0.ids.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Runs work without pauses for a namespace when it is its turn.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Job<T> {
        self.submit(namespace, self.pause(), false, work)
    }

    /// Runs work that mostly waits for a host: it takes no turn. If it lasts, its thread gives way to others. It
    /// goes on to its end if nobody waits for it.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobError> {
        let (ended, mut done) = oneshot::channel();
        let thread = Arc::new(OwnThread::default());
        let (own, threads) = (Arc::clone(&thread), self.0.threads.clone());
        let work = move || {
            own.begin(threads.this());
            let result = catch_unwind(AssertUnwindSafe(work));
            own.end();
            ended.send(result.map_err(|payload| panicked(&*payload))).ok();
        };
        let started = self.0.threads.start(Box::new(work), 0, &self.0.waiting_threads);
        started.map_err(|_| JobError::NoThread)?;
        // also if nobody waits any more
        let lowered = GivesWay(thread);
        tokio::select! {
            biased;
            result = &mut done => return result.unwrap_or(Err(JobError::NoThread)),
            () = sleep(LASTING) => drop(lowered),
        }
        done.await.unwrap_or(Err(JobError::NoThread))
    }

    /// Runs work that asks [`Turns::go_on`] again and again, up to this long on a processor. Work that is
    /// displaced begins again. If nobody waits for it any more, it ends at its next question.
    pub(crate) async fn by_turns<T: Send + 'static>(
        &self,
        namespace: &str,
        limit: Duration,
        throttled: &(dyn Fn() + Sync),
        work: impl Fn(&Turns) -> T + Clone + Send + 'static,
    ) -> Result<T, JobError> {
        let mut pause = self.pause();
        loop {
            let turns = Turns { pause: pause.clone() };
            let work = work.clone();
            let job = self.run_pausing(namespace, pause, move || work(&turns));
            match job.within(limit, throttled).await {
                // a solo job is not displaced
                Err(JobError::Displaced) => pause = self.pause_of_displaced(),
                done => return done,
            }
        }
    }

    /// Like [`by_turns`](Self::by_turns), for work that holds little memory: it is not displaced, and begins once.
    pub(crate) async fn paced<T: Send + 'static>(
        &self,
        namespace: &str,
        limit: Duration,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, JobError> {
        let turns = Turns { pause: self.pause() };
        let job = self.run_pausing(namespace, turns.pause.clone(), move || {
            work(&|| turns.go_on_undisplaced())
        });
        job.within(limit, || ()).await
    }

    pub(crate) fn run_pausing<T: Send + 'static>(
        &self,
        namespace: &str,
        pause: Pause,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Job<T> {
        self.submit(namespace, pause, true, work)
    }

    fn submit<T: Send + 'static>(
        &self,
        namespace: &str,
        pause: Pause,
        pauses: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Job<T> {
        let (ended, done) = oneshot::channel();
        let own = pause.clone();
        let work = move || {
            let Pause {
                shared, gate, job, ..
            } = own;
            gate.begin((shared.clock)());
            gate.thread.begin(shared.threads.this());
            if !pauses {
                let nice = nice(&shared.state().core, job);
                gate.thread.lower(nice);
            }
            let result = catch_unwind(AssertUnwindSafe(work));
            gate.thread.end();
            let cost = gate.cost((shared.clock)(), Duration::ZERO).unwrap_or_default();
            shared.finish(job, cost);
            ended.send(result.map_err(|payload| panicked(&*payload))).ok();
        };
        let tenant = self.0.tenants.of(namespace);
        let on = pause.gate.on.subscribe();
        let mut state = self.0.state();
        let is_platform = self.0.tenants.is_platform(&tenant);
        state.core.submit(pause.job, &tenant, is_platform, pause.begins);
        state.new.insert(pause.job, Box::new(work));
        state.gates.insert(pause.job, Arc::clone(&pause.gate));
        let turns = self.0.turns(&mut state);
        drop(state);
        self.0.go_on(turns);
        Job { pause, on, done }
    }
}

/// The `nice` value of a job.
fn nice(core: &Schedule, job: JobId) -> i32 {
    match core.is_quick(job) {
        true => 0,
        false => later_nice(core, job),
    }
}

/// That of a job that has used more than [`QUICK`].
fn later_nice(core: &Schedule, job: JobId) -> i32 {
    match () {
        () if core.gives_way(job) => SLOW_PRIORITY,
        () if core.is_shared() => SHARED_PRIORITY,
        () => JOB_PRIORITY,
    }
}

/// The largest `nice` value with which a job may begin.
fn first_nice(core: &Schedule, job: JobId) -> i32 {
    match core.begins_low(job) {
        true => nice(core, job),
        false => 0,
    }
}

/// The jobs whose turn it is; new ones with their work and its `nice` value.
type Called = Vec<(JobId, Option<(Work, i32)>, Arc<Gate>)>;

impl Shared {
    /// Never half done: the core's calls are total.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.core.recent.now = Instant::now().into_std();
        state
    }

    fn turns(&self, state: &mut State) -> Called {
        let turns = state.core.turns().into_iter();
        turns
            .filter_map(|job| {
                let new = state.new.remove(&job);
                let new = new.map(|work| (work, first_nice(&state.core, job)));
                Some((job, new, Arc::clone(state.gates.get(&job)?)))
            })
            .collect()
    }

    /// Called without the lock.
    fn go_on(&self, mut turns: Called) {
        while !turns.is_empty() {
            let mut without_thread = Vec::new();
            for (job, work, gate) in turns {
                gate.set(true);
                if let Some((work, nice)) = work
                    && let Err(error) = self.threads.start(work, nice, &self.waiting_threads)
                {
                    tracing::error!(%error, "cannot start a thread for a build");
                    without_thread.push(job);
                }
            }
            let mut state = self.state();
            for job in without_thread {
                state.core.finish(job, Duration::ZERO);
                state.gates.remove(&job);
            }
            turns = self.turns(&mut state);
        }
    }

    fn finish(&self, job: JobId, cost: Duration) {
        let mut state = self.state();
        state.core.finish(job, cost);
        state.gates.remove(&job);
        let turns = self.turns(&mut state);
        drop(state);
        self.go_on(turns);
    }

    fn hold(&self, state: &mut State, job: JobId, bytes: usize) {
        for displaced in state.core.hold(job, bytes) {
            if let Some(gate) = state.gates.get(&displaced) {
                gate.is_displaced.store(true, Ordering::Relaxed);
                gate.set(true);
            }
        }
    }

    fn overdue(&self, job: JobId) {
        let mut state = self.state();
        state.core.overdue(job);
        let gate = state
            .gates
            .get(&job)
            .filter(|_| state.core.gives_way(job))
            .cloned();
        let turns = self.turns(&mut state);
        drop(state);
        if let Some(gate) = gate {
            gate.thread.lower(SLOW_PRIORITY);
        }
        self.go_on(turns);
    }

    fn stop(&self, job: JobId) {
        let mut state = self.state();
        state.core.stop(job);
        let work = state.new.remove(&job);
        let gate = match work.is_some() {
            true => state.gates.remove(&job),
            false => state.gates.get(&job).cloned(),
        };
        let turns = self.turns(&mut state);
        drop(state);
        drop(work);
        if let Some(gate) = gate {
            gate.thread.lower(SHARED_PRIORITY);
            gate.set(true);
        }
        self.go_on(turns);
    }
}

/// A job, and its result. On drop a job that has not begun never does, and the pause of another ends.
pub(crate) struct Job<T> {
    pause: Pause,
    on: watch::Receiver<bool>,
    done: oneshot::Receiver<Result<T, JobError>>,
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        self.pause.gate.is_over.store(true, Ordering::Release);
        self.pause.shared.stop(self.pause.job);
    }
}

impl<T> Job<T> {
    pub(crate) async fn done(self) -> Result<T, JobError> {
        self.within(Duration::MAX, || ()).await
    }

    /// Limits the time on a processor. `throttled` is called if the job waits long for others.
    pub(crate) async fn within(self, limit: Duration, throttled: impl FnOnce()) -> Result<T, JobError> {
        queue::computing(self.watched(limit, throttled)).await
    }

    async fn watched(mut self, limit: Duration, throttled: impl FnOnce()) -> Result<T, JobError> {
        let (mut worked, mut waited) = (Duration::ZERO, Duration::ZERO);
        let mut quick = Some(QUICK);
        let mut throttled = Some(throttled);
        let result = loop {
            let (is_on, began) = (*self.on.borrow_and_update(), Instant::now());
            let pauses = || self.pause.gate.pauses.load(Ordering::Relaxed);
            let pauses_before = pauses();
            let left = match is_on {
                true => limit.saturating_sub(worked).min(quick.unwrap_or(OVERDUE)),
                false => THROTTLED_AFTER.saturating_sub(waited),
            };
            tokio::select! {
                biased;
                done = &mut self.done => {
                    waited += if is_on { Duration::ZERO } else { began.elapsed() };
                    break done.unwrap_or(Err(JobError::NoThread));
                }
                _ = self.on.changed() => {}
                () = sleep(left), if is_on || throttled.is_some() => match is_on {
                    true if began.elapsed() + worked >= limit => break Err(JobError::Late(limit)),
                    true if quick.is_some() => {
                        let lasts = worked + began.elapsed() >= LASTING;
                        quick = self.pause.gate.quick_time_left().filter(|_| !lasts);
                        if quick.is_none() {
                            let nice = later_nice(&self.pause.shared.state().core, self.pause.job);
                            self.pause.gate.thread.lower(nice);
                        }
                    }
                    true if pauses() == pauses_before => self.pause.shared.overdue(self.pause.job),
                    true => {}
                    false => {
                        let is_shared = self.pause.shared.state().core.is_shared();
                        if let Some(throttled) = throttled.take().filter(|_| is_shared) {
                            throttled();
                        }
                    }
                },
            }
            match is_on {
                true => worked += began.elapsed(),
                false => waited += began.elapsed(),
            }
        };
        queue::add_wait(waited);
        match result {
            Ok(_) if self.pause.gate.is_displaced.load(Ordering::Relaxed) => Err(JobError::Displaced),
            result => result,
        }
    }
}

/// The bytes that this process may use: those of its container, or of the machine.
fn memory_limit() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let container = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let container = container
        .iter()
        .filter_map(|path| read(path)?.trim().parse::<usize>().ok());
    let machine = read("/proc/meminfo").and_then(|text| machine_memory(&text));
    container.chain(machine).min()
}

/// The first line is `MemTotal: 24684000 kB`.
fn machine_memory(meminfo: &str) -> Option<usize> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn panicked(payload: &(dyn Any + Send)) -> JobError {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    JobError::Panicked(text.unwrap_or("no text").to_owned())
}
