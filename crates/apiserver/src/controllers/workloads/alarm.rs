//! When to look again, and since when something has been so.
//!
//! Deadlines run on tokio's clock from the moment a state was first seen, not
//! from the timestamps of objects: those have whole seconds, and the clock
//! that writes them may stand still in a test. After a restart they begin anew.

use crate::store::Key;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Alarms {
    set: BTreeSet<(Instant, Key)>,
    /// By object and question: the state that was last seen, and since when.
    states: HashMap<Key, BTreeMap<&'static str, (String, Instant)>>,
}

impl Alarms {
    /// Whether `question` about an object has had the answer `state` for so long; else wakes an
    /// object when it has.
    pub(super) fn passed(
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

    /// Whether a question has another answer than before.
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

    /// Forgets a question's answer.
    pub(super) fn settled(&mut self, key: &Key, question: &'static str) {
        if let Some(states) = self.states.get_mut(key) {
            states.remove(question);
        }
    }

    /// What is due now.
    pub(super) fn ring(&mut self, at: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while self.set.first().is_some_and(|(when, _)| *when <= at) {
            due.extend(self.set.pop_first().map(|(_, key)| key));
        }
        due
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.set.first().map(|(when, _)| *when)
    }

    /// An object is gone. Its alarms ring once more and find nothing.
    pub(super) fn forget(&mut self, key: &Key) {
        self.states.remove(key);
    }
}
