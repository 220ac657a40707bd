//! Runs the hooks of an event, one after the other by weight. No worker waits for a hook.

use std::time::Duration;

use equate_apply::cluster::{Propagation, Write};
use equate_apply::health::{self, Health, Status};
use equate_helm::hooks::{DeletePolicy, Event, Phase};
use equate_manifest::object::{GroupVersionKind, Object};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::objects as cluster;
use super::operation::{Operation, POLL, Progress, line};
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::objects::{Target, read};
use crate::helm_release::status::is_selected;
use crate::helm_release::storage::Storage;
use crate::helm_release::{HELM_RELEASE, HelmReleases};
use crate::kit::read::chain;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);
/// The lines of a failed hook's log that its failure shows.
const LOG_LINES: usize = 10;

/// The hooks of an event, and the one that runs.
#[derive(Debug)]
pub(crate) struct Hooks {
    event: Event,
    /// The indices of its hooks in the record, in order; none before the first look.
    order: Option<Vec<usize>>,
    at: usize,
    state: HookState,
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookState {
    Clear,
    Clearing,
    Create,
    Running,
}

impl Hooks {
    pub(super) fn of(event: Event) -> Self {
        Self {
            event,
            order: None,
            at: 0,
            state: HookState::Clear,
            targets: Vec::new(),
        }
    }

    /// The objects of the hook that runs.
    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn next(&mut self) {
        self.at += 1;
        self.state = HookState::Clear;
        self.targets.clear();
    }

