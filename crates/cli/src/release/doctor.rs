//! `equate doctor`: checks a repository for what makes promotions surprising.

use super::repository::{Place, Repository, tree_of};
use super::{Output, ReleaseError, text};
use crate::table::{Table, Value, colour};
use equate_git::Commit;
use equate_release::doctor::{Finding, Severity, examine};
use equate_release::fleet::Fleet;
use equate_release::plan::{self, PlanError};
use equate_release::record::{FORMAT, NOTES, Record};
use jiff::Timestamp;
use serde_json::json;
use std::process::ExitCode;

/// The number of commits whose records are read.
const COMMITS_MAX: usize = 1_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Check the newest commit of the branch's upstream
  equate doctor
  # Check the local branch, and print the findings as JSON
  equate doctor --local -o json

Exit codes:
  0  no errors
  1  errors")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, ReleaseError> {
    let repository = args.place.open()?;
    let commit = repository.tip()?;
    let tree = tree_of(&commit);
    let mut findings = match plan::config(&tree) {
        Ok(config) => examine(&tree, &config, &Fleet::build(&tree, &config), Timestamp::now()),
        Err(PlanError::Config(error)) => {
            let place = format!("{}:{}", error.path, error.line);
            vec![Finding::error("config", place, error.problem, error.hint)]
        }
        Err(error) => return Err(error.into()),
    };
    findings.extend(records(&repository, &commit)?);
    findings.sort();
    let has_errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    match args.output {
        Output::Text | Output::Wide if findings.is_empty() => text::print("nothing to correct\n")?,
        Output::Text | Output::Wide => text::print(&table(&findings, args.output == Output::Wide))?,
        Output::Json | Output::Yaml => {
            let value = json!({"commit": commit.revision().commit(), "findings": findings});
            text::print_data(args.output, &value)?;
        }
    }
    Ok(match has_errors {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Notes of the newest commits that are no record of this version.
fn records(repository: &Repository, tip: &Commit) -> Result<Vec<Finding>, ReleaseError> {
    let mut findings = Vec::new();
    let mut next = Some(tip.revision().commit());
    let is_shallow = repository.inner.is_shallow();
    for _ in 0..COMMITS_MAX {
        let Some(id) = next.take() else {
            break;
        };
        let notes = repository.notes(&id);
        findings.extend(notes.iter().filter_map(|text| unreadable(&id, text)));
        let parents = repository.inner.commit(&id)?.parents;
        next = parents
            .first()
            .filter(|id| !is_shallow || repository.inner.has(id))
            .cloned();
    }
    findings.dedup();
    Ok(findings)
}

fn unreadable(commit: &str, text: &str) -> Option<Finding> {
    if Record::parse_note(text).is_some() {
        return None;
    }
    let place = format!("{NOTES} {}", commit.get(..12).unwrap_or(commit));
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let format = value.as_ref().and_then(|value| value.get("format")?.as_u64());
    Some(match format {
        Some(format) if format > u64::from(FORMAT) => Finding::warning(
            "record",
            place,
            format!("the record has format {format}, and this version reads {FORMAT}"),
            "update equate to read it".to_owned(),
        ),
        _ => Finding::error(
            "record",
            place,
            "the record of the commit cannot be read".to_owned(),
            format!("remove it with `git notes --ref=equate remove {commit}`"),
        ),
    })
}

fn table(findings: &[Finding], is_wide: bool) -> String {
    let mut header = vec!["SEVERITY", "PLACE", "PROBLEM", "WHAT TO DO"];
    if is_wide {
        header.insert(1, "CHECK");
    }
    let mut table = Table::new(header, colour());
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut row = vec![
            severity,
            finding.place.as_str(),
            finding.problem.as_str(),
            finding.action.as_str(),
        ];
        if is_wide {
            row.insert(1, finding.check);
        }
        table.row(row.into_iter().map(Value::plain).collect());
    }
    table.take()
}

#[cfg(test)]
mod tests {
    use super::unreadable;
    use equate_release::doctor::Severity;
    use equate_release::record::{FORMAT, Intent, Record};

    #[test]
    fn records_of_newer_versions_are_told_from_damage() {
        let record = |format| Record {
            format,
            intent: Intent::Hold,
            by: "Mia <mia@example.org>".to_owned(),
            reason: None,
            changes: Vec::new(),
        };
        let check = |text: &str, expected: Option<Severity>| {
            let found = unreadable("3f9c2ab81d0e55", text);
            assert_eq!(found.map(|finding| finding.severity), expected, "{text}");
        };
        check(&record(FORMAT).note(), None);
        check(&record(FORMAT + 1).note(), Some(Severity::Warning));
        check("{\"format\": 1", Some(Severity::Error));
        check("Reviewed-by: x\n", Some(Severity::Error));
    }
}
