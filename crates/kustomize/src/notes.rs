//! What `buildMetadata` writes into annotations: where an object comes from, what changed it.

use crate::kustomization::Kustomization;
use crate::resource::Resource;
use serde_json::{Map, Value};

pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// A place an object comes from, or a transformer that changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// A file, relative to the built directory.
    File(String),
    /// A builtin generator or transformer, and the kustomization file that asks for it.
    Builtin {
        configured_in: String,
        kind: &'static str,
    },
    /// A generator or transformer with a configuration of its own.
    Configured {
        configured_in: String,
        api_version: String,
        kind: String,
        name: String,
        namespace: String,
    },
}

impl Note {
    /// A builtin that a kustomization file asks for.
    pub(crate) fn builtin(root: &str, kustomization: &Kustomization, kind: &'static str) -> Self {
        let dir = crate::path::relative(root, &kustomization.root);
        let file = kustomization.file_name();
        Self::Builtin {
            configured_in: if dir == "." {
                file.to_owned()
            } else {
                format!("{dir}/{file}")
            },
            kind,
        }
    }

    /// The note's lines, keys in the order upstream's struct has.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::File(path) => vec![format!("path: {}", scalar(path))],
            Self::Builtin { configured_in, kind } => vec![
                format!("configuredIn: {}", scalar(configured_in)),
                "configuredBy:".to_owned(),
                "  apiVersion: builtin".to_owned(),
                format!("  kind: {kind}"),
            ],
            Self::Configured {
                configured_in,
                api_version,
                kind,
                name,
                namespace,
            } => {
                let mut lines = vec![
                    format!("configuredIn: {}", scalar(configured_in)),
                    "configuredBy:".to_owned(),
                    format!("  apiVersion: {}", scalar(api_version)),
                    format!("  kind: {}", scalar(kind)),
                    format!("  name: {}", scalar(name)),
                ];
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

/// Writes a resource's notes into its annotations.
pub(crate) fn write(resource: &mut Resource, origins: bool, transformations: bool) {
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
        let changes: String = changes.iter().map(Note::item).collect();
        notes.insert(TRANSFORMATIONS.to_owned(), changes.into());
    }
    let metadata = resource.metadata_mut();
    crate::resource::map_in(metadata, "annotations").extend(notes);
}

/// Marks an object as made by kustomize, as `buildMetadata: [managedByLabel]` asks.
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
