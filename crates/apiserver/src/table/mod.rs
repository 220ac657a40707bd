//! Tables, as `kubectl get` prints them.
//!
//! A `Table` has one row per object; the server chooses the columns. Those of built-in kinds are data
//! ([`columns`], recorded from kube-apiserver 1.36, texts included) with one function per kind for the
//! cells. Those of custom resources come from `additionalPrinterColumns`. Kinds without printers show name
//! and creation time.

mod cells;
mod columns;
mod custom;
mod duration;
mod jsonpath;
mod network;
mod pods;
mod scaling;
mod storage;
mod workloads;

#[cfg(test)]
mod tests;

pub(crate) use columns::{Column, columns};

use crate::registry::{Resource, SchemaSource};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rendering {
    pub include: IncludeObject,
    pub headers: bool,
    /// Ages count from it.
    pub now: Timestamp,
}

/// A `meta.k8s.io/v1` `Table` with empty list metadata for the caller to fill.
pub(crate) fn render<'v>(
    resource: &Resource,
    objects: impl Iterator<Item = &'v Value>,
    rendering: Rendering,
) -> Value {
    let headers = rendering
        .headers
        .then(|| columns(resource).iter().map(Column::to_value).collect::<Vec<_>>());
    let rows: Vec<Value> = objects.map(|object| row(resource, object, rendering)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": headers,
        // Upstream's printer of last resort leaves an empty list unset.
        "rows": if rows.is_empty() && columns::of_last_resort(resource) { Value::Null } else { rows.into() },
    })
}

pub(crate) fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| Map::new().into()),
    })
}

fn row(resource: &Resource, object: &Value, rendering: Rendering) -> Value {
    let cells = match &resource.schema {
        SchemaSource::Custom(version) => custom::cells(version.printer_columns(), object, rendering.now),
        SchemaSource::Builtin(_) => cells::cells_of(&resource.group, &resource.kind, object, rendering.now),
    };
    let mut row = json!({
        "cells": cells,
        "object": match rendering.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_metadata(object),
            IncludeObject::Object => object.clone(),
        },
    });
    if let (Some(condition), Some(row)) = (pods::row_condition(resource, object), row.as_object_mut()) {
        row.insert("conditions".to_owned(), json!([condition]));
    }
    row
}
