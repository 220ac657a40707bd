//! The watch hub: what is observed of managed objects, and who must look when it changes.
//!
//! One watch per kind of object and kind of owner, restricted to objects with that owner's label,
//! serves all owners of the kind. It keeps a few words per object ([`Observed`]), not the
//! object, and wakes the owner when existence, ownership, the owner's fields or the health of an
//! object change; nothing is polled and nobody waits. An object may have owners of two kinds: each
//! kind has its own watch, for each looks at other labels and other fields.
//!
//! An owner says what it follows by [`ObjectWatcher::follow`], always all of it: what no owner follows
//! any more is not watched any more. Objects that are not managed but waited for (`healthChecks`)
//! have a watch of their own each, shared by all owners of a kind and judged for each of them.
//!
//! Knowledge is never guessed. A kind that was not listed yet, or is not served, is
//! [`Presence::Unknown`]; one that cannot be read just now stays as it was last seen, and the
//! list that follows tells what was missed. One that may not be listed is told, so that nobody
//! waits for it. What a write of ours was answered goes in by
//! [`ObjectWatcher::note`], and neither an older event nor an older list takes it back.

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
use crate::ObjectRef;

/// Namespace and name: where the kind is known, nothing else is kept of an id.
type Local = (Arc<str>, Arc<str>);
/// An object that was seen.
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
    /// An object's.
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

/// What is different about an object; of several the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It is gone, or lost its owner's label.
    Gone,
    /// It is there; or another one is there under its name.
    Appeared,
    /// Its labels name another owner.
    Owner,
    /// Its deletion was asked for.
    Deleting,
    /// A field that is ours, or what it wishes for itself by annotations.
    Changed,
    /// Its health.
    Health,
}

/// What happened to a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindChange {
    /// It was listed: its objects can be looked at.
    Listed,
    /// It is not served (any more): its definition is missing.
    Unserved,
    /// It may not be listed: nothing will be known of its objects unless they are asked for.
    Refused,
}

/// Why somebody has to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// An object changed.
    Object(ObjectId, What),
    /// A kind can be looked at now, or cannot any more.
    Kind(Kind, KindChange),
}

/// Somebody has to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// The owner of the object, or a follower of the kind or object.
    pub object: ObjectRef,
    /// Why.
    pub cause: Cause,
}

/// How a followed kind or object stands with the API server.
#[derive(Debug, Clone)]
pub enum WatchState {
    /// Not listed yet, and what has kept it from that so far.
    Starting(Option<Arc<FeedError>>),
    /// Listed; changes arrive.
    Following,
    /// The kind is not served.
    Unserved,
    /// It was never listed, and may not be.
    Refused(Arc<FeedError>),
    /// It cannot be read; what is known is as it was.
    Troubled(Arc<FeedError>),
}

impl WatchState {
    /// Whether something may become known of its objects that is not known yet.
    pub fn is_starting(&self) -> bool {
        matches!(self, Self::Starting(_))
    }
}

/// What an owner follows: all of it, each time.
#[derive(Debug, Clone, Default)]
pub struct Interest {
    /// The kinds of its managed objects.
    pub kinds: Vec<ApiResource>,
    /// Objects of anyone that it waits for.
    pub objects: Vec<(ApiResource, ObjectId)>,
}

/// The hub's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Kinds watched for managed objects, once for each kind of owner.
    pub kinds: usize,
    /// Managed objects known, once for each kind of owner.
    pub objects: usize,
    /// Single objects watched.
    pub singles: usize,
    /// Lists taken in so far.
    pub lists: u64,
    /// Changes taken in so far: lists, events, bookmarks, trouble.
    pub changes: u64,
    /// Wakes given so far.
    pub wakes: u64,
}

