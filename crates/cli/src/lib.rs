//! The `equate` binary as a library, for programs that add controllers.
//!
//! Parses the command line, runs one command and returns its exit code. Each command has a file; modules that
//! commands share know no command.

mod api;
mod artifact;
mod build;
mod charts;
mod completion;
mod connection;
mod controllers;
mod counts;
mod diagnosis;
mod diff;
mod document;
mod events;
mod exit;
mod explain;
mod failure;
#[cfg(test)]
mod fixture;
mod flux;
mod get;
mod install;
mod interrupt;
mod kinds;
mod line;
mod log;
mod manual;
mod objects;
mod open_files;
mod reconcile;
#[cfg(test)]
mod reference;
mod release;
mod schemaless;
mod served;
mod status;
mod suspend;
mod table;
mod template;
mod transit;
mod tree;
mod up;
mod version;
mod watch;
mod workspace;

use equate_controllers::ControllerSet;
use failure::{Failure, StdoutError};
use kinds::Kinds;
use line::Command;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Debug, thiserror::Error)]
#[error("could not start the runtime")]
struct RuntimeError(#[from] std::io::Error);

impl Failure for RuntimeError {}

struct App {
    controllers: ControllerSet,
    kinds: Kinds,
}

/// Runs the command that the process's arguments name, and returns its exit code.
///
/// The kinds of `controllers` are available in every command.
pub fn main(controllers: ControllerSet) -> ExitCode {
    let begun = Instant::now();
    let app = App {
        kinds: Kinds::of(controllers.iter()),
        controllers,
    };
    connection::install_tls();
    let cli = line::parse(std::env::args_os(), &app.controllers).unwrap_or_else(|error| error.exit());
    match &cli.command {
        Command::Controllers(args) => controllers::log::start(&args.log),
        _ => start_logging(cli.verbose),
    }
    open_files::raise();
    let parsed = begun.elapsed();
    let code = exit::finish(app.run(cli.command));
    let milliseconds = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    let (parsed, passed) = (milliseconds(parsed), milliseconds(begun.elapsed()));
    // `cargo xtask bench release` reads this line
    tracing::debug!(parsed, passed, "milliseconds");
    code
}

impl App {
    fn run(&self, command: Command) -> Result<ExitCode, Box<dyn Failure>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(RuntimeError)?;
        self.execute(command, &runtime)
    }

    fn execute(&self, command: Command, runtime: &Runtime) -> Result<ExitCode, Box<dyn Failure>> {
        let Self { controllers, kinds } = self;
        match command {
            Command::Up(args) => runtime.block_on(up::run(args, controllers, kinds))?,
            Command::Controllers(args) => runtime.block_on(controllers::run(*args, controllers))?,
            Command::Install(args) => runtime.block_on(install::run(args, controllers))?,
            Command::Diff(args) => return Ok(diff::run(&args, runtime)?),
            Command::Explain(args) => return Ok(runtime.block_on(explain::run(args, kinds))?),
            Command::Build(args) => build::run(args, runtime)?,
            Command::Template(args) => template::run(&args, runtime)?,
            Command::Push(args) => runtime.block_on(artifact::push::run(*args))?,
            Command::Pull(args) => runtime.block_on(artifact::pull::run(*args))?,
            Command::Get(args) => runtime.block_on(get::run(args, kinds))?,
            Command::Tree(args) => runtime.block_on(tree::run(args, kinds))?,
            Command::Events(args) => runtime.block_on(events::run(args, kinds))?,
            Command::Trace(args) => runtime.block_on(flux::trace::run(args, kinds))?,
            Command::Logs(args) => runtime.block_on(flux::logs::run(args, kinds))?,
            Command::Check(args) => runtime.block_on(flux::check::run(args, kinds))?,
            Command::Debug(args) => runtime.block_on(flux::debug::run(args, kinds))?,
            Command::Stats(args) => runtime.block_on(flux::stats::run(args, kinds))?,
            Command::Export(args) => runtime.block_on(flux::export::run(args, kinds))?,
            Command::Reconcile(args) => runtime.block_on(reconcile::run(args, kinds))?,
            Command::Suspend(args) => runtime.block_on(suspend::run_suspend(args, kinds))?,
            Command::Resume(args) => runtime.block_on(suspend::run_resume(args, kinds))?,
            Command::Init(args) => release::init::run(&args)?,
            Command::Matrix(args) => release::matrix::run(&args)?,
            Command::Status(args) => release::status::run(&args, runtime)?,
            Command::Promote(args) => return Ok(release::promote::promote(&args, runtime)?),
            Command::Release(args) => return Ok(release::promote::release(&args, runtime)?),
            Command::Rollback(args) => return Ok(release::promote::rollback(&args, runtime)?),
            Command::Undeploy(args) => return Ok(release::undeploy::run(&args)?),
            Command::Hold(args) => return Ok(release::holds::hold(&args)?),
            Command::Unhold(args) => return Ok(release::holds::unhold(&args)?),
            Command::Doctor(args) => return Ok(release::doctor::run(&args)?),
            Command::Describe(args) => release::describe::run(&args)?,
            Command::History(args) => release::history::run(&args, runtime)?,
            Command::Api(args) => runtime.block_on(api::run(args))?,
            Command::Version(args) => {
                version::print(&args, &mut std::io::stdout()).map_err(StdoutError::from)?;
            }
            Command::Completion { shell } => {
                let script = completion::script(shell, controllers);
                std::io::stdout().write_all(&script).map_err(StdoutError::from)?;
            }
            Command::Man(args) => manual::write(&args, line::command(controllers))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // the command's own error says what failed; the client library would log it beside
    let libraries = match verbose {
        0 => LevelFilter::OFF,
        _ => LevelFilter::WARN,
    };
    let filter = Targets::new()
        .with_default(libraries)
        .with_targets([("equate", level), ("equate_apiserver", level)])
        // the commands show events themselves
        .with_target("equate::told", LevelFilter::OFF);
    let colour =
        std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(log::Writer)
        .with_ansi(colour)
        .finish()
        .with(environment_filter().unwrap_or(filter))
        .init();
}

/// The filter in `RUST_LOG`, if it is valid.
fn environment_filter() -> Option<Targets> {
    std::env::var("RUST_LOG").ok()?.parse().ok()
}
