//! `equate reconcile`: a run now, and what came of it.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::{Scope, revision};
use crate::kinds::{Kind, KindError, Kinds};
use crate::objects::{self, Namespaces, RequestError, condition, names, text};
use equate_api::meta::{Duration, REQUESTED_AT};
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use serde_json::json;
use std::io::Write;

const UNANSWERED: &str = "no controller has answered yet";

/// Run an object now, and wait for what comes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The object: its kind and its name, such as `kustomization apps`, `source git fleet` or `ks/apps`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=3)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Run the object's source first.
    #[arg(long)]
    with_source: bool,
    /// How long to wait.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
}

/// Why an object is not as it should be after its run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What was named is no kind.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// No name.
    #[error("which {0}? say its name")]
    Unnamed(&'static str),
    /// All namespaces.
    #[error("one object lives in one namespace: say which, not --all-namespaces")]
    Everywhere,
    /// Nobody answers.
    #[error("a {0} has no status: nothing would tell that it was run")]
    Mute(&'static str),
    /// The cluster did not do it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It rests.
    #[error("{what} is suspended")]
    Suspended {
        /// The object.
        what: String,
    },
    /// It names no source.
    #[error("{what} names no source that could be run first")]
    NoSource {
        /// The object.
        what: String,
    },
    /// The run failed.
    #[error("{what} is not ready: {reason}: {message}")]
    NotReady {
        /// The object.
        what: String,
        /// The reason of its condition.
        reason: String,
        /// The message of its condition.
        message: String,
    },
    /// The run did not end in time.
    #[error("{what} was not done after {timeout}: {last}")]
    Timeout {
        /// The object.
        what: String,
        /// How long it was waited for.
        timeout: Duration,
        /// What was seen last.
        last: String,
    },
    /// It went away meanwhile.
    #[error("{what} was deleted meanwhile")]
    Deleted {
        /// The object.
        what: String,
    },
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ReconcileError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Suspended { .. } => Some("`equate resume` lets it work again"),
            Self::NotReady { .. } => Some("`equate events --for KIND/NAME` says more"),
            Self::Timeout { .. } => Some("--timeout waits longer; `equate get` shows how it stands"),
            Self::Unnamed(_)
            | Self::Everywhere
            | Self::Mute(_)
            | Self::NoSource { .. }
            | Self::Deleted { .. }
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// What tells that a run is the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It answers this token.
    Answered(String),
    /// It is of this generation of the spec, or a later one.
    Generation(i64),
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), ReconcileError> {
    let connection = args.cluster.connect_aloud().await?;
    reconcile(&connection.client, kinds, &args, &mut std::io::stdout()).await
}

async fn reconcile(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
) -> Result<(), ReconcileError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    let name = name.ok_or(ReconcileError::Unnamed(kind.kind))?;
    if !kind.reports {
        return Err(ReconcileError::Mute(kind.kind));
    }
    let Namespaces::One(namespace) = args.scope.namespaces() else {
        return Err(ReconcileError::Everywhere);
    };
    let object = objects::get(client, &kind, &namespace, &name).await?;
    if args.with_source {
        let (kind, namespace, name) = source(kinds, &kind, &object)?;
        once(client, &kind, &namespace, &name, args.timeout, out).await?;
    }
    once(client, &kind, &namespace, &name, args.timeout, out).await
}

/// Runs one object and says what came of it.
async fn once(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    timeout: Duration,
    out: &mut impl Write,
) -> Result<(), ReconcileError> {
    let object = objects::get(client, kind, namespace, name).await?;
    if object.data["spec"]["suspend"] == true {
        return Err(ReconcileError::Suspended {
            what: what(kind, namespace, name),
        });
    }
    let token = Timestamp::now().to_string();
    let request = json!({ "metadata": { "annotations": { REQUESTED_AT: token } } });
    objects::patch(client, kind, namespace, name, &request).await?;
    let done = settle(client, kind, namespace, name, &Goal::Answered(token), timeout).await?;
    writeln!(out, "{}", outcome(kind, &done)).map_err(ReconcileError::Output)
}

/// What came of a run, in one line.
pub(crate) fn outcome(kind: &Kind, object: &DynamicObject) -> String {
    let message = text(condition(object, "Ready"), "message");
    let detail = if message.is_empty() {
        revision(object)
    } else {
        message.to_owned()
    };
    format!("{}/{} is ready: {detail}", kind.singular(), names(object).1)
}

/// Waits until a run has ended well.
pub(crate) async fn settle(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    name: &str,
    goal: &Goal,
    timeout: Duration,
) -> Result<DynamicObject, ReconcileError> {
    let api = objects::api(client, kind, &Namespaces::One(namespace.to_owned()));
    let mut states = watch_object(api, name).default_backoff().boxed();
    let what = what(kind, namespace, name);
    let mut last = UNANSWERED.to_owned();
    let wait = async {
        while let Some(state) = states.next().await {
            let object = match state {
                Ok(Some(object)) => object,
                Ok(None) => return Err(ReconcileError::Deleted { what: what.clone() }),
                Err(error) => {
                    last = error.to_string();
                    continue;
                }
            };
            match verdict(&object, goal) {
                Verdict::Ready => return Ok(object),
                Verdict::Failed { reason, message } => {
                    let what = what.clone();
                    return Err(ReconcileError::NotReady {
                        what,
                        reason,
                        message,
                    });
                }
                Verdict::Waiting(doing) => last = doing,
            }
        }
        Err(ReconcileError::Deleted { what: what.clone() })
    };
    let ended = tokio::time::timeout(timeout.get(), wait).await;
    ended.unwrap_or_else(|_| Err(ReconcileError::Timeout { what, timeout, last }))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Ready,
    Failed { reason: String, message: String },
    Waiting(String),
}

/// Where a run stands. What came before the run does not count: an old failure is none.
fn verdict(object: &DynamicObject, goal: &Goal) -> Verdict {
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
        return Verdict::Waiting(UNANSWERED.to_owned());
    }
    let (reason, message) = (text(ready, "reason"), text(ready, "message"));
    let retrying = text(reconciling, "reason") == "ProgressingWithRetry";
    let working = text(reconciling, "status") == "True" && !retrying;
    match text(ready, "status") {
        "True" if judged >= awaited && !working => Verdict::Ready,
        // A dependency wakes what waits for it: that is no end.
        "False" if !working && reason != "DependencyNotReady" => Verdict::Failed {
            reason: reason.to_owned(),
            message: message.to_owned(),
        },
        _ if working => Verdict::Waiting(text(reconciling, "message").to_owned()),
        _ => Verdict::Waiting(message.to_owned()),
    }
}

/// The source an object names.
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
