//! The known differences of `docs/compatibility.d/kustomize.md` that random inputs meet.

use equate_manifest::yaml::{self, Options};
use serde_json::Value;

use super::Outcome;

/// kustomize's errors for inputs built here, and the reason.
const REFUSED_THERE: &[(&str, &str)] = &[
    (
        "but got : node contents",
        "a field made in a blank, inside a text",
    ),
    ("yaml: control characters are not allowed", "control characters"),
    ("object member name must be a string", "keys that are no texts"),
    (
        "did not find expected node content",
        "a colon begins a text in a flow list",
    ),
    (
        "did not find expected ',' or ']'",
        "a question mark in a flow list",
    ),
    ("did not find expected ',' or '}'", "a line separator in a key"),
    (
        "found a tab character where an indentation",
        "a text whose first line begins with a tab",
    ),
];

/// Endings of our errors for inputs kustomize builds.
const REFUSED_HERE: &[(&str, &str)] = &[
    ("is not a JSON value", "infinities in annotations"),
    (
        "invalid indentation in multiline quoted scalar",
        "a quoted text that goes on at its key's column",
    ),
    ("already set in map", "repeated annotations"),
];

/// The known difference between two outcomes, if any.
pub(super) fn difference(real: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (real, ours) {
        (Err(error), Ok(_)) => {
            let known = REFUSED_THERE.iter().find(|(words, _)| error.contains(words))?;
            Some(known.1)
        }
        (Ok(_), Err(error)) => {
            let known = REFUSED_HERE.iter().find(|(words, _)| error.ends_with(words))?;
            Some(known.1)
        }
        // a JSON patch may copy annotations in which kustomize keeps former names
        (Ok(text), Ok(_)) if text.contains("internal.config.kubernetes.io/previous") => {
            Some("former names, copied")
        }
        (Ok(real), Ok(ours)) => {
            multiplied(real, ours).then_some("items that lack the merge key, patched twice")
        }
        (Err(_), Err(_)) => None,
    }
}

/// Whether only items of lists differ that occur several times, at the same places on both sides: kustomize
/// aliases repeated items, so a change to one changes all.
fn multiplied(real: &str, ours: &str) -> bool {
    let values = |text: &str| -> Option<Vec<Value>> {
        let documents = yaml::load(text, &Options::default()).ok()?;
        Some(documents.into_iter().map(|document| document.value).collect())
    };
    match (values(real), values(ours)) {
        (Some(real), Some(ours)) => {
            real.len() == ours.len() && real.iter().zip(&ours).all(|(real, ours)| agree(real, ours))
        }
        _ => false,
    }
}

fn agree(real: &Value, ours: &Value) -> bool {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let same = |(key, value): (&String, &Value)| ours.get(key).is_some_and(|own| agree(value, own));
            real.len() == ours.len() && real.iter().all(same)
        }
        (Value::Array(real), Value::Array(ours)) => {
            let again = |list: &[Value], at: usize| list.iter().filter(|item| **item == list[at]).count() > 1;
            let same = |at: usize| agree(&real[at], &ours[at]) || (again(real, at) && again(ours, at));
            real.len() == ours.len() && (0..real.len()).all(same)
        }
        _ => real == ours,
    }
}
