//! Runs of busy tenants yield to those of others.
//!
//! The runtime polls tasks in the order of their wakes, so a short run would wait for one poll of every busy run
//! several times. A busy run yields [`YIELDS`] times before each of its polls, each time to the end of that line. If
//! nobody waits, it costs microseconds.
//!
//! The same holds for watches of other clusters, whose servers may send without end: those of a tenant that used more
//! than [`WATCHES`] also pause.
//!
//! With [`Background`] threads, those watches and the runs that begin while their tenant is busy are polled there.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use equate_priority::{Background, Limit, UsedTime, thread_time};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

use super::tenants::{Tenant, Tenants};

/// The processor time of polls after which a tenant is busy; not for longer than 100 s after the last.
const BUSY: Limit = Limit {
    most: Duration::from_millis(100),
    per_second: Duration::from_millis(50),
    debt_max: Duration::from_secs(5),
};
/// The processor time of polls after which the watches of a tenant's clusters pause. An event takes about 50 µs, so
/// that lists of 20,000 objects and then 2,000 events per second fit. A pause is at most 5 s long: far below the time
/// that a feed waits for an answer.
const WATCHES: Limit = Limit {
    most: Duration::from_secs(1),
    per_second: Duration::from_millis(100),
    debt_max: Duration::from_millis(1500),
};
/// How often a run of a busy tenant yields before a poll.
const YIELDS: u32 = 7;
/// Tenants that are remembered; those without runs and use are dropped beyond.
const TENANTS_MAX: usize = 1024;

/// Decides by the time that the runs and watches of each tenant used; clones share it.
#[derive(Debug, Clone, Default)]
pub struct YieldPolicy {
    tenants: Tenants,
    background: Option<Background>,
    // held for a map operation
    used: Arc<Mutex<HashMap<Tenant, Used>>>,
}

/// The processor time of the polls of one tenant; held for an addition.
type Used = Arc<Mutex<Times>>;

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    all: UsedTime,
    /// Those of watches.
    watches: UsedTime,
}

impl YieldPolicy {
    pub(crate) fn new(tenants: Tenants, background: Option<Background>) -> Self {
        Self {
            tenants,
            background,
            used: Arc::default(),
        }
    }

    /// The tenant of a namespace.
    pub(crate) fn tenant(&self, namespace: &str) -> Tenant {
        self.tenants.of(namespace)
    }

    /// The future of a tenant's run, which yields while the tenant is busy. The platform's never does.
    pub(crate) fn run<F: Future>(&self, tenant: &Tenant, run: F) -> impl Future<Output = F::Output> + use<F> {
        self.yielding(tenant, run, false)
    }

    /// The threads for a run that begins now; `None` for those of the runtime.
    pub(crate) fn background(&self, tenant: &Tenant) -> Option<&Background> {
        let background = self.background.as_ref()?;
        let is_busy = !self.tenants.is_platform(tenant) && Times::of(&self.used(tenant)).yields() > 0;
        is_busy.then_some(background)
    }

    /// Begins a watch of a tenant's cluster, which yields like a run, and pauses if it takes too much.
    pub(crate) fn spawn_watch<F>(&self, tenant: &Tenant, watch: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let watch = self.yielding(tenant, watch, true);
        match &self.background {
            Some(background) if !self.tenants.is_platform(tenant) => background.spawn(watch),
            _ => tokio::spawn(watch),
        }
    }

