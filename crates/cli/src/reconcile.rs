//! `equate reconcile`: requests a reconciliation and waits for its result.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::{Scope, revision};
use crate::kinds::{Kind, KindError, Kinds, with_article};
use crate::objects::{self, Namespaces, RequestError, condition, names, text};
use crate::status::UNSUPPORTED;
use crate::watch::watch_object;
use equate_api::meta::{Duration, FORCE_AT, REQUESTED_AT, RESET_AT};
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::json;
use std::io::Write;

const NO_ANSWER: &str = "no controller has answered yet";

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate reconcile [OPTIONS] <KIND> <NAME>",
    // one object is reconciled
    mut_arg("all_namespaces", |arg| arg.hide(true)),
    after_help = "Examples:
  # Reconcile a GitRepository
  equate reconcile source git fleet
  # Reconcile a Kustomization and its source
  equate reconcile kustomization apps --with-source
  # Retry a HelmRelease that has no attempts left
  equate reconcile helmrelease redis --reset

Exit codes:
  0  the object is ready
  1  the object is not ready, or an error occurred"
)]
pub(crate) struct Args {
    /// Kind and name, such as `kustomization apps`, `source git fleet` or `ks/apps`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=3)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Reconcile the object's source first.
    #[arg(long)]
    with_source: bool,
    /// Install or upgrade a HelmRelease once, even without a change.
    #[arg(long)]
    force: bool,
    /// Forget the failures of a HelmRelease, so that it has all its attempts again.
    #[arg(long)]
    reset: bool,
    /// Maximum time to wait for each object.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("missing the name of the {0}")]
    MissingName(&'static str),
    #[error("an object is in one namespace: use --namespace instead of --all-namespaces")]
    AllNamespaces,
    #[error("{} has no status, so its reconciliation cannot be observed", with_article(.0))]
    NoStatus(&'static str),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{} is {UNSUPPORTED}", with_article(kind))]
    Unsupported { kind: &'static str },
    #[error("--{flag} is for HelmReleases, not for {}", with_article(kind))]
    OnlyReleases { flag: &'static str, kind: &'static str },
    #[error("{what} is suspended")]
    Suspended { what: String },
    #[error("{what} has no source to reconcile first")]
    NoSource { what: String },
    #[error("{what} is not ready: {reason}: {message}")]
    NotReady {
        what: String,
        reason: String,
        message: String,
    },
    #[error("{what} did not finish within {timeout}: {last}")]
    Timeout {
        what: String,
        timeout: Duration,
        last: String,
    },
    #[error("{what} was deleted while waiting")]
    Deleted { what: String },
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ReconcileError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Suspended { .. } => Some("resume it with `equate resume`"),
            Self::NotReady { .. } => Some("see the cause with `equate explain KIND NAME`"),
            Self::Timeout { .. } => Some("increase --timeout, or see the status with `equate get`"),
            Self::MissingName(_)
            | Self::AllNamespaces
            | Self::NoStatus(_)
            | Self::Unsupported { .. }
            | Self::OnlyReleases { .. }
            | Self::NoSource { .. }
            | Self::Deleted { .. }
            | Self::Output(_) => None,
        }
    }

    fn hint_with_names(&self) -> Option<String> {
        match self {
            Self::Suspended { what } => Some(format!("resume it with `{}`", command("resume", what)?)),
            Self::NotReady { what, .. } => {
                Some(format!("see the cause with `{}`", command("explain", what)?))
            }
            Self::Timeout { what, .. } => Some(format!(
                "increase --timeout, or see the cause with `{}`",
                command("explain", what)?
            )),
            _ => self.hint().map(str::to_owned),
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// The command about an object that [`what`] names: `equate explain kustomization apps -n shop`.
fn command(verb: &str, what: &str) -> Option<String> {
    let (kind, name) = what.split_once(' ')?;
    let (namespace, name) = name.split_once('/')?;
    Some(format!(
        "equate {verb} {} {name} -n {namespace}",
        kind.to_lowercase()
    ))
}

/// Identifies the requested run in a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The run that handles this token.
    Answered(String),
    /// A run of this generation of the spec, or a later one.
    Generation(i64),
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), ReconcileError> {
    let connection = args.cluster.connect_and_print().await?;
    reconcile(
        (&connection.client, connection.is_up()),
        kinds,
        &args,
        &mut std::io::stdout(),
    )
    .await
}

async fn reconcile(
    (client, in_up): (&Client, bool),
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
) -> Result<(), ReconcileError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    let name = name.ok_or(ReconcileError::MissingName(kind.kind))?;
    check_supported(&kind, in_up)?;
    if !kind.reports {
        return Err(ReconcileError::NoStatus(kind.kind));
    }
    let (Namespaces::One(namespace), name) = args.scope.split(&name)? else {
        return Err(ReconcileError::AllNamespaces);
    };
    let more = requests(&kind, args)?;
    let object = objects::get(client, &kind, &namespace, &name).await?;
    if args.with_source {
        let from = source(kinds, &kind, &object)?;
        for (kind, namespace, name) in std::iter::once(from).chain(chart(kinds, &object)) {
            check_supported(&kind, in_up)?;
            reconcile_one(client, &kind, (&namespace, &name), &[], args.timeout, out).await?;
        }
    }
    reconcile_one(client, &kind, (&namespace, &name), more, args.timeout, out).await
}

/// The annotations that the flags add to the request.
fn requests(kind: &Kind, args: &Args) -> Result<&'static [&'static str], ReconcileError> {
    let (flag, more): (_, &[&str]) = match (args.force, args.reset) {
        (false, false) => return Ok(&[]),
        (true, true) => ("force", &[FORCE_AT, RESET_AT]),
        (true, false) => ("force", &[FORCE_AT]),
        (false, true) => ("reset", &[RESET_AT]),
    };
    match kind.kind {
        "HelmRelease" => Ok(more),
        kind => Err(ReconcileError::OnlyReleases { flag, kind }),
    }
}

/// The HelmChart that a HelmRelease made of its source.
fn chart(kinds: &Kinds, object: &DynamicObject) -> Option<(Kind, String, String)> {
    let made = object.data["status"]["helmChart"].as_str()?;
    let (namespace, name) = made.split_once('/')?;
    Some((*kinds.named("HelmChart")?, namespace.to_owned(), name.to_owned()))
}

/// Refuses a kind that nothing reconciles in the cluster of `equate up`.
pub(crate) fn check_supported(kind: &Kind, in_up: bool) -> Result<(), ReconcileError> {
    match in_up && kind.controller.is_none() {
        true => Err(ReconcileError::Unsupported { kind: kind.kind }),
        false => Ok(()),
    }
}

async fn reconcile_one(
    client: &Client,
    kind: &Kind,
    (namespace, name): (&str, &str),
    more: &[&'static str],
    timeout: Duration,
    out: &mut impl Write,
) -> Result<(), ReconcileError> {
    let object = objects::get(client, kind, namespace, name).await?;
    if object.data["spec"]["suspend"] == true {
        return Err(ReconcileError::Suspended {
            what: what(kind, namespace, name),
        });
    }
    if objects::is_static(kind, &object.data["spec"]) {
        let line = format!("{}/{name} is {}", kind.singular(), objects::STATIC);
        return writeln!(out, "{line}").map_err(ReconcileError::Output);
    }
    let token = Timestamp::now().to_string();
    let mut annotations = json!({ REQUESTED_AT: token });
    for name in more {
        annotations[*name] = token.as_str().into();
    }
    let request = json!({ "metadata": { "annotations": annotations } });
    objects::patch(client, kind, namespace, name, &request).await?;
    let done = wait_until_ready(client, kind, namespace, name, &Goal::Answered(token), timeout).await?;
    writeln!(out, "{}", outcome(kind, &done)).map_err(ReconcileError::Output)
}

pub(crate) fn outcome(kind: &Kind, object: &DynamicObject) -> String {
    let message = text(condition(object, "Ready"), "message");
    let detail = if message.is_empty() {
        revision(object)
    } else {
        message.to_owned()
    };
    format!("{}/{} is ready: {detail}", kind.singular(), names(object).1)
}

pub(crate) async fn wait_until_ready(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    goal: &Goal,
    timeout: Duration,
) -> Result<DynamicObject, ReconcileError> {
    let api = objects::api(client, kind, &Namespaces::One(namespace.to_owned()));
    let mut states = watch_object(&api, name).boxed();
    let what = what(kind, namespace, name);
    let mut last = NO_ANSWER.to_owned();
    let wait = async {
        while let Some(state) = states.next().await {
            let object = match state {
                Ok(Some(object)) => object,
                Ok(None) => return Err(ReconcileError::Deleted { what: what.clone() }),
                Err(error) => {
                    last = error.line();
                    continue;
                }
            };
            match run_state(&object, goal) {
                RunState::Ready => return Ok(object),
                RunState::Failed { reason, message } => {
                    let what = what.clone();
                    return Err(ReconcileError::NotReady {
                        what,
                        reason,
                        message,
                    });
                }
                RunState::Waiting(doing) => last = doing,
            }
        }
        Err(ReconcileError::Deleted { what: what.clone() })
    };
    let ended = tokio::time::timeout(timeout.get(), wait).await;
    ended.unwrap_or_else(|_| Err(ReconcileError::Timeout { what, timeout, last }))
}

#[derive(Debug, PartialEq, Eq)]
enum RunState {
    Ready,
    Failed { reason: String, message: String },
    Waiting(String),
}

/// The state of a run. Ignores the results of earlier runs.
fn run_state(object: &DynamicObject, goal: &Goal) -> RunState {
    let ready = condition(object, "Ready");
    let reconciling = condition(object, "Reconciling");
    let generation = object.metadata.generation.unwrap_or_default();
    let judged = ready
        .and_then(|ready| ready["observedGeneration"].as_i64())
        .unwrap_or(-1);
    let (answered, awaited) = match goal {
        Goal::Answered(token) => (
            object.data["status"]["lastHandledReconcileAt"] == token.as_str(),
            generation,
        ),
        Goal::Generation(asked) => (judged >= *asked, *asked),
    };
    if !answered {
        return RunState::Waiting(NO_ANSWER.to_owned());
    }
    let (reason, message) = (text(ready, "reason"), text(ready, "message"));
    let retrying = text(reconciling, "reason") == "ProgressingWithRetry";
    let working = text(reconciling, "status") == "True" && !retrying;
    match text(ready, "status") {
        "True" if judged >= awaited && !working => RunState::Ready,
        // a dependency wakes the objects that wait for it, so the run has not ended
        "False" if !working && reason != "DependencyNotReady" => RunState::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        },
        _ if working => RunState::Waiting(text(reconciling, "message").to_owned()),
        _ => RunState::Waiting(message.to_owned()),
    }
}

pub(crate) fn source(
    kinds: &Kinds,
    kind: &Kind,
    object: &DynamicObject,
) -> Result<(Kind, String, String), ReconcileError> {
    let (own, name) = names(object);
    let spec = &object.data["spec"];
    let candidates = [
        &spec["sourceRef"],
        &spec["chartRef"],
        &spec["chart"]["spec"]["sourceRef"],
    ];
    let found = candidates.into_iter().find_map(|reference| {
        let kind = *kinds.named(reference["kind"].as_str()?)?;
        let namespace = reference["namespace"].as_str().unwrap_or(own);
        Some((kind, namespace.to_owned(), reference["name"].as_str()?.to_owned()))
    });
    found.ok_or_else(|| ReconcileError::NoSource {
        what: what(kind, own, name),
    })
}

fn what(kind: &Kind, namespace: &str, name: &str) -> String {
    format!("{} {namespace}/{name}", kind.kind)
}

#[cfg(test)]
mod tests;
