//! The command line as a whole: what may stand anywhere on it, and what may not stand where it does.
//!
//! `--kubeconfig`, `--context` and `--namespace` mean the same wherever they are written, also before
//! the command. A command that has no use for them refuses them by name: one that runs a cluster of
//! its own does not act on the one that was named, and one that asks none builds nothing for a
//! namespace. What is given and means nothing is a mistake, and is never passed over in silence. Of an
//! option that is given twice the last counts, as with kubectl, Helm and Flux: who adds to the arguments
//! of a Deployment overrides what stands there.

use crate::connection::Anywhere;
use crate::{
    api, build, controllers, diff, events, explain, get, install, reconcile, suspend, template, tree, up,
    version,
};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use equate_controllers::ControllerSet;

/// Keeps a Kubernetes cluster equal to its declarations, and those equal to git.
#[derive(Debug, Parser)]
#[command(
    name = "equate",
    version,
    propagate_version = true,
    args_override_self = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Say more on standard error (-v: info, -vv: debug); `RUST_LOG` overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    place: Anywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep an embedded cluster equal to a git repository.
    Up(up::Args),
    /// Reconcile the sources and Kustomizations of a cluster.
    Controllers(Box<controllers::Args>),
    /// Put Equate into a cluster, where Flux's controllers would be.
    Install(install::Args),
    /// Print the objects that a directory builds, as `kustomize build` does.
    Build(build::Args),
    /// Print the objects that a Helm chart renders to, as `helm template` does.
    Template(Box<template::Args>),
    /// Show what a commit of the worktree as it is would change in the cluster.
    Diff(Box<diff::Args>),
    /// List sources, Kustomizations and the other kinds, and how they stand.
    Get(get::Args),
    /// Show what a Kustomization applied, as a tree, and how each object is doing.
    Tree(tree::Args),
    /// Show why a Kustomization is ready or is not: each step that leads there, and what it waits for.
    #[command(
        after_help = "The exit code is 0 when it is ready, 1 when it is not, 2 when that cannot be told."
    )]
    Explain(explain::Args),
    /// List the events of sources, Kustomizations and the other kinds.
    Events(events::Args),
    /// Run an object now, and wait for what comes of it.
    Reconcile(reconcile::Args),
    /// Let an object rest: it is left as it is until it is resumed.
    Suspend(suspend::Suspend),
    /// Let an object work again, and wait until it is ready.
    Resume(suspend::Resume),
    /// Serve the embedded Kubernetes API until interrupted.
    Api(api::Args),
    /// Print the version.
    Version(version::Args),
    /// Print a completion script for a shell.
    #[command(visible_alias = "completions")]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Where to look.
const PLACE: [&str; 3] = ["kubeconfig", "context", "namespace"];
/// Commands that look nowhere: their help is silent about it.
const PLACELESS: [&str; 5] = ["up", "build", "api", "version", "completion"];
/// Those of them that run a cluster of their own.
const OWN_CLUSTER: [&str; 2] = ["up", "api"];

/// What `equate diff kustomization` does with a directory alone, besides what it says itself.
const OF_A_PATH: [&str; 3] = ["no_remote_bases", "instead_of", "cache_dir"];

/// Arguments whose values are names of Flux's controllers: the command, and the argument.
const NAMES_OF_CONTROLLERS: [(&str, &str); 2] = [("controllers", "controllers"), ("install", "components")];

/// The command line that is understood by a program with these controllers.
pub(crate) fn command(controllers: &ControllerSet) -> clap::Command {
    let command = PLACELESS.iter().fold(Cli::command(), |command, name| {
        command.mut_subcommand(name, without_place)
    });
    let command = with_components(command, controllers);
    command.mut_subcommand("diff", |diff| {
        diff.mut_subcommand("kustomization", |one| {
            // the repository here is built as the controllers build it, who fetch nothing
            OF_A_PATH
                .iter()
                .fold(one, |one, id| one.mut_arg(id, |arg| arg.requires("path")))
        })
    })
}

/// Has those arguments take the names of Flux's controllers that this program stands for; all of them,
/// where none is given.
fn with_components(command: clap::Command, controllers: &ControllerSet) -> clap::Command {
    let components = controllers.components();
    let values = components.iter().map(|component| {
        let reconciled = controllers.iter().filter(|about| about.component == *component);
        let kinds: Vec<&str> = reconciled.map(|about| about.kind).collect();
        PossibleValue::new(*component).help(format!("Reconciles {} objects", kinds.join(", ")))
    });
    let values = PossibleValuesParser::new(values);
    NAMES_OF_CONTROLLERS.iter().fold(command, |command, (name, id)| {
        command.mut_subcommand(name, |command| {
            command.mut_arg(id, |arg| {
                arg.value_parser(values.clone())
                    .default_values(components.clone())
            })
        })
    })
}

/// Hides what a command has no use for. `api` has a `--kubeconfig` of another meaning.
fn without_place(command: clap::Command) -> clap::Command {
    let everywhere = Cli::command();
    PLACE.iter().fold(command, |command, id| {
        let known =
            |command: &clap::Command| command.get_arguments().find(|arg| arg.get_id() == *id).cloned();
        match (known(&command), known(&everywhere)) {
            (None, Some(arg)) => command.arg(arg.hide(true)),
            _ => command,
        }
    })
}

/// Reads the words of a command line; the error knows how to print itself and its exit code.
pub(crate) fn parse(
    words: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
    controllers: &ControllerSet,
) -> Result<Cli, clap::Error> {
    let mut command = command(controllers);
    let matches = command.try_get_matches_from_mut(words)?;
    let misplaced = placed_for_nothing(&command, &matches).or_else(|| not_of_the_inner(&command, &matches));
    if let Some(message) = misplaced {
        return Err(command.error(ErrorKind::ArgumentConflict, message));
    }
    Cli::from_arg_matches(&matches)
}

/// A place is named, and the command looks nowhere.
fn placed_for_nothing(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (name, inner) = matches.subcommand()?;
    // `equate build kustomization` asks a cluster
    if !PLACELESS.contains(&name) || inner.subcommand_name().is_some() {
        return None;
    }
    let own = command.find_subcommand(name)?;
    let long = own
        .get_arguments()
        .filter(|arg| arg.is_hide_set() && given(inner, arg.get_id().as_str()))
        .find_map(clap::Arg::get_long)?;
    let why = match OWN_CLUSTER.contains(&name) {
        true => "runs a cluster of its own",
        false => "asks no cluster",
    };
    Some(format!("`equate {name}` {why}: --{long} means nothing to it"))
}

/// What belongs to a command stands before the name of one of its own: it would be passed over.
fn not_of_the_inner(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let (name, outer) = matches.subcommand()?;
    let inner = outer.subcommand_name()?;
    let arguments = command.find_subcommand(name)?.get_arguments();
    let lost = arguments
        .filter(|arg| !arg.is_global_set() && !PLACE.contains(&arg.get_id().as_str()))
        .find(|arg| given(outer, arg.get_id().as_str()))?;
    Some(format!(
        "{lost} belongs to `equate {name}` and cannot stand before `{inner}`: write it after, if `equate {name} {inner}` has it"
    ))
}

fn given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests;
