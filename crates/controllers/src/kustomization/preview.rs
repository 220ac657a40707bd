//! Previews a run without writing: the same rendering, planning and wording.
//!
//! The API server gets one dry run for each object. Kustomizations are previewed together ([`Fleet`]): an
//! object that moves between two is neither deleted nor created. A Kustomization that would itself be
//! pruned wants nothing; the preview shows what happens to its objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use equate_api::kustomize::Kustomization;
use equate_apply::cluster::{Cluster, Execution, Preview};
use equate_apply::desired::Desired;
use equate_apply::difference::Shown;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::observed::Observed;
use equate_apply::owner::Owner;
use equate_apply::plan::{self, Live, Presence, PruneBudgetCheck};
use equate_egress::Egress;
use equate_kustomize::{Inputs, Resource};
use equate_manifest::object::Object;
use equate_source::Tree;
use serde_json::Value;
use tokio::time::Instant;

use super::decide::deletion::deletes;
use super::decide::objects::{Kinds, Objects, Others};
use super::decide::seen::{Last, Prepared, Seen};
use super::decide::{Step, deadline, decide};
use super::declared::Declared;
use super::inputs::substitute_from;
use super::inputs::vault_transit::{TransitSettings, Transits};
use super::observe::contests::is_written;
use super::reasons::{Failure, Stall};
use super::render::{Rendered, Rendering, desired_of, digest};
use crate::OwnLoop;
use crate::key::is_name;
use crate::kit::mirror::{Change, What};
use crate::kit::processors::{Processors, Threads};
use crate::kit::tenants::Tenants;
use crate::kustomization::declaration::{self, source_of};
use crate::kustomization::{KUSTOMIZATION, applies, object_ref, owner_of};
use crate::masks::Masks;
use crate::object_rules::ObjectRules;
use crate::ownership::claims;
use crate::ownership::claims::{claimants, takers};
use crate::ownership::desired::{DesiredSet, DesiredState, undeclared};
use crate::ownership::graph::{Need, Own, OwnershipGraph, Waiting};
use crate::policy::Policy;
use crate::targets::remote;
use crate::targets::target::{TargetCluster, user};
use crate::{Key, ObjectRef};

/// Limit for one object.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The name of a revision that is not committed yet.
const UNCOMMITTED: &str = "uncommitted";
/// The most Kustomizations that may be declared beside those of the cluster.
const MORE: usize = 1000;

/// The settings of a preview.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The Kustomization whose directory may hold the engine's own manifests.
    pub root: Option<OwnLoop>,
    /// The namespace of objects that name none.
    pub default_namespace: Option<String>,
    /// The tenancy policy.
    pub policy: Policy,
    /// The settings of transit engines for decryption.
    pub transit: TransitSettings,
}

/// An error of a preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// A setting of the Kustomization is invalid.
    #[error("{0}")]
    Setting(String),
    /// The inventory in its status cannot be read, so pruning is unknown.
    #[error("its inventory cannot be read")]
    Inventory(#[source] equate_apply::id::ParseIdError),
    /// It cannot be built; the text is that of its status.
    #[error("{0}")]
    Build(String),
    /// There are too many: an unread one may want an object that would be deleted.
    #[error(
        "more than {limit} Kustomizations are declared, which is the limit of a preview; check whether one \
         declares itself, directly or through others"
    )]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Its source has no tree in the preview.
    #[error("its source is not part of the preview")]
    Unread,
    /// An object that would be pruned cannot be read.
    #[error("cannot read {id} from the cluster")]
    Read {
        /// The object.
        id: ObjectId,
        /// The cause.
        #[source]
        source: equate_apply::cluster::ApplyError,
    },
}

/// Kustomizations and their builds from trees, previewed together because one may take another's objects.
#[derive(Debug)]
pub struct Fleet {
    processors: Processors,
    index: OwnershipGraph,
    rules: Arc<ObjectRules>,
    members: BTreeMap<Key, Member>,
    /// By source, those whose desired state is unknown.
    unknown: HashMap<ObjectRef, BTreeSet<Key>>,
    /// The limit, if it was exceeded.
    exceeded: Option<usize>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            processors: Processors::new(1, Tenants::default(), Threads::Own),
            index: OwnershipGraph::default(),
            rules: Arc::new(ObjectRules::of_kind(&KUSTOMIZATION)),
            members: BTreeMap::new(),
            unknown: HashMap::new(),
            exceeded: None,
        }
    }
}

