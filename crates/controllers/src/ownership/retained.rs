//! Status messages for objects that are kept although they are not declared any more.
//!
//! A Namespace and a CustomResourceDefinition take others with them. They stay while an owner wants or
//! holds an object inside. Objects that another owner drops as well go first, and its inventory shows
//! when.

use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::{KeepReason, Plan, Step};

use crate::ObjectRef;

/// A longer list helps no reader.
const NAMED: usize = 10;

pub(crate) fn containers_kept(plan: &Plan) -> Option<String> {
    let mut kept = Vec::new();
    for step in &plan.prune {
        if let Step::Keep(id, KeepReason::Needed(owner, object)) = step {
            kept.push(format!("{id}, needed by {object} of {}", ObjectRef::from(owner)));
        }
    }
    let kept = listed(kept)?;
    Some(format!(
        "not deleted yet: {kept}. It is deleted when no owner declares or holds such an object"
    ))
}

/// The objects handed over to an owner that has not taken them; `reason` returns its reason.
pub(crate) fn untaken(
    plan: &Plan,
    reason: impl Fn(&ObjectId, &Owner) -> Option<&'static str>,
) -> Option<String> {
    let mut kept = Vec::new();
    for step in &plan.prune {
        if let Step::Keep(id, KeepReason::HandedOver(owner)) = step
            && let Some(why) = reason(id, owner)
        {
            kept.push(format!("{id}, for {}, which {why}", ObjectRef::from(owner)));
        }
    }
    let kept = listed(kept)?;
    Some(format!(
        "not deleted, and not taken over yet: {kept}. It leaves the inventory when that owner takes it or no longer declares it"
    ))
}

/// The objects that stay in the cluster when their Kustomization is deleted, with reasons.
pub(crate) fn left(plan: &Plan) -> Option<String> {
    let stays = plan.prune.iter().filter(|step| match step {
        Step::Keep(_, KeepReason::Gone | KeepReason::Deleting) => false,
        step => !step.acts(),
    });
    listed(stays.map(ToString::to_string).collect())
}

fn listed(mut kept: Vec<String>) -> Option<String> {
    let more = match kept.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    kept.truncate(NAMED);
    (!kept.is_empty()).then(|| format!("{}{more}", kept.join("; ")))
}

pub(crate) fn holds(plan: &Plan) -> bool {
    let needed = |step: &Step| matches!(step, Step::Keep(_, KeepReason::Needed(..)));
    plan.prune.iter().any(needed)
}
