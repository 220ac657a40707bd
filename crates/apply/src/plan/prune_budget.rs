//! How much one revision may delete before somebody has to say that it is meant.
//!
//! What git drops by mistake (a file left out of a `kustomization.yaml`, a prefix that renames
//! everything) is dropped as a whole. So a plan that deletes more of what is held than the budget
//! allows deletes nothing. Objects that only move elsewhere, that are gone already or that may not be
//! pruned anyway are no deletions and do not count.

use super::{KeepReason, Step};
use crate::id::ObjectId;
use std::fmt;
use std::str::FromStr;

/// Where nothing is said, fewer objects than this may all go: that is a small change.
const SMALL: usize = 10;
const USUAL: Budget = Budget::Percent(50);

/// How much may be deleted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Budget {
    /// So many objects.
    Objects(usize),
    /// This share of what is held, 0 to 100.
    Percent(u8),
}

/// What is no budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no number of objects, such as 20, and no share of them from 0% to 100%, such as 50%")]
pub struct BudgetError {
    text: String,
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let error = || BudgetError {
            // long enough to be recognised
            text: text.chars().take(40).collect(),
        };
        // `parse` takes a sign
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(error());
        }
        match text.strip_suffix('%') {
            None => text.parse().map(Budget::Objects).map_err(|_| error()),
            Some(percent) => match percent.parse() {
                Ok(percent) if percent <= 100 => Ok(Budget::Percent(percent)),
                _ => Err(error()),
            },
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(1) => f.write_str("1 object"),
            Self::Objects(number) => write!(f, "{number} objects"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What a plan is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneBudgetCheck {
    /// What is said; without it half of what is held, where that is more than ten objects.
    pub budget: Option<Budget>,
    /// How many objects are held.
    pub held: usize,
}

impl PruneBudgetCheck {
    /// Whether so many may not be deleted.
    pub fn stops(&self, deletions: usize) -> bool {
        let budget = match self.budget {
            Some(budget) => budget,
            None if self.held > SMALL => USUAL,
            None => return false,
        };
        match budget {
            Budget::Objects(number) => deletions > number,
            Budget::Percent(percent) => {
                deletions.saturating_mul(100) > self.held.saturating_mul(usize::from(percent))
            }
        }
    }

    /// Keeps what would be deleted, if that is too much.
    pub(super) fn hold(&self, prune: &mut [Step]) -> Option<Exceeded> {
        let objects: Vec<ObjectId> = prune
            .iter()
            .filter(|step| step.acts())
            .map(|step| step.id().clone())
            .collect();
        if !self.stops(objects.len()) {
            return None;
        }
        for step in prune.iter_mut().filter(|step| step.acts()) {
            *step = Step::Keep(step.id().clone(), KeepReason::OverBudget);
        }
        Some(Exceeded {
            objects,
            held: self.held,
            budget: self.budget,
        })
    }
}

/// A plan that deletes more than it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// What it would delete.
    pub objects: Vec<ObjectId>,
    /// How many objects are held.
    pub held: usize,
    /// The budget that was said, if one was.
    pub budget: Option<Budget>,
}

impl Exceeded {
    /// More names than this do not help anybody.
    const NAMED: usize = 10;

    /// The first of them, and how many more there are.
    pub fn named(&self) -> String {
        let mut text = String::new();
        for id in self.objects.iter().take(Self::NAMED) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&id.to_string());
        }
        match self.objects.len().saturating_sub(Self::NAMED) {
            0 => text,
            more => format!("{text} and {more} more"),
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, held) = (self.objects.len(), self.held);
        write!(
            f,
            "{number} of {held} objects would be deleted, and the prune budget is "
        )?;
        match self.budget {
            Some(budget) => write!(f, "{budget}"),
            None => write!(f, "{USUAL}"),
        }
    }
}
