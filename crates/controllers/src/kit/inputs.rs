//! Watches ConfigMaps and Secrets with the label `reconcile.fluxcd.io/watch: Enabled`.
//!
//! A change wakes the objects that refer to one. Of all others, the versions are read when their readers run. Only names
//! and versions are kept, and only the metadata of Secrets is requested. The watches begin with the
//! first reference: a cluster without references pays nothing. If they may not be watched, one log line
//! says so, and they are read like the others.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use equate_api::kustomize::ValuesKind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::Key;
use crate::kit::feed::{self, Change, Collection, Item, Pace};
use crate::kit::read::metadata;

const SELECTOR: &str = "reconcile.fluxcd.io/watch=Enabled";

/// A ConfigMap or Secret by kind and name.
pub type InputRef = (ValuesKind, Key);

/// ConfigMaps and Secrets that were read, each with its version if it existed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(Vec<(InputRef, Option<u64>)>);

impl Versions {
    pub(crate) fn push(&mut self, holder: InputRef, version: Option<u64>) {
        self.0.push((holder, version));
    }

    /// Whether each object is known to have the version that was read.
    pub fn are_current(&self, known: impl Fn(&InputRef) -> Option<u64>) -> bool {
        let mut all = self.0.iter();
        all.all(|(holder, read)| read.is_some() && known(holder) == *read)
    }

    /// Whether these objects were read, in this order.
    pub(crate) fn are_of(&self, holders: impl Iterator<Item = InputRef>) -> bool {
        self.0
            .iter()
            .map(|(holder, _)| holder)
            .eq(holders.collect::<Vec<_>>().iter())
    }

    /// Whether the API server has the versions that were read. It requests metadata only. False without an answer.
    pub(crate) async fn are_unchanged(&self, client: &Client) -> bool {
        for ((kind, name), read) in &self.0 {
            let found = match kind {
                ValuesKind::ConfigMap => metadata::<ConfigMap>(client, name).await,
                ValuesKind::Secret => metadata::<Secret>(client, name).await,
            };
            let is_same = match (found, read) {
                (Ok(Some(found)), Some(read)) => version_of(&found) == Some(*read),
                (Ok(None), None) => true,
                (Ok(Some(_)), None) | (Ok(None), Some(_)) | (Err(_), _) => false,
            };
            if !is_same {
                return false;
            }
        }
        true
    }
}

