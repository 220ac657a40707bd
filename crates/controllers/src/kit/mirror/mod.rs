//! Equate's own resources as the API server has them: typed, in memory, with their changes.
//!
//! A status change wakes dependents, any other change the object itself: otherwise every controller
//! would wake itself with each status it writes. [`Mirror::note`] takes the answer to a write, so that
//! the next run reads the last write, not an older state of the watch.
//!
//! An object that does not match its type (its definition requires no `spec`) keeps its last readable
//! state, or is missing if it has none: otherwise one invalid object would block all others. It is never
//! treated as deleted.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::Key;
use crate::kit::feed::{self, Collection, FeedError, Item, Pace};
use crate::kit::versioned_store::{Difference, VersionedStore};
use crate::kit::wake::Reason;

/// Flux's annotation that requests a run.
const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// The kind of a change; of several the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It is gone.
    Gone,
    /// It is new, or was created again under its name.
    Appeared,
    /// Its deletion was requested.
    Deleting,
    /// Its spec, labels or annotations.
    Changed,
    /// A run was requested.
    Requested,
    /// Only status, finalizers or the server's bookkeeping.
    Status,
}

impl What {
    /// The reason for a run of the object itself, if it has to run.
    pub const fn reason(self) -> Option<Reason> {
        match self {
            What::Appeared => Some(Reason::Appeared),
            What::Deleting => Some(Reason::Deleted),
            What::Changed => Some(Reason::Changed),
            What::Requested => Some(Reason::Requested),
            What::Gone | What::Status => None,
        }
    }
}

/// A change of one object.
#[derive(Debug, Clone)]
pub struct Change<K> {
    /// The object.
    pub key: Key,
    /// The kind of change.
    pub what: What,
    /// Before; `None` if it was not known.
    pub before: Option<Arc<K>>,
    /// Now; `None` if it is gone.
    pub after: Option<Arc<K>>,
}

/// The state of the mirror's watch.
#[derive(Debug, Clone)]
pub enum WatchState {
    /// Not listed yet.
    Starting,
    /// Listed; changes arrive.
    Following,
    /// The kind is not served: its definition is missing.
    Unserved,
    /// The API server cannot be read; the content is as of the last success.
    Troubled(Arc<FeedError>),
}

/// All objects of a kind; clones share one watch, which ends with the last.
pub struct Mirror<K> {
    shared: Arc<Shared<K>>,
    watch_state: watch::Receiver<WatchState>,
    hurry: Arc<Notify>,
    follower: Arc<Follower>,
}

struct Follower {
    client: Client,
    pace: Pace,
    states: watch::Sender<WatchState>,
    task: OnceLock<AbortOnDropHandle<()>>,
}

/// Receives each change; must not block.
type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

struct Shared<K> {
    // held for a map operation, never across an await or a callback
    versioned_store: RwLock<VersionedStore<Key, K>>,
    // never held across a callback
    subscribers: RwLock<Vec<Subscriber<K>>>,
}

impl<K> Clone for Mirror<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            watch_state: self.watch_state.clone(),
            hurry: Arc::clone(&self.hurry),
            follower: Arc::clone(&self.follower),
        }
    }
}

impl<K> fmt::Debug for Mirror<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("watch_state", &*self.watch_state.borrow())
            .finish_non_exhaustive()
    }
}

