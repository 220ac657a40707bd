//! The three patches a Kubernetes object can be sent.
//!
//! | module | content type | rules |
//! |---|---|---|
//! | [`json`] | `application/json-patch+json` | RFC 6902 as `evanphx/json-patch` v4.13 reads it |
//! | [`merge`] | `application/merge-patch+json` | RFC 7386, same library |
//! | [`strategic`] | `application/strategic-merge-patch+json` | `k8s.io/apimachinery` 0.36 `strategicpatch` |
//!
//! Server-side apply is not a patch of this sort: it is `crate::merge`.
//! Defaulting, pruning and validation of the outcome are the caller's.

pub mod json;
pub mod merge;
pub mod strategic;

#[cfg(test)]
mod tests;
