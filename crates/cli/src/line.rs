//! The command line as a whole: options that every command accepts, and misplaced ones.
//!
//! `--kubeconfig`, `--context` and `--namespace` mean the same before and after the command. A command that
//! does not use them refuses them by name: an option without effect is a mistake, and is never ignored
//! silently. The last value of a repeated option wins, as with kubectl, Helm and Flux: arguments that are
//! appended to a Deployment override earlier ones.

use crate::connection::{self, ClusterOptions};
use crate::kinds::Kinds;
use crate::{
    api, artifact, build, controllers, diff, events, explain, flux, get, install, manual, reconcile, release,
    suspend, template, tree, up, version,
};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use equate_controllers::ControllerSet;

/// GitOps for Kubernetes: reconcile clusters with git repositories, as a replacement for Flux.
#[derive(Debug, Parser)]
#[command(
    name = "equate",
    version,
    propagate_version = true,
    args_override_self = true,
    arg_required_else_help = true,
    after_help = "Examples:
  # Run an embedded cluster with the git repository in this directory
  equate up
  # Show the changes that a commit would make in a cluster
  equate diff --context staging
  # List all Flux objects, and explain why a Kustomization is not ready
  equate get all --all-namespaces
  equate explain kustomization apps"
)]
pub(crate) struct Cli {
    /// Also log info (-v) or debug (-vv) messages to standard error; `RUST_LOG` overrides this.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = connection::GLOBAL_OPTIONS)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    place: ClusterOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an embedded cluster on this machine and reconcile it with a git repository.
    Up(up::Args),
    /// Run the controllers that reconcile sources, Kustomizations and HelmReleases in a cluster.
    Controllers(Box<controllers::Args>),
    /// Install Equate's controllers in a cluster, in place of Flux's or beside them.
    Install(install::Args),
    /// Build a kustomization and print its objects, like `kustomize build`.
    Build(build::Args),
    /// Render a Helm chart and print its objects, like `helm template`.
    Template(Box<template::Args>),
    /// Show the changes that a commit of this working tree would make in the cluster.
    Diff(Box<diff::Args>),
    /// List sources, Kustomizations and other Flux objects with their status.
    Get(get::Args),
    /// Show a tree of the objects that a Kustomization or HelmRelease applied, with their health.
    Tree(tree::Args),
    /// Explain why an object is ready, healthy or not: who applies it, from which file, and its causes.
    Explain(explain::Args),
    /// List the events of sources, Kustomizations and other Flux objects.
    Events(events::Args),
    /// Show the Kustomization and the source that an object comes from, like `flux trace`.
    Trace(flux::trace::Args),
    /// Print the logs of the controllers by object, like `flux logs`.
    Logs(flux::logs::Args),
    /// Check the cluster, the controllers and their kinds, like `flux check`.
    Check(flux::check::Args),
    /// Print the status, history, and composed values or variables of an object, like `flux debug`.
    Debug(flux::debug::Args),
    /// Count the Flux objects of each kind, like `flux stats`.
    Stats(flux::stats::Args),
    /// Print Flux objects as they would be declared in git, like `flux export`.
    Export(flux::export::Args),
    /// Reconcile a Flux object now and wait for the result.
    Reconcile(reconcile::Args),
    /// Push a directory to an OCI registry, like `flux push artifact`.
    Push(Box<artifact::push::Args>),
    /// Pull an artifact from an OCI registry into a directory, like `flux pull artifact`.
    Pull(Box<artifact::pull::Args>),
    /// Suspend reconciliation of Flux objects.
    Suspend(suspend::Suspend),
    /// Resume reconciliation of Flux objects and wait until they are ready.
    Resume(suspend::Resume),
    /// Write an `equate.yaml` with the environments and services of this repository.
    Init(release::init::Args),
    /// Show the version of each service in each environment.
    Matrix(release::matrix::Args),
    /// Show what could be promoted next, and what refuses it now.
    Status(Box<release::status::Args>),
    /// Bring the versions of services from one environment to the next.
    Promote(Box<release::promote::Promote>),
    /// Set the version of a service in an environment.
    Release(Box<release::promote::Release>),
    /// Bring services in an environment back to the version before.
    Rollback(Box<release::promote::Rollback>),
    /// Remove a service from an environment.
    Undeploy(Box<release::undeploy::Args>),
    /// Keep a service in an environment at its version.
    Hold(Box<release::holds::Hold>),
    /// End the hold of a service in an environment.
    Unhold(Box<release::holds::Unhold>),
    /// Describe a service: its versions, the places that set them, and the person who brought them.
    Describe(Box<release::describe::Args>),
    /// Check a repository for what makes promotions surprising.
    Doctor(release::doctor::Args),
    /// Show who changed which version, and when.
    History(Box<release::history::Args>),
    /// Serve only the embedded Kubernetes API, without Equate's controllers, until interrupted.
    Api(api::Args),
    /// Print the version of this program.
    Version(version::Args),
    /// Print a shell completion script.
    #[command(
        visible_alias = "completions",
        after_help = "Examples:
  # Load completion into the current shell
  source <(equate completion bash)
  # Install completion for zsh or fish
  equate completion zsh > \"${fpath[1]}/_equate\"
  equate completion fish > ~/.config/fish/completions/equate.fish"
    )]
    Completion {
        /// Shell to generate the script for.
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command to a directory.
    Man(manual::Args),
}

