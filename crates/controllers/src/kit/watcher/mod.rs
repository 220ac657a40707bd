//! Watches managed objects and wakes their owners.
//!
//! One watch per kind of object and kind of owner serves all such owners; it selects objects by the
//! owner's label. It keeps a few bytes per object ([`Observed`]), not the object. It wakes the owner
//! when existence, ownership, the owner's fields or the health change. An object may have owners of two
//! kinds: each kind has its own watch, because labels and fields differ.
//!
//! A watch without followers ends. Objects that are waited for but not managed (`healthChecks`) have one
//! watch each, shared by all owners of a kind.
//!
//! Unknown is never guessed. A kind that is not listed yet, or not served, is [`Presence::Unknown`]. A
//! kind that cannot be read now keeps its last state, and the next list delivers the missed changes. A
//! kind that may not be listed is reported, so that no owner waits for it. No older event or list
//! reverts the answer to a write ([`ObjectWatcher::note`]).

mod state;
#[cfg(test)]
mod tests;
pub mod view;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules;
use equate_apply::segment::segment;
use equate_manifest::object::Object;
use kube::Client;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use self::state::{Place, State};
use super::feed::{self, Collection, FeedError, Item, Pace};
use super::tenants::Tenant;
use super::yielding::YieldPolicy;
use crate::ObjectRef;

/// Namespace and name: all of an id that is kept if the kind is known.
type Local = (Arc<str>, Arc<str>);
type Seen = (Local, Observed);

/// A kind by group and name; prints as `Deployment.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

impl Kind {
    /// The kind of an object.
    pub fn of(id: &ObjectId) -> Self {
        Self {
            group: Arc::clone(&id.group),
            kind: Arc::clone(&id.kind),
        }
    }

    fn object(&self, (namespace, name): &Local) -> ObjectId {
        ObjectId {
            group: Arc::clone(&self.group),
            kind: Arc::clone(&self.kind),
            namespace: Arc::clone(namespace),
            name: Arc::clone(name),
        }
    }
}

impl From<&ApiResource> for Kind {
    fn from(resource: &ApiResource) -> Self {
        Self {
            group: resource.group.as_str().into(),
            kind: resource.kind.as_str().into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// The kind of a change; of several the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It is gone, or lost its owner's label.
    Gone,
    /// It exists, or another one exists under its name.
    Appeared,
    /// Its labels name another owner.
    Owner,
    /// Its deletion was requested.
    Deleting,
    /// A field that Equate applied, or its own annotations.
    Changed,
    /// Its health.
    Health,
}

/// A change of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindChange {
    /// It was listed: its objects are known.
    Listed,
    /// It is not served (any more): its definition is missing.
    Unserved,
    /// It may not be listed: its objects have to be read one by one.
    Refused,
    /// Its list exceeds a limit, which the status has to say.
    Excess,
}

/// Why an owner has to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// An object changed.
    Object(ObjectId, What),
    /// A kind became known, or unknown.
    Kind(Kind, KindChange),
}

/// An owner has to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// The owner of the object, or a follower of the kind or object.
    pub object: ObjectRef,
    /// Why.
    pub cause: Cause,
}

/// The state of the watch of a kind or object.
#[derive(Debug, Clone)]
pub enum WatchState {
    /// Not listed yet, with the last error.
    Starting(Option<Arc<FeedError>>),
    /// Listed; changes arrive.
    Following,
    /// The kind is not served.
    Unserved,
    /// It was never listed, and access is denied.
    Refused(Arc<FeedError>),
    /// It cannot be read; its objects are as of the last success.
    Troubled(Arc<FeedError>),
}

impl WatchState {
    /// Whether its first list is still to come.
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Starting(_))
    }
}

/// Everything that an owner follows.
#[derive(Debug, Clone, Default)]
pub struct Interest {
    /// The kinds of its managed objects.
    pub kinds: Vec<ApiResource>,
    /// Other objects that it waits for.
    pub objects: Vec<(ApiResource, ObjectId)>,
}

/// The watcher's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Kinds watched for managed objects, once for each kind of owner.
    pub kinds: usize,
    /// Managed objects known, once for each kind of owner.
    pub objects: usize,
    /// Single objects watched.
    pub singles: usize,
    /// Lists so far.
    pub lists: u64,
    /// Changes so far: lists, events, bookmarks, errors.
    pub changes: u64,
    /// Wakes so far.
    pub wakes: u64,
}

/// Watches managed objects; clones share the watches, which end with the last.
#[derive(Clone)]
pub struct ObjectWatcher {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    pace: Pace,
    rules: Arc<dyn OwnerRules>,
    wake: Box<dyn Fn(Wake) + Send + Sync>,
    /// The tenant that named the cluster, if one did.
    by_tenant: Option<(YieldPolicy, Tenant)>,
    // held for map operations, never across an await or a wake
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    state: State,
    feeds: HashMap<Place, Feed>,
}

