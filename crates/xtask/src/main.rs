//! The repository's own commands: too long for a shell line, and the same on a laptop and in CI. This
//! file only dispatches. Each command is a file or folder and returns an error that names the step.
//! Nothing here is part of the product.

#![expect(clippy::print_stdout, reason = "what a command prints is its result")]

mod baseline;
mod bench;
mod charts;
mod conformance;
mod contests;
mod corpus;
mod dist;
mod fuzz;
mod r#gen;
mod hostile;
mod image;
mod peers;
mod picture;
mod property;
mod test_peers;
mod test_programs;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Generated files, baselines from the real tools, real peers, repository checks
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record the answers of a real tool
    Baseline(baseline::Args),
    /// Time the whole product, with the release binary
    Bench(bench::Args),
    /// Render public charts and compare with Helm itself
    Charts(charts::Args),
    /// Run Kubernetes' own conformance tests against the embedded API
    Conformance(conformance::Args),
    /// Run fleets with contested objects many times: each has one answer
    Contests(contests::Args),
    /// Build whole repositories and compare with the real kustomize
    Corpus(corpus::Args),
    /// Make the files of a release: archive, image, list of packages, checksums
    Dist(dist::Args),
    /// Run the fuzz targets for a while
    Fuzz(fuzz::Args),
    /// Regenerate the committed tables from the pinned upstream modules
    Gen(r#gen::Args),
    /// Attack the controllers as tenants, and measure the commit of another namespace
    Hostile(hostile::Args),
    /// Build the statically linked program, and an image of it
    Image(image::Args),
    /// Build or start the real Kubernetes control plane of the tests
    Peers(peers::Args),
    /// Draw docs/equate-up.svg from a real run of `equate up --once`
    Picture(picture::Args),
    /// Compare random kustomizations with the real engine
    Property(property::Args),
    /// Run the tests that compare with the real tools
    TestPeers(test_peers::Args),
    /// Check the rules that the compiler does not know: headers, names, sizes, links, edges, words
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Baseline(args) => baseline::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Charts(args) => charts::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Contests(args) => contests::run(&args),
        Command::Corpus(args) => corpus::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Gen(args) => r#gen::run(&args),
        Command::Hostile(args) => hostile::run(&args),
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

/// The only place that prints an error and its causes.
fn print_chain(error: &(dyn Error + 'static)) {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
