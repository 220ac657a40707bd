//! Writes the objects of a release, as Helm does: server-side, or client-side with a three-way merge.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use equate_api::helm::DeletionPropagation;
use equate_apply::cluster::{ApplyError, PatchKind, Propagation, ResolveError, Write, Written};
use equate_apply::health::{self, Health};
use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::rules::OwnerRules as _;
use equate_helm::order::Order;
use equate_manifest::object::{GroupVersionKind, Object};
use futures::future::join_all;

use super::operation::{Operation, Progress};
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::objects::{
    Target, change, described, foreign, is_kept, is_made, mark, read, upgraded_manager,
};
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run, owner_of};
use crate::kit::read::chain;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);
/// The objects of one kind that are written at once.
const TOGETHER: usize = 8;

pub(in crate::helm_release) async fn get(
    access: &Access,
    id: &ObjectId,
    api_version: &str,
) -> Result<Option<Object>, String> {
    let version = api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version);
    let found = access.cluster.get(id, version, ANSWER).await;
    found.map_err(|error| {
        format!(
            "could not get information about the resource {}: {}",
            described(id),
            chain(&error)
        )
    })
}

pub(super) async fn exists(access: &Access, id: &ObjectId, api_version: &str) -> Result<bool, String> {
    get(access, id, api_version).await.map(|found| found.is_some())
}

/// The health of a live object by the rules of its HelmRelease, if it has one for it.
///
/// # Errors
/// The processors have no thread for it.
pub(super) async fn judge(
    cx: &HelmReleases,
    declared: &Declared,
    target: &Target,
    live: &Object,
) -> Result<Option<Health>, String> {
    if !cx.rules.judges(&declared.key, &target.id) {
        return Ok(None);
    }
    let (rules, owner, live) = (Arc::clone(&cx.rules), owner_of(&declared.key), live.clone());
    let namespace = &declared.key.namespace;
    let judging = cx
        .kit
        .processors
        .run(namespace, move || rules.judge(&owner, &live));
    let judged = judging.done().await;
    judged.map_err(|error| format!("cannot evaluate the health of {}: {error}", target.id))
}

/// The health of an object that no watch covers.
pub(super) async fn health(
    cx: &HelmReleases,
    declared: &Declared,
    target: &Target,
    access: &Access,
) -> Result<Health, String> {
    let live = get(access, &target.id, target.api_version()).await?;
    Ok(match live {
        None => Health::not_found(),
        Some(live) => {
            let judged = judge(cx, declared, target, &live).await?;
            judged.unwrap_or_else(|| health::compute(&live))
        }
    })
}

/// The objects of a manifest, with their namespaces and Helm's marks, in the order of installation.
pub(in crate::helm_release) async fn targets(
    cx: &HelmReleases,
    access: &Access,
    manifest: &Arc<str>,
    declared: &Declared,
) -> Result<Vec<Target>, String> {
    let (manifest, name, namespace) = (
        Arc::clone(manifest),
        declared.name.clone(),
        declared.namespace.clone(),
    );
    // large manifests take long: not on a thread of the runtime
    let reading = cx.kit.processors.run(&declared.key.namespace, move || {
        let mut objects = read(&manifest)?;
        objects
            .iter_mut()
            .for_each(|object| mark(object, &name, &namespace));
        Ok::<_, String>(objects)
    });
    let mut objects = reading.done().await.map_err(|error| error.to_string())??;
    let assigned = access
        .cluster
        .assign_namespaces(objects.iter_mut(), Some(&declared.namespace))
        .await;
    assigned.map_err(|error| chain(&error))?;
    Ok(objects.into_iter().map(Target::of).collect())
}

/// The kinds that the cluster does not serve and that the manifest does not define itself, each with whether its
/// objects have namespaces.
pub(super) async fn undefined(access: &Access, targets: &[Target]) -> BTreeMap<GroupVersionKind, bool> {
    let own: HashSet<(&str, &str)> = targets.iter().filter_map(Target::defines).collect();
    let mut kinds: BTreeMap<GroupVersionKind, bool> = BTreeMap::new();
    for target in targets {
        let gvk = target.object.gvk();
        if let Some(gvk) = gvk.filter(|gvk| !own.contains(&(&*gvk.group, &*gvk.kind))) {
            // charts leave out the namespace of most objects that have one
            let cluster = target.id.namespace.is_empty() && gvk.kind.starts_with("Cluster");
            *kinds.entry(gvk).or_default() |= !cluster;
        }
    }
    let mut undefined = BTreeMap::new();
    for (gvk, namespaced) in kinds {
        if let Err(ResolveError::NoSuchKind { .. }) = access.cluster.resolve(&gvk).await {
            undefined.insert(gvk, namespaced);
        }
    }
    undefined
}

