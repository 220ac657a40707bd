//! `Chart.yaml`, `requirements.yaml` and locks, decoded as Go's decoder does.
//!
//! Only the first document counts. A number or boolean becomes a string where a string is expected, keys
//! ignore case, and unknown fields are ignored. A wrong type is an error in the decoder's words; the
//! first in key order wins.

use super::{FileError, LoadError};
use crate::limits::Limits;
use crate::metadata::{Dependency, Lock, Maintainer, Metadata, ValidationError};
use crate::values;
use equate_manifest::json::{go_float, type_name};
use equate_manifest::{schema, yaml};
use serde_json::{Map, Value};

/// Reads only the version of the chart format, and rejects unknown ones.
pub(super) fn version(data: &[u8], limits: &Limits) -> Result<(), LoadError> {
    let failed = |source| LoadError::File {
        file: super::CHART_YAML,
        source,
    };
    let value = document(data, limits).map_err(failed)?;
    let mut decoder = Decoder::default();
    let mut version = String::new();
    decoder.object(&value, Place::Root("v2.chartBase"), |decoder, key, value| {
        if key == "apiversion" {
            decoder.text(value, Place::Field("chartBase.apiVersion"), &mut version);
        }
    });
    decoder.done().map_err(failed)?;
    match version.as_str() {
        "" | "v1" | "v2" => Ok(()),
        // Helm reads it only to say so
        "v3" => Err(LoadError::NotYet),
        _ => Err(LoadError::Version),
    }
}

#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) metadata: Metadata,
    null_maintainer: bool,
    /// The index of the dependency after a null.
    null_dependency: Option<usize>,
}

impl Parsed {
    pub(super) fn validated(self) -> Result<Metadata, ValidationError> {
        let mut metadata = self.metadata;
        metadata.sanitize_and_validate(self.null_maintainer, self.null_dependency)?;
        Ok(metadata)
    }
}

/// Decodes one metadata file over another. Returns its number of values.
pub(super) fn metadata(data: &[u8], limits: &Limits, into: &mut Parsed) -> Result<usize, FileError> {
    let value = document(data, limits)?;
    let mut decoder = Decoder::default();
    decoder.object(&value, Place::Root("v2.Metadata"), |decoder, key, value| {
        decoder.metadata_field(key, value, into);
    });
    decoder.done()?;
    Ok(value.as_object().map_or(0, values::nodes))
}

/// Fields of an index entry besides `Chart.yaml`'s.
#[derive(Debug, Default)]
pub(crate) struct EntryFields {
    pub(crate) urls: Vec<String>,
    pub(crate) created: String,
    pub(crate) digest: String,
    pub(crate) removed: bool,
}

/// Decodes an index entry. Duplicate dependency names are not checked there.
pub(crate) fn index_entry(
    entry: &Value,
) -> Result<Result<(Metadata, EntryFields), ValidationError>, FileError> {
    let (mut parsed, mut offer) = (Parsed::default(), EntryFields::default());
    let mut decoder = Decoder::default();
    decoder.object(
        entry,
        Place::Root("v2.Metadata"),
        |decoder, key, value| match key {
            "urls" => decoder.texts(value, Place::Field("ChartVersion.entries.urls"), &mut offer.urls),
            "digest" => decoder.text(
                value,
                Place::Field("ChartVersion.entries.digest"),
                &mut offer.digest,
            ),
            "removed" => decoder.flag(
                value,
                Place::Field("ChartVersion.entries.removed"),
                &mut offer.removed,
            ),
            "created" => decoder.time(value, &mut offer.created),
            key => decoder.metadata_field(key, value, &mut parsed),
        },
    );
    decoder.done()?;
    let mut metadata = parsed.metadata;
    if metadata.api_version.is_empty() {
        metadata.api_version = "v1".to_owned();
    }
    let valid = metadata.sanitize_and_validate(parsed.null_maintainer, parsed.null_dependency);
    Ok(match valid {
        Err(error)
            if !error
                .to_string()
                .contains("more than one dependency with name or alias") =>
        {
            Err(error)
        }
        _ => Ok((metadata, offer)),
    })
}

/// Decodes a lock; an empty one is `None`. Returns its number of values as well.
pub(super) fn lock(data: &[u8], limits: &Limits) -> Result<(Option<Lock>, usize), FileError> {
    let value = document(data, limits)?;
    if value.is_null() {
        return Ok((None, 0));
    }
    let mut lock = Lock {
        generated: "0001-01-01T00:00:00Z".into(),
        ..Lock::default()
    };
    let mut decoder = Decoder::default();
    decoder.object(&value, Place::Root("v2.Lock"), |decoder, key, value| match key {
        "digest" => decoder.text(value, Place::Field("Lock.digest"), &mut lock.digest),
        "generated" => decoder.time(value, &mut lock.generated),
        "dependencies" => {
            lock.dependencies = decoder.dependencies(value, "Lock").0;
        }
        _ => {}
    });
    decoder.done()?;
    Ok((Some(lock), value.as_object().map_or(0, values::nodes)))
}

