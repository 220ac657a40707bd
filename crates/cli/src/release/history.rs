//! `equate history`: the changes of versions, from git alone.

use super::repository::{Place, tree_of};
use super::{Output, ReleaseError, past, text};
use crate::connection;
use crate::table::{Table, Value, colour};
use equate_release::fleet::Fleet;
use equate_release::history::Entry;
use equate_release::plan;
use equate_release::record::{Record, versions};
use equate_release::rules::span;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Runtime;

mod at;
mod diff;
mod source;

#[derive(Debug, clap::Args)]
#[command(
    mut_arg("kubeconfig", |arg| arg.requires("at")),
    mut_arg("context", |arg| arg.requires("at")),
    after_help = "Examples:
  # Show the last changes of a service in production
  equate history checkout --env prod-eu
  # Show the last 50 changes of all services as JSON
  equate history -c 50 -o json
  # Show what git declared three days ago, and when it was applied
  equate history --at 3d --env prod
  # Show what changed in an environment since a day
  equate history diff prod-eu@2026-11-20 prod-eu"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Services (default: all).
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Environment or group (default: all).
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: Option<String>,
    /// Maximum number of changes.
    #[arg(short = 'c', long, default_value_t = 20, value_name = "NUMBER")]
    count: usize,
    /// Show what git declared at a time, not the changes: a time, a day (its start), or a duration before now.
    #[arg(long, value_name = "TIME", conflicts_with = "count")]
    at: Option<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the services whose versions differ between two times or environments.
    Diff(diff::Args),
}

pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<(), ReleaseError> {
    if let Some(Command::Diff(args)) = &args.command {
        return diff::run(args, runtime);
    }
    if let Some(time) = &args.at {
        let env = args.env.as_deref();
        let wanted = (time.as_str(), args.services.as_slice(), env);
        return at::run(wanted, &args.place, &args.cluster, args.output, runtime);
    }
    changes(args)
}

/// A change and what its commit says.
struct Shown {
    entry: Entry,
    subject: String,
    record: Option<Record>,
}

fn changes(args: &Args) -> Result<(), ReleaseError> {
    let repository = args.place.open()?;
    let commit = repository.tip()?;
    let tree = tree_of(&commit);
    let config = plan::config(&tree)?;
    let environments = match &args.env {
        None => None,
        Some(name) => Some(plan::environments(&config, name)?),
    };
    let services: Vec<&str> = args.services.iter().map(String::as_str).collect();
    let history = past::history(&repository, &commit, &config)?;
    let fleet = Fleet::of_history(&tree, &config, &history);
    let mut places = past::places(&config, &fleet, &services);
    if let Some(environments) = &environments {
        places.retain(|place| environments.contains(&place.environment));
    }
    let is_wanted = |entry: &Entry| services.is_empty() || services.contains(&entry.service.as_str());
    let mut entries: Vec<Shown> = Vec::new();
    for entry in past::changes(&history, &places)
        .filter(is_wanted)
        .take(args.count)
    {
        let message = repository.message(&entry.commit.id)?;
        entries.push(Shown {
            record: repository.record(&entry.commit.id, &message),
            subject: text::subject(&message),
            entry,
        });
    }
    if entries.is_empty() && !services.is_empty() {
        // a service that is gone has history; a name without any is a mistake
        let names = fleet.names(&tree, &config);
        for service in &services {
            plan::check_service(names.iter().map(String::as_str), service)?;
        }
    }
    match args.output {
        Output::Text | Output::Wide => print_table(&entries, args.output == Output::Wide),
        Output::Json | Output::Yaml => {
            let entries: Vec<serde_json::Value> = entries.iter().map(data).collect();
            Ok(text::print_data(args.output, &json!({"changes": entries}))?)
        }
    }
}

fn intent(record: Option<&Record>) -> String {
    record.map_or_else(|| "by hand".to_owned(), |record| record.intent.to_string())
}

fn label(entry: &Entry, artifact: Option<&equate_release::artifact::Artifact>) -> String {
    let other = match artifact == entry.before.as_ref() {
        true => entry.after.as_ref(),
        false => entry.before.as_ref(),
    };
    match (artifact, other) {
        (None, _) => "-".to_owned(),
        (Some(artifact), Some(other)) => artifact.label_beside(&entry.service, other),
        (Some(artifact), None) => artifact.label(&entry.service),
    }
}

fn print_table(entries: &[Shown], wide: bool) -> Result<(), ReleaseError> {
    if entries.is_empty() {
        eprintln!("no change of a version");
        return Ok(());
    }
    let now = Timestamp::now();
    let header = vec![
        "AGE",
        "SERVICE",
        "ENVIRONMENT",
        "VERSION",
        "BEFORE",
        "BY",
        "COMMIT",
        "WHY",
    ];
    let mut table = Table::new(header, colour());
    for Shown {
        entry,
        subject,
        record,
    } in entries
    {
        let commit = match wide {
            true => entry.commit.id.clone(),
            false => entry.commit.id.chars().take(7).collect(),
        };
        let why = match record.as_ref().and_then(|record| record.reason.clone()) {
            Some(reason) => format!("{}: {reason}", intent(record.as_ref())),
            None if record.is_none() => subject.clone(),
            None => intent(record.as_ref()),
        };
        let row = [
            span(now.duration_since(entry.commit.time)),
            entry.service.clone(),
            entry.environment.clone(),
            label(entry, entry.after.as_ref()),
            label(entry, entry.before.as_ref()),
            entry.commit.author.clone(),
            commit,
            why,
        ];
        table.row(row.iter().map(Value::plain).collect());
    }
    text::print(&table.take())?;
    Ok(())
}

fn data(shown: &Shown) -> serde_json::Value {
    let Shown {
        entry,
        subject,
        record,
    } = shown;
    let side = |artifact: Option<&equate_release::artifact::Artifact>| {
        artifact.map(|artifact| {
            json!({
                "version": label(entry, Some(artifact)),
                "artifact": artifact.id().to_string(),
                "versions": versions(artifact),
            })
        })
    };
    json!({
        "commit": entry.commit.id,
        "time": entry.commit.time.to_string(),
        "author": {"name": entry.commit.author, "email": entry.commit.email},
        "subject": subject,
        "service": entry.service,
        "environment": entry.environment,
        "before": side(entry.before.as_ref()),
        "after": side(entry.after.as_ref()),
        "record": record,
    })
}
