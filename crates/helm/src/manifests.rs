//! Objects and hooks of rendered templates, both in the order of their kinds.
//!
//! Manifests keep the text of their template, comments included. The cost is one pass over the text. As
//! in Helm 4.2.4 and later, every line that starts with `---` separates documents, whatever follows.

use crate::hooks::{DocumentKind, Hook};
use crate::order::Order;
use std::fmt;
use std::sync::Arc;

pub use crate::head::{Head, HeadError};

/// An object of a release, as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its template: `CHART/templates/service.yaml`.
    pub source: Arc<str>,
    /// The document.
    pub content: Arc<str>,
    /// Its identifying fields.
    pub head: Head,
}

impl fmt::Debug for Manifest {
    /// Without the content, which may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            content,
            head,
        } = self;
        write!(
            f,
            "{} {} of {source} ({} bytes)",
            head.kind,
            head.name,
            content.len()
        )
    }
}

/// The objects and hooks of a release.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sorted {
    /// The hooks.
    pub hooks: Vec<Hook>,
    /// The objects.
    pub manifests: Vec<Manifest>,
    /// Hooks for unknown events, which are ignored.
    pub ignored: Vec<Ignored>,
}

impl Sorted {
    fn documents(&self) -> usize {
        self.hooks.len() + self.manifests.len() + self.ignored.len()
    }
}

/// A hook for an unknown event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Its template.
    pub source: Arc<str>,
    /// Its annotation.
    pub events: String,
}

/// A rendered template contains an invalid manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}")]
pub struct ManifestError {
    /// The template.
    pub path: Arc<str>,
    /// The cause.
    #[source]
    pub fault: HeadError,
}

/// The most documents of a chart: each takes some hundred bytes besides its text.
const DOCUMENTS_MAX: usize = 100_000;

const NOTES: &str = "NOTES.txt";

/// Splits and sorts rendered templates: pairs of a path and a text. Skips notes, partials (`_*`) and
/// blank files.
pub fn sort<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    order: Order,
) -> Result<Sorted, ManifestError> {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort_by_key(|(path, _)| *path);
    let mut sorted = Sorted::default();
    for (path, text) in files {
        if !path.ends_with(NOTES) && !file_name(path).starts_with('_') {
            take_file(&mut sorted, &path.into(), text)?;
        }
    }
    order.sort(&mut sorted.hooks, |hook| &hook.kind);
    order.sort(&mut sorted.manifests, |manifest| &manifest.head.kind);
    Ok(sorted)
}

/// The notes of a chart, with those of its subcharts if requested; may be empty.
pub fn notes<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    chart: &str,
    subcharts: bool,
) -> String {
    let own = format!("{chart}/templates/{NOTES}");
    let mut notes: Vec<_> = files
        .into_iter()
        .filter(|(path, _)| *path == own || subcharts && path.ends_with(NOTES))
        .collect();
    notes.sort_by_key(|(path, _)| *path);
    let mut text = String::new();
    for (_, note) in notes {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(note);
    }
    text
}

/// The documents of a text that are not blank, without leading blanks.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    documents(text).map(|(_, document)| document)
}

fn documents(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let first = text.len() - text.trim_start().len();
    // a separator starts a line, and the first line has no line break before it
    let mut from = Some(match text[first..].starts_with("---") {
        true => first + 3,
        false => first,
    });
    std::iter::from_fn(move || {
        let start = from?;
        let end = text[start..].find("\n---").map(|at| start + at + 1);
        from = end.map(|end| end + 3);
        let document = &text[start..end.unwrap_or(text.len())];
        let content = document.trim_start();
        Some((start + document.len() - content.len(), content))
    })
    .filter(|(_, document)| !document.is_empty())
}

fn take_file(sorted: &mut Sorted, path: &Arc<str>, text: &str) -> Result<(), ManifestError> {
    let (mut counted, mut line) = (0, 1);
    for (start, document) in documents(text) {
        let passed = &text.as_bytes()[counted..start];
        line += passed.iter().filter(|byte| **byte == b'\n').count();
        counted = start;
        let wrong = |fault| ManifestError {
            path: Arc::clone(path),
            fault,
        };
        if sorted.documents() == DOCUMENTS_MAX {
            return Err(wrong(HeadError::Documents(DOCUMENTS_MAX)));
        }
        let head = Head::read(document, line).map_err(wrong)?;
        let content: Arc<str> = document.into();
        match Hook::find(&head, path, &content) {
            DocumentKind::Hook(hook) => sorted.hooks.push(*hook),
            DocumentKind::Unknown(events) => sorted.ignored.push(Ignored {
                source: Arc::clone(path),
                events,
            }),
            DocumentKind::NoHook => sorted.manifests.push(Manifest {
                source: Arc::clone(path),
                content,
                head,
            }),
        }
    }
    Ok(())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
