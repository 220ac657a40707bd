//! An owner's own rules for its objects.
//!
//! An owner may have its own health checks (`healthCheckExprs`) and ignored fields (`ignore`). Both need
//! the whole object, which exists only in a watch event or an answer. So they are evaluated then, and the
//! result is kept in [observed](crate::observed).
//!
//! An observation under other rules is void: each [`Stamp`] is used once.

use crate::health::Health;
use crate::owner::Owner;
use crate::pointer::Pointer;
use equate_manifest::object::Object;
use std::fmt::Debug;

/// The version of rules; 0 for the default.
pub type Stamp = u64;

/// The rules of all owners.
pub trait OwnerRules: Debug + Send + Sync {
    /// The version of an owner's rules.
    fn stamp(&self, owner: &Owner) -> Stamp;

    /// The fields of an object whose drift an owner ignores.
    fn ignored(&self, owner: &Owner, object: &Object) -> Vec<Pointer>;

    /// The health of an object by an owner's rules; `None` without a rule for it.
    fn judge(&self, owner: &Owner, object: &Object) -> Option<Health>;
}

/// No owner has rules of its own.
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

/// The health of an object by an owner's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerHealth {
    /// The owner.
    pub by: Owner,
    /// The version of the rules.
    pub stamp: Stamp,
    /// The health.
    pub health: Health,
}
