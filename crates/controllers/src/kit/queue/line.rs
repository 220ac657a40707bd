//! The keys that are ready to run, and their order. No time, no tasks.
//!
//! Namespaces take turns, one key each: ten thousand objects of one team delay another team's object by
//! one run. Within a namespace, requested keys run first, then the others by arrival: a request takes
//! nothing from another namespace.
//!
//! Every operation costs the logarithm of the number of keys; a namespace without keys costs nothing.

use std::collections::{BTreeMap, HashMap};

use super::Namespaced;

#[derive(Debug)]
pub(super) struct Line<K> {
    namespaces: HashMap<String, NamespaceLine<K>>,
    /// The same namespaces; the first has the next turn.
    turns: BTreeMap<Turn, String>,
    taken: u64,
    tickets: u64,
    len: usize,
}

#[derive(Debug)]
struct NamespaceLine<K> {
    turn: Turn,
    /// Never empty.
    keys: BTreeMap<Place, K>,
}

/// The order in a namespace: requests first, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    is_routine: bool,
    ticket: u64,
}

/// When a namespace is next. After its turn, a namespace comes after all that are present at the
/// following turn: one whose first key arrives in between does not wait twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    taken: u64,
    had_turn: bool,
    ticket: u64,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self {
            namespaces: HashMap::new(),
            turns: BTreeMap::new(),
            taken: 0,
            tickets: 0,
            len: 0,
        }
    }
}

impl<K: Namespaced> Line<K> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a new key at the end of the requests or of the routine work.
    pub(super) fn push(&mut self, key: K, is_requested: bool) -> Place {
        let ticket = self.ticket();
        let place = Place {
            is_routine: !is_requested,
            ticket,
        };
        self.len += 1;
        if let Some(line) = self.namespaces.get_mut(key.namespace()) {
            line.keys.insert(place, key);
            return place;
        }
        let turn = Turn {
            taken: self.taken,
            had_turn: false,
            ticket,
        };
        let namespace = key.namespace().to_owned();
        self.turns.insert(turn, namespace.clone());
        let keys = BTreeMap::from([(place, key)]);
        self.namespaces.insert(namespace, NamespaceLine { turn, keys });
        place
    }

    /// Moves a key to the end of the requests, unless it is one; returns its place.
    pub(super) fn advance(&mut self, key: &K, place: Place) -> Place {
        if !place.is_routine {
            return place;
        }
        let ahead = Place {
            is_routine: false,
            ticket: self.ticket(),
        };
        let Some(line) = self.namespaces.get_mut(key.namespace()) else {
            return place;
        };
        match line.keys.remove(&place) {
            Some(key) => {
                line.keys.insert(ahead, key);
                ahead
            }
            None => place,
        }
    }

    pub(super) fn remove(&mut self, key: &K, place: Place) {
        let Some(line) = self.namespaces.get_mut(key.namespace()) else {
            return;
        };
        if line.keys.remove(&place).is_none() {
            return;
        }
        self.len -= 1;
        if line.keys.is_empty() {
            self.turns.remove(&line.turn);
            self.namespaces.remove(key.namespace());
        }
    }

    /// Takes the next key, of a namespace that may run. Costs the number of namespaces before it that
    /// may not.
    pub(super) fn pop(&mut self, may_run: impl Fn(&str) -> bool) -> Option<K> {
        let turn = *self.turns.iter().find(|(_, namespace)| may_run(namespace))?.0;
        let namespace = self.turns.remove(&turn)?;
        let line = self.namespaces.get_mut(&namespace)?;
        let (_, key) = line.keys.pop_first()?;
        self.len -= 1;
        self.taken += 1;
        if line.keys.is_empty() {
            self.namespaces.remove(&namespace);
        } else {
            // the place of the one turn that ends now: no other has this number and `had_turn`
            line.turn = Turn {
                taken: self.taken,
                had_turn: true,
                ticket: 0,
            };
            self.turns.insert(line.turn, namespace);
        }
        Some(key)
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
}
