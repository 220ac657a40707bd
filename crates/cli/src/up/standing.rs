//! The state of applied objects: as a watch shows it, or read from the store where no controller watches.

use equate_apiserver::cluster::{Found, Reading};
use equate_apply::health::{self, Health};
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_manifest::object::Object;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) created: Option<Timestamp>,
    pub(crate) deleting: bool,
    pub(crate) health: Health,
}

impl Standing {
    pub(crate) fn of(observed: &Observed) -> Self {
        Self {
            created: observed.created,
            deleting: observed.deleting,
            health: observed.health.clone(),
        }
    }

    fn read(object: &Object, now: Timestamp) -> Self {
        let text = |field: &str| object.metadata().and_then(|meta| meta.get(field)?.as_str());
        Self {
            created: text("creationTimestamp").and_then(|time| time.parse().ok()),
            deleting: text("deletionTimestamp").is_some(),
            health: health::compute_at(object, now),
        }
    }
}

/// The result of a look at an object that no controller watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nothing here can tell.
    Unknown,
    Absent,
    Present(Standing),
}

/// Reads objects from the store, each revision of one once.
#[derive(Debug, Default)]
pub(crate) struct Unwatched(Mutex<HashMap<ObjectId, (u64, Standing)>>);

impl Unwatched {
    /// Looks at objects for one view; forgets those that the last view did not ask for.
    pub(crate) fn look(&self, reading: Reading) -> impl Fn(&ObjectId) -> Looked + '_ {
        let known = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let now = Timestamp::now();
        move |id| {
            let entry = match reading.find((&id.group, &id.kind), &id.namespace, &id.name) {
                Found::UnknownKind => return Looked::Unknown,
                Found::Absent => return Looked::Absent,
                Found::Present(entry) => entry,
            };
            // time alone makes a pod fail
            let depends_on_time = &*id.kind == "Pod";
            let standing = match known.get(id) {
                Some((revision, standing)) if *revision == entry.revision && !depends_on_time => {
                    standing.clone()
                }
                _ => match serde_json::from_slice(&entry.encoded()) {
                    Ok(object) => Standing::read(&Object(object), now),
                    Err(_) => return Looked::Unknown,
                },
            };
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(id.clone(), (entry.revision, standing.clone()));
            Looked::Present(standing)
        }
    }
}
