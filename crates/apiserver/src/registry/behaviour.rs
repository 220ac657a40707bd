//! The pipeline's view of a resource: the same for built-in and custom kinds.

use super::{Derived, Generation, Resource, SchemaSource, versions};
use crate::builtin;
use crate::crd::{self, ScalePaths};
use crate::field::FieldError;
use crate::status::ApiError;
use crate::store::{Entry, ResourceId};
use equate_manifest::{schema, typed};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) struct Types {
    pub merge: typed::Type,
    /// The normal form of an object with only apiVersion and kind.
    pub empty: Value,
    pub api_version: String,
}

pub(crate) type FieldPaths = &'static [&'static [&'static str]];

static GENERIC: super::Strategy = super::Strategy::GENERIC;
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

impl Resource {
    pub(crate) fn storage(&self) -> ResourceId {
        self.derived
            .storage
            .get_or_init(|| {
                let (group, plural) = versions::storage_of(&self.group, &self.plural);
                ResourceId::new(group, plural)
            })
            .clone()
    }

    /// Reviews and bindings are only posted, never stored.
    pub(crate) fn stored(&self) -> bool {
        self.verbs.iter().any(|v| v == "get") && self.verbs.iter().any(|v| v == "create")
    }

    /// ComponentStatuses: only read, and none exists here.
    pub(crate) fn is_computed(&self) -> bool {
        !self.stored() && self.verbs.iter().any(|v| v == "list")
    }

    pub(crate) fn types(&self) -> &Types {
        self.derived.types.get_or_init(|| {
            let definitions = schema::kubernetes();
            let empty = json!({ "apiVersion": self.api_version(), "kind": self.kind });
            match &self.schema {
                SchemaSource::Builtin(definition) => Types {
                    merge: typed::from_openapi(definition, |name| definitions.get(name)),
                    empty: schema::decode(definitions, definition, empty)
                        .map(|d| d.value)
                        .unwrap_or_default(),
                    api_version: self.api_version(),
                },
                SchemaSource::Custom(version) => Types {
                    merge: typed::custom_resource(Some(version.schema()), |name| definitions.get(name)),
                    empty,
                    api_version: self.api_version(),
                },
            }
        })
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.schema, SchemaSource::Custom(_))
    }

    pub(crate) fn same_schema(&self, other: &Self) -> bool {
        match (&self.schema, &other.schema) {
            (SchemaSource::Builtin(a), SchemaSource::Builtin(b)) => a == b,
            (SchemaSource::Custom(a), SchemaSource::Custom(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.group == crd::GROUP && self.plural == crd::PLURAL
    }

    pub(crate) fn has_status(&self) -> bool {
        self.strategy.has_status
    }

    pub(crate) fn generation(&self) -> Generation {
        self.strategy.generation
    }

    pub(crate) fn reset_fields(&self) -> FieldPaths {
        self.strategy.reset_fields
    }

    pub(crate) fn status_reset_fields(&self) -> FieldPaths {
        self.strategy.status_reset_fields
    }

    /// A new object has no status, or the empty one that its Go type writes.
    pub(crate) fn reset_status(&self, object: &mut Value) {
        if self.strategy.create_keeps_status {
            return;
        }
        let empty = match &self.schema {
            SchemaSource::Custom(_) => None,
            SchemaSource::Builtin(definition) => empty_status(definition),
        };
        if let Value::Object(map) = object {
            map.remove("status");
            map.extend(empty.map(|empty| ("status".to_owned(), empty)));
        }
        if let SchemaSource::Custom(version) = &self.schema {
            // Upstream applies defaults again when it reads the stored object, which adds those of the
            // status.
            version.default(object);
        }
    }

    pub(crate) fn restore_status(&self, new: &mut Value, stored: &Value) {
        keep(new, stored, &["status"]);
    }

    pub(crate) fn keep_for_status(&self, new: &mut Value, stored: &Value) {
        if self.is_custom() {
            let status = new.get("status").cloned();
            let managed = new.pointer("/metadata/managedFields").cloned();
            *new = stored.clone();
            put(new, &["status"], status);
            put(new, &["metadata", "managedFields"], managed);
            return;
        }
        for path in self.strategy.status_keeps {
            let managed = new.pointer("/metadata/managedFields").cloned();
            keep(new, stored, path);
            if path == &["metadata"] {
                put(new, &["metadata", "managedFields"], managed);
            }
        }
    }

    pub(crate) fn validate(&self, new: &Value, stored: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let SchemaSource::Custom(version) = &self.schema {
            errors.extend(version.validate(new, stored));
        }
        errors.extend((self.strategy.validate)(new));
        match stored {
            None => errors.extend((self.strategy.validate_create)(new)),
            Some(stored) => errors.extend((self.strategy.validate_update)(new, stored)),
        }
        errors
    }

    pub(crate) fn grace(&self, stored: &Value, asked: Option<i64>) -> Option<i64> {
        (self.group.is_empty() && self.plural == "pods").then(|| builtin::deletion_grace(stored, asked))
    }

    /// Whether an object of the stored `apiVersion` is shown unchanged.
    pub(crate) fn shows_as_stored(&self, stored: Option<&str>) -> bool {
        if self.derived.reshapes {
            return false;
        }
        let Some(stored) = stored else {
            return false;
        };
        // Runs for every event of every watch, so it allocates nothing.
        match stored.split_once('/') {
            Some((group, version)) => group == self.group && version == self.version,
            None => self.group.is_empty() && stored == self.version,
        }
    }

    pub(crate) fn to_version<'a>(&self, stored: &'a Value) -> Result<Cow<'a, Value>, ApiError> {
        if self.shows_as_stored(stored.get("apiVersion").and_then(Value::as_str)) {
            return Ok(Cow::Borrowed(stored));
        }
        match &self.schema {
            SchemaSource::Custom(version) => {
                let mut shown = stored.clone();
                shown["apiVersion"] = Value::String(self.api_version());
                version.prune(&mut shown);
                version.default(&mut shown);
                Ok(Cow::Owned(shown))
            }
            SchemaSource::Builtin(definition) => {
                let converted = versions::convert(stored, &self.api_version())?;
                let decoded = schema::decode(schema::kubernetes(), definition, converted)
                    .map_err(|e| ApiError::internal(e.to_string()))?;
                Ok(Cow::Owned(decoded.value))
            }
        }
    }

    /// The entry's object in this version; a packed entry stays packed.
    pub(crate) fn view<'a>(&self, entry: &'a Entry) -> Result<Cow<'a, Value>, ApiError> {
        match entry.view() {
            Cow::Borrowed(stored) => self.to_version(stored),
            Cow::Owned(stored) if self.shows_as_stored(entry.api_version()) => Ok(Cow::Owned(stored)),
            Cow::Owned(stored) => self
                .to_version(&stored)
                .map(|shown| Cow::Owned(shown.into_owned())),
        }
    }

    pub(crate) fn scale_paths(&self) -> Option<ScalePaths> {
        match &self.schema {
            SchemaSource::Custom(version) => version.scale().cloned(),
            SchemaSource::Builtin(_) => {
                self.subresources
                    .iter()
                    .any(|s| s.name == "scale")
                    .then(|| ScalePaths {
                        spec_replicas: ".spec.replicas".to_owned(),
                        status_replicas: ".status.replicas".to_owned(),
                        label_selector: Some(".spec.selector".to_owned()),
                    })
            }
        }
    }

    /// The same resource as one of kind Scale, for reading and writing bodies of `scale`.
    pub(crate) fn scale_view(parent: &Self) -> Self {
        Self {
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            plural: parent.plural.clone(),
            singular: parent.singular.clone(),
            kind: "Scale".to_owned(),
            list_kind: "ScaleList".to_owned(),
            namespaced: parent.namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Vec::new(),
            schema: SchemaSource::Builtin(SCALE),
            subresources: Vec::new(),
            strategy: &GENERIC,
            derived: Derived::default(),
        }
    }

    /// 400 for an unsupported field.
    pub(crate) fn check_selectable(&self, field: &str) -> Result<(), ApiError> {
        match &self.schema {
            SchemaSource::Builtin(_) => match self.core_label(field) {
                Some(label) => builtin::selectable(&self.group, &self.kind, &label, &Value::Null)
                    .map(|_| ())
                    .map_err(|e| ApiError::bad_request(e.to_string())),
                None => Err(unknown_label(field)),
            },
            SchemaSource::Custom(version) => {
                let known = field == "metadata.name"
                    || (field == "metadata.namespace" && self.namespaced)
                    || version
                        .selectable_fields()
                        .iter()
                        .any(|f| f.trim_start_matches('.') == field);
                if known { Ok(()) } else { Err(unknown_label(field)) }
            }
        }
    }

    /// The core group's name of a field label: Events of `events.k8s.io` have their own.
    fn core_label<'f>(&self, field: &'f str) -> Option<Cow<'f, str>> {
        if (self.group.as_str(), self.kind.as_str()) != ("events.k8s.io", "Event") {
            return Some(Cow::Borrowed(field));
        }
        match (field, field.split_once('.')) {
            (_, Some(("regarding", part))) => Some(Cow::Owned(format!("involvedObject.{part}"))),
            ("reportingController", _) => Some(Cow::Borrowed("reportingComponent")),
            ("reportingComponent" | "source", _) | (_, Some(("involvedObject", _))) => None,
            _ => Some(Cow::Borrowed(field)),
        }
    }

    pub(crate) fn selectable_value(&self, object: &Value, field: &str) -> String {
        match field {
            "metadata.name" | "metadata.namespace" => {
                let key = field.trim_start_matches("metadata.");
                object["metadata"][key].as_str().unwrap_or_default().to_owned()
            }
            _ => match &self.schema {
                SchemaSource::Custom(_) => crd::CustomVersion::selectable_value(object, field),
                SchemaSource::Builtin(_) => {
                    let label = self.core_label(field).unwrap_or(Cow::Borrowed(field));
                    builtin::selectable(group_of(object), &self.kind, &label, object).unwrap_or_default()
                }
            },
        }
    }
}

fn unknown_label(field: &str) -> ApiError {
    ApiError::bad_request(format!("field label not supported: {field}"))
}

/// The group of an object's apiVersion; for Events it may differ from the request's.
fn group_of(object: &Value) -> &str {
    let api_version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The empty status that the Go type writes; `None` if the kind has no such field.
fn empty_status(definition: &str) -> Option<Value> {
    let definitions = schema::kubernetes();
    let status = definitions.get(definition)?.properties.get("status")?;
    let name = status.reference.as_deref()?;
    schema::decode(definitions, name, Value::Object(Map::new()))
        .ok()
        .map(|d| d.value)
}

fn keep(new: &mut Value, stored: &Value, path: &[&str]) {
    let value = path.iter().try_fold(stored, |v, key| v.get(key)).cloned();
    put(new, path, value);
}

fn put(object: &mut Value, path: &[&str], value: Option<Value>) {
    crate::pipeline::put(object, path, value);
}
