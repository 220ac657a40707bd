//! Derives the steps of a Kustomization from its status: pure.
//!
//! A run goes through the steps in order. The reason of `Ready`, or the message of `Reconciling` during a
//! run, names the current step. Later steps are unknown and shown as such.

use crate::diagnosis::{Node, NodeHealth};
use equate_api::kustomize::{HistoryRecord, Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, DependencyReference, PRUNE_BUDGET, Reason, condition};
use equate_controllers::kustomization::reasons::PATH_NOT_FOUND;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::cmp::Reverse;

/// Precedes the command that confirms a deletion; part of the controllers' messages.
pub(crate) const CONFIRM: &str = "confirm with: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Done,
    /// In progress, or waiting for something.
    Waiting,
    /// Failed, or an action of the user is needed.
    Failed,
    Suspended,
    /// An earlier step is not done.
    Ahead,
}

impl State {
    pub(crate) fn text(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Waiting => "waiting",
            State::Failed => "failed",
            State::Suspended => "suspended",
            State::Ahead => "-",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Source,
    Policy,
    Dependencies,
    Build,
    Apply,
    Prune,
    Health,
}

impl Stage {
    const ALL: [Stage; 7] = [
        Stage::Source,
        Stage::Policy,
        Stage::Dependencies,
        Stage::Build,
        Stage::Apply,
        Stage::Prune,
        Stage::Health,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Source => "source",
            Stage::Policy => "policy",
            Stage::Dependencies => "dependencies",
            Stage::Build => "build",
            Stage::Apply => "apply",
            Stage::Prune => "prune",
            Stage::Health => "health",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) called: String,
    pub(crate) revision: Option<String>,
    pub(crate) updated: Option<Timestamp>,
    /// Why there is no revision, or no newer one.
    pub(crate) trouble: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) object: Kustomization,
    pub(crate) source: Source,
    /// In the declared order. Absent or already visited ones are not read.
    pub(crate) dependencies: Vec<(String, Dependency)>,
    /// Unhealthy objects with their causes.
    pub(crate) unhealthy: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Dependency {
    Read(Box<Seen>),
    /// Already in the chain, or beyond the limit of reads.
    Elsewhere,
    Absent,
}

/// `since` is set for a step in progress or failed.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    pub(crate) state: State,
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    pub(crate) below: Vec<Link>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) object: String,
    pub(crate) state: State,
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    pub(crate) below: Vec<Link>,
}

#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) called: String,
    pub(crate) state: State,
    pub(crate) ready: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
    /// The cause below the current step: `CrashLoopBackOff: Pod/shop/web-1, container web: ...`.
    pub(crate) cause: Option<String>,
    pub(crate) steps: Vec<Step>,
    /// Other conditions that are true.
    pub(crate) aspects: Vec<(String, String)>,
    /// Why other objects go first, if the controllers said so lately.
    pub(crate) throttled: Option<String>,
    pub(crate) next: Option<String>,
}

struct CurrentStep<'s> {
    state: State,
    at: Option<Stage>,
    ready: bool,
    reason: &'s str,
    message: String,
    since: Option<Timestamp>,
}

pub(crate) fn called(namespace: &str, name: &str) -> String {
    format!("Kustomization/{namespace}/{name}")
}

pub(crate) fn own_name(object: &Kustomization) -> String {
    let (namespace, name) = names(object);
    called(namespace, name)
}

fn names(object: &Kustomization) -> (&str, &str) {
    let meta = &object.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

pub(crate) fn dependency_key<'o>(
    object: &'o Kustomization,
    on: &'o DependencyReference,
) -> (&'o str, &'o str) {
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    (on.namespace.as_deref().unwrap_or(own), &on.name)
}

/// Whether the health step is current, so that its objects are worth reading.
pub(crate) fn is_at_health(object: &Kustomization) -> bool {
    let standing = standing(object);
    !standing.ready && standing.at == Some(Stage::Health)
}

pub(crate) fn is_ready(object: &Kustomization) -> bool {
    standing(object).ready
}

fn is_at_dependencies(object: &Kustomization) -> bool {
    standing(object).at == Some(Stage::Dependencies)
}

fn conditions(object: &Kustomization) -> &[Condition] {
    object.status.as_ref().map_or(&[], |status| &status.conditions)
}

