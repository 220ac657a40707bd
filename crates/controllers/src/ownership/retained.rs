//! What is not deleted though it is not declared any more, and why: as sentences for the status.
//!
//! A Namespace and a CustomResourceDefinition take others with them. They stay as long as somebody
//! wants an object in the one or of the other, or has one in the inventory: what another drops as
//! well goes first, and its inventory says when.

use equate_apply::id::ObjectId;
use equate_apply::owner::Owner;
use equate_apply::plan::{KeepReason, Plan, Step};

use crate::ObjectRef;

/// More names than this do not help anybody.
const NAMED: usize = 10;

/// The objects that stay for what would go with them.
pub(crate) fn said(plan: &Plan) -> Option<String> {
    let mut kept = Vec::new();
    for step in &plan.prune {
        if let Step::Keep(id, KeepReason::Needed(owner, object)) = step {
            kept.push(format!(
                "{id}, with which {object} of {} would go",
                ObjectRef::from(owner)
            ));
        }
    }
    let kept = listed(kept)?;
    Some(format!(
        "not deleted yet: {kept}. It goes on when nobody declares or holds such an object"
    ))
}

/// The objects that another is to take and does not, with what `trouble` knows of that.
pub(crate) fn untaken(
    plan: &Plan,
    trouble: impl Fn(&ObjectId, &Owner) -> Option<&'static str>,
) -> Option<String> {
    let mut kept = Vec::new();
    for step in &plan.prune {
        if let Step::Keep(id, KeepReason::HandedOver(owner)) = step
            && let Some(why) = trouble(id, owner)
        {
            kept.push(format!("{id}, for {}, which {why}", ObjectRef::from(owner)));
        }
    }
    let kept = listed(kept)?;
    Some(format!(
        "not deleted, and not taken yet: {kept}. It goes when it is taken, or not declared there any more"
    ))
}

/// What stays in the cluster when its Kustomization goes, and why.
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

/// Whether something stays for what would go with it.
pub(crate) fn holds(plan: &Plan) -> bool {
    let needed = |step: &Step| matches!(step, Step::Keep(_, KeepReason::Needed(..)));
    plan.prune.iter().any(needed)
}
