//! The `autoscaling/v1` Scale of an object, by the paths of its kind.
//!
//! A CRD declares the paths of its custom resources; built-in workloads have fixed ones. Pure: reading and
//! writing JSON only.

use crate::field::FieldError;
use crate::selector;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// The wanted number of replicas.
    pub spec_replicas: String,
    /// The observed number of replicas.
    pub status_replicas: String,
    /// The selector: text in custom resources, a LabelSelector or a map of labels in built-in kinds.
    pub label_selector: Option<String>,
}

/// A field on the way to a scale value has another type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} accessor error: {value} is of the type {found}, expected {expected}")]
pub(crate) struct AccessorError {
    path: String,
    value: String,
    found: &'static str,
    expected: &'static str,
}

/// The Scale of `object`. The replicas are `None` if the field is absent; GET then answers 500
/// ([`missing_text`]).
pub(crate) fn to_scale(object: &Value, paths: &ScalePaths) -> Result<(Value, Option<i64>), AccessorError> {
    let replicas = integer_at(object, &paths.spec_replicas)?;
    let observed = integer_at(object, &paths.status_replicas)?.unwrap_or(0);
    let selector = match &paths.label_selector {
        None => String::new(),
        Some(path) => selector_text(object, path)?,
    };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    // Go's encoder omits zero wanted replicas and an empty selector.
    let mut spec = Map::new();
    if let Some(wanted) = replicas.filter(|n| *n != 0) {
        spec.insert("replicas".to_owned(), json!(wanted));
    }
    let mut status = Map::new();
    status.insert("replicas".to_owned(), json!(observed));
    if !selector.is_empty() {
        status.insert("selector".to_owned(), json!(selector));
    }
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((scale, replicas))
}

pub(crate) fn from_scale(object: &mut Value, scale: &Value, paths: &ScalePaths) {
    let wanted = scale
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let mut target = &mut *object;
    let mut parts = path_parts(&paths.spec_replicas).peekable();
    while let Some(part) = parts.next() {
        let Value::Object(map) = target else { return };
        if parts.peek().is_none() {
            map.insert(part.to_owned(), json!(wanted));
            break;
        }
        target = map.entry(part).or_insert_with(|| json!({}));
    }
    if let Some(Value::String(version)) = scale.pointer("/metadata/resourceVersion")
        && !version.is_empty()
        && let Some(Value::Object(metadata)) = object.get_mut("metadata")
    {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

pub(crate) fn missing_text(paths: &ScalePaths) -> String {
    format!(
        "the spec replicas field \"{}\" does not exist",
        paths.spec_replicas
    )
}

pub(crate) fn validate_scale(scale: &Value) -> Vec<FieldError> {
    let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or(json!(0));
    if replicas.as_i64().is_some_and(|n| n < 0) {
        return vec![FieldError::invalid(
            "spec.replicas",
            &replicas,
            "must be greater than or equal to 0",
        )];
    }
    Vec::new()
}

/// Validates a custom resource's own scale fields; `status_only` on its status endpoint.
pub(super) fn validate_fields(object: &Value, paths: &ScalePaths, status_only: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status_only {
        replicas_errors(object, &paths.spec_replicas, &mut errors);
    }
    replicas_errors(object, &paths.status_replicas, &mut errors);
    if let Some(path) = &paths.label_selector
        && let Err(e) = text_at(object, path)
    {
        errors.push(FieldError::invalid(path.clone(), &json!(""), e.to_string()));
    }
    errors
}

fn replicas_errors(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match integer_at(object, path) {
        Err(e) => errors.push(FieldError::invalid(path, &json!(0), e.to_string())),
        Ok(Some(n)) if n < 0 => {
            errors.push(FieldError::invalid(
                path,
                &json!(n),
                "should be a non-negative integer",
            ));
        }
        Ok(Some(n)) if n > i64::from(i32::MAX) => errors.push(FieldError::invalid(
            path,
            &json!(n),
            format!("should be less than or equal to {}", i32::MAX),
        )),
        Ok(_) => {}
    }
}

fn path_parts(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn value_at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, AccessorError> {
    let mut current = object;
    let mut walked = String::new();
    for part in path_parts(path) {
        match current {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(part) {
                Some(next) => current = next,
                None => return Ok(None),
            },
            other => {
                return Err(accessor_error(
                    format!(".{walked}"),
                    other,
                    "map[string]interface {}",
                ));
            }
        }
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(part);
    }
    Ok(Some(current))
}

fn integer_at(object: &Value, path: &str) -> Result<Option<i64>, AccessorError> {
    match value_at(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(n) => Ok(Some(n)),
            None => Err(accessor_error(dotted(path), value, "int64")),
        },
    }
}

fn text_at(object: &Value, path: &str) -> Result<Option<String>, AccessorError> {
    match value_at(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(accessor_error(dotted(path), other, "string")),
    }
}

fn dotted(path: &str) -> String {
    format!(".{}", path.strip_prefix('.').unwrap_or(path))
}

fn accessor_error(path: String, value: &Value, expected: &'static str) -> AccessorError {
    let (found, text) = match value {
        Value::Null => ("<nil>", "<nil>".to_owned()),
        Value::Bool(b) => ("bool", b.to_string()),
        Value::Number(n) if n.is_f64() => ("float64", super::go::number(n)),
        Value::Number(n) => ("int64", n.to_string()),
        Value::String(s) => ("string", s.clone()),
        Value::Array(_) => ("[]interface {}", super::go::plain(value)),
        Value::Object(_) => ("map[string]interface {}", super::go::plain(value)),
    };
    AccessorError {
        path,
        value: text,
        found,
        expected,
    }
}

/// A selector as `a=b,c in (d,e)`: from text, from a map of labels, or from a LabelSelector.
fn selector_text(object: &Value, path: &str) -> Result<String, AccessorError> {
    let Some(value) = value_at(object, path)? else {
        return Ok(String::new());
    };
    let map = match value {
        Value::String(text) => return Ok(text.clone()),
        Value::Object(map) => map,
        other => return Err(accessor_error(dotted(path), other, "string")),
    };
    let is_label_selector = map.get("matchLabels").is_some_and(Value::is_object)
        || map.get("matchExpressions").is_some_and(Value::is_array);
    if is_label_selector {
        return Ok(selector::text_of(Some(value)));
    }
    let terms: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Ok(terms.join(","))
}
