//! `equate matrix`: the version of each service in each environment, its age, and its holds.

use super::repository::{Place, Repository, tree_of};
use super::{Output, ReleaseError, past, text};
use crate::table::{Table, Value, colour};
use equate_git::Commit;
use equate_release::config::Config;
use equate_release::fleet::Fleet;
use equate_release::hold::{Hold, Stops};
use equate_release::plan;
use equate_release::record::versions;
use equate_release::rules::span;
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

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
    let repository = args.place.open()?;
    let commit = repository.tip()?;
    let tree = tree_of(&commit);
    let config = plan::config(&tree)?;
    let named: Vec<&str> = args.services.iter().map(String::as_str).collect();
    let fleet = Fleet::of_services(&tree, &config, &named);
    let holds = plan::holds(&tree)?;
    let services: Vec<String> = match named.is_empty() {
        true => fleet.services().into_iter().map(str::to_owned).collect(),
        false => args.services.clone(),
    };
    for service in &services {
        if !fleet.services().contains(service.as_str()) {
            let near = None;
            let name = service.clone();
            return Err(plan::PlanError::Service { name, near }.into());
        }
    }
    let cells = cells(&repository, &commit, &config, &fleet, &services);
    let now = Timestamp::now();
    let holds: Vec<&Hold> = holds.iter().filter(|hold| hold.is_active(now)).collect();
    let environments: Vec<&str> = config.environments().collect();
    match args.output {
        Output::Text | Output::Wide => {
            let wide = args.output == Output::Wide;
            print_table(&environments, &services, &cells, &holds, wide, now)
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

fn cells(
    repository: &Repository,
    commit: &Commit,
    config: &Config,
    fleet: &Fleet,
    services: &[String],
) -> Cells {
    let mut cells = Cells::new();
    for environment in config.environments() {
        for service in services {
            let artifact = fleet.artifact(environment, service);
            let fault = fleet.fault(environment, service).map(str::to_owned);
            let (label, id, versions) = match &artifact {
                Some(artifact) => (
                    artifact.label(service),
                    artifact.id().short().to_owned(),
                    versions(artifact),
                ),
                None => ("-".to_owned(), String::new(), BTreeMap::new()),
            };
            let cell = Cell {
                label,
                id,
                versions,
                since: None,
                commit: None,
                fault: fault.filter(|_| artifact.is_none()),
            };
            cells.insert((service.clone(), environment.to_owned()), cell);
        }
    }
    let named: Vec<&str> = services.iter().map(String::as_str).collect();
    let places = past::places(config, fleet, &named);
    let mut missing: BTreeSet<(String, String)> = cells
        .iter()
        .filter(|(_, cell)| !cell.id.is_empty())
        .map(|(key, _)| key.clone())
        .collect();
    if missing.is_empty() {
        return cells;
    }
    past::walk(repository, commit, config, &places, |entry| {
        let key = (entry.service, entry.environment);
        if missing.remove(&key)
            && let Some(cell) = cells.get_mut(&key)
        {
            cell.since = Some(entry.commit.time);
            cell.commit = Some(entry.commit.id);
        }
        match missing.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
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
                "hold": hold.map(|hold| json!({
                    "by": hold.by,
                    "reason": hold.reason,
                    "until": hold.until.map(|until| until.to_string()),
                    "stops": hold.stops,
                    "newerThan": hold.newer_than,
                })),
            }))
        })
        .collect();
    json!({"service": service, "environments": cells})
}
