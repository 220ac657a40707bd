//! The repository's own commands: what is too long for a shell line and must run the same
//! on a laptop and in CI. This file only dispatches; each command is a file or a folder of
//! its own, returns an error that names the step, and nothing here is part of the product.

#![expect(clippy::print_stdout, reason = "what a command prints is its result")]

mod baseline;
mod bench;
mod charts;
mod contests;
mod corpus;
mod fuzz;
mod r#gen;
mod image;
mod peers;
mod picture;
mod property;
mod test_peers;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Generated files, baselines from the real tools, real peers, repository checks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Records what a real tool answers.
    Baseline(baseline::Args),
    /// Times the whole product, with the release binary.
    Bench(bench::Args),
    /// Renders public charts and compares with Helm itself.
    Charts(charts::Args),
    /// Runs fleets with contested objects many times: each has one answer.
    Contests(contests::Args),
    /// Builds whole repositories and compares with the real kustomize.
    Corpus(corpus::Args),
    /// Runs the fuzz targets for a while.
    Fuzz(fuzz::Args),
    /// Regenerates the committed tables from the pinned upstream module.
    Gen(r#gen::Args),
    /// Builds the program without need of another file, and an image of it.
    Image(image::Args),
    /// Builds or starts the real Kubernetes control plane the tests are held against.
    Peers(peers::Args),
    /// Draws docs/equate-up.svg from a real run of `equate up --once`.
    Picture(picture::Args),
    /// Holds random kustomizations against the real engine.
    Property(property::Args),
    /// Runs the tests that hold the embedded API against the real tools.
    TestPeers(test_peers::Args),
    /// Checks what the compiler does not: headers, names, sizes, links, edges.
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Baseline(args) => baseline::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Charts(args) => charts::run(&args),
        Command::Contests(args) => contests::run(&args),
        Command::Corpus(args) => corpus::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Gen(args) => r#gen::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Peers(args) => peers::run(&args),
        Command::Picture(args) => picture::run(&args),
        Command::Property(args) => property::run(&args),
        Command::TestPeers(args) => test_peers::run(&args),
        Command::Tidy(args) => tidy::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_chain(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// The one place where an error and its causes are written out.
fn print_chain(error: &(dyn Error + 'static)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
