//! `equate history diff`: the services whose versions differ between two times or environments.

use super::super::repository::{Place, tree_of};
use super::super::view::View;
use super::super::{Output, ReleaseError, past, text};
use super::source::{self, Pair, Revisions};
use crate::table::{Table, Value, colour};
use equate_git::Commit;
use equate_release::artifact::Artifact;
use equate_release::fleet::Fleet;
use equate_release::plan;
use equate_release::record::versions;
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeSet;
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Show what changed in production since a day
  equate history diff prod-eu@2026-11-20 prod-eu
  # Show what production lacks
  equate history diff prod-eu staging
  # Show the source commits that staging has and production has not
  equate history diff prod-eu staging --source")]
pub(super) struct Args {
    /// Environment, with a time unless it is now: `staging`, `staging@2026-11-20`, `staging@3d`.
    #[arg(value_name = "ENVIRONMENT[@TIME]")]
    before: String,
    /// Environment to compare it with.
    #[arg(value_name = "ENVIRONMENT[@TIME]")]
    after: String,
    /// Also show the source commits between the versions of images, as their labels in the registry say.
    #[arg(long)]
    source: bool,
    #[command(flatten)]
    place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

/// An environment at a time.
struct Side {
    environment: String,
    commit: Commit,
    fleet: Fleet,
}

pub(super) fn run(args: &Args, runtime: &Runtime) -> Result<(), ReleaseError> {
    let view = View::open(&args.place, &[])?;
    let (before, after) = (side(&view, &args.before)?, side(&view, &args.after)?);
    let mut names: BTreeSet<&str> = before.fleet.services();
    names.extend(after.fleet.services());
    let rows: Vec<(&str, Option<Artifact>, Option<Artifact>)> = names
        .into_iter()
        .map(|service| {
            let of = |side: &Side| side.fleet.artifact(&side.environment, service);
            (service, of(&before), of(&after))
        })
        .filter(|(_, one, other)| differ(&before, &after, one.as_ref(), other.as_ref()))
        .collect();
    let mut pairs: Vec<Pair> = Vec::new();
    for (service, one, other) in &rows {
        if let (true, Some(one), Some(other)) = (args.source, one, other) {
            pairs.extend(source::pairs(service, one, other));
        }
    }
    let revisions = match args.source {
        true => runtime.block_on(source::ask(&pairs)),
        false => Revisions::default(),
    };
    match args.output {
        Output::Text | Output::Wide if rows.is_empty() => {
            eprintln!("no service differs");
            Ok(())
        }
        Output::Text | Output::Wide => {
            let mut table = Table::new(Vec::new(), colour());
            table.without_header();
            let header = ["SERVICE", &args.before.to_uppercase(), &args.after.to_uppercase()];
            table.row(header.iter().map(|text| Value::plain(*text)).collect());
            for (service, one, other) in &rows {
                let label = |one: Option<&Artifact>, other: Option<&Artifact>| match (one, other) {
                    (None, _) => "-".to_owned(),
                    (Some(one), Some(other)) => one.label_beside(service, other),
                    (Some(one), None) => one.label(service),
                };
                let cells = [
                    (*service).to_owned(),
                    label(one.as_ref(), other.as_ref()),
                    label(other.as_ref(), one.as_ref()),
                ];
                table.row(cells.iter().map(Value::plain).collect());
            }
            text::print(&table.take())?;
            print_sources(&pairs, &revisions)
        }
        Output::Json | Output::Yaml => {
            let of = |service: &str, artifact: &Option<Artifact>| {
                artifact.as_ref().map(|artifact| {
                    json!({
                        "version": artifact.label(service),
                        "artifact": artifact.id().to_string(),
                        "versions": versions(artifact),
                    })
                })
            };
            let services: Vec<serde_json::Value> = rows
                .iter()
                .map(|(service, one, other)| {
                    let mut value =
                        json!({"service": service, "before": of(service, one), "after": of(service, other)});
                    if args.source {
                        let own = pairs.iter().filter(|pair| pair.service == *service);
                        value["source"] = own.map(|pair| revisions.data(pair)).collect();
                    }
                    value
                })
                .collect();
            let place = |side: &Side| json!({"environment": side.environment, "commit": side.commit.revision().commit()});
            let value = json!({"before": place(&before), "after": place(&after), "services": services});
            Ok(text::print_data(args.output, &value)?)
        }
    }
}

fn print_sources(pairs: &[Pair], revisions: &Revisions) -> Result<(), ReleaseError> {
    let mut table = Table::new(vec!["SERVICE", "IMAGE", "COMMITS", "SOURCE"], colour());
    let mut is_empty = true;
    for pair in pairs {
        if let Ok((range, source)) = revisions.range(pair) {
            let cells = [pair.service.clone(), pair.image.clone(), range, source];
            table.row(cells.map(Value::plain).into());
            is_empty = false;
        }
    }
    if !is_empty {
        text::print(&format!("\n{}", table.take()))?;
    }
    for (reason, services) in revisions.unknown(pairs) {
        let services: Vec<String> = services.into_iter().collect();
        let line = format!("unknown source commits of {}: {reason}", services.join(", "));
        eprintln!("{}", text::shown(&line));
    }
    Ok(())
}

fn side(view: &View, given: &str) -> Result<Side, ReleaseError> {
    let (name, time) = match given.split_once('@') {
        Some((name, time)) => (name, Some(time)),
        None => (given, None),
    };
    let environments = plan::environments(&view.config, name)?;
    let [environment] = environments.as_slice() else {
        return Err(ReleaseError::Side(given.to_owned()));
    };
    let commit = match time {
        None => view.commit.clone(),
        Some(text) => {
            let time = text::past_time(text, Timestamp::now());
            let time = time.ok_or_else(|| ReleaseError::At(text.to_owned()))?;
            past::at(&view.repository, &view.commit, time)?
        }
    };
    Ok(Side {
        environment: environment.clone(),
        fleet: Fleet::build(&tree_of(&commit), &view.config),
        commit,
    })
}

/// Environments with registries of their own have other names for the same image: only common subjects
/// count between them.
fn differ(before: &Side, after: &Side, one: Option<&Artifact>, other: Option<&Artifact>) -> bool {
    match (one, other) {
        (None, None) => false,
        (Some(one), Some(other)) if before.environment != after.environment => {
            !(one.agrees_with(other) || one == other)
        }
        (one, other) => one != other,
    }
}
