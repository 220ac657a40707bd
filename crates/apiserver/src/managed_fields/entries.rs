//! `managedFields` entries: reading, writing, and the names of managers.

use super::{Manager, set_managed_fields};
use equate_manifest::fieldpath::Set;
use equate_manifest::merge::{Managers, Ownership};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The identity of a manager. Applies of one name share an entry whatever their API version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Of an update; `None` for an apply.
    pub(super) api_version: Option<String>,
    pub(super) subresource: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
    /// An update in progress; never stored.
    Current,
}

impl Identity {
    pub(super) fn of(manager: &Manager<'_>, operation: Operation, name: &str) -> Self {
        Self {
            manager: if name.is_empty() {
                "unknown".to_owned()
            } else {
                name.to_owned()
            },
            operation,
            api_version: (operation != Operation::Apply).then(|| manager.api_version.to_owned()),
            subresource: manager.subresource.to_owned(),
        }
    }

    pub(super) fn in_version(self, api_version: &str) -> Self {
        Self {
            api_version: self.api_version.map(|_| api_version.to_owned()),
            ..self
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Managed {
    pub(super) owners: Managers<Identity>,
    /// RFC 3339, UTC, whole seconds, so that texts sort as times.
    pub(super) times: BTreeMap<Identity, String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("managedFields must be a list of objects")]
    Shape,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {found:?} in managed fields entry {entry}")]
    FieldsType { found: String, entry: usize },
    #[error("time of managed fields entry {entry} is not RFC 3339")]
    Time { entry: usize, source: jiff::Error },
    #[error("error decoding versioned set of managed fields entry {entry}: {source}")]
    Fields { entry: usize, source: serde_json::Error },
}

impl Managed {
    pub(super) fn decode(entries: Option<&Value>) -> Result<Self, DecodeError> {
        let mut managed = Self::default();
        let Some(entries) = entries else {
            return Ok(managed);
        };
        for (entry, value) in entries.as_array().ok_or(DecodeError::Shape)?.iter().enumerate() {
            managed.decode_entry(entry, value.as_object().ok_or(DecodeError::Shape)?)?;
        }
        Ok(managed)
    }

    fn decode_entry(&mut self, entry: usize, value: &Map<String, Value>) -> Result<(), DecodeError> {
        let text = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(DecodeError::ApiVersion);
        }
        match text("fieldsType") {
            found if found == "FieldsV1" => {}
            found if found.is_empty() => return Err(DecodeError::NoFieldsType(entry)),
            found => return Err(DecodeError::FieldsType { found, entry }),
        }
        let fields = match value.get("fieldsV1") {
            Some(fields) => {
                Set::from_fields_v1(fields).map_err(|source| DecodeError::Fields { entry, source })?
            }
            None => Set::default(),
        };
        let identity = Identity {
            manager: text("manager"),
            operation,
            api_version: (operation == Operation::Update).then(|| api_version.clone()),
            subresource: text("subresource"),
        };
        match value.get("time") {
            None | Some(Value::Null) => {}
            Some(time) => {
                let time = seconds(time.as_str().unwrap_or_default())
                    .map_err(|source| DecodeError::Time { entry, source })?;
                self.times.insert(identity.clone(), time);
            }
        }
        let applied = operation == Operation::Apply;
        self.owners.insert(
            identity,
            Ownership {
                fields,
                api_version,
                applied,
            },
        );
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    pub(super) fn take_like(&mut self, identity: &Identity) -> Option<Ownership> {
        let like = |other: &&Identity| {
            (&other.manager, other.operation, &other.subresource)
                == (&identity.manager, identity.operation, &identity.subresource)
        };
        let found = self.owners.keys().find(like)?.clone();
        self.owners.remove(&found)
    }

    pub(super) fn encode(&self, object: &mut Value) {
        if let Some(entries) = self.to_entries() {
            set_managed_fields(object, entries);
        }
    }

    /// The entries: applies first, then by time, name, version, subresource. `None` if there are none.
    pub(super) fn to_entries(&self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        let mut owners: Vec<_> = self.owners.iter().collect();
        owners.sort_by_key(|(identity, owned)| {
            let time = self.times.get(*identity).map(String::as_str);
            (
                !owned.applied,
                time,
                &identity.manager,
                &owned.api_version,
                &identity.subresource,
            )
        });
        Some(
            owners
                .into_iter()
                .map(|(identity, owned)| self.encode_entry(identity, owned))
                .collect(),
        )
    }

    fn encode_entry(&self, identity: &Identity, owned: &Ownership) -> Value {
        let mut entry = json!({
            "operation": if owned.applied { "Apply" } else { "Update" },
            "apiVersion": owned.api_version,
            "fieldsType": "FieldsV1",
        });
        entry["fieldsV1"] = owned.fields.to_fields_v1();
        for (key, text) in [
            ("manager", Some(&identity.manager)),
            ("subresource", Some(&identity.subresource)),
            ("time", self.times.get(identity)),
        ] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                entry[key] = json!(text);
            }
        }
        entry
    }
}

fn seconds(time: &str) -> Result<String, jiff::Error> {
    Ok(time
        .parse::<jiff::Timestamp>()?
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string())
}
