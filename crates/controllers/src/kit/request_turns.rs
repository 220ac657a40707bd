//! Turns at the API server: the requests of one tenant's runs do not fill it for the others.
//!
//! At most `AT_ONCE` requests of runs are unanswered. Further ones wait, and the tenant that used the API server
//! least is next. A request that takes longer than `SLOW` no longer counts: a tenant's admission webhook may
//! hold it. Requests outside of runs, like watches, do not wait.
//!
//! Tenants that use much have only `BUSY_AT_ONCE` unanswered requests together, as long as others have any: the API
//! server answers them in no order that is known, so the requests of others would wait for all of these.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use equate_priority::{Limit, UsedTime};
use http::Request;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tower::{Layer, Service};

use super::queue;
use super::tenants::ledger::Ledger;
use super::tenants::{Tenant, Tenants};

/// Enough to keep an API server busy over a network: a few for each of its processors.
const AT_ONCE: usize = 16;
const SLOW: Duration = Duration::from_millis(250);
/// Those of busy tenants, together.
const BUSY_AT_ONCE: usize = 3;
/// The time of requests after which a tenant is busy.
const BUSY: Limit = Limit {
    most: Duration::from_secs(1),
    per_second: Duration::from_millis(200),
    debt_max: Duration::from_secs(5),
};
/// Others have requests if the last was no longer ago.
const RECENT: Duration = Duration::from_secs(1);
/// Tenants whose time is remembered; those that used none are dropped beyond.
const TENANTS_MAX: usize = 1024;
/// The least cost of a request.
const LEAST: Duration = Duration::from_micros(100);

/// Gives the requests of runs their turns. Clones share them.
#[derive(Debug, Clone)]
pub struct RequestTurns(Arc<Turns>);

#[derive(Debug)]
struct Turns {
    tenants: Tenants,
    state: Mutex<State>,
    at_once: usize,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    waiting: HashMap<Tenant, VecDeque<Waiting>>,
    unanswered: usize,
    /// Of those, the requests of tenants that were busy when they began.
    busy: HashSet<u64>,
    used: HashMap<Tenant, UsedTime>,
    /// When a request of a tenant that is not busy came last.
    others: Option<Instant>,
    tickets: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    begin: oneshot::Sender<()>,
}

impl RequestTurns {
    /// For these tenants; those of the platform are never busy.
    pub fn new(tenants: Tenants) -> Self {
        Self::at_once(AT_ONCE, tenants)
    }

    fn at_once(at_once: usize, tenants: Tenants) -> Self {
        Self(Arc::new(Turns {
            tenants,
            state: Mutex::default(),
            at_once,
        }))
    }

    fn enter(&self, tenant: Tenant) -> (Turn, oneshot::Receiver<()>) {
        let (begin, begun) = oneshot::channel();
        let mut state = self.0.state();
        state.tickets += 1;
        let ticket = state.tickets;
        state.ledger.enter(&tenant);
        state.ledger.wait(&tenant);
        let now = Instant::now();
        if !state.is_busy(&tenant, now) {
            state.others = Some(now);
        }
        let queue = state.waiting.entry(tenant.clone()).or_default();
        queue.push_back(Waiting { ticket, begin });
        state.grant(self.0.at_once);
        drop(state);
        let turn = Turn {
            turns: Arc::clone(&self.0),
            tenant,
            ticket,
            began: now,
        };
        (turn, begun)
    }

    /// Waits for the turn of the present run, and then for the answer.
    async fn take<F: Future>(&self, answer: F) -> F::Output {
        let Some(tenant) = queue::tenant() else {
            return answer.await;
        };
        let (mut turn, begun) = self.enter(tenant);
        // the sender is there until the turn ends
        begun.await.ok();
        turn.began = Instant::now();
        let mut answer = pin!(answer);
        if let Ok(answered) = timeout(SLOW, &mut answer).await {
            return answered;
        }
        drop(turn);
        answer.await
    }
}

impl Turns {
    /// Never half done: all calls are total.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_busy(&self, tenant: &Tenant, now: Instant) -> bool {
        let used = self.used.get(tenant);
        used.is_some_and(|used| !used.is_left(BUSY, now.into_std()))
    }

    fn charge(&mut self, tenant: &Tenant, cost: Duration) {
        let now = Instant::now().into_std();
        if self.used.len() > TENANTS_MAX {
            self.used.retain(|_, used| !used.used(BUSY, now).is_zero());
        }
        let used = self.used.entry(tenant.clone()).or_default();
        used.charge(BUSY, now, cost);
    }

    fn grant(&mut self, at_once: usize) {
        while self.unanswered < at_once {
            let now = Instant::now();
            let is_full = self.busy.len() >= BUSY_AT_ONCE
                && self.others.is_some_and(|last| now.duration_since(last) < RECENT);
            let may_begin = |tenant: &&Tenant| !is_full || !self.is_busy(tenant, now);
            let Some(tenant) = self.ledger.waiting().find(may_begin).cloned() else {
                return;
            };
            let is_busy = self.is_busy(&tenant, now);
            let queue = self.waiting.get_mut(&tenant);
            let next = queue.and_then(|queue| queue.pop_front().map(|next| (next, queue.is_empty())));
            let is_last = next.as_ref().is_none_or(|(_, is_last)| *is_last);
            self.ledger.take(&tenant, !is_last);
            if is_last {
                self.waiting.remove(&tenant);
            }
            if let Some((next, _)) = next {
                self.unanswered += 1;
                if is_busy {
                    self.busy.insert(next.ticket);
                }
                // one that does not wait any more ends its turn at once
                next.begin.send(()).ok();
            }
        }
    }
}