/// A Kustomization that would be pruned.
#[derive(Debug)]
pub struct PrunedKustomization {
    /// Its key.
    pub key: Key,
    /// Whether it declares others.
    declares: bool,
}

/// The Kustomizations to build, in order; the latest of a name wins.
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
    /// Its target cluster, with its rights there.
    reached: Reached,
    state: MemberState,
}

type Reached = (TargetCluster, Cluster);

/// The state of one in the preview.
#[derive(Debug)]
enum MemberState {
    /// No tree to build it from.
    Unread,
    Built(Result<Rendered, Failure>),
    /// It is deleted, or would be.
    Goes,
}

impl MemberState {
    fn rendered(&self) -> Option<&Rendered> {
        match self {
            MemberState::Built(Ok(rendered)) => Some(rendered),
            MemberState::Built(Err(_)) | MemberState::Unread | MemberState::Goes => None,
        }
    }
}

/// The decision about one Kustomization's objects.
struct Prediction<'f> {
    objects: Objects,
    /// Whether an object is recreated where an update is refused.
    force: bool,
    step: Step,
    cluster: &'f Cluster,
}

impl Fleet {
    /// Builds all Kustomizations with a tree; of the others only their inventories count.
    ///
    /// A Kustomization that one of them declares is built as declared, even if the cluster does not have it
    /// yet. One that would be pruned is not: see [`Fleet::settle`].
    pub async fn build<'t>(
        cluster: &Cluster,
        all: Vec<Kustomization>,
        tree_of: impl Fn(&Kustomization) -> Option<&'t Tree>,
        settings: impl Fn(&Kustomization) -> Settings,
    ) -> Fleet {
        let mut all: Vec<Arc<Kustomization>> = all.into_iter().map(Arc::new).collect();
        loop {
            let mut fleet = Fleet::default();
            fleet.look_at(cluster, &all, &tree_of, &settings).await;
            let gone = fleet.settle().await;
            if !gone.iter().any(|going| going.declares) {
                return fleet;
            }
            // objects of the pruned ones are not created: build again without them
            for object in &mut all {
                let key = Key::of(&object.metadata);
                if gone.iter().any(|going| going.key == key) {
                    *object = Arc::new(going(object));
                }
            }
        }
    }

    async fn look_at<'t>(
        &mut self,
        cluster: &Cluster,
        all: &[Arc<Kustomization>],
        tree_of: &impl Fn(&Kustomization) -> Option<&'t Tree>,
        settings: &impl Fn(&Kustomization) -> Settings,
    ) {
        let mut queue = Queue::default();
        all.iter().for_each(|object| queue.push(Arc::clone(object)));
        // a Kustomization that declares ever new versions of itself ends here
        let limit = 4 * queue.order.len() + MORE;
        let mut looked = 0;
        while let Some(object) = queue.pop() {
            if looked == limit {
                self.exceeded = Some(limit);
                break;
            }
            looked += 1;
            let declared = Declared::from(&*object);
            self.rules.set(&declared.key, &object.spec);
            self.rules.compile_now(&declared.key);
            let settings = settings(&object);
            let (reached, access_failure) = reached(cluster, &declared, &settings.policy).await;
            let state = match (tree_of(&object), access_failure) {
                (Some(_), _) if declared.deleting => MemberState::Goes,
                (Some(_), Some(failure)) => MemberState::Built(Err(failure)),
                (Some(tree), None) => {
                    let rendering = Rendering {
                        cluster: &reached.1,
                        processors: &self.processors,
                        timeout_max: Duration::MAX,
                        throttled: &|| (),
                        root: settings.root.as_ref(),
                        default_namespace: settings.default_namespace.as_deref(),
                        transits: &Transits::new(settings.transit.clone(), Egress::default()),
                        rules: &self.rules,
                    };
                    let read = substitute_from::read(
                        cluster.client(),
                        &declared.key.namespace,
                        &declared.substitute_from,
                        declared.decryption.as_ref(),
                        settings.policy.sops_age_secret.as_ref(),
                    );
                    MemberState::Built(match read.await {
                        Ok(values) => rendering.render(&declared, Some(&values), tree).await,
                        Err(error) => Err(error.into()),
                    })
                }
                (None, _) => MemberState::Unread,
            };
            let key = declared.key.clone();
            self.take_in(object, state, reached);
            if !declared.suspend {
                let found = self.declared_by(&key, &queue);
                found.into_iter().for_each(|object| queue.push(object));
            }
        }
    }

    /// Finds the Kustomizations that would be pruned. They want nothing any more, and the ones that they
    /// hold may be pruned in turn. Reads only those from the cluster.
    pub async fn settle(&mut self) -> Vec<PrunedKustomization> {
        let mut all = Vec::new();
        if self.exceeded.is_some() {
            return all;
        }
        loop {
            let mut found = BTreeSet::new();
            for member in self.members.values().filter(|member| self.may_drop(member)) {
                // errors are reported where the preview itself is requested
                let prediction = self.prediction(&member.object).await;
                let Ok(Some(prediction)) = prediction else {
                    continue;
                };
                let plan = prediction.step.objects().filter(|plan| plan.guard.is_none());
                let pruned = plan.into_iter().flat_map(|plan| &plan.prune);
                found.extend(pruned.filter_map(|step| match step {
                    plan::Step::Prune { id, .. } => self.living(id),
                    _ => None,
                }));
            }
            if found.is_empty() {
                return all;
            }
            for key in found {
                let Some(member) = self.members.get(&key) else {
                    continue;
                };
                let rendered = member.state.rendered();
                let declares = rendered.is_some_and(|rendered| rendered.desired.iter().any(is_kustomization));
                let object = Arc::new(going(&member.object));
                let reached = member.reached.clone();
                self.take_in(object, MemberState::Goes, reached);
                all.push(PrunedKustomization { key, declares });
            }
        }
    }

    /// Whether one may drop a Kustomization: it holds some that it does not declare, and its plan is
    /// carried out.
    fn may_drop(&self, member: &Member) -> bool {
        let declared = Declared::from(&*member.object);
        let desired = match &member.state {
            MemberState::Built(Ok(rendered)) if !declared.suspend => &rendered.desired[..],
            MemberState::Goes => &[],
            MemberState::Built(_) | MemberState::Unread => return false,
        };
        let mut held = declared.inventory.ids().filter(|id| self.living(id).is_some());
        held.any(|id| !desired.iter().any(|desired| desired.id == *id))
    }

    /// The Kustomization of an object, if it is known and stays.
    fn living(&self, id: &ObjectId) -> Option<Key> {
        applies(id)?;
        let key = Key::new(&*id.namespace, &*id.name);
        let member = self.members.get(&key)?;
        let meta = &member.object.metadata;
        // one that was never created is not deleted
        (meta.deletion_timestamp.is_none() && meta.creation_timestamp.is_some()).then_some(key)
    }

    /// Adds a Kustomization whose objects were built elsewhere, replacing the one of its name.
    pub async fn put(
        &mut self,
        cluster: &Cluster,
        object: Kustomization,
        objects: Vec<Resource>,
        settings: &Settings,
    ) {
        let declared = Declared::from(&object);
        let (reached, access_failure) = reached(cluster, &declared, &settings.policy).await;
        let acting = reached.1.clone();
        let rendering = Rendering {
            cluster: &acting,
            processors: &self.processors,
            timeout_max: Duration::MAX,
            throttled: &|| (),
            root: settings.root.as_ref(),
            default_namespace: settings.default_namespace.as_deref(),
            transits: &Transits::new(settings.transit.clone(), Egress::default()),
            rules: &self.rules,
        };
        let digest = digest(&objects);
        self.rules.set(&declared.key, &object.spec);
        self.rules.compile_now(&declared.key);
        let outcome = match access_failure {
            Some(failure) => Err(failure),
            None => {
                let prepared = rendering.prepare(&declared, objects, Inputs::default(), digest);
                prepared.await
            }
        };
        self.take_in(Arc::new(object), MemberState::Built(outcome), reached);
    }

    /// The Kustomizations with a tree, and those that would be pruned.
    pub fn kustomizations(&self) -> impl Iterator<Item = &Kustomization> {
        let members = self.members.values();
        let looked_at = members.filter(|member| !matches!(member.state, MemberState::Unread));
        looked_at.map(|member| &*member.object)
    }

    /// The objects of a Kustomization that was built, with their namespaces.
    pub fn built(&self, kustomization: &Kustomization) -> Vec<Object> {
        let member = self.members.get(&Key::of(&kustomization.metadata));
        let rendered = member.and_then(|member| member.state.rendered());
        let desired = rendered.map_or(&[][..], |rendered| &rendered.desired[..]);
        let with_namespace = |desired: &Desired| {
            let mut object = Object(desired.object.0.clone());
            if !desired.id.namespace.is_empty() {
                let metadata = object.0.get_mut("metadata").and_then(Value::as_object_mut);
                if let Some(metadata) = metadata {
                    metadata.insert("namespace".to_owned(), (&*desired.id.namespace).into());
                }
            }
            object
        };
        desired.iter().map(with_namespace).collect()
    }

    /// A Kustomization by its key.
    pub fn get(&self, key: &Key) -> Option<&Kustomization> {
        self.members.get(key).map(|member| &*member.object)
    }

    /// The new or changed Kustomizations that one declares.
    fn declared_by(&self, key: &Key, queue: &Queue) -> Vec<Arc<Kustomization>> {
        let rendered = self.members.get(key).and_then(|member| member.state.rendered());
        let Some(rendered) = rendered else {
            return Vec::new();
        };
        let desired = rendered.desired.iter();
        desired
            .filter_map(|desired| self.declared(desired, queue))
            .collect()
    }

    /// A Kustomization that another one declares, if it differs from the known one.
    fn declared(&self, desired: &Desired, queue: &Queue) -> Option<Arc<Kustomization>> {
        if !is_kustomization(desired) {
            return None;
        }
        // an invalid Kustomization is refused when it is applied
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

    fn take_in(&mut self, object: Arc<Kustomization>, state: MemberState, reached: Reached) {
        let key = Key::of(&object.metadata);
        let change = Change {
            key: key.clone(),
            what: What::Appeared,
            before: None,
            after: Some(Arc::clone(&object)),
        };
        // a preview has no controllers to wake
        let _wakes = declaration::changed(&mut self.index, &change, true, &Policy::default());
        let reference = object_ref(&key);
        self.index.set_target(&reference, &reached.0);
        let wants = match &state {
            MemberState::Goes => Some(DesiredSet::nothing()),
            MemberState::Built(outcome) => desired_of(outcome),
            MemberState::Unread => None,
        };
        if let Some(before) = self.members.get(&key) {
            let unknown = self.unknown.get_mut(&source_of(&before.object));
            unknown.map(|unknown| unknown.remove(&key));
        }
        let waited_for = !object.spec.suspend && object.metadata.deletion_timestamp.is_none();
        if waited_for && matches!(wants, Some(DesiredSet::Unknown(_))) {
            let unknown = self.unknown.entry(source_of(&object)).or_default();
            unknown.insert(key.clone());
        }
        if let Some(wants) = wants {
            let desired_state = DesiredState {
                generation: object.metadata.generation.unwrap_or_default(),
                artifact: UNCOMMITTED.to_owned(),
                wants,
                applied: false,
                forms: Vec::new(),
            };
            let _wakes = self.index.set_desired(&reference, desired_state);
        }
        let member = Member {
            object,
            reached,
            state,
        };
        self.members.insert(key, member);
    }

    /// Another Kustomization of the same source whose desired state is unknown.
    fn awaited(&self, of: &Declared) -> Option<Owner> {
        let unknown = self.unknown.get(&of.source_ref())?;
        let other = unknown.iter().find(|key| **key != of.key)?;
        Some(owner_of(other))
    }

    /// Compares a Kustomization's build with the cluster.
    ///
    /// # Errors
    /// When it cannot be built, or too many Kustomizations are declared. Objects that the cluster refuses
    /// are part of the answer.
    pub async fn preview(&self, kustomization: &Kustomization) -> Result<Preview, PreviewError> {
        if let Some(limit) = self.exceeded {
            return Err(PreviewError::TooMany { limit });
        }
        let Some(prediction) = self.prediction(kustomization).await? else {
            return Ok(Preview::default());
        };
        let Some(plan) = prediction.step.objects() else {
            return Ok(Preview::default());
        };
        let options = prediction.objects.options();
        let execution = Execution {
            force: prediction.force,
            rules: &*self.rules,
            ..Execution::new(&options)
        };
        let desired = &prediction.objects.desired;
        let mut preview = prediction.cluster.preview(plan, desired, &execution).await;
        let member = self.members.get(&Key::of(&kustomization.metadata));
        if let Some(rendered) = member.and_then(|member| member.state.rendered()) {
            hide(&mut preview, &rendered.opened);
        }
        Ok(preview)
    }

    /// The decision about one; none where nothing happens.
    async fn prediction(
        &self,
        kustomization: &Kustomization,
    ) -> Result<Option<Prediction<'_>>, PreviewError> {
        let key = Key::of(&kustomization.metadata);
        let Some(member) = self.members.get(&key) else {
            return Err(PreviewError::Unread);
        };
        let mut declared = Declared::from(kustomization);
        if let MemberState::Goes = &member.state {
            declared.deleting = true;
            if !deletes(&declared) {
                return Ok(None);
            }
        }
        if let Some(obstacle) = self.obstacle(&mut declared) {
            return Err(obstacle);
        }
        let desired = match &member.state {
            MemberState::Built(Ok(rendered)) => Arc::clone(&rendered.desired),
            MemberState::Built(Err(failure)) => return Err(PreviewError::Build(failure.to_string())),
            MemberState::Unread => return Err(PreviewError::Unread),
            MemberState::Goes => Arc::default(),
        };
        let cluster = &member.reached.1;
        let objects = self.objects(&declared, desired, cluster).await?;
        let force = declared.force;
        Ok(Some(Prediction {
            step: step(declared, objects.clone()),
            objects,
            force,
            cluster,
        }))
    }

    /// The obstacle of one as an error; removes it from the declaration.
    fn obstacle(&self, declared: &mut Declared) -> Option<PreviewError> {
        if let Some(problem) = self.rules.problem(&declared.key).filter(|_| !declared.deleting) {
            return Some(PreviewError::Setting(Stall::from(problem).to_string()));
        }
        if let Some(why) = declared.misread.take().filter(|_| !declared.deleting) {
            return Some(PreviewError::Setting(why));
        }
        if let Some(name) = declared.service_account.take().filter(|name| !is_name(name)) {
            return Some(PreviewError::Build(Stall::Account(name).to_string()));
        }
        declared.unreadable.take().map(PreviewError::Inventory)
    }

    /// The objects of one, and the others' claims on them.
    async fn objects(
        &self,
        declared: &Declared,
        desired: Arc<Vec<Desired>>,
        cluster: &Cluster,
    ) -> Result<Objects, PreviewError> {
        let gone = undeclared(&desired, &declared.inventory);
        let live = looked_at(cluster, &gone).await?;
        // the number of held objects that were read
        let held = declared.inventory.ids();
        let held = held.filter(|id| *live.get(id) != Presence::Absent).count();
        let presence = |id: &ObjectId| live.get(id).clone();
        let (me, ids) = (
            object_ref(&declared.key),
            desired.iter().map(|desired| &desired.id),
        );
        Ok(Objects {
            owner: owner_of(&declared.key),
            revision: UNCOMMITTED.to_owned(),
            claims: claimants(&self.index, &me, ids),
            assigned: assigned(&self.index, declared, &desired),
            unclaimed: Vec::new(),
            takers: takers(&self.index, &me, gone.ids()),
            needed: claims::needed(&self.index, &me, gone.ids(), presence, Need::Lasting),
            released: BTreeMap::new(),
            backing_off: BTreeMap::new(),
            applies: Arc::default(),
            held: declared.inventory.clone(),
            prune: declared.prune || declared.deleting,
            // a deleted one has no revision that could be empty by mistake
            may_be_empty: declared.deleting || declared.allow_empty.as_deref() == Some(UNCOMMITTED),
            prune_check: (!declared.deleting).then_some(PruneBudgetCheck {
                budget: declared.prune_budget,
                held,
            }),
            others: Others {
                awaited: self.awaited(declared),
                ..Others::default()
            },
            kinds: Kinds::default(),
            desired,
            live,
        })
    }
}

