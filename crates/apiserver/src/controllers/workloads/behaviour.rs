//! The declared behaviour of simulated containers: the annotations `equate.dev/simulate` and
//! `equate.dev/simulate-*`.
//!
//! They are set on a pod (by its template), or on a workload that owns it; the nearest object that has one
//! of them counts, and within it the one of a container. Without any, a simple command tells it. A value that
//! has no meaning is reported in an Event and has no effect, so that a misspelt failure is not mistaken for a
//! healthy run.

use super::context::{Context, EventSource};
use super::{Kind, command, controller, owner_key};
use crate::builtin::tree::{annotation, entries, get, items, text};
use crate::controllers::object::meta;
use crate::store::Snapshot;
use equate_manifest::go::duration;
use serde_json::Value;
use tokio::time::Duration;

const SIMULATE: &str = "equate.dev/simulate";
const DETAIL: &str = "equate.dev/simulate-";
const EXIT_CODE: &str = "equate.dev/simulate-exit-code";
const RUNS_FOR: &str = "equate.dev/simulate-runs-for";
const LOG: &str = "equate.dev/simulate-log";
/// `equate.dev/simulate.CONTAINER`.
const OF_CONTAINER: &str = "equate.dev/simulate.";
/// A pod, its Job or ReplicaSet, and their CronJob or Deployment.
const OWNERS_MAX: usize = 3;
/// The exit code of a container that the kernel killed.
pub(super) const KILLED: i64 = 137;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    CrashLoopBackOff,
    CreateContainerConfigError,
    Error,
    ImagePullBackOff,
    NotReady,
    OomKilled,
    Running,
    Unschedulable,
}

const OUTCOMES: [(&str, Outcome); 8] = [
    ("CrashLoopBackOff", Outcome::CrashLoopBackOff),
    ("CreateContainerConfigError", Outcome::CreateContainerConfigError),
    ("Error", Outcome::Error),
    ("ImagePullBackOff", Outcome::ImagePullBackOff),
    ("NotReady", Outcome::NotReady),
    ("OOMKilled", Outcome::OomKilled),
    ("Running", Outcome::Running),
    ("Unschedulable", Outcome::Unschedulable),
];

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i64,
    pub(super) reason: &'static str,
}

impl Exit {
    pub(super) fn with(code: i64) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        Self { code, reason }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Behaviour {
    pub(super) outcome: Option<Outcome>,
    pub(super) exit_code: Option<i64>,
    /// The time from a container's start to its end.
    pub(super) runs_for: Option<Duration>,
}

impl Behaviour {
    /// The declared end of the containers; without one they end as the restart policy says.
    pub(super) fn exit(&self) -> Option<Exit> {
        match self.outcome {
            Some(Outcome::OomKilled) => Some(Exit {
                code: self.exit_code.unwrap_or(KILLED),
                reason: "OOMKilled",
            }),
            Some(Outcome::CrashLoopBackOff | Outcome::Error) => Some(Exit::with(self.exit_code.unwrap_or(1))),
            _ => self.exit_code.map(Exit::with),
        }
    }

