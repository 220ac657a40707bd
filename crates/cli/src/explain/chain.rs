//! From what was read of a Kustomization to the chain that leads to it being ready: pure.
//!
//! A run goes through the steps in order, and its status says at which one it stands: by the reason of
//! `Ready`, and while it goes on by what `Reconciling` says it does. What comes after that is not yet
//! known, and nothing is said of it.

use equate_api::kustomize::{HistoryRecord, Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, DependencyReference, PRUNE_BUDGET, Reason, condition};
use equate_controllers::kustomization::reasons::PATH_NOT_FOUND;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What stands before a command that confirms.
pub(crate) const CONFIRM: &str = "confirm with: ";

/// How far something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is done, and well.
    Done,
    /// It goes on, or waits for something.
    Waits,
    /// It failed, or somebody has to do something.
    Failed,
    /// It rests.
    Rests,
    /// What is before it is not done.
    Ahead,
}

impl State {
    pub(crate) fn text(self) -> &'static str {
        match self {
            State::Done => "done",
            State::Waits => "waits",
            State::Failed => "failed",
            State::Rests => "rests",
            State::Ahead => "-",
        }
    }
}

/// The steps, in their order.
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

/// A source as far as it was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) called: String,
    pub(crate) revision: Option<String>,
    pub(crate) updated: Option<Timestamp>,
    /// Why there is nothing, or nothing newer.
    pub(crate) trouble: Option<String>,
}

/// What was read of a Kustomization.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) object: Kustomization,
    pub(crate) source: Source,
    /// In the order they are declared; none of one that is not there, or was looked at before.
    pub(crate) dependencies: Vec<(String, Known)>,
    /// Objects that are not healthy, and how they are; where that is what is waited for.
    pub(crate) unhealthy: Vec<(String, String)>,
}

/// What is known of a dependency.
#[derive(Debug)]
pub(crate) enum Known {
    Read(Box<Seen>),
    /// It is above in the chain, or there are too many.
    Elsewhere,
    Absent,
}

/// A step, how it stands and, of what is underway or failed, since when.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    pub(crate) state: State,
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    pub(crate) below: Vec<Link>,
}

/// Something that a step depends on.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) object: String,
    pub(crate) state: State,
    pub(crate) since: Option<Timestamp>,
    pub(crate) what: String,
    pub(crate) below: Vec<Link>,
}

/// The chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) called: String,
    pub(crate) state: State,
    pub(crate) ready: bool,
    /// The reason of `Ready`.
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) steps: Vec<Step>,
    /// What else the status says.
    pub(crate) aspects: Vec<(String, String)>,
    /// What happens next.
    pub(crate) next: Option<String>,
}

/// Where a Kustomization stands: the step it is at, and how that is.
struct Standing<'s> {
    state: State,
    at: Option<Stage>,
    ready: bool,
    reason: &'s str,
    message: String,
    since: Option<Timestamp>,
}

/// What to call a Kustomization.
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

/// The namespace and name of a dependency.
pub(crate) fn near<'o>(object: &'o Kustomization, on: &'o DependencyReference) -> (&'o str, &'o str) {
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    (on.namespace.as_deref().unwrap_or(own), &on.name)
}

/// Whether health is what it stands at: then its objects are worth a look.
pub(crate) fn is_at_health(object: &Kustomization) -> bool {
    let standing = standing(object);
    !standing.ready && standing.at == Some(Stage::Health)
}

/// Whether dependencies are what it stands at.
fn is_at_dependencies(object: &Kustomization) -> bool {
    standing(object).at == Some(Stage::Dependencies)
}

fn conditions(object: &Kustomization) -> &[Condition] {
    object.status.as_ref().map_or(&[], |status| &status.conditions)
}

fn standing(object: &Kustomization) -> Standing<'_> {
    let standing = awake(object);
    if !object.spec.suspend || object.metadata.deletion_timestamp.is_some() {
        return standing;
    }
    let mut message = "it is suspended: nothing is looked at until it is resumed".to_owned();
    if !standing.ready {
        message.push_str(&format!("; before: {}", standing.message));
    }
    Standing {
        state: State::Rests,
        message,
        ..standing
    }
}