/// The step of a run that nothing delays.
fn step(mut declared: Declared, objects: Objects) -> Step {
    let now = Instant::now();
    // a suspended one is previewed as if resumed; decryption happened in the build
    declared.suspend &= declared.deleting;
    declared.decryption = None;
    let last = Last::of_build(declared.generation, UNCOMMITTED, deadline(now, declared.timeout));
    let mut seen = Seen::of_build(UNCOMMITTED, last, objects, now);
    seen.deletion.prepared = Some(Prepared {
        account: true,
        starting: false,
    });
    decide(&declared, &seen, now).step
}

/// Masks values of Secrets and decrypted texts, also in answers of the API server.
fn hide(preview: &mut Preview, opened: &Masks) {
    for failure in &mut preview.failures {
        failure.error.map_messages(|text| opened.mask(text));
    }
    let steps = preview.plan.stages.iter_mut().flat_map(|stage| &mut stage.steps);
    let changes = steps.filter_map(|step| match step {
        plan::Step::Patch { changes, .. } => Some(changes),
        plan::Step::Recreate { why, .. } => {
            *why = opened.mask(why);
            None
        }
        _ => None,
    });
    let shown = changes
        .flatten()
        .flat_map(|change| [&mut change.before, &mut change.after])
        .flatten();
    for shown in shown {
        if matches!(shown, Shown::Value(value) if opened.hides(value)) {
            *shown = Shown::Masked;
        }
    }
}

