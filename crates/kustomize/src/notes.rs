//! `buildMetadata`: annotations for the origin of an object and the transformers that changed it.

use crate::budget::Budget;
use crate::kustomization::Kustomization;
use crate::path;
use crate::remote::{self, RemoteRepository};
use crate::resource::Resource;
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provenance {
    url: String,
    reference: String,
    prefix: &'static str,
}

/// kustomize's name for a repository whose URL names no directory.
const UNNAMED: &str = "notCloned";

impl Provenance {
    pub(crate) fn new(repository: &RemoteRepository) -> Self {
        Self {
            url: remote::shown(&repository.clone_url()),
            reference: repository.reference.clone(),
            prefix: match repository.directory.as_str() {
                "" => UNNAMED,
                _ => "",
            },
        }
    }
}

/// A file, by its path relative to the built directory or to its repository's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOrigin {
    path: String,
    repository: Option<Arc<Provenance>>,
}

impl FileOrigin {
    pub(crate) fn new(root: &str, kustomization: &Kustomization, path: &str) -> Self {
        let repository = kustomization.provenance.clone();
        let path = match &repository {
            None => path::relative(root, path),
            Some(repository) => {
                let rest = path::split_label(path).1;
                path::join(repository.prefix, rest).unwrap_or_default()
            }
        };
        Self { path, repository }
    }

    pub(crate) fn of_tree(root: &str, path: &str) -> Self {
        Self {
            path: path::relative(root, path),
            repository: None,
        }
    }

    pub(crate) fn of_url(repository: &RemoteRepository) -> Self {
        let provenance = Provenance::new(repository);
        Self {
            path: path::join(provenance.prefix, &repository.directory).unwrap_or_default(),
            repository: Some(Arc::new(provenance)),
        }
    }

    fn lines(&self, key: &str) -> Vec<String> {
        let path = format!("{key}: {}", scalar(&self.path));
        let Some(repository) = &self.repository else {
            return vec![path];
        };
        let mut lines = vec![format!("repo: {}", scalar(&repository.url))];
        if !repository.reference.is_empty() {
            lines.push(format!("ref: {}", scalar(&repository.reference)));
        }
        lines.insert(if key == "path" { 0 } else { lines.len() }, path);
        lines
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    File(FileOrigin),
    Builtin {
        configured_in: FileOrigin,
        kind: &'static str,
    },
    Configured {
        configured_in: FileOrigin,
        api_version: String,
        kind: String,
        name: String,
        namespace: String,
    },
}

impl Note {
    pub(crate) fn builtin(root: &str, kustomization: &Kustomization, kind: &'static str) -> Self {
        Self::Builtin {
            configured_in: FileOrigin::new(root, kustomization, &kustomization.path),
            kind,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let texts = match self {
            Self::File(origin)
            | Self::Builtin {
                configured_in: origin,
                kind: _,
            } => origin.path.len(),
            Self::Configured {
                configured_in,
                api_version,
                kind,
                name,
                namespace,
            } => [&configured_in.path, api_version, kind, name, namespace]
                .iter()
                .map(|text| text.len())
                .sum(),
        };
        size_of::<Self>() + texts
    }

    /// The note's lines, in the order of kustomize's struct.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::File(whence) => whence.lines("path"),
            Self::Builtin { configured_in, kind } => {
                let mut lines = configured_in.lines("configuredIn");
                lines.extend([
                    "configuredBy:".to_owned(),
                    "  apiVersion: builtin".to_owned(),
                    format!("  kind: {kind}"),
                ]);
                lines
            }
            Self::Configured {
                configured_in,
                api_version,
                kind,
                name,
                namespace,
            } => {
                let mut lines = configured_in.lines("configuredIn");
                lines.extend([
                    "configuredBy:".to_owned(),
                    format!("  apiVersion: {}", scalar(api_version)),
                    format!("  kind: {}", scalar(kind)),
                    format!("  name: {}", scalar(name)),
                ]);
                if !namespace.is_empty() {
                    lines.push(format!("  namespace: {}", scalar(namespace)));
                }
                lines
            }
        }
    }

    fn text(&self) -> String {
        let mut text = self.lines().join("\n");
        text.push('\n');
        text
    }

    fn item(&self) -> String {
        let mut text = String::new();
        for (index, line) in self.lines().iter().enumerate() {
            text.push_str(if index == 0 { "- " } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

impl Resource {
    /// Adds a transformer to the notes. A resource without an origin takes it as origin.
    pub(crate) fn note_change(&mut self, note: &Note) {
        if self.note.is_none() {
            self.note = Some(note.clone());
        } else {
            self.changes.push(note.clone());
        }
    }
}

/// The steps to add one note.
pub(crate) const STEPS: usize = 10;
/// The steps to write one note.
const NOTE_STEPS: usize = 500;

pub(crate) fn write(resource: &mut Resource, origins: bool, transformations: bool, budget: &Budget) {
    let origin = resource.note.take().filter(|_| origins);
    let changes = std::mem::take(&mut resource.changes);
    if origin.is_none() && (changes.is_empty() || !transformations) {
        return;
    }
    let mut notes = Map::new();
    if let Some(origin) = origin {
        notes.insert(ORIGIN.to_owned(), origin.text().into());
    }
    if transformations && !changes.is_empty() {
        budget.owe(changes.len() * NOTE_STEPS);
        let changes: String = changes.iter().map(Note::item).collect();
        notes.insert(TRANSFORMATIONS.to_owned(), changes.into());
    }
    let metadata = resource.metadata_mut();
    crate::resource::map_in(metadata, "annotations").extend(notes);
}

pub(crate) fn mark_managed(resource: &mut Resource) {
    let metadata = resource.metadata_mut();
    let labels = crate::resource::map_in(metadata, "labels");
    labels.insert(MANAGED_BY.to_owned(), concat!("kustomize-v", "5.8.1").into());
}

fn scalar(text: &str) -> String {
    equate_manifest::yaml::to_string(&Value::from(text))
        .trim_end()
        .to_owned()
}
