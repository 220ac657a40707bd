//! The prune budget: how much one revision may delete without confirmation.
//!
//! Mistakes in git (a file left out of a `kustomization.yaml`, a prefix that renames everything) drop
//! many objects at once. So a plan that exceeds the budget deletes nothing. Objects that move to another
//! owner, are gone, or must not be pruned do not count.

use super::{KeepReason, Step};
use crate::id::ObjectId;
use std::fmt;
use std::str::FromStr;

/// Without a budget, fewer objects than this may all be deleted.
const SMALL: usize = 10;
const USUAL: Budget = Budget::Percent(50);

/// How much may be deleted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Budget {
    /// A number of objects.
    Objects(usize),
    /// A share of the inventory, 0 to 100.
    Percent(u8),
}

/// An invalid budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid prune budget {text:?}: give a number of objects, such as 20, or a percentage, such as 50%")]
pub struct BudgetError {
    text: String,
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let error = || BudgetError {
            // enough to recognise it
            text: text.chars().take(40).collect(),
        };
        // `parse` accepts a sign
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

/// The budget of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneBudgetCheck {
    /// The configured budget; the default is half of the inventory if it has more than ten objects.
    pub budget: Option<Budget>,
    /// The size of the inventory.
    pub held: usize,
}

impl PruneBudgetCheck {
    /// Whether this many deletions exceed the budget.
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

    /// Keeps all objects to delete if they exceed the budget.
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

/// A plan that exceeds its budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// The objects to delete.
    pub objects: Vec<ObjectId>,
    /// The size of the inventory.
    pub held: usize,
    /// The configured budget.
    pub budget: Option<Budget>,
}

impl Exceeded {
    const NAMED: usize = 10;

    /// The first names, and the number of others.
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
