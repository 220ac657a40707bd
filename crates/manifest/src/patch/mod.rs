//! The three patch formats for a Kubernetes object.
//!
//! | module | content type | rules |
//! |---|---|---|
//! | [`json`] | `application/json-patch+json` | RFC 6902 as `evanphx/json-patch` v4.13 reads it |
//! | [`merge`] | `application/merge-patch+json` | RFC 7386, same library |
//! | [`strategic`] | `application/strategic-merge-patch+json` | `k8s.io/apimachinery` 0.36 `strategicpatch` |
//!
//! Server-side apply is `crate::merge`. Callers default, prune and validate the result.

pub mod json;
pub mod merge;
pub mod strategic;

#[cfg(test)]
mod tests;