/// The version of a ConfigMap or Secret.
pub(crate) fn version_of(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

/// Values that cannot be used. They are not read again until their declaration or their objects change.
#[derive(Debug, Clone)]
pub(crate) struct RejectedValues<E> {
    pub(crate) generation: i64,
    pub(crate) versions: Versions,
    pub(crate) error: E,
}

impl<E> RejectedValues<E> {
    pub(crate) async fn holds(&self, generation: i64, client: &Client) -> bool {
        self.generation == generation && self.versions.are_unchanged(client).await
    }
}

/// Watches them from the first [`InputWatcher::begin`] on.
pub struct InputWatcher {
    client: Client,
    pace: Pace,
    shared: Arc<Shared>,
    tasks: OnceLock<[AbortOnDropHandle<()>; 2]>,
}

struct Shared {
    // held for a map operation, never across an await or a callback
    known: Mutex<Known>,
    changed: Box<dyn Fn(&InputRef) + Send + Sync>,
}

#[derive(Default)]
struct Known {
    versions: HashMap<InputRef, u64>,
    /// Kinds that cannot be watched now: their versions may be old.
    troubled: HashSet<ValuesKind>,
}

impl fmt::Debug for InputWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputWatcher")
            .field("begun", &self.tasks.get().is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

impl InputWatcher {
    /// A watcher that has not begun. `changed` receives every change; it must not block.
    pub fn new(client: Client, pace: Pace, changed: impl Fn(&InputRef) + Send + Sync + 'static) -> Self {
        Self {
            client,
            pace,
            shared: Arc::new(Shared {
                known: Mutex::default(),
                changed: Box::new(changed),
            }),
            tasks: OnceLock::new(),
        }
    }

    /// Begins to watch; does nothing the second time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn begin(&self) {
        self.tasks.get_or_init(|| {
            [
                self.follow(ValuesKind::ConfigMap, ConfigMap::url_path(&(), None)),
                self.follow(ValuesKind::Secret, Secret::url_path(&(), None)),
            ]
        });
    }

    /// The version of a labelled object that is watched.
    pub fn version(&self, of: &InputRef) -> Option<u64> {
        let known = self.shared.known();
        let troubled = known.troubled.contains(&of.0);
        known.versions.get(of).copied().filter(|_| !troubled)
    }

    fn follow(&self, kind: ValuesKind, path: String) -> AbortOnDropHandle<()> {
        let collection = Collection {
            client: self.client.clone(),
            path,
            labels: Some(SELECTOR.to_owned()),
            fields: None,
            metadata: true,
        };
        let shared = Arc::clone(&self.shared);
        let mut refused = false;
        let deliver = move |change| {
            if let Change::Failed(error) = &change
                && error.is_refusal()
                && !std::mem::replace(&mut refused, true)
            {
                tracing::warn!(%error, "cannot watch labelled objects; they are read at intervals");
            }
            shared.take_in(kind, change);
        };
        let read = |object: Partial| {
            let text = object.metadata.resource_version.clone().unwrap_or_default();
            let version = text.parse().map_err(|_| text)?;
            let value = Key::of(&object.metadata);
            Ok(Item { version, value })
        };
        let hurry = Arc::new(Notify::new());
        let task = tokio::spawn(feed::follow(collection, self.pace.clone(), hurry, read, deliver));
        AbortOnDropHandle::new(task)
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, kind: ValuesKind, change: Change<Key>) {
        {
            let mut known = self.known();
            match &change {
                Change::Unserved | Change::Failed(_) => known.troubled.insert(kind),
                Change::Listed(..) | Change::Applied(_) | Change::Deleted(_) | Change::Bookmark(_) => {
                    known.troubled.remove(&kind)
                }
            };
        }
        match change {
            Change::Listed(_, items) => {
                let now: HashMap<InputRef, u64> = items
                    .into_iter()
                    .map(|item| ((kind, item.value), item.version))
                    .collect();
                let differ: Vec<InputRef> = {
                    let known = &mut self.known().versions;
                    let gone = known.keys().filter(|of| of.0 == kind && !now.contains_key(of));
                    let others = now.iter().filter(|(of, version)| known.get(of) != Some(version));
                    let differ = gone.chain(others.map(|(of, _)| of)).cloned().collect();
                    known.retain(|of, _| of.0 != kind);
                    known.extend(now);
                    differ
                };
                differ.iter().for_each(|of| (self.changed)(of));
            }
            Change::Applied(item) => {
                let of = (kind, item.value);
                let before = self.known().versions.insert(of.clone(), item.version);
                if before != Some(item.version) {
                    (self.changed)(&of);
                }
            }
            Change::Deleted(item) => {
                let of = (kind, item.value);
                self.known().versions.remove(&of);
                (self.changed)(&of);
            }
            Change::Unserved | Change::Failed(_) | Change::Bookmark(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_current_while_they_are_known_and_unchanged() {
        let holder = |name: &str| (ValuesKind::Secret, Key::new("web", name));
        let versions = |all: &[(&str, Option<u64>)]| {
            Versions(
                all.iter()
                    .map(|(name, version)| (holder(name), *version))
                    .collect(),
            )
        };
        let known = |of: &InputRef| (*of == holder("a")).then_some(5);
        assert!(versions(&[("a", Some(5))]).are_current(known));
        assert!(!versions(&[("a", Some(4))]).are_current(known));
        // one that no watch covers, and one that was absent
        assert!(!versions(&[("a", Some(5)), ("b", Some(5))]).are_current(known));
        assert!(!versions(&[("b", None)]).are_current(known));
        let read = versions(&[("a", Some(5)), ("b", None)]);
        assert!(read.are_of(["a", "b"].into_iter().map(holder)));
        assert!(!read.are_of(["b", "a"].into_iter().map(holder)));
        assert!(!read.are_of(["a"].into_iter().map(holder)));
    }
}
