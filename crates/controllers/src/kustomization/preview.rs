//! What a run would do to the cluster, without doing it: the same rendering, planning and wording.
//!
//! For people who look before they commit. It asks the API server about every object (a dry run
//! each) and writes nothing. Kustomizations are looked at together ([`Fleet`]): what moves from one to
//! another is neither deleted nor created.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_apply::cluster::{Cluster, Execution, Preview};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Live, Memory, Options, Presence, plan};
use equate_kustomize::{Inputs, Resource};
use equate_source::Tree;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::act::undeclared;
use super::build::{Rendered, Rendering, digest};
use super::declared::Declared;
use super::index::{self, Index, Need, Source};
use super::kept;
use super::others::{claimants, knowable, takers, wants};
use super::reasons::Failure;
use super::wants::{KUSTOMIZATIONS, Stand, Wants};
use crate::Key;
use crate::engine::OwnLoop;
use crate::runtime::mirror::{Change, What};

/// How long one object is asked for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What the plan calls a revision that no commit has yet.
const UNCOMMITTED: &str = "uncommitted";
/// So many Kustomizations may be declared beside those of the cluster.
const MORE: usize = 1000;

/// What a preview is made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Kustomization whose directory may hold the engine's own manifests.
    pub root: Option<OwnLoop>,
    /// The namespace of objects that name none.
    pub default_namespace: Option<String>,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A field has no meaning yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// The inventory in its status cannot be read, so what would be pruned is not known.
    #[error("its inventory cannot be read")]
    Inventory(#[source] equate_apply::id::ParseIdError),
    /// It cannot be built; the text is what its status would say.
    #[error("{0}")]
    Build(String),
    /// There is always one more: what nobody looked at may want what would be deleted.
    #[error(
        "more than {limit} Kustomizations are declared, which is as many as are looked at; does one declare \
         itself, or others without end?"
    )]
    TooMany {
        /// How many are looked at.
        limit: usize,
    },
    /// Its source has no tree here.
    #[error("it does not read what is looked at")]
    Unread,
    /// An object that would be pruned could not be looked at.
    #[error("could not look at {id}")]
    Look {
        /// Which.
        id: ObjectId,
        /// Why.
        #[source]
        source: equate_apply::cluster::ApplyError,
    },
}

/// Kustomizations as they would be built from trees: looked at together, because what one gives up
/// another may take.
#[derive(Debug, Default)]
pub struct Fleet {
    index: Index,
    members: BTreeMap<Key, Member>,
    /// By source, those of whom nobody knows what they would want.
    unknown: HashMap<Source, BTreeSet<Key>>,
    /// The limit that was reached before all were looked at.
    exceeded: Option<usize>,
}

/// Those that are still to be built, in order; of one name the latest.
#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<Key>,
    objects: BTreeMap<Key, Arc<Kustomization>>,
}