impl<K> Mirror<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
{
    /// [`Mirror::new`], [`Mirror::subscribe`] and [`Mirror::begin`] in one.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(client: Client, pace: Pace, changed: impl Fn(&Change<K>) + Send + Sync + 'static) -> Self {
        let mirror = Self::new(client, pace);
        mirror.subscribe(changed);
        mirror.begin();
        mirror
    }

    /// A mirror that watches nothing before [`Mirror::begin`].
    pub fn new(client: Client, pace: Pace) -> Self {
        let (states, watch_state) = watch::channel(WatchState::Starting);
        Self {
            shared: Arc::new(Shared {
                versioned_store: RwLock::new(VersionedStore::new()),
                subscribers: RwLock::default(),
            }),
            watch_state,
            hurry: Arc::new(Notify::new()),
            follower: Arc::new(Follower {
                client,
                pace,
                states,
                task: OnceLock::new(),
            }),
        }
    }

    /// Calls `changed` for every later change; if the mirror has not begun, from the first list on. It
    /// must not block.
    pub fn subscribe(&self, changed: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let subscribers = self.shared.subscribers.write();
        subscribers
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(changed));
    }

    /// Begins to watch all objects of the kind, in all namespaces; does nothing the second time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn begin(&self) {
        self.follower.task.get_or_init(|| {
            let collection = Collection {
                client: self.follower.client.clone(),
                path: K::url_path(&(), None),
                labels: None,
                fields: None,
                metadata: false,
            };
            let (inner, states) = (Arc::clone(&self.shared), self.follower.states.clone());
            let deliver = move |change| {
                if let Some(state) = inner.take_in(change) {
                    states.send_replace(state);
                }
            };
            let (pace, hurry) = (self.follower.pace.clone(), Arc::clone(&self.hurry));
            let task = tokio::spawn(feed::follow(collection, pace, hurry, read_any::<K>, deliver));
            AbortOnDropHandle::new(task)
        });
    }

    /// The last known state of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.shared.read().get(key).cloned()
    }

    /// All objects, unordered.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.shared.read().values().cloned().collect()
    }

    /// Takes the answer to a write, unless a newer state is known. Dependents are woken at once, not
    /// when the watch delivers it.
    pub fn note(&self, object: K) {
        let Ok(Item {
            version,
            value: (key, object),
        }) = read(object)
        else {
            return;
        };
        let item = Item {
            version,
            value: object,
        };
        let difference = self.shared.write().note(key.clone(), item);
        self.shared.notify(key, difference);
    }

    /// Whether the kind was listed: an object that is missing here does not exist.
    pub fn is_ready(&self) -> bool {
        self.shared.read().listed()
    }

    /// Waits for the first list.
    pub async fn ready(&self) {
        let mut watch_state = self.watch_state.clone();
        while !self.is_ready() {
            // the sender lives in the task, which lives as long as this mirror
            if watch_state.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// The state of the watch, now and as it changes.
    pub fn watch_state(&self) -> watch::Receiver<WatchState> {
        self.watch_state.clone()
    }

    /// Ends a wait after an error, as when definitions were applied.
    pub fn hurry(&self) {
        self.hurry.notify_one();
    }
}

impl<K> Shared<K>
where
    K: Resource<DynamicType = ()>,
{
    fn read(&self) -> std::sync::RwLockReadGuard<'_, VersionedStore<Key, K>> {
        self.versioned_store
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VersionedStore<Key, K>> {
        self.versioned_store
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change of the feed and notifies subscribers. Returns the new state of the watch, if it
    /// changed.
    fn take_in(&self, change: feed::Change<(Key, Option<K>)>) -> Option<WatchState> {
        match change {
            feed::Change::Listed(version, items) => {
                let items = items.into_iter().map(split);
                let items = items.map(|(key, item)| (key, readable(item)));
                let differences = self.write().relist(version, items);
                for (key, difference) in differences {
                    self.notify(key, Some(difference));
                }
                Some(WatchState::Following)
            }
            feed::Change::Applied(item) => {
                let (key, item) = split(item);
                let version = item.version;
                match readable(item) {
                    Some(item) => {
                        let difference = self.write().apply(key.clone(), item);
                        self.notify(key, difference);
                    }
                    None => self.write().bookmark(version),
                }
                Some(WatchState::Following)
            }
            feed::Change::Deleted(item) => {
                let (key, item) = split(item);
                let difference = self.write().delete(&key, item.version);
                self.notify(key, difference);
                Some(WatchState::Following)
            }
            feed::Change::Bookmark(version) => {
                self.write().bookmark(version);
                Some(WatchState::Following)
            }
            feed::Change::Unserved => Some(WatchState::Unserved),
            feed::Change::Failed(error) => Some(WatchState::Troubled(Arc::new(error))),
        }
    }

    fn notify(&self, key: Key, difference: Option<Difference<K>>) {
        let Some(Difference { before, after }) = difference else {
            return;
        };
        let what = compare(before.as_deref(), after.as_deref());
        let change = Change {
            key,
            what,
            before,
            after,
        };
        let subscribers = self.subscribers.read();
        let subscribers = subscribers.unwrap_or_else(PoisonError::into_inner).clone();
        for subscriber in subscribers {
            subscriber(&change);
        }
    }
}

fn split<K>(item: Item<(Key, K)>) -> (Key, Item<K>) {
    let Item {
        version,
        value: (key, value),
    } = item;
    (key, Item { version, value })
}

fn readable<K>(item: Item<Option<K>>) -> Option<Item<K>> {
    let Item { version, value } = item;
    value.map(|value| Item { version, value })
}

#[derive(Clone)]
struct Any<K> {
    metadata: ObjectMeta,
    object: Option<K>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Any<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let metadata = ObjectMeta::deserialize(&object["metadata"]).map_err(serde::de::Error::custom)?;
        let object = K::deserialize(object).inspect_err(|error| {
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            tracing::warn!(namespace, name, %error, "cannot read an object; its last readable state is used");
        });
        Ok(Self {
            metadata,
            object: object.ok(),
        })
    }
}

fn read_any<K: Resource>(any: Any<K>) -> Result<Item<(Key, Option<K>)>, String> {
    let text = any.metadata.resource_version.clone().unwrap_or_default();
    let version = text.parse().map_err(|_| text)?;
    let value = (Key::of(&any.metadata), any.object.map(without_managed_fields));
    Ok(Item { version, value })
}

fn read<K: Resource>(object: K) -> Result<Item<(Key, K)>, String> {
    let text = object.meta().resource_version.clone().unwrap_or_default();
    let Ok(version) = text.parse() else {
        return Err(text);
    };
    let key = Key::of(object.meta());
    Ok(Item {
        version,
        value: (key, without_managed_fields(object)),
    })
}

/// Nothing reads `managedFields` here, and they are half of most objects.
fn without_managed_fields<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// The API server raises the generation with every change of a spec.
fn compare<K: Resource>(before: Option<&K>, after: Option<&K>) -> What {
    let Some(after) = after else { return What::Gone };
    let Some(before) = before else {
        return What::Appeared;
    };
    let (old, new) = (before.meta(), after.meta());
    if old.uid != new.uid {
        return What::Appeared;
    }
    if old.deletion_timestamp.is_none() && new.deletion_timestamp.is_some() {
        return What::Deleting;
    }
    let others = |object: &K| -> BTreeMap<String, String> {
        let mut all = object.annotations().clone();
        all.remove(REQUESTED_AT);
        all
    };
    if old.generation != new.generation
        || before.labels() != after.labels()
        || others(before) != others(after)
    {
        return What::Changed;
    }
    if before.annotations().get(REQUESTED_AT) != after.annotations().get(REQUESTED_AT) {
        return What::Requested;
    }
    What::Status
}
