//! The objects that differ from the release.
//!
//! The watch tells for each object whether the fields changed that the release owns. Only such an object is
//! asked about: the API server says in a dry run how an apply would change it. After a start, each is asked
//! about once.

use std::time::Duration;

use equate_api::helm::DriftMode;
use equate_api::meta::HELM_DRIFT_DETECTION;
use equate_apply::cluster::Write;
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::plan::Presence;
use equate_apply::pointer::Pointer;
use equate_apply::rules::OwnerRules as _;
use equate_helm::release::Status;
use equate_manifest::object::Object;
use serde_json::Value;

use crate::helm_release::act::objects as cluster;
use crate::helm_release::decide::seen::{Drift, Seen, Source, Storage, Values};
use crate::helm_release::declared::Declared;
use crate::helm_release::objects::{Target, named, operations};
use crate::helm_release::status::latest;
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run, owner_of, storage};
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether drift is looked at: of a release that is as declared otherwise.
pub(super) fn matters(declared: &Declared, seen: &Seen) -> bool {
    if declared.drift == DriftMode::Disabled {
        return false;
    }
    let (Storage::Last(last), Source::Ready(chart), Values::Ready(config)) =
        (&seen.storage, &seen.source, &seen.values)
    else {
        return false;
    };
    let current = latest(&seen.status.history);
    last.status == Status::Deployed
        && last.observed
        && last.chart_version == chart.version
        && current.is_some_and(|current| current.config_digest == last.values(config))
}

/// A difference with the operations that remove it.
#[derive(Debug, Clone)]
pub(in crate::helm_release) struct Difference {
    pub(in crate::helm_release) target: Target,
    /// None if the object is gone.
    pub(in crate::helm_release) operations: Option<Vec<Value>>,
    /// Whether some differences are ignored.
    pub(in crate::helm_release) ignores: bool,
}

impl From<&Difference> for Drift {
    fn from(difference: &Difference) -> Self {
        let count = |op: &str| {
            let operations = difference.operations.iter().flatten();
            operations.filter(|operation| operation["op"] == op).count()
        };
        Drift {
            object: named(&difference.target.id),
            changes: difference
                .operations
                .as_ref()
                .map(|_| [count("add"), count("replace"), count("remove")]),
        }
    }
}

pub(super) async fn look(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Vec<Drift> {
    if let Some(known) = &run.memory.this_run.drift {
        return known.clone();
    }
    let differences = differences(cx, run, declared).await;
    let drift: Vec<Drift> = differences.iter().map(Drift::from).collect();
    run.memory.this_run.drift = Some(drift.clone());
    drift
}

/// The differences of the release's objects. What cannot be read does not differ.
pub(in crate::helm_release) async fn differences(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
) -> Vec<Difference> {
    let Some(access) = run.memory.access.clone() else {
        return Vec::new();
    };
    let status = run.status();
    let held = status.inventory.iter().flat_map(|inventory| &inventory.entries);
    let held: Vec<ObjectId> = held
        .filter_map(|entry| ObjectId::from_inventory(&entry.id).ok())
        .collect();
    let suspicious = |id: &ObjectId| match access.view.get_for(&declared.key, id) {
        Presence::Present(observed) => run.memory.expected.get(id) != Some(&observed.owned),
        Presence::Absent | Presence::Unknown => true,
    };
    let is_calm = !run.memory.expected.is_empty()
        && held
            .iter()
            .filter(|id| &*id.kind != "CustomResourceDefinition")
            .all(|id| !suspicious(id));
    if is_calm {
        return Vec::new();
    }
    let storage = storage::Storage::of(cx, declared, &access);
    let version = run
        .memory
        .records
        .as_ref()
        .and_then(|records| records.last.as_ref())
        .map(|last| last.version);
    let record = match version {
        Some(version) => storage.get(version).await.ok().flatten(),
        None => None,
    };
    let Some(record) = record else { return Vec::new() };
    let targets = match cluster::targets(cx, &access, &record.release.manifest, declared).await {
        Ok(targets) => targets,
        Err(why) => {
            tracing::warn!(release = %declared.key, why, "cannot look for drift");
            return Vec::new();
        }
    };
    crate::helm_release::act::operation::follow_kinds(declared, &targets, &access).await;
    let mut found = Vec::new();
    for target in targets {
        let is_known = run.memory.expected.contains_key(&target.id);
        if is_known && !suspicious_now(run, declared, &access, &target.id) {
            continue;
        }
        if let Some(difference) = difference(cx, run, declared, &access, target).await {
            found.push(difference);
        }
    }
    found
}

fn suspicious_now(run: &Run<'_>, declared: &Declared, access: &Access, id: &ObjectId) -> bool {
    match access.view.get_for(&declared.key, id) {
        Presence::Present(observed) => run.memory.expected.get(id) != Some(&observed.owned),
        Presence::Absent => true,
        // the watch begins: it wakes the release when it knows more
        Presence::Unknown => false,
    }
}

async fn difference(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
    target: Target,
) -> Option<Difference> {
    if is_exempt(&target.object) {
        return None;
    }
    let live = cluster::get(access, &target.id, target.api_version())
        .await
        .ok()?;
    let Some(live) = live else {
        return Some(Difference {
            target,
            operations: None,
            ignores: false,
        });
    };
    if is_exempt(&live) {
        return None;
    }
    let at = (&target.id, target.api_version());
    let write = Write::Apply {
        object: &target.object,
        dry_run: true,
    };
    let tried = access
        .cluster
        .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
        .await;
    let tried = match tried {
        Ok(Some(tried)) => tried.object,
        Ok(None) => return None,
        Err(error) => {
            tracing::warn!(release = %declared.key, object = %target.id, %error, "cannot look for drift");
            return None;
        }
    };
    let owner = owner_of(&declared.key);
    let ignored = cx.rules.ignored(&owner, &live);
    let mut operations = operations(&live, &tried);
    let all = operations.len();
    operations.retain(|operation| !is_ignored(operation, &ignored));
    if operations.is_empty() {
        let observed = Observed::under(&live, &HELM_RELEASE, &*cx.rules);
        run.memory.expected.insert(target.id.clone(), observed.owned);
        access.view.note(&target.id, observed);
        return None;
    }
    Some(Difference {
        ignores: operations.len() < all || !ignored.is_empty(),
        operations: Some(operations),
        target,
    })
}

/// Whether an object opts out.
fn is_exempt(object: &Object) -> bool {
    let metadata = object.metadata();
    ["annotations", "labels"].into_iter().any(|map| {
        let value = metadata.and_then(|metadata| metadata.get(map)?.get(HELM_DRIFT_DETECTION)?.as_str());
        value.is_some_and(|value| value.eq_ignore_ascii_case("disabled"))
    })
}

fn is_ignored(operation: &Value, ignored: &[Pointer]) -> bool {
    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
    ignored.iter().any(|pointer| {
        let pointer = pointer.to_string();
        path == pointer
            || path
                .strip_prefix(&pointer)
                .is_some_and(|rest| rest.starts_with('/'))
    })
}
