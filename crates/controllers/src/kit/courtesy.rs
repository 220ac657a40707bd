//! Runs of tenants that used the runtime's threads much of late let others go first.
//!
//! The runtime polls tasks in the order of their wakes. A short run is polled several times, and would each time
//! wait for one poll of every busy run. So a busy run goes to the end of that line [`PASSES`] times after each of
//! its polls, before it goes on: those of others wait for fewer long polls. If nobody waits, it costs microseconds.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::tenants::allowance::{Account, Limit};
use super::tenants::{Tenant, Tenants};

/// The time of polls after which a tenant is busy.
const BUSY: Limit = Limit {
    most: Duration::from_millis(100),
    per_second: Duration::from_millis(50),
};
/// How often a run of a busy tenant lets others go first.
const PASSES: u32 = 7;
/// Tenants that are remembered; those without runs and use are dropped beyond.
const TENANTS_MAX: usize = 1024;

/// The time that the runs of each tenant used; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Courtesy {
    tenants: Tenants,
    // held for a map operation
    used: Arc<Mutex<HashMap<Tenant, Used>>>,
}

/// The time of the polls of one tenant; held for an addition.
type Used = Arc<Mutex<Account>>;

impl Courtesy {
    pub(crate) fn new(tenants: Tenants) -> Self {
        Self {
            tenants,
            used: Arc::default(),
        }
    }

    /// Runs a future of a tenant, which lets others go first while the tenant is busy. The platform's never does.
    pub(crate) fn observed_by<F: Future>(
        &self,
        tenant: &Tenant,
        run: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let used = (!self.tenants.is_platform(tenant)).then(|| self.used(tenant));
        async move {
            let Some(used) = used else { return run.await };
            let mut run = pin!(run);
            let mut passes = 0_u32;
            poll_fn(|context| {
                if passes > 0 {
                    passes -= 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let started = Instant::now();
                let polled = run.as_mut().poll(context);
                let now = Instant::now();
                let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
                used.charge(BUSY, now, now - started);
                if !used.is_left(BUSY, now) {
                    passes = PASSES;
                }
                polled
            })
            .await
        }
    }

    fn used(&self, tenant: &Tenant) -> Used {
        let mut all = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > TENANTS_MAX {
            let now = Instant::now();
            all.retain(|_, used| {
                let account = *used.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::strong_count(used) > 1 || account.used(BUSY, now) > Duration::ZERO
            });
        }
        Arc::clone(all.entry(tenant.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

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
    async fn polls_between(courtesy: &Courtesy, namespace: &str) -> u32 {
        let others = Arc::new(AtomicU32::new(0));
        let tenant = courtesy.tenants.of(namespace);
        let counter = Arc::clone(&others);
        let run = async move {
            let before = counter.load(Ordering::Relaxed);
            yield_once().await;
            counter.load(Ordering::Relaxed) - before
        };
        let run = tokio::spawn(courtesy.observed_by(&tenant, run));
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

    #[tokio::test]
    async fn run_of_a_busy_tenant_lets_others_go_first() {
        let courtesy = Courtesy::new(Tenants::of_cluster(["flux-system".to_owned()]));
        assert_eq!(polls_between(&courtesy, "a").await, 1);
        for namespace in ["a", "flux-system"] {
            let used = courtesy.used(&courtesy.tenants.of(namespace));
            let mut used = used.lock().unwrap();
            used.charge(BUSY, Instant::now(), Duration::from_secs(60));
        }
        assert_eq!(polls_between(&courtesy, "a").await, 1 + PASSES);
        assert_eq!(polls_between(&courtesy, "b").await, 1);
        assert_eq!(polls_between(&courtesy, "flux-system").await, 1);
    }

    #[tokio::test]
    async fn polls_count_for_their_tenant() {
        let courtesy = Courtesy::default();
        let tenant = courtesy.tenants.of("a");
        let run = async {
            let started = Instant::now();
            while started.elapsed() < BUSY.most {}
        };
        courtesy.observed_by(&tenant, run).await;
        let used = *courtesy.used(&tenant).lock().unwrap();
        assert!(!used.is_left(BUSY, Instant::now() - BUSY.most));
    }
}