fn document(data: &[u8], limits: &Limits) -> Result<Value, FileError> {
    let text = std::str::from_utf8(data).map_err(|error| FileError::NotUtf8(error.valid_up_to()))?;
    let documents = yaml::load(text, &limits.yaml()).map_err(FileError::Yaml)?;
    Ok(documents
        .into_iter()
        .next()
        .map_or(Value::Null, |document| document.value))
}

/// The target of a value.
#[derive(Clone, Copy)]
enum Place {
    /// The whole document, of a type.
    Root(&'static str),
    /// A field, with its struct.
    Field(&'static str),
}

#[derive(Default)]
struct Decoder {
    fault: Option<String>,
}

impl Decoder {
    fn done(self) -> Result<(), FileError> {
        match self.fault {
            Some(fault) => Err(FileError::Type(fault)),
            None => Ok(()),
        }
    }

    fn mismatch(&mut self, value: &Value, place: Place, wanted: &str) {
        let found = type_name(value);
        self.fault.get_or_insert_with(|| match place {
            Place::Root(of) => format!("json: cannot unmarshal {found} into Go value of type {of}"),
            Place::Field(field) => {
                format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
            }
        });
    }

    fn object(&mut self, value: &Value, place: Place, mut field: impl FnMut(&mut Self, &str, &Value)) {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                for (key, value) in map {
                    field(self, &key.to_lowercase(), value);
                }
            }
            _ => self.mismatch(value, place, ""),
        }
    }

    fn text(&mut self, value: &Value, place: Place, into: &mut String) {
        match value {
            Value::Null => {}
            Value::String(text) => into.clone_from(text),
            Value::Bool(flag) => *into = flag.to_string(),
            Value::Number(number) => {
                *into = match (number.is_f64(), number.as_f64()) {
                    (true, Some(float)) => go_float(float),
                    _ => number.to_string(),
                }
            }
            _ => self.mismatch(value, place, "string"),
        }
    }

    fn flag(&mut self, value: &Value, place: Place, into: &mut bool) {
        match value {
            Value::Null => {}
            Value::Bool(flag) => *into = *flag,
            _ => self.mismatch(value, place, "bool"),
        }
    }

    /// Go's time: RFC 3339 only, kept verbatim.
    fn time(&mut self, value: &Value, into: &mut String) {
        match value {
            Value::Null => {}
            Value::String(text) => match schema::time::parse_seconds(text) {
                Ok(_) => into.clone_from(text),
                Err(error) => {
                    self.fault.get_or_insert_with(|| error.to_string());
                }
            },
            _ => {
                self.fault
                    .get_or_insert_with(|| "Time.UnmarshalJSON: input is not a JSON string".into());
            }
        }
    }

