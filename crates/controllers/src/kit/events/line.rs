//! Events that wait for their writer: tenants take turns, and share the room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::kit::tenants::Tenant;

/// A queue of limited room. While it is full, the tenant with the most events loses its newest.
#[derive(Debug)]
pub(in crate::kit) struct Line<T> {
    // held for a map operation
    state: Mutex<State<T>>,
    added: Notify,
    room: usize,
}

#[derive(Debug)]
struct State<T> {
    /// None is empty.
    queues: BTreeMap<Tenant, VecDeque<T>>,
    turns: VecDeque<Tenant>,
    waiting: usize,
}

impl<T> Line<T> {
    pub(in crate::kit) fn new(room: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queues: BTreeMap::new(),
                turns: VecDeque::new(),
                waiting: 0,
            }),
            added: Notify::new(),
            room: room.max(1),
        }
    }

    pub(in crate::kit) fn push(&self, tenant: &Tenant, event: T) -> Option<T> {
        let mut state = self.state();
        let mut dropped = None;
        if state.waiting >= self.room {
            let own = state.queues.get(tenant).map_or(0, VecDeque::len);
            let longest = state.queues.values_mut().max_by_key(|queue| queue.len());
            match longest.filter(|longest| longest.len() > own + 1) {
                Some(longest) => dropped = longest.pop_back(),
                None => return Some(event),
            }
        }
        if dropped.is_none() {
            state.waiting += 1;
        }
        match state.queues.get_mut(tenant) {
            Some(queue) => queue.push_back(event),
            None => {
                state.queues.insert(tenant.clone(), VecDeque::from([event]));
                state.turns.push_back(tenant.clone());
            }
        }
        self.added.notify_one();
        dropped
    }

    /// The next event of the tenant whose turn it is. For one reader.
    pub(in crate::kit) async fn next(&self) -> (Tenant, T) {
        loop {
            if let Some(next) = self.state().pop() {
                return next;
            }
            self.added.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn pop(&mut self) -> Option<(Tenant, T)> {
        let tenant = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&tenant)?;
        let event = queue.pop_front()?;
        self.waiting -= 1;
        match queue.is_empty() {
            true => drop(self.queues.remove(&tenant)),
            false => self.turns.push_back(tenant.clone()),
        }
        Some((tenant, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(event: &str) -> Tenant {
        Tenant::Namespace(event[..1].into())
    }

    fn check(room: usize, events: &str, expected: (&str, &str)) {
        let line = Line::new(room);
        let push = |event: &str| line.push(&tenant(event), event.to_owned());
        let dropped: Vec<String> = events.split_whitespace().filter_map(push).collect();
        assert!(line.state().waiting <= room);
        let left: Vec<String> = std::iter::from_fn(|| Some(line.state().pop()?.1)).collect();
        let found = (dropped.join(" "), left.join(" "));
        assert_eq!((&*found.0, &*found.1), expected, "{events}");
        let state = line.state();
        assert_eq!((state.waiting, state.queues.len(), state.turns.len()), (0, 0, 0));
    }

    #[test]
    fn tenants_take_turns_and_the_largest_loses() {
        check(9, "a1 a2 a3 b1 c1 a4 b2", ("", "a1 b1 c1 a2 b2 a3 a4"));
        check(3, "a1 a2 a3 a4", ("a4", "a1 a2 a3"));
        check(4, "a1 a2 a3 a4 b1 a5 b2 b3", ("a4 a5 a3 b3", "a1 b1 a2 b2"));
        check(4, "a1 a2 a3 a4 b1 c1 d1", ("a4 a3 a2", "a1 b1 c1 d1"));
        check(2, "a1 b1 c1", ("c1", "a1 b1"));
    }

    #[tokio::test]
    async fn reader_waits_for_an_event() {
        let line = Line::new(2);
        let (next, ()) = tokio::join!(line.next(), async {
            tokio::task::yield_now().await;
            line.push(&tenant("a1"), "a1");
        });
        assert_eq!(next, (tenant("a1"), "a1"));
    }
}
