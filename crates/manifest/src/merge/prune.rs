//! Removes fields that a manager applied before, no longer applies, and nobody else owns.

use super::{Managers, Ownership};
use crate::fieldpath::Set;
use crate::typed::{Errors, Type};
use serde_json::Value;
use std::collections::BTreeMap;

/// `managers` has the new fields of `me`; `last` its previous ones.
pub(super) fn prune<M: Ord>(
    kind: &Type,
    merged: Value,
    managers: &Managers<M>,
    me: &M,
    last: Option<&Ownership>,
) -> Result<Value, Errors> {
    let Some(last) = last.filter(|last| !last.fields.is_empty()) else {
        return Ok(merged);
    };
    // nothing was dropped, so nothing can be pruned: a configuration's set names every item and entry on the
    // way, so all parents are owned too; most applies end here
    if managers
        .get(me)
        .is_some_and(|now| last.fields.is_subset(&now.fields))
    {
        return Ok(merged);
    }
    prune_dropped(kind, &merged, managers, last)
}

pub(super) fn prune_dropped<M: Ord>(
    kind: &Type,
    merged: &Value,
    managers: &Managers<M>,
    last: &Ownership,
) -> Result<Value, Errors> {
    let last_fields = kind.ensure_named(&last.fields);
    let all = kind.ensure_named(&kind.field_set(merged)?);

    // remove everything applied last, then restore owned fields
    let mut pruned = kind.remove(merged, &last_fields);
    for owned in owned_by_version(managers, &last.api_version) {
        let kept = kind.ensure_named(&kind.field_set(&pruned)?);
        let unowned = all.difference(&kept.union(&kind.ensure_named(&owned)));
        pruned = kind.remove(merged, &unowned);
    }

    // restore fields that were removed along but were never applied by this manager
    let kept = kind.ensure_named(&kind.field_set(&pruned)?);
    Ok(kind.remove(merged, &all.difference(&kept).intersection(&last_fields)))
}

/// The union of the managers' sets per API version, the version of the last apply first.
fn owned_by_version<M: Ord>(managers: &Managers<M>, first: &str) -> Vec<Set> {
    let mut versions: BTreeMap<(bool, &str), Set> = BTreeMap::new();
    for owned in managers.values() {
        let version = versions
            .entry((owned.api_version != first, &owned.api_version))
            .or_default();
        *version = version.union(&owned.fields);
    }
    versions.into_values().collect()
}
