//! A bound on the number of updaters that an object records.

use super::entries::{Identity, Managed, Operation};
use std::collections::BTreeMap;

const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Merges the oldest updaters of each API version until few enough are left. Applies are never merged: a
/// manager may apply its configuration again.
pub(super) fn cap_updaters(managed: &mut Managed) {
    let mut updaters: Vec<Identity> = managed
        .owners
        .iter()
        .filter(|(_, owned)| !owned.applied)
        .map(|(identity, _)| identity.clone())
        .collect();
    let mut left = updaters.len();
    if left <= UPDATERS_MAX {
        return;
    }
    updaters.sort_by(|a, b| (managed.times.get(a), a).cmp(&(managed.times.get(b), b)));

    // The first of a version is kept until a second shows that merging gains anything.
    let mut first_of: BTreeMap<String, Identity> = BTreeMap::new();
    for updater in updaters {
        if left <= UPDATERS_MAX {
            return;
        }
        let Some(owned) = managed.owners.get(&updater) else {
            continue;
        };
        let version = owned.api_version.clone();
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, updater);
            continue;
        };
        let bucket = Identity {
            manager: ANCIENT.to_owned(),
            operation: Operation::Update,
            api_version: Some(version),
            subresource: String::new(),
        };
        if updater == bucket {
            // Upstream drops the bucket's fields here, apparently by oversight.
            continue;
        }
        if !managed.owners.contains_key(&bucket)
            && let Some(owned) = managed.owners.remove(first)
        {
            managed.owners.insert(bucket.clone(), owned);
        }
        if let Some(owned) = managed.owners.remove(&updater)
            && let Some(ancient) = managed.owners.get_mut(&bucket)
        {
            ancient.fields = ancient.fields.union(&owned.fields);
        }
        left -= 1;
        match managed.times.get(&updater).cloned() {
            Some(time) => managed.times.insert(bucket, time),
            None => managed.times.remove(&bucket),
        };
    }
}
