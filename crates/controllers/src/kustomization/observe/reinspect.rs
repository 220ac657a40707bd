//! Reads objects again when the rules of their Kustomization change.
//!
//! The known state of an object was computed under the rules of that time (`rules`). When they change, each
//! object is read once: one request per object at a change of the spec, none at any other time.

use std::collections::HashMap;
use std::time::Duration;

use equate_apply::cluster::ApplyError;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules as _;
use futures::StreamExt as _;

use crate::Key;
use crate::kit::read::chain;
use crate::kit::watcher::Kind;
use crate::kustomization::reasons::Failure;
use crate::kustomization::{Kustomizations, Run, owner_of};
use crate::targets::target::Access;

const CONCURRENCY: usize = 8;
const ANSWER: Duration = Duration::from_secs(30);

/// Reads objects that were observed under other rules: held ones, and awaited ones.
pub(super) async fn reinspect<'i>(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ids: impl Iterator<Item = &'i ObjectId>,
    versions: &HashMap<Kind, &str>,
) -> Result<(), Failure> {
    let key = run.key().clone();
    let owner = owner_of(&key);
    let stamp = cx.rules.stamp(&owner);
    let (memory, access) = (&run.memory, cx.access(&run.memory));
    let mut stale = Vec::new();
    if memory.inspected_under != stamp {
        stale.extend(ids.filter(|id| is_stale(access, id, &owner, stamp)).cloned());
    }
    let checks = memory.record.iter().flat_map(|record| &record.checks);
    let unjudged = |id: &&ObjectId| cx.rules.judges(&key, id) && is_unjudged(access, &key, id, stamp);
    stale.extend(checks.filter(unjudged).cloned());
    stale.sort();
    stale.dedup();
    let mut reading = Vec::with_capacity(stale.len());
    for id in &stale {
        let version = versions.get(&Kind::of(id)).copied().unwrap_or_default();
        reading.push(read(access, &key, id, version));
    }
    let mut reading = futures::stream::iter(reading).buffer_unordered(CONCURRENCY);
    while let Some(read) = reading.next().await {
        read.map_err(|error| Failure::Unreachable(chain(&error)))?;
    }
    drop(reading);
    run.memory.inspected_under = stamp;
    Ok(())
}

async fn read(access: &Access, key: &Key, id: &ObjectId, version: &str) -> Result<(), ApplyError> {
    if let Some(object) = access.cluster.get(id, version, ANSWER).await? {
        access.view.note_read(key, id, &object);
    }
    Ok(())
}

/// Whether an object of ours was observed under other rules.
fn is_stale(access: &Access, id: &ObjectId, owner: &Owner, stamp: u64) -> bool {
    match access.view.get(id) {
        Presence::Present(observed) => observed.owner.as_ref() == Some(owner) && observed.stamp != stamp,
        Presence::Absent | Presence::Unknown => false,
    }
}

/// Whether the health of an object with an expression was not evaluated under the present rules.
fn is_unjudged(access: &Access, key: &Key, id: &ObjectId, stamp: u64) -> bool {
    match access.view.get_for(key, id) {
        Presence::Present(observed) => observed
            .judged_by(&owner_of(key))
            .is_none_or(|judged| judged.stamp != stamp),
        Presence::Absent | Presence::Unknown => false,
    }
}
