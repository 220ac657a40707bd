//! Wake-up times, and how long a state has lasted.
//!
//! Deadlines run on tokio's clock from the first observation of a state, not from timestamps of objects:
//! those have whole seconds, and a test may stop their clock. A restart begins them anew.

use crate::store::Key;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Alarms {
    set: BTreeSet<(Instant, Key)>,
    /// By object and question: the last observed state, and since when.
    states: HashMap<Key, BTreeMap<&'static str, (String, Instant)>>,
}

impl Alarms {
    /// Whether `question` about an object has had the answer `state` for that long. If not, wakes the
    /// object then.
    pub(super) fn has_lasted(
        &mut self,
        about: &Key,
        (question, state): (&'static str, &str),
        wait: Duration,
        (at, wakes): (Instant, &Key),
    ) -> bool {
        let states = match self.states.get_mut(about) {
            Some(states) => states,
            None => self.states.entry(about.clone()).or_default(),
        };
        let since = match states.get(question) {
            Some((known, since)) if known == state => *since,
            _ => {
                states.insert(question, (state.to_owned(), at));
                at
            }
        };
        let due = since + wait;
        if due > at {
            self.set.insert((due, wakes.clone()));
        }
        due <= at
    }

    /// Wakes the object at a known time; `state` names the reason of the time.
    pub(super) fn wake(
        &mut self,
        key: &Key,
        (question, state): (&'static str, &str),
        due: Instant,
        at: Instant,
    ) {
        let states = self.states.entry(key.clone()).or_default();
        let is_set = |(known, when): &(String, Instant)| known == state && *when > at;
        if !states.get(question).is_some_and(is_set) {
            states.insert(question, (state.to_owned(), due));
            self.set.insert((due, key.clone()));
        }
    }

    pub(super) fn is_new(
        &mut self,
        about: &Key,
        (question, state): (&'static str, &str),
        at: Instant,
    ) -> bool {
        let states = self.states.entry(about.clone()).or_default();
        let known = states.insert(question, (state.to_owned(), at));
        known.is_none_or(|(known, _)| known != state)
    }

    pub(super) fn clear(&mut self, key: &Key, question: &'static str) {
        if let Some(states) = self.states.get_mut(key) {
            states.remove(question);
        }
    }

    pub(super) fn take_due(&mut self, at: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while self.set.first().is_some_and(|(when, _)| *when <= at) {
            due.extend(self.set.pop_first().map(|(_, key)| key));
        }
        due
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.set.first().map(|(when, _)| *when)
    }

    /// Removes an object. Its alarms still ring once, without effect.
    pub(super) fn forget(&mut self, key: &Key) {
        self.states.remove(key);
    }
}
