//! An ArtifactGenerator as this controller reads it: parsed once.
//!
//! Texts are those of Flux's `artifactgenerator_validation.go` (source-watcher v2.2).

use std::collections::BTreeSet;

use equate_api::extensions::{ArtifactGenerator, ArtifactGeneratorSpec, OutputArtifact};
use equate_api::meta::{CommonMetadata, Reason};

use super::captures::is_name;
use crate::kit::controller::Failure;
use crate::{Key, ObjectRef};

const RECONCILE: &str = "source.extensions.fluxcd.io/reconcile";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    /// An annotation disables it.
    pub(crate) disabled: bool,
    /// By alias.
    pub(crate) sources: Vec<(String, ObjectRef)>,
    pub(crate) pattern: Option<String>,
    pub(crate) artifacts: Vec<OutputArtifact>,
    pub(crate) metadata: CommonMetadata,
    pub(crate) refused: Option<Failure>,
}

/// The sources by their aliases.
pub(super) fn sources(object: &ArtifactGenerator) -> Vec<(String, ObjectRef)> {
    let own = object.metadata.namespace.clone().unwrap_or_default();
    let all = object.spec.sources.iter().map(|source| {
        let namespace = source.namespace.clone().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| own.clone());
        (
            source.alias.clone(),
            ObjectRef::new(source.kind.as_str(), namespace, &*source.name),
        )
    });
    all.collect()
}

impl From<&ArtifactGenerator> for Declared {
    fn from(object: &ArtifactGenerator) -> Self {
        let (meta, spec) = (&object.metadata, &object.spec);
        let annotations = meta.annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(RECONCILE));
        let ArtifactGeneratorSpec {
            artifacts,
            common_metadata,
            path_pattern,
            sources: _,
        } = spec;
        Self {
            key: Key::of(meta),
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            disabled: value.is_some_and(|value| value.eq_ignore_ascii_case("disabled")),
            sources: sources(object),
            pattern: path_pattern.clone().filter(|pattern| !pattern.is_empty()),
            artifacts: artifacts.clone(),
            metadata: common_metadata.clone().unwrap_or_default(),
            refused: invalid(spec).map(|why| Failure::stalled(Reason::ValidationFailed, why)),
        }
    }
}

impl Declared {
    /// The failure where sources of other namespaces are denied.
    pub(crate) fn crosses(&self) -> Option<Failure> {
        let mut sources = self.sources.iter().map(|(_, source)| source);
        let other = sources.find(|source| source.namespace != self.key.namespace)?;
        let (kind, namespace, name) = (other.kind, &other.namespace, &other.name);
        let message = format!("cross-namespace reference to source {kind}/{namespace}/{name} is not allowed");
        Some(Failure::stalled(Reason::AccessDenied, message))
    }
}

fn invalid(spec: &ArtifactGeneratorSpec) -> Option<String> {
    let mut aliases = BTreeSet::new();
    for source in &spec.sources {
        if !aliases.insert(source.alias.as_str()) {
            return Some(format!("duplicate source alias '{}' found", source.alias));
        }
    }
    let mut names = BTreeSet::new();
    let has_pattern = spec
        .path_pattern
        .as_ref()
        .is_some_and(|pattern| !pattern.is_empty());
    for artifact in &spec.artifacts {
        let name = &artifact.name;
        if !names.insert(name) {
            return Some(format!("duplicate artifact name '{name}' found"));
        }
        if !has_pattern && !is_name(name) {
            return Some(format!(
                "artifact name {name:?} is not a valid Kubernetes object name"
            ));
        }
        let alias = artifact
            .revision
            .as_ref()
            .and_then(|revision| revision.strip_prefix('@'));
        if let Some(alias) = alias.filter(|alias| !aliases.contains(alias)) {
            return Some(format!(
                "artifact {name} revision source alias '{alias}' not found"
            ));
        }
    }
    None
}
