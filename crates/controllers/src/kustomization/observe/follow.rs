//! Watches the kinds of a Kustomization's objects, and the other objects it waits for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use equate_apply::cluster::{Cluster, ResolveError};
use equate_apply::desired::Desired;
use equate_apply::id::ObjectId;
use equate_apply::inventory::Inventory;
use equate_manifest::object::GroupVersionKind;
use kube::core::ApiResource;

use super::reinspect::reinspect;
use crate::kit::read::chain;
use crate::kit::watcher::{Interest, Kind, WatchState};
use crate::kustomization::decide::objects::Kinds;
use crate::kustomization::declared::Declared;
use crate::kustomization::reasons::Failure;
use crate::kustomization::{Kustomizations, Run};

pub(in crate::kustomization) async fn follow(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    desired: &[Desired],
    held: &Inventory,
) -> Result<Kinds, Failure> {
    let cluster = cx.access(&run.memory).cluster.clone();
    let (kinds, unserved) = kinds(&cluster, desired, held).await?;
    let (checks, objects) = checks(&cluster, ks, desired).await?;
    let narrow = cx.access(&run.memory).view.is_narrow();
    if let Some(record) = &mut run.memory.record {
        record.checks = checks;
        record.asked = match narrow {
            true => {
                let each = objects.iter();
                each.map(|(kind, id)| (id.clone(), kind.version.clone()))
                    .collect()
            }
            false => Vec::new(),
        };
    }
    let interest = Interest { kinds, objects };
    let waiting = cx.access(&run.memory).view.follow(run.key(), &interest);
    let resources = interest.kinds.iter();
    let resources = resources.chain(interest.objects.iter().map(|(resource, _)| resource));
    let versions: HashMap<Kind, &str> = resources
        .map(|resource| (resource.into(), resource.version.as_str()))
        .collect();
    let ids = desired.iter().map(|desired| &desired.id).chain(held.ids());
    reinspect(cx, run, ids, &versions).await?;
    Ok(Kinds {
        starting: starting(&waiting),
        unserved,
        trouble: None,
    })
}

/// The kinds of the applied and pruned objects, and the API groups that the cluster does not serve.
async fn kinds(
    cluster: &Cluster,
    desired: &[Desired],
    held: &Inventory,
) -> Result<(Vec<ApiResource>, BTreeSet<String>), Failure> {
    let mut wanted: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for desired in desired
        .iter()
        .filter(|desired| !desired.own_loop && !desired.policy.ignored())
    {
        wanted.insert((&desired.id.group, version(desired), &desired.id.kind));
    }
    let mut unserved = BTreeSet::new();
    let mut kinds: BTreeMap<(String, String), ApiResource> = BTreeMap::new();
    for (group, version, kind) in wanted {
        let gvk = GroupVersionKind::new(group, version, kind);
        match cluster.resolve(&gvk).await {
            Ok(found) => {
                kinds.insert((group.to_owned(), kind.to_owned()), found.resource);
            }
            Err(ResolveError::NoSuchKind { .. }) => {
                unserved.insert(group.to_owned());
            }
            Err(error) => return Err(Failure::Unreachable(chain(&error))),
        }
    }
    for (id, version) in held.iter() {
        let key = (id.group.to_string(), id.kind.to_string());
        if kinds.contains_key(&key) {
            continue;
        }
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        match cluster.resolve_any_version(&gvk).await {
            Ok(found) => {
                kinds.insert(key, found.resource);
            }
            Err(ResolveError::NoSuchKind { .. }) => {}
            Err(error) => return Err(Failure::Unreachable(chain(&error))),
        }
    }
    Ok((kinds.into_values().collect(), unserved))
}

/// The objects of `spec.healthChecks`, and those of them that others own.
async fn checks(
    cluster: &Cluster,
    ks: &Declared,
    desired: &[Desired],
) -> Result<(Vec<ObjectId>, Vec<(ApiResource, ObjectId)>), Failure> {
    let (mut checks, mut objects) = (Vec::new(), Vec::new());
    let wanted = if ks.wait { &[][..] } else { &ks.health_checks[..] };
    for check in wanted {
        let mut id = check.id.clone();
        let gvk = GroupVersionKind::new(&*id.group, &check.version, &*id.kind);
        match cluster.resolve(&gvk).await {
            Ok(kind) => {
                if !kind.namespaced {
                    id.namespace = "".into();
                }
                let ours = desired
                    .iter()
                    .any(|desired| desired.id == id && !desired.policy.ignored());
                if !ours {
                    objects.push((kind.resource, id.clone()));
                }
            }
            // it does not exist, and the health check says so until the time is over
            Err(ResolveError::NoSuchKind { .. }) => {}
            Err(error) => return Err(Failure::Unreachable(chain(&error))),
        }
        checks.push(id);
    }
    Ok((checks, objects))
}

pub(super) fn version(desired: &Desired) -> &str {
    let api_version = desired.object.api_version();
    api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version)
}

/// Names the kinds that are awaited. A kind that may not be listed is not: its objects are polled.
fn starting(waiting: &[(Kind, WatchState)]) -> Option<String> {
    let kinds = waiting.iter().filter_map(|(kind, standing)| match standing {
        WatchState::Starting(None) => Some(kind.to_string()),
        WatchState::Starting(Some(trouble)) => Some(format!("{kind} ({})", chain(&**trouble))),
        WatchState::Following | WatchState::Unserved | WatchState::Refused(_) | WatchState::Troubled(_) => {
            None
        }
    });
    let kinds: BTreeSet<String> = kinds.collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    (!kinds.is_empty()).then_some(kinds)
}