/// Refuses objects that exist and are not of this release, if it may not take them over.
pub(super) async fn check_ownership(
    access: &Access,
    declared: &Declared,
    action: Action,
    (targets, before): (&[Target], &[Target]),
) -> Result<(), String> {
    if declared.takes_ownership(action) {
        return Ok(());
    }
    let before: HashSet<&ObjectId> = before.iter().map(|before| &before.id).collect();
    for target in targets {
        if before.contains(&target.id) {
            continue;
        }
        let Some(live) = get(access, &target.id, target.api_version()).await? else {
            continue;
        };
        // `equate up` made this definition, so the chart may replace it
        if is_made(&live) {
            continue;
        }
        if let Some(why) = foreign(&live, &declared.name, &declared.namespace) {
            return Err(format!(
                "{} exists and cannot be imported into the current release: {why}",
                described(&target.id)
            ));
        }
    }
    Ok(())
}

struct Outcome {
    id: ObjectId,
    written: Result<Option<Written>, String>,
    created: bool,
}

/// Writes all objects, those of one kind together, and deletes those that only the earlier revision has.
pub(super) async fn apply(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
) -> Progress {
    let mut errors = Vec::new();
    let targets = std::mem::take(&mut operation.targets);
    let before = std::mem::take(&mut operation.before);
    let old: HashMap<&ObjectId, &Target> = before.iter().map(|before| (&before.id, before)).collect();
    // watched from here on: the answers to the writes are not lost
    super::operation::follow_kinds(declared, &targets, access).await;
    for group in targets.chunk_by(|one, other| one.id.kind == other.id.kind) {
        for some in group.chunks(TOGETHER) {
            let writes = some
                .iter()
                .map(|target| write(declared, operation, access, target, old.get(&target.id).copied()));
            for outcome in join_all(writes).await {
                if outcome.created {
                    operation.created.push(outcome.id.clone());
                }
                match outcome.written {
                    Ok(Some(written)) => note(cx, run, declared, access, &outcome.id, &written.object),
                    Ok(None) => {}
                    Err(why) => errors.push(why),
                }
            }
        }
        if !errors.is_empty() {
            break;
        }
    }
    drop(old);
    (operation.targets, operation.before) = (targets, before);
    if !errors.is_empty() {
        return Progress::Failed(errors.join(" && "));
    }
    let kept: HashSet<&ObjectId> = operation.targets.iter().map(|kept| &kept.id).collect();
    for target in operation.before.iter().rev() {
        if kept.contains(&target.id) {
            continue;
        }
        let live = match get(access, &target.id, target.api_version()).await {
            Ok(Some(live)) => live,
            Ok(None) | Err(_) => continue,
        };
        if is_kept(&live) {
            continue;
        }
        let at = (&target.id, target.api_version());
        let write = Write::Delete(Propagation::Background);
        if let Err(error) = access
            .cluster
            .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
            .await
        {
            errors.push(format!(
                "failed to delete resource namespace={}, name={}, kind={}: {}",
                target.id.namespace,
                target.id.name,
                target.id.kind,
                chain(&error)
            ));
        }
    }
    match errors.is_empty() {
        true => Progress::Done,
        false => Progress::Failed(errors.join(" && ")),
    }
}

/// Takes the answer to a write: its health, and the fields by which drift is seen.
pub(super) fn note(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
    id: &ObjectId,
    object: &Object,
) {
    let mut observed = Observed::under(object, &HELM_RELEASE, &*cx.sparing_rules);
    observed.judge(object, &owner_of(&declared.key), &*cx.sparing_rules);
    run.memory.expected.insert(id.clone(), observed.owned);
    access.view.note(id, observed);
}

async fn write(
    declared: &Declared,
    operation: &Operation,
    access: &Access,
    target: &Target,
    old: Option<&Target>,
) -> Outcome {
    let written = match operation.server_side {
        true => server_side(operation, access, target).await,
        false => client_side(declared, operation, access, target, old).await,
    };
    let created = written
        .as_ref()
        .is_ok_and(|written| written.as_ref().is_some_and(|written| written.created));
    Outcome {
        id: target.id.clone(),
        written: written.map_err(|error| format!("{}: {}", described(&target.id), chain(&error))),
        created,
    }
}

async fn server_side(
    operation: &Operation,
    access: &Access,
    target: &Target,
) -> Result<Option<Written>, ApplyError> {
    let at = (&target.id, target.api_version());
    if operation.upgrades_manager {
        let version = target
            .api_version()
            .rsplit_once('/')
            .map_or(target.api_version(), |(_, version)| version);
        if let Some(live) = access.cluster.get(&target.id, version, ANSWER).await?
            && let Some(patch) = upgraded_manager(&live, HELM_RELEASE.field_manager)
        {
            let write = Write::Patch(PatchKind::Json, &patch);
            access
                .cluster
                .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
                .await?;
        }
    }
    let write = Write::Apply {
        object: &target.object,
        dry_run: false,
    };
    access
        .cluster
        .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
        .await
}