fn standing(object: &Kustomization) -> CurrentStep<'_> {
    let standing = unsuspended_step(object);
    if !object.spec.suspend || object.metadata.deletion_timestamp.is_some() {
        return standing;
    }
    let mut message = "not reconciled until it is resumed".to_owned();
    if !standing.ready {
        message.push_str(&format!("; last status: {}", standing.message));
    }
    CurrentStep {
        state: State::Suspended,
        message,
        ..standing
    }
}

/// The current step regardless of `spec.suspend`.
fn unsuspended_step(object: &Kustomization) -> CurrentStep<'_> {
    let ready = condition(conditions(object), ConditionType::Ready);
    let doing = condition(conditions(object), ConditionType::Reconciling);
    let reason = ready.map_or("", |ready| ready.reason.as_str());
    let observed = object
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    let is_true = ready.is_some_and(|ready| ready.status == "True");
    let current = observed == object.metadata.generation;
    let since = ready.map(|ready| ready.last_transition_time.0);
    let message_of =
        |condition: Option<&Condition>| condition.map(|one| one.message.clone()).unwrap_or_default();
    let standing = |state, at, message| CurrentStep {
        state,
        at,
        ready: is_true && current,
        reason,
        message,
        since,
    };
    if object.metadata.deletion_timestamp.is_some() {
        return standing(
            State::Waiting,
            Some(Stage::Prune),
            format!("being deleted. {}", message_of(ready)),
        );
    }
    if is_true && current {
        return standing(State::Done, None, message_of(ready));
    }
    if ready.is_none() || observed.is_none() {
        return standing(
            State::Waiting,
            Some(Stage::Source),
            "no controller has reconciled it yet".to_owned(),
        );
    }
    if is_true {
        let message = "its spec changed and is not reconciled yet".to_owned();
        return standing(State::Waiting, Some(Stage::Source), message);
    }
    let failed = ready.is_some_and(|ready| ready.status == "False");
    if !failed {
        let message = message_of(doing);
        return standing(State::Waiting, Some(by_progress(&message)), message);
    }
    let message = message_of(ready);
    let at = match message.starts_with(PATH_NOT_FOUND) {
        // its reason is that of a missing source, although the source exists
        true => Stage::Build,
        false => by_reason(reason),
    };
    let waits = matches!(at, Stage::Dependencies | Stage::Source) && !is_stalled(object);
    let state = if waits { State::Waiting } else { State::Failed };
    standing(state, Some(at), message)
}

fn by_reason(reason: &str) -> Stage {
    let is = |other: Reason| reason == other.as_str();
    if is(Reason::ArtifactFailed) {
        Stage::Source
    } else if is(Reason::DependencyNotReady) {
        Stage::Dependencies
    } else if is(Reason::BuildFailed) {
        Stage::Build
    } else if is(Reason::PruneFailed) || is(Reason::EmptyRender) || is(Reason::PruneBudgetExceeded) {
        Stage::Prune
    } else if is(Reason::HealthCheckFailed) || is(Reason::HealthCheckCanceled) {
        Stage::Health
    } else if is(Reason::Unsupported)
        || is(Reason::AccessDenied)
        || is(Reason::InvalidCelExpression)
        || is(Reason::FeatureGateDisabled)
    {
        Stage::Policy
    } else {
        Stage::Apply
    }
}

/// The step of a progress message, which is Flux's or a controller's text.
fn by_progress(message: &str) -> Stage {
    let begins = |words: &str| message.starts_with(words);
    if begins("Running health checks") {
        Stage::Health
    } else if begins("Building manifests") {
        Stage::Build
    } else if begins("Pruning") {
        Stage::Prune
    } else if begins("Applying manifests") || begins("Waiting for") {
        Stage::Apply
    } else {
        Stage::Source
    }
}

pub(crate) fn chain(seen: &Seen) -> Chain {
    let standing = standing(&seen.object);
    let steps = Stage::ALL
        .into_iter()
        .map(|stage| step(seen, &standing, stage))
        .collect();
    let aspects = [
        ConditionType::OwnershipConflict,
        ConditionType::Drifted,
        ConditionType::PruneBlocked,
    ];
    let aspects = aspects.into_iter().filter_map(|of| {
        let held = condition(conditions(&seen.object), of).filter(|held| held.status == "True")?;
        Some((of.as_str().to_owned(), held.message.clone()))
    });
    Chain {
        called: own_name(&seen.object),
        state: standing.state,
        ready: standing.ready,
        reason: standing.reason.to_owned(),
        message: standing.message.clone(),
        since: standing.since,
        cause: cause(seen),
        steps,
        aspects: aspects.collect(),
        throttled: None,
        next: next(seen, &standing),
    }
}

