//! Snapshots: the state at one revision.
//!
//! An old state is computed from the newest one by undoing later events, per resource and on first use;
//! events carry the previous object because watches with selectors need it. So writes pay nothing for
//! history, and a page of a list costs one step per change since its first page.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use super::state::{Objects, State};
use super::{Entry, Key, ObjectPath, ResourceId};

/// The state at one revision. Cheap to clone and to keep.
#[derive(Clone)]
pub struct Snapshot {
    revision: u64,
    state: Arc<State>,
    /// The resources that changed since, undone when first read.
    past: Arc<BTreeMap<ResourceId, OnceLock<Objects>>>,
}

impl Snapshot {
    pub(super) fn newest(state: Arc<State>) -> Self {
        Self {
            revision: state.revision,
            state,
            past: Arc::default(),
        }
    }

    pub(super) fn at(state: Arc<State>, revision: u64) -> Self {
        let past = state
            .resources()
            .filter(|(_, resource_state)| resource_state.modified > revision)
            .map(|(resource, _)| (resource.clone(), OnceLock::new()))
            .collect();
        Self {
            revision,
            state,
            past: Arc::new(past),
        }
    }

    /// Its revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The object at the key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.objects(&key.resource)?.get(&key.path())
    }

    /// The objects of a resource in list order; of one namespace if given.
    pub fn list<'a>(
        &'a self,
        resource: &ResourceId,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a ObjectPath, &'a Arc<Entry>)> + use<'a> {
        self.list_from(resource, namespace, "")
    }

    /// As [`list`](Self::list), from the path `start` on. A trailing NUL, as in a `continue` token,
    /// excludes the object at the path itself.
    pub fn list_from<'a>(
        &'a self,
        resource: &ResourceId,
        namespace: Option<&str>,
        start: &str,
    ) -> impl Iterator<Item = (&'a ObjectPath, &'a Arc<Entry>)> + use<'a> {
        let (first, end) = match namespace {
            None | Some("") => (String::new(), None),
            // '0' is the byte after '/'
            Some(namespace) => (format!("{namespace}/"), Some(format!("{namespace}0"))),
        };
        let first = first.as_str().max(start);
        // a range may not end before it starts
        let end = end.as_deref().map(|end| end.max(first));
        let range = (
            Bound::Included(first),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        self.objects(resource)
            .map(|objects| objects.range::<_, str>(range))
            .into_iter()
            .flatten()
    }

    /// The number of objects in [`list`](Self::list). Free without a namespace.
    pub fn count(&self, resource: &ResourceId, namespace: Option<&str>) -> usize {
        match namespace {
            None | Some("") => self.objects(resource).map_or(0, Objects::len),
            Some(_) => self.list(resource, namespace).count(),
        }
    }

    /// The revision of a resource's last change; 0 if there was none. A snapshot of the past may return its
    /// own revision instead: equal answers mean equal objects, but different ones need not mean different
    /// objects.
    pub fn modified(&self, resource: &ResourceId) -> u64 {
        let modified = self
            .state
            .resource_state(resource)
            .map_or(0, |resource_state| resource_state.modified);
        modified.min(self.revision)
    }

    /// The resources that have objects.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        self.state
            .resources()
            .map(|(resource, _)| resource)
            .filter(|resource| self.count(resource, None) > 0)
    }

    fn objects(&self, resource: &ResourceId) -> Option<&Objects> {
        let resource_state = self.state.resource_state(resource)?;
        match self.past.get(resource) {
            None => Some(&resource_state.objects),
            Some(objects) => Some(objects.get_or_init(|| resource_state.objects_at(self.revision))),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
