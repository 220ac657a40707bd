//! Types that all groups share: names, references, durations, conditions.

mod condition;
mod duration;
pub mod names;
mod patch;
mod reference;

#[cfg(test)]
mod tests;

pub use condition::{
    Condition, ConditionStatus, ConditionType, MESSAGE_CHARACTERS_MAX, Reason, condition, is_true,
    remove_condition, set_condition,
};
pub use duration::{Duration, DurationError};
pub use names::*;
pub use patch::merge_patch;
pub use reference::{
    AccessFrom, CommonMetadata, CrossNamespaceReference, DependencyReference, Image, KubeConfigReference,
    LocalReference, NamespaceSelector, NamespacedReference, Patch, SecretKeyReference, Selector,
};
