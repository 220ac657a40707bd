//! Cases with Helm's answers: `golden/chart/*.jsonl`, written by `cargo xtask baseline chart`.
//!
//! `error` is Helm's text with all causes. `ours` replaces it where texts differ by design: YAML syntax
//! errors and system errors.

use crate::asked::{self, Entry};
use equate_helm::values::{UserValues, UserValuesError, Warning, coalesce, read};
use equate_helm::{Chart, Limits, Values, dependencies, schema};
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
    #[serde(default)]
    text: String,
    user: Option<User>,
    #[serde(default)]
    values: Values,
    output: Option<Value>,
    error: Option<String>,
    ours: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    files: Vec<String>,
    set: Vec<String>,
    set_string: Vec<String>,
    set_file: Vec<String>,
    set_json: Vec<String>,
    set_literal: Vec<String>,
}

impl User {
    fn values(&self) -> Result<Values, UserValuesError> {
        let file = |(index, text): (usize, &String)| (format!("{index}.yaml"), text.clone());
        let user = UserValues {
            files: self.files.iter().enumerate().map(file).collect(),
            set_json: self.set_json.clone(),
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_literal: self.set_literal.clone(),
        };
        user.values(&Limits::default(), &mut |path| std::fs::read_to_string(path))
    }
}

struct Answer {
    output: Value,
    /// `None` for cases that only load charts.
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
                None => Ok(()),
                Some(warnings) => {
                    let told = case
                        .warnings
                        .iter()
                        .filter(|line| !line.contains("unresolved URN"));
                    let wanted: Vec<String> = told.map(|line| plain_line(line)).collect();
                    match warnings == wanted {
                        true => Ok(()),
                        false => Err(format!("warned: {warnings:#?}\nwanted: {wanted:#?}")),
                    }
                }
            }
        }
    }
}

fn plain_line(line: &str) -> String {
    let Some(line) = line.strip_prefix("msg=\"") else {
        return line.to_owned();
    };
    let line = line.replacen('"', "", 1);
    match line.split_once(" error=\"") {
        Some((before, error)) => {
            let error = error.trim_end_matches('"').replace("\\\"", "\"");
            format!("{before} error={error}")
        }
        None => line,
    }
}

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
    let given = match &case.user {
        Some(user) => user.values()?,
        None => case.values.clone(),
    };
    let loaded = || Chart::from_files(asked::files(&case.entries), &limits);
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
        "read" => plain(read(&case.text, &limits)?),
        "user" => plain(given),
        "coalesce" => {
            let (values, warnings) = coalesce(&loaded()?, &given)?;
            warned(values.into(), &warnings)
        }
        "process" => {
            let (chart, warnings) = dependencies::process(&loaded()?, &given)?;
            warned(asked::described(&chart), &warnings)
        }
        "values" => {
            let (chart, mut warnings) = dependencies::process(&loaded()?, &given)?;
            let (values, more) = coalesce(&chart, &given)?;
            warnings.extend(more);
            schema::validate(&chart, &values)?;
            warned(values.into(), &warnings)
        }
        other => panic!("no such question: {other}"),
    }
}

fn plain(values: Values) -> Answered {
    Ok(Answer {
        output: values.into(),
        warnings: None,
    })
}

/// Helm's warnings come in random order, so they are sorted.
fn warned(output: Value, warnings: &[Warning]) -> Answered {
    let recorded = |warning: &Warning| {
        let line = warning.log_line();
        let attributes = line.attributes.iter();
        let attributes = attributes.map(|(name, value)| format!(" {name}={value}"));
        line.message + &attributes.collect::<String>()
    };
    let mut warnings: Vec<String> = warnings.iter().map(recorded).collect();
    warnings.sort();
    Ok(Answer {
        output,
        warnings: Some(warnings),
    })
}

#[test]
fn charts_are_loaded_as_helm_loads_them() {
    check("load.jsonl");
}

#[test]
fn user_values_are_set_as_helm_sets_them() {
    check("set.jsonl");
}

#[test]
fn values_are_coalesced_as_helm_does() {
    check("values.jsonl");
}

#[test]
fn schemas_have_helms_errors() {
    check("schema.jsonl");
}
