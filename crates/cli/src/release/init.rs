//! `equate init`: finds environments by convention and writes `equate.yaml`.

use super::repository::{Place, tree_of};
use super::{ReleaseError, text};
use equate_release::config::{Config, FILE};
use equate_release::fleet::Fleet;
use equate_release::layout;
use equate_release::plan::PlanError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Write an equate.yaml for the environments of this repository
  equate init
  # Only print it
  equate init --dry-run")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print the file instead of writing it.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), ReleaseError> {
    let repository = args.place.open()?;
    let path = repository.inner.root().join(FILE);
    if path.exists() && !args.dry_run {
        return Err(ReleaseError::Exists(FILE));
    }
    let commit = repository.tip()?;
    let tree = tree_of(&commit);
    let config = layout::detect(&tree).ok_or(PlanError::NoEnvironments)?;
    let written = layout::to_text(&config);
    if args.dry_run {
        text::print(&written)?;
        return Ok(());
    }
    std::fs::write(&path, &written).map_err(|source| ReleaseError::File {
        doing: "write",
        path: path.clone(),
        source,
    })?;
    let fleet = Fleet::build(&tree, &config);
    text::print(&found(&config, &fleet, written.lines().count()))?;
    Ok(())
}

fn found(config: &Config, fleet: &Fleet, lines: usize) -> String {
    let pattern = config.services.pattern().to_string();
    let parent = pattern.split("{environment}").next().unwrap_or_default();
    let parent = match parent {
        "" => "the root".to_owned(),
        parent if parent.contains('{') => pattern.clone(),
        parent => parent.to_owned(),
    };
    let stages: Vec<String> = config
        .stages
        .iter()
        .map(|stage| match stage.members.as_slice() {
            [only] if *only == stage.name => only.clone(),
            members => format!("{} ({})", stage.name, members.join(", ")),
        })
        .collect();
    let mut text = format!(
        "{} under {parent}, {}, {} that set a version\norder from names: {}\n",
        counted(config.environments().count(), "environment"),
        counted(fleet.services().len(), "service"),
        counted(fleet.fields(), "place"),
        stages.join(" > "),
    );
    for unit in &fleet.units {
        if let Err(problem) = &unit.state {
            text.push_str(&format!("{} does not build: {problem}\n", unit.place.directory));
        }
    }
    text.push_str(&format!("wrote {FILE} ({lines} lines); nothing else changed\n"));
    text
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