/// The same if nobody had suspended it.
fn awake(object: &Kustomization) -> Standing<'_> {
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
    let said = |condition: Option<&Condition>| condition.map(|one| one.message.clone()).unwrap_or_default();
    let standing = |state, at, message| Standing {
        state,
        at,
        ready: is_true && current,
        reason,
        message,
        since,
    };
    if object.metadata.deletion_timestamp.is_some() {
        return standing(
            State::Waits,
            Some(Stage::Prune),
            format!("it is being deleted. {}", said(ready)),
        );
    }
    if is_true && current {
        return standing(State::Done, None, said(ready));
    }
    if ready.is_none() || observed.is_none() {
        return standing(
            State::Waits,
            Some(Stage::Source),
            "no controller has looked at it yet".to_owned(),
        );
    }
    if is_true {
        let message = "its spec changed, and that was not looked at yet".to_owned();
        return standing(State::Waits, Some(Stage::Source), message);
    }
    let failed = ready.is_some_and(|ready| ready.status == "False");
    if !failed {
        let message = said(doing);
        return standing(State::Waits, Some(by_progress(&message)), message);
    }
    let message = said(ready);
    let at = match message.starts_with(PATH_NOT_FOUND) {
        // it has the reason of waiting for a source, which has been found
        true => Stage::Build,
        false => by_reason(reason),
    };
    let waits = matches!(at, Stage::Dependencies | Stage::Source) && !is_stalled(object);
    let state = if waits { State::Waits } else { State::Failed };
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

/// What a run does, from the words it has for that.
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

/// The chain of what was read.
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
        steps,
        aspects: aspects.collect(),
        next: next(seen, &standing),
    }
}

