//! The published artifacts of all sources; the only reader of their statuses.
//!
//! A controller of sources says so with [`Kit::serve_source`](crate::kit::services::Kit::serve_source): its
//! objects are followed from the start. Of other kinds only metadata and the artifact are kept, from the
//! first reference on: an unused kind costs no watch. Their definitions may be missing, before or after:
//! that is reported, and retried.

pub(crate) mod artifacts;
pub(crate) mod chart_tags;
pub(crate) mod charts;
pub(crate) mod draft;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod local;
#[cfg(test)]
mod local_tests;
pub(crate) mod readers;
pub(crate) mod secrets;
pub(crate) mod selection;
pub(crate) mod signatures;
pub(crate) mod store;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod watches;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::discriminant;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use equate_api::source::{
    Artifact, Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OciRepository,
};
use equate_source::{Place, Publisher};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tokio_util::task::AbortOnDropHandle;

use crate::kit::controller::Reconcilable;
use crate::kit::feed::Pace;
use crate::kit::mirror::{Change, Mirror, WatchState};
use crate::kit::read::chain;
use crate::{Key, ObjectRef, Shards};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceEvent {
    Artifact {
        source: ObjectRef,
        /// Whether the source itself is gone.
        gone: bool,
    },
    /// Whether the kind can be read changed.
    Kind(&'static str),
}

/// Receives each event; must not block.
pub(crate) type OnEvent = Arc<dyn Fn(SourceEvent) + Send + Sync>;

/// A kind of objects that publish artifacts.
pub(crate) trait SourceType:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static
{
    const KIND: &'static str;
}

pub(crate) trait Publishes: SourceType {
    fn artifact(&self) -> Option<&Artifact>;
}

macro_rules! source_types {
    ($($type:ident = $kind:literal),+ $(,)?) => {$(
        impl SourceType for $type {
            const KIND: &'static str = $kind;
        }

        impl Publishes for $type {
            fn artifact(&self) -> Option<&Artifact> {
                self.status.as_ref()?.artifact.as_ref()
            }
        }
    )+};
}

source_types! {
    GitRepository = "GitRepository",
    OciRepository = "OCIRepository",
    Bucket = "Bucket",
    HelmRepository = "HelmRepository",
    HelmChart = "HelmChart",
    ExternalArtifact = "ExternalArtifact",
}

/// The event of a change, if it matters to the source's readers.
pub(crate) fn source_event<K: Publishes>(change: &Change<K>) -> Option<SourceEvent> {
    let artifact = |object: &Option<Arc<K>>| {
        let artifact = object.as_ref()?.artifact()?;
        Some((
            artifact.revision.clone(),
            artifact.digest.clone(),
            artifact.url.clone(),
        ))
    };
    let same = change.before.is_some() == change.after.is_some()
        && artifact(&change.before) == artifact(&change.after);
    (!same).then(|| SourceEvent::Artifact {
        source: ObjectRef::of(K::KIND, &change.key),
        gone: change.after.is_none(),
    })
}

#[derive(Debug, Clone)]
pub(crate) enum Named {
    /// Not known yet, with the error if there is one; the reader will be woken.
    Unlisted(Option<String>),
    Unserved,
    Absent,
    Nothing,
    Artifact(Box<SourceArtifact>),
}

#[derive(Debug, Clone)]
pub(crate) struct SourceArtifact {
    pub(crate) artifact: Artifact,
    pub(crate) publisher: Publisher,
}

pub(crate) struct Sources {
    /// The kinds that this process reconciles; written while the controllers are made.
    served: RwLock<BTreeMap<&'static str, Arc<dyn Follow>>>,
    others: BTreeMap<&'static str, Box<dyn Follow>>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

impl Sources {
    /// No kind is followed yet.
    pub(crate) fn new(client: &Client, pace: &Pace, on_event: &OnEvent) -> Sources {
        fn lazy<K: SourceType>(
            client: &Client,
            pace: &Pace,
            on_event: &OnEvent,
        ) -> (&'static str, Box<dyn Follow>) {
            (K::KIND, Box::new(Lazy::<K>::new(client, pace, on_event)))
        }
        Sources {
            served: RwLock::default(),
            others: BTreeMap::from([
                lazy::<GitRepository>(client, pace, on_event),
                lazy::<OciRepository>(client, pace, on_event),
                lazy::<Bucket>(client, pace, on_event),
                lazy::<HelmChart>(client, pace, on_event),
                lazy::<ExternalArtifact>(client, pace, on_event),
            ]),
        }
    }

    /// Reads the objects of a kind from the mirror of the controller that reconciles them here.
    pub(crate) fn serve<K>(&self, mirror: &Mirror<K>, shards: &Shards, on_event: &OnEvent)
    where
        K: Publishes + Reconcilable,
    {
        let (events, own) = (Arc::clone(on_event), mirror.clone());
        mirror.subscribe(move |change| source_event(change).into_iter().for_each(|event| events(event)));
        let (mut watch_state, on_event) = (mirror.watch_state(), Arc::clone(on_event));
        let task = tokio::spawn(async move {
            let mut missing = false;
            while watch_state.changed().await.is_ok() {
                let now = matches!(*watch_state.borrow_and_update(), WatchState::Unserved);
                if std::mem::replace(&mut missing, now) != now {
                    on_event(SourceEvent::Kind(K::KIND));
                }
            }
        });
        let served = Served {
            mirror: own,
            shards: shards.clone(),
            _task: AbortOnDropHandle::new(task),
        };
        let mut all = self.served.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(K::KIND, Arc::new(served));
    }

    /// The state of a source; from now on its kind is followed.
    pub(crate) fn named(&self, source: &ObjectRef) -> Named {
        let key = &source.key();
        match self.served(source.kind) {
            Some(served) => served.named(key),
            None => self
                .others
                .get(source.kind)
                .map_or(Named::Unserved, |kind| kind.named(key)),
        }
    }

    pub(crate) fn artifact(&self, source: &ObjectRef) -> Option<Artifact> {
        match self.named(source) {
            Named::Artifact(found) => Some(found.artifact),
            Named::Unlisted(_) | Named::Unserved | Named::Absent | Named::Nothing => None,
        }
    }

    /// Whether a controller of this process has the kind, for all objects or for some.
    pub(crate) fn serves_kind(&self, kind: &str) -> bool {
        self.served(kind).is_some()
    }

    /// Whether this process reconciles a source, so that the store has its artifact. A source that is not
    /// known is of no process.
    pub(crate) fn serves(&self, source: &ObjectRef) -> bool {
        self.served(source.kind)
            .is_some_and(|served| served.is_own(&source.key()))
    }

    /// The sources that this process reconciles, without suspended ones.
    pub(crate) fn reconciled(&self) -> Vec<ObjectRef> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let all = served.iter();
        all.flat_map(|(kind, served)| {
            let keys = served.reconciled().into_iter();
            keys.map(|key| ObjectRef::of(kind, &key))
        })
        .collect()
    }

    /// Waits until the sources of these kinds are known that this process reconciles, and GitRepositories in
    /// any case. A kind without definition has no sources.
    pub(crate) async fn ready(&self, kinds: &[&'static str]) {
        for kind in kinds {
            match (self.served(kind), self.others.get(kind)) {
                (Some(served), _) => served.known().await,
                (None, Some(other)) if *kind == GitRepository::KIND => other.known().await,
                (None, _) => {}
            }
        }
    }

    fn served(&self, kind: &str) -> Option<Arc<dyn Follow>> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        served.get(kind).cloned()
    }
}

type Known<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A kind of sources, of this process or of others.
trait Follow: Send + Sync {
    fn named(&self, key: &Key) -> Named;

    /// Completes when its objects are known, or the kind has no definition.
    fn known(&self) -> Known<'_>;

    fn is_own(&self, _key: &Key) -> bool {
        false
    }

    fn reconciled(&self) -> Vec<Key> {
        Vec::new()
    }
}

/// A kind that this process reconciles.
struct Served<K> {
    mirror: Mirror<K>,
    shards: Shards,
    _task: AbortOnDropHandle<()>,
}

impl<K: Publishes + Reconcilable> Follow for Served<K> {
    fn named(&self, key: &Key) -> Named {
        named(&self.mirror, key)
    }

    fn known(&self) -> Known<'_> {
        Box::pin(known(&self.mirror))
    }

    fn is_own(&self, key: &Key) -> bool {
        let object = self.mirror.get(key);
        object.is_some_and(|object| self.shards.own(object.meta()))
    }

    fn reconciled(&self) -> Vec<Key> {
        let all = self.mirror.all();
        let own = all
            .iter()
            .filter(|object| self.shards.own(object.meta()) && !object.is_suspended());
        own.map(|object| Key::of(object.meta())).collect()
    }
}

