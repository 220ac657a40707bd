//! `ValueAddTransformer`: sets a field, or one segment of a path in a field.

use super::fields::{TARGET_FILE, TransformerFields, ValueTarget};
use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{BuildError, Fault, Place};
use crate::field_spec::{Creation, FieldSpec, set_scalar};
use crate::kustomization::{self, Kustomization, UnknownFields};
use crate::loader::at;
use crate::path;
use crate::pipeline::Build;
use crate::resource::scalar_text;
use crate::selector::Matcher;
use equate_manifest::yaml::Options;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetFile {
    targets: Vec<ValueTarget>,
}

pub(super) fn apply(
    fields: TransformerFields,
    kustomization: &Kustomization,
    place: Place,
    build: &mut Build<'_, '_>,
    resources: &mut Collection,
) -> Result<(), BuildError> {
    let value = match fields.value.trim() {
        "" => path::name(&kustomization.root),
        value => value,
    };
    let mut targets = fields.targets;
    if !fields.target_file_path.is_empty() {
        let (file, text) = build
            .loader
            .read_text(&kustomization.root, &fields.target_file_path)
            .map_err(at(place.clone()))?;
        targets.extend(read(&text, &file, &build.loader.budget)?);
    }
    if targets.is_empty() {
        return Err(at(place)(Fault::ValueAdd("must specify at least one target")));
    }
    let schema = build.schema.get();
    let budget = resources.budget();
    for target in &targets {
        if target.field_path.is_empty() {
            return Err(at(place)(Fault::ValueAdd("fieldPath cannot be empty")));
        }
        let Ok(position) = usize::try_from(target.file_path_position) else {
            return Err(at(place)(Fault::ValueAdd("filePathPosition cannot be negative")));
        };
        let matcher = target.selector.as_ref();
        let matcher = matcher
            .map(|selector| Matcher::new(selector, &budget))
            .transpose();
        let matcher = matcher.map_err(at(place.clone()))?;
        let spec = FieldSpec::new("", "", "", &target.field_path, true);
        for resource in resources.items_mut() {
            let spent = budget.spend(10).map_err(Fault::from);
            spent.map_err(at(place.clone()))?;
            if matcher
                .as_ref()
                .is_some_and(|matcher| !matcher.matches(resource, schema))
            {
                continue;
            }
            if target.field_path == "metadata/namespace" && resource.is_cluster_scoped(schema) {
                continue;
            }
            let added = spec.visit_any(resource, Creation::Scalar, &budget, &mut |field| {
                let before = scalar_text(field).unwrap_or_default();
                budget.charge(before.len() + value.len())?;
                set_scalar(field, added(&before, value, position).into())
            });
            added.map_err(at(place.clone()))?;
        }
    }
    Ok(())
}

fn read(text: &str, file: &str, budget: &Budget) -> Result<Vec<ValueTarget>, BuildError> {
    let documents = budget.load(text, &Options::default());
    let documents = documents.map_err(|error| BuildError::yaml(file, error))?;
    let value = documents
        .into_iter()
        .next()
        .map_or(Value::Null, |document| document.value);
    let read: TargetFile =
        kustomization::decode(value, &TARGET_FILE, UnknownFields::Ignored, &mut HashMap::new())
            .map_err(|(_, fault)| at(Place::file(file))(fault))?;
    Ok(read.targets)
}

/// Replaces the whole text (position 0) or inserts the value as the segment at a position (from 1).
fn added(before: &str, value: &str, position: usize) -> String {
    let Some(at) = position.checked_sub(1) else {
        return value.to_owned();
    };
    let rooted = before.starts_with('/');
    let mut segments: Vec<&str> = before.split('/').filter(|segment| !segment.is_empty()).collect();
    segments.insert(at.min(segments.len()), value);
    let joined = segments.join("/");
    if rooted { format!("/{joined}") } else { joined }
}
