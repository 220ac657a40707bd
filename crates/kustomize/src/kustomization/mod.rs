//! Finds and decodes kustomization files.
//!
//! Decoding follows `sigs.k8s.io/yaml` and `encoding/json` with unknown fields refused: field names are
//! case-insensitive, null sets nothing, and the last of repeated keys wins.

mod decode;
mod deprecations;
mod fields;
pub(crate) mod shapes;

pub use deprecations::Deprecation;

pub(crate) use decode::{Shape, UnknownFields, decode};
pub(crate) use fields::{
    Configuration, FieldOptions, FieldSpecField, Fields, GeneratorFields, GeneratorOptions, Image,
    LabelField, Patch, PatchOptions, ReferenceField, Replacement, ReplacementSource, ReplacementTarget,
    Replica, Selector, SortOptions, Variable,
};

use crate::budget::{Budget, measure};
use crate::error::{BuildError, Fault, Place};
use crate::loader::{Loader, at};
use crate::notes::Provenance;
use crate::tree::EntryKind;
use equate_manifest::yaml::{Dialect, Duplicates, Options, Spans};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const VERSION: &str = "kustomize.config.k8s.io/v1beta1";
const COMPONENT_VERSION: &str = "kustomize.config.k8s.io/v1alpha1";
const KIND: &str = "Kustomization";
const COMPONENT: &str = "Component";

#[derive(Debug)]
pub(crate) struct Kustomization {
    /// The file; if generated, the path it would have.
    pub(crate) path: String,
    pub(crate) root: String,
    pub(crate) fields: Fields,
    pub(crate) provenance: Option<Arc<Provenance>>,
    empty: bool,
    deprecations: Vec<Deprecation>,
    spans: Spans,
    /// Canonical field names to the file's spellings, where they differ.
    spellings: HashMap<String, String>,
}

impl Kustomization {
    pub(crate) fn generated(root: &str, fields: Fields) -> Self {
        Self {
            path: crate::path::join(root, FILE_NAMES[0]).unwrap_or_default(),
            root: root.to_owned(),
            fields,
            provenance: None,
            empty: false,
            deprecations: Vec::new(),
            spans: Spans::default(),
            spellings: HashMap::new(),
        }
    }

    /// Refuses an empty file. Flux's own fields are added before this check.
    pub(crate) fn refuse_empty(&self) -> Result<(), BuildError> {
        if self.empty {
            let place = Place {
                path: self.path.clone(),
                line: 1,
                column: 1,
            };
            return Err(at(place)(Fault::EmptyKustomization));
        }
        Ok(())
    }

    pub(crate) fn is_component(&self) -> bool {
        self.fields.kind == COMPONENT
    }

    /// The place of a field or item, or of the nearest parent with a known place.
    pub(crate) fn place(&self, segments: &[&str]) -> Place {
        let mut segments: Vec<&str> = segments.to_vec();
        if let Some(first) = segments.first_mut()
            && let Some(spelling) = self.spellings.get(*first)
        {
            *first = spelling;
        }
        place_of(&self.path, &self.spans, &segments)
    }

    pub(crate) fn item(&self, field: &str, index: usize) -> Place {
        self.place(&[field, &index.to_string()])
    }
}

pub(crate) fn place_of(path: &str, spans: &Spans, segments: &[&str]) -> Place {
    for count in (1..=segments.len()).rev() {
        let pointer: String = segments[..count]
            .iter()
            .flat_map(|segment| ["/", segment])
            .collect();
        if let Some(place) = spans.get(&pointer) {
            return Place {
                path: path.to_owned(),
                line: place.line,
                column: place.column,
            };
        }
    }
    Place::file(path)
}

/// The kustomization file of a directory, if any. Several are an error.
pub(crate) fn find(loader: &mut Loader<'_>, root: &str) -> Result<Option<String>, BuildError> {
    let mut found = None;
    for name in FILE_NAMES {
        let path = crate::path::join(root, name).unwrap_or_default();
        if matches!(loader.locate(&path), Ok((_, EntryKind::File))) {
            if found.is_some() {
                return Err(at(Place::file(root))(Fault::SeveralKustomizations {
                    root: root.to_owned(),
                }));
            }
            found = Some(name.to_owned());
        }
    }
    Ok(found)
}

