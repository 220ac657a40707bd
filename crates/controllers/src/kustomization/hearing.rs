//! What all Kustomizations say of what they want, for one that deletes: who has to speak first, and
//! whose word cannot be had. What follows from it is in [`super::others`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_api::kustomize::Kustomization;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::owned::Digest;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use tokio::time::Instant;

use super::Context;
use super::decide::deadline;
use super::declared::Declared;
use super::index::{self, Index};
use super::others::{NAMED, PATIENCE};
use super::reach::Place;
use super::wants::{Stand, Wants};
use crate::Key;

/// Why it is not known what one wants that has had its time.
const LATE: &str = "has not been built in time";

/// What has to be known before anything is deleted, and is not.
#[derive(Debug, Default, Clone)]
pub(super) struct Hearing {
    /// These are going to be built from what is there now; since when that is waited for.
    pub(super) unheard: BTreeMap<Key, Instant>,
    /// What these want stays unknown for now, and why.
    pub(super) barred: BTreeMap<Key, String>,
    /// Those of them that other shards reconcile.
    pub(super) elsewhere: BTreeSet<Key>,
    /// Those who declare what is not applied yet.
    words: BTreeSet<Key>,
    /// When the last of the unheard has had its time.
    pub(super) until: Option<Instant>,
    /// Whether it depends on more than what the index is told of.
    pub(super) passing: bool,
}

impl Hearing {
    /// One of those that have to speak before anything goes on: mostly the last, for they are woken
    /// in order.
    pub(super) fn waits_for(&self) -> Option<(&Key, Instant)> {
        self.unheard.last_key_value().map(|(key, since)| (key, *since))
    }

    /// Those that hold up what may be deleted: one that is about to speak does not.
    pub(super) fn suspects(&self, now: Instant) -> impl Iterator<Item = &Key> {
        let silent = self
            .unheard
            .iter()
            .filter(move |(_, since)| **since + PATIENCE <= now);
        self.barred.keys().chain(silent.map(|(key, _)| key))
    }

    /// The same without those that may write none of the objects.
    pub(super) fn without_the_powerless(self: Arc<Self>, index: &Index, gone: &Inventory) -> Arc<Self> {
        let all = self.barred.keys().chain(self.unheard.keys());
        let powerless = all.filter(|key| gone.ids().all(|id| !index.rights.allow(key, id)));
        let powerless: BTreeSet<Key> = powerless.cloned().collect();
        if powerless.is_empty() {
            return self;
        }
        let mut hearing = Self::clone(&self);
        hearing.barred.retain(|key, _| !powerless.contains(key));
        hearing.elsewhere.retain(|key| !powerless.contains(key));
        hearing.unheard.retain(|key, _| !powerless.contains(key));
        if hearing.unheard.is_empty() {
            hearing.until = None;
        }
        Arc::new(hearing)
    }

    /// Some of those that have not spoken since, by name.
    pub(super) fn silent(&self, index: &Index) -> String {
        let unheard = self.unheard.iter().rev();
        let silent = unheard.filter(|(key, since)| index.is_silent(key, **since));
        let mut names: Vec<String> = silent
            .take(NAMED)
            .map(|(key, _)| format!("Kustomization/{key}"))
            .collect();
        names.reverse();
        names.join(", ")
    }

    /// Whose words may change it. As long as there are barred ones, some of them are among these.
    pub(super) fn listens_to(&self) -> BTreeSet<Key> {
        let barred = self.barred.keys().take(NAMED);
        let waits_for = self.waits_for().into_iter().map(|(key, _)| key);
        self.words
            .iter()
            .chain(barred)
            .chain(waits_for)
            .cloned()
            .collect()
    }

    fn bar(&mut self, key: Key, why: impl Into<String>) {
        self.barred.insert(key, why.into());
    }

    /// One of those of whom it is not known what they want.
    pub(super) fn awaited(&self) -> Option<Owner> {
        let key = self.barred.keys().next().or_else(|| self.unheard.keys().next());
        key.map(|key| Owner::new(&key.namespace, &key.name))
    }
}