    fn yielding<F: Future>(
        &self,
        tenant: &Tenant,
        future: F,
        is_watch: bool,
    ) -> impl Future<Output = F::Output> + use<F> {
        let used = (!self.tenants.is_platform(tenant)).then(|| self.used(tenant));
        async move {
            let Some(used) = used else { return future.await };
            let mut future = pin!(future);
            let mut yields = Times::of(&used).yields();
            let mut pause: Option<Pin<Box<Sleep>>> = None;
            poll_fn(|context| {
                if let Some(sleep) = &mut pause {
                    ready!(sleep.as_mut().poll(context));
                    pause = None;
                }
                if yields > 0 {
                    yields -= 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let before = thread_time();
                let polled = future.as_mut().poll(context);
                let cost = thread_time().saturating_sub(before);
                let now = tokio::time::Instant::now().into_std();
                let mut times = used.lock().unwrap_or_else(PoisonError::into_inner);
                times.all.charge(BUSY, now, cost);
                if is_watch {
                    times.watches.charge(WATCHES, now, cost);
                    let wait = times.watches.wait(WATCHES, now);
                    pause = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
                }
                yields = times.yields();
                polled
            })
            .await
        }
    }

    fn used(&self, tenant: &Tenant) -> Used {
        let mut all = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > TENANTS_MAX {
            let now = tokio::time::Instant::now().into_std();
            all.retain(|_, used| {
                let times = Times::of(used);
                let owes = times.all.used(BUSY, now) + times.watches.used(WATCHES, now);
                Arc::strong_count(used) > 1 || owes > Duration::ZERO
            });
        }
        Arc::clone(all.entry(tenant.clone()).or_default())
    }
}

impl Times {
    fn of(used: &Used) -> Self {
        *used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the next poll has to yield.
    fn yields(self) -> u32 {
        match self.all.is_left(BUSY, tokio::time::Instant::now().into_std()) {
            true => 0,
            false => YIELDS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::queue::{Queue, Requeue, Settings};
    use crate::kit::wake::Reason;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::ThreadId;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    /// To the end of the line; tokio's `yield_now` also waits for the driver.
    async fn yield_once() {
        let mut yielded = false;
        poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Polls of others between the first and the second poll of a run.
    async fn polls_between(yielding: &YieldPolicy, namespace: &str) -> u32 {
        let others = Arc::new(AtomicU32::new(0));
        let tenant = yielding.tenants.of(namespace);
        let counter = Arc::clone(&others);
        let run = async move {
            let before = counter.load(Ordering::Relaxed);
            yield_once().await;
            counter.load(Ordering::Relaxed) - before
        };
        let run = tokio::spawn(yielding.run(&tenant, run));
        let other = tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                yield_once().await;
            }
        });
        let polls = run.await.unwrap();
        other.abort();
        polls
    }

    fn make_busy(yielding: &YieldPolicy, namespace: &str) {
        let used = yielding.used(&yielding.tenants.of(namespace));
        let now = tokio::time::Instant::now().into_std();
        used.lock().unwrap().all.charge(BUSY, now, BUSY.debt_max);
    }

    #[tokio::test]
    async fn run_of_a_busy_tenant_lets_others_go_first() {
        let yielding = YieldPolicy::new(Tenants::of_cluster(["flux-system".to_owned()]), None);
        assert_eq!(polls_between(&yielding, "a").await, 1);
        make_busy(&yielding, "a");
        make_busy(&yielding, "flux-system");
        assert_eq!(polls_between(&yielding, "a").await, 1 + YIELDS);
        assert_eq!(polls_between(&yielding, "b").await, 1);
        assert_eq!(polls_between(&yielding, "flux-system").await, 1);
    }

    #[tokio::test]
    async fn a_run_that_begins_later_goes_before_one_of_a_busy_tenant() {
        let begun = async |settings: Settings| {
            let queue: Queue<String> = Queue::new(settings);
            let (stop, (begins, mut begun)) = (CancellationToken::new(), mpsc::unbounded_channel());
            queue.wake("a/app".to_owned(), Reason::Changed);
            queue.wake("b/app".to_owned(), Reason::Changed);
            let running = tokio::spawn({
                let stop = stop.clone();
                async move {
                    queue
                        .run(stop, move |key, _| {
                            let begins = begins.clone();
                            async move {
                                begins.send(key).unwrap();
                                Requeue::Wait
                            }
                        })
                        .await;
                }
            });
            let order = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
            stop.cancel();
            running.await.unwrap();
            order
        };
        assert_eq!(begun(Settings::default()).await, ["a/app", "b/app"]);
        let yielding = YieldPolicy::default();
        make_busy(&yielding, "a");
        let settings = Settings {
            yielding,
            ..Settings::default()
        };
        assert_eq!(begun(settings).await, ["b/app", "a/app"]);
    }

    #[tokio::test]
    async fn runs_of_busy_tenants_and_watches_are_in_the_background() {
        async fn thread() -> ThreadId {
            std::thread::current().id()
        }
        let platform = Tenants::of_cluster(["flux-system".to_owned()]);
        let yielding = YieldPolicy::new(platform, Some(Background::start().unwrap()));
        let here = thread().await;
        for (namespace, busy, background) in [
            ("a", false, false),
            ("b", true, true),
            ("flux-system", true, false),
        ] {
            if busy {
                make_busy(&yielding, namespace);
            }
            let tenant = yielding.tenant(namespace);
            let queue: Queue<String> = Queue::new(Settings {
                yielding: yielding.clone(),
                ..Settings::default()
            });
            let (stop, (begins, mut begun)) = (CancellationToken::new(), mpsc::unbounded_channel());
            queue.wake(format!("{namespace}/app"), Reason::Changed);
            let handler = move |_, _| {
                let begins = begins.clone();
                async move {
                    begins.send(thread().await).unwrap();
                    Requeue::Wait
                }
            };
            let running = tokio::spawn({
                let stop = stop.clone();
                async move { queue.run(stop, handler).await }
            });
            assert_eq!(begun.recv().await.unwrap() != here, background, "{namespace}");
            stop.cancel();
            running.await.unwrap();
            let watched = yielding.spawn_watch(&tenant, thread()).await.unwrap();
            assert_eq!(watched != here, namespace != "flux-system", "{namespace}");
        }
    }

    /// Computes for so long.
    fn compute(time: Duration) {
        let before = thread_time();
        while thread_time() - before < time {}
    }

    #[tokio::test]
    async fn polls_count_for_their_tenant() {
        let yielding = YieldPolicy::default();
        let tenant = yielding.tenants.of("a");
        yielding.run(&tenant, async { compute(2 * BUSY.most) }).await;
        let times = Times::of(&yielding.used(&tenant));
        assert_eq!(times.yields(), YIELDS);
        let now = tokio::time::Instant::now().into_std();
        let watched = times.watches.used(WATCHES, now);
        assert_eq!(watched, Duration::ZERO, "a run is no watch");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_pauses_after_it_took_too_much() {
        let yielding = YieldPolicy::new(Tenants::of_cluster(["flux-system".to_owned()]), None);
        let watched = async |namespace: &str, used: Duration| {
            let tenant = yielding.tenants.of(namespace);
            let times = yielding.used(&tenant);
            let now = tokio::time::Instant::now();
            times
                .lock()
                .unwrap()
                .watches
                .charge(WATCHES, now.into_std(), used);
            let watch = async {
                for _ in 0..3 {
                    yield_once().await;
                }
            };
            yielding.yielding(&tenant, watch, true).await;
            now.elapsed()
        };
        let second = Duration::from_secs(1);
        assert!(watched("a", WATCHES.most / 2).await < second);
        let paused = watched("b", WATCHES.most + WATCHES.per_second * 3).await;
        assert!((3 * second..4 * second).contains(&paused), "{paused:?}");
        let most = watched("c", 3600 * second).await;
        assert!(most < 6 * second, "the debt has a limit: {most:?}");
        assert!(watched("flux-system", 3600 * second).await < second);
    }
}
