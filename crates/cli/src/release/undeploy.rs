//! `equate undeploy`: removes a service from an environment.

use super::ReleaseError;
use super::plan_file::{self, PlanFile};
use super::write::{self, Done, HealthOf, Options, Parts};
use equate_release::plan::{PlanError, plan_undeploy};
use equate_release::record::Intent;
use equate_release::rules::Health;
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show the files that would go
  equate undeploy checkout --env staging --dry-run
  # Remove a service from an environment
  equate undeploy checkout --env staging --reason 'moved to the new shop'
  # Plan the removal, and do exactly that later
  equate undeploy checkout --env staging --plan plan.json
  equate undeploy --apply plan.json

Exit codes:
  0  done
  1  an error occurred, or something else would change
  2  wrong usage
  3  a freeze or a hold refuses the change
  5  the outcome is unknown
  6  the plan of --apply is stale, or the repository changed before the answer")]
pub(crate) struct Args {
    /// Service.
    #[arg(
        value_name = "SERVICE",
        required_unless_present = "apply",
        default_value = "",
        hide_default_value = true
    )]
    service: String,
    /// Environment or group.
    #[arg(
        short,
        long,
        value_name = "ENVIRONMENT",
        required_unless_present = "apply",
        default_value = "",
        hide_default_value = true
    )]
    env: String,
    /// Remove it without asking.
    #[arg(short, long)]
    yes: bool,
    /// Write the plan to this file, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    plan: Option<PathBuf>,
    /// Do exactly the plan in this file without asking, or fail with exit code 6.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["service", "env", "reason"])]
    apply: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// A service to remove from an environment or a group.
struct Request {
    service: String,
    env: String,
    reason: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, ReleaseError> {
    if let Some(path) = &args.apply {
        let file = PlanFile::read(path, Intent::Undeploy)?;
        let request = Request {
            service: file.needed("service")?,
            env: file.needed("env")?,
            reason: file.text("reason"),
        };
        return Ok(change(&request, &args.options, Some(&file.summary))?.code);
    }
    let request = Request {
        service: args.service.clone(),
        env: args.env.clone(),
        reason: args.options.reason.clone(),
    };
    let mut options = args.options.clone();
    if let Some(path) = &args.plan {
        options.dry_run = true;
        let done = change(&request, &options, None)?;
        if !done.is_refused {
            let data = json!({"service": request.service, "env": request.env, "reason": request.reason});
            plan_file::write(path, &data, &done)?;
        }
        return Ok(done.code);
    }
    if args.yes || args.options.dry_run {
        return Ok(change(&request, &options, None)?.code);
    }
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(ReleaseError::Unconfirmed);
    }
    options.dry_run = true;
    options.parts = Parts::Question;
    let asked = change(&request, &options, None)?;
    if asked.is_refused {
        return Ok(asked.code);
    }
    eprint!("Remove {} from {}? [y/N] ", request.service, request.env);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let is_yes = read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        return Err(ReleaseError::Declined);
    }
    options.dry_run = false;
    options.parts = Parts::Outcome;
    let confirmed = plan_file::summary(&asked.plan);
    let done = change(&request, &options, Some(&confirmed)).map_err(|error| match error {
        ReleaseError::Stale => ReleaseError::Changed,
        error => error,
    })?;
    Ok(done.code)
}

/// Removes the service; with an expected plan exactly that, or nothing.
fn change(request: &Request, options: &Options, expected: Option<&Value>) -> Result<Done, ReleaseError> {
    let blind: &HealthOf<'_> = &|_, _, _, _| Health::Unknown("no cluster is looked at".to_owned());
    write::write_with(options, blind, |tree, author, past| {
        let target = (request.service.as_str(), request.env.as_str());
        match (
            plan_undeploy(tree, target, request.reason.clone(), author, past),
            expected,
        ) {
            (Ok(plan), Some(expected)) if *expected != plan_file::summary(&plan) => Err(ReleaseError::Stale),
            // the service is gone already
            (Err(PlanError::Absent { .. } | PlanError::Service { .. }), Some(_)) => Err(ReleaseError::Stale),
            (planned, _) => Ok(planned?),
        }
    })
}
