//! `equate explain`: tells who applies an object, from which file, why it is unhealthy and what was changed
//! by hand. For a Kustomization, shows the steps that make it ready, and the step that does not pass; for a
//! HelmRelease, the next action on its release.
//!
//! `steps` reads what a Kustomization waits for, `chain` derives its steps and is pure. `crate::diagnosis`
//! follows any other object down to its containers.

mod applied;
mod chain;
mod explanation;
mod origin;
mod steps;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use applied::labelled_owner;
pub(crate) use explanation::{Explanation, cause, explain};
pub(crate) use text::TerminalSize;

use crate::connection::{self, ConnectError};
use crate::document::{Form, document};
use crate::failure::{Failure, is_broken_pipe};
use crate::kinds::{KindError, Kinds, split_name};
use crate::objects::RequestError;
use crate::served::{self, Served, ServedError};
use crate::table;
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_apply::cluster::ApplyError;
use equate_apply::id::ObjectId;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Width of the text if the terminal reports none, and its limits.
const WIDTH: usize = 80;
const WIDTH_MIN: usize = 40;
const WIDTH_MAX: usize = 120;
/// Objects that are searched for a similar name, and the least likeness.
const LIST_MAX: u32 = 500;
const NEAR: f64 = 0.6;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate explain [OPTIONS] <KIND> <NAME>",
    after_help = "Examples:
  # Explain why a Kustomization is not ready
  equate explain kustomization apps
  # Show the next action on a release, and its reason
  equate explain helmrelease web -n shop
  # Explain why a Deployment is not healthy: its pods, containers and logs
  equate explain deployment web -n shop
  # Print the explanation as JSON
  equate explain pod/web-5d4f-x7 -n shop -o json

Exit codes:
  0  the object is ready or healthy
  1  the object is not ready or not healthy
  2  an error occurred"
)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
    /// Output format (default: text).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
}

/// One object of any kind.
#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Kind and name of any object, such as `ks apps`, `deploy/web`, `deployment.apps/web` or `Deployment/shop/web`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=3)]
    what: Vec<String>,
    #[command(flatten)]
    pub(crate) cluster: connection::Options,
    /// Namespace of the object (default: `flux-system` for Flux objects; otherwise that of the context, or `default`).
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Refused: it is one object.
    #[arg(short = 'A', long, hide = true)]
    all_namespaces: bool,
}