    /// The behaviour of one container, the pod's being declared beside it.
    pub(super) fn with(self, own: Own<'_>) -> Self {
        // An init container with code 0 lets the others start: no failure.
        let is_failure = |code: &i64| *code != 0 || !own.is_initial;
        Self {
            outcome: Some(own.outcome),
            exit_code: self.exit_code.filter(is_failure),
            runs_for: self.runs_for,
        }
    }
}

fn outcome(name: &str) -> Option<Outcome> {
    OUTCOMES.iter().find(|(known, _)| *known == name).map(|o| o.1)
}

fn exit_code(text: &str) -> Option<i64> {
    text.parse().ok().filter(|code| (0..=255).contains(code))
}

fn runs_for(text: &str) -> Option<Duration> {
    let nanoseconds = duration::parse(text).ok()?;
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

pub(super) fn is_declaration(annotation: &str) -> bool {
    annotation == SIMULATE
        || [DETAIL, OF_CONTAINER]
            .iter()
            .any(|start| annotation.starts_with(start))
}

/// The pod and its owners, nearest first.
fn chain<'s>(snapshot: &'s Snapshot, pod: &'s Value) -> impl Iterator<Item = &'s Value> {
    let namespace = meta(pod, "namespace");
    std::iter::successors(Some(pod), move |object| {
        let key = owner_key(controller(object)?, namespace)?;
        Kind::of(&key.resource)?;
        snapshot.get(&key).map(|entry| entry.object())
    })
    .take(OWNERS_MAX)
}

/// The nearest of the pod and its owners that declares a behaviour of the containers, or of one.
fn declaring<'s>(snapshot: &'s Snapshot, pod: &'s Value) -> Option<&'s Value> {
    let declares = |name: &str| match name.strip_prefix(OF_CONTAINER) {
        Some(container) => Place::of(get(pod, "spec"), container).is_some(),
        None => [SIMULATE, EXIT_CODE, RUNS_FOR].contains(&name),
    };
    chain(snapshot, pod).find(|object| {
        let mut annotations = entries(object, "metadata.annotations");
        annotations.any(|(name, _)| declares(name))
    })
}

/// The behaviour of a pod's containers: declared, or else that of a command such as `sleep 30`.
pub(super) fn of(snapshot: &Snapshot, pod: &Value) -> Behaviour {
    let Some(object) = declaring(snapshot, pod) else {
        return command::of(pod).unwrap_or_default();
    };
    Behaviour {
        outcome: annotation(object, SIMULATE).and_then(outcome),
        exit_code: annotation(object, EXIT_CODE).and_then(exit_code),
        runs_for: annotation(object, RUNS_FOR).and_then(runs_for),
    }
}

/// A container with a declared outcome of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'s> {
    pub(super) container: &'s str,
    /// Whether others start only after it.
    pub(super) is_initial: bool,
    pub(super) outcome: Outcome,
}

/// The first of a pod's containers with an outcome of its own.
pub(super) fn own<'s>(snapshot: &'s Snapshot, pod: &'s Value) -> Option<Own<'s>> {
    let object = declaring(snapshot, pod)?;
    Place::list(get(pod, "spec")).find_map(|(container, place)| {
        let declared = annotation(object, &format!("{OF_CONTAINER}{container}"))?;
        Some(Own {
            container,
            is_initial: place == Place::Initial,
            outcome: place.outcome(declared)?,
        })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Ends before the others start.
    Initial,
    /// Runs with the others.
    Beside,
}

impl Place {
    /// The containers of a pod's `spec`, in the order of their start.
    fn list(spec: &Value) -> impl Iterator<Item = (&str, Self)> {
        let initial = items(spec, "initContainers").iter().map(|container| {
            let place = match text(container, "restartPolicy") {
                "Always" => Self::Beside,
                _ => Self::Initial,
            };
            (container, place)
        });
        let others = items(spec, "containers").iter();
        initial
            .chain(others.map(|container| (container, Self::Beside)))
            .map(|(container, place)| (text(container, "name"), place))
    }

    fn of(spec: &Value, name: &str) -> Option<Self> {
        let mut list = Self::list(spec);
        list.find_map(|(container, place)| (container == name).then_some(place))
    }

    /// The outcome of that name for one container. Pods are scheduled as a whole, and init containers have
    /// no readiness.
    fn outcome(self, name: &str) -> Option<Outcome> {
        outcome(name).filter(|outcome| match outcome {
            Outcome::Unschedulable => false,
            Outcome::NotReady => self == Self::Beside,
            _ => true,
        })
    }
}

/// The declared log of a container, `None` if none is declared.
pub(crate) fn log<'s>(snapshot: &'s Snapshot, pod: &'s Value, container: &str) -> Option<&'s str> {
    let own = format!("{LOG}.{container}");
    chain(snapshot, pod).find_map(|object| annotation(object, &own).or_else(|| annotation(object, LOG)))
}

/// The declarations of an object and of its pod template, to notice a change.
pub(super) fn declared(object: &Value) -> Vec<(&str, &str)> {
    let template = get(object, "spec.template");
    [object, template]
        .into_iter()
        .flat_map(|object| entries(object, "metadata.annotations"))
        .filter(|(name, _)| is_declaration(name))
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
        .collect()
}

/// The first declaration without a meaning, and the accepted ones.
pub(super) fn unknown(object: &Value) -> Option<String> {
    declared(object).into_iter().find_map(|(name, value)| {
        let one_of = |accepts: &dyn Fn(&str) -> Option<Outcome>| {
            let names = OUTCOMES.iter().filter(|(name, _)| accepts(name).is_some());
            let names: Vec<String> = names.map(|(name, _)| format!("{name:?}")).collect();
            format!("one of {}", names.join(", "))
        };
        if let Some(container) = name.strip_prefix(OF_CONTAINER) {
            let Some(place) = place_in(object, container) else {
                return Some(format!("{name} has no effect: the pods have no such container"));
            };
            let accepts = |value: &str| place.outcome(value);
            return accepts(value).is_none().then(|| {
                let accepted = one_of(&accepts);
                format!("{name}: unknown value {value:?} has no effect; use {accepted}")
            });
        }
        let accepted = match name {
            SIMULATE if outcome(value).is_none() => one_of(&outcome),
            EXIT_CODE if exit_code(value).is_none() => "a number from 0 to 255".to_owned(),
            RUNS_FOR if runs_for(value).is_none() => "a duration such as \"30s\"".to_owned(),
            SIMULATE | EXIT_CODE | RUNS_FOR | LOG => return None,
            _ if name.strip_prefix(LOG).is_some_and(|rest| rest.starts_with('.')) => return None,
            _ => {
                return Some(format!(
                    "unknown annotation {name} has no effect; use {SIMULATE}, {OF_CONTAINER}CONTAINER, {EXIT_CODE}, {RUNS_FOR}, {LOG} or {LOG}.CONTAINER"
                ));
            }
        };
        Some(format!("{name}: unknown value {value:?} has no effect; use {accepted}"))
    })
}

/// The place of a container in a pod, or in the pods of a workload.
fn place_in(object: &Value, name: &str) -> Option<Place> {
    [
        "spec",
        "spec.template.spec",
        "spec.jobTemplate.spec.template.spec",
    ]
    .into_iter()
    .find_map(|spec| Place::of(get(object, spec), name))
}

pub(super) fn report_unknown(cx: &mut Context<'_>, object: &Value) {
    let Some(message) = unknown(object) else {
        return;
    };
    let event_source = EventSource {
        component: "equate-simulation",
        about: object,
    };
    let event = cx.event(event_source, "Warning", "UnknownSimulation", &message);
    cx.step(vec![event]);
}