/// The target cluster of a Kustomization with its rights there, or an error. The API server refuses an
/// identity that does not exist.
async fn reached(here: &Cluster, declared: &Declared, policy: &Policy) -> (Reached, Option<Failure>) {
    let full = match &declared.kube_config {
        None => Ok((TargetCluster::Local, here.clone())),
        Some(secret) => {
            // the preview runs with the rights of its user, who chose the commit
            let egress = Egress::default();
            remote::open_once(here.client(), &declared.key.namespace, secret, policy, &egress).await
        }
    };
    let (target, cluster) = match full {
        Ok(full) => full,
        Err(error) => return ((TargetCluster::Unknown, here.clone()), Some(error.into())),
    };
    let account = declared.account(policy);
    let acting = account.map(|account| cluster.acting_as(&user(&declared.key.namespace, account)));
    match acting {
        Some(Ok(acting)) => ((target, acting), None),
        Some(Err(_)) | None => ((target, cluster), None),
    }
}

/// The declared objects that another owner has or gets, once all of them are applied.
fn assigned(index: &OwnershipGraph, declared: &Declared, desired: &[Desired]) -> BTreeMap<ObjectId, Owner> {
    let (me, mut waiting) = (object_ref(&declared.key), Waiting::default());
    let written = desired.iter().filter(|desired| is_written(desired));
    written
        .filter_map(|Desired { id, .. }| {
            let own = Own {
                holds: declared.inventory.contains(id),
                // the labels in the cluster count for applied objects, not for planned ones
                named: None,
                artifact: Some(UNCOMMITTED),
            };
            let other = index.owned_by_other(id, &me, own, &mut waiting)?;
            Some((id.clone(), index.owner(other)))
        })
        .collect()
}

