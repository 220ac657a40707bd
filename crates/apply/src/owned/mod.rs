//! The digest of the fields we own: it detects unchanged and drifted objects without a request.
//!
//! The API server records in `metadata.managedFields` which fields our applies set. [`owned`] hashes
//! those fields of a live object; [`desired`] hashes the desired object in the same canonical form. Equal
//! digests mean that an apply would change nothing. No schema is needed: `FieldsV1` describes the
//! ownership of lists and maps.
//!
//! Digests may differ although nothing would change, where the API server stores a value in another form
//! or fills in an empty map. So the digest of the answer to our own apply is remembered
//! ([`crate::plan::Memory`]) and compared first. The opposite error needs a hash collision: the digest
//! covers everything an apply would change.
//!
//! It does not tell which field differs: that needs both objects ([`crate::difference`]).

mod canonical;
mod walk;

#[cfg(test)]
mod tests;

pub use canonical::Digest;
pub(crate) use walk::is_apply_of;

use crate::pointer::{self, Pointer};
use equate_manifest::fieldpath::UNOWNED_METADATA;
use equate_manifest::object::Object;
use serde_json::{Map, Value};

/// The digest of the fields a manager owns by apply; of nothing if it owns none.
pub fn owned(live: &Object, manager: &str) -> Digest {
    owned_but(live, manager, &[])
}

/// Same as [`owned`], without the ignored fields.
pub fn owned_but(live: &Object, manager: &str, ignored: &[Pointer]) -> Digest {
    Digest::of(|hash| match walk::extract(&live.0, manager, ignored) {
        Some(tree) => tree.hash(hash),
        None => canonical::hash_empty(hash),
    })
}

/// The fields a manager owns by apply, with their live values. Lists have only its items.
pub fn owned_fields(live: &Object, manager: &str) -> Value {
    walk::extract(&live.0, manager, &[]).map_or_else(|| Value::Object(Map::new()), |tree| tree.to_value())
}

/// Whether another manager applies the field at a pointer.
pub(crate) fn applied_by_another(live: &Object, manager: &str, pointer: &Pointer) -> bool {
    walk::applied_by_another(&live.0, manager, pointer.steps())
}

/// The digest of a desired object without the ignored fields.
pub fn desired_but(object: &Object, ignored: &[Pointer]) -> Digest {
    match ignored {
        [] => desired(object),
        ignored => desired(&Object(pointer::without_in(&object.0, &pointer::left(ignored)))),
    }
}

/// The digest of a desired object.
pub fn desired(object: &Object) -> Digest {
    let sent = |(key, value): &(&String, &Value)| match (key.as_str(), value) {
        ("apiVersion" | "kind" | "status", _) => false,
        ("metadata", Value::Object(metadata)) => metadata.keys().any(|key| booked(key)),
        _ => true,
    };
    Digest::of(|hash| {
        canonical::hash_map(hash, object.0.iter().filter(sent), |hash, key, value| {
            match (key, value) {
                ("metadata", Value::Object(metadata)) => canonical::hash_map(
                    hash,
                    metadata.iter().filter(|(key, _)| booked(key)),
                    |hash, _, value| canonical::hash(hash, value),
                ),
                _ => canonical::hash(hash, value),
            }
        });
    })
}

fn booked(key: &str) -> bool {
    !UNOWNED_METADATA.contains(&key)
}
