//! The output of `helm template`, on standard output or as files.
//!
//! Order: CRDs if requested, objects, then hooks. Byte for byte the output of Helm 4.3. This module
//! writes nothing: files are a plan.

use crate::chart::Chart;
use crate::file_match;
use crate::hooks::{Event, Hook};
use crate::manifests::{Manifest, Sorted, split};
use equate_template::clean_path;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The flags that select the output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choices {
    /// Omit hooks.
    pub no_hooks: bool,
    /// Omit test hooks.
    pub skip_tests: bool,
    /// Only templates whose path below the chart matches one of these patterns.
    pub show_only: Vec<String>,
}

/// A file of `crds/`, which is not rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crd<'c> {
    /// Its path: `CHART/charts/SUBCHART/crds/widgets.yaml`.
    pub source: String,
    /// Its content.
    pub content: Cow<'c, str>,
}

/// No template matches a pattern of [`Choices::show_only`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not find template {0} in chart")]
pub struct TemplateNotFound(pub String);

/// A file to write, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileWrite {
    /// The path: the output directory and the template's path.
    pub path: String,
    /// The content.
    pub text: String,
    /// The treatment of an existing file.
    pub mode: WriteMode,
}

/// The treatment of an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Replace it.
    Replace,
    /// Append to it.
    Append,
    /// Append if it exists: hooks never replace a file.
    AppendIfThere,
}

/// The CRDs of a chart and its subcharts, the chart's own first.
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

/// The manifest of a release as its record holds it: all objects, no hooks.
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

/// The output for files that failed to parse.
pub fn unsorted<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    choices: &Choices,
) -> Result<String, TemplateNotFound> {
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

/// The output of `helm template`.
pub fn text(crds: &[Crd<'_>], sorted: &Sorted, choices: &Choices) -> Result<String, TemplateNotFound> {
    let mut text = format!("{}\n", manifest(crds, &sorted.manifests).trim());
    for hook in shown_hooks(sorted, choices) {
        push(&mut text, &hook.path, &hook.manifest);
    }
    match choices.show_only.is_empty() {
        true => Ok(text),
        false => only(&text, &choices.show_only),
    }
}

/// The files of `helm template --output-dir`, below a directory with the release's name if given, except
/// for CRDs. After them Helm prints an empty line: [`text`] of nothing.
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

/// An invalid pattern matches nothing.
fn is_alike(pattern: &str, source: &str) -> bool {
    file_match::matches(pattern.as_bytes(), source.as_bytes()).unwrap_or(false)
}

fn only(listing: &str, patterns: &[String]) -> Result<String, TemplateNotFound> {
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
            return Err(TemplateNotFound(pattern.clone()));
        }
    }
    Ok(text)
}

/// The path below the chart in the first `# Source` comment. As in Helm, that comment may be anywhere in
/// the document.
fn source(document: &str) -> Option<&str> {
    document.match_indices("# Source: ").find_map(|(at, mark)| {
        let line = document[at + mark.len()..].lines().next()?;
        let (chart, path) = line.split_once('/')?;
        (!chart.is_empty() && !path.is_empty()).then_some(path)
    })
}

/// Go's `filepath.Join`.
fn joined(directory: &str, name: &str) -> String {
    match directory.is_empty() {
        true => clean_path(name),
        false => clean_path(&format!("{directory}/{name}")),
    }
}