    /// Upstream's text around a failure.
    fn failed(&self, action: Action, why: &str) -> String {
        match (action, &self.event) {
            (Action::Install, Event::PreInstall) => format!("failed pre-install: {why}"),
            (Action::Install, _) => format!("failed post-install: {why}"),
            (Action::Upgrade, Event::PreUpgrade) => format!("pre-upgrade hooks failed: {why}"),
            (Action::Upgrade, _) => format!("post-upgrade hooks failed: {why}"),
            _ => why.to_owned(),
        }
    }
}

/// Runs hooks until one has to be waited for.
pub(super) async fn run(
    cx: &HelmReleases,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
    hooks: &mut Hooks,
) -> Progress {
    let order = order(declared, operation, &hooks.event);
    let order = hooks.order.get_or_insert(order).clone();
    while let Some(index) = order.get(hooks.at).copied() {
        match one(cx, declared, operation, access, hooks, index).await {
            Ok(None) => {}
            Ok(Some(again)) => return Progress::Waits(again),
            Err(why) => {
                let why = failed(cx, declared, operation, access, hooks, index, why).await;
                sweep(
                    operation,
                    access,
                    &order[..hooks.at],
                    &DeletePolicy::HookSucceeded,
                )
                .await;
                return Progress::Failed(hooks.failed(operation.action(), &why));
            }
        }
    }
    sweep(operation, access, &order, &DeletePolicy::HookSucceeded).await;
    Progress::Done
}

/// The hooks of an event by weight, then name.
fn order(declared: &Declared, operation: &Operation, event: &Event) -> Vec<usize> {
    let all = operation.record.release.hooks.iter().enumerate();
    let mut found: Vec<(i64, &str, usize)> = all
        .filter(|(_, hook)| hook.runs_on(event))
        .filter(|(_, hook)| *event != Event::Test || is_selected(&hook.name, declared))
        .map(|(index, hook)| (hook.weight, hook.name.as_str(), index))
        .collect();
    found.sort_by_key(|(weight, name, _)| (*weight, *name));
    found.into_iter().map(|(_, _, index)| index).collect()
}

/// Takes one hook a step further. `Some` waits.
async fn one(
    cx: &HelmReleases,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
    hooks: &mut Hooks,
    index: usize,
) -> Result<Option<Option<Duration>>, String> {
    let Some(hook) = operation.record.release.hooks.get(index) else {
        hooks.next();
        return Ok(None);
    };
    let deletes_before = hook.is_deleted_on(&DeletePolicy::BeforeHookCreation);
    let (path, phase) = (std::sync::Arc::clone(&hook.path), hook.last_run.phase.clone());
    if hooks.targets.is_empty() {
        hooks.targets = targets(cx, &hook.manifest, declared, access)
            .await
            .map_err(|why| {
                format!(
                    "unable to build kubernetes object for {} hook {path}: {why}",
                    hooks.event
                )
            })?;
    }
    match hooks.state {
        HookState::Clear => {
            // an interrupted operation continues where it was
            if operation.resumed && phase == Phase::Succeeded {
                hooks.next();
                return Ok(None);
            }
            if operation.resumed && matches!(phase, Phase::Running | Phase::Failed) {
                hooks.state = match (any_exists(access, &hooks.targets).await?, phase) {
                    (true, _) => HookState::Running,
                    (false, Phase::Failed) => {
                        return Err("the hook failed, and is deleted by its policy".to_owned());
                    }
                    (false, _) => HookState::Create,
                };
                return Ok(None);
            }
            if deletes_before {
                for target in &hooks.targets {
                    delete(access, target).await?;
                }
                hooks.state = HookState::Clearing;
            } else {
                hooks.state = HookState::Create;
            }
            Ok(None)
        }
        HookState::Clearing => {
            if !any_exists(access, &hooks.targets).await? {
                hooks.state = HookState::Create;
                operation.until = None;
                return Ok(None);
            }
            if operation.deadline(declared) <= Instant::now() {
                return Err("timeout waiting for the termination of the hook's earlier objects".to_owned());
            }
            Ok(Some(Some(POLL / 4)))
        }
        HookState::Create => {
            if let Some(hook) = operation.record.release.hooks.get_mut(index) {
                if hook.delete_policies.is_empty() {
                    hook.delete_policies = vec![DeletePolicy::BeforeHookCreation];
                }
                hook.last_run.started_at = Some(now());
                hook.last_run.completed_at = None;
                hook.last_run.phase = Phase::Running;
            }
            record(cx, declared, operation, access).await?;
            for target in &hooks.targets {
                create(operation, access, target)
                    .await
                    .map_err(|why| format!("warning: Hook {} {path} failed: {why}", hooks.event))?;
            }
            hooks.state = HookState::Running;
            operation.until = None;
            Ok(None)
        }
        HookState::Running => {
            let until = operation.deadline(declared);
            let mut pending = Vec::new();
            for target in &hooks.targets {
                let health = judged(cx, declared, target, access).await?;
                match health.status {
                    Status::Current => {}
                    Status::Failed => {
                        return Err(format!(
                            "failed early due to stalled resources: [{}]",
                            line(&target.id, &health)
                        ));
                    }
                    Status::InProgress | Status::Terminating | Status::NotFound | Status::Unknown => {
                        pending.push(line(&target.id, &health));
                    }
                }
            }
            if !pending.is_empty() {
                return match until <= Instant::now() {
                    true => Err(format!("timeout waiting for: [{}]", pending.join(", "))),
                    // A watch of each object wakes the release when its health changes, unless an account may
                    // not watch it. A pod that runs and one that succeeded are equally healthy.
                    false => {
                        let mut targets = hooks.targets.iter();
                        let polls = access.view.is_narrow() || targets.any(|t| is_pod(t) || expires(t));
                        Ok(Some(polls.then_some(POLL)))
                    }
                };
            }
            if let Some(hook) = operation.record.release.hooks.get_mut(index) {
                hook.last_run.completed_at = Some(now());
                hook.last_run.phase = Phase::Succeeded;
            }
            // before anything deletes it, so that it does not run again
            record(cx, declared, operation, access).await?;
            operation.until = None;
            hooks.next();
            Ok(None)
        }
    }
}

/// Notes a failed hook, deletes it by its policy, and adds its log to the failure.
async fn failed(
    cx: &HelmReleases,
    declared: &Declared,
    operation: &mut Operation,
    access: &Access,
    hooks: &Hooks,
    index: usize,
    why: String,
) -> String {
    let log = log(access, &hooks.targets).await;
    let mut deletes = false;
    if let Some(hook) = operation.record.release.hooks.get_mut(index) {
        hook.last_run.completed_at = Some(now());
        hook.last_run.phase = Phase::Failed;
        deletes = hook.is_deleted_on(&DeletePolicy::HookFailed);
    }
    // the failure itself matters more than one of the record
    drop(record(cx, declared, operation, access).await);
    if deletes {
        for target in &hooks.targets {
            drop(delete(access, target).await);
        }
    }
    match log {
        Some(log) => format!("{why}; the last lines of its log: {log}"),
        None => why,
    }
}

/// The end of the log of a failed Job or Pod.
async fn log(access: &Access, targets: &[Target]) -> Option<String> {
    for target in targets {
        let namespace = &*target.id.namespace;
        let pod = match (&*target.id.group, &*target.id.kind) {
            ("", "Pod") => target.id.name.to_string(),
            ("batch", "Job") => {
                let selector = format!("job-name={}", target.id.name);
                let pods = GroupVersionKind::new("", "v1", "Pod");
                let found = access
                    .cluster
                    .list(&pods, namespace, (&selector, true), ANSWER)
                    .await;
                found.ok()?.last()?.name().to_owned()
            }
            _ => continue,
        };
        let text = access
            .cluster
            .pod_log(namespace, &pod, LOG_LINES, ANSWER)
            .await
            .ok()?;
        let text = text.trim();
        return (!text.is_empty()).then(|| text.to_owned());
    }
    None
}

/// Deletes the hooks that have this policy.
async fn sweep(operation: &Operation, access: &Access, order: &[usize], policy: &DeletePolicy) {
    for index in order.iter().rev() {
        let Some(hook) = operation.record.release.hooks.get(*index) else {
            continue;
        };
        if !hook.is_deleted_on(policy) || hook.delete_policies.is_empty() {
            continue;
        }
        let mut objects = read(&hook.manifest).unwrap_or_default();
        let namespace = Some(operation.record.release.namespace.as_str());
        drop(
            access
                .cluster
                .assign_namespaces(objects.iter_mut(), namespace)
                .await,
        );
        for object in objects {
            if let Err(why) = delete(access, &Target::of(object)).await {
                tracing::warn!(why, "cannot delete a hook");
            }
        }
    }
}

async fn targets(
    cx: &HelmReleases,
    manifest: &str,
    declared: &Declared,
    access: &Access,
) -> Result<Vec<Target>, String> {
    let manifest = manifest.to_owned();
    let processors = &cx.kit.processors;
    let reading = processors.run(&declared.key.namespace, move || read(&manifest));
    let mut objects = reading.done().await.map_err(|error| error.to_string())??;
    let assigned = access
        .cluster
        .assign_namespaces(objects.iter_mut(), Some(&declared.namespace))
        .await;
    assigned.map_err(|error| chain(&error))?;
    Ok(objects.into_iter().map(Target::of).collect())
}

async fn any_exists(access: &Access, targets: &[Target]) -> Result<bool, String> {
    for target in targets {
        if cluster::exists(access, &target.id, target.api_version()).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn delete(access: &Access, target: &Target) -> Result<(), String> {
    let at = (&target.id, target.api_version());
    let write = Write::Delete(Propagation::Background);
    let deleted = access
        .cluster
        .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
        .await;
    deleted.map(drop).map_err(|error| chain(&error))
}

async fn create(operation: &Operation, access: &Access, target: &Target) -> Result<(), String> {
    let at = (&target.id, target.api_version());
    let write = match operation.server_side {
        true => Write::Apply {
            object: &target.object,
            dry_run: false,
        },
        false => Write::Create(&target.object),
    };
    let created = access
        .cluster
        .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
        .await;
    created.map(drop).map_err(|error| chain(&error))
}

/// Stores the phases of the hooks.
async fn record(
    cx: &HelmReleases,
    declared: &Declared,
    operation: &Operation,
    access: &Access,
) -> Result<(), String> {
    let storage = Storage::of(cx, declared, access);
    let stored = storage.update(&operation.record).await;
    stored
        .map(drop)
        .map_err(|error| format!("cannot store the release: {error}"))
}

/// The health of a hook: a Job has to complete and a Pod to succeed, anything else is ready at once.
async fn judged(
    cx: &HelmReleases,
    declared: &Declared,
    target: &Target,
    access: &Access,
) -> Result<Health, String> {
    let live = cluster::get(access, &target.id, target.api_version()).await?;
    if let Some(live) = &live
        && let Some(health) = cluster::judge(cx, declared, target, live).await?
    {
        return Ok(health);
    }
    Ok(health_of(target, live.as_ref()))
}

/// The health of a hook without rules of its own.
pub(in crate::helm_release) fn health_of(target: &Target, live: Option<&Object>) -> Health {
    let Some(live) = live else {
        return match is_awaited(target) {
            true => Health::not_found(),
            false => current(),
        };
    };
    match (&*target.id.group, &*target.id.kind) {
        ("batch", "Job") => health::compute(live),
        ("", "Pod") => pod(live),
        _ => current(),
    }
}

/// Whether an object that does not exist is still awaited. A Job with a time to live is deleted after it has
/// finished, which may be before this process has seen the end.
fn is_awaited(target: &Target) -> bool {
    match (&*target.id.group, &*target.id.kind) {
        ("batch", "Job") => !expires(target),
        ("", "Pod") => true,
        _ => false,
    }
}

fn expires(target: &Target) -> bool {
    let spec = target.object.0.get("spec");
    let is_job = (&*target.id.group, &*target.id.kind) == ("batch", "Job");
    is_job && spec.is_some_and(|spec| spec.get("ttlSecondsAfterFinished").is_some())
}

fn is_pod(target: &Target) -> bool {
    (&*target.id.group, &*target.id.kind) == ("", "Pod")
}

fn current() -> Health {
    Health {
        status: Status::Current,
        message: "Resource is current".to_owned(),
    }
}

fn pod(live: &Object) -> Health {
    let status = live.0.get("status");
    let phase = status
        .and_then(|status| status.get("phase")?.as_str())
        .unwrap_or_default();
    let message = status.and_then(|status| status.get("message").and_then(Value::as_str));
    let (status, text) = match phase {
        "Succeeded" => (Status::Current, "pod succeeded"),
        "Failed" => (Status::Failed, "pod failed"),
        _ => (Status::InProgress, "pod is not complete"),
    };
    Health {
        status,
        message: message.unwrap_or(text).to_owned(),
    }
}

fn now() -> Box<str> {
    Timestamp::now().to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_with_a_time_to_live_is_over_when_it_is_gone() {
        let target = |kind: &str, spec: Value| {
            let version = if kind == "Job" { "batch/v1" } else { "v1" };
            let object =
                json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "a" }, "spec": spec });
            Target::of(Object(object.as_object().cloned().unwrap()))
        };
        assert!(is_awaited(&target("Job", json!({}))));
        assert!(!is_awaited(&target(
            "Job",
            json!({ "ttlSecondsAfterFinished": 0 })
        )));
        assert!(is_awaited(&target("Pod", json!({}))));
        assert!(!is_awaited(&target("ConfigMap", json!({}))));
    }
}