/// A request that waits for its turn or for its answer.
#[derive(Debug)]
struct Turn {
    turns: Arc<Turns>,
    tenant: Tenant,
    ticket: u64,
    began: Instant,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        let queue = state.waiting.get_mut(&self.tenant);
        let place = queue.and_then(|queue| {
            let at = queue.iter().position(|waiting| waiting.ticket == self.ticket)?;
            queue.remove(at)?;
            Some(queue.is_empty())
        });
        match place {
            Some(is_empty) => {
                if is_empty {
                    state.waiting.remove(&self.tenant);
                    state.ledger.rest(&self.tenant);
                }
            }
            None => {
                state.unanswered -= 1;
                let cost = self.began.elapsed().max(LEAST);
                state.ledger.charge(&self.tenant, cost);
                state.busy.remove(&self.ticket);
                if !self.turns.tenants.is_platform(&self.tenant) {
                    state.charge(&self.tenant, cost);
                }
            }
        }
        state.ledger.leave(&self.tenant);
        state.grant(self.turns.at_once);
    }
}

impl<S> Layer<S> for RequestTurns {
    type Service = InTurn<S>;

    fn layer(&self, inner: S) -> InTurn<S> {
        InTurn {
            inner,
            turns: self.clone(),
        }
    }
}

/// A client whose requests wait for their turns.
#[derive(Debug, Clone)]
pub struct InTurn<S> {
    inner: S,
    turns: RequestTurns,
}

impl<S, B> Service<Request<B>> for InTurn<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // it begins when it is polled, by the task of the run
        let answer = self.inner.call(request);
        let turns = self.turns.clone();
        Box::pin(async move { turns.take(answer).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenants::default().of(name)
    }

    fn turns(at_once: usize) -> RequestTurns {
        RequestTurns::at_once(at_once, Tenants::of_cluster(["flux-system".to_owned()]))
    }

    fn has_begun(begun: &mut oneshot::Receiver<()>) -> bool {
        begun.try_recv().is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_tenant_that_used_the_api_server_least_is_next() {
        let turns = turns(2);
        let enter = |name: &str| turns.enter(tenant(name));
        let (first, mut a) = enter("many");
        let (second, mut b) = enter("many");
        let (third, mut c) = enter("many");
        let (other, mut d) = enter("few");
        assert!(has_begun(&mut a) && has_begun(&mut b));
        assert!(!has_begun(&mut c) && !has_begun(&mut d));
        tokio::time::advance(Duration::from_millis(5)).await;
        drop(first);
        assert!(has_begun(&mut d), "it came last, and used nothing");
        assert!(!has_begun(&mut c));
        drop(other);
        assert!(has_begun(&mut c));
        drop((second, third));
        let state = turns.0.state();
        assert_eq!((state.unanswered, state.waiting.len()), (0, 0));
        assert_eq!(state.ledger.present(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn busy_tenants_leave_the_api_server_to_others() {
        let turns = turns(8);
        let enter = |name: &str| turns.enter(tenant(name));
        let count = async |name: &str| {
            let mut all: Vec<_> = (0..8).map(|_| enter(name)).collect();
            let begun = all.iter_mut().map(|(_, begun)| has_begun(begun));
            begun.filter(|has_begun| *has_begun).count()
        };
        let slow: Vec<_> = (0..8).map(|_| enter("many")).collect();
        tokio::time::advance(BUSY.most / 4).await;
        drop(slow);
        tokio::time::advance(RECENT).await;
        assert_eq!(count("many").await, 8, "nobody else asked of late");
        drop(enter("few"));
        assert_eq!(count("many").await, BUSY_AT_ONCE);
        assert_eq!(count("few").await, 8);
        tokio::time::advance(RECENT).await;
        assert_eq!(count("many").await, 8);
        let slow: Vec<_> = (0..8).map(|_| enter("flux-system")).collect();
        tokio::time::advance(BUSY.most / 4).await;
        drop(slow);
        assert_eq!(count("flux-system").await, 8, "the platform is never busy");
        assert_eq!(turns.0.state().busy.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_no_longer_waits_gives_its_turn_away() {
        let turns = turns(1);
        let (first, _begun) = turns.enter(tenant("a"));
        let (gone, waiting) = turns.enter(tenant("b"));
        let (_third, mut last) = turns.enter(tenant("c"));
        drop((gone, waiting));
        drop(first);
        assert!(has_begun(&mut last));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_outside_of_runs_do_not_wait() {
        let turns = turns(1);
        let (_first, _begun) = turns.enter(tenant("a"));
        assert_eq!(turns.take(std::future::ready(7)).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_no_longer_counts() {
        let turns = turns(1);
        let slow = turns.clone();
        let run = queue::as_run_of(tenant("a"), async move {
            slow.take(tokio::time::sleep(Duration::from_secs(30))).await;
        });
        let slow = tokio::spawn(run);
        tokio::task::yield_now().await;
        let (_other, begun) = turns.enter(tenant("b"));
        let began = Instant::now();
        begun.await.unwrap();
        assert!(began.elapsed() <= SLOW + Duration::from_millis(1));
        assert!(!slow.is_finished());
        slow.await.unwrap();
    }
}
