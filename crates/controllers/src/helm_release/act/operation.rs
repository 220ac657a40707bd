//! An operation on a release: stages that are worked off in order. A stage that has to wait ends the run;
//! the watch of what it waits for begins the next, which continues with the same stage.
//!
//! | stage | ends when |
//! |---|---|
//! | hooks of an event | each is created and complete, by weight |
//! | apply | the objects are written, and those that are no longer declared are deleted |
//! | ready | all objects are ready |
//! | delete, gone | the objects are deleted, and gone |
//!
//! The record in the cluster has the phase of each hook: a run after a crash continues there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::health::{Health, Status as HealthStatus};
use equate_apply::id::ObjectId;
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules as _;
use equate_helm::hooks::Event;
use equate_helm::release::Release;
use kube::core::ApiResource;
use tokio::time::Instant;

use super::hooks::{self, Hooks};
use super::objects as cluster;
use crate::helm_release::decide::seen::Basis;
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::objects::Target;
use crate::helm_release::storage::{Record, Stored};
use crate::helm_release::{HelmReleases, Run, owner_of};
use crate::kit::watcher::Interest;
use crate::masks::Masks;
use crate::targets::target::Access;

/// How often a thing is asked for that no watch covers.
pub(super) const POLL: Duration = Duration::from_secs(2);

/// An operation in progress.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) basis: Basis,
    /// The revision that it makes, tests or removes.
    pub(crate) record: Record,
    /// The revision that it replaces.
    pub(crate) base: Option<Release>,
    /// The records when it began.
    pub(crate) known: Vec<Stored>,
    pub(crate) server_side: bool,
    /// Whether fields of earlier client-side changes become server-side ones.
    pub(crate) upgrades_manager: bool,
    pub(crate) targets: Vec<Target>,
    /// The objects of the revision that it replaces.
    pub(crate) before: Vec<Target>,
    pub(crate) created: Vec<ObjectId>,
    pub(crate) stages: VecDeque<Stage>,
    /// The deadline of the present wait.
    pub(crate) until: Option<Instant>,
    pub(crate) began: Instant,
    pub(crate) oci_digest: Option<String>,
    pub(crate) masks: Arc<Masks>,
    /// Errors that do not end it.
    pub(crate) troubles: Vec<String>,
    /// Why it failed, if only its outcome is not stored or reported yet.
    pub(crate) failed: Option<String>,
    /// Whether an earlier process began it.
    pub(crate) resumed: bool,
}

/// A part of an operation.
#[derive(Debug)]
pub(crate) enum Stage {
    Hooks(Hooks),
    Apply,
    Ready,
    Delete,
    Gone(Vec<ObjectId>),
}

/// How far a stage got.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It waits. If no watch covers what it waits for, it looks again after this time.
    Waits(Option<Duration>),
    Done,
    Failed(String),
}

impl Operation {
    pub(crate) fn action(&self) -> Action {
        self.basis.action
    }

    /// The stages of an action.
    pub(super) fn stages(declared: &Declared, action: Action) -> VecDeque<Stage> {
        let hooks = |event: Event| Stage::Hooks(Hooks::of(event));
        let (runs_hooks, (waits, _)) = (declared.runs_hooks(action), declared.waits(action));
        let around = |before: Event, middle: Vec<Stage>, after: Event| {
            let first = runs_hooks.then(|| hooks(before));
            let last = runs_hooks.then(|| hooks(after));
            first.into_iter().chain(middle).chain(last).collect()
        };
        let applied = || match waits {
            true => vec![Stage::Apply, Stage::Ready],
            false => vec![Stage::Apply],
        };
        match action {
            Action::Install => around(Event::PreInstall, applied(), Event::PostInstall),
            Action::Upgrade => around(Event::PreUpgrade, applied(), Event::PostUpgrade),
            Action::Rollback => around(Event::PreRollback, applied(), Event::PostRollback),
            Action::UninstallFailed | Action::Uninstall => {
                around(Event::PreDelete, vec![Stage::Delete], Event::PostDelete)
            }
            Action::Test => VecDeque::from([hooks(Event::Test)]),
            Action::Unlock | Action::CorrectDrift => VecDeque::new(),
        }
    }

    /// The time that is left for the present wait, which begins now if it has not.
    pub(super) fn deadline(&mut self, declared: &Declared) -> Instant {
        let timeout = declared.timeout_of(self.action());
        *self.until.get_or_insert_with(|| Instant::now() + timeout)
    }
}

/// Works off stages until one waits.
pub(super) async fn advance(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
) -> Progress {
    if let Some(why) = &operation.failed {
        return Progress::Failed(why.clone());
    }
    while let Some(stage) = operation.stages.pop_front() {
        let mut stage = stage;
        let progress = match &mut stage {
            Stage::Hooks(hooks) => hooks::run(cx, declared, operation, access, hooks).await,
            Stage::Apply => cluster::apply(cx, run, declared, operation, access).await,
            Stage::Ready => ready(cx, run, declared, operation, access).await,
            Stage::Delete => match cluster::delete(declared, operation, access).await {
                Ok(gone) => {
                    let (waits, _) = declared.waits(operation.action());
                    if waits && !gone.is_empty() {
                        operation.stages.push_front(Stage::Gone(gone));
                    }
                    Progress::Done
                }
                Err(why) => Progress::Failed(why),
            },
            Stage::Gone(objects) => are_gone(declared, operation, access, objects).await,
        };
        match progress {
            Progress::Done => operation.until = None,
            Progress::Waits(again) => {
                operation.stages.push_front(stage);
                follow(run, declared, operation, access).await;
                return Progress::Waits(again);
            }
            failed @ Progress::Failed(_) => return failed,
        }
    }
    Progress::Done
}