fn step(seen: &Seen, standing: &Standing<'_>, stage: Stage) -> Step {
    let object = &seen.object;
    let default = KustomizationStatus::default();
    let status = object.status.as_ref().unwrap_or(&default);
    let here = standing.at == Some(stage);
    let state = state(seen, standing, stage);
    let (since, what) = match (stage, state) {
        _ if here && !standing.message.is_empty() => (standing.since, standing.message.clone()),
        (Stage::Source, _) => (seen.source.updated, source(&seen.source)),
        (Stage::Apply, State::Ahead) => (None, still(status)),
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
        Stage::Health if here => unhealthy(seen),
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

fn state(seen: &Seen, standing: &Standing<'_>, stage: Stage) -> State {
    match standing.at {
        Some(at) if stage == at => standing.state,
        Some(at) if stage > at => State::Ahead,
        // what may be deleted is asked before anything is applied
        Some(Stage::Prune) if stage == Stage::Apply && is_stalled(&seen.object) => State::Ahead,
        _ if stage == Stage::Source && seen.source.trouble.is_some() => State::Failed,
        _ => State::Done,
    }
}

/// What is waited for, and the words it has to meet where it does not go by everybody's.
fn unhealthy(seen: &Seen) -> Vec<Link> {
    let link = |(object, what): (String, String)| Link {
        object,
        state: State::Waits,
        since: None,
        what,
        below: Vec::new(),
    };
    let own = seen.object.spec.health_check_exprs.iter().enumerate();
    let own = own.map(|(at, own)| {
        let kind = own.kind.as_deref().unwrap_or_default();
        let what = format!("{} {kind} is healthy when: {}", own.api_version, own.current);
        (format!("spec.healthCheckExprs[{at}]"), what)
    });
    seen.unhealthy.iter().cloned().chain(own).map(link).collect()
}

fn source(source: &Source) -> String {
    match (&source.revision, &source.trouble) {
        (Some(revision), None) => format!("{} has {revision}", source.called),
        (Some(revision), Some(trouble)) => {
            format!("{} has {revision}, and nothing newer: {trouble}", source.called)
        }
        (None, trouble) => {
            let trouble = trouble.as_deref().unwrap_or("it has nothing yet");
            format!("{}: {trouble}", source.called)
        }
    }
}

fn policy(object: &Kustomization) -> String {
    let spec = &object.spec;
    let mut parts = Vec::new();
    if let Some(account) = &spec.service_account_name {
        parts.push(format!("as ServiceAccount {account}"));
    }
    if spec.kube_config.is_some() {
        parts.push("in the cluster of spec.kubeConfig".to_owned());
    }
    match parts.is_empty() {
        true => "nothing forbids it".to_owned(),
        false => parts.join(", "),
    }
}

/// They are asked before something new is carried out; what is applied stays, whatever becomes of them.
fn dependencies(seen: &Seen) -> String {
    let ready = |known: &Known| matches!(known, Known::Read(seen) if standing(&seen.object).ready);
    let number = seen.dependencies.len();
    let others = seen
        .dependencies
        .iter()
        .filter(|(_, known)| !ready(known))
        .count();
    match (number, others) {
        (0, _) => "none".to_owned(),
        (1, 0) => "it is ready".to_owned(),
        (_, 0) => format!("all {number} are ready"),
        _ => format!("{others} of {number} not ready now; what is applied stays"),
    }
}

/// The digest and age of what was built, where the status speaks of this revision.
fn built(status: &KustomizationStatus, revision: Option<&str>) -> (Option<Timestamp>, String) {
    let of = |last: &&HistoryRecord| last.metadata.get("revision").map(String::as_str) == revision;
    let Some(last) = status.history.first().filter(of) else {
        return (None, String::new());
    };
    let digest: String = last.digest.chars().take("sha256:".len() + 12).collect();
    let times = match last.total_reconciliations {
        ..=1 => String::new(),
        times => format!(", the same {times} times"),
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

/// What there is while nothing new is applied.
fn still(status: &KustomizationStatus) -> String {
    match &status.last_applied_revision {
        Some(revision) => format!("{} at {revision} until then", objects(status)),
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

/// To the millisecond, and above ten seconds to the second.
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
        return "off: what is dropped stays".to_owned();
    }
    let annotations = object.metadata.annotations.as_ref();
    let budget = annotations.and_then(|annotations| annotations.get(PRUNE_BUDGET));
    match budget {
        Some(budget) => format!("on, at most {budget} at once ({PRUNE_BUDGET})"),
        None => "on, at most 50% at once where more than 10 are held".to_owned(),
    }
}

fn health(object: &Kustomization, status: &KustomizationStatus) -> (Option<Timestamp>, String) {
    match condition(&status.conditions, ConditionType::Healthy) {
        Some(healthy) => (Some(healthy.last_transition_time.0), healthy.message.clone()),
        None if object.spec.wait || !object.spec.health_checks.is_empty() => (None, String::new()),
        None => (None, "not asked for: neither wait nor healthChecks".to_owned()),
    }
}

/// A dependency, and what it waits for in turn.
fn dependency((called, known): &(String, Known)) -> Link {
    let link = |state, since, what: String, below| Link {
        object: called.clone(),
        state,
        since,
        what,
        below,
    };
    match known {
        Known::Absent => link(State::Failed, None, "does not exist".to_owned(), Vec::new()),
        Known::Elsewhere => link(State::Waits, None, "see above".to_owned(), Vec::new()),
        Known::Read(seen) => {
            let standing = standing(&seen.object);
            let below = match is_at_dependencies(&seen.object) {
                true => seen.dependencies.iter().map(dependency).collect(),
                false => Vec::new(),
            };
            link(standing.state, standing.since, standing.message, below)
        }
    }
}

fn next(seen: &Seen, standing: &Standing<'_>) -> Option<String> {
    let object = &seen.object;
    let interval = object.spec.interval;
    let timeout: equate_api::meta::Duration = object.spec.timeout().into();
    let retry: equate_api::meta::Duration = object.spec.retry_interval().into();
    let said = match (standing.state, standing.at) {
        (State::Done, _) => format!("looked at again within {interval}, and at any change"),
        (State::Rests, _) => {
            let (namespace, name) = names(object);
            format!("`equate -n {namespace} resume kustomization {name}` lets it work again")
        }
        (_, Some(Stage::Prune)) if let Some((_, command)) = confirmation(&standing.message) => {
            format!("goes on with another revision; if this is meant, {CONFIRM}{command}")
        }
        (State::Waits, Some(Stage::Dependencies)) => match missing(&seen.dependencies) {
            Some(other) => format!("goes on as soon as {other} is ready"),
            None => "goes on as soon as what it waits for is ready".to_owned(),
        },
        (State::Waits, Some(Stage::Source)) if object.status.is_none() => {
            "goes on as soon as a controller runs that looks at it".to_owned()
        }
        (State::Waits, Some(Stage::Source)) => {
            format!("goes on as soon as {} has what it needs", seen.source.called)
        }
        (State::Waits, _) => format!("given up after {timeout}, and then tried again every {retry}"),
        (State::Failed, _) if is_stalled(object) => {
            "nothing until its spec, its annotations or the revision change".to_owned()
        }
        (State::Failed, Some(Stage::Build)) => {
            "goes on with the next revision, or a change of its spec".to_owned()
        }
        (State::Failed, _) => format!("tried again within {retry}, and at any change"),
        (State::Ahead, _) => return None,
    };
    Some(said)
}

/// The first that is not ready; of what that waits for in turn, the first that does not wait for another.
fn missing(dependencies: &[(String, Known)]) -> Option<&str> {
    dependencies.iter().find_map(|(called, known)| match known {
        Known::Absent => Some(called.as_str()),
        Known::Elsewhere => None,
        Known::Read(seen) if standing(&seen.object).ready => None,
        Known::Read(seen) if is_at_dependencies(&seen.object) => {
            missing(&seen.dependencies).or(Some(called.as_str()))
        }
        Known::Read(_) => Some(called.as_str()),
    })
}

/// A message that ends in the command that confirms what it says, taken apart.
pub(crate) fn confirmation(message: &str) -> Option<(&str, &str)> {
    message.split_once(&format!(" If this is meant, {CONFIRM}"))
}

fn is_stalled(object: &Kustomization) -> bool {
    condition(conditions(object), ConditionType::Stalled).is_some_and(|stalled| stalled.status == "True")
}
