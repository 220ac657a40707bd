//! A HelmChart as this controller reads it: parsed once.

use std::time::Duration;

use equate_api::source::{ChartSourceKind, HelmChart, HelmChartSpec, ReconcileStrategy};
use equate_source::{Place, PlaceError, Publisher};

use super::ABOUT;
use crate::sources::signatures::Required;
use crate::{Key, ObjectRef};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) publisher: Publisher,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    /// The name in a chart repository, or the path in another source.
    pub(crate) chart: String,
    /// A range; empty for the newest.
    pub(crate) version: String,
    pub(crate) source_kind: ChartSourceKind,
    /// In its own namespace.
    pub(crate) source: ObjectRef,
    /// Whether each revision of the source makes another version.
    pub(crate) by_revision: bool,
    /// Empty if they are the chart's own values.
    pub(crate) values_files: Vec<String>,
    pub(crate) ignore_missing: bool,
    pub(crate) interval: Duration,
    /// The signatures that it requires.
    pub(crate) required: Option<Required>,
}

/// The source of a chart.
pub(super) fn source(object: &HelmChart) -> ObjectRef {
    let reference = &object.spec.source_ref;
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    ObjectRef::new(reference.kind.as_str(), namespace, &*reference.name)
}

impl TryFrom<&HelmChart> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &HelmChart) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        let HelmChartSpec {
            chart,
            ignore_missing_values_files,
            interval,
            reconcile_strategy,
            source_ref,
            suspend: _,
            values_files,
            verify,
            version,
        } = spec;
        let values_files = match values_files.as_slice() {
            [one] if clean(one) == "values.yaml" => Vec::new(),
            files => files.to_vec(),
        };
        Ok(Self {
            publisher: Publisher::new(
                Place::new(ABOUT.kind, &key.namespace, &key.name)?,
                meta.uid.clone().unwrap_or_default(),
            ),
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            chart: chart.clone(),
            version: version.clone().unwrap_or_default(),
            source_kind: source_ref.kind,
            source: source(object),
            by_revision: *reconcile_strategy == Some(ReconcileStrategy::Revision),
            values_files,
            ignore_missing: *ignore_missing_values_files,
            interval: interval.get(),
            required: verify.as_ref().map(Required::from),
        })
    }
}

/// A path below a root, which `..` does not leave: Go's `filepath.Clean`, and `SecureJoin` without links.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
