//! Reads stored objects without a request, for views in the same process.

use crate::pipeline::View;
use crate::store::{Entry, Key};
use std::sync::Arc;

/// The objects of a cluster at one revision.
#[derive(Debug)]
pub struct Reading(View);

/// The result of a look at the store.
#[derive(Debug, Clone)]
pub enum Found {
    /// The API stores no such kind.
    UnknownKind,
    /// There is no such object.
    Absent,
    /// The object in its stored version.
    Present(Arc<Entry>),
}

impl Reading {
    pub(super) fn new(view: View) -> Self {
        Self(view)
    }

    /// An object by its kind; without a namespace if it is cluster-scoped.
    pub fn find(&self, (group, kind): (&str, &str), namespace: &str, name: &str) -> Found {
        let Some(resource) = self.0.registry.by_kind(group, kind) else {
            return Found::UnknownKind;
        };
        let key = Key::new(&resource.storage(), namespace, name);
        match self.0.snapshot.get(&key) {
            Some(entry) => Found::Present(Arc::clone(entry)),
            None => Found::Absent,
        }
    }
}