impl Queue {
    fn push(&mut self, object: Arc<Kustomization>) {
        let key = Key::of(&object.metadata);
        if self.objects.insert(key.clone(), object).is_none() {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<Arc<Kustomization>> {
        let key = self.order.pop_front()?;
        self.objects.remove(&key)
    }
}

#[derive(Debug)]
struct Member {
    object: Arc<Kustomization>,
    /// None where there is no tree to build it from.
    outcome: Option<Result<Rendered, Failure>>,
}

impl Fleet {
    /// Builds all Kustomizations of which there is a tree; of the others it is known what they hold.
    ///
    /// A Kustomization that one of them declares is built as it is declared, also if the cluster
    /// does not have it yet.
    pub async fn build<'t>(
        cluster: &Cluster,
        all: Vec<Kustomization>,
        tree_of: impl Fn(&Kustomization) -> Option<&'t Tree>,
        settings: impl Fn(&Kustomization) -> Settings,
    ) -> Fleet {
        let mut fleet = Fleet::default();
        let mut queue = Queue::default();
        all.into_iter()
            .map(Arc::new)
            .for_each(|object| queue.push(object));
        // one that declares itself, ever differently, ends here
        let limit = 4 * queue.order.len() + MORE;
        let mut looked = 0;
        while let Some(object) = queue.pop() {
            if looked == limit {
                fleet.exceeded = Some(limit);
                break;
            }
            looked += 1;
            let declared = Declared::from(&*object);
            let outcome = match tree_of(&object) {
                Some(tree) => {
                    let settings = settings(&object);
                    let rendering = Rendering {
                        cluster,
                        blocking: &Semaphore::new(1),
                        root: settings.root.as_ref(),
                        default_namespace: settings.default_namespace.as_deref(),
                    };
                    Some(rendering.render(&knowable(&declared, &object), tree).await)
                }
                None => None,
            };
            let key = declared.key.clone();
            fleet.take_in(object, outcome);
            if declared.unsupported.is_none() && !declared.suspend {
                let found = fleet.declared_by(&key, &queue);
                found.into_iter().for_each(|object| queue.push(object));
            }
        }
        fleet
    }

    /// Takes in a Kustomization whose objects were built elsewhere, in place of the one of its name.
    pub async fn put(
        &mut self,
        cluster: &Cluster,
        object: Kustomization,
        objects: Vec<Resource>,
        settings: &Settings,
    ) {
        let rendering = Rendering {
            cluster,
            blocking: &Semaphore::new(1),
            root: settings.root.as_ref(),
            default_namespace: settings.default_namespace.as_deref(),
        };
        let digest = digest(&objects);
        let declared = Declared::from(&object);
        let outcome = rendering.prepare(&declared, objects, Inputs::default(), digest);
        let outcome = outcome.await;
        self.take_in(Arc::new(object), Some(outcome));
    }

    /// The Kustomizations that could be built from a tree, or could not though there is one.
    pub fn kustomizations(&self) -> impl Iterator<Item = &Kustomization> {
        let built = self.members.values().filter(|member| member.outcome.is_some());
        built.map(|member| &*member.object)
    }

    /// The Kustomizations that one declares, as far as they are not known like that.
    fn declared_by(&self, key: &Key, queue: &Queue) -> Vec<Arc<Kustomization>> {
        let outcome = self.members.get(key).and_then(|member| member.outcome.as_ref());
        let Some(Ok(rendered)) = outcome else {
            return Vec::new();
        };
        let desired = rendered.desired.iter();
        desired
            .filter_map(|desired| self.declared(desired, queue))
            .collect()
    }

    /// A Kustomization that another one declares, if it is another than the one that is known.
    fn declared(&self, desired: &Desired, queue: &Queue) -> Option<Arc<Kustomization>> {
        if &*desired.id.group != KUSTOMIZATIONS
            || &*desired.id.kind != "Kustomization"
            || desired.own_loop
            || desired.policy.ignored()
        {
            return None;
        }
        // what is no Kustomization is refused when it is applied
        let value = Value::Object(desired.object.0.clone());
        let mut object: Kustomization = serde_json::from_value(value).ok()?;
        let key = Key::of(&object.metadata);
        let waiting = queue.objects.get(&key);
        let known = waiting.or_else(|| self.members.get(&key).map(|member| &member.object));
        if let Some(known) = known {
            if same_spec(known, &object) {
                return None;
            }
            object.metadata = known.metadata.clone();
            object.status.clone_from(&known.status);
        }
        Some(Arc::new(object))
    }

    fn take_in(&mut self, object: Arc<Kustomization>, outcome: Option<Result<Rendered, Failure>>) {
        let key = Key::of(&object.metadata);
        let change = Change {
            key: key.clone(),
            what: What::Appeared,
            before: None,
            after: Some(Arc::clone(&object)),
        };
        // nobody runs here who could be woken
        let _wakes = self.index.changed(&change);
        let wants = match &outcome {
            _ if object.spec.kube_config.is_some() => Some(Wants::nothing()),
            Some(outcome) => wants(&object, outcome),
            None => None,
        };
        if let Some(before) = self.members.get(&key) {
            let unknown = self.unknown.get_mut(&index::source(&before.object));
            unknown.map(|unknown| unknown.remove(&key));
        }
        let waited_for = !object.spec.suspend && object.metadata.deletion_timestamp.is_none();
        if waited_for && matches!(wants, Some(Wants::Unknown(_))) {
            let unknown = self.unknown.entry(index::source(&object)).or_default();
            unknown.insert(key.clone());
        }
        if let Some(wants) = wants {
            let stand = Stand {
                generation: object.metadata.generation.unwrap_or_default(),
                artifact: UNCOMMITTED.to_owned(),
                wants,
                applied: false,
                forms: Vec::new(),
            };
            let _wakes = self.index.stand(&key, stand);
        }
        self.members.insert(key, Member { object, outcome });
    }

    /// Another Kustomization of the same source of which nobody knows what it would want.
    fn awaited(&self, of: &Declared) -> Option<Owner> {
        let unknown = self.unknown.get(&(of.source_kind, of.source.clone()))?;
        let other = unknown.iter().find(|key| **key != of.key)?;
        Some(Owner::new(&other.namespace, &other.name))
    }

    /// Holds what a Kustomization would be built to against the cluster.
    ///
    /// # Errors
    /// When it cannot be built, or not all were looked at that are declared. That objects would be refused is part of the answer.
    pub async fn preview(
        &self,
        cluster: &Cluster,
        kustomization: &Kustomization,
    ) -> Result<Preview, PreviewError> {
        if let Some(limit) = self.exceeded {
            return Err(PreviewError::TooMany { limit });
        }
        let declared = Declared::from(kustomization);
        if let Some(field) = declared.unsupported {
            return Err(PreviewError::Unsupported(field));
        }
        if let Some(error) = declared.unreadable {
            return Err(PreviewError::Inventory(error));
        }
        let member = self.members.get(&declared.key);
        let desired = match member.and_then(|member| member.outcome.as_ref()) {
            Some(Ok(rendered)) => &rendered.desired,
            Some(Err(failure)) => return Err(PreviewError::Build(failure.to_string())),
            None => return Err(PreviewError::Unread),
        };
        let gone = undeclared(desired, &declared.inventory);
        let mut live = Live::default();
        for (id, version) in gone.iter() {
            let found = cluster.get(id, version, TIMEOUT).await;
            let found = found.map_err(|source| PreviewError::Look {
                id: id.clone(),
                source,
            })?;
            let presence = found.map_or(Presence::Absent, |object| {
                Presence::Present(Arc::new(Observed::of(&object)))
            });
            live.insert(id.clone(), presence);
        }
        let owner = Owner::new(&declared.key.namespace, &declared.key.name);
        let ids = desired.iter().map(|desired| &desired.id);
        let claims = claimants(&self.index, &declared.key, ids);
        let contenders = takers(&self.index, &declared.key, gone.ids());
        let presence = |id: &ObjectId| live.get(id).clone();
        let needed = kept::needed(&self.index, &declared.key, gone.ids(), presence, Need::Lasting);
        let awaited = self.awaited(&declared);
        let options = Options {
            prune: declared.prune,
            allow_empty: declared.allow_empty.as_deref(),
            claims: &claims,
            contenders: &contenders,
            awaited: awaited.as_ref(),
            needed: &needed,
            ..Options::new(&owner, UNCOMMITTED)
        };
        let planned: plan::Plan = plan(desired, &declared.inventory, &live, &Memory::default(), &options);
        let execution = Execution {
            force: declared.force,
            ..Execution::new(&options)
        };
        Ok(cluster.preview(&planned, desired, &execution).await)
    }
}

fn same_spec(one: &Kustomization, other: &Kustomization) -> bool {
    // what cannot be written is not the same as anything
    let text = |object: &Kustomization| serde_json::to_value(&object.spec).ok();
    text(one).is_some_and(|spec| Some(spec) == text(other))
}
