//! Whether one that impersonates may write what it wants: before another keeps anything for it.
//!
//! To declare an object costs nothing, so a want is no right. A tenant that declares what is the
//! platform's would keep the platform from deleting it, and one in whose build nobody can look might
//! want anything. So whoever is about to delete asks the API server with the other's identity
//! whether that could write the object: what it could not is not kept for it, and it is not waited
//! for. Asked is only about objects that are to be deleted and somebody else wants, or may want; an
//! answer holds for half a minute. Where nobody can say, the want counts.
//!
//! Of a Namespace or a CustomResourceDefinition it is asked once for each kind and namespace: a right
//! to a single object by its name is not found there. What is wanted is walked over once for each of
//! them, and all are asked about together.
//!
//! Here the questions are found; `act::survey` asks them.

use std::collections::BTreeSet;

use equate_apply::container::Container;
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_apply::plan::Presence;
use tokio::time::Instant;

use super::contests::is_written;
use super::follow::version;
use crate::kustomization::decide::seen::{Question, Questions};
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::{Kustomizations, object_ref, owner_of};
use crate::ownership::access_reviews::within;
use crate::ownership::graph::{Need, OwnershipGraph};
use crate::ownership::survey::Survey;
use crate::targets::target::TargetCluster;
use crate::{Key, ObjectRef};

/// Of so many it is asked in one run whether they need be waited for; the others are waited for
/// meanwhile.
const SUSPECTS: usize = 16;
/// So many kinds and namespaces are asked about for one container in one run.
const WITHIN: usize = 64;

/// Whether those may write what is to be deleted who want it, or may.
pub(super) fn questions(
    cx: &Kustomizations,
    graph: &OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    gone: &Inventory,
    survey: &Survey,
) -> Questions {
    let access = cx.access(memory);
    if access.target != TargetCluster::Local || !(ks.prune || ks.deleting) {
        return Questions::default();
    }
    let now = Instant::now();
    let me = object_ref(&ks.key);
    let mut holding_up: BTreeSet<ObjectRef> = BTreeSet::new();
    for key in survey.holding_up(now) {
        if holding_up.len() == SUSPECTS {
            break;
        }
        if *key != me && graph.user(key).is_some() {
            holding_up.insert(key.clone());
        }
    }
    let mut found = Questions::default();
    for (id, version) in gone.iter() {
        if memory.this_run.reviewed.contains(id) {
            continue;
        }
        let rivals = graph.rivals(id, &me).cloned();
        let all: BTreeSet<ObjectRef> = rivals.chain(holding_up.iter().cloned()).collect();
        let unknown = all
            .into_iter()
            .filter(|key| !graph.reviews.is_known(key, id, now));
        let before = found.objects.len();
        found.objects.extend(unknown.filter_map(|key| {
            Some(Question {
                user: graph.user(&key)?.to_owned(),
                by: graph.owner(&key),
                id: id.clone(),
                version: version.to_owned(),
            })
        }));
        let container = Container::of(id, &Presence::Unknown).and_then(|_| {
            // most objects are none: the cluster is not looked at for them
            Container::of(id, &access.view.get(id))
        });
        let within = container.map(|container| within_container(cx, graph, &me, &container));
        let within = within.filter(|within| !within.is_empty());
        if within.is_some() || found.objects.len() > before {
            found.about.push(id.clone());
        }
        found.containers.extend(within);
    }
    found
}

/// Whether the others that want or hold what is about to be written may write it.
pub(super) fn rival_questions(
    cx: &Kustomizations,
    graph: &OwnershipGraph,
    (memory, ks): (&Memory, &Declared),
    desired: &[Desired],
) -> Questions {
    if cx.access(memory).target != TargetCluster::Local {
        return Questions::default();
    }
    let (now, me) = (Instant::now(), object_ref(&ks.key));
    let mut found = Questions::default();
    for desired in desired.iter().filter(|desired| is_written(desired)) {
        let id = &desired.id;
        if memory.this_run.reviewed.contains(id) {
            continue;
        }
        let rivals: BTreeSet<&ObjectRef> = graph.rivals(id, &me).collect();
        let open = rivals
            .into_iter()
            .filter(|other| !graph.reviews.is_known(other, id, now));
        let before = found.objects.len();
        found.objects.extend(open.filter_map(|other| {
            Some(Question {
                by: graph.owner(other),
                user: graph.user(other)?.to_owned(),
                id: id.clone(),
                version: version(desired).to_owned(),
            })
        }));
        if found.objects.len() > before {
            found.about.push(id.clone());
        }
    }
    found
}

/// Whether it may write itself what another holds or wants that it declares.
pub(super) fn own_questions<'i>(
    cx: &Kustomizations,
    graph: &OwnershipGraph,
    memory: &Memory,
    key: &Key,
    ids: impl Iterator<Item = (&'i ObjectId, &'i str)>,
) -> Questions {
    let (me, local) = (object_ref(key), cx.access(memory).target == TargetCluster::Local);
    let Some(user) = graph.user(&me).filter(|_| local) else {
        return Questions::default();
    };
    let now = Instant::now();
    let shared = ids.filter(|(id, _)| {
        let mut holders = graph.holders(id, &me);
        holders.next().is_some() || graph.rivals(id, &me).next().is_some()
    });
    let open = shared
        .filter(|(id, _)| !memory.this_run.reviewed.contains(*id) && !graph.reviews.is_known(&me, id, now));
    let objects: Vec<Question> = open
        .map(|(id, version)| Question {
            by: owner_of(key),
            user: user.to_owned(),
            id: id.clone(),
            version: version.to_owned(),
        })
        .collect();
    Questions {
        about: objects.iter().map(|question| question.id.clone()).collect(),
        objects,
        containers: Vec::new(),
    }
}

/// What has to be asked about a container; nothing where it stays anyway. What is there with the labels
/// of one is its own, and not asked about.
fn within_container(
    cx: &Kustomizations,
    graph: &OwnershipGraph,
    of: &ObjectRef,
    container: &Container,
) -> Vec<Question> {
    let now = Instant::now();
    let (mut seen, mut questions) = (BTreeSet::new(), Vec::new());
    for (key, id) in graph.needs(container, of, Need::Now) {
        if !seen.insert((key, within(id))) {
            continue;
        }
        let by = graph.owner(key);
        let theirs = matches!(cx.kit.objects.get(by.kind, id), Presence::Present(observed)
            if observed.owner.as_ref() == Some(&by));
        let user = graph.user(key);
        let user = user.filter(|_| !theirs && !graph.reviews.is_known_within(key, id, now));
        // it stays, if none before may
        let Some(user) = user else { return questions };
        questions.push(Question {
            by,
            user: user.to_owned(),
            id: id.clone(),
            version: String::new(),
        });
        if questions.len() == WITHIN {
            break;
        }
    }
    questions
}