/// Watches the kinds of the objects that the operation waits for, and its present hook.
async fn follow(run: &Run<'_>, declared: &Declared, operation: &Operation, access: &Access) {
    let mut interest = Interest::default();
    let waits_for_hook = matches!(operation.stages.front(), Some(Stage::Hooks(_)));
    let targets = operation
        .targets
        .iter()
        .map(|target| (&target.id, target.api_version()));
    for (id, api_version) in targets {
        if waits_for_hook {
            break;
        }
        if let Some(resource) = resource(access, id, api_version).await
            && !interest.kinds.contains(&resource)
        {
            interest.kinds.push(resource);
        }
    }
    if let Some(Stage::Hooks(hooks)) = operation.stages.front() {
        for target in hooks.targets() {
            if let Some(resource) = resource(access, &target.id, target.api_version()).await {
                interest.objects.push((resource, target.id.clone()));
            }
        }
    }
    drop(access.view.follow(&declared.key, &interest));
    let _ = run;
}

async fn resource(access: &Access, id: &ObjectId, api_version: &str) -> Option<ApiResource> {
    let version = api_version
        .rsplit_once('/')
        .map_or(api_version, |(_, version)| version);
    let gvk = equate_manifest::object::GroupVersionKind::new(&*id.group, version, &*id.kind);
    access.cluster.resolve(&gvk).await.ok().map(|kind| kind.resource)
}

/// Whether all objects are ready. One that failed fails the operation at once.
async fn ready(
    cx: &HelmReleases,
    _run: &mut Run<'_>,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
) -> Progress {
    let until = operation.deadline(declared);
    let (_, waits_for_jobs) = declared.waits(operation.action());
    let owner = owner_of(&declared.key);
    let stamp = cx.rules.stamp(&owner);
    let (mut pending, mut failed, mut unwatched) = (Vec::new(), Vec::new(), false);
    for target in &operation.targets {
        if is_exempt(target, waits_for_jobs) || cx.kit.is_unreconciled(&target.id) {
            continue;
        }
        let judges = cx.rules.judges(&declared.key, &target.id);
        let known = match access.view.get_for(&declared.key, &target.id) {
            Presence::Present(observed) => {
                let judged = observed.judged_by(&owner).filter(|judged| judged.stamp == stamp);
                match judged {
                    Some(judged) => Some(judged.health.clone()),
                    // its expressions were not evaluated
                    None if judges => None,
                    None => Some(observed.health.clone()),
                }
            }
            Presence::Absent => Some(Health::not_found()),
            Presence::Unknown => {
                unwatched = true;
                None
            }
        };
        let health = match known {
            Some(health) => health,
            None => match cluster::health(cx, declared, target, access).await {
                Ok(health) => health,
                Err(why) => {
                    pending.push(format!("{} status: 'Unknown': {why}", target.id));
                    continue;
                }
            },
        };
        match health.status {
            HealthStatus::Current => {}
            HealthStatus::Failed => failed.push(line(&target.id, &health)),
            HealthStatus::InProgress
            | HealthStatus::Terminating
            | HealthStatus::NotFound
            | HealthStatus::Unknown => pending.push(line(&target.id, &health)),
        }
    }
    if !failed.is_empty() {
        let failed = failed.join(", ");
        return Progress::Failed(format!("failed early due to stalled resources: [{failed}]"));
    }
    if pending.is_empty() {
        return Progress::Done;
    }
    if until <= Instant::now() {
        return Progress::Failed(format!("timeout waiting for: [{}]", pending.join(", ")));
    }
    Progress::Waits(unwatched.then_some(POLL))
}

/// Whether the readiness of an object does not count: a paused Deployment, or a Job without
/// `disableWaitForJobs`.
fn is_exempt(target: &Target, waits_for_jobs: bool) -> bool {
    let spec = target.object.0.get("spec");
    let paused = spec.and_then(|spec| spec.get("paused")?.as_bool()) == Some(true);
    let is = |group: &str, kind: &str| &*target.id.group == group && &*target.id.kind == kind;
    (is("apps", "Deployment") && paused) || (is("batch", "Job") && !waits_for_jobs)
}

pub(super) fn line(id: &ObjectId, health: &Health) -> String {
    match health.message.is_empty() {
        true => format!("{id} status: '{}'", health.status),
        false => format!("{id} status: '{}': {}", health.status, health.message),
    }
}

/// Whether deleted objects are gone.
async fn are_gone(
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
    objects: &mut Vec<ObjectId>,
) -> Progress {
    let until = operation.deadline(declared);
    let mut left = Vec::new();
    for id in std::mem::take(objects) {
        let version = operation.targets.iter().find(|target| target.id == id);
        let version = version.map_or("", Target::api_version);
        match cluster::exists(access, &id, version).await {
            Ok(false) => {}
            Ok(true) | Err(_) => left.push(id),
        }
    }
    *objects = left;
    if objects.is_empty() {
        return Progress::Done;
    }
    if until <= Instant::now() {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        operation.troubles.push(format!(
            "timeout waiting for termination of: [{}]",
            names.join(", ")
        ));
        return Progress::Done;
    }
    Progress::Waits(Some(POLL))
}

/// Watches the kinds of objects.
pub(in crate::helm_release) async fn follow_kinds(declared: &Declared, targets: &[Target], access: &Access) {
    let mut interest = Interest::default();
    for target in targets {
        if let Some(resource) = resource(access, &target.id, target.api_version()).await
            && !interest.kinds.contains(&resource)
        {
            interest.kinds.push(resource);
        }
    }
    drop(access.view.follow(&declared.key, &interest));
}
