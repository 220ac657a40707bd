//! Plans as text: one line per step, and one per known field change.

use super::{EmptyRender, Guard, KeepReason, PatchReason, Plan, Step};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.steps() {
            writeln!(f, "{step}")?;
        }
        match &self.guard {
            Some(guard) => writeln!(f, "{guard}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(id) => write!(f, "create {id}"),
            Self::Patch {
                id, reason, changes, ..
            } => {
                write!(f, "patch {id} ({reason})")?;
                changes.iter().try_for_each(|change| write!(f, "\n    {change}"))
            }
            Self::Recreate { id, why } => write!(f, "recreate {id} ({why})"),
            Self::Prune { id, .. } => write!(f, "prune {id}"),
            Self::Keep(id, reason) => write!(f, "keep {id} ({reason})"),
        }
    }
}

impl fmt::Display for PatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed",
            Self::Drifted => "drifted",
            Self::Takeover => "taken over from kubectl",
            Self::NotSeen => "not seen yet",
        })
    }
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("unchanged"),
            Self::Ignored => f.write_str("ignored by its annotations"),
            Self::Present => f.write_str("exists, and is never changed"),
            Self::Deleting => f.write_str("being deleted"),
            Self::HeldBy(owner) => write!(f, "owned by {} {owner}", owner.kind.kind),
            Self::OwnLoop => f.write_str("part of the bootstrap itself"),
            Self::DriftBackoff { writer: Some(writer) } => {
                write!(f, "{writer} keeps changing it, correction is delayed")
            }
            Self::DriftBackoff { writer: None } => f.write_str("it keeps changing, correction is delayed"),
            Self::PruneDisabled => f.write_str("pruning is disabled for it"),
            Self::PruneOff => f.write_str("pruning is off for its owner"),
            Self::NotOurs(Some(owner)) => write!(f, "belongs to {} {owner}", owner.kind.kind),
            Self::NotOurs(None) => f.write_str("its labels name no owner"),
            Self::HandedOver(owner) => write!(f, "handed over to {} {owner}", owner.kind.kind),
            Self::Awaited(owner) => write!(
                f,
                "not pruned until it is known what {} {owner} declares",
                owner.kind.kind
            ),
            Self::Needed(owner, object) => write!(
                f,
                "not pruned while {} {owner} has {object}, which would be deleted with it",
                owner.kind.kind
            ),
            Self::OverBudget => f.write_str("not pruned, the prune budget is exceeded"),
            Self::Gone => f.write_str("already gone"),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyRender(empty) => write!(f, "{empty}"),
            Self::Budget(exceeded) => write!(f, "{exceeded}: none is deleted"),
        }
    }
}

impl fmt::Display for EmptyRender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, revision) = (self.objects, &self.revision);
        write!(
            f,
            "revision {revision} renders no objects, so {objects} would be pruned: nothing is; \
             annotate with equate.dev/allow-empty: {revision} if it is meant"
        )
    }
}
