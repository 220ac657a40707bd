//! Prepares an operation: renders the chart, reads the records, checks the objects, and stores the new
//! record. Until that exists, nothing has changed, except for CRDs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::cluster::{ResolveError, Write};
use equate_apply::id::ObjectId;
use equate_helm::hooks::LastRun;
use equate_helm::release::{ApplyMethod, History, Info, Release, Status};
use equate_helm::{Chart, Values, values};
use equate_manifest::object::{GroupVersionKind, Object};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::operation::Operation;
use super::{crds, objects as cluster};
use crate::helm_release::decide::seen::Basis;
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::objects::Target;
use crate::helm_release::render::{Rendered, Rendering, TemplateCluster};
use crate::helm_release::storage::{Record, Storage, Stored};
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run, observe, operation_owner};
use crate::kit::read::chain;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);

/// A prepared operation, or why there is none yet.
pub(super) enum Prepared {
    Ready(Box<Operation>),
    /// CRDs have to be established first: look again after this time.
    Waits(Duration),
}

/// Why an operation cannot begin. Nothing has changed, except for CRDs.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    /// The cluster does not serve kinds of the rendered objects: each with whether its objects have namespaces.
    #[error("unable to build kubernetes objects from release manifest: {}", in_words(.0))]
    Undefined(BTreeMap<GroupVersionKind, bool>),
    /// Anything else, as Helm says it.
    #[error("{0}")]
    Refused(String),
    /// The release is deleted meanwhile.
    #[error("the HelmRelease was deleted")]
    Deleted,
}

impl From<String> for PrepareError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

