//! Requests of those who ask for much do not delay others, as with API Priority and Fairness of kube-apiserver.
//!
//! A flow is one user in one namespace. If its answers used more than [`MUCH`], and another flow asked within
//! [`RECENT`], threads with a low priority make the next ones. Nothing is refused.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use equate_priority::{Background, Limit, UsedTime, thread_time};
use futures::future::poll_fn;
use tokio_util::task::AbortOnDropHandle;

use super::request::RequestInfo;
use crate::auth::Identity;

/// The processor time of answers.
const MUCH: Limit = Limit {
    most: Duration::from_millis(250),
    per_second: Duration::from_millis(50),
    debt_max: Duration::from_secs(2),
};
const RECENT: Duration = Duration::from_secs(1);
/// Flows that are remembered; those without use are dropped beyond.
const FLOWS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    user: String,
    namespace: String,
}

impl Flow {
    pub(super) fn of(identity: &Identity, info: &RequestInfo) -> Self {
        Self {
            user: identity.name.clone(),
            namespace: info.namespace.clone(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    // held for a map operation
    state: Mutex<State>,
    /// `None` if the threads cannot be started.
    background: OnceLock<Option<Background>>,
}

#[derive(Debug, Default)]
struct State {
    used: HashMap<Flow, UsedTime>,
    /// When a flow asked last that had not used much.
    others: Option<Instant>,
}

impl State {
    /// Whether a flow that asks now gives way to others.
    fn gives_way(&mut self, flow: &Flow, now: Instant) -> bool {
        let is_much = self.used.get(flow).is_some_and(|used| !used.is_left(MUCH, now));
        if !is_much {
            self.others = Some(now);
            return false;
        }
        self.others
            .is_some_and(|others| now.duration_since(others) < RECENT)
    }

    fn charge(&mut self, flow: Flow, now: Instant, cost: Duration) {
        if self.used.len() >= FLOWS_MAX {
            self.used.retain(|_, used| !used.used(MUCH, now).is_zero());
        }
        self.used.entry(flow).or_default().charge(MUCH, now, cost);
    }
}

impl Shares {
    /// Makes an answer, on the threads for its flow.
    pub(super) async fn answer<T: Send + 'static>(
        self: Arc<Self>,
        flow: Flow,
        answer: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let background = match self.state().gives_way(&flow, Instant::now()) {
            true => self.background(),
            false => None,
        };
        let shares = Arc::clone(&self);
        let counted = async move {
            let mut answer = pin!(answer);
            let mut cost = Duration::ZERO;
            let answered = poll_fn(|context| {
                let before = thread_time();
                let polled = answer.as_mut().poll(context);
                cost += thread_time().saturating_sub(before);
                polled
            })
            .await;
            shares.state().charge(flow, Instant::now(), cost);
            answered
        };
        let Some(background) = background else {
            return counted.await;
        };
        match AbortOnDropHandle::new(background.spawn(counted)).await {
            Ok(answered) => answered,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // the runtime stops
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn background(&self) -> Option<&Background> {
        let started = self.background.get_or_init(|| {
            let started = Background::start();
            let failed =
                |error| tracing::warn!(%error, "cannot start threads for requests of those who ask for much");
            started.map_err(failed).ok()
        });
        started.as_ref()
    }

    /// Never half done: all calls are total.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(user: &str, namespace: &str) -> Flow {
        Flow {
            user: user.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    #[test]
    fn a_flow_that_used_much_gives_way_while_others_ask() {
        let (mut state, began) = (State::default(), Instant::now());
        let at = |millis: u64| began + Duration::from_millis(millis);
        let (much, little) = (flow("a", "team-a"), flow("a", "team-b"));
        state.charge(much.clone(), at(0), MUCH.most);
        assert!(!state.gives_way(&much, at(0)), "nobody else asks");
        assert!(!state.gives_way(&little, at(0)));
        assert!(state.gives_way(&much, at(0)));
        assert!(!state.gives_way(&much, at(999)), "it got 50 ms back");
        assert!(!state.gives_way(&little, at(1_000)));
        state.charge(much.clone(), at(1_000), MUCH.most);
        assert!(state.gives_way(&much, at(1_999)));
        assert!(
            !state.gives_way(&much, at(2_000)),
            "the others asked a second ago"
        );
        assert!(!state.gives_way(&little, at(4_900)));
        // it has used 200 ms more than it may
        assert!(state.gives_way(&much, at(4_900)));
        assert!(!state.gives_way(&little, at(5_100)));
        assert!(!state.gives_way(&much, at(5_100)));
    }

    #[test]
    fn flows_without_use_are_forgotten() {
        let (mut state, now) = (State::default(), Instant::now());
        for number in 0..2 * FLOWS_MAX {
            state.charge(flow("a", &number.to_string()), now, Duration::ZERO);
        }
        assert!(state.used.len() <= FLOWS_MAX);
    }

    #[tokio::test]
    async fn answers_that_give_way_are_made_by_other_threads() {
        let shares = Arc::new(Shares::default());
        let name = || async { std::thread::current().name().map(str::to_owned) };
        let answer = |user: &str| Arc::clone(&shares).answer(flow(user, ""), name());
        let own = name().await;
        assert_eq!(answer("few").await, own);
        shares
            .state()
            .charge(flow("many", ""), Instant::now(), MUCH.debt_max);
        assert_eq!(answer("many").await.as_deref(), Some("equate-behind"));
        assert_eq!(answer("few").await, own);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_ends() {
        let shares = Arc::new(Shares::default());
        Arc::clone(&shares).answer(flow("few", ""), async {}).await;
        shares
            .state()
            .charge(flow("many", ""), Instant::now(), MUCH.debt_max);
        let (held, mut dropped) = tokio::sync::oneshot::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let endless = async move {
            let _held = held;
            begun.send(()).ok();
            std::future::pending::<()>().await;
        };
        let mut answer = Box::pin(Arc::clone(&shares).answer(flow("many", ""), endless));
        tokio::select! {
            () = &mut answer => {}
            begun = has_begun => begun.unwrap(),
        }
        drop(answer);
        assert!((&mut dropped).await.is_err());
    }
}
