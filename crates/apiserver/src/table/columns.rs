//! The columns of kinds.
//!
//! `columns.json` has those of kube-apiserver 1.36.3's printers, by `group/Kind`; `*` stands for kinds
//! without printers. Descriptions are listed once and referred to by index.

use crate::registry::{Resource, SchemaSource};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: String,
    /// `name` for the object's name, else mostly empty.
    pub format: String,
    pub description: String,
    pub priority: i32,
}

impl Column {
    pub(crate) fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

pub(super) fn of_last_resort(resource: &Resource) -> bool {
    columns(resource).iter().any(|column| column.name == "Created At")
}

pub(crate) fn columns(resource: &Resource) -> Vec<Column> {
    match &resource.schema {
        SchemaSource::Builtin(_) => of_builtin(&resource.group, &resource.kind),
        SchemaSource::Custom(version) => of_custom(version.printer_columns()),
    }
}

#[derive(Deserialize)]
struct Recorded {
    descriptions: Vec<String>,
    kinds: BTreeMap<String, Vec<RecordedColumn>>,
}

/// Name, type, format, index of the description, priority.
type RecordedColumn = (String, String, String, usize, i32);

static RECORDED: LazyLock<Option<Recorded>> =
    LazyLock::new(|| serde_json::from_str(include_str!("columns.json")).ok());

pub(super) fn of_builtin(group: &str, kind: &str) -> Vec<Column> {
    let Some(recorded) = RECORDED.as_ref() else {
        return Vec::new();
    };
    let columns = recorded
        .kinds
        .get(&format!("{group}/{kind}"))
        .or_else(|| recorded.kinds.get("*"));
    columns
        .into_iter()
        .flatten()
        .map(|(name, kind, format, description, priority)| Column {
            name: name.clone(),
            kind: kind.clone(),
            format: format.clone(),
            description: recorded
                .descriptions
                .get(*description)
                .cloned()
                .unwrap_or_default(),
            priority: *priority,
        })
        .collect()
}

/// The name, then the definition's columns, by default the age.
pub(super) fn of_custom(printer_columns: &[crate::crd::PrinterColumn]) -> Vec<Column> {
    let mut default = of_builtin("", "ServiceAccount");
    if printer_columns.is_empty() {
        if let Some(age) = default.last_mut() {
            "date".clone_into(&mut age.kind);
        }
        return default;
    }
    default.truncate(1);
    default.extend(printer_columns.iter().map(|column| Column {
        name: column.name.clone(),
        kind: column.kind.clone(),
        format: column.format.clone(),
        description: if column.description.is_empty() {
            format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.json_path
            )
        } else {
            column.description.clone()
        },
        priority: column.priority,
    }));
    default
}
