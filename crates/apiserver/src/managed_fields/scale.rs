//! Field ownership at the `scale` endpoint.
//!
//! A Scale shows one field of its parent. Its `managedFields` are the parent's entries that own the
//! replicas, in terms of Scale. A write to it is recorded on the parent under the request's subresource.
//! The replicas' path is assumed to be the same in all versions of the parent.

use super::entries::{DecodeError, Managed};
use equate_manifest::fieldpath::{Path, Set};
use equate_manifest::merge::Ownership;
use serde_json::Value;

const SCALE: &str = "autoscaling/v1";
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// A Scale's `managedFields`, from its parent's; `replicas` is the parent's path. `None` if nobody owns
/// them.
pub(crate) fn to_scale(parent: Option<&Value>, replicas: &[&str]) -> Result<Option<Value>, DecodeError> {
    let mut managed = Managed::decode(parent)?;
    let path = Path::fields(replicas);
    managed.owners.retain(|_, owned| owned.fields.has(&path.0));
    for owned in managed.owners.values_mut() {
        owned.fields = Set::of(&[Path::fields(&REPLICAS)]);
        owned.api_version = SCALE.to_owned();
    }
    Ok(managed.to_entries())
}

/// The parent's `managedFields` after a write to its Scale, whose own are `scale`. Managers that are new to
/// the parent have no time, as upstream.
pub(crate) fn to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    replicas: &[&str],
) -> Result<Option<Value>, DecodeError> {
    let mut managed = Managed::decode(parent)?;
    let mut scale = Managed::decode(scale)?;
    let path = Path::fields(replicas);
    let only = Set::of([&path]);
    for (identity, owned) in &mut managed.owners {
        // Scale's update entries carry Scale's version, the identities the parent's.
        if owned.fields.has(&path.0) && scale.take_like(identity).is_none() {
            owned.fields = owned.fields.difference(&only);
        }
    }
    managed.owners.retain(|_, owned| !owned.fields.is_empty());
    let in_scale = Path::fields(&REPLICAS);
    for (identity, owned) in scale.owners {
        if owned.fields.has(&in_scale.0) {
            let owned = Ownership {
                fields: only.clone(),
                api_version: api_version.to_owned(),
                applied: owned.applied,
            };
            managed.owners.insert(identity.in_version(api_version), owned);
        }
    }
    Ok(managed.to_entries())
}
