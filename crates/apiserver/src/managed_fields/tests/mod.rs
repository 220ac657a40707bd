use super::*;
use equate_manifest::schema;
use equate_manifest::typed::{custom_resource, from_openapi};
use serde_json::json;

mod goldens;
mod rules;

const TIME: &str = "2026-01-01T00:00:00Z";

struct Kind {
    api_version: String,
    kind: String,
    types: Type,
    empty: Value,
    reset: &'static [&'static [&'static str]],
    status_reset: &'static [&'static [&'static str]],
}

impl Kind {
    fn builtin(definition: &str, api_version: &str, kind: &str) -> Self {
        let definitions = schema::kubernetes();
        let said = json!({ "apiVersion": api_version, "kind": kind });
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            types: from_openapi(definition, |name| definitions.get(name)),
            empty: schema::decode(definitions, definition, said).unwrap().value,
            reset: &[&["status"]],
            status_reset: &[&["spec"], &["metadata", "labels"]],
        }
    }

    fn custom(schema: &Value, api_version: &str, kind: &str) -> Self {
        let schema: schema::Schema = serde_json::from_value(schema.clone()).unwrap();
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            types: custom_resource(Some(&schema), |name| schema::kubernetes().get(name)),
            empty: json!({ "apiVersion": api_version, "kind": kind }),
            reset: &[&["status"]],
            status_reset: &[&["spec"], &["metadata"]],
        }
    }

    fn config_map() -> Self {
        Self {
            reset: &[],
            ..Self::builtin("io.k8s.api.core.v1.ConfigMap", "v1", "ConfigMap")
        }
    }

    fn manager<'a>(&'a self, name: &'a str, subresource: &'a str) -> Manager<'a> {
        Manager {
            name,
            api_version: &self.api_version,
            kind: &self.kind,
            subresource,
            time: TIME,
            types: &self.types,
            empty: &self.empty,
            reset_fields: if subresource == "status" {
                self.status_reset
            } else {
                self.reset
            },
        }
    }
}

/// `managedFields` with times reduced to whether there is one.
fn timeless(object: &Value) -> Value {
    let mut entries = managed_fields(object).cloned().unwrap_or(Value::Null);
    for entry in entries.as_array_mut().into_iter().flatten() {
        if entry.get("time").is_some() {
            entry["time"] = json!("<ts>");
        }
    }
    entries
}
