//! Deprecated fields: reported, never refused.

use crate::error::Place;
use std::fmt;

/// The deprecated fields and their successors, in the order they are reported.
const SUCCESSORS: [(&str, &str, &str); 6] = [
    ("bases", "resources", ""),
    ("commonLabels", "labels", ""),
    ("imageTags", "images", ""),
    ("patchesJson6902", "patches", ""),
    ("patchesStrategicMerge", "patches", ""),
    ("vars", "replacements", "[EXPERIMENTAL] "),
];

/// A deprecated field that a kustomization file sets. Its text is the line kustomize writes to stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deprecation {
    /// The place of the field.
    pub place: Place,
    /// The deprecated field.
    pub field: &'static str,
    /// The field to use instead.
    pub instead: &'static str,
    /// kustomize's hint about `kustomize edit fix`.
    remark: &'static str,
}

impl fmt::Display for Deprecation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place: _,
            field,
            instead,
            remark,
        } = self;
        write!(
            f,
            "# Warning: '{field}' is deprecated. Please use '{instead}' instead. \
             {remark}Run 'kustomize edit fix' to update your Kustomization automatically."
        )
    }
}

/// The deprecated fields a file sets; an empty list or map counts as set.
pub(super) fn among(is_set: impl Fn(&str) -> bool, place: impl Fn(&str) -> Place) -> Vec<Deprecation> {
    let set = SUCCESSORS.iter().filter(|(field, _, _)| is_set(field));
    set.map(|&(field, instead, remark)| Deprecation {
        place: place(field),
        field,
        instead,
        remark,
    })
    .collect()
}
