//! What all owners were found to say of what they want, for one that deletes, as a value: who has to speak
//! first, and whose word cannot be had. Controllers ask the questions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_apply::inventory::Inventory;
use tokio::time::Instant;

use super::access_reviews::AccessReviews;
use crate::ObjectRef;

/// More names than this do not help anybody.
pub(crate) const NAMED: usize = 10;
/// Waiting that is over sooner is not worth a status.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What has to be known before anything is deleted, and is not.
#[derive(Debug, Default, Clone)]
pub(crate) struct Survey {
    /// These are going to be built from what is there now; since when that is waited for.
    pub(crate) unbuilt: BTreeMap<ObjectRef, Instant>,
    /// What these want stays unknown for now, and why.
    pub(crate) unknown: BTreeMap<ObjectRef, String>,
    /// Those of them that other shards reconcile.
    pub(crate) in_other_shards: BTreeSet<ObjectRef>,
    /// Those who declare what is not applied yet.
    pub(crate) declarers: BTreeSet<ObjectRef>,
    /// When the last of the unbuilt has had its time.
    pub(crate) until: Option<Instant>,
    /// Whether it depends on more than what the index is told of.
    pub(crate) passing: bool,
}

impl Survey {
    /// One of those that have to speak before anything goes on: mostly the last, for they are woken
    /// in order.
    pub(crate) fn waits_for(&self) -> Option<(&ObjectRef, Instant)> {
        self.unbuilt.last_key_value().map(|(key, since)| (key, *since))
    }

    /// Those that hold up what may be deleted: one that is about to speak does not.
    pub(crate) fn holding_up(&self, now: Instant) -> impl Iterator<Item = &ObjectRef> {
        let silent = self
            .unbuilt
            .iter()
            .filter(move |(_, since)| **since + PATIENCE <= now);
        self.unknown.keys().chain(silent.map(|(key, _)| key))
    }

    /// The same without those that may write none of the objects.
    pub(crate) fn without_unauthorized(
        self: Arc<Self>,
        reviews: &AccessReviews,
        gone: &Inventory,
    ) -> Arc<Self> {
        let all = self.unknown.keys().chain(self.unbuilt.keys());
        let unauthorized = all.filter(|key| gone.ids().all(|id| !reviews.allow(key, id)));
        let unauthorized: BTreeSet<ObjectRef> = unauthorized.cloned().collect();
        if unauthorized.is_empty() {
            return self;
        }
        let mut survey = Self::clone(&self);
        survey.unknown.retain(|key, _| !unauthorized.contains(key));
        survey.in_other_shards.retain(|key| !unauthorized.contains(key));
        survey.unbuilt.retain(|key, _| !unauthorized.contains(key));
        if survey.unbuilt.is_empty() {
            survey.until = None;
        }
        Arc::new(survey)
    }

    /// Some of those that have not spoken since, by name.
    pub(crate) fn silent(&self, is_silent: impl Fn(&ObjectRef, Instant) -> bool) -> String {
        let unbuilt = self.unbuilt.iter().rev();
        let silent = unbuilt.filter(|(key, since)| is_silent(key, **since));
        let mut names: Vec<String> = silent.take(NAMED).map(|(key, _)| key.to_string()).collect();
        names.reverse();
        names.join(", ")
    }

    /// Whose words may change it. As long as there are barred ones, some of them are among these.
    pub(crate) fn listens_to(&self) -> BTreeSet<ObjectRef> {
        let barred = self.unknown.keys().take(NAMED);
        let waits_for = self.waits_for().into_iter().map(|(key, _)| key);
        self.declarers
            .iter()
            .chain(barred)
            .chain(waits_for)
            .cloned()
            .collect()
    }

    pub(crate) fn mark_unknown(&mut self, key: ObjectRef, why: impl Into<String>) {
        self.unknown.insert(key, why.into());
    }

    /// One of those of whom it is not known what they want.
    pub(crate) fn awaited(&self) -> Option<&ObjectRef> {
        self.unknown.keys().next().or_else(|| self.unbuilt.keys().next())
    }
}
