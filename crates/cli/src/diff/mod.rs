//! `equate diff`: shows the changes that committing the working tree would make in the cluster.
//!
//! Renders every Kustomization that reads this repository from the files on disk, with the controllers' code,
//! and asks the API server for the result of each object. Compares the releases of their HelmReleases with Helm's
//! records, as far as the charts are in this repository. Writes nothing. Masks the values of Secrets.

mod data;
mod kustomization;
mod releases;
mod text;

use crate::build::RenderError;
use crate::connection::{self, ConnectError, Connection};
use crate::controllers::flags::Identity;
use crate::document::{Form, document};
use crate::failure::Failure;
use crate::kinds::{KindError, split_name};
use crate::transit::CertificatesError;
use crate::up::{Repository, RepositoryError};
use equate_api::kustomize::{Kustomization, SourceKind};
use equate_api::source::GitRepository;
use equate_apply::cluster::{Cluster, Preview};
use equate_apply::id::ObjectId;
use equate_controllers::kustomization::preview::{Fleet, PreviewError, Settings};
use equate_controllers::policy::WorkloadIdentityPolicy;
use equate_controllers::{OwnLoop, Policy, TransitSettings};
use equate_git::{LocalRepository, Mirrors, OpenError};
use equate_source::{Ignore, Limits, Tree, TreeError};
use kube::Client;
use kube::api::{Api, ListParams};
use releases::Inside;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Compare the repository in this directory with a cluster
  equate diff --context staging
  # Compare one Kustomization
  equate diff --kustomization apps
  # Print the changes as JSON
  equate diff -o json

Exit codes:
  0  nothing would change
  1  something would change
  2  an error occurred, or Equate or the API server would refuse a change")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directory in the git repository to compare with the cluster; `ks/NAME` means one Kustomization of the repository in this directory.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Compare only this Kustomization (can be repeated).
    #[arg(short, long = "kustomization", value_name = "NAME")]
    kustomizations: Vec<String>,
    /// Compare only Kustomizations in this namespace (default: all namespaces).
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format (default: text).
    #[arg(short, long, value_enum, value_name = "FORMAT", global = true)]
    output: Option<Form>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten, next_help_heading = CONTROLLERS)]
    identity: Identity,
}

/// The names of the kind in `equate diff ks/apps`.
const KUSTOMIZATION_NAMES: [&str; 3] = ["ks", "kustomization", "kustomizations"];

/// The result depends on these options of the cluster's controllers.
const CONTROLLERS: &str = "Options that the controllers of the cluster run with (set the same values)";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the changes that one Kustomization would make in the cluster, like `flux diff kustomization`.
    #[command(visible_alias = "ks")]
    Kustomization(One),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Compare one Kustomization, from the repository in this directory
  equate diff kustomization apps
  # Compare it, built from another directory
  equate diff kustomization apps --path ../fleet/apps/dev

Exit codes:
  0  nothing would change
  1  something would change
  2  an error occurred, or Equate or the API server would refuse a change")]
struct One {
    #[command(flatten)]
    common: crate::build::kustomization::Args,
    /// Local directory to build instead of `spec.path` (default: read this repository, like `equate diff -k NAME`).
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten, next_help_heading = CONTROLLERS)]
    identity: Identity,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error("could not list the files of the repository")]
    Files(#[source] OpenError),
    #[error("could not read the files of the repository")]
    Read(#[source] TreeError),
    #[error("could not list {what}")]
    List {
        what: &'static str,
        #[source]
        source: kube::Error,
    },
    #[error("no Kustomization in the cluster reads {url}{}", among(.names))]
    None { url: String, names: Vec<String> },
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for DiffError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::None { .. } => Some(
                "the spec.url of a GitRepository must be this repository's origin; see `equate get sources git -A`",
            ),
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Render(_)
            | Self::Repository(_)
            | Self::Files(_)
            | Self::Read(_)
            | Self::List { .. }
            | Self::Certificates(_)
            | Self::Output(_) => None,
        }
    }

    /// 1 means that there are differences.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

fn among(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" and is named {}", names.join(" or "))
    }
}

struct Compared {
    name: String,
    path: String,
    outcome: Result<Preview, PreviewError>,
    /// The releases of its HelmReleases.
    releases: Vec<Inside>,
}

/// The namespace and name of `ks/NAME` or `ks/NAMESPACE/NAME` in place of a directory.
fn named_kustomization(args: &Args) -> Result<Option<(Option<&str>, &str)>, KindError> {
    let words = args.directory.to_str().filter(|_| !args.directory.exists());
    let Some((kind, name)) = words.and_then(|words| words.split_once('/')) else {
        return Ok(None);
    };
    match KUSTOMIZATION_NAMES.contains(&kind.to_lowercase().as_str()) {
        true => split_name(name, args.namespace.as_deref()).map(Some),
        false => Ok(None),
    }
}

pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<ExitCode, DiffError> {
    let named = named_kustomization(args)?;
    let mut names = args.kustomizations.clone();
    names.extend(named.map(|(_, name)| name.to_owned()));
    let mut chosen = Selected {
        directory: match named {
            Some(_) => Path::new("."),
            None => &args.directory,
        },
        kustomizations: &names,
        namespace: named
            .and_then(|(namespace, _)| namespace)
            .or(args.namespace.as_deref()),
    };
    let compared = match &args.command {
        None => chosen.compare(&args.cluster, &args.identity, runtime)?,
        Some(Command::Kustomization(One {
            common,
            path: None,
            identity,
        })) => {
            chosen.kustomizations = std::slice::from_ref(&common.name);
            chosen.namespace = Some(&common.namespace);
            chosen.compare(&common.cluster, identity, runtime)?
        }
        Some(Command::Kustomization(One {
            common,
            path: Some(path),
            identity,
        })) => kustomization::compare(common, path, identity, runtime)?,
    };
    let code = compared.iter().map(text::code).max().unwrap_or(0);
    let said = match args.output {
        Some(form) => document(&data::list(&compared), form),
        None => {
            let mut said: String = compared.iter().map(text::describe).collect();
            said.push_str(&text::summary(&compared));
            said
        }
    };
    std::io::stdout()
        .lock()
        .write_all(said.as_bytes())
        .map_err(DiffError::Output)?;
    Ok(ExitCode::from(code))
}

struct Selected<'a> {
    directory: &'a Path,
    kustomizations: &'a [String],
    namespace: Option<&'a str>,
}

impl Selected<'_> {
    fn compare(
        &self,
        cluster: &connection::Options,
        identity: &Identity,
        runtime: &Runtime,
    ) -> Result<Vec<Compared>, DiffError> {
        runtime.block_on(async {
            let connection = cluster.connect_and_print().await?;
            let judge = ControllerSettings::of(&connection, identity)?;
            compare(self, &connection.client, &judge).await
        })
    }

    fn wants(&self, kustomization: &Kustomization) -> bool {
        let (name, namespace) = (&kustomization.metadata.name, &kustomization.metadata.namespace);
        let named = |name: &String| self.kustomizations.contains(name);
        (self.namespace.is_none() || self.namespace == namespace.as_deref())
            && (self.kustomizations.is_empty() || name.as_ref().is_some_and(named))
    }
}

/// The changes that a commit of the working tree in `directory` would make in the cluster of this process's
/// `equate up`: by one Kustomization or all, and to one object or all.
pub(crate) async fn preview_in_up(
    client: &Client,
    directory: &Path,
    owner: Option<&ObjectId>,
    only: Option<&ObjectId>,
) -> Result<String, DiffError> {
    let name: Vec<String> = owner.iter().map(|id| id.name.to_string()).collect();
    let chosen = Selected {
        directory,
        kustomizations: &name,
        namespace: owner.map(|id| &*id.namespace),
    };
    let compared = compare(&chosen, client, &ControllerSettings::in_up()?).await?;
    Ok(match only {
        Some(id) => compared
            .iter()
            .map(|compared| text::describe_one(compared, id))
            .collect(),
        None => {
            let mut said: String = compared.iter().map(text::describe).collect();
            said.push_str(&text::summary(&compared));
            said
        }
    })
}

async fn compare(
    chosen: &Selected<'_>,
    client: &Client,
    judge: &ControllerSettings,
) -> Result<Vec<Compared>, DiffError> {
    let given = chosen.directory.to_string_lossy();
    let repository = Repository::choose(&given, None)?;
    let local = LocalRepository::discover(chosen.directory).map_err(DiffError::Files)?;
    let files = local.files().map_err(DiffError::Files)?;
    let sources: Api<GitRepository> = Api::all(client.clone());
    let sources = sources.list(&ListParams::default()).await;
    let sources = sources.map_err(|source| DiffError::List {
        what: "GitRepositories",
        source,
    })?;
    // the same comparison of URLs as for `--instead-of` in the controllers
    let here =
        Mirrors::new(PathBuf::new(), equate_git::Limits::default()).instead_of(&repository.url, &local.root);
    let mut trees = BTreeMap::new();
    for source in sources
        .items
        .iter()
        .filter(|source| here.substitute(&source.spec.url).is_some())
    {
        let ignore = Ignore::new(source.spec.ignore.as_deref());
        let tree =
            Tree::from_files(&local.root, &files, &ignore, &Limits::default()).map_err(DiffError::Read)?;
        trees.insert(
            (source.metadata.namespace.clone(), source.metadata.name.clone()),
            tree,
        );
    }
    // all of them: one may take over an object that a selected one drops
    let all = all_kustomizations(client).await?;
    let cluster = Cluster::new(client.clone());
    let fleet = Fleet::build(
        &cluster,
        all,
        |kustomization| tree_of(kustomization, &trees),
        |kustomization| judge.settings(kustomization),
    )
    .await;
    let mut compared = Vec::new();
    for kustomization in fleet.kustomizations().filter(|one| chosen.wants(one)) {
        compared.push(one(client, &fleet, kustomization, &trees).await);
    }
    if compared.is_empty() {
        return Err(DiffError::None {
            url: repository.url,
            names: chosen.kustomizations.to_vec(),
        });
    }
    Ok(compared)
}

