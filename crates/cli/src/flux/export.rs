//! `equate export`: prints objects as they would be declared in git.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{KindError, Kinds};
use crate::objects::{self, Namespaces, RequestError};
use equate_manifest::yaml;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Metadata that a tool adds to live objects.
const NOT_DECLARED: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    equate_api::meta::REQUESTED_AT,
];
/// Labels that their owner adds.
const OWNER_LABELS: [&str; 2] = ["kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"];

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate export [OPTIONS] <KIND> [NAME]",
    after_help = "Examples:
  # Print a Kustomization as it would be in git
  equate export kustomization apps
  # Print all GitRepositories in a namespace
  equate export source git --all -n shop"
)]
pub(crate) struct Args {
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

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("missing the name of the {0}; name one, or use --all")]
    MissingName(&'static str),
    #[error("the name {0} and --all exclude each other")]
    NameAndAll(String),
    #[error("{0} names one object: use --namespace instead of --all-namespaces")]
    NameInAllNamespaces(String),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ExportError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::MissingName(_) | Self::NameAndAll(_) | Self::NameInAllNamespaces(_) | Self::Output(_) => {
                None
            }
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), ExportError> {
    let connection = args.cluster.connect_and_print().await?;
    let text = export(&connection.client, kinds, &args).await?;
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(ExportError::Output)
}

pub(super) async fn export(client: &Client, kinds: &Kinds, args: &Args) -> Result<String, ExportError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    let (namespaces, name) = match name {
        None => (args.scope.namespaces(), None),
        Some(name) => {
            let (namespaces, name) = args.scope.split(&name)?;
            (namespaces, Some(name))
        }
    };
    let found = match (name, args.all, &namespaces) {
        (Some(name), true, _) => return Err(ExportError::NameAndAll(name)),
        (None, false, _) => return Err(ExportError::MissingName(kind.kind)),
        (Some(name), false, Namespaces::All) => return Err(ExportError::NameInAllNamespaces(name)),
        (Some(name), false, Namespaces::One(namespace)) => {
            vec![objects::get(client, &kind, namespace, &name).await?]
        }
        (None, true, _) => objects::list(client, &kind, &namespaces, None, None).await?,
    };
    if found.is_empty() {
        eprintln!("no {} {namespaces}", kind.plural);
    }
    let resource = kind.resource();
    let documents = found.iter().map(|object| {
        let declared = declared(object, &resource.api_version, &resource.kind);
        format!("---\n{}", yaml::to_string(&declared))
    });
    Ok(documents.collect())
}

fn declared(object: &DynamicObject, api_version: &str, kind: &str) -> Value {
    let meta = &object.metadata;
    let mut metadata = Map::new();
    let kept = |all: Option<&std::collections::BTreeMap<String, String>>| {
        let all = all.into_iter().flatten();
        let kept = all.filter(|(name, _)| {
            !NOT_DECLARED.contains(&name.as_str())
                && !OWNER_LABELS.iter().any(|owner| name.starts_with(owner))
        });
        let kept: Map<String, Value> = kept
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        kept
    };
    let (annotations, labels) = (kept(meta.annotations.as_ref()), kept(meta.labels.as_ref()));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), labels.into());
    }
    metadata.insert("name".to_owned(), meta.name.clone().into());
    metadata.insert("namespace".to_owned(), meta.namespace.clone().into());
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": object.data["spec"] })
}