/// The most telling cause of an unhealthy object, here or in a dependency.
fn cause(seen: &Seen) -> Option<String> {
    let ready = condition(conditions(&seen.object), ConditionType::Ready);
    let message = ready.map_or("", |ready| ready.message.as_str());
    let unhealthy = seen.unhealthy.iter();
    let worst = unhealthy.min_by_key(|node| {
        let is_named = message.contains(&node.object);
        (!is_named, node.only_leads_to_pods(), Reverse(node.health))
    });
    let own = worst.map(|node| {
        let cause = node.named_cause();
        cause.unwrap_or_else(|| format!("{} is not healthy", node.object))
    });
    own.or_else(|| {
        let blocked = is_at_dependencies(&seen.object);
        let mut dependencies = seen.dependencies.iter().filter(|_| blocked);
        dependencies.find_map(|(_, known)| match known {
            Dependency::Read(seen) => cause(seen),
            Dependency::Elsewhere | Dependency::Absent => None,
        })
    })
}

fn step(seen: &Seen, standing: &CurrentStep<'_>, stage: Stage) -> Step {
    let object = &seen.object;
    let default = KustomizationStatus::default();
    let status = object.status.as_ref().unwrap_or(&default);
    let here = standing.at == Some(stage);
    let state = state(seen, standing, stage);
    let (since, what) = match (stage, state) {
        _ if here && !standing.message.is_empty() => (standing.since, standing.message.clone()),
        (Stage::Source, _) => (seen.source.updated, source(&seen.source)),
        (Stage::Apply, State::Ahead) => (None, kept_objects(status)),
        (_, State::Ahead) => (None, String::new()),
        (Stage::Policy, _) => (None, policy(object)),
        (Stage::Dependencies, _) => (None, dependencies(seen)),
        (Stage::Build, _) => built(status, seen.source.revision.as_deref()),
        (Stage::Apply, _) => applied(status),
        (Stage::Prune, _) => (None, prune(object)),
        (Stage::Health, _) => health(object, status),
    };
    let below = match stage {
        Stage::Dependencies => seen.dependencies.iter().map(dependency).collect(),
        Stage::Health if here || state == State::Done => unhealthy(seen),
        _ => Vec::new(),
    };
    Step {
        stage,
        state,
        since,
        what,
        below,
    }
}

fn state(seen: &Seen, standing: &CurrentStep<'_>, stage: Stage) -> State {
    match standing.at {
        Some(at) if stage == at => standing.state,
        Some(at) if stage > at => State::Ahead,
        // the prune budget is checked before anything is applied
        Some(Stage::Prune) if stage == Stage::Apply && is_stalled(&seen.object) => State::Ahead,
        _ if stage == Stage::Source && seen.source.trouble.is_some() => State::Failed,
        _ => State::Done,
    }
}

fn unhealthy(seen: &Seen) -> Vec<Link> {
    let own = seen.object.spec.health_check_exprs.iter().enumerate();
    let own = own.map(|(at, own)| {
        let kind = own.kind.as_deref().unwrap_or_default();
        Link {
            object: format!("spec.healthCheckExprs[{at}]"),
            state: State::Waiting,
            since: None,
            what: format!("{} {kind} is healthy when: {}", own.api_version, own.current),
            below: Vec::new(),
        }
    });
    let own = own.filter(|_| is_at_health(&seen.object));
    seen.unhealthy.iter().map(Link::of).chain(own).collect()
}

impl Link {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            object: node.object.clone(),
            state: match node.health {
                NodeHealth::Healthy => State::Done,
                NodeHealth::Waiting => State::Waiting,
                NodeHealth::Failed => State::Failed,
            },
            since: node.since,
            what: node.text(),
            below: node.below.iter().map(Self::of).collect(),
        }
    }
}

fn source(source: &Source) -> String {
    match (&source.revision, &source.trouble) {
        (Some(revision), None) => format!("{} has {revision}", source.called),
        (Some(revision), Some(trouble)) => {
            format!(
                "{} has {revision}, but no newer revision: {trouble}",
                source.called
            )
        }
        (None, trouble) => {
            let trouble = trouble.as_deref().unwrap_or("no artifact yet");
            format!("{}: {trouble}", source.called)
        }
    }
}

