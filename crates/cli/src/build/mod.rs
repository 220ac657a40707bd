//! `equate build`: prints the output of `kustomize build` or `flux build`, without these programs.
//!
//! Reads a directory, a commit of a local repository or a remote repository. Writes the output, and mirrors
//! of remote bases.

mod commit;
mod disk;
pub(crate) mod fetch;
mod helmrelease;
pub(crate) mod kustomization;
mod mask;
pub(crate) mod output;
mod target;

use crate::charts::{Directories, Renderer};
use crate::failure::{Failure, is_broken_pipe};
use crate::template;
use commit::Commit;
use disk::{Disk, tree_path};
use equate_api::meta::Duration;
use equate_git::{LocalRepository, TreeishError};
use equate_kustomize::{
    BuildError, Built, Charts, LoadRestriction, Loaders, Options, Order, Remotes, kustomize_with,
};
use helmrelease::HelmReleaseError;
use kustomization::KustomizationError;
use output::OutputError;
use std::path::{Path, PathBuf};
use target::{Target, TargetError};
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Build a directory
  equate build clusters/dev
  # Build a commit, tag or branch of the repository in this directory, without a checkout
  equate build .@v1.2.0:clusters/dev
  # Build from a remote repository
  equate build 'https://example.org/fleet.git//clusters/dev?ref=main'
  # Build a Flux Kustomization from a local directory
  equate build kustomization apps --path apps/dev
  # Render the chart of a HelmRelease
  equate build helmrelease web -n shop --path charts/web")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    directory: Directory,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build a Flux Kustomization from a local directory and print its objects, like `flux build kustomization`.
    #[command(visible_alias = "ks")]
    Kustomization(Box<kustomization::BuildArgs>),
    /// Render the chart of a HelmRelease and print its objects; values of Secrets are in clear text.
    #[command(visible_alias = "hr")]
    Helmrelease(Box<helmrelease::BuildArgs>),
}

#[derive(Debug, clap::Args)]
struct Directory {
    /// Kustomization to build: a directory, REPO@REV:PATH in a local git repository, or the URL of a remote one.
    #[arg(value_name = "DIR", default_value = ".")]
    target: String,
    /// Write to this file; if it is a directory, write one file for each object.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Order of the objects if the kustomization has no `sortOptions` (default: legacy).
    #[arg(long, value_enum, value_name = "ORDER")]
    reorder: Option<Reorder>,
    /// Files that a kustomization may read.
    #[arg(
        long,
        value_enum,
        default_value = "LoadRestrictionsRootOnly",
        value_name = "RESTRICTION"
    )]
    load_restrictor: Restrictor,
    #[command(flatten)]
    charts: ChartArgs,
    #[command(flatten)]
    fetch: fetch::FetchOptions,
}

#[derive(Debug, clap::Args)]
struct ChartArgs {
    /// Render the Helm charts of kustomizations, such as those in `helmCharts`.
    #[arg(long)]
    enable_helm: bool,
    /// Kubernetes version for charts without `kubeVersion`, such as `1.33`.
    #[arg(long, value_name = "VERSION")]
    helm_kube_version: Option<String>,
    /// Additional API version for charts without `apiVersions`, such as `example.org/v1` (can be repeated).
    #[arg(long, value_name = "VERSION")]
    helm_api_versions: Vec<String>,
    /// Print the rendered text of a chart if it is not valid YAML.
    #[arg(long)]
    helm_debug: bool,
    /// Maximum time to render all charts together, such as `30s`; 0 means no limit.
    #[arg(long, value_name = "DURATION", default_value = "5m0s")]
    helm_timeout: Duration,
    /// Ignored: Equate renders charts without the helm program.
    #[arg(long, value_name = "PROGRAM")]
    helm_command: Option<String>,
}

