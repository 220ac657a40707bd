//! A run gives up its worker while it waits for a host outside the cluster, so others run meanwhile. The
//! number of such runs per namespace is limited: its other keys wait until one comes back.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs of one namespace that wait for hosts at once, per queue.
pub(super) const AWAY_MAX: usize = 16;

/// The queue, as its runs see it.
pub(super) trait Workers: Send + Sync {
    fn leave(&self, namespace: &str);
    fn come_back(&self, namespace: &str);
}

/// The worker of a run.
#[derive(Clone)]
pub(super) struct Seat {
    workers: Arc<dyn Workers>,
    namespace: Arc<str>,
    /// Requests that the run waits for: it may send several at once.
    waits: Arc<AtomicUsize>,
}

tokio::task_local! {
    static SEAT: Seat;
}

impl Seat {
    pub(super) fn new(workers: Arc<dyn Workers>, namespace: &str) -> Self {
        Self {
            workers,
            namespace: namespace.into(),
            waits: Arc::default(),
        }
    }

    pub(super) async fn taken_by<F: Future>(self, run: F) -> F::Output {
        SEAT.scope(self, run).await
    }
}

/// Comes back on drop, also if the run is cancelled.
struct Away(Seat);

impl Away {
    fn begin(seat: Seat) -> Self {
        if seat.waits.fetch_add(1, Ordering::Relaxed) == 0 {
            seat.workers.leave(&seat.namespace);
        }
        Self(seat)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if self.0.waits.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.workers.come_back(&self.0.namespace);
        }
    }
}

/// Waits for a host outside the cluster without a worker. Outside a run it only waits.
pub async fn without_worker<F: Future>(waiting: F) -> F::Output {
    let away = SEAT.try_with(|seat| Away::begin(seat.clone())).ok();
    let answer = waiting.await;
    drop(away);
    answer
}