fn policy(object: &Kustomization) -> String {
    let spec = &object.spec;
    let mut parts = Vec::new();
    if let Some(account) = &spec.service_account_name {
        parts.push(format!("impersonates ServiceAccount {account}"));
    }
    if spec.kube_config.is_some() {
        parts.push("applies to the cluster of spec.kubeConfig".to_owned());
    }
    match parts.is_empty() {
        true => "no restrictions".to_owned(),
        false => parts.join(", "),
    }
}

/// Dependencies are checked before new objects are applied; applied objects stay regardless of them.
fn dependencies(seen: &Seen) -> String {
    let ready = |known: &Dependency| matches!(known, Dependency::Read(seen) if standing(&seen.object).ready);
    let number = seen.dependencies.len();
    let others = seen
        .dependencies
        .iter()
        .filter(|(_, known)| !ready(known))
        .count();
    match (number, others) {
        (0, _) => "none".to_owned(),
        (1, 0) => "ready".to_owned(),
        (_, 0) => format!("all {number} are ready"),
        _ => format!("{others} of {number} not ready now; applied objects stay"),
    }
}

fn built(status: &KustomizationStatus, revision: Option<&str>) -> (Option<Timestamp>, String) {
    let of = |last: &&HistoryRecord| last.metadata.get("revision").map(String::as_str) == revision;
    let Some(last) = status.history.first().filter(of) else {
        return (None, String::new());
    };
    let digest: String = last.digest.chars().take("sha256:".len() + 12).collect();
    let times = match last.total_reconciliations {
        ..=1 => String::new(),
        times => format!(", unchanged in {times} runs"),
    };
    (Some(last.first_reconciled.0), format!("{digest}{times}"))
}

fn objects(status: &KustomizationStatus) -> String {
    let held = status.inventory.as_ref();
    match held.map_or(0, |inventory| inventory.entries.len()) {
        1 => "1 object".to_owned(),
        number => format!("{number} objects"),
    }
}

/// The objects that stay while no new revision is applied.
fn kept_objects(status: &KustomizationStatus) -> String {
    match &status.last_applied_revision {
        Some(revision) => format!("{} at {revision} stay applied", objects(status)),
        None => "nothing is applied yet".to_owned(),
    }
}

fn applied(status: &KustomizationStatus) -> (Option<Timestamp>, String) {
    let last = status.history.first();
    let took = last.map(|last| last.last_reconciled_duration.get().as_millis());
    let took = match took {
        None | Some(0) => String::new(),
        Some(took) => format!(", the last run took {}", rounded(took)),
    };
    let attempted = status.last_attempted_revision.as_deref();
    let at = attempted.map_or_else(String::new, |revision| format!(" at {revision}"));
    let when = last.map(|last| last.last_reconciled.0);
    (when, format!("{}{at}{took}", objects(status)))
}

/// Rounds to milliseconds, and from ten seconds on to seconds.
fn rounded(milliseconds: u128) -> equate_api::meta::Duration {
    let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
    let exact = std::time::Duration::from_millis(milliseconds);
    match exact.as_secs() {
        0..10 => exact.into(),
        seconds => std::time::Duration::from_secs(seconds).into(),
    }
}

fn prune(object: &Kustomization) -> String {
    if !object.spec.prune {
        return "off: dropped objects stay".to_owned();
    }
    let annotations = object.metadata.annotations.as_ref();
    let budget = annotations.and_then(|annotations| annotations.get(PRUNE_BUDGET));
    match budget {
        Some(budget) => format!("on, at most {budget} at once ({PRUNE_BUDGET})"),
        None => "on, at most 50% at once if it owns more than 10 objects".to_owned(),
    }
}

fn health(object: &Kustomization, status: &KustomizationStatus) -> (Option<Timestamp>, String) {
    match condition(&status.conditions, ConditionType::Healthy) {
        Some(healthy) => (Some(healthy.last_transition_time.0), healthy.message.clone()),
        None if object.spec.wait || !object.spec.health_checks.is_empty() => (None, String::new()),
        None => (
            None,
            "not checked: neither spec.wait nor spec.healthChecks is set".to_owned(),
        ),
    }
}