struct Feed {
    resource: ApiResource,
    hurry: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl fmt::Debug for ObjectWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectWatcher")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl ObjectWatcher {
    /// A watcher without watches. Objects are observed under the rules of their owners. `wake` is called
    /// for every owner that has to run; it must not block.
    pub fn new(
        client: Client,
        pace: Pace,
        rules: Arc<dyn OwnerRules>,
        wake: impl Fn(Wake) + Send + Sync + 'static,
    ) -> Self {
        Self::with(client, pace, rules, wake, None)
    }

    /// A watcher of a cluster that a tenant named.
    pub(crate) fn of_tenant(
        client: Client,
        pace: Pace,
        rules: Arc<dyn OwnerRules>,
        wake: impl Fn(Wake) + Send + Sync + 'static,
        by_tenant: (YieldPolicy, Tenant),
    ) -> Self {
        Self::with(client, pace, rules, wake, Some(by_tenant))
    }

    fn with(
        client: Client,
        pace: Pace,
        rules: Arc<dyn OwnerRules>,
        wake: impl Fn(Wake) + Send + Sync + 'static,
        by_tenant: Option<(YieldPolicy, Tenant)>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                pace,
                rules,
                wake: Box::new(wake),
                by_tenant,
                inner: Mutex::default(),
            }),
        }
    }

    /// Replaces everything that an owner follows. Returns the kinds that are not known yet; the owner is
    /// woken when they are.
    ///
    /// A kind that is not served or in error is listed again at once: its follower has a reason to
    /// expect it.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn follow(&self, follower: &Owner, interest: &Interest) -> Vec<(Kind, WatchState)> {
        let mut resources = HashMap::new();
        for resource in &interest.kinds {
            resources.insert(Place::Managed(resource.into(), follower.kind), resource);
        }
        for (resource, id) in &interest.objects {
            resources.insert(Place::Single(id.clone(), follower.kind), resource);
        }
        let places: BTreeSet<Place> = resources.keys().cloned().collect();
        let mut inner = self.shared.inner();
        let diff = inner.state.follow(follower, &places);
        for place in diff.end {
            inner.feeds.remove(&place);
        }
        for (place, epoch) in diff.begin {
            if let Some(resource) = resources.get(&place) {
                self.begin(&mut inner, place, epoch, resource);
            }
        }
        let mut waiting = Vec::new();
        for place in places {
            if let Some(resource) = resources.get(&place) {
                self.check(&mut inner, &place, resource, &mut waiting);
            }
        }
        waiting
    }

    /// The owner is gone: it follows nothing.
    pub fn forget(&self, follower: &Owner) {
        self.follow(follower, &Interest::default());
    }

    /// The last observation of an object, for owners of a kind.
    pub fn get(&self, by: &'static OwnerKind, id: &ObjectId) -> Presence {
        self.shared.inner().state.get(by, id)
    }

    /// Takes the answer to a write. Returns whether it was new. It is ignored if a newer state is known,
    /// if the object was deleted since, if it has no owner's labels, or if its kind is not followed.
    pub fn note(&self, id: &ObjectId, observed: Observed) -> bool {
        let (is_new, wakes) = self.shared.inner().state.note(id, observed);
        self.shared.send_wakes(wakes);
        is_new
    }

    /// The last observation of an object, for one owner: with its own rules if the object is its own or
    /// waited for.
    pub fn get_for(&self, owner: &Owner, id: &ObjectId) -> Presence {
        self.shared.inner().state.get_for(owner, id)
    }

    /// The rules under which objects are observed.
    pub fn rules(&self) -> &Arc<dyn OwnerRules> {
        &self.shared.rules
    }

    /// Takes an object that was read for an owner, also of the known version: it may have been observed
    /// under other rules. Observes it under these.
    pub fn note_read(&self, reader: &Owner, id: &ObjectId, object: &Object, rules: &dyn OwnerRules) {
        let managed = Place::Managed(Kind::of(id), reader.kind);
        for place in [managed, Place::Single(id.clone(), reader.kind)] {
            if !self.shared.inner().state.follows(&place) {
                continue;
            }
            let mut observed = Observed::under(object, place.by(), rules);
            observed.judge(object, reader, rules);
            // other followers of a single object keep to their share
            self.shared.judge(&place, object, &mut observed);
            let wakes = self.shared.inner().state.note_read(reader, &place, id, observed);
            self.shared.send_wakes(wakes);
        }
    }

    /// The numbers.
    pub fn counts(&self) -> Counts {
        self.shared.inner().state.counts()
    }

    /// The state of each followed kind; single objects have their kind.
    pub fn watch_states(&self) -> Vec<(Kind, WatchState)> {
        let all = self.shared.inner().state.watch_states();
        all.into_iter()
            .map(|(place, watch_state)| (place.kind(), watch_state))
            .collect()
    }

    /// A followed place may have to be read in another version, or at once.
    fn check(
        &self,
        inner: &mut Inner,
        place: &Place,
        resource: &ApiResource,
        waiting: &mut Vec<(Kind, WatchState)>,
    ) {
        let renewed = inner.feeds.get(place).is_none_or(|feed| {
            feed.resource.api_version != resource.api_version || feed.resource.plural != resource.plural
        });
        if renewed && let Some(epoch) = inner.state.renew(place) {
            self.begin(inner, place.clone(), epoch, resource);
        }
        let watch_state = match inner.state.watch_state(place) {
            None | Some(WatchState::Following) => return,
            Some(watch_state) => watch_state.clone(),
        };
        let hurries = !watch_state.is_starting();
        if let Some(feed) = inner.feeds.get(place).filter(|_| hurries) {
            feed.hurry.notify_one();
        }
        waiting.push((place.kind(), watch_state));
    }

    fn begin(&self, inner: &mut Inner, place: Place, epoch: u64, resource: &ApiResource) {
        let hurry = Arc::new(Notify::new());
        let collection = self.shared.collection(&place, resource);
        let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
        let shared = Arc::downgrade(&self.shared);
        let changed = place.clone();
        let (reader, seen) = (Arc::downgrade(&self.shared), place.clone());
        let following = feed::follow(
            collection,
            self.shared.pace.clone(),
            Arc::clone(&hurry),
            move |object| {
                read(object, &api_version, &kind, |object| match reader.upgrade() {
                    Some(shared) => shared.observe(&seen, object),
                    // the watcher is dropped: no owner to wake
                    None => Observed::of(object, seen.by()),
                })
            },
            move |change| Shared::change(&shared, &changed, epoch, change),
        );
        let task = match &self.shared.by_tenant {
            Some((yielding, tenant)) => yielding.spawn_watch(tenant, following),
            None => tokio::spawn(following),
        };
        let feed = Feed {
            resource: resource.clone(),
            hurry,
            _task: AbortOnDropHandle::new(task),
        };
        inner.feeds.insert(place, feed);
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collection(&self, place: &Place, resource: &ApiResource) -> Collection {
        let (namespace, labels, fields) = match place {
            Place::Managed(_, by) => (None, Some(by.name_label.to_owned()), None),
            Place::Single(id, _) => {
                let namespace = Some(&*id.namespace).filter(|n| !n.is_empty());
                (
                    namespace,
                    None,
                    Some(format!("metadata.name={}", value(&id.name))),
                )
            }
        };
        // a namespace that cannot exist has no objects
        let namespace = namespace.map(|name| segment("namespace", name).unwrap_or(Cow::Borrowed("-")));
        Collection {
            client: self.client.clone(),
            path: DynamicObject::url_path(resource, namespace.as_deref()),
            labels,
            fields,
            metadata: false,
        }
    }

    fn observe(&self, place: &Place, object: &Object) -> Observed {
        let mut observed = Observed::under(object, place.by(), &*self.rules);
        self.judge(place, object, &mut observed);
        observed
    }

    /// Adds the health by the rules of the followers of a single object.
    fn judge(&self, place: &Place, object: &Object, observed: &mut Observed) {
        if let Place::Single(..) = place {
            let followers = self.inner().state.followers(place);
            for follower in followers {
                observed.judge(object, &follower, &*self.rules);
            }
        }
    }

    /// Feeds hold the watcher weakly, so that it ends with its last user.
    fn change(this: &Weak<Self>, place: &Place, epoch: u64, change: feed::Change<Seen>) {
        let Some(shared) = this.upgrade() else { return };
        let wakes = shared.inner().state.change(place, epoch, change);
        shared.send_wakes(wakes);
    }

    fn send_wakes(&self, wakes: Vec<Wake>) {
        for wake in wakes {
            (self.wake)(wake);
        }
    }
}

/// Escapes a value of a field selector.
fn value(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Observes an object and drops it. Lists leave out the kind of their items.
fn read(
    mut object: Object,
    api_version: &str,
    kind: &str,
    observe: impl FnOnce(&Object) -> Observed,
) -> Result<Item<Seen>, String> {
    for (key, value) in [("apiVersion", api_version), ("kind", kind)] {
        let missing = || Value::String(value.to_owned());
        object.0.entry(key).or_insert_with(missing);
    }
    let observed = observe(&object);
    let Ok(version) = observed.resource_version.parse() else {
        return Err(observed.resource_version);
    };
    let local = (Arc::from(object.namespace()), Arc::from(object.name()));
    Ok(Item {
        version,
        value: (local, observed),
    })
}
