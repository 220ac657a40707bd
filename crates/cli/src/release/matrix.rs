//! `equate matrix`: the version of each service in each environment, its age, and its holds.

use super::repository::Place;
use super::view::View;
use super::{Output, ReleaseError, text};
use crate::table::{Table, Value, colour};
use equate_release::hold::{Hold, Stops};
use equate_release::plan;
use equate_release::record::versions;
use equate_release::rules::span;
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show all services
  equate matrix
  # Show two services, with artifact ids
  equate matrix checkout ledger -o wide
  # Show the local branch, without a fetch
  equate matrix --local")]
pub(crate) struct Args {
    /// Services (default: all).
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

struct Cell {
    label: String,
    id: String,
    versions: BTreeMap<String, Vec<String>>,
    since: Option<Timestamp>,
    commit: Option<String>,
    fault: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), ReleaseError> {
    let view = View::open(&args.place, &args.services)?;
    let holds = plan::holds(&view.tree)?;
    let cells = cells(&view);
    let View {
        commit,
        config,
        services,
        ..
    } = &view;
    let now = Timestamp::now();
    let holds: Vec<&Hold> = holds.iter().filter(|hold| hold.is_active(now)).collect();
    let environments: Vec<&str> = config.environments().collect();
    match args.output {
        Output::Text | Output::Wide => {
            let wide = args.output == Output::Wide;
            print_table(&environments, services, &cells, &holds, wide, now)
        }
        Output::Json | Output::Yaml => {
            let services: Vec<serde_json::Value> = services
                .iter()
                .map(|service| data(service, &environments, &cells, &holds))
                .collect();
            let value = json!({
                "commit": commit.revision().commit(),
                "environments": environments,
                "services": services,
            });
            Ok(text::print_data(args.output, &value)?)
        }
    }
}

type Cells = BTreeMap<(String, String), Cell>;

fn cells(view: &View) -> Cells {
    let mut cells = Cells::new();
    let newest = view.newest();
    for environment in view.config.environments() {
        for service in &view.services {
            let artifact = view.fleet.artifact(environment, service);
            let fault = view.fleet.fault(environment, service).map(str::to_owned);
            let (label, id, versions) = match &artifact {
                Some(artifact) => (
                    artifact.label(service),
                    artifact.id().short().to_owned(),
                    versions(artifact),
                ),
                None => ("-".to_owned(), String::new(), BTreeMap::new()),
            };
            let key = (service.clone(), environment.to_owned());
            let brought = newest.get(service, environment).map(|entry| entry.commit.clone());
            let cell = Cell {
                label,
                id,
                versions,
                since: brought.as_ref().map(|commit| commit.time),
                commit: brought.map(|commit| commit.id),
                fault: fault.filter(|_| artifact.is_none()),
            };
            cells.insert(key, cell);
        }
    }
    cells
}

fn print_table(
    environments: &[&str],
    services: &[String],
    cells: &Cells,
    holds: &[&Hold],
    wide: bool,
    now: Timestamp,
) -> Result<(), ReleaseError> {
    let mut header = vec!["SERVICE".to_owned()];
    header.extend(environments.iter().map(|name| name.to_uppercase()));
    header.push(String::new());
    let mut rows = vec![header];
    let mut faults = BTreeSet::new();
    for service in services {
        let mut row = vec![service.clone()];
        for environment in environments {
            let Some(cell) = cells.get(&(service.clone(), (*environment).to_owned())) else {
                continue;
            };
            let age = cell.since.map(|since| span(now.duration_since(since)));
            let mut shown = match (&cell.fault, age) {
                (Some(fault), _) => {
                    faults.insert(format!("{environment}: {fault}"));
                    "error".to_owned()
                }
                (None, Some(age)) => format!("{}  {age}", cell.label),
                (None, None) => cell.label.clone(),
            };
            if wide && !cell.id.is_empty() {
                shown.push_str(&format!("  {}", cell.id));
            }
            row.push(shown);
        }
        let held = holds.iter().filter(|hold| hold.service == *service);
        let held: Vec<String> = held.map(|hold| consequence(hold)).collect();
        row.push(held.join("; "));
        rows.push(row);
    }
    let mut table = Table::new(Vec::new(), colour());
    table.without_header();
    for row in rows {
        table.row(row.into_iter().map(Value::plain).collect());
    }
    text::print(&table.take())?;
    for fault in faults {
        eprintln!("{fault}");
    }
    Ok(())
}

/// `prod-us held by anna until 27 Nov: EU first`.
fn consequence(hold: &Hold) -> String {
    let until = match hold.until {
        Some(until) => format!(" until {}", text::day(until)),
        None => String::new(),
    };
    let waits = match (hold.stops, &hold.newer_than) {
        (Stops::All, _) => String::new(),
        (Stops::Automation, Some(version)) => {
            format!(", automation waits for a version newer than {version}")
        }
        (Stops::Automation, None) => ", automation waits".to_owned(),
    };
    let (environment, name, reason) = (&hold.environment, hold.name(), &hold.reason);
    format!("{environment} held by {name}{until}: {reason}{waits}")
}

fn data(service: &str, environments: &[&str], cells: &Cells, holds: &[&Hold]) -> serde_json::Value {
    let cells: Vec<serde_json::Value> = environments
        .iter()
        .filter_map(|environment| {
            let cell = cells.get(&(service.to_owned(), (*environment).to_owned()))?;
            let hold = holds
                .iter()
                .find(|hold| hold.service == service && hold.environment == **environment);
            Some(json!({
                "environment": environment,
                "version": cell.label,
                "artifact": cell.id,
                "versions": cell.versions,
                "since": cell.since.map(|since| since.to_string()),
                "commit": cell.commit,
                "error": cell.fault,
                "hold": hold.map(|hold| text::hold_data(hold)),
            }))
        })
        .collect();
    json!({"service": service, "environments": cells})
}
