//! The result of every step.

use super::error::Failure;
use crate::id::ObjectId;
use crate::observed::Observed;
use crate::plan::{KeepReason, Memory, Remembered};
use std::fmt;

/// The results of a stage or of pruning. Only the executor constructs it.
#[derive(Debug, Default)]
pub struct Applied {
    pub(super) outcomes: Vec<Outcome>,
}

/// The result of one step.
#[derive(Debug)]
pub struct Outcome {
    pub(super) id: ObjectId,
    pub(super) result: Result<Done, Failure>,
}

/// A step that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The action taken.
    pub action: Action,
    /// The object from the API server's answer; `None` if there was no request, or the object is gone.
    pub observed: Option<Observed>,
    /// The digests of the apply, if there was one.
    pub remembered: Option<Remembered>,
    /// Warnings about an object that was applied.
    pub warnings: Vec<String>,
}

/// The action taken on an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The object was created.
    Created,
    /// The object was changed.
    Configured,
    /// The apply changed nothing.
    Unchanged,
    /// The object was deleted and created anew.
    Recreated,
    /// The deletion was accepted. Finalizers may still keep the object.
    Pruned,
    /// The object was left alone.
    Kept(KeepReason),
}

impl fmt::Display for Action {
    /// Flux's word where it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("created"),
            Self::Configured => f.write_str("configured"),
            Self::Unchanged => f.write_str("unchanged"),
            Self::Recreated => f.write_str("recreated"),
            Self::Pruned => f.write_str("deleted"),
            Self::Kept(reason) => write!(f, "kept ({reason})"),
        }
    }
}

impl Done {
    pub(super) fn kept(reason: KeepReason, observed: Option<Observed>) -> Self {
        Self {
            action: Action::Kept(reason),
            observed,
            remembered: None,
            warnings: Vec::new(),
        }
    }
}

impl Outcome {
    /// The object.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// The completed step.
    ///
    /// # Errors
    /// The failure of the step.
    pub fn result(&self) -> Result<&Done, &Failure> {
        self.result.as_ref()
    }
}

impl Applied {
    /// One outcome per step, in the order of the steps.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The objects that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.outcomes
            .iter()
            .filter_map(|outcome| outcome.result.as_ref().err())
    }

    /// Whether every step succeeded. If not, later stages must not be applied.
    pub fn succeeded(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.result.is_ok())
    }

    /// The written objects: created, configured, recreated, pruned.
    pub fn changes(&self) -> impl Iterator<Item = (&ObjectId, &Action)> {
        self.outcomes.iter().filter_map(|outcome| {
            let action = &outcome.result.as_ref().ok()?.action;
            (!matches!(action, Action::Unchanged | Action::Kept(_))).then_some((&outcome.id, action))
        })
    }

    /// Stores the digests of what was applied.
    pub fn remember_in(&self, memory: &mut Memory) {
        for outcome in &self.outcomes {
            if let Ok(Done {
                remembered: Some(remembered),
                ..
            }) = &outcome.result
            {
                memory.note(outcome.id.clone(), *remembered);
            }
        }
    }
}
