//! Requests of one user in one namespace, a flow, delay those of other flows less.
//!
//! If the answers of a flow used more than [`MUCH`], and one that used less asked within [`RECENT`], threads with a low
//! priority make the next ones. Nothing is refused. Requests without a namespace and those for Leases, which all share,
//! are no part of a flow.

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
/// With more flows, those without use are dropped.
const FLOWS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    user: String,
    namespace: String,
}

impl Flow {
    /// `None` if the request always has the normal priority.
    pub(super) fn of(identity: &Identity, info: &RequestInfo) -> Option<Self> {
        let is_of_one = info.is_resource && !info.namespace.is_empty() && info.resource != "leases";
        is_of_one.then(|| Self {
            user: identity.name.clone(),
            namespace: info.namespace.clone(),
        })
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
    /// The last two flows that asked and had not used much.
    asked: [Option<(Flow, Instant)>; 2],
}

impl State {
    /// Whether a flow that asks now gives way to others.
    fn gives_way(&mut self, flow: &Flow, now: Instant) -> bool {
        let is_much = self.used.get(flow).is_some_and(|used| !used.is_left(MUCH, now));
        if is_much {
            let mut others = self.asked.iter().flatten().filter(|(other, _)| other != flow);
            return others.any(|(_, asked)| now.duration_since(*asked) < RECENT);
        }
        let [last, before] = &mut self.asked;
        if last.as_ref().is_none_or(|(last, _)| last != flow) {
            *before = last.take();
        }
        *last = Some((flow.clone(), now));
        false
    }

    fn charge(&mut self, flow: &Flow, now: Instant, cost: Duration) {
        if self.used.len() >= FLOWS_MAX {
            self.used.retain(|_, used| !used.used(MUCH, now).is_zero());
        }
        self.used.entry(flow.clone()).or_default().charge(MUCH, now, cost);
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
        let mut use_of = UseOf {
            shares: Arc::clone(&self),
            flow,
            cost: Duration::ZERO,
        };
        let counted = async move {
            let mut answer = pin!(answer);
            poll_fn(|context| {
                let before = thread_time();
                let polled = answer.as_mut().poll(context);
                use_of.cost += thread_time().saturating_sub(before);
                polled
            })
            .await
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
                |error| tracing::warn!(%error, "cannot start threads with a low priority for requests");
            started.map_err(failed).ok()
        });
        started.as_ref()
    }

    /// Never half done: all calls are total.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The use of one request, charged when it ends, also if nobody waits for its answer.
struct UseOf {
    shares: Arc<Shares>,
    flow: Flow,
    cost: Duration,
}

impl Drop for UseOf {
    fn drop(&mut self) {
        let mut state = self.shares.state();
        state.charge(&self.flow, Instant::now(), self.cost);
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
        assert!(!state.gives_way(&much, at(0)));
        state.charge(&much, at(0), MUCH.most);
        assert!(!state.gives_way(&much, at(0)), "nobody else asks");
        assert!(!state.gives_way(&little, at(0)));
        assert!(state.gives_way(&much, at(0)));
        // it gets 45 ms back, and asks in between
        assert!(!state.gives_way(&much, at(900)));
        state.charge(&much, at(900), MUCH.most);
        assert!(state.gives_way(&much, at(999)));
        assert!(!state.gives_way(&much, at(1_000)), "the other asked a second ago");
        // it has used 205 ms more than it may
        assert!(!state.gives_way(&little, at(4_900)));
        assert!(state.gives_way(&much, at(4_900)));
        assert!(!state.gives_way(&little, at(5_100)));
        assert!(!state.gives_way(&much, at(5_100)));
    }

    #[test]
    fn flows_without_use_are_forgotten() {
        let (mut state, now) = (State::default(), Instant::now());
        for number in 0..2 * FLOWS_MAX {
            state.charge(&flow("a", &number.to_string()), now, Duration::ZERO);
        }
        assert!(state.used.len() <= FLOWS_MAX);
    }

    #[test]
    fn requests_that_all_share_are_no_part_of_a_flow() {
        let of = |path: &str| {
            let info = RequestInfo::parse(&http::Method::GET, path, false, None);
            Flow::of(&Identity::admin(), &info).map(|flow| flow.namespace)
        };
        assert_eq!(of("/api/v1/namespaces/a/configmaps/b"), Some("a".to_owned()));
        for path in [
            "/readyz",
            "/api/v1/configmaps",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    /// Shares of which one flow gives way, for as long as a test may take.
    fn shares_of_many() -> Arc<Shares> {
        let (shares, now) = (Arc::new(Shares::default()), Instant::now());
        let mut state = shares.state();
        state.charge(&flow("many", ""), now, MUCH.debt_max);
        state.asked = [Some((flow("few", ""), now + Duration::from_secs(3600))), None];
        drop(state);
        shares
    }

    fn name() -> Option<String> {
        std::thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn answers_that_give_way_are_made_by_other_threads() {
        let shares = shares_of_many();
        let answer = |user: &str| Arc::clone(&shares).answer(flow(user, ""), async { name() });
        assert_eq!(answer("many").await.as_deref(), Some("equate-behind"));
        assert_eq!(answer("few").await, name());
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_ends_and_counts() {
        let shares = shares_of_many();
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let endless = async move {
            let _held = held;
            begun.send(name()).ok();
            std::future::pending::<()>().await;
        };
        let mut answer = Box::pin(Arc::clone(&shares).answer(flow("many", ""), endless));
        let by = tokio::select! {
            () = &mut answer => None,
            begun = has_begun => begun.unwrap(),
        };
        assert_eq!(by.as_deref(), Some("equate-behind"));
        drop(answer);
        let ended = tokio::time::timeout(Duration::from_secs(60), dropped).await;
        assert!(ended.unwrap().is_err());
        let mut dropped = Box::pin(Arc::clone(&shares).answer(flow("new", ""), std::future::pending::<()>()));
        assert!(futures::poll!(&mut dropped).is_pending());
        drop(dropped);
        assert!(shares.state().used.contains_key(&flow("new", "")));
    }
}