/// The options that select a cluster and namespace.
const CLUSTER_OPTIONS: [&str; 3] = ["kubeconfig", "context", "namespace"];
/// Commands that use none of these options, and hide them from their help.
const WITHOUT_CLUSTER: [&str; 17] = [
    "up",
    "build",
    "push",
    "pull",
    "init",
    "matrix",
    "hold",
    "unhold",
    "doctor",
    "undeploy",
    "describe",
    "status",
    "history",
    "api",
    "version",
    "completion",
    "man",
];
/// Commands that run their own cluster.
const OWN_CLUSTER: [&str; 2] = ["up", "api"];

/// Options of `equate diff kustomization` that need `--path`.
const NEEDS_PATH: [&str; 3] = ["no_remote_bases", "instead_of", "cache_dir"];

/// Arguments whose values are names of Flux's controllers: the command and the argument.
const CONTROLLER_ARGUMENTS: [(&str, &str); 2] = [("controllers", "controllers"), ("install", "components")];

pub(crate) fn command(controllers: &ControllerSet) -> clap::Command {
    let command = Cli::command();
    let everywhere: Vec<clap::Arg> = CLUSTER_OPTIONS
        .iter()
        .filter_map(|id| argument(&command, id).cloned())
        .collect();
    let command = WITHOUT_CLUSTER.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| hide_cluster_options(command, &everywhere))
    });
    let command = set_controller_values(command, controllers);
    let command = offer_kinds(command, &Kinds::of(controllers.iter()));
    command.mut_subcommand("diff", |diff| {
        diff.mut_subcommand("kustomization", |one| {
            // without --path the repository is built as the controllers build it, and they fetch nothing
            NEEDS_PATH
                .iter()
                .fold(one, |one, id| one.mut_arg(id, |arg| arg.requires("path")))
        })
    })
}

/// Sets the possible values of these arguments to the controllers of this program; the default is all.
fn set_controller_values(command: clap::Command, controllers: &ControllerSet) -> clap::Command {
    let components = controllers.components();
    let values = components.iter().map(|component| {
        let reconciled = controllers.iter().filter(|about| about.component == *component);
        let kinds: Vec<&str> = reconciled.map(|about| about.kind).collect();
        PossibleValue::new(*component).help(format!("Reconciles {} objects", kinds.join(", ")))
    });
    let values = PossibleValuesParser::new(values);
    CONTROLLER_ARGUMENTS.iter().fold(command, |command, (name, id)| {
        command.mut_subcommand(name, |command| {
            command.mut_arg(id, |arg| {
                arg.value_parser(values.clone())
                    .default_values(components.clone())
            })
        })
    })
}

