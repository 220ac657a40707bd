//! Cases that Helm answered: `golden/chart/*.jsonl`, written by `cargo xtask baseline chart`.
//!
//! `error` is what Helm says, with all causes. Where `ours` stands instead, the words differ by design:
//! what is wrong with a YAML text, or what the system says.

use crate::asked::{self, Entry};
use equate_helm::{Chart, Limits};
use serde::Deserialize;
use serde_json::Value;
use std::error::Error;
use std::path::Path;

#[derive(Debug, Deserialize)]
struct Case {
    about: String,
    #[serde(rename = "do")]
    asked: String,
    #[serde(default)]
    entries: Vec<Entry>,
    output: Option<Value>,
    error: Option<String>,
    ours: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

struct Answer {
    output: Value,
    /// Where charts are loaded nobody is warned.
    warnings: Option<Vec<String>>,
}

type Answered = Result<Answer, Box<dyn Error>>;

fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/chart")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = String::new();
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        if let Err(difference) = compare(&case, answer(&case)) {
            wrong.push_str(&format!("\n## {}\n{difference}\n", case.about));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn compare(case: &Case, answer: Answered) -> Result<(), String> {
    match answer {
        Err(error) => {
            let said = chain(&*error);
            let wanted = case.ours.as_ref().or(case.error.as_ref());
            match wanted {
                _ if case.error.is_none() && case.ours.is_none() => {
                    Err(format!("refused: {said}\nHelm: {:?}", case.output))
                }
                Some(wanted) if *wanted == said => Ok(()),
                wanted => Err(format!(
                    "said:   {said}\nwanted: {}",
                    wanted.map_or("", String::as_str)
                )),
            }
        }
        Ok(answer) => {
            let mut wanted = case.output.clone().unwrap_or_default();
            // no list and an empty one are the same here
            if let Some(list @ Value::Null) = wanted.pointer_mut("/lock/dependencies") {
                *list = Value::Array(Vec::new());
            }
            if case.error.is_some() || answer.output != wanted {
                return Err(format!(
                    "gave:   {}\nwanted: {wanted} {:?}",
                    answer.output, case.error
                ));
            }
            match answer.warnings {
                Some(warnings) if warnings != case.warnings => {
                    Err(format!("warned: {warnings:#?}\nwanted: {:#?}", case.warnings))
                }
                _ => Ok(()),
            }
        }
    }
}

/// An error and its causes, as the command line prints them.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn answer(case: &Case) -> Answered {
    let limits = Limits::default();
    let chart = |chart: Result<Chart, equate_helm::LoadError>| -> Answered {
        Ok(Answer {
            output: asked::described(&chart?),
            warnings: None,
        })
    };
    match case.asked.as_str() {
        "files" => chart(Chart::from_files(asked::files(&case.entries), &limits)),
        "archive" => chart(Chart::from_archive(&asked::packed(&case.entries), &limits)),
        "directory" => {
            let directory = tempfile::tempdir()?;
            asked::write(directory.path(), &case.entries);
            let root = directory.path().display().to_string();
            chart(Chart::from_directory(directory.path(), &limits))
                .map_err(|error| chain(&*error).replace(&root, "DIR").into())
        }
        other => panic!("no such question: {other}"),
    }
}

#[test]
fn charts_are_loaded_as_helm_loads_them() {
    check("load.jsonl");
}