/// Completes when the objects are listed, or the kind has no definition.
pub(crate) async fn known<K>(mirror: &Mirror<K>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let mut watch_state = mirror.watch_state();
    while !mirror.is_ready() && !matches!(*watch_state.borrow_and_update(), WatchState::Unserved) {
        // the sender lives as long as the mirror
        if watch_state.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

fn named<K>(mirror: &Mirror<K>, key: &Key) -> Named
where
    K: Publishes + Clone + DeserializeOwned + Send + Sync,
{
    // read first: a change in between wakes the reader
    let listed = mirror.is_ready();
    if let Some(object) = mirror.get(key) {
        return match (object.artifact(), publisher(K::KIND, object.meta())) {
            (Some(artifact), Some(publisher)) => Named::Artifact(Box::new(SourceArtifact {
                artifact: artifact.clone(),
                publisher,
            })),
            _ => Named::Nothing,
        };
    }
    match &*mirror.watch_state().borrow() {
        WatchState::Unserved => Named::Unserved,
        _ if listed => Named::Absent,
        WatchState::Troubled(error) => Named::Unlisted(Some(chain(&**error))),
        WatchState::Starting | WatchState::Following => Named::Unlisted(None),
    }
}

/// None for names that no API server accepts.
pub(crate) fn publisher(kind: &str, meta: &ObjectMeta) -> Option<Publisher> {
    let Key { namespace, name } = Key::of(meta);
    let place = Place::new(kind, &namespace, &name).ok()?;
    Some(Publisher::new(place, meta.uid.clone().unwrap_or_default()))
}

/// A kind that other processes reconcile: a mirror that begins with its first use.
struct Lazy<K> {
    client: Client,
    pace: Pace,
    on_event: OnEvent,
    begun: OnceLock<(Mirror<Published<K>>, AbortOnDropHandle<()>)>,
}

impl<K: SourceType> Follow for Lazy<K> {
    fn named(&self, key: &Key) -> Named {
        named(self.mirror(), key)
    }

    fn known(&self) -> Known<'_> {
        Box::pin(known(self.mirror()))
    }
}

impl<K: SourceType> Lazy<K> {
    fn new(client: &Client, pace: &Pace, on_event: &OnEvent) -> Self {
        Self {
            client: client.clone(),
            pace: pace.clone(),
            on_event: Arc::clone(on_event),
            begun: OnceLock::new(),
        }
    }

    fn mirror(&self) -> &Mirror<Published<K>> {
        let (mirror, _) = self.begun.get_or_init(|| self.begin());
        mirror
    }

    fn begin(&self) -> (Mirror<Published<K>>, AbortOnDropHandle<()>) {
        let on_event = Arc::clone(&self.on_event);
        let mirror = Mirror::start(self.client.clone(), self.pace.clone(), move |change| {
            source_event(change).into_iter().for_each(|event| on_event(event));
        });
        let (mut watch_state, on_event) = (mirror.watch_state(), Arc::clone(&self.on_event));
        // wakes readers of missing sources as well
        let task = tokio::spawn(async move {
            let mut before = discriminant(&WatchState::Starting);
            while watch_state.changed().await.is_ok() {
                let now = discriminant(&*watch_state.borrow_and_update());
                if now != before {
                    before = now;
                    on_event(SourceEvent::Kind(K::KIND));
                }
            }
        });
        (mirror, AbortOnDropHandle::new(task))
    }
}

/// The fields of another kind of source that matter here.
#[derive(Deserialize)]
#[serde(bound = "")]
struct Published<K> {
    #[serde(deserialize_with = "slim")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: PublishedStatus,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone, Default, Deserialize)]
struct PublishedStatus {
    artifact: Option<Artifact>,
}

// by hand: derived, it would require `K: Clone`
impl<K> Clone for Published<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            status: self.status.clone(),
            kind: PhantomData,
        }
    }
}

/// Drops the managed fields: long, and not needed here.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let metadata = ObjectMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        managed_fields: None,
        ..metadata
    })
}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Resource for Published<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dynamic: &()) -> std::borrow::Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &()) -> std::borrow::Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &()) -> std::borrow::Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &()) -> std::borrow::Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K: SourceType> SourceType for Published<K> {
    const KIND: &'static str = K::KIND;
}

impl<K: SourceType> Publishes for Published<K> {
    fn artifact(&self) -> Option<&Artifact> {
        self.status.artifact.as_ref()
    }
}