/// The hub; clones are the same hub. The last one ends all watches.
#[derive(Clone)]
pub struct ObjectWatcher {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    pace: Pace,
    rules: Arc<dyn OwnerRules>,
    wake: Box<dyn Fn(Wake) + Send + Sync>,
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
    /// A hub that watches nothing yet. Objects are looked at under the rules of their owners. `wake`
    /// is called for everyone who must look; it must not block.
    pub fn new(
        client: Client,
        pace: Pace,
        rules: Arc<dyn OwnerRules>,
        wake: impl Fn(Wake) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                pace,
                rules,
                wake: Box::new(wake),
                inner: Mutex::default(),
            }),
        }
    }

    /// Says what an owner follows from now on. Returns what of it cannot be looked at yet; the
    /// owner is woken when it can.
    ///
    /// What is not served or in trouble is looked for again at once: whoever follows it has
    /// a reason to think that it is there.
    ///
    /// # Panics
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

    /// What is known of an object, as owners of a kind see it.
    pub fn get(&self, by: &'static OwnerKind, id: &ObjectId) -> Presence {
        self.shared.inner().state.get(by, id)
    }

    /// Takes in what a write of ours was answered. Whether it was news; it is not where
    /// something newer is known, where the object has been deleted since, where it carries
    /// no owner's labels, or where its kind is not followed.
    pub fn note(&self, id: &ObjectId, observed: Observed) -> bool {
        let (news, wakes) = self.shared.inner().state.note(id, observed);
        self.shared.tell(wakes);
        news
    }

    /// What is known of an object, for an owner that may have rules of its own for it: those are asked
    /// of its own objects, and of what it waits for.
    pub fn get_for(&self, owner: &Owner, id: &ObjectId) -> Presence {
        self.shared.inner().state.get_for(owner, id)
    }

    /// The rules that objects are looked at under.
    pub fn rules(&self) -> &Arc<dyn OwnerRules> {
        &self.shared.rules
    }

    /// Takes in an object as it was read on behalf of an owner: also of the very version that is known,
    /// for it may have been looked at under other rules.
    pub fn look(&self, reader: &Owner, id: &ObjectId, object: &Object) {
        let managed = Place::Managed(Kind::of(id), reader.kind);
        for place in [managed, Place::Single(id.clone(), reader.kind)] {
            let observed = self.shared.observe(&place, object);
            let wakes = self.shared.inner().state.look(reader, &place, id, observed);
            self.shared.tell(wakes);
        }
    }

    /// The numbers.
    pub fn counts(&self) -> Counts {
        self.shared.inner().state.counts()
    }

    /// How each followed kind stands; single objects are given with their kind.
    pub fn standings(&self) -> Vec<(Kind, WatchState)> {
        let all = self.shared.inner().state.standings();
        all.into_iter()
            .map(|(place, standing)| (place.kind(), standing))
            .collect()
    }

    /// A place that is followed already may have to be read in another version, or at once.
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
        let standing = match inner.state.standing(place) {
            None | Some(WatchState::Following) => return,
            Some(standing) => standing.clone(),
        };
        let hurries = !standing.is_starting();
        if let Some(feed) = inner.feeds.get(place).filter(|_| hurries) {
            feed.hurry.notify_one();
        }
        waiting.push((place.kind(), standing));
    }

    fn begin(&self, inner: &mut Inner, place: Place, epoch: u64, resource: &ApiResource) {
        let hurry = Arc::new(Notify::new());
        let collection = self.shared.collection(&place, resource);
        let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
        let shared = Arc::downgrade(&self.shared);
        let told = place.clone();
        let (reader, seen) = (Arc::downgrade(&self.shared), place.clone());
        let task = tokio::spawn(feed::follow(
            collection,
            self.shared.pace.clone(),
            Arc::clone(&hurry),
            move |object| {
                read(object, &api_version, &kind, |object| match reader.upgrade() {
                    Some(shared) => shared.observe(&seen, object),
                    // nobody is left who could be told
                    None => Observed::of(object, seen.by()),
                })
            },
            move |change| Shared::change(&shared, &told, epoch, change),
        ));
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
        // in a namespace that there cannot be is nothing
        let namespace = namespace.map(|name| segment("namespace", name).unwrap_or(Cow::Borrowed("-")));
        Collection {
            client: self.client.clone(),
            path: DynamicObject::url_path(resource, namespace.as_deref()),
            labels,
            fields,
            metadata: false,
        }
    }

    /// Looks at an object as those do whom it matters to there.
    fn observe(&self, place: &Place, object: &Object) -> Observed {
        let mut observed = Observed::under(object, place.by(), &*self.rules);
        if let Place::Single(..) = place {
            let followers = self.inner().state.followers(place);
            for follower in followers {
                observed.judge(object, &follower, &*self.rules);
            }
        }
        observed
    }

    /// Feeds hold the hub weakly, so that it ends with its last user.
    fn change(this: &Weak<Self>, place: &Place, epoch: u64, change: feed::Change<Seen>) {
        let Some(shared) = this.upgrade() else { return };
        let wakes = shared.inner().state.change(place, epoch, change);
        shared.tell(wakes);
    }

    fn tell(&self, wakes: Vec<Wake>) {
        for wake in wakes {
            (self.wake)(wake);
        }
    }
}

/// A text as a value in a field selector, where some signs are its own.
fn value(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Observes an object and lets it go. Lists leave out what their items' kind is.
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
