//! `equate diff`: what a commit of the worktree as it is would change in the cluster.
//!
//! Renders every Kustomization that reads this repository from the files on disk, with the code that
//! the controllers run, and asks the API server what each object would become. Nothing is written.
//! Values of Secrets are masked.

mod data;
mod kustomization;
mod text;

use crate::build::RenderError;
use crate::connection::{self, ConnectError, Connection};
use crate::controllers::flags::Identity;
use crate::document::{Form, document};
use crate::failure::Failure;
use crate::transit::CertificatesError;
use crate::up::{Repository, RepositoryError};
use equate_api::kustomize::{Kustomization, SourceKind};
use equate_api::source::GitRepository;
use equate_apply::cluster::{Cluster, Preview};
use equate_controllers::kustomization::preview::{Fleet, PreviewError, Settings};
use equate_controllers::{OwnLoop, Policy, TransitSettings};
use equate_git::{LocalRepository, Mirrors, OpenError};
use equate_source::{Ignore, Limits, Tree, TreeError};
use kube::Client;
use kube::api::{Api, ListParams};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// Show what a commit of the worktree as it is would change in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXIT CODES:
  0  nothing would change
  1  something would change
  2  it could not be told, or something would be refused")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A directory in the git repository to render from.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Only this Kustomization. May be repeated.
    #[arg(short, long = "kustomization", value_name = "NAME")]
    kustomizations: Vec<String>,
    /// Only Kustomizations of this namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to print: as text, or the differences as data.
    #[arg(short, long, value_enum, value_name = "FORM", global = true)]
    output: Option<Form>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten, next_help_heading = CONTROLLERS)]
    identity: Identity,
}

/// What the cluster's controllers do is what is to be told.
const CONTROLLERS: &str = "As the cluster's controllers are run with";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what one Kustomization would change: built from a local directory, as `flux diff kustomization` does; without --path from the repository here.
    #[command(visible_alias = "ks")]
    Kustomization(One),
}

/// One Kustomization.
#[derive(Debug, clap::Args)]
struct One {
    #[command(flatten)]
    common: crate::build::kustomization::Args,
    /// The directory that stands in for spec.path of its source; without it the repository here is read, as `equate diff -k NAME` does.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten, next_help_heading = CONTROLLERS)]
    identity: Identity,
}

/// Why it could not be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    /// The Kustomization that was named cannot be had.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// There is no cluster to ask.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The directory is in no repository.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The repository's files cannot be listed.
    #[error("could not list the files of the repository")]
    Files(#[source] OpenError),
    /// The repository's files cannot be read.
    #[error("could not read the files of the repository")]
    Read(#[source] TreeError),
    /// The cluster did not say what it has.
    #[error("could not list {what}")]
    List {
        /// Of which kind.
        what: &'static str,
        /// Why.
        #[source]
        source: kube::Error,
    },
    /// No Kustomization reads this repository.
    #[error("no Kustomization of the cluster reads {url}{}", among(.names))]
    None {
        /// The repository's URL.
        url: String,
        /// The names that were asked for.
        names: Vec<String>,
    },
    /// The environment names certificates that cannot be read.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for DiffError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::None { .. } => Some(
                "a GitRepository's spec.url must be this repository's origin; `equate get sources git -A` lists them",
            ),
            Self::Connect(error) => error.hint(),
            Self::Render(_)
            | Self::Repository(_)
            | Self::Files(_)
            | Self::Read(_)
            | Self::List { .. }
            | Self::Certificates(_)
            | Self::Output(_) => None,
        }
    }

    /// 1 says that there are differences.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

fn among(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" and is called {}", names.join(" or "))
    }
}

/// What is known of one Kustomization.
struct Compared {
    name: String,
    path: String,
    outcome: Result<Preview, PreviewError>,
}

/// Compares, prints, and tells by the exit code.
pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<ExitCode, DiffError> {
    let mut chosen = Chosen {
        directory: &args.directory,
        kustomizations: &args.kustomizations,
        namespace: args.namespace.as_deref(),
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

/// Which Kustomizations of the cluster, rendered from which repository.
struct Chosen<'a> {
    directory: &'a Path,
    kustomizations: &'a [String],
    namespace: Option<&'a str>,
}

impl Chosen<'_> {
    fn compare(
        &self,
        cluster: &connection::Options,
        identity: &Identity,
        runtime: &Runtime,
    ) -> Result<Vec<Compared>, DiffError> {
        runtime.block_on(async {
            let connection = cluster.connect_aloud().await?;
            let judge = Judge::of(&connection, identity)?;
            compare(self, &connection, &judge).await
        })
    }

    fn wants(&self, kustomization: &Kustomization) -> bool {
        let (name, namespace) = (&kustomization.metadata.name, &kustomization.metadata.namespace);
        let named = |name: &String| self.kustomizations.contains(name);
        (self.namespace.is_none() || self.namespace == namespace.as_deref())
            && (self.kustomizations.is_empty() || name.as_ref().is_some_and(named))
    }
}

async fn compare(
    chosen: &Chosen<'_>,
    connection: &Connection,
    judge: &Judge,
) -> Result<Vec<Compared>, DiffError> {
    let given = chosen.directory.to_string_lossy();
    let repository = Repository::choose(&given, None)?;
    let local = LocalRepository::discover(chosen.directory).map_err(DiffError::Files)?;
    let files = local.files().map_err(DiffError::Files)?;
    let client = &connection.client;
    let sources: Api<GitRepository> = Api::all(client.clone());
    let sources = sources.list(&ListParams::default()).await;
    let sources = sources.map_err(|source| DiffError::List {
        what: "GitRepositories",
        source,
    })?;
    // The same comparison of URLs as the controllers make for a directory that stands in for one.
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
    // all of them, whichever are asked for: what one gives up another may take
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
        compared.push(one(&fleet, kustomization).await);
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

/// What the engine that is asked about does, as far as it is said here.
struct Judge {
    up: bool,
    policy: Policy,
    transit: TransitSettings,
}

impl Judge {
    fn of(connection: &Connection, identity: &Identity) -> Result<Judge, DiffError> {
        Ok(Judge {
            up: connection.is_up(),
            policy: identity.policy(equate_api::meta::DEFAULT_NAMESPACE),
            transit: crate::transit::settings()?,
        })
    }

    fn settings(&self, kustomization: &Kustomization) -> Settings {
        // `equate up` has these two liberties, a cluster has not.
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

async fn one(fleet: &Fleet, kustomization: &Kustomization) -> Compared {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, namespace) = (
        text(&kustomization.metadata.name),
        text(&kustomization.metadata.namespace),
    );
    Compared {
        outcome: fleet.preview(kustomization).await,
        name: format!("Kustomization/{namespace}/{name}"),
        path: text(&kustomization.spec.path),
    }
}
