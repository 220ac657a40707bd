//! Finds whether an impersonating Kustomization may write the objects it wants, before others keep anything
//! for it.
//!
//! A declaration is no permission. Otherwise a tenant that declares the platform's objects would keep the platform
//! from deleting them, and one whose build is unknown might want any object. So before a deletion Equate asks the API
//! server whether the other's identity may write the object. If not, the object is not kept for it, and it is not
//! waited for. Only objects to be deleted that others want, or may want, are asked about. Answers are valid for half
//! a minute. Without an answer the claim counts.
//!
//! For a Namespace or a CustomResourceDefinition there is one question per kind and namespace; permissions
//! for single names are not found by it.
//!
//! `act::survey` sends the questions.

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

/// The most Kustomizations asked about in one run; the others are waited for meanwhile.
const SUSPECTS: usize = 16;
/// The most kinds and namespaces asked about for one container in one run.
const WITHIN: usize = 64;

/// Whether others may write the objects to be deleted that they want, or may want.
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
    let mut holding_up: BTreeSet<&ObjectRef> = BTreeSet::new();
    for key in survey.holding_up(now) {
        if holding_up.len() == SUSPECTS {
            break;
        }
        if *key != me && graph.user(key).is_some() {
            holding_up.insert(key);
        }
    }
    let mut found = Questions::default();
    for (id, version) in gone.iter() {
        if memory.this_run.reviewed.contains(id) {
            continue;
        }
        let all = graph.rivals(id, &me).chain(holding_up.iter().copied());
        let unknown: BTreeSet<&ObjectRef> = all.filter(|key| !graph.reviews.is_known(key, id, now)).collect();
        let before = found.objects.len();
        found.objects.extend(unknown.into_iter().filter_map(|key| {
            Some(Question {
                user: graph.user(key)?.to_owned(),
                by: graph.owner(key),
                id: id.clone(),
                version: version.to_owned(),
            })
        }));
        let container = Container::of(id, &Presence::Unknown).and_then(|_| {
            // most objects are no containers: the cluster is not read for them
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

/// Whether the owners that want or hold objects to be written may write them.
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

/// Whether it may write the declared objects that another holds or wants.
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

/// The questions about a container; none where it stays anyway. An object in it with an owner's labels
/// belongs to that owner, without a question.
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
        // it stays, if none of the others may write it
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