    fn items<'v>(&mut self, value: &'v Value, place: Place, wanted: &str) -> Option<&'v [Value]> {
        match value {
            Value::Null => Some(&[]),
            Value::Array(items) => Some(items),
            _ => {
                self.mismatch(value, place, wanted);
                None
            }
        }
    }

    fn texts(&mut self, value: &Value, place: Place, into: &mut Vec<String>) {
        let Some(items) = self.items(value, place, "[]string") else {
            return;
        };
        into.clear();
        for item in items {
            let mut text = String::new();
            self.text(item, place, &mut text);
            into.push(text);
        }
    }

    fn metadata_field(&mut self, key: &str, value: &Value, into: &mut Parsed) {
        const fn field(name: &'static str) -> Place {
            Place::Field(name)
        }
        let metadata = &mut into.metadata;
        match key {
            "name" => self.text(value, field("Metadata.name"), &mut metadata.name),
            "home" => self.text(value, field("Metadata.home"), &mut metadata.home),
            "sources" => self.texts(value, field("Metadata.sources"), &mut metadata.sources),
            "version" => self.text(value, field("Metadata.version"), &mut metadata.version),
            "description" => self.text(value, field("Metadata.description"), &mut metadata.description),
            "keywords" => self.texts(value, field("Metadata.keywords"), &mut metadata.keywords),
            "icon" => self.text(value, field("Metadata.icon"), &mut metadata.icon),
            "apiversion" => self.text(value, field("Metadata.apiVersion"), &mut metadata.api_version),
            "condition" => self.text(value, field("Metadata.condition"), &mut metadata.condition),
            "tags" => self.text(value, field("Metadata.tags"), &mut metadata.tags),
            "appversion" => self.text(value, field("Metadata.appVersion"), &mut metadata.app_version),
            "deprecated" => self.flag(value, field("Metadata.deprecated"), &mut metadata.deprecated),
            "kubeversion" => self.text(value, field("Metadata.kubeVersion"), &mut metadata.kube_version),
            "type" => self.text(value, field("Metadata.type"), &mut metadata.kind),
            "annotations" => self.annotations(value, metadata),
            "maintainers" => {
                (metadata.maintainers, into.null_maintainer) = self.maintainers(value);
            }
            "dependencies" => {
                (metadata.dependencies, into.null_dependency) = self.dependencies(value, "Metadata");
            }
            _ => {}
        }
    }

    fn annotations(&mut self, value: &Value, metadata: &mut Metadata) {
        let place = Place::Field("Metadata.annotations");
        let empty = Map::new();
        let map = match value {
            Value::Null => &empty,
            Value::Object(map) => map,
            _ => return self.mismatch(value, place, "map[string]string"),
        };
        for (key, value) in map {
            let mut text = String::new();
            self.text(value, place, &mut text);
            metadata.annotations.insert(key.clone(), text);
        }
    }

    fn maintainers(&mut self, value: &Value) -> (Vec<Maintainer>, bool) {
        let place = Place::Field("Metadata.maintainers");
        let (mut maintainers, mut null) = (Vec::new(), false);
        for item in self.items(value, place, "[]*v2.Maintainer").unwrap_or_default() {
            let mut maintainer = Maintainer::default();
            match item {
                Value::Null => null = true,
                Value::Object(_) => self.object(item, place, |decoder, key, value| {
                    let field = |name| Place::Field(name);
                    match key {
                        "name" => {
                            decoder.text(value, field("Maintainer.maintainers.name"), &mut maintainer.name);
                        }
                        "email" => decoder.text(
                            value,
                            field("Maintainer.maintainers.email"),
                            &mut maintainer.email,
                        ),
                        "url" => {
                            decoder.text(value, field("Maintainer.maintainers.url"), &mut maintainer.url);
                        }
                        _ => {}
                    }
                }),
                _ => self.mismatch(item, place, "v2.Maintainer"),
            }
            maintainers.push(maintainer);
        }
        (maintainers, null)
    }

    fn dependencies(&mut self, value: &Value, of: &str) -> (Vec<Dependency>, Option<usize>) {
        let place = Place::Field(match of {
            "Lock" => "Lock.dependencies",
            _ => "Metadata.dependencies",
        });
        let (mut dependencies, mut null) = (Vec::new(), None);
        for item in self.items(value, place, "[]*v2.Dependency").unwrap_or_default() {
            let mut dependency = Dependency::default();
            match item {
                Value::Null => {
                    null.get_or_insert(dependencies.len());
                    continue;
                }
                Value::Object(_) => self.object(item, place, |decoder, key, value| {
                    decoder.dependency_field(key, value, &mut dependency);
                }),
                _ => self.mismatch(item, place, "v2.Dependency"),
            }
            dependencies.push(dependency);
        }
        (dependencies, null)
    }

    fn dependency_field(&mut self, key: &str, value: &Value, into: &mut Dependency) {
        match key {
            "name" => self.text(
                value,
                Place::Field("Dependency.dependencies.name"),
                &mut into.name,
            ),
            "version" => {
                self.text(
                    value,
                    Place::Field("Dependency.dependencies.version"),
                    &mut into.version,
                );
            }
            "repository" => self.text(
                value,
                Place::Field("Dependency.dependencies.repository"),
                &mut into.repository,
            ),
            "condition" => self.text(
                value,
                Place::Field("Dependency.dependencies.condition"),
                &mut into.condition,
            ),
            "tags" => self.texts(
                value,
                Place::Field("Dependency.dependencies.tags"),
                &mut into.tags,
            ),
            "enabled" => self.flag(
                value,
                Place::Field("Dependency.dependencies.enabled"),
                &mut into.enabled,
            ),
            "alias" => self.text(
                value,
                Place::Field("Dependency.dependencies.alias"),
                &mut into.alias,
            ),
            "import-values" => {
                let place = Place::Field("Dependency.dependencies.import-values");
                if let Some(items) = self.items(value, place, "[]interface {}") {
                    into.import_values = items.iter().cloned().map(values::floats).collect();
                }
            }
            _ => {}
        }
    }
}
