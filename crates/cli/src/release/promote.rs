//! `equate promote`, `equate release` and `equate rollback`.

use super::plan_file::{self, PlanFile};
use super::repository::tree_of;
use super::write::{self, Done, HealthOf, Options};
use super::{ReleaseError, wait};
use crate::connection;
use equate_api::meta::Duration;
use equate_release::artifact::Version;
use equate_release::plan::{self, Request};
use equate_release::record::Intent;
use equate_release::rules::Actor;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::runtime::Runtime;

mod each;

const EXIT_CODES: &str = "
Exit codes:
  0  done, or nothing to do
  1  an error occurred
  2  wrong usage
  3  a rule refuses the change
  4  committed, and unhealthy (with --wait)
  5  the outcome is unknown
  6  the plan of --apply is stale";

#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true, after_help = format!("Examples:
  # Bring the version of the environment before to staging, and wait until it is healthy
  equate promote checkout --to staging --wait
  # Show the change to all environments of a group
  equate promote checkout --to prod --dry-run
  # Plan two services at once, and do exactly that later
  equate promote checkout ledger --to staging --plan plan.json
  equate promote --apply plan.json
  # Promote services one by one with one push; a refused one does not stop the others
  equate promote checkout ledger cart --to staging --each
{EXIT_CODES}"))]
pub(crate) struct Promote {
    /// Services; all change in one commit, or none, unless --each is given.
    #[arg(value_name = "SERVICE", required_unless_present = "apply")]
    services: Vec<String>,
    /// Change each service in a commit of its own, with one push for all; `-` reads services from standard input.
    #[arg(long, conflicts_with_all = ["plan", "apply"])]
    each: bool,
    /// Environment or group to change.
    #[arg(
        long,
        value_name = "ENVIRONMENT",
        required_unless_present = "apply",
        default_value = "",
        hide_default_value = true
    )]
    to: String,
    /// Environment that has the version (default: the one before).
    #[arg(long, value_name = "ENVIRONMENT")]
    from: Option<String>,
    /// Version that some environment has or had (default: that of the environment before).
    #[arg(long, value_name = "VERSION", conflicts_with = "from")]
    version: Option<String>,
    /// Version to set where the environment before has a range.
    #[arg(long, value_name = "VERSION")]
    pin: Option<String>,
    /// Write the plan to this file, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    plan: Option<PathBuf>,
    /// Do exactly the plan in this file, or fail with exit code 6.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["services", "to", "from", "version", "pin"])]
    apply: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true, after_help = format!("Examples:
  # Release a version that no environment has yet
  equate release checkout --to dev --image registry.example/checkout=2.5.0
{EXIT_CODES}"))]
pub(crate) struct Release {
    /// Service.
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Environment or group to change.
    #[arg(long, value_name = "ENVIRONMENT")]
    to: String,
    /// Image and its version, such as registry.example/checkout=2.5.0 (can be repeated).
    #[arg(long, value_name = "NAME=VERSION", required_unless_present = "version")]
    image: Vec<String>,
    /// Version that some environment has or had.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  # Go back to the version before
  equate rollback checkout --env staging --reason 'cart answers 500'
  # Go back to a version that the environment had
  equate rollback checkout --env staging --to 2.3.9
{EXIT_CODES}"))]
pub(crate) struct Rollback {
    /// Services; all change in one commit, or none, unless --each is given.
    #[arg(value_name = "SERVICE", required = true)]
    services: Vec<String>,
    /// Environment or group to change.
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: String,
    /// Version to go back to (default: the one before).
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Debug, Clone, clap::Args)]
struct Waiting {
    /// Wait until the version is applied and healthy.
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    cluster: connection::Options,
}

pub(crate) fn promote(args: &Promote, runtime: &Runtime) -> Result<ExitCode, ReleaseError> {
    let request = Request {
        intent: Intent::Promote,
        services: args.services.clone(),
        to: args.to.clone(),
        from: args.from.clone(),
        version: args.version.clone(),
        images: Vec::new(),
        pin: args.pin.clone(),
        reason: args.options.reason.clone(),
        by: String::new(),
        actor: Actor::Person,
    };
    if args.each {
        return each::run(&args.services, &request, &args.options, &args.waiting, runtime);
    }
    if let Some(path) = &args.apply {
        let file = PlanFile::read(path, Intent::Promote)?;
        let request = read_request(&file)?;
        return run(
            &request,
            Some(&file.summary),
            &args.options,
            &args.waiting,
            runtime,
        );
    }
    if let Some(path) = &args.plan {
        let mut options = args.options.clone();
        options.dry_run = true;
        let done = change(&request, None, &options, &args.waiting, runtime)?;
        if !done.is_refused {
            plan_file::write(path, &request_data(&request), &done)?;
        }
        return Ok(done.code);
    }
    run(&request, None, &args.options, &args.waiting, runtime)
}

pub(crate) fn release(args: &Release, runtime: &Runtime) -> Result<ExitCode, ReleaseError> {
    let mut images = Vec::new();
    for given in &args.image {
        let parsed = given
            .split_once('=')
            .and_then(|(name, version)| Some((name.to_owned(), Version::parse(version)?)));
        images.push(parsed.ok_or_else(|| ReleaseError::Image(given.clone()))?);
    }
    let request = Request {
        intent: Intent::Release,
        services: vec![args.service.clone()],
        to: args.to.clone(),
        from: None,
        version: args.version.clone(),
        images,
        pin: None,
        reason: args.options.reason.clone(),
        by: String::new(),
        actor: Actor::Person,
    };
    run(&request, None, &args.options, &args.waiting, runtime)
}

pub(crate) fn rollback(args: &Rollback, runtime: &Runtime) -> Result<ExitCode, ReleaseError> {
    let request = Request {
        intent: Intent::Rollback,
        services: args.services.clone(),
        to: args.env.clone(),
        from: None,
        version: args.to.clone(),
        images: Vec::new(),
        pin: None,
        reason: args.options.reason.clone(),
        by: String::new(),
        actor: Actor::Person,
    };
    run(&request, None, &args.options, &args.waiting, runtime)
}

fn run(
    request: &Request,
    expected: Option<&Value>,
    options: &Options,
    waiting: &Waiting,
    runtime: &Runtime,
) -> Result<ExitCode, ReleaseError> {
    let done = change(request, expected, options, waiting, runtime)?;
    if waiting.wait && !done.is_refused && !options.dry_run {
        let tree = tree_of(&done.commit);
        let config = plan::config(&tree)?;
        for step in &done.plan.steps {
            let target = (step.environment.as_str(), step.service.as_str());
            let timeout = waiting.timeout.into();
            let outcome = wait::until_healthy(&tree, &config, target, &waiting.cluster, timeout);
            runtime.block_on(outcome)?;
        }
    }
    Ok(done.code)
}

fn change(
    request: &Request,
    expected: Option<&Value>,
    options: &Options,
    waiting: &Waiting,
    runtime: &Runtime,
) -> Result<Done, ReleaseError> {
    let clusters = wait::Clusters::new(&waiting.cluster);
    let health: &HealthOf<'_> = &|tree, config, environment, service| {
        runtime.block_on(clusters.health(tree, config, (environment, service)))
    };
    write::write_with(options, health, |tree, author, past| {
        let request = Request {
            by: author.to_owned(),
            ..request.clone()
        };
        let plan = plan::plan(tree, &request, past)?;
        let is_other = |expected: &Value| *expected != plan_file::summary(&plan);
        if expected.is_some_and(is_other) {
            return Err(ReleaseError::Stale);
        }
        Ok(plan)
    })
}

fn request_data(request: &Request) -> Value {
    json!({
        "services": request.services,
        "to": request.to,
        "from": request.from,
        "version": request.version,
        "pin": request.pin,
        "reason": request.reason,
    })
}

fn read_request(file: &PlanFile) -> Result<Request, ReleaseError> {
    Ok(Request {
        intent: Intent::Promote,
        services: file.texts("services"),
        to: file.needed("to")?,
        from: file.text("from"),
        version: file.text("version"),
        images: Vec::new(),
        pin: file.text("pin"),
        reason: file.text("reason"),
        by: String::new(),
        actor: Actor::Person,
    })
}
