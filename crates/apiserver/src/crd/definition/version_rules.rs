//! Validation of one version of a CustomResourceDefinition, except its schema.

use super::text;
use crate::crd::selectable;
use crate::field::FieldError;
use equate_manifest::schema::Schema;
use serde::Deserialize;
use serde_json::{Value, json};

const SELECTABLE_FIELDS_MAX: usize = 8;

pub(super) fn deprecation_errors(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").filter(|w| !w.is_null()) else {
        return;
    };
    let path = format!("{path}.deprecationWarning");
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        errors.push(FieldError::invalid(
            path,
            warning,
            "can only be set for deprecated versions",
        ));
        return;
    }
    let content = text(Some(warning));
    if content.len() > 256 {
        errors.push(FieldError::invalid(
            path.clone(),
            warning,
            "must be <= 256 characters long",
        ));
    }
    if content.is_empty() {
        errors.push(FieldError::invalid(
            path.clone(),
            warning,
            "must not be an empty string",
        ));
    }
    if let Some((index, _)) = content.char_indices().find(|(_, c)| c.is_control()) {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.push(FieldError::invalid(path, warning, why));
    }
}

fn simple_path_errors(value: &str, path: String, errors: &mut Vec<FieldError>) -> bool {
    if value.starts_with('.') {
        return true;
    }
    errors.push(FieldError::invalid(
        path,
        &json!(value),
        "must be a simple json path starting with .",
    ));
    false
}

pub(super) fn subresource_errors(subresources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = subresources.get("scale").filter(|s| s.is_object()) else {
        return;
    };
    for (field, prefix, optional) in [
        ("specReplicasPath", ".spec.", false),
        ("statusReplicasPath", ".status.", false),
        ("labelSelectorPath", "", true),
    ] {
        let value = text(scale.get(field));
        let at = format!("{path}.scale.{field}");
        if value.is_empty() {
            if !optional {
                errors.push(FieldError::required(at, ""));
            }
            continue;
        }
        if !simple_path_errors(value, at.clone(), errors) {
            continue;
        }
        if optional {
            if !value.starts_with(".spec.") && !value.starts_with(".status.") {
                let why = "should be a json path under either .spec or .status";
                errors.push(FieldError::invalid(at, &json!(value), why));
            }
        } else if !value.starts_with(prefix) {
            let why = format!("should be a json path under {}", prefix.trim_end_matches('.'));
            errors.push(FieldError::invalid(at, &json!(value), why));
        }
    }
}

pub(super) fn column_errors(columns: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &[
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (index, column) in columns.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if text(column.get("name")).is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let kind = text(column.get("type"));
        let one_of = |values: &[&str]| format!("must be one of {}", values.join(","));
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), one_of(TYPES)));
        } else if !TYPES.contains(&kind) {
            errors.push(FieldError::invalid(
                format!("{path}.type"),
                &json!(kind),
                one_of(TYPES),
            ));
        }
        let format = text(column.get("format"));
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(
                format!("{path}.format"),
                &json!(format),
                one_of(FORMATS),
            ));
        }
        let json_path = text(column.get("jsonPath"));
        if json_path.is_empty() {
            errors.push(FieldError::required(format!("{path}.JSONPath"), ""));
        } else {
            simple_path_errors(json_path, format!("{path}.JSONPath"), errors);
        }
    }
}

pub(super) fn selectable_errors(
    fields: &[Value],
    validation: Option<&Value>,
    path: &str,
    without_schema: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(raw) = validation
        .and_then(|v| v.get("openAPIV3Schema"))
        .filter(|s| s.is_object())
    else {
        errors.push(FieldError::invalid(path, &json!(""), without_schema));
        return;
    };
    let Ok(schema) = Schema::deserialize(raw) else {
        return;
    };
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let json_path = text(field.get("jsonPath"));
        let shown = json!(json_path);
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let found = match selectable::resolve(json_path, &schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(
                    at,
                    &shown,
                    format!("is an invalid path: {why}"),
                ));
                continue;
            }
        };
        if found.path.split(['.', '[']).next() == Some("metadata") {
            errors.push(FieldError::invalid(
                at.clone(),
                &shown,
                "must not point to fields in metadata",
            ));
        }
        if !selectable::is_selectable(found.schema) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                       with formats are allowed.";
            errors.push(FieldError::invalid(at.clone(), &shown, why));
        }
        if seen.contains(&found.path) {
            errors.push(FieldError::duplicate(at, &shown));
        } else {
            seen.push(found.path);
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_FIELDS_MAX));
    }
}