/// Asks all Kustomizations what they want, on behalf of one that deletes.
pub(super) struct Asking<'a> {
    cx: &'a Context,
    index: &'a mut Index,
    ks: &'a Declared,
    place: &'a Place,
    now: Instant,
    hearing: Hearing,
}

impl<'a> Asking<'a> {
    pub(super) fn new(cx: &'a Context, index: &'a mut Index, ks: &'a Declared, place: &'a Place) -> Self {
        Self {
            cx,
            index,
            ks,
            place,
            now: Instant::now(),
            hearing: Hearing::default(),
        }
    }

    pub(super) fn all(mut self) -> Hearing {
        for object in self.cx.kustomizations.all() {
            if object.metadata.deletion_timestamp.is_none() {
                self.one(&object);
            }
        }
        self.hearing
    }

    fn one(&mut self, object: &Kustomization) {
        let key = Key::of(&object.metadata);
        if !self.index.may_meet(&key, self.place) {
            // what it applies, it applies elsewhere
            return;
        }
        let near = index::source(object) == (self.ks.source_kind, self.ks.source.clone());
        if !near && self.index.is_foreign(&key) {
            // no commit is both theirs and ours: what it has now is its answer
            return;
        }
        if self.cx.is_unheard(self.index, &key, object) {
            if self.index.is_foreign(&key) {
                return self.leave_open(key, object);
            }
            let from = self.cx.unheard_from(object);
            // one that was tried is not waited for where no commit is both theirs and ours
            if near || !self.index.is_unreached(&key, &from) {
                self.expect(key, from, near);
            }
            return;
        }
        if object.spec.suspend || !near {
            // it was asked, but its answer is not waited for
            return;
        }
        let Some(stand) = self.index.standing(&key).cloned() else {
            return;
        };
        match &stand.wants {
            Wants::Unknown(why) => self.hearing.bar(key, *why),
            Wants::Known(objects) => {
                for (id, digest) in &objects.kustomizations {
                    self.hear_of(&key, &stand, id, *digest);
                }
            }
        }
    }

    /// What one of another shard wants is open until it has applied what is there now. Nothing but a
    /// deletion waits for that: it may wait for this one.
    fn leave_open(&mut self, key: Key, object: &Kustomization) {
        let (_, revision) = self.cx.supply(object).unwrap_or_default();
        self.hearing.elsewhere.insert(key.clone());
        self.hearing.bar(key, format!("has not applied {revision} yet"));
    }

    /// Waits for one that is going to be built; each of its inputs gives it the same time.
    fn expect(&mut self, key: Key, from: (i64, String), near: bool) {
        let since = self.index.unheard_since(&key, from, self.now);
        let until = deadline(since, self.ks.timeout);
        if until > self.now {
            self.hearing.unheard.insert(key, since);
            self.hearing.until = self.hearing.until.max(Some(until));
            return;
        }
        self.hearing.passing = true;
        if near {
            self.hearing.bar(key, LATE);
        }
    }

    /// One that another declares may want something only once it is as it is declared.
    fn hear_of(&mut self, by: &Key, stand: &Stand, id: &ObjectId, digest: Digest) {
        let key = Key::new(&*id.namespace, &*id.name);
        let known = self.cx.kustomizations.get(&key);
        match self.cx.here.hub.get(id) {
            Presence::Present(observed)
                if stand.applied || observed.owned == digest || stand.formed(id, observed.owned) =>
            {
                let generation = known.and_then(|object| object.metadata.generation);
                if generation.is_none_or(|generation| generation < observed.generation) {
                    // applied, and the mirror is about to tell
                    self.hearing.passing = true;
                    self.expect(key, (observed.generation, String::new()), true);
                }
            }
            _ if stand.applied && known.is_some() => {}
            _ => {
                self.hearing.passing = true;
                self.hearing.words.insert(by.clone());
                self.hearing.bar(
                    key,
                    format!("is not applied yet as Kustomization/{by} declares it"),
                );
            }
        }
    }
}