fn dependency((called, known): &(String, Dependency)) -> Link {
    let link = |state, since, what: String, below| Link {
        object: called.clone(),
        state,
        since,
        what,
        below,
    };
    match known {
        Dependency::Absent => link(State::Failed, None, "does not exist".to_owned(), Vec::new()),
        Dependency::Elsewhere => link(State::Waiting, None, "see above".to_owned(), Vec::new()),
        Dependency::Read(seen) => {
            let standing = standing(&seen.object);
            let below = match standing.at {
                Some(Stage::Dependencies) => seen.dependencies.iter().map(dependency).collect(),
                Some(Stage::Health) => unhealthy(seen),
                _ => Vec::new(),
            };
            link(standing.state, standing.since, standing.message, below)
        }
    }
}

fn next(seen: &Seen, standing: &CurrentStep<'_>) -> Option<String> {
    let object = &seen.object;
    let interval = object.spec.interval;
    let timeout: equate_api::meta::Duration = object.spec.timeout().into();
    let retry: equate_api::meta::Duration = object.spec.retry_interval().into();
    let message_of = match (standing.state, standing.at) {
        (State::Done, _) => format!("reconciled again within {interval}, or at any change"),
        (State::Suspended, _) => {
            let (namespace, name) = names(object);
            format!("resume it with `equate -n {namespace} resume kustomization {name}`")
        }
        (_, Some(Stage::Prune)) if let Some((_, command)) = confirmation(&standing.message) => {
            format!("continues with another revision; if this is meant, {CONFIRM}{command}")
        }
        (State::Waiting, Some(Stage::Dependencies)) => match missing(&seen.dependencies) {
            Some(other) => format!("continues when {other} is ready"),
            None => "continues when its dependencies are ready".to_owned(),
        },
        (State::Waiting, Some(Stage::Source)) if object.status.is_none() => {
            "starts when a controller reconciles it".to_owned()
        }
        (State::Waiting, Some(Stage::Source)) => {
            format!("continues when {} has the artifact it needs", seen.source.called)
        }
        (State::Waiting, _) => format!("fails after {timeout}, then retried every {retry}"),
        (State::Failed, _) if is_stalled(object) => {
            "not retried until its spec, annotations or source revision change".to_owned()
        }
        (State::Failed, Some(Stage::Build)) => {
            "retried with the next revision or a change of its spec".to_owned()
        }
        (State::Failed, _) => format!("retried within {retry}, or at any change"),
        (State::Ahead, _) => return None,
    };
    Some(message_of)
}

/// The dependency to wait for: the first one that is not ready and does not wait for another itself.
fn missing(dependencies: &[(String, Dependency)]) -> Option<&str> {
    dependencies.iter().find_map(|(called, known)| match known {
        Dependency::Absent => Some(called.as_str()),
        Dependency::Elsewhere => None,
        Dependency::Read(seen) if standing(&seen.object).ready => None,
        Dependency::Read(seen) if is_at_dependencies(&seen.object) => {
            missing(&seen.dependencies).or(Some(called.as_str()))
        }
        Dependency::Read(_) => Some(called.as_str()),
    })
}

/// Splits a message into its text and its confirmation command.
pub(crate) fn confirmation(message: &str) -> Option<(&str, &str)> {
    message.split_once(&format!(" If this is meant, {CONFIRM}"))
}

fn is_stalled(object: &Kustomization) -> bool {
    condition(conditions(object), ConditionType::Stalled).is_some_and(|stalled| stalled.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::NodeHealth;
    use serde_json::json;

    #[test]
    fn the_object_that_blocks_the_health_check_is_the_cause() {
        let check = |message: &str, expected: &str| {
            let object = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": { "name": "app", "namespace": "flux-system" },
                "spec": { "interval": "1m", "prune": true, "sourceRef": { "kind": "GitRepository", "name": "fleet" } },
                "status": { "conditions": [{
                    "type": "Ready", "status": "False", "reason": "HealthCheckFailed", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }] },
            });
            let failed = |object: &str| Node::new(object, NodeHealth::Failed);
            let seen = Seen {
                object: serde_json::from_value(object).unwrap(),
                source: Source::default(),
                dependencies: Vec::new(),
                unhealthy: vec![
                    Node::new("Job/default/slow", NodeHealth::Waiting),
                    failed("Service/default/web"),
                    failed("Deployment/default/web"),
                    failed("Job/default/mig"),
                ],
            };
            assert_eq!(cause(&seen).unwrap(), format!("{expected} is not healthy"));
        };
        check("timeout", "Deployment/default/web");
        check("stalled: [Job/default/mig status: 'Failed']", "Job/default/mig");
    }
}
