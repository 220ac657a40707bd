//! The differences that stand in `docs/compatibility.d/kustomize.md`, as far as random inputs meet
//! them. All are inputs that the real tool refuses.

use super::Outcome;

/// What the real tool says of them, and what they are.
const REFUSED: [(&str, &str); 3] = [
    ("yaml: control characters are not allowed", "control characters"),
    ("object member name must be a string", "keys that are no texts"),
    (
        "did not find expected node content",
        "a plain scalar that begins with a colon in a flow list",
    ),
];

/// What is known of a difference; `None` if nothing is.
pub(super) fn difference(real: &Outcome, ours: &Outcome) -> Option<&'static str> {
    let (Err(error), Ok(_)) = (real, ours) else {
        return None;
    };
    let (_, what) = REFUSED.iter().find(|(words, _)| error.contains(words))?;
    Some(what)
}