impl From<&str> for PrepareError {
    fn from(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

fn in_words(kinds: &BTreeMap<GroupVersionKind, bool>) -> String {
    let each = kinds
        .keys()
        .map(|gvk| ResolveError::NoSuchKind { gvk: gvk.clone() });
    let each: Vec<String> = each.map(|error| error.to_string()).collect();
    each.join(" && ")
}

pub(super) async fn prepare(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    action: Action,
    access: &Access,
) -> Result<Prepared, PrepareError> {
    match action {
        Action::Install => install(cx, run, declared, access).await,
        Action::Upgrade => upgrade(cx, run, declared, access).await,
        Action::Rollback => rollback(cx, run, declared, access).await,
        Action::UninstallFailed | Action::Uninstall | Action::Test => {
            of_last(cx, run, declared, action, access).await
        }
        Action::Unlock | Action::CorrectDrift => Err(PrepareError::Refused(format!(
            "{} is not an operation",
            action.name()
        ))),
    }
}

/// The records, as this run has listed them.
async fn known(run: &mut Run<'_>, storage: &Storage<'_>) -> Result<Vec<Stored>, String> {
    match run.memory.this_run.listed.take() {
        Some(listed) => Ok(listed),
        None => storage.list().await.map_err(|error| error.to_string()),
    }
}

fn history(known: &[Stored]) -> History {
    known.iter().map(|stored| stored.revision.clone()).collect()
}

/// The inputs of an operation, as this run found them.
fn basis(run: &Run<'_>, declared: &Declared, action: Action) -> Basis {
    let chart = run.memory.chart.as_ref();
    Basis {
        action,
        generation: declared.generation,
        chart_version: chart.map(|chart| chart.version.clone()).unwrap_or_default(),
        config_digest: run
            .memory
            .values
            .as_ref()
            .map(|values| values.digest.clone())
            .unwrap_or_default(),
    }
}

fn operation(run: &Run<'_>, declared: &Declared, action: Action, record: Record) -> Operation {
    Operation {
        basis: basis(run, declared, action),
        server_side: record.release.apply_method == Some(ApplyMethod::ServerSide),
        record,
        base: None,
        known: Vec::new(),
        upgrades_manager: false,
        targets: Vec::new(),
        before: Vec::new(),
        created: Vec::new(),
        stages: Operation::stages(declared, action),
        until: None,
        began: Instant::now(),
        oci_digest: run
            .memory
            .chart
            .as_ref()
            .and_then(|chart| chart.oci_digest.clone()),
        masks: run
            .memory
            .values
            .as_ref()
            .map(|values| Arc::clone(&values.masks))
            .unwrap_or_default(),
        troubles: Vec::new(),
        failed: None,
        resumed: false,
    }
}

fn now() -> Box<str> {
    Timestamp::now().to_string().into()
}

fn method(server_side: bool) -> ApplyMethod {
    match server_side {
        true => ApplyMethod::ServerSide,
        false => ApplyMethod::ClientSide,
    }
}

/// The chart and the values of the run.
async fn inputs(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
) -> Result<(Arc<Chart>, Arc<Values>), String> {
    let chart = observe::chart::chart(cx, run, declared).await?;
    let values = run
        .memory
        .values
        .as_ref()
        .map(|values| Arc::clone(&values.values));
    Ok((chart, values.unwrap_or_default()))
}

async fn install(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
) -> Result<Prepared, PrepareError> {
    let (chart, config) = inputs(cx, run, declared).await?;
    equate_helm::release::check_name(&declared.name).map_err(|error| {
        format!(
            "release name check failed: release name {:?}: {error}",
            declared.name
        )
    })?;
    let server_side = declared.server_side(Action::Install).unwrap_or(true);
    let crds = crds::apply(
        cx,
        run,
        declared,
        (&chart, &config),
        Action::Install,
        access,
        server_side,
    );
    if let Some(wait) = crds.await? {
        return Ok(Prepared::Waits(wait));
    }
    let storage = Storage::of(cx, declared, access);
    let known = known(run, &storage).await?;
    let records = history(&known);
    records
        .install(declared.install.replace)
        .map_err(|refusal| format!("release name check failed: {refusal}"))?;
    let rendered = render(cx, run, declared, access, (&chart, &config), Action::Install, 1).await?;
    let targets = targets(cx, declared, access, &rendered.manifest).await?;
    cluster::check_ownership(access, declared, Action::Install, (&targets, &[]))
        .await
        .map_err(|why| format!("unable to continue with install: {why}"))?;
    if declared.spec.target_namespace.is_some() && declared.install.create_namespace {
        create_namespace(declared, access).await?;
    }
    let now = now();
    let release = Release {
        name: declared.name.clone(),
        namespace: declared.namespace.clone(),
        chart: Some(rendered.chart),
        config: (*config).clone(),
        info: Info {
            first_deployed: Some(now.clone()),
            last_deployed: Some(now),
            status: Status::PendingInstall,
            description: "Initial install underway".to_owned(),
            notes: rendered.notes,
            ..Info::default()
        },
        version: match declared.install.replace {
            true => records.next_version(),
            false => 1,
        },
        manifest: rendered.manifest,
        hooks: rendered.hooks,
        apply_method: Some(method(server_side)),
        ..Release::default()
    };
    // a replaced release is superseded before the new one is stored
    if let Some(version) = records
        .superseded_by_install()
        .filter(|_| declared.install.replace)
    {
        supersede(&storage, version).await?;
    }
    let record = stored(&storage, declared, &release, Action::Install, &known, 0).await?;
    let mut operation = operation(run, declared, Action::Install, record);
    operation.targets = targets;
    operation.known = known;
    // objects of an earlier owner may have client-side fields of ours
    operation.upgrades_manager = server_side;
    Ok(Prepared::Ready(Box::new(operation)))
}

async fn upgrade(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
) -> Result<Prepared, PrepareError> {
    let storage = Storage::of(cx, declared, access);
    let known = known(run, &storage).await?;
    let records = history(&known);
    let refused = |refusal: equate_helm::release::Refusal| match refusal {
        equate_helm::release::Refusal::NoneDeployed => {
            format!("{:?} has no deployed releases", declared.name)
        }
        other => other.to_string(),
    };
    let base = records.upgrade().map_err(refused)?;
    let last = records.last().map(|last| last.version).unwrap_or_default();
    let last = read(&storage, last).await?;
    let base = match base == last.version {
        true => last.clone(),
        false => read(&storage, base).await?,
    };
    let as_last = last.apply_method == Some(ApplyMethod::ServerSide);
    let server_side = declared.server_side(Action::Upgrade).unwrap_or(as_last);
    let (chart, mut config) = inputs(cx, run, declared).await?;
    let mut chart = chart;
    if declared.upgrade.preserve_values {
        let old = base
            .chart
            .as_ref()
            .and_then(|chart| chart.values.clone())
            .unwrap_or_default();
        let mut reused = (*chart).clone();
        reused.values = Arc::new(values::merge(old, base.config.clone()));
        // other values make other parsed programs
        chart = Arc::new(reused);
        config = Arc::new(values::merge(base.config.clone(), (*config).clone()));
    }
    let crds = crds::apply(
        cx,
        run,
        declared,
        (&chart, &config),
        Action::Upgrade,
        access,
        server_side,
    );
    if let Some(wait) = crds.await? {
        return Ok(Prepared::Waits(wait));
    }
    let revision = records.next_version();
    let rendered = render(
        cx,
        run,
        declared,
        access,
        (&chart, &config),
        Action::Upgrade,
        revision,
    )
    .await?;
    let targets = targets(cx, declared, access, &rendered.manifest).await?;
    let before = cluster::targets(cx, access, &base.manifest, declared)
        .await
        .map_err(|why| format!("unable to build kubernetes objects from current release manifest: {why}"))?;
    cluster::check_ownership(access, declared, Action::Upgrade, (&targets, &before))
        .await
        .map_err(|why| format!("unable to continue with update: {why}"))?;
    let release = Release {
        name: declared.name.clone(),
        namespace: base.namespace.clone(),
        chart: Some(rendered.chart),
        config: (*config).clone(),
        info: Info {
            first_deployed: base.info.first_deployed.clone(),
            last_deployed: Some(now()),
            status: Status::PendingUpgrade,
            description: "Preparing upgrade".to_owned(),
            notes: rendered.notes,
            ..Info::default()
        },
        version: revision,
        manifest: rendered.manifest,
        hooks: rendered.hooks,
        apply_method: Some(method(server_side)),
        labels: last.labels.clone(),
    };
    let max = declared.revisions_max();
    let record = stored(&storage, declared, &release, Action::Upgrade, &known, max).await?;
    let mut operation = operation(run, declared, Action::Upgrade, record);
    operation.upgrades_manager = server_side && base.apply_method != Some(ApplyMethod::ServerSide);
    operation.targets = targets;
    operation.before = before;
    operation.base = Some(base);
    operation.known = known;
    Ok(Prepared::Ready(Box::new(operation)))
}

async fn rollback(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    access: &Access,
) -> Result<Prepared, PrepareError> {
    let storage = Storage::of(cx, declared, access);
    let status = run.status();
    let ignores_tests = declared
        .active_remediation(&status)
        .is_some_and(|remediation| remediation.ignores_tests);
    let target = crate::helm_release::status::previous(&status.history, ignores_tests)
        .ok_or("missing target release for rollback: required to rollback")?;
    let known = known(run, &storage).await?;
    let records = history(&known);
    let to = u64::try_from(target.version).unwrap_or_default();
    records
        .rollback(Some(to))
        .map_err(|refusal| refusal.to_string())?;
    let last = records.last().map(|last| last.version).unwrap_or_default();
    let current = read(&storage, last).await?;
    let previous = read(&storage, to).await?;
    let as_previous = previous.apply_method == Some(ApplyMethod::ServerSide);
    let server_side = declared.server_side(Action::Rollback).unwrap_or(as_previous);
    let mut hooks = previous.hooks.clone();
    hooks
        .iter_mut()
        .for_each(|hook| hook.last_run = LastRun::default());
    let release = Release {
        name: declared.name.clone(),
        namespace: current.namespace.clone(),
        chart: previous.chart.clone(),
        config: previous.config.clone(),
        info: Info {
            first_deployed: current.info.first_deployed.clone(),
            last_deployed: Some(now()),
            status: Status::PendingRollback,
            description: format!("Rollback to {to}"),
            notes: previous.info.notes.clone(),
            ..Info::default()
        },
        version: records.next_version(),
        manifest: Arc::clone(&previous.manifest),
        hooks,
        apply_method: Some(method(server_side)),
        labels: previous.labels.clone(),
    };
    let (targets, before) = (
        targets(cx, declared, access, &release.manifest).await?,
        cluster::targets(cx, access, &current.manifest, declared).await?,
    );
    let max = declared.revisions_max();
    let record = stored(&storage, declared, &release, Action::Rollback, &known, max).await?;
    let mut operation = operation(run, declared, Action::Rollback, record);
    operation.oci_digest.clone_from(&target.oci_digest);
    operation.upgrades_manager = server_side;
    operation.targets = targets;
    operation.before = before;
    operation.base = Some(current);
    operation.known = known;
    Ok(Prepared::Ready(Box::new(operation)))
}

/// An operation on the last record: a test, or a removal.
async fn of_last(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    action: Action,
    access: &Access,
) -> Result<Prepared, PrepareError> {
    // a release may have changed its name: the status has the old one
    let status = run.status();
    let current = crate::helm_release::status::latest(&status.history).ok_or("no latest release")?;
    let name = current.name.clone();
    let namespace = match action {
        Action::Test => declared.storage.clone(),
        _ => status
            .storage_namespace
            .clone()
            .unwrap_or_else(|| declared.storage.clone()),
    };
    let storage = Storage::of(cx, declared, access).named(&namespace, &name);
    let known = storage.list().await.map_err(|error| error.to_string())?;
    let records = history(&known);
    let version = records.uninstall().map_err(|refusal| match refusal {
        equate_helm::release::Refusal::Deleted => format!("the release named {name:?} is already deleted"),
        other => other.to_string(),
    });
    let version = match (version, action) {
        (Err(_), Action::Test) => records
            .last()
            .map(|last| last.version)
            .ok_or("no latest release")?,
        (Err(why), _) => return Err(why.into()),
        (Ok(version), _) => version,
    };
    let found = storage.get(version).await.map_err(|error| error.to_string())?;
    let found = found.ok_or_else(|| format!("release: revision {version} is not found"))?;
    let mut release = found.release;
    let of = Declared {
        name: name.clone(),
        namespace: release.namespace.clone(),
        storage: namespace.clone(),
        ..declared.clone()
    };
    let targets = cluster::targets(cx, access, &release.manifest, &of).await?;
    if action != Action::Test {
        release.info.status = Status::Uninstalling;
        release.info.deleted = Some(now());
        release.info.description = "Deletion in progress (or silently failed)".to_owned();
    }
    let record = Record {
        operation: Some(operation_owner(declared, action)),
        release,
    };
    if action != Action::Test {
        storage.update(&record).await.map_err(|error| error.to_string())?;
    }
    let resumed = found.operation.as_ref() == record.operation.as_ref();
    let mut operation = operation(run, declared, action, record);
    operation.resumed = resumed;
    operation.oci_digest.clone_from(&current.oci_digest);
    operation.server_side |= action != Action::Test;
    operation.targets = targets;
    operation.known = known;
    Ok(Prepared::Ready(Box::new(operation)))
}

/// Resumes an operation that an earlier process began: its record is ours. If that is not pending, only the
/// outcome is not reported yet.
pub(super) async fn resume(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    basis: &Basis,
    access: &Access,
) -> Result<Box<Operation>, String> {
    let storage = Storage::of(cx, declared, access);
    let known = storage.list().await.map_err(|error| error.to_string())?;
    let records = history(&known);
    let last = records
        .last()
        .map(|last| last.version)
        .ok_or("no latest release")?;
    let record = storage.get(last).await.map_err(|error| error.to_string())?;
    let record = record.ok_or("the release disappeared from storage")?;
    let earlier: Vec<Stored> = known
        .into_iter()
        .filter(|stored| stored.revision.version < last)
        .collect();
    let before = history(&earlier);
    let base = match basis.action {
        Action::Upgrade => before.upgrade().ok(),
        Action::Rollback => before.last().map(|last| last.version),
        _ => None,
    };
    let base = match base {
        Some(version) => Some(read(&storage, version).await?),
        None => None,
    };
    let mut operation = operation(run, declared, basis.action, record);
    operation.basis = basis.clone();
    operation.targets = built(cx, declared, access, &operation.record.release.manifest).await?;
    operation.before = match &base {
        Some(base) => cluster::targets(cx, access, &base.manifest, declared).await?,
        None => Vec::new(),
    };
    operation.base = base;
    operation.known = earlier;
    operation.upgrades_manager = operation.server_side;
    operation.resumed = true;
    let info = &operation.record.release.info;
    if !info.status.is_pending() {
        operation.stages.clear();
    }
    if info.status == Status::Failed {
        let why = info.description.split_once(" failed: ").map(|(_, why)| why);
        operation.failed = Some(why.unwrap_or(&info.description).to_owned());
    }
    Ok(Box::new(operation))
}

async fn built(
    cx: &HelmReleases,
    declared: &Declared,
    access: &Access,
    manifest: &Arc<str>,
) -> Result<Vec<Target>, String> {
    let targets = cluster::targets(cx, access, manifest, declared).await;
    targets.map_err(|why| format!("unable to build kubernetes objects from release manifest: {why}"))
}

/// The objects of a new revision: the cluster has to serve all their kinds.
async fn targets(
    cx: &HelmReleases,
    declared: &Declared,
    access: &Access,
    manifest: &Arc<str>,
) -> Result<Vec<Target>, PrepareError> {
    let targets = built(cx, declared, access, manifest).await?;
    let undefined = cluster::undefined(access, &targets).await;
    match undefined.is_empty() {
        true => Ok(targets),
        false => Err(PrepareError::Undefined(undefined)),
    }
}

async fn read(storage: &Storage<'_>, version: u64) -> Result<Release, String> {
    let record = storage.get(version).await.map_err(|error| error.to_string())?;
    let record = record.ok_or_else(|| format!("release: revision {version} is not found"))?;
    Ok(record.release)
}

async fn stored(
    storage: &Storage<'_>,
    declared: &Declared,
    release: &Release,
    action: Action,
    known: &[Stored],
    max: usize,
) -> Result<Record, String> {
    let owner = operation_owner(declared, action);
    let created = storage.create(release, &owner, known, max).await;
    created.map_err(|error| error.to_string())
}

async fn supersede(storage: &Storage<'_>, version: u64) -> Result<(), String> {
    let mut record = match storage.get(version).await.map_err(|error| error.to_string())? {
        Some(record) => record,
        None => return Ok(()),
    };
    record.release.info.status = Status::Superseded;
    let updated = storage.update(&record).await;
    updated.map(drop).map_err(|error| error.to_string())
}

async fn render(
    cx: &HelmReleases,
    run: &Run<'_>,
    declared: &Declared,
    access: &Access,
    (chart, config): (&Arc<Chart>, &Arc<Values>),
    action: Action,
    revision: u64,
) -> Result<Rendered, PrepareError> {
    let rendering = Rendering {
        cluster: TemplateCluster::Live(&access.cluster),
        processors: &cx.kit.processors,
        programs: &cx.programs,
        declared,
        revision,
        is_upgrade: action == Action::Upgrade,
        skips_schema: declared.skips_schema(action),
        timeout: declared.timeout_of(action).min(cx.kit.settings.timeout_max),
        throttled: &|| run.throttled(),
    };
    tokio::select! {
        biased;
        rendered = rendering.run(chart, config) => Ok(rendered?),
        () = run.deleted(declared.deleting) => Err(PrepareError::Deleted),
    }
}

async fn create_namespace(declared: &Declared, access: &Access) -> Result<(), String> {
    let name = &declared.namespace;
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { "name": name } },
    });
    let Some(object) = Object::from_value(object) else {
        return Ok(());
    };
    let id = ObjectId::of(&object);
    if let Ok(Some(_)) = access.cluster.get(&id, "v1", ANSWER).await {
        return Ok(());
    }
    let write = Write::Apply {
        object: &object,
        dry_run: false,
    };
    let created = access
        .cluster
        .write(&HELM_RELEASE, (&id, "v1"), write, (ANSWER, PATIENCE))
        .await;
    created.map(drop).map_err(|error| chain(&error))
}
