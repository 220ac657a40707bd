//! The announcements of all owners for one that prunes, as a value: the owners that have to announce
//! first, and those whose desired objects cannot be known. Controllers gather them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use equate_apply::inventory::Inventory;
use tokio::time::Instant;

use super::access_reviews::AccessReviews;
use crate::ObjectRef;

/// A longer list helps no reader.
pub(crate) const NAMED: usize = 10;
/// A shorter wait is not worth a status.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Clone)]
pub(crate) struct Survey {
    /// Owners that will be built from the current inputs, with the start of the wait.
    pub(crate) unbuilt: BTreeMap<ObjectRef, Instant>,
    /// Owners whose desired objects are unknown for now, with the reason.
    pub(crate) unknown: BTreeMap<ObjectRef, String>,
    /// The unknown ones that other shards reconcile.
    pub(crate) in_other_shards: BTreeSet<ObjectRef>,
    /// Owners that declare owners which are not applied yet.
    pub(crate) declarers: BTreeSet<ObjectRef>,
    pub(crate) until: Option<Instant>,
    /// Whether it depends on facts outside the graph, so that it must not be cached.
    pub(crate) passing: bool,
}

impl Survey {
    /// An owner that has to announce first. The last one: owners are woken in order.
    pub(crate) fn waits_for(&self) -> Option<(&ObjectRef, Instant)> {
        self.unbuilt.last_key_value().map(|(key, since)| (key, *since))
    }

    pub(crate) fn holding_up(&self, now: Instant) -> impl Iterator<Item = &ObjectRef> {
        let unannounced = self
            .unbuilt
            .iter()
            .filter(move |(_, since)| **since + PATIENCE <= now);
        self.unknown.keys().chain(unannounced.map(|(key, _)| key))
    }

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

    pub(crate) fn unannounced(&self, is_unannounced: impl Fn(&ObjectRef, Instant) -> bool) -> String {
        let unbuilt = self.unbuilt.iter().rev();
        let unannounced = unbuilt.filter(|(key, since)| is_unannounced(key, **since));
        let mut names: Vec<String> = unannounced.take(NAMED).map(|(key, _)| key.to_string()).collect();
        names.reverse();
        names.join(", ")
    }

    /// The owners whose announcements may change the survey. While there are unknown ones, it contains
    /// some of them.
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

    pub(crate) fn awaited(&self) -> Option<&ObjectRef> {
        self.unknown.keys().next().or_else(|| self.unbuilt.keys().next())
    }
}
