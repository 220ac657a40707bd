//! `equate diff`: what a commit of the worktree as it is would change in the cluster.
//!
//! Renders every Kustomization that reads this repository from the files on disk, with the code that
//! the controllers run, and asks the API server what each object would become. Nothing is written.
//! Values of Secrets are masked.

mod kustomization;
mod text;

use crate::build::RenderError;
use crate::connection::{self, ConnectError, Connection};
use crate::up::{Repository, RepositoryError};
use equate_api::kustomize::{Kustomization, SourceKind};
use equate_api::source::GitRepository;
use equate_apply::cluster::{Cluster, Preview};
use equate_controllers::OwnLoop;
use equate_controllers::kustomization::preview::{Fleet, PreviewError, Settings};
use equate_git::{LocalRepository, Mirrors, OpenError};
use equate_source::{Ignore, Limits, Tree, TreeError};
use kube::Client;
use kube::api::{Api, ListParams};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::runtime::Runtime;

/// Show what a commit of the worktree as it is would change in the cluster.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "EXIT CODES:
  0  nothing would change
  1  something would change
  2  it could not be told, or something would be refused"
)]
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
    #[command(flatten)]
    cluster: connection::Options,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show what a Kustomization would change, built from a local directory, as `flux diff kustomization` does.
    #[command(visible_alias = "ks")]
    Kustomization(crate::build::kustomization::Args),
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
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
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
    let compared = match &args.command {
        Some(Command::Kustomization(args)) => kustomization::compare(args, runtime)?,
        None => runtime.block_on(async {
            let connection = args.cluster.connect_aloud().await?;
            compare(args, &connection).await
        })?,
    };
    let mut out = std::io::stdout().lock();
    let mut code = 0;
    for one in &compared {
        code = code.max(text::code(one));
        out.write_all(text::describe(one).as_bytes())
            .map_err(DiffError::Output)?;
    }
    out.write_all(text::summary(&compared).as_bytes())
        .map_err(DiffError::Output)?;
    Ok(ExitCode::from(code))
}

async fn compare(args: &Args, connection: &Connection) -> Result<Vec<Compared>, DiffError> {
    let given = args.directory.to_string_lossy();
    let repository = Repository::choose(&given, None)?;
    let local = LocalRepository::discover(&args.directory).map_err(DiffError::Files)?;
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
    let up = connection.is_up();
    let fleet = Fleet::build(
        &cluster,
        all,
        |kustomization| tree_of(kustomization, &trees),
        |kustomization| settings(kustomization, up),
    )
    .await;
    let mut compared = Vec::new();
    for kustomization in fleet.kustomizations().filter(|one| wanted(args, one)) {
        compared.push(one(&cluster, &fleet, kustomization).await);
    }
    if compared.is_empty() {
        return Err(DiffError::None {
            url: repository.url,
            names: args.kustomizations.clone(),
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

fn wanted(args: &Args, kustomization: &Kustomization) -> bool {
    let (name, namespace) = (&kustomization.metadata.name, &kustomization.metadata.namespace);
    let named = |name: &String| args.kustomizations.contains(name);
    (args.namespace.is_none() || args.namespace == *namespace)
        && (args.kustomizations.is_empty() || name.as_ref().is_some_and(named))
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

fn settings(kustomization: &Kustomization, up: bool) -> Settings {
    // `equate up` has these two liberties, a cluster has not.
    Settings {
        root: up.then(|| OwnLoop {
            name: equate_api::meta::DEFAULT_NAMESPACE.into(),
            namespace: equate_api::meta::DEFAULT_NAMESPACE.into(),
            path: kustomization.spec.path.clone().unwrap_or_default(),
        }),
        default_namespace: up.then(|| "default".into()),
    }
}

async fn one(cluster: &Cluster, fleet: &Fleet, kustomization: &Kustomization) -> Compared {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, namespace) = (
        text(&kustomization.metadata.name),
        text(&kustomization.metadata.namespace),
    );
    Compared {
        outcome: fleet.preview(cluster, kustomization).await,
        name: format!("Kustomization/{namespace}/{name}"),
        path: text(&kustomization.spec.path),
    }
}
