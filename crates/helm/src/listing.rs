//! What `helm template` prints, and which files it writes instead.
//!
//! The texts of a release in the order in which Helm shows them: definitions of kinds, if they are asked
//! for, objects, then hooks. Byte for byte what Helm 4.3's command writes. Nothing is written here: files
//! are a plan.

use crate::chart::Chart;
use crate::file_match;
use crate::hooks::{Event, Hook};
use crate::manifests::{Manifest, Sorted, split};
use equate_template::clean_path;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// No hooks.
    pub no_hooks: bool,
    /// No hooks that are tests.
    pub skip_tests: bool,
    /// Only what comes from templates whose paths below the chart match one of these patterns.
    pub show_only: Vec<String>,
}

/// A file of `crds/`: it is not rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crd<'c> {
    /// Its path: `CHART/charts/SUBCHART/crds/widgets.yaml`.
    pub source: String,
    /// What is in it.
    pub content: Cow<'c, str>,
}

/// No template matches a pattern of [`Choices::show_only`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not find template {0} in chart")]
pub struct NoTemplate(pub String);

/// A file to write, in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// Where: the directory that was named, and the template's path below it.
    pub path: String,
    /// What.
    pub text: String,
    /// Whether what is there is kept.
    pub mode: WriteMode,
}

/// What happens to a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It is replaced.
    Replace,
    /// It is continued.
    Append,
    /// It is continued, if it is there: hooks never replace a file.
    AppendIfThere,
}

/// The definitions of kinds that a chart and its subcharts bring, the chart's own first.
pub fn crds(chart: &Chart) -> Vec<Crd<'_>> {
    let mut found = Vec::new();
    collect_crds(chart, chart.name(), &mut found);
    found
}

fn collect_crds<'c>(chart: &'c Chart, path: &str, found: &mut Vec<Crd<'c>>) {
    for file in chart.files.iter().filter(|file| is_crd(&file.name)) {
        found.push(Crd {
            source: format!("{path}/{}", file.name),
            content: String::from_utf8_lossy(&file.data),
        });
    }
    for subchart in &chart.dependencies {
        collect_crds(subchart, &format!("{path}/charts/{}", subchart.name()), found);
    }
}

fn is_crd(name: &str) -> bool {
    let extension = name.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    name.starts_with("crds/")
        && extension.is_some_and(|(_, extension)| {
            let known = ["yaml", "yml", "json"];
            known.iter().any(|known| known.eq_ignore_ascii_case(extension))
        })
}

/// The manifest of a release, as its record holds it: all objects, no hooks.
pub fn manifest(crds: &[Crd<'_>], manifests: &[Manifest]) -> String {
    let mut text = String::new();
    for crd in crds {
        push(&mut text, &crd.source, &crd.content);
    }
    for manifest in manifests {
        push(&mut text, &manifest.source, &manifest.content);
    }
    text
}

/// What is shown of files that could not be sorted.
pub fn unsorted<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    choices: &Choices,
) -> Result<String, NoTemplate> {
    let mut text = String::new();
    for (path, content) in files {
        if !content.trim().is_empty() {
            push(&mut text, path, content);
        }
    }
    let text = format!("{}\n", text.trim());
    match choices.show_only.is_empty() {
        true => Ok(text),
        false => only(&text, &choices.show_only),
    }
}

/// What `helm template` prints.
pub fn text(crds: &[Crd<'_>], sorted: &Sorted, choices: &Choices) -> Result<String, NoTemplate> {
    let mut text = format!("{}\n", manifest(crds, &sorted.manifests).trim());
    for hook in shown_hooks(sorted, choices) {
        push(&mut text, &hook.path, &hook.manifest);
    }
    match choices.show_only.is_empty() {
        true => Ok(text),
        false => only(&text, &choices.show_only),
    }
}

/// The files `helm template --output-dir` writes; below a directory with the release's name, if it is
/// given, but for definitions of kinds. After them Helm prints an empty line: [`text`] of nothing.
pub fn files(
    directory: &str,
    release: Option<&str>,
    crds: &[Crd<'_>],
    sorted: &Sorted,
    choices: &Choices,
) -> Vec<FileWrite> {
    let below = match release {
        Some(release) => joined(directory, release),
        None => directory.to_owned(),
    };
    let mut written: BTreeSet<&str> = BTreeSet::new();
    let mut writes = Vec::new();
    let mut write = |directory: &str, source: &str, content: &str, mode: WriteMode| {
        let mut text = String::new();
        push(&mut text, source, content);
        writes.push(FileWrite {
            path: format!("{directory}/{source}"),
            text,
            mode,
        });
    };
    let mut mode = |source| match written.insert(source) {
        true => WriteMode::Replace,
        false => WriteMode::Append,
    };
    for crd in crds {
        write(directory, &crd.source, &crd.content, mode(&crd.source));
    }
    for manifest in &sorted.manifests {
        write(
            &below,
            &manifest.source,
            &manifest.content,
            mode(&manifest.source),
        );
    }
    for hook in shown_hooks(sorted, choices) {
        write(&below, &hook.path, &hook.manifest, WriteMode::AppendIfThere);
    }
    writes
}

fn shown_hooks<'s>(sorted: &'s Sorted, choices: &Choices) -> impl Iterator<Item = &'s Hook> {
    let (no_hooks, skip_tests) = (choices.no_hooks, choices.skip_tests);
    let hooks = sorted.hooks.iter();
    hooks.filter(move |hook| !(no_hooks || skip_tests && hook.runs_on(&Event::Test)))
}

fn push(text: &mut String, source: &str, content: &str) {
    for part in ["---\n# Source: ", source, "\n", content, "\n"] {
        text.push_str(part);
    }
}

/// A malformed pattern matches nothing.
fn is_alike(pattern: &str, source: &str) -> bool {
    file_match::matches(pattern.as_bytes(), source.as_bytes()).unwrap_or(false)
}

/// The documents of a listing whose source matches, in the order of the patterns.
fn only(listing: &str, patterns: &[String]) -> Result<String, NoTemplate> {
    let documents: Vec<(&str, &str)> = split(listing)
        .filter_map(|document| Some((source(document)?, document)))
        .collect();
    let mut text = String::new();
    for pattern in patterns {
        let before = text.len();
        for (_, document) in documents.iter().filter(|(source, _)| is_alike(pattern, source)) {
            for part in ["---\n", document, "\n"] {
                text.push_str(part);
            }
        }
        if text.len() == before {
            return Err(NoTemplate(pattern.clone()));
        }
    }
    Ok(text)
}

/// The path below the chart in the first comment that names a source. It may be any comment: a document
/// that does not begin with its own is judged by what is in it.
fn source(document: &str) -> Option<&str> {
    document.match_indices("# Source: ").find_map(|(at, mark)| {
        let line = document[at + mark.len()..].lines().next()?;
        // a template is below its chart, and both have names
        let (chart, path) = line.split_once('/')?;
        (!chart.is_empty() && !path.is_empty()).then_some(path)
    })
}

/// As Go's `filepath.Join` joins two paths.
fn joined(directory: &str, name: &str) -> String {
    match directory.is_empty() {
        true => clean_path(name),
        false => clean_path(&format!("{directory}/{name}")),
    }
}