async fn looked_at(cluster: &Cluster, inventory: &Inventory) -> Result<Live, PreviewError> {
    let mut live = Live::default();
    for (id, version) in inventory.iter() {
        let found = cluster.get(id, version, TIMEOUT).await;
        let found = found.map_err(|source| PreviewError::Read {
            id: id.clone(),
            source,
        })?;
        let presence = found.map_or(Presence::Absent, |object| {
            Presence::Present(Arc::new(Observed::of(&object, &KUSTOMIZATION)))
        });
        live.insert(id.clone(), presence);
    }
    Ok(live)
}

/// A Kustomization after its deletion was requested.
fn going(object: &Kustomization) -> Kustomization {
    let mut object = object.clone();
    // the value of the timestamp does not matter
    let created = object.metadata.creation_timestamp.clone();
    object.metadata.deletion_timestamp = object.metadata.deletion_timestamp.or(created);
    object
}

fn is_kustomization(desired: &Desired) -> bool {
    applies(&desired.id).is_some() && !desired.own_loop && !desired.policy.ignored()
}

fn same_spec(one: &Kustomization, other: &Kustomization) -> bool {
    // values that do not serialize are never equal
    let text = |object: &Kustomization| serde_json::to_value(&object.spec).ok();
    text(one).is_some_and(|spec| Some(spec) == text(other))
}