impl ChartArgs {
    fn renderer(&self, directories: Directories) -> Option<Renderer> {
        if self.helm_command.is_some() {
            eprintln!("warning: --helm-command has no effect: charts are rendered without helm");
        }
        self.enable_helm.then(|| Renderer {
            kube_version: self.helm_kube_version.clone().unwrap_or_default(),
            api_versions: self.helm_api_versions.clone(),
            debug: self.helm_debug,
            stop: template::stop_after(self.helm_timeout),
            directories: Some(directories),
            ..Renderer::default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Reorder {
    /// Namespaces first, webhooks last
    Legacy,
    /// Order of the files
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Restrictor {
    /// Files in its own directory or below it
    #[value(name = "LoadRestrictionsRootOnly")]
    RootOnly,
    /// Any file
    #[value(name = "LoadRestrictionsNone")]
    None,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Treeish(#[from] TreeishError),
    #[error(transparent)]
    Fetch(#[from] fetch::FetchError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("could not determine the working directory")]
    Here(#[source] std::io::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Kustomization(#[from] KustomizationError),
    #[error(transparent)]
    HelmRelease(#[from] HelmReleaseError),
}

impl Failure for RenderError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Target(_) => {
                Some("use a directory, REPO@REV:PATH with a local REPO, or a URL; see `equate build --help`")
            }
            Self::Kustomization(KustomizationError::Connect(error))
            | Self::HelmRelease(HelmReleaseError::Connect(error)) => error.hint(),
            Self::Kustomization(_)
            | Self::HelmRelease(_)
            | Self::Treeish(_)
            | Self::Fetch(_)
            | Self::Build(_)
            | Self::Here(_)
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(OutputError::Standard(error)) if is_broken_pipe(error))
    }
}

pub(crate) fn run(args: Args, runtime: &Runtime) -> Result<(), RenderError> {
    match args.command {
        Some(Command::Kustomization(args)) => kustomization::build(&args, runtime),
        Some(Command::Helmrelease(args)) => helmrelease::build(&args, runtime),
        None => args.directory.run(runtime),
    }
}

impl Directory {
    fn run(&self, runtime: &Runtime) -> Result<(), RenderError> {
        if self.reorder.is_some() {
            eprintln!(
                "Flag --reorder has been deprecated, use the new 'sortOptions' field in kustomization.yaml instead."
            );
        }
        let has = |repository: &Path, revision: &str| {
            LocalRepository::tree(repository, revision, &equate_git::Limits::default()).is_ok()
        };
        let target = Target::choose(&self.target, has)?;
        let fetcher = self.fetch.fetcher(runtime.handle())?;
        let directories = Directories {
            egress: self.fetch.egress()?,
            runtime: runtime.handle().clone(),
        };
        let renderer = self.charts.renderer(directories);
        let loaders = Loaders {
            remotes: fetcher.as_ref().map(|fetcher| fetcher as &dyn Remotes),
            charts: renderer.as_ref().map(|renderer| renderer as &dyn Charts),
            ..Loaders::default()
        };
        let built = self.build(&target, loaders);
        if let Err(RenderError::Build(error)) = &built {
            print_notes(&error.warnings);
        }
        let built = built?;
        warn(&built);
        Ok(output::write(built.objects, self.output.as_deref())?)
    }

    fn build(&self, target: &Target, loaders: Loaders<'_>) -> Result<Built, RenderError> {
        let options = Options {
            restriction: match self.load_restrictor {
                Restrictor::RootOnly => LoadRestriction::Root,
                Restrictor::None => LoadRestriction::Tree,
            },
            order: match self.reorder {
                Some(Reorder::None) => Order::Input,
                Some(Reorder::Legacy) | None => Order::Legacy,
            },
            order_asked: self.reorder.is_some(),
            ..Options::default()
        };
        let disk = Disk::new(options.limits.file_bytes_max);
        let built = match target {
            Target::Commit {
                repository,
                revision,
                path,
                given,
            } => {
                let limits = equate_git::Limits::default();
                let tree = LocalRepository::tree(repository, revision, &limits)?;
                kustomize_with(&Commit(tree), &local(path), &options, loaders)
                    .map_err(|error| error.with_path_prefix(given))
            }
            Target::Url(url) => kustomize_with(&disk, url, &options, loaders),
            Target::Directory(directory) => {
                let here = std::env::current_dir().map_err(RenderError::Here)?;
                let options = Options {
                    whole: true,
                    ..options
                };
                let directory = local(&tree_path(&here.join(directory)));
                kustomize_with(&disk, &directory, &options, loaders)
                    .map_err(|error| error.with_paths_relative_to(&tree_path(&here)))
            }
        };
        Ok(built?)
    }
}

/// Marks a path as local, so that it is not parsed as a URL.
fn local(path: &str) -> String {
    format!("./{path}")
}

fn print_notes(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// Prints the real tools' messages on standard error.
fn warn(built: &Built) {
    for deprecation in &built.deprecations {
        eprintln!("{deprecation}");
    }
    for warning in &built.warnings {
        eprintln!("{warning}");
    }
}