async fn client_side(
    declared: &Declared,
    operation: &Operation,
    access: &Access,
    target: &Target,
    old: Option<&Target>,
) -> Result<Option<Written>, ApplyError> {
    let at = (&target.id, target.api_version());
    let version = target
        .api_version()
        .rsplit_once('/')
        .map_or(target.api_version(), |(_, version)| version);
    let cluster = &access.cluster;
    let Some(live) = cluster.get(&target.id, version, ANSWER).await? else {
        let created = cluster
            .write(
                &HELM_RELEASE,
                at,
                Write::Create(&target.object),
                (ANSWER, PATIENCE),
            )
            .await;
        return created;
    };
    if declared.replaces_objects(operation.action()) {
        let mut object = target.object.clone();
        let live_version = live
            .metadata()
            .and_then(|metadata| metadata.get("resourceVersion"))
            .cloned();
        if let (Some(version), Some(metadata)) = (
            live_version,
            object
                .0
                .get_mut("metadata")
                .and_then(serde_json::Value::as_object_mut),
        ) {
            metadata.insert("resourceVersion".to_owned(), version);
        }
        return cluster
            .write(&HELM_RELEASE, at, Write::Replace(&object), (ANSWER, PATIENCE))
            .await;
    }
    let base = old.map_or(&live, |old| &old.object);
    let typed = change(
        old.map_or(&target.object, |old| &old.object),
        &target.object,
        false,
    );
    if let Some((kind, patch)) = typed.filter(|_| is_built_in(&target.id)) {
        let patched = cluster
            .write(&HELM_RELEASE, at, Write::Patch(kind, &patch), (ANSWER, PATIENCE))
            .await;
        match patched {
            // a custom resource in a group of Kubernetes
            Err(ApplyError::Refused { code: 415, .. }) => {}
            other => return other,
        }
    }
    let Some((kind, patch)) = change(base, &target.object, true) else {
        return Ok(Some(Written {
            object: live,
            created: false,
        }));
    };
    cluster
        .write(&HELM_RELEASE, at, Write::Patch(kind, &patch), (ANSWER, PATIENCE))
        .await
}

/// Whether the API server knows a strategic merge for the kind; it says so for the rest.
fn is_built_in(id: &ObjectId) -> bool {
    let group = &*id.group;
    (!group.contains('.') || group.ends_with(".k8s.io")) && &*id.kind != "CustomResourceDefinition"
}

/// Deletes the objects of a release in the order of uninstallation, except for kept ones. Returns those
/// whose end is awaited.
pub(super) async fn delete(
    declared: &Declared,
    operation: &Operation,
    access: &Access,
) -> Result<Vec<ObjectId>, String> {
    let propagation = match declared.propagation() {
        DeletionPropagation::Background => Propagation::Background,
        DeletionPropagation::Foreground => Propagation::Foreground,
        DeletionPropagation::Orphan => Propagation::Orphan,
    };
    let mut targets: Vec<&Target> = operation
        .targets
        .iter()
        .filter(|target| !is_kept(&target.object))
        .collect();
    Order::Uninstall.sort(&mut targets, |target| &*target.id.kind);
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for target in targets {
        let at = (&target.id, target.api_version());
        let write = Write::Delete(propagation);
        match access
            .cluster
            .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
            .await
        {
            Ok(Some(_)) => deleted.push(target.id.clone()),
            Ok(None) => {}
            Err(error) => errors.push(format!("{}: {}", described(&target.id), chain(&error))),
        }
    }
    match errors.is_empty() {
        true => Ok(deleted),
        false => Err(format!(
            "failed to delete release: {}: {}",
            declared.name,
            errors.join("; ")
        )),
    }
}

/// Deletes the objects that a failed operation created.
pub(super) async fn clean_up(operation: &Operation, access: &Access) -> Result<(), String> {
    let mut errors = Vec::new();
    let targets = operation.targets.iter().map(|target| (&target.id, target));
    let targets: HashMap<&ObjectId, &Target> = targets.collect();
    for id in &operation.created {
        let target = targets.get(id).copied();
        let at = (id, target.map_or("", Target::api_version));
        let write = Write::Delete(Propagation::Background);
        if let Err(error) = access
            .cluster
            .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
            .await
        {
            errors.push(chain(&error));
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(format!("unable to cleanup resources: {}", errors.join(", "))),
    }
}
