//! What we own of an object, as a digest: how unchanged and drifted objects are told without asking.
//!
//! The API server books in `metadata.managedFields` which fields our applies set. [`owned`] takes
//! exactly those fields out of a live object and hashes them; [`desired`] hashes an object as git
//! wants it, in the same canonical form. Equal digests mean that an apply would change nothing. It
//! needs no schema: `FieldsV1` says how lists and maps are owned.
//!
//! The digests may differ although nothing would change, where the API server stores a value in
//! another form than it was sent in, or fills in an empty map. So the digest of an answer to our own
//! apply is remembered ([`crate::plan::Memory`]) and compared first. The other error is impossible
//! but for a collision of hashes: what an apply would change is in the digest.
//!
//! It refuses to say which field differs: for that both objects are needed ([`crate::difference`]).

mod canonical;
mod walk;

#[cfg(test)]
mod tests;

pub use canonical::Digest;
pub(crate) use walk::is_apply_of;

use crate::pointer::{self, Pointer};
use equate_manifest::object::Object;
use serde_json::{Map, Value};

/// Metadata that the API server never books as anybody's field.
const UNBOOKED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The digest of the fields that a field manager holds by apply; that of nothing if it holds none.
pub fn owned(live: &Object, manager: &str) -> Digest {
    owned_but(live, manager, &[])
}

/// The same without some of them.
pub fn owned_but(live: &Object, manager: &str, ignored: &[Pointer]) -> Digest {
    Digest::of(|hash| match walk::extract(&live.0, manager, ignored) {
        Some(tree) => tree.hash(hash),
        None => canonical::hash_empty(hash),
    })
}

/// The fields that a field manager holds by apply, with their live values. Lists hold only its items.
pub fn owned_fields(live: &Object, manager: &str) -> Value {
    walk::extract(&live.0, manager, &[]).map_or_else(|| Value::Object(Map::new()), |tree| tree.to_value())
}

/// Whether somebody but a field manager applies what stands at a place.
pub(crate) fn applied_by_another(live: &Object, manager: &str, pointer: &Pointer) -> bool {
    walk::applied_by_another(&live.0, manager, pointer.steps())
}

/// The digest of an object as it is sent, without some of its fields.
pub fn desired_but(object: &Object, ignored: &[Pointer]) -> Digest {
    match ignored {
        [] => desired(object),
        ignored => desired(&Object(pointer::without_in(&object.0, &pointer::left(ignored)))),
    }
}

/// The digest of an object as it is sent.
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
    !UNBOOKED.contains(&key)
}
