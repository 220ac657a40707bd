//! The published artifacts of all sources; the only reader of their statuses.
//!
//! The GitRepository controller follows GitRepositories. Of other kinds only metadata and the artifact
//! are kept, from the first reference on: an unused kind costs no watch. Their definitions may be
//! missing, before or after: that is reported, and retried.

pub(crate) mod artifacts;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use equate_api::kustomize::SourceKind;
use equate_api::source::{Artifact, Bucket, ExternalArtifact, GitRepository, OciRepository};
use equate_source::{Place, Publisher};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use serde::{Deserialize, Deserializer};
use tokio_util::task::AbortOnDropHandle;

use crate::kit::feed::Pace;
use crate::kit::mirror::{Change, Mirror, WatchState};
use crate::kit::read::chain;
use crate::{Key, ObjectRef};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceEvent {
    Artifact {
        source: ObjectRef,
        /// Whether the source itself is gone.
        gone: bool,
    },
    /// Whether the kind can be read changed.
    Kind(SourceKind),
}

pub(crate) trait Publishes {
    const KIND: SourceKind;

    fn artifact(&self) -> Option<&Artifact>;
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
        source: ObjectRef::of(K::KIND.as_str(), &change.key),
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
    pub(crate) repositories: Mirror<GitRepository>,
    oci: Lazy<OciRepository>,
    buckets: Lazy<Bucket>,
    external: Lazy<ExternalArtifact>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("repositories", &self.repositories)
            .finish_non_exhaustive()
    }
}

impl Sources {
    /// Other kinds are not followed yet. `on_event` must not block.
    pub(crate) fn new(
        repositories: Mirror<GitRepository>,
        client: &Client,
        pace: &Pace,
        on_event: &Arc<dyn Fn(SourceEvent) + Send + Sync>,
    ) -> Sources {
        Sources {
            repositories,
            oci: Lazy::new(client, pace, on_event),
            buckets: Lazy::new(client, pace, on_event),
            external: Lazy::new(client, pace, on_event),
        }
    }

    /// The state of a source; from now on its kind is followed.
    pub(crate) fn named(&self, source: &ObjectRef) -> Named {
        let mut kinds = SourceKind::ALL.iter();
        let key = &source.key();
        match kinds.find(|kind| kind.as_str() == source.kind) {
            Some(SourceKind::GitRepository) => named(&self.repositories, key),
            Some(SourceKind::OciRepository) => self.oci.named(key),
            Some(SourceKind::Bucket) => self.buckets.named(key),
            Some(SourceKind::ExternalArtifact) => self.external.named(key),
            None => Named::Unserved,
        }
    }

    pub(crate) fn artifact(&self, source: &ObjectRef) -> Option<Artifact> {
        match self.named(source) {
            Named::Artifact(found) => Some(found.artifact),
            Named::Unlisted(_) | Named::Unserved | Named::Absent | Named::Nothing => None,
        }
    }
}

fn named<K>(mirror: &Mirror<K>, key: &Key) -> Named
where
    K: Publishes + Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Send + Sync + 'static,
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
pub(crate) fn publisher(kind: SourceKind, meta: &ObjectMeta) -> Option<Publisher> {
    let Key { namespace, name } = Key::of(meta);
    let place = Place::new(kind.as_str(), &namespace, &name).ok()?;
    Some(Publisher::new(place, meta.uid.clone().unwrap_or_default()))
}

/// A mirror that begins with its first use.
struct Lazy<K> {
    client: Client,
    pace: Pace,
    on_event: Arc<dyn Fn(SourceEvent) + Send + Sync>,
    begun: OnceLock<(Mirror<Published<K>>, AbortOnDropHandle<()>)>,
}

impl<K> Lazy<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
    Published<K>: Publishes,
{
    fn new(client: &Client, pace: &Pace, on_event: &Arc<dyn Fn(SourceEvent) + Send + Sync>) -> Self {
        Self {
            client: client.clone(),
            pace: pace.clone(),
            on_event: Arc::clone(on_event),
            begun: OnceLock::new(),
        }
    }

    fn named(&self, key: &Key) -> Named {
        let (mirror, _) = self.begun.get_or_init(|| self.begin());
        named(mirror, key)
    }

    fn begin(&self) -> (Mirror<Published<K>>, AbortOnDropHandle<()>) {
        let on_event = Arc::clone(&self.on_event);
        let mirror = Mirror::start(
            self.client.clone(),
            self.pace.clone(),
            move |change: &Change<Published<K>>| {
                if let Some(event) = source_event(change) {
                    on_event(event);
                }
            },
        );
        let (mut watch_state, on_event) = (mirror.watch_state(), Arc::clone(&self.on_event));
        // wakes readers of missing sources as well
        let task = tokio::spawn(async move {
            let mut before = std::mem::discriminant(&WatchState::Starting);
            while watch_state.changed().await.is_ok() {
                let now = std::mem::discriminant(&*watch_state.borrow_and_update());
                if now != before {
                    before = now;
                    on_event(SourceEvent::Kind(Published::<K>::KIND));
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

impl Publishes for GitRepository {
    const KIND: SourceKind = SourceKind::GitRepository;

    fn artifact(&self) -> Option<&Artifact> {
        self.status.as_ref()?.artifact.as_ref()
    }
}

impl Publishes for Published<OciRepository> {
    const KIND: SourceKind = SourceKind::OciRepository;

    fn artifact(&self) -> Option<&Artifact> {
        self.status.artifact.as_ref()
    }
}

impl Publishes for Published<Bucket> {
    const KIND: SourceKind = SourceKind::Bucket;

    fn artifact(&self) -> Option<&Artifact> {
        self.status.artifact.as_ref()
    }
}

impl Publishes for Published<ExternalArtifact> {
    const KIND: SourceKind = SourceKind::ExternalArtifact;

    fn artifact(&self) -> Option<&Artifact> {
        self.status.artifact.as_ref()
    }
}
