//! `equate debug`: prints the status or the history of an object, the values of a HelmRelease or the variables
//! of a Kustomization.
//!
//! The values and the variables are composed by the controllers' code. They include those of Secrets: nothing is
//! masked here, as in `flux debug`.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::kinds::Kinds;
use crate::objects::{self, RequestError};
use equate_api::helm::HelmRelease;
use equate_api::kustomize::Kustomization;
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_controllers::helm_release::values::{self, ValuesError};
use equate_controllers::kustomization::inputs::substitute_from;
use equate_manifest::yaml;
use kube::Client;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

const HELM_RELEASE: &str = "HelmRelease";
const KUSTOMIZATION: &str = "Kustomization";
/// Flux's documentation of the fields.
const DOCUMENTATION: &str = "https://fluxcd.io/flux/components";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Print the values of a release, with those of ConfigMaps and Secrets
  equate debug helmrelease web -n shop --show-values > values.yaml
  # Print the variables of a Kustomization as NAME=VALUE
  equate debug kustomization apps --show-vars > vars.env")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the status, values or history of a HelmRelease; the values include those of Secrets.
    #[command(name = "helmrelease", visible_alias = "hr")]
    HelmRelease(HelmReleaseArgs),
    /// Print the status, variables or history of a Kustomization; the variables include those of Secrets.
    #[command(name = "kustomization", visible_alias = "ks")]
    Kustomization(KustomizationArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Print the status
  equate debug helmrelease web -n shop --show-status
  # Print the values that the chart gets, with those of ConfigMaps and Secrets
  equate debug helmrelease web -n shop --show-values > values.yaml
  # Print the revisions that the status knows
  equate debug helmrelease web -n shop --show-history")]
struct HelmReleaseArgs {
    #[command(flatten)]
    object: ObjectArgs,
    #[command(flatten)]
    show: ShowRelease,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ShowRelease {
    /// Print the status.
    #[arg(long)]
    show_status: bool,
    /// Print the merged `spec.valuesFrom` and `spec.values`, with the values of Secrets in plain text.
    #[arg(long)]
    show_values: bool,
    /// Print the history of the status.
    #[arg(long)]
    show_history: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Print the status
  equate debug kustomization apps --show-status
  # Print the variables that the build substitutes, with those of ConfigMaps and Secrets
  equate debug kustomization apps --show-vars > vars.env
  # Print the history of revisions
  equate debug kustomization apps --show-history")]
struct KustomizationArgs {
    #[command(flatten)]
    object: ObjectArgs,
    #[command(flatten)]
    show: ShowKustomization,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ShowKustomization {
    /// Print the status.
    #[arg(long)]
    show_status: bool,
    /// Print the variables of `spec.postBuild` as NAME=VALUE, with the values of Secrets in plain text.
    #[arg(long)]
    show_vars: bool,
    /// Print the history of the status.
    #[arg(long)]
    show_history: bool,
}

#[derive(Debug, clap::Args)]
struct ObjectArgs {
    /// Name of the object.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    cluster: connection::Options,
    /// Namespace of the object.
    #[arg(short, long, default_value = DEFAULT_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DebugError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not decode {kind} {name}")]
    Decode {
        kind: &'static str,
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("could not compose the values of HelmRelease {name}")]
    Values {
        name: String,
        #[source]
        source: Box<ValuesError>,
    },
    #[error("Kustomization {0} has no spec.postBuild: no variables are substituted")]
    NoPostBuild(String),
    #[error("could not read the variables of Kustomization {name}")]
    Variables {
        name: String,
        #[source]
        source: substitute_from::ValuesError,
    },
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for DebugError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Decode { .. }
            | Self::Values { .. }
            | Self::NoPostBuild(_)
            | Self::Variables { .. }
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), DebugError> {
    let connection = args.object().cluster.connect_and_print().await?;
    let text = debug(&connection.client, kinds, &args).await?;
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(DebugError::Output)
}

impl Args {
    fn object(&self) -> &ObjectArgs {
        match &self.command {
            Command::HelmRelease(args) => &args.object,
            Command::Kustomization(args) => &args.object,
        }
    }
}

pub(super) async fn debug(client: &Client, kinds: &Kinds, args: &Args) -> Result<String, DebugError> {
    match &args.command {
        Command::HelmRelease(args) => release(client, kinds, args).await,
        Command::Kustomization(args) => kustomization(client, kinds, args).await,
    }
}

async fn release(client: &Client, kinds: &Kinds, args: &HelmReleaseArgs) -> Result<String, DebugError> {
    let mut object = args.object.get(client, kinds, HELM_RELEASE).await?;
    let ShowRelease {
        show_status,
        show_values,
        show_history: _,
    } = args.show;
    if show_values {
        let release: HelmRelease = typed(object, HELM_RELEASE, &args.object)?;
        return values(client, &release, &args.object).await;
    }
    // Go's encoder writes this pointer also where it is nil
    let snapshots = object.data.pointer_mut("/status/history");
    for snapshot in snapshots.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(snapshot) = snapshot.as_object_mut() {
            snapshot.entry("deleted").or_insert(Value::Null);
        }
    }
    Ok(match show_status {
        true => status(&object, "helm/helmreleases/#helmrelease-status"),
        false => history(&object, "helm/helmreleases/#history"),
    })
}

async fn kustomization(
    client: &Client,
    kinds: &Kinds,
    args: &KustomizationArgs,
) -> Result<String, DebugError> {
    let object = args.object.get(client, kinds, KUSTOMIZATION).await?;
    let ShowKustomization {
        show_status,
        show_vars,
        show_history: _,
    } = args.show;
    if show_vars {
        let kustomization: Kustomization = typed(object, KUSTOMIZATION, &args.object)?;
        return variables(client, &kustomization, &args.object).await;
    }
    Ok(match show_status {
        true => status(&object, "kustomize/kustomizations/#kustomization-status"),
        false => history(&object, "kustomize/kustomizations/#history"),
    })
}

impl ObjectArgs {
    async fn get(
        &self,
        client: &Client,
        kinds: &Kinds,
        kind: &'static str,
    ) -> Result<DynamicObject, DebugError> {
        let kind = kinds.named(kind).ok_or(RequestError::NotServed(kind))?;
        Ok(objects::get(client, kind, &self.namespace, &self.name).await?)
    }

    fn called(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn typed<K: DeserializeOwned>(
    object: DynamicObject,
    kind: &'static str,
    named: &ObjectArgs,
) -> Result<K, DebugError> {
    let value = serde_json::to_value(object);
    let typed = value.and_then(serde_json::from_value);
    typed.map_err(|source| DebugError::Decode {
        kind,
        name: named.called(),
        source,
    })
}

fn status(object: &DynamicObject, page: &str) -> String {
    let none = json!({});
    let status = object.data.get("status").unwrap_or(&none);
    format!(
        "# Status documentation: {DOCUMENTATION}/{page}\n{}",
        yaml::to_string(status)
    )
}

fn history(object: &DynamicObject, page: &str) -> String {
    let none = json!([]);
    let history = object.data.pointer("/status/history").unwrap_or(&none);
    format!(
        "# History documentation: {DOCUMENTATION}/{page}\n{}",
        yaml::to_string(history)
    )
}

async fn values(client: &Client, release: &HelmRelease, named: &ObjectArgs) -> Result<String, DebugError> {
    let spec = &release.spec;
    let composed = values::compose(client, &named.namespace, spec.values.as_ref(), &spec.values_from).await;
    let composed = composed.map_err(|source| DebugError::Values {
        name: named.called(),
        source: Box::new(source),
    })?;
    Ok(yaml::to_string(&Value::Object(composed.values().clone())))
}

async fn variables(
    client: &Client,
    kustomization: &Kustomization,
    named: &ObjectArgs,
) -> Result<String, DebugError> {
    let Some(post) = &kustomization.spec.post_build else {
        return Err(DebugError::NoPostBuild(named.called()));
    };
    let read = substitute_from::read(client, &named.namespace, &post.substitute_from, None, None).await;
    let read = read.map_err(|source| DebugError::Variables {
        name: named.called(),
        source,
    })?;
    let inline = post.substitute.iter();
    // a value of several lines is substituted as one
    let inline: BTreeMap<String, String> = inline
        .map(|(name, value)| (name.clone(), value.replace('\n', "")))
        .collect();
    let all = read.under(&inline).into_iter();
    Ok(all.map(|(name, value)| format!("{name}={value}\n")).collect())
}
