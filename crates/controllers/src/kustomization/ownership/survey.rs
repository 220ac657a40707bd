//! What all Kustomizations were found to say of what they want, for one that deletes, as a value: who
//! has to speak first, and whose word cannot be had. The questions are asked in `run::survey`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_apply::inventory::Inventory;
use equate_apply::owner::Owner;
use tokio::time::Instant;

use super::access_reviews::Rights;
use crate::Key;

/// More names than this do not help anybody.
pub(in crate::kustomization) const NAMED: usize = 10;
/// Waiting that is over sooner is not worth a status.
pub(in crate::kustomization) const PATIENCE: Duration = Duration::from_secs(10);

/// What has to be known before anything is deleted, and is not.
#[derive(Debug, Default, Clone)]
pub(in crate::kustomization) struct Hearing {
    /// These are going to be built from what is there now; since when that is waited for.
    pub(in crate::kustomization) unheard: BTreeMap<Key, Instant>,
    /// What these want stays unknown for now, and why.
    pub(in crate::kustomization) barred: BTreeMap<Key, String>,
    /// Those of them that other shards reconcile.
    pub(in crate::kustomization) elsewhere: BTreeSet<Key>,
    /// Those who declare what is not applied yet.
    pub(in crate::kustomization) words: BTreeSet<Key>,
    /// When the last of the unheard has had its time.
    pub(in crate::kustomization) until: Option<Instant>,
    /// Whether it depends on more than what the index is told of.
    pub(in crate::kustomization) passing: bool,
}

impl Hearing {
    /// One of those that have to speak before anything goes on: mostly the last, for they are woken
    /// in order.
    pub(in crate::kustomization) fn waits_for(&self) -> Option<(&Key, Instant)> {
        self.unheard.last_key_value().map(|(key, since)| (key, *since))
    }

    /// Those that hold up what may be deleted: one that is about to speak does not.
    pub(in crate::kustomization) fn suspects(&self, now: Instant) -> impl Iterator<Item = &Key> {
        let silent = self
            .unheard
            .iter()
            .filter(move |(_, since)| **since + PATIENCE <= now);
        self.barred.keys().chain(silent.map(|(key, _)| key))
    }

    /// The same without those that may write none of the objects.
    pub(in crate::kustomization) fn without_the_powerless(
        self: Arc<Self>,
        rights: &Rights,
        gone: &Inventory,
    ) -> Arc<Self> {
        let all = self.barred.keys().chain(self.unheard.keys());
        let powerless = all.filter(|key| gone.ids().all(|id| !rights.allow(key, id)));
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
    pub(in crate::kustomization) fn silent(&self, is_silent: impl Fn(&Key, Instant) -> bool) -> String {
        let unheard = self.unheard.iter().rev();
        let silent = unheard.filter(|(key, since)| is_silent(key, **since));
        let mut names: Vec<String> = silent
            .take(NAMED)
            .map(|(key, _)| format!("Kustomization/{key}"))
            .collect();
        names.reverse();
        names.join(", ")
    }

    /// Whose words may change it. As long as there are barred ones, some of them are among these.
    pub(in crate::kustomization) fn listens_to(&self) -> BTreeSet<Key> {
        let barred = self.barred.keys().take(NAMED);
        let waits_for = self.waits_for().into_iter().map(|(key, _)| key);
        self.words
            .iter()
            .chain(barred)
            .chain(waits_for)
            .cloned()
            .collect()
    }

    pub(in crate::kustomization) fn bar(&mut self, key: Key, why: impl Into<String>) {
        self.barred.insert(key, why.into());
    }

    /// One of those of whom it is not known what they want.
    pub(in crate::kustomization) fn awaited(&self) -> Option<Owner> {
        let key = self.barred.keys().next().or_else(|| self.unheard.keys().next());
        key.map(|key| Owner::new(&key.namespace, &key.name))
    }
}
