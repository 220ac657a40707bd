//! What is not deleted though it is not declared any more, and why: as sentences for the status.
//!
//! A Namespace and a CustomResourceDefinition take others with them. They stay as long as somebody
//! wants an object in the one or of the other, or has one in the inventory: what another drops as
//! well goes first, and its inventory says when.

use std::collections::BTreeMap;

use equate_apply::container::Container;
use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::{KeepReason, Plan, Presence, Step};

use super::index::{Index, Need};
use crate::Key;

/// More names than this do not help anybody.
const NAMED: usize = 10;

/// Which of the objects would take with them what somebody needs.
pub(super) fn needed<'a>(
    index: &Index,
    key: &Key,
    ids: impl Iterator<Item = &'a ObjectId>,
    presence: impl Fn(&ObjectId) -> Presence,
    need: Need,
) -> BTreeMap<ObjectId, (Owner, ObjectId)> {
    ids.filter_map(|id| {
        // most objects are none: the cluster is not looked at for them
        Container::of(id, &Presence::Unknown)?;
        let container = Container::of(id, &presence(id))?;
        let (by, object) = index.needs(&container, key, need)?;
        Some((id.clone(), (Owner::new(&by.namespace, &by.name), object.clone())))
    })
    .collect()
}

/// The objects that stay for what would go with them.
pub(super) fn said(plan: &Plan) -> Option<String> {
    let mut kept = Vec::new();
    for step in &plan.prune {
        if let Step::Keep(id, KeepReason::Needed(owner, object)) = step {
            kept.push(format!(
                "{id}, with which {object} of Kustomization/{owner} would go"
            ));
        }
    }
    if kept.is_empty() {
        return None;
    }
    let more = match kept.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    kept.truncate(NAMED);
    Some(format!(
        "not deleted yet: {}{more}. It goes on when nobody declares or holds such an object",
        kept.join("; ")
    ))
}

/// Whether something stays for what would go with it.
pub(super) fn holds(plan: &Plan) -> bool {
    let needed = |step: &Step| matches!(step, Step::Keep(_, KeepReason::Needed(..)));
    plan.prune.iter().any(needed)
}