/// Arguments that begin with a kind: the command and the argument.
const KIND_ARGUMENTS: [(&str, &str); 8] = [
    ("get", "what"),
    ("tree", "what"),
    ("explain", "what"),
    ("trace", "what"),
    ("export", "what"),
    ("reconcile", "what"),
    ("suspend", "what"),
    ("resume", "what"),
];

/// Offers the names of kinds for completion. Any other text is accepted, too: names, and kinds of the cluster.
fn offer_kinds(command: clap::Command, kinds: &Kinds) -> clap::Command {
    let offered = OfferedKinds(kinds.names());
    KIND_ARGUMENTS.iter().fold(command, |command, (name, id)| {
        command.mut_subcommand(name, |command| {
            command.mut_arg(id, |arg| {
                arg.value_parser(offered.clone()).hide_possible_values(true)
            })
        })
    })
}

#[derive(Debug, Clone)]
struct OfferedKinds(Vec<&'static str>);

impl TypedValueParser for OfferedKinds {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|name| PossibleValue::new(*name))))
    }
}

/// Hides the options that a command does not use. `api`, `status` and `history` have some of their own.
fn hide_cluster_options(command: clap::Command, everywhere: &[clap::Arg]) -> clap::Command {
    everywhere.iter().fold(command, |command, option| {
        match argument(&command, option.get_id().as_str()) {
            Some(_) => command,
            None => command.arg(option.clone().hide(true)),
        }
    })
}

fn argument<'c>(command: &'c clap::Command, id: &str) -> Option<&'c clap::Arg> {
    command.get_arguments().find(|arg| arg.get_id() == id)
}

pub(crate) fn parse(
    words: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
    controllers: &ControllerSet,
) -> Result<Cli, clap::Error> {
    let mut command = command(controllers);
    let matches = command.try_get_matches_from_mut(words)?;
    let misplaced =
        unused_cluster_option(&command, &matches).or_else(|| misplaced_argument(&command, &matches));
    if let Some(message) = misplaced {
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    Cli::from_arg_matches(&matches)
}

/// The error for an option that selects a cluster on a command that uses none.
fn unused_cluster_option(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (name, inner) = matches.subcommand()?;
    // `equate build kustomization` reads a cluster
    if !WITHOUT_CLUSTER.contains(&name) || inner.subcommand_name().is_some() {
        return None;
    }
    let own = command.find_subcommand(name)?;
    let long = own
        .get_arguments()
        .filter(|arg| arg.is_hide_set() && given(inner, arg.get_id().as_str()))
        .find_map(clap::Arg::get_long)?;
    let selects = own
        .get_arguments()
        .any(|arg| arg.get_id() == "context" && !arg.is_hide_set());
    let why = match (OWN_CLUSTER.contains(&name), selects) {
        (true, _) => "runs its own cluster",
        (false, true) => "uses no namespace",
        (false, false) => "uses no cluster",
    };
    Some(format!("`equate {name}` {why}; remove --{long}"))
}

/// The error for an argument before the name of a subcommand, where it would have no effect.
fn misplaced_argument(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (name, outer) = matches.subcommand()?;
    let inner = outer.subcommand_name()?;
    let arguments = command.find_subcommand(name)?.get_arguments();
    let lost = arguments
        .filter(|arg| !arg.is_global_set() && !CLUSTER_OPTIONS.contains(&arg.get_id().as_str()))
        .find(|arg| given(outer, arg.get_id().as_str()))?;
    Some(format!(
        "{lost} is an argument of `equate {name}` and cannot precede `{inner}`; put it after, if `equate {name} {inner}` accepts it"
    ))
}

fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests;
