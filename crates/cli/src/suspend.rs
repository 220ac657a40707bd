//! `equate suspend` and `equate resume`: an object rests, and works again.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds};
use crate::objects::{self, RequestError, names};
use crate::reconcile::{Goal, ReconcileError, outcome, settle};
use equate_api::meta::Duration;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::json;
use std::io::Write;

/// Which objects.
#[derive(Debug, clap::Args)]
pub(crate) struct Objects {
    /// The objects: a kind and a name, such as `kustomization apps` or `ks/apps`; or a kind with --all.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=3)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// All objects of the kind in the namespace.
    #[arg(long)]
    all: bool,
}

/// Let an object rest: it is left as it is until it is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    objects: Objects,
}

/// Let an object work again, and wait until it is ready.
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    objects: Objects,
    /// Do not wait.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for each.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
}

/// Why an object does not rest, or does not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuspendError {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What was named is no kind.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// The kind has no such field.
    #[error("a {0} cannot be suspended")]
    Never(&'static str),
    /// Neither a name nor all.
    #[error("which {0}? say its name, or --all")]
    Unnamed(&'static str),
    /// A name and all.
    #[error("{0} is one object's name, and --all means every one")]
    NameAndAll(String),
    /// A name in all namespaces.
    #[error("{0} is one object's name: say its namespace, not --all-namespaces")]
    NameEverywhere(String),
    /// The cluster did not do it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It did not become ready.
    #[error(transparent)]
    Reconcile(#[from] ReconcileError),
    /// Standard output could not be written.
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
            Self::Never(_)
            | Self::Unnamed(_)
            | Self::NameAndAll(_)
            | Self::NameEverywhere(_)
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run_suspend(args: Suspend, kinds: &Kinds) -> Result<(), SuspendError> {
    let connection = args.objects.cluster.connect_aloud().await?;
    suspend(&connection.client, kinds, &args, &mut std::io::stdout()).await
}

pub(crate) async fn run_resume(args: Resume, kinds: &Kinds) -> Result<(), SuspendError> {
    let connection = args.objects.cluster.connect_aloud().await?;
    resume(&connection.client, kinds, &args, &mut std::io::stdout()).await
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
            None => "was suspended already",
        };
        writeln!(out, "{}/{} {said}", kind.singular(), names(&object).1).map_err(SuspendError::Output)?;
    }
    Ok(())
}

async fn resume(
    client: &Client,
    kinds: &Kinds,
    args: &Resume,
    out: &mut impl Write,
) -> Result<(), SuspendError> {
    let (kind, objects) = args.objects.find(client, kinds).await?;
    let mut resumed = Vec::new();
    for object in objects {
        let said = match set(client, &kind, &object, false).await? {
            Some(changed) => {
                resumed.push(changed);
                "resumed"
            }
            None => "was not suspended",
        };
        writeln!(out, "{}/{} {said}", kind.singular(), names(&object).1).map_err(SuspendError::Output)?;
    }
    if args.no_wait || !kind.reports {
        return Ok(());
    }
    for object in resumed {
        let (namespace, name) = names(&object);
        let goal = Goal::Generation(object.metadata.generation.unwrap_or_default());
        let done = settle(client, &kind, namespace, name, &goal, args.timeout).await?;
        writeln!(out, "{}", outcome(&kind, &done)).map_err(SuspendError::Output)?;
    }
    Ok(())
}

impl Objects {
    async fn find(&self, client: &Client, kinds: &Kinds) -> Result<(Kind, Vec<DynamicObject>), SuspendError> {
        let (kind, name) = kinds.parse_one(&self.what)?;
        if !kind.suspends {
            return Err(SuspendError::Never(kind.kind));
        }
        let namespaces = self.scope.namespaces();
        let objects = match (name, self.all) {
            (Some(name), true) => return Err(SuspendError::NameAndAll(name)),
            (None, false) => return Err(SuspendError::Unnamed(kind.kind)),
            (None, true) => objects::list(client, &kind, &namespaces, None, None).await?,
            (Some(name), false) => match &namespaces {
                objects::Namespaces::One(namespace) => {
                    vec![objects::get(client, &kind, namespace, &name).await?]
                }
                objects::Namespaces::All => return Err(SuspendError::NameEverywhere(name)),
            },
        };
        Ok((kind, objects))
    }
}

/// Sets the field; nothing when it is so already.
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