async fn all_kustomizations(client: &Client) -> Result<Vec<Kustomization>, DiffError> {
    let all: Api<Kustomization> = Api::all(client.clone());
    let all = all.list(&ListParams::default()).await;
    let all = all.map_err(|source| DiffError::List {
        what: "Kustomizations",
        source,
    })?;
    Ok(all.items)
}

type Trees = BTreeMap<(Option<String>, Option<String>), Tree>;

fn tree_of<'a>(kustomization: &Kustomization, trees: &'a Trees) -> Option<&'a Tree> {
    let source = &kustomization.spec.source_ref;
    if source.kind != SourceKind::GitRepository {
        return None;
    }
    let namespace = source
        .namespace
        .clone()
        .or_else(|| kustomization.metadata.namespace.clone());
    trees.get(&(namespace, Some(source.name.clone())))
}

/// Settings of the cluster's controllers, as far as they are known.
struct ControllerSettings {
    up: bool,
    policy: Policy,
    transit: TransitSettings,
}

impl ControllerSettings {
    fn in_up() -> Result<Self, DiffError> {
        Ok(Self {
            up: true,
            policy: Policy {
                workload_identity: WorkloadIdentityPolicy::any(),
                ..Policy::default()
            },
            transit: crate::transit::settings()?,
        })
    }

    fn of(connection: &Connection, identity: &Identity) -> Result<ControllerSettings, DiffError> {
        Ok(ControllerSettings {
            up: connection.is_up(),
            policy: Policy {
                workload_identity: WorkloadIdentityPolicy::any(),
                ..identity.policy(equate_api::meta::DEFAULT_NAMESPACE)
            },
            transit: crate::transit::settings()?,
        })
    }

    fn settings(&self, kustomization: &Kustomization) -> Settings {
        // `equate up` allows these two, other clusters do not
        Settings {
            root: self.up.then(|| OwnLoop {
                name: equate_api::meta::DEFAULT_NAMESPACE.into(),
                namespace: equate_api::meta::DEFAULT_NAMESPACE.into(),
                path: kustomization.spec.path.clone().unwrap_or_default(),
            }),
            default_namespace: self.up.then(|| "default".into()),
            policy: self.policy.clone(),
            transit: self.transit.clone(),
        }
    }
}

async fn one(client: &Client, fleet: &Fleet, kustomization: &Kustomization, trees: &Trees) -> Compared {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, namespace) = (
        text(&kustomization.metadata.name),
        text(&kustomization.metadata.namespace),
    );
    let outcome = fleet.preview(kustomization).await;
    let releases = match &outcome {
        Ok(preview) if preview.plan.guard.is_none() && !kustomization.spec.suspend => {
            Box::pin(releases::compare(
                client,
                &fleet.built(kustomization),
                preview,
                trees,
            ))
            .await
        }
        Ok(_) | Err(_) => Vec::new(),
    };
    Compared {
        outcome,
        releases,
        name: format!("Kustomization/{namespace}/{name}"),
        path: text(&kustomization.spec.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_kustomization_is_named_as_in_other_commands() {
        let check = |line: &str, expected: &str| {
            let words = std::iter::once("diff").chain(line.split_whitespace());
            let args = Line::try_parse_from(words).unwrap().args;
            let named = match named_kustomization(&args) {
                Ok(Some((namespace, name))) => format!("{} {name}", namespace.unwrap_or("-")),
                Ok(None) => "a directory".to_owned(),
                Err(error) => error.to_string(),
            };
            assert_eq!(named, expected, "{line}");
        };
        check("ks/apps", "- apps");
        check("Kustomization/shop/apps", "shop apps");
        check("Kustomization/shop/apps -n shop", "shop apps");
        check(
            "ks/shop/apps -n dev",
            "apps is in namespace shop, and --namespace says dev",
        );
        check("src", "a directory");
        check("fleet/apps", "a directory");
    }
}