/// The object that arguments name.
#[derive(Debug)]
pub(crate) struct Target {
    resource: ApiResource,
    pub(crate) id: ObjectId,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Served(#[from] ServedError),
    #[error("missing the name of the {0}")]
    MissingName(String),
    #[error("one object is explained: use --namespace instead of --all-namespaces")]
    AllNamespaces,
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not read {id}")]
    Read {
        id: ObjectId,
        #[source]
        source: Box<ApplyError>,
    },
    #[error("{} {} not found{}", .id.kind, .id.name, in_namespace(.id))]
    NotFound { id: ObjectId },
    #[error("{} {} not found{}; it exists in {}", .id.kind, .id.name, in_namespace(.id), .others.join(", "))]
    Elsewhere { id: ObjectId, others: Vec<String> },
    #[error("{} {} not found{}; there is {near}", .id.kind, .id.name, in_namespace(.id))]
    Misspelt { id: ObjectId, near: String },
    #[error("could not decode {object} as a {kind}")]
    Unreadable {
        object: String,
        kind: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not determine the working directory")]
    Directory(#[source] std::io::Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

fn in_namespace(id: &ObjectId) -> String {
    match &*id.namespace {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    }
}

impl Failure for ExplainError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Served(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NotFound { .. } => Some("select the cluster with --context, and the namespace with -n"),
            Self::Elsewhere { .. }
            | Self::Misspelt { .. }
            | Self::MissingName(_)
            | Self::AllNamespaces
            | Self::Read { .. }
            | Self::Unreadable { .. }
            | Self::Directory(_)
            | Self::Output(_) => None,
        }
    }

    fn hint_with_names(&self) -> Option<String> {
        match self {
            Self::Elsewhere { id, others } => {
                let other = others.first()?;
                let kind = id.kind.to_lowercase();
                Some(format!("run `equate explain {kind} {} -n {other}`", id.name))
            }
            Self::Misspelt { id, near } => {
                let kind = id.kind.to_lowercase();
                let namespace = match &*id.namespace {
                    "" => String::new(),
                    namespace => format!(" -n {namespace}"),
                };
                Some(format!("run `equate explain {kind} {near}{namespace}`"))
            }
            _ => self.hint().map(str::to_owned),
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }

    /// 1 means not ready.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<ExitCode, ExplainError> {
    let connection = args.named.cluster.connect_and_print().await?;
    let size = TerminalSize {
        width: console::Term::stdout()
            .size_checked()
            .map_or(WIDTH, |(_, width)| usize::from(width).clamp(WIDTH_MIN, WIDTH_MAX)),
        colour: table::colour(),
    };
    let directory = std::env::current_dir().map_err(ExplainError::Directory)?;
    let kinds = kinds.in_up(connection.is_up());
    let explanation = explain_named(&connection.client, &kinds, &args, &directory).await?;
    let text = match args.output {
        None => explanation.text(Timestamp::now(), size),
        Some(form) => document(&explanation.data(), form),
    };
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(ExplainError::Output)?;
    Ok(match explanation.is_healthy() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn explain_named(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    directory: &Path,
) -> Result<Explanation, ExplainError> {
    let Target { resource, id } = args.named.find(client, kinds).await?;
    match explain(client, kinds, &id, directory).await {
        Err(ExplainError::NotFound { id }) => Err(elsewhere(client, &resource, id).await),
        explained => explained,
    }
}

impl Named {
    /// Flux's names for its kinds come before the cluster's.
    pub(crate) async fn find(&self, client: &Client, kinds: &Kinds) -> Result<Target, ExplainError> {
        if self.all_namespaces {
            return Err(ExplainError::AllNamespaces);
        }
        match kinds.parse_one(&self.what) {
            Ok((kind, name)) => {
                let name = name.ok_or_else(|| ExplainError::MissingName(kind.kind.to_owned()))?;
                let given = self.namespace.as_deref();
                let (own, name) = split_name(&name, given)?;
                let namespace = own.or(given).unwrap_or(DEFAULT_NAMESPACE);
                Ok(Target {
                    resource: kind.resource(),
                    id: ObjectId::new(kind.group, kind.kind, namespace, name),
                })
            }
            Err(KindError::Unknown(_)) => self.find_served(client).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn find_served(&self, client: &Client) -> Result<Target, ExplainError> {
        let mut words = self.what.iter().flat_map(|word| word.splitn(2, '/'));
        let word = words.next().unwrap_or_default();
        let Served {
            resource, namespaced, ..
        } = served::find(client, word).await?;
        let name = words
            .next()
            .ok_or_else(|| ExplainError::MissingName(resource.kind.clone()))?;
        if let Some(extra) = words.next() {
            return Err(KindError::TooMany(extra.to_owned()).into());
        }
        let given = self.namespace.as_deref();
        let (own, name) = split_name(name, given)?;
        let namespace = match (namespaced, own.or(given)) {
            (false, _) if own.is_some() => return Err(KindError::TooMany(name.to_owned()).into()),
            (false, _) => String::new(),
            (true, Some(namespace)) => namespace.to_owned(),
            (true, None) => self.cluster.namespace().unwrap_or_else(|| "default".to_owned()),
        };
        let id = ObjectId::new(&resource.group, &resource.kind, &namespace, name);
        Ok(Target { resource, id })
    }
}

/// The error for a missing object: names the namespaces that have one of this name, or a similar name.
async fn elsewhere(client: &Client, resource: &ApiResource, id: ObjectId) -> ExplainError {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let named = ListParams::default().fields(&format!("metadata.name={}", id.name));
    // without the right to list them, the object is just not found
    let found = api.list(&named).await.map(|list| list.items).unwrap_or_default();
    let others: Vec<String> = found
        .into_iter()
        .filter_map(|object| object.metadata.namespace)
        .collect();
    if !others.is_empty() {
        return ExplainError::Elsewhere { id, others };
    }
    let all = api.list(&ListParams::default().limit(LIST_MAX)).await;
    let all = all.map(|list| list.items).unwrap_or_default();
    let here = all
        .into_iter()
        .filter(|object| object.metadata.namespace.as_deref().unwrap_or_default() == &*id.namespace);
    let names = here.filter_map(|object| object.metadata.name);
    let near = names.map(|name| (strsim::normalized_damerau_levenshtein(&id.name, &name), name));
    let near = near.filter(|(likeness, _)| *likeness >= NEAR);
    match near.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((_, near)) => ExplainError::Misspelt { id, near },
        None => ExplainError::NotFound { id },
    }
}
