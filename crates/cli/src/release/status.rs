//! `equate status`: what runs where, what could be promoted next, and what refuses it now.

use super::past::Newest;
use super::repository::Place;
use super::view::View;
use super::{Output, ReleaseError, text, wait};
use crate::connection;
use crate::table::{Table, Value, colour};
use equate_release::fleet::Builds;
use equate_release::hold::Hold;
use equate_release::plan::{self, Next, Outlook, Past};
use equate_release::record::versions;
use equate_release::rules::{Verdict, span};
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show what could be promoted, and what refuses it
  equate status
  # Show one service in production
  equate status checkout --env prod
  # Show the answers of all rules as JSON
  equate status checkout -o json")]
pub(crate) struct Args {
    /// Services (default: all).
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Environment or group (default: all).
    #[arg(short, long, value_name = "ENVIRONMENT")]
    env: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    cluster: connection::Options,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

pub(crate) fn run(args: &Args, runtime: &Runtime) -> Result<(), ReleaseError> {
    let view = View::open(&args.place, &args.services)?;
    let environments = view.environments(args.env.as_deref())?;
    let holds = plan::holds(&view.tree)?;
    let newest = view.newest();
    let now = Timestamp::now();
    // the newest change of an environment brought what it has, so rules need no older one
    let entries = |service: &str| newest.service(service).to_vec();
    let clusters = wait::Clusters::new(&args.cluster);
    let health = |environment: &str, service: &str| {
        runtime.block_on(clusters.health(&view.tree, &view.config, (environment, service)))
    };
    let past = Past {
        entries: &entries,
        health: &health,
        now,
        builds: &Builds::default(),
    };
    let mut seen = Vec::new();
    for service in &view.services {
        for environment in &environments {
            let target = (service.as_str(), environment.as_str());
            let outlook = plan::outlook(&view.tree, &view.config, &view.fleet, &holds, past, target);
            let fault = view.fleet.fault(environment, service);
            seen.push((outlook, fault));
        }
    }
    match args.output {
        Output::Text | Output::Wide => {
            let table = table(&seen, &newest, args.output == Output::Wide, now);
            text::print(&table)?;
            let holds = seen.iter().flat_map(|(outlook, _)| &outlook.holds);
            let shown: Vec<String> = holds.map(held).collect();
            if !shown.is_empty() {
                text::print(&format!("\n{}", shown.concat()))?;
            }
            Ok(())
        }
        Output::Json | Output::Yaml => {
            let value = json!({
                "commit": view.commit.revision().commit(),
                "services": seen.iter().map(|seen| data(seen, &newest)).collect::<Vec<_>>(),
            });
            Ok(text::print_data(args.output, &value)?)
        }
    }
}

type Seen<'v> = (Outlook, Option<&'v str>);

fn table(seen: &[Seen<'_>], newest: &Newest, is_wide: bool, now: Timestamp) -> String {
    let mut header = vec!["SERVICE", "ENVIRONMENT", "VERSION", "AGE", "NEXT"];
    if is_wide {
        header.extend(["ARTIFACT", "COMMIT", "BY"]);
    }
    header.push("REFUSED BY");
    let mut table = Table::new(header, colour());
    for (outlook, fault) in seen {
        let brought = newest.get(&outlook.service, &outlook.environment);
        let age = brought.map(|entry| span(now.duration_since(entry.commit.time)));
        let version = match (&outlook.current, fault) {
            (Some(artifact), _) => artifact.label(&outlook.service),
            (None, Some(_)) => "error".to_owned(),
            (None, None) => "-".to_owned(),
        };
        let mut row = vec![
            outlook.service.clone(),
            outlook.environment.clone(),
            version,
            age.unwrap_or_else(|| "-".to_owned()),
            next(outlook),
        ];
        if is_wide {
            let id = outlook
                .current
                .as_ref()
                .map(equate_release::artifact::Artifact::id);
            row.push(id.map_or_else(|| "-".to_owned(), |id| id.short().to_owned()));
            let commit = brought.map(|entry| entry.commit.id.clone());
            row.push(commit.unwrap_or_else(|| "-".to_owned()));
            let by = brought.map(|entry| entry.commit.author.clone());
            row.push(by.unwrap_or_else(|| "-".to_owned()));
        }
        row.push(refusal(outlook, now));
        table.row(row.into_iter().map(Value::plain).collect());
    }
    table.take()
}

fn next(outlook: &Outlook) -> String {
    match &outlook.next {
        Next::Nothing | Next::Same { .. } | Next::Impossible(_) => "-".to_owned(),
        Next::Versions { from, artifact, .. } => {
            let label = match &outlook.current {
                Some(current) => artifact.label_beside(&outlook.service, current),
                None => artifact.label(&outlook.service),
            };
            format!("{label} from {from}")
        }
    }
}

fn refusal(outlook: &Outlook, now: Timestamp) -> String {
    match &outlook.next {
        Next::Nothing | Next::Same { .. } => String::new(),
        Next::Impossible(error) => error.to_string(),
        Next::Versions { verdicts, .. } => {
            let refused = verdicts.iter().filter(|verdict| verdict.refused);
            let reasons: Vec<String> = refused.map(|verdict| reason(verdict, now)).collect();
            reasons.join("; ")
        }
    }
}

fn reason(verdict: &Verdict, now: Timestamp) -> String {
    text::reason(verdict, now).replacen("   ", " ", 1)
}

/// A hold and its consequence.
fn held(hold: &Hold) -> String {
    let until = match hold.until {
        Some(until) => format!(" until {}", text::day(until)),
        None => String::new(),
    };
    let (service, environment, name) = (&hold.service, &hold.environment, hold.name());
    let first = format!(
        "{service} in {environment}: held by {name}{until}: {}",
        hold.reason
    );
    let (consequence, path, line) = (hold.consequence(), &hold.path, hold.line);
    format!(
        "{}\n  {consequence}\n  {path}:{line}; `equate unhold {service} --env {environment}` ends it\n",
        text::shown(&first)
    )
}

fn data((outlook, fault): &Seen<'_>, newest: &Newest) -> serde_json::Value {
    let service = &outlook.service;
    let brought = newest.get(service, &outlook.environment);
    let current = outlook.current.as_ref();
    let next = match &outlook.next {
        Next::Nothing => json!({"state": "none"}),
        Next::Same { from } => json!({"state": "same", "from": from}),
        Next::Impossible(error) => json!({"state": "impossible", "error": error.to_string()}),
        Next::Versions {
            from,
            artifact,
            verdicts,
        } => {
            let is_refused = verdicts.iter().any(|verdict| verdict.refused);
            json!({
                "state": if is_refused { "refused" } else { "allowed" },
                "from": from,
                "version": artifact.label(service),
                "artifact": artifact.id().to_string(),
                "versions": versions(artifact),
                "verdicts": verdicts,
            })
        }
    };
    let holds: Vec<serde_json::Value> = outlook.holds.iter().map(text::hold_data).collect();
    json!({
        "service": service,
        "environment": outlook.environment,
        "version": current.map(|artifact| artifact.label(service)),
        "artifact": current.map(|artifact| artifact.id().to_string()),
        "versions": current.map(versions),
        "since": brought.map(|entry| entry.commit.time.to_string()),
        "commit": brought.map(|entry| entry.commit.id.clone()),
        "error": if current.is_none() { *fault } else { None },
        "next": next,
        "holds": holds,
    })
}
