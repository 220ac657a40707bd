//! `equate suspend` and `equate resume`.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, chain, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds, with_article};
use crate::objects::{self, RequestError, names};
use crate::reconcile::{Goal, ReconcileError, check_supported, outcome, wait_until_ready};
use equate_api::meta::Duration;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::json;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(crate) struct Objects {
    /// Kind and name, such as `kustomization apps` or `ks/apps`; with --all, only a kind.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=3)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Select all objects of the kind in the namespace; with -A, in all namespaces.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate suspend [OPTIONS] <KIND> [NAME]",
    after_help = "Examples:
  # Suspend one Kustomization
  equate suspend kustomization apps
  # Suspend all Kustomizations in a namespace
  equate suspend kustomizations --all -n shop"
)]
pub(crate) struct Suspend {
    #[command(flatten)]
    objects: Objects,
}

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate resume [OPTIONS] <KIND> [NAME]",
    after_help = "Examples:
  # Resume one Kustomization and wait until it is ready
  equate resume kustomization apps
  # Resume all Kustomizations in a namespace, without waiting
  equate resume kustomizations --all -n shop --no-wait"
)]
pub(crate) struct Resume {
    #[command(flatten)]
    objects: Objects,
    /// Do not wait until the objects are ready.
    #[arg(long)]
    no_wait: bool,
    /// Maximum time to wait for each object.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SuspendError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("{} cannot be suspended", with_article(.0))]
    NotSuspendable(&'static str),
    #[error("missing the name of the {0}; name one, or use --all")]
    MissingName(&'static str),
    #[error("the name {0} and --all exclude each other")]
    NameAndAll(String),
    #[error("{0} names one object: use --namespace instead of --all-namespaces")]
    NameInAllNamespaces(String),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    #[error("{} of {count} {kind} are not ready:{}", .failures.len(), list(.failures))]
    Several {
        count: usize,
        kind: &'static str,
        failures: Vec<ReconcileError>,
    },
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for SuspendError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Reconcile(error) => error.hint(),
            Self::NotSuspendable(_)
            | Self::Several { .. }
            | Self::MissingName(_)
            | Self::NameAndAll(_)
            | Self::NameInAllNamespaces(_)
            | Self::Output(_) => None,
        }
    }

    fn hint_with_names(&self) -> Option<String> {
        match self {
            Self::Reconcile(error) => error.hint_with_names(),
            Self::Several { failures, .. } => failures.iter().find_map(Failure::hint_with_names),
            _ => self.hint().map(str::to_owned),
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

fn list(failures: &[ReconcileError]) -> String {
    failures
        .iter()
        .map(|failure| format!("\n  {}", chain(failure)))
        .collect()
}

pub(crate) async fn run_suspend(args: Suspend, kinds: &Kinds) -> Result<(), SuspendError> {
    let connection = args.objects.cluster.connect_and_print().await?;
    suspend(&connection.client, kinds, &args, &mut std::io::stdout()).await
}

pub(crate) async fn run_resume(args: Resume, kinds: &Kinds) -> Result<(), SuspendError> {
    let connection = args.objects.cluster.connect_and_print().await?;
    let cluster = (&connection.client, connection.is_up());
    resume(cluster, kinds, &args, &mut std::io::stdout()).await
}

async fn suspend(
    client: &Client,
    kinds: &Kinds,
    args: &Suspend,
    out: &mut impl Write,
) -> Result<(), SuspendError> {
    let (kind, objects) = args.objects.find(client, kinds).await?;
    for object in objects {
        let said = match set(client, &kind, &object, true).await? {
            Some(_) => "suspended",
            None => "is already suspended",
        };
        writeln!(out, "{}/{} {said}", kind.singular(), names(&object).1).map_err(SuspendError::Output)?;
    }
    Ok(())
}

async fn resume(
    (client, in_up): (&Client, bool),
    kinds: &Kinds,
    args: &Resume,
    out: &mut impl Write,
) -> Result<(), SuspendError> {
    let (kind, objects) = args.objects.find(client, kinds).await?;
    let (count, mut resumed, mut failures) = (objects.len(), Vec::new(), Vec::new());
    for object in objects {
        let said = match set(client, &kind, &object, false).await {
            Ok(Some(changed)) => {
                resumed.push(changed);
                "resumed"
            }
            Ok(None) => "was not suspended",
            Err(error) => {
                failures.push(error.into());
                continue;
            }
        };
        writeln!(out, "{}/{} {said}", kind.singular(), names(&object).1).map_err(SuspendError::Output)?;
    }
    if args.no_wait || !kind.reports || check_supported(&kind, in_up).is_err() {
        resumed.clear();
    }
    for object in resumed {
        let (namespace, name) = names(&object);
        let goal = Goal::Generation(object.metadata.generation.unwrap_or_default());
        match wait_until_ready(client, &kind, namespace, name, &goal, args.timeout).await {
            Ok(done) => writeln!(out, "{}", outcome(&kind, &done)).map_err(SuspendError::Output)?,
            // the others may still become ready
            Err(error) => failures.push(error),
        }
    }
    match failures.pop() {
        None => Ok(()),
        Some(error) if count == 1 => Err(error.into()),
        Some(error) => {
            failures.push(error);
            Err(SuspendError::Several {
                count,
                kind: kind.plural,
                failures,
            })
        }
    }
}

impl Objects {
    async fn find(&self, client: &Client, kinds: &Kinds) -> Result<(Kind, Vec<DynamicObject>), SuspendError> {
        let (kind, name) = kinds.parse_one(&self.what)?;
        if !kind.suspends {
            return Err(SuspendError::NotSuspendable(kind.kind));
        }
        let (namespaces, name) = match name {
            None => (self.scope.namespaces(), None),
            Some(name) => {
                let (namespaces, name) = self.scope.split(&name)?;
                (namespaces, Some(name))
            }
        };
        let objects = match (name, self.all) {
            (Some(name), true) => return Err(SuspendError::NameAndAll(name)),
            (None, false) => return Err(SuspendError::MissingName(kind.kind)),
            (None, true) => objects::list(client, &kind, &namespaces, None, None).await?,
            (Some(name), false) => match &namespaces {
                objects::Namespaces::One(namespace) => {
                    vec![objects::get(client, &kind, namespace, &name).await?]
                }
                objects::Namespaces::All => return Err(SuspendError::NameInAllNamespaces(name)),
            },
        };
        Ok((kind, objects))
    }
}

/// Sets `spec.suspend`; returns none if it has this value already.
async fn set(
    client: &Client,
    kind: &Kind,
    object: &DynamicObject,
    suspend: bool,
) -> Result<Option<DynamicObject>, RequestError> {
    if object.data["spec"]["suspend"].as_bool().unwrap_or_default() == suspend {
        return Ok(None);
    }
    let (namespace, name) = names(object);
    let change = json!({ "spec": { "suspend": suspend } });
    objects::patch(client, kind, namespace, name, &change)
        .await
        .map(Some)
}

#[cfg(test)]
mod tests;
