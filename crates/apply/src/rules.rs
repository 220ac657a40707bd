//! How the owner of an object looks at it, where that is not how everybody does.
//!
//! An owner may have words of its own for when an object is healthy (`healthCheckExprs`), and fields
//! that it does not mind others changing (`ignore`). Both are asked of the whole object, which is
//! there only when a watch or an answer brings it, so they are asked then, and what comes of it is
//! kept with what is [observed](crate::observed).
//!
//! What was observed under other rules says nothing: each [`Stamp`] is used once.

use crate::health::Health;
use crate::owner::Owner;
use crate::pointer::Pointer;
use equate_manifest::object::Object;
use std::fmt::Debug;

/// Tells rules apart; 0 are those of everybody.
pub type Stamp = u64;

/// The rules of all owners.
pub trait OwnerRules: Debug + Send + Sync {
    /// Which rules an owner has.
    fn stamp(&self, owner: &Owner) -> Stamp;

    /// The fields of an object that an owner does not mind others changing.
    fn ignored(&self, owner: &Owner, object: &Object) -> Vec<Pointer>;

    /// How healthy an object is in the words of an owner; none where it has none for it.
    fn judge(&self, owner: &Owner, object: &Object) -> Option<Health>;
}

/// Nobody has rules of its own.
impl OwnerRules for () {
    fn stamp(&self, _: &Owner) -> Stamp {
        0
    }

    fn ignored(&self, _: &Owner, _: &Object) -> Vec<Pointer> {
        Vec::new()
    }

    fn judge(&self, _: &Owner, _: &Object) -> Option<Health> {
        None
    }
}

/// How healthy an object is in somebody's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whose.
    pub by: Owner,
    /// Under which rules.
    pub stamp: Stamp,
    /// How.
    pub health: Health,
}
