//! What was done, object by object.

use super::error::Failure;
use crate::id::ObjectId;
use crate::observed::Observed;
use crate::plan::{KeepReason, Memory, Remembered};
use std::fmt;

/// What came of the steps of a stage, or of pruning. Made by the executor only.
#[derive(Debug, Default)]
pub struct Applied {
    pub(super) outcomes: Vec<Outcome>,
}

/// What came of one step.
#[derive(Debug)]
pub struct Outcome {
    pub(super) id: ObjectId,
    pub(super) result: Result<Done, Failure>,
}

/// One object that is dealt with.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// What was done.
    pub action: Action,
    /// The object as the API server answered it; none when it was not asked about, or is gone.
    pub observed: Option<Observed>,
    /// What was sent and what we held afterwards, when something was applied.
    pub remembered: Option<Remembered>,
    /// What a reader of the manifest should know although it was applied.
    pub warnings: Vec<String>,
}

/// What was done to an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// It was not there.
    Created,
    /// It was changed.
    Configured,
    /// It was applied, and that changed nothing.
    Unchanged,
    /// It was deleted and created anew.
    Recreated,
    /// Its deletion was accepted. It may still be there for its finalizers.
    Pruned,
    /// It was left alone.
    Kept(KeepReason),
}

impl fmt::Display for Action {
    /// Flux's words where it has one.
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

    /// What was done, or why it was not.
    ///
    /// # Errors
    /// Why it was not.
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

    /// The objects that were written: created, configured, recreated, pruned.
    pub fn changes(&self) -> impl Iterator<Item = (&ObjectId, &Action)> {
        self.outcomes.iter().filter_map(|outcome| {
            let action = &outcome.result.as_ref().ok()?.action;
            (!matches!(action, Action::Unchanged | Action::Kept(_))).then_some((&outcome.id, action))
        })
    }

    /// Remembers what was applied.
    pub fn note_in(&self, memory: &mut Memory) {
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
