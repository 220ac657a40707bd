//! The `equate` binary: parses the command line, runs one command, turns its
//! error into text and an exit code. One file per command.

mod api;
mod build;
mod charts;
mod connection;
mod controllers;
mod counts;
mod diff;
mod document;
mod events;
mod exit;
mod explain;
#[cfg(test)]
mod fixture;
mod get;
mod install;
mod interrupt;
mod kinds;
mod line;
mod objects;
mod reconcile;
mod suspend;
mod table;
mod template;
mod transit;
mod tree;
mod up;
mod version;
mod workspace;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Keeps a Kubernetes cluster equal to its declarations, and those equal to git.
#[derive(Debug, Parser)]
#[command(
    name = "equate",
    version,
    propagate_version = true,
    args_override_self = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Say more on standard error (-v: info, -vv: debug); `RUST_LOG` overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    #[command(flatten)]
    place: connection::Anywhere,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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

fn main() -> ExitCode {
    install_tls();
    let cli = line::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match &cli.command {
        Command::Controllers(args) => controllers::log::start(&args.log),
        _ => start_logging(cli.verbose),
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&exit::Failure::Runtime(error)),
    };
    let result = match cli.command {
        Command::Up(args) => runtime.block_on(up::run(args)).map_err(exit::Failure::from),
        Command::Controllers(args) => runtime
            .block_on(controllers::run(*args))
            .map_err(exit::Failure::from),
        Command::Install(args) => runtime.block_on(install::run(args)),
        Command::Diff(args) => {
            return match diff::run(&args, &runtime) {
                Ok(code) => code,
                Err(error) => {
                    exit::report(&exit::Failure::from(error));
                    // 1 says that there are differences.
                    ExitCode::from(2)
                }
            };
        }
        Command::Explain(args) => {
            return match runtime.block_on(explain::run(args)) {
                Ok(code) => code,
                Err(error) if error.is_reader_gone() => ExitCode::SUCCESS,
                Err(error) => {
                    exit::report(&error);
                    // 1 says that it is not ready.
                    ExitCode::from(2)
                }
            };
        }
        Command::Build(args) => build::run(args, &runtime).map_err(exit::Failure::from),
        Command::Template(args) => template::run(&args, &runtime).map_err(exit::Failure::from),
        Command::Get(args) => runtime.block_on(get::run(args)),
        Command::Tree(args) => runtime.block_on(tree::run(args)),
        Command::Events(args) => runtime.block_on(events::run(args)),
        Command::Reconcile(args) => runtime.block_on(reconcile::run(args)),
        Command::Suspend(args) => runtime.block_on(suspend::run_suspend(args)),
        Command::Resume(args) => runtime.block_on(suspend::run_resume(args)),
        Command::Api(args) => runtime.block_on(api::run(args)),
        Command::Version(args) => {
            version::print(&args, &mut std::io::stdout()).map_err(exit::Failure::Output)
        }
        Command::Completion { shell } => {
            // By way of memory: writing to it cannot fail, and to a reader that left may.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut line::command(), "equate", &mut script);
            std::io::stdout()
                .write_all(&script)
                .map_err(exit::Failure::Output)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_reader_gone() => ExitCode::SUCCESS,
        Err(failure) => exit::report(&failure),
    }
}

/// One implementation of cryptography for the whole process.
fn install_tls() {
    // Refused only when one is there already, as in tests.
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        // events are shown by the commands themselves
        tracing_subscriber::EnvFilter::new(format!(
            "warn,equate={level},equate::told=off,equate_apiserver={level}"
        ))
    });
    let colour =
        std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .init();
}
