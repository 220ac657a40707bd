//! `equate promote`, `equate release` and `equate rollback`.

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
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::Runtime;

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
{EXIT_CODES}"))]
pub(crate) struct Promote {
    /// Services; all change in one commit, or none.
    #[arg(value_name = "SERVICE", required_unless_present = "apply")]
    services: Vec<String>,
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
    /// Services; all change in one commit, or none.
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
    if let Some(path) = &args.apply {
        let (request, summary) = read_plan(path)?;
        return run(&request, Some(&summary), &args.options, &args.waiting, runtime);
    }
    if let Some(path) = &args.plan {
        let mut options = args.options.clone();
        options.dry_run = true;
        let done = change(&request, None, &options, &args.waiting, runtime)?;
        if !done.is_refused {
            write_plan(path, &request, &done)?;
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
        let is_other = |expected: &Value| *expected != summary(&plan);
        if expected.is_some_and(is_other) {
            let reason = "the repository changed so that the same request changes something else";
            return Err(ReleaseError::Stale(reason.to_owned()));
        }
        Ok(plan)
    })
}

fn summary(plan: &plan::Plan) -> Value {
    // texts and numbers always serialize
    serde_json::to_value(plan.summary()).unwrap_or_default()
}

fn write_plan(path: &Path, request: &Request, done: &Done) -> Result<(), ReleaseError> {
    let value = json!({
        "format": equate_release::record::FORMAT,
        "base": done.commit.revision().commit(),
        "request": {
            "services": request.services,
            "to": request.to,
            "from": request.from,
            "version": request.version,
            "pin": request.pin,
            "reason": request.reason,
        },
        "plan": summary(&done.plan),
    });
    let text = format!("{value:#}\n");
    std::fs::write(path, text).map_err(|source| ReleaseError::File {
        doing: "write",
        path: path.to_owned(),
        source,
    })
}

fn read_plan(path: &Path) -> Result<(Request, Value), ReleaseError> {
    let read = std::fs::read_to_string(path).map_err(|source| ReleaseError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    })?;
    let wrong = || ReleaseError::PlanFile {
        name: path.display().to_string(),
    };
    let value: Value = serde_json::from_str(&read).map_err(|_| wrong())?;
    if value.get("format").and_then(Value::as_u64) != Some(u64::from(equate_release::record::FORMAT)) {
        return Err(wrong());
    }
    let request = value.get("request").ok_or_else(wrong)?;
    let text = |key: &str| request.get(key).and_then(Value::as_str).map(str::to_owned);
    let services = request
        .get("services")
        .and_then(Value::as_array)
        .ok_or_else(wrong)?;
    let services = services.iter().filter_map(Value::as_str).map(str::to_owned);
    let request = Request {
        intent: Intent::Promote,
        services: services.collect(),
        to: text("to").ok_or_else(wrong)?,
        from: text("from"),
        version: text("version"),
        images: Vec::new(),
        pin: text("pin"),
        reason: text("reason"),
        by: String::new(),
        actor: Actor::Person,
    };
    let plan = value.get("plan").cloned().ok_or_else(wrong)?;
    Ok((request, plan))
}
