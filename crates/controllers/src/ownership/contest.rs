//! A conflict between two owners.

use std::fmt;

use equate_apply::id::ObjectId;

use crate::ObjectRef;

/// An object that two owners declare, of one kind or of two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contest {
    /// The object.
    pub id: ObjectId,
    /// The other owner.
    pub other: ObjectRef,
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (also declared by {})", self.id, self.other)
    }
}
