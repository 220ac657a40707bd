//! The ratchet: known differences, each with its reason; the list only shrinks.
//!
//! A listed step without a difference fails like an unlisted one with a difference, so the list is always
//! exact.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::compare::{Difference, report};
use super::{Error, Scenario};

/// A listed step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The scenario.
    pub scenario: String,
    /// The step, from 0.
    pub step: usize,
    /// The reason to list or skip it.
    pub reason: String,
}

/// Loads a list.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub fn load(path: &Path) -> Result<Vec<Entry>, Error> {
    super::lines(path, "ratchet entry")
}

/// The outcomes of all steps.
#[derive(Debug, Default)]
pub struct Outcomes(BTreeMap<(String, usize), Outcome>);

#[derive(Debug)]
struct Outcome {
    desc: String,
    differences: Vec<Difference>,
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Steps played.
    pub steps: usize,
    /// Skipped steps.
    pub left_out: usize,
    /// Equal steps, without skipped ones.
    pub equal: usize,
}

impl Summary {
    /// The percentage of equal steps, without skipped ones.
    pub fn percent(&self) -> f64 {
        100.0 * self.equal as f64 / (self.steps - self.left_out).max(1) as f64
    }
}

impl Outcomes {
    /// Adds the outcome of a step.
    pub fn note(&mut self, scenario: &Scenario, step: usize, differences: Vec<Difference>) {
        let desc = scenario.steps.get(step).map_or("", |step| &step.desc);
        self.note_as(&scenario.name, step, desc, differences);
    }

    /// Adds the outcome of a step other than a request, such as a command line.
    pub fn note_as(&mut self, scenario: &str, step: usize, desc: &str, differences: Vec<Difference>) {
        self.0.insert(
            (scenario.to_owned(), step),
            Outcome {
                desc: desc.to_owned(),
                differences,
            },
        );
    }

    /// Compares the outcomes with the lists.
    ///
    /// # Errors
    /// A report of the necessary changes to the lists or the code.
    pub fn judge(&self, listed: &[Entry], left_out: &[Entry]) -> Result<Summary, String> {
        let is_in = |list: &[Entry], (scenario, step): &(String, usize)| {
            list.iter()
                .any(|entry| entry.scenario == *scenario && entry.step == *step)
        };
        let mut complaints = String::new();
        for entry in listed.iter().chain(left_out) {
            let key = (entry.scenario.clone(), entry.step);
            if !self.0.contains_key(&key) {
                complain(&mut complaints, &key, "", "is listed, but there is no such step");
            }
        }
        let mut summary = Summary {
            steps: self.0.len(),
            left_out: 0,
            equal: 0,
        };
        for (key, Outcome { desc, differences }) in &self.0 {
            let equal = differences.is_empty();
            match (is_in(left_out, key), is_in(listed, key)) {
                (true, true) => complain(&mut complaints, key, desc, "is in both lists"),
                (true, false) => summary.left_out += 1,
                (false, true) if equal => {
                    complain(&mut complaints, key, desc, "is equal now: take it off the list");
                }
                (false, false) if !equal => {
                    let report = format!("differs and is not listed:\n{}", report(differences));
                    complain(&mut complaints, key, desc, &report);
                }
                (false, true | false) => {}
            }
            if equal && !is_in(left_out, key) {
                summary.equal += 1;
            }
        }
        if complaints.is_empty() {
            Ok(summary)
        } else {
            Err(complaints)
        }
    }
}

fn complain(text: &mut String, (scenario, step): &(String, usize), desc: &str, what: &str) {
    // writing to a String cannot fail
    let _ = writeln!(text, "{scenario} {step} ({desc}) {what}");
}
