//! What is remembered of a live object: a few words instead of all of it.

use crate::health::{self, Health};
use crate::owned::{self, Digest};
use crate::owner::{FIELD_MANAGER, Owner};
use crate::policy::Policy;
use crate::takeover;
use equate_manifest::object::Object;
use serde_json::Value;

/// A live object, as far as planning and reporting need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Option<jiff::Timestamp>,
    /// `metadata.generation`; 0 where the kind has none.
    pub generation: i64,
    /// Whose its labels say it is.
    pub owner: Option<Owner>,
    /// The digest of what we hold of it.
    pub owned: Digest,
    /// Whether it does what it was applied for.
    pub health: Health,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its own wishes, as they are in the cluster: anyone may set them there.
    pub policy: Policy,
    /// Whether it carries what `kubectl` left behind and an apply takes over.
    pub kubectl: bool,
    /// The other manager that wrote it last: who to name when our fields were overwritten.
    pub other_writer: Option<String>,
}

impl Observed {
    /// Observes an object that came from the cluster, with its `managedFields`.
    pub fn of(live: &Object) -> Observed {
        let text = |key: &str| {
            let value = live.metadata().and_then(|m| m.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let metadata = |key: &str| live.metadata().and_then(|m| m.get(key));
        Observed {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            created: text("creationTimestamp").parse().ok(),
            generation: metadata("generation").and_then(Value::as_i64).unwrap_or_default(),
            owner: Owner::of(live),
            owned: owned::owned(live),
            health: health::compute(live),
            deleting: metadata("deletionTimestamp").is_some_and(|t| !t.is_null()),
            policy: Policy::of(live),
            kubectl: takeover::needed(live),
            other_writer: other_writer(live),
        }
    }
}

/// The latest entry that is not ours and not about status; autoscalers write through `scale`. Times are RFC 3339 in
/// UTC, so text order is time order.
fn other_writer(live: &Object) -> Option<String> {
    let entries = live.metadata()?.get("managedFields")?.as_array()?;
    let text = |entry: &Value, key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    entries
        .iter()
        .filter(|entry| text(entry, "manager") != FIELD_MANAGER && text(entry, "subresource") != "status")
        .max_by_key(|entry| text(entry, "time"))
        .map(|entry| text(entry, "manager"))
}
