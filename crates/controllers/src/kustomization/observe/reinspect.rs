//! Reads objects again when the rules of their Kustomization change, or when their health was not evaluated.
//!
//! The known state of an object was computed under the rules of that time (`rules`). When they change, each
//! object is read once: one request per object at a change of the spec. Callbacks leave out the health of objects
//! whose tenant has no time left there: it is evaluated here, on a processor.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules as _;
use futures::StreamExt as _;

use crate::Key;
use crate::kit::read::chain;
use crate::kit::watcher::Kind;
use crate::kustomization::declared::Declared;
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
    let is_new = memory.inspected_under != stamp;
    let is_unjudged = |id: &ObjectId| cx.rules.judges(&key, id) && is_unjudged(access, &key, id, stamp);
    let held = ids.filter(|id| (is_new && is_stale(access, id, &owner, stamp)) || is_unjudged(id));
    let mut stale: Vec<ObjectId> = held.cloned().collect();
    let checks = memory.record.iter().flat_map(|record| &record.checks);
    stale.extend(checks.filter(|id| is_unjudged(id)).cloned());
    read_all(cx, run, stale, versions).await?;
    run.memory.inspected_under = stamp;
    Ok(())
}

/// Evaluates the health of held, awaited and given objects where a callback left it out.
pub(in crate::kustomization) async fn judge(
    cx: &Kustomizations,
    run: &Run<'_>,
    ks: &Declared,
    ids: impl Iterator<Item = &ObjectId>,
) -> Result<(), Failure> {
    let key = run.key();
    if !cx.rules.has_health(key) {
        return Ok(());
    }
    let stamp = cx.rules.stamp(&owner_of(key));
    let access = cx.access(&run.memory);
    let is_unjudged = |id: &&ObjectId| cx.rules.judges(key, id) && is_unjudged(access, key, id, stamp);
    let mut unjudged: Vec<ObjectId> = ids.filter(is_unjudged).cloned().collect();
    if let Some(record) = &run.memory.record {
        let held = record.objects.iter().map(|held| &held.id).chain(&record.checks);
        unjudged.extend(held.filter(is_unjudged).cloned());
    }
    if unjudged.is_empty() {
        return Ok(());
    }
    let held: Vec<(Kind, &str)> = ks
        .inventory
        .iter()
        .map(|(id, version)| (Kind::of(id), version))
        .collect();
    read_all(cx, run, unjudged, &held.into_iter().collect()).await
}

async fn read_all(
    cx: &Kustomizations,
    run: &Run<'_>,
    mut ids: Vec<ObjectId>,
    versions: &HashMap<Kind, &str>,
) -> Result<(), Failure> {
    ids.sort();
    ids.dedup();
    let mut reading = Vec::with_capacity(ids.len());
    for id in &ids {
        let version = versions.get(&Kind::of(id)).copied().unwrap_or_default();
        reading.push(read(cx, run, id, version));
    }
    let mut reading = futures::stream::iter(reading).buffer_unordered(CONCURRENCY);
    while let Some(read) = reading.next().await {
        read?;
    }
    Ok(())
}

async fn read(cx: &Kustomizations, run: &Run<'_>, id: &ObjectId, version: &str) -> Result<(), Failure> {
    let (access, key) = (cx.access(&run.memory), run.key().clone());
    let read = access.cluster.get(id, version, ANSWER).await;
    let read = read.map_err(|error| Failure::Unreachable(chain(&error)))?;
    let Some(object) = read else { return Ok(()) };
    if !cx.rules.judges(&key, id) {
        access.view.note_read(&key, id, &object, &*cx.rules);
        return Ok(());
    }
    let (view, id, rules) = (access.view.clone(), id.clone(), Arc::clone(&cx.rules));
    let namespace = key.namespace.clone();
    let judging = cx.kit.processors.run(&namespace, move || {
        view.note_read(&key, &id, &object, &*rules);
    });
    let judged = judging.done().await;
    judged.map_err(|error| Failure::Unreachable(format!("cannot evaluate the health of an object: {error}")))
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
