//! A run gives up its worker while it waits for a host outside the cluster, or long for a processor, so others
//! run meanwhile. The number of such runs is limited: other keys of the tenant wait until one comes back.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::kit::tenants::Tenant;

/// Runs of one tenant that wait for hosts at once, per queue; the same for processors.
pub(super) const AWAY_MAX: usize = 16;
/// If more runs wait for processors, a tenant may have [`COMPUTING_MIN`]: their results stay in memory.
pub(super) const COMPUTING_MAX: usize = 32;
pub(super) const COMPUTING_MIN: usize = 2;
/// Most work on a processor ends sooner.
const KEEPS_WORKER: Duration = Duration::from_millis(250);

/// The queue, as its runs see it.
pub(super) trait Workers: Send + Sync {
    fn leave(&self, run: u64, tenant: &Tenant, absence: Absence);
    /// The run waits for `worker` if it is given, and otherwise has one at once.
    fn come_back(&self, run: u64, tenant: &Tenant, absence: Absence, worker: Option<oneshot::Sender<()>>);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    Host,
    Processor,
}

/// The worker of a run.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) workers: Arc<dyn Workers>,
    pub(super) run: u64,
    pub(super) tenant: Tenant,
    waits: Arc<Mutex<Waits>>,
    waited: Arc<AtomicU64>,
}

/// Waits in progress: a run may send several requests at once.
#[derive(Default)]
struct Waits {
    number: usize,
    /// The reason of the first.
    absence: Option<Absence>,
}

tokio::task_local! {
    static SEAT: Seat;
}

impl Seat {
    pub(super) fn new(workers: Arc<dyn Workers>, run: u64, tenant: Tenant) -> Self {
        Self {
            workers,
            run,
            tenant,
            waits: Arc::default(),
            waited: Arc::default(),
        }
    }

    pub(super) async fn taken_by<F: Future>(self, run: F) -> F::Output {
        SEAT.scope(self, run).await
    }
}

/// Comes back on drop, also if the run is cancelled.
struct Away {
    seat: Seat,
    worker: Option<oneshot::Sender<()>>,
}

impl Away {
    fn begin(seat: Seat, absence: Absence) -> Self {
        {
            let mut waits = seat.waits.lock().unwrap_or_else(PoisonError::into_inner);
            waits.number += 1;
            if waits.absence.is_none() {
                waits.absence = Some(absence);
                seat.workers.leave(seat.run, &seat.tenant, absence);
            }
        }
        Self { seat, worker: None }
    }

    /// Waits for a worker.
    async fn end(mut self) {
        let (worker, has_worker) = oneshot::channel();
        self.worker = Some(worker);
        drop(self);
        // a dropped sender says the same
        has_worker.await.ok();
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let Seat {
            workers, run, tenant, ..
        } = &self.seat;
        let mut waits = self.seat.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.number -= 1;
        if waits.number == 0
            && let Some(absence) = waits.absence.take()
        {
            workers.come_back(*run, tenant, absence, self.worker.take());
        }
    }
}

/// Waits for a host outside the cluster without a worker, and then for its tenant's turn to have one again.
/// Outside a run it only waits for the host.
pub async fn without_worker<F: Future>(waiting: F) -> F::Output {
    let away = SEAT.try_with(|seat| Away::begin(seat.clone(), Absence::Host));
    let answer = waiting.await;
    if let Ok(away) = away {
        away.end().await;
    }
    answer
}

/// Waits for work on a processor. After a moment the run gives up its worker, and afterwards waits for its
/// tenant's turn. Outside a run it only waits.
pub(crate) async fn computing<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    if let Ok(done) = tokio::time::timeout(KEEPS_WORKER, &mut work).await {
        return done;
    }
    let away = SEAT.try_with(|seat| Away::begin(seat.clone(), Absence::Processor));
    let done = work.await;
    if let Ok(away) = away {
        away.end().await;
    }
    done
}

/// The tenant of the present run; none outside of runs.
pub(crate) fn tenant() -> Option<Tenant> {
    SEAT.try_with(|seat| seat.tenant.clone()).ok()
}

/// Runs a future as a run of a tenant, without a queue.
#[cfg(test)]
pub(crate) async fn as_run_of<F: Future>(tenant: Tenant, run: F) -> F::Output {
    struct Nobody;
    impl Workers for Nobody {
        fn leave(&self, _: u64, _: &Tenant, _: Absence) {}
        fn come_back(&self, _: u64, _: &Tenant, _: Absence, worker: Option<oneshot::Sender<()>>) {
            drop(worker);
        }
    }
    Seat::new(Arc::new(Nobody), 0, tenant).taken_by(run).await
}

/// Adds to the time that the present run waited for a processor.
pub(crate) fn add_wait(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // outside a run nobody counts it
    SEAT.try_with(|seat| seat.waited.fetch_add(nanos, Ordering::Relaxed))
        .ok();
}

/// How long the present run has waited for processors.
pub(crate) fn waited() -> Duration {
    SEAT.try_with(|seat| Duration::from_nanos(seat.waited.load(Ordering::Relaxed)))
        .unwrap_or_default()
}
