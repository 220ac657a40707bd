//! Looking at objects again, when a Kustomization begins to look at them in another way.
//!
//! What is known of an object is what was made of it when it came by, under the rules of that time
//! (`drift::rules`). When those change each object is read once: as many requests as objects, at a
//! change of the spec, and none at any other time.

use std::collections::HashMap;
use std::time::Duration;

use equate_apply::cluster::ApplyError;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules as _;
use futures::StreamExt as _;

use super::Run;
use crate::kit::read::chain;
use crate::kit::watcher::Kind;
use crate::kustomization::owner_of;
use crate::kustomization::reasons::Failure;

/// So many are read at once.
const CONCURRENCY: usize = 8;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

impl Run<'_> {
    /// Reads what was seen under other terms than those of now: of what it holds, and of what it waits for.
    pub(super) async fn reinspect<'i>(
        &mut self,
        ids: impl Iterator<Item = &'i ObjectId>,
        versions: &HashMap<Kind, &str>,
    ) -> Result<(), Failure> {
        let owner = owner_of(&self.key);
        let stamp = self.cx.rules.stamp(&owner);
        let mut stale = Vec::new();
        if self.memory.inspected_under != stamp {
            stale.extend(ids.filter(|id| self.is_stale(id, &owner, stamp)).cloned());
        }
        let checks = self.memory.record.iter().flat_map(|record| &record.checks);
        stale.extend(checks.filter(|id| self.is_unjudged(id, &owner, stamp)).cloned());
        stale.sort();
        stale.dedup();
        let mut reading = Vec::with_capacity(stale.len());
        for id in &stale {
            let version = versions.get(&Kind::of(id)).copied().unwrap_or_default();
            reading.push(self.read(id, version));
        }
        let mut reading = futures::stream::iter(reading).buffer_unordered(CONCURRENCY);
        while let Some(read) = reading.next().await {
            read.map_err(|error| Failure::Unreachable(chain(&error)))?;
        }
        drop(reading);
        self.memory.inspected_under = stamp;
        Ok(())
    }

    async fn read(&self, id: &ObjectId, version: &str) -> Result<(), ApplyError> {
        if let Some(object) = self.access.cluster.get(id, version, ANSWER).await? {
            self.access.hub.look(&self.key, id, &object);
        }
        Ok(())
    }

    /// Whether an object of ours was looked at under other terms.
    fn is_stale(&self, id: &ObjectId, owner: &Owner, stamp: u64) -> bool {
        match self.access.hub.get(id) {
            Presence::Present(observed) => observed.owner.as_ref() == Some(owner) && observed.stamp != stamp,
            Presence::Absent | Presence::Unknown => false,
        }
    }

    /// Whether there are words of our own for an object that it was not held against.
    fn is_unjudged(&self, id: &ObjectId, owner: &Owner, stamp: u64) -> bool {
        if !self.cx.rules.judges(&self.key, id) {
            return false;
        }
        match self.access.hub.get_for(&self.key, id) {
            Presence::Present(observed) => observed
                .judged_by(owner)
                .is_none_or(|judged| judged.stamp != stamp),
            Presence::Absent | Presence::Unknown => false,
        }
    }
}
