//! `equate undeploy`: removes a service from an environment.

use super::ReleaseError;
use super::write::{self, Done, Options};
use equate_release::plan::plan_undeploy;
use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show the files that would go
  equate undeploy checkout --env staging --dry-run
  # Remove a service from an environment
  equate undeploy checkout --env staging --reason 'moved to the new shop'

Exit codes:
  0  done
  1  an error occurred, or something else would change
  2  wrong usage
  3  a freeze or a hold refuses the change
  5  the outcome is unknown")]
pub(crate) struct Args {
    /// Service.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Environment or group.
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: String,
    /// Remove it without asking.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, ReleaseError> {
    if !args.yes && !args.options.dry_run {
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(ReleaseError::Unconfirmed);
        }
        let mut shown = args.options.clone();
        shown.dry_run = true;
        let done = change(args, &shown)?;
        if done.is_refused {
            return Ok(done.code);
        }
        eprint!("Remove {} from {}? [y/N] ", args.service, args.env);
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        let is_yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        if !is_yes {
            return Err(ReleaseError::Declined);
        }
    }
    Ok(change(args, &args.options)?.code)
}

fn change(args: &Args, options: &Options) -> Result<Done, ReleaseError> {
    write::write(options, |tree, author, past| {
        let target = (args.service.as_str(), args.env.as_str());
        plan_undeploy(tree, target, args.options.reason.clone(), author, past)
    })
}
