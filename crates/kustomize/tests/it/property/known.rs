//! The differences that stand in `docs/compatibility.d/kustomize.md`, as far as random inputs meet
//! them.

use super::Outcome;

/// What the real tool says when it refuses something that is built here, and what that is.
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

/// How our refusals end of what is built there.
const REFUSED_HERE: &[(&str, &str)] = &[
    ("is not a JSON value", "infinities in annotations"),
    (
        "invalid indentation in multiline quoted scalar",
        "a quoted text that goes on at its key's column",
    ),
    ("already set in map", "repeated annotations"),
];

/// What is known of a difference; `None` if nothing is.
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
        // a JSON patch may copy annotations, where upstream keeps a resource's former names
        (Ok(text), Ok(_)) => text
            .contains("internal.config.kubernetes.io/previous")
            .then_some("former names, copied"),
        (Err(_), Err(_)) => None,
    }
}