pub(crate) fn read(loader: &mut Loader<'_>, root: &str, name: &str) -> Result<Kustomization, BuildError> {
    let path = crate::path::join(root, name).unwrap_or_default();
    let (_, text) = loader.read_text(root, name).map_err(at(Place::file(&path)))?;
    let kustomization = parse(&text, root, path, &loader.budget)?;
    loader
        .deprecations
        .extend(kustomization.deprecations.iter().cloned());
    Ok(kustomization)
}

pub(crate) fn parse(
    text: &str,
    root: &str,
    path: String,
    budget: &Budget,
) -> Result<Kustomization, BuildError> {
    let options = Options {
        dialect: Dialect::Yaml11,
        duplicates: Duplicates::Collect,
        spans: true,
        ..Options::default()
    };
    let documents = budget
        .load(text, &options)
        .map_err(|error| BuildError::yaml(&path, error))?;
    let (value, spans) = match documents.into_iter().next() {
        Some(document) => (document.value, document.spans),
        None => (Value::Null, Spans::default()),
    };
    let mut kustomization = Kustomization {
        path,
        root: root.to_owned(),
        fields: Fields::default(),
        provenance: None,
        empty: is_empty_kustomization(&value),
        deprecations: Vec::new(),
        spans,
        spellings: HashMap::new(),
    };
    // checked and converted
    budget.owe(2 * measure(&value).0);
    let set = set_fields(&value);
    let decoded = decode::<Fields>(
        value,
        &shapes::KUSTOMIZATION,
        UnknownFields::Refused,
        &mut kustomization.spellings,
    );
    kustomization.fields = decoded.map_err(|(segments, fault)| {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        at(kustomization.place(&segments))(fault)
    })?;
    let is_set = |field: &str| set.iter().any(|name| name.eq_ignore_ascii_case(field));
    kustomization.deprecations = deprecations::among(is_set, |field| kustomization.place(&[field]));
    check(&mut kustomization)?;
    Ok(kustomization)
}

/// The top-level fields that are not null, as the file spells them.
fn set_fields(value: &Value) -> Vec<String> {
    let fields = value.as_object().into_iter().flatten();
    let set = fields.filter(|(_, value)| !value.is_null());
    set.map(|(key, _)| key.clone()).collect()
}

/// Whether only `apiVersion` and `kind` are set. An empty list or map counts as set, except in deprecated
/// fields; null and the empty string do not.
fn is_empty_kustomization(value: &Value) -> bool {
    let Value::Object(map) = value else {
        return value.is_null();
    };
    map.iter().all(|(key, value)| {
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        let moves = is("bases") || is("imageTags") || is("helmChartInflationGenerator");
        is("apiVersion")
            || is("kind")
            || value.is_null()
            || value == ""
            || moves && value.as_array().is_some_and(Vec::is_empty)
    })
}

fn check(kustomization: &mut Kustomization) -> Result<(), BuildError> {
    let fields = &mut kustomization.fields;
    if fields.kind.is_empty() {
        KIND.clone_into(&mut fields.kind);
    }
    let version = if fields.kind == COMPONENT {
        COMPONENT_VERSION
    } else {
        VERSION
    };
    if fields.api_version.is_empty() {
        version.clone_into(&mut fields.api_version);
    }
    fields.move_deprecated();
    if fields.kind != KIND && fields.kind != COMPONENT {
        return Err(at(kustomization.place(&["kind"]))(Fault::Kind));
    }
    if kustomization.fields.api_version != version {
        let kind = kustomization.fields.kind.clone();
        return Err(at(kustomization.place(&["apiVersion"]))(Fault::ApiVersion {
            kind,
            version,
        }));
    }
    Ok(())
}
