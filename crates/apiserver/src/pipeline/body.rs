//! Request bodies: decodes bytes to an object in normal form.

use super::{Cx, Target};
use crate::field::go_quote;
use crate::registry::{Resource, SchemaSource};
use crate::status::ApiError;
use bytes::Bytes;
use equate_manifest::object::GroupVersion;
use equate_manifest::schema::DecodeError;
use equate_manifest::schema::protobuf::{self, ProtobufError};
use equate_manifest::{json, schema, yaml};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    Yaml,
    Protobuf,
}

#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub bytes: Bytes,
    pub kind: BodyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const ACCEPTED: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

impl Body {
    pub(crate) fn new(bytes: Bytes, content_type: Option<&str>) -> Result<Self, ApiError> {
        let kind = match content_type {
            None | Some("" | "application/json") => BodyKind::Json,
            Some("application/yaml") => BodyKind::Yaml,
            Some("application/vnd.kubernetes.protobuf") => BodyKind::Protobuf,
            Some(_) => return Err(ApiError::unsupported_media_type(&ACCEPTED)),
        };
        Ok(Self { bytes, kind })
    }

    pub(crate) fn parse(&self) -> Result<Parsed, BodyError> {
        match self.kind {
            BodyKind::Json => {
                let decoded = json::decode(&self.bytes)?;
                Ok(Parsed {
                    value: decoded.value,
                    fields: decoded.duplicates,
                    keys: None,
                })
            }
            BodyKind::Yaml => {
                let (value, keys) = yaml_value(std::str::from_utf8(&self.bytes)?)?;
                Ok(Parsed {
                    value,
                    fields: Vec::new(),
                    keys,
                })
            }
            BodyKind::Protobuf => Ok(Parsed {
                value: protobuf::decode_object(schema::kubernetes(), &self.bytes)?,
                fields: Vec::new(),
                keys: None,
            }),
        }
    }
}

/// A body's value, in which the last of repeated keys counts.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub value: Value,
    /// The paths of fields that JSON repeats.
    fields: Vec<String>,
    /// go-yaml's words about keys that YAML repeats.
    keys: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Json(#[from] json::JsonError),
    #[error("error converting YAML to JSON: yaml: {0}")]
    Yaml(#[from] yaml::YamlError),
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error(transparent)]
    Text(#[from] std::str::Utf8Error),
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Protobuf(ProtobufError::Kind { .. } | ProtobufError::Unknown { .. }) => {
                let mut refusal = Self::unsupported_media_type(&["application/json", "application/yaml"]);
                refusal.message = format!("{error}: send application/json or application/yaml");
                refusal
            }
            error => Self::bad_request(error.to_string()),
        }
    }
}

/// The first document, and go-yaml's words about its repeated keys.
fn yaml_value(text: &str) -> Result<(Value, Option<String>), BodyError> {
    let options = yaml::Options {
        duplicates: yaml::Duplicates::Collect,
        ..yaml::Options::default()
    };
    let documents = yaml::load(text, &options)?;
    let Some(document) = documents.into_iter().next() else {
        return Ok((Value::Null, None));
    };
    let repeated = document.duplicates.iter().map(|duplicate| {
        let (line, key) = (duplicate.place.line, go_quote(&duplicate.key));
        format!("\n  line {line}: key {key} already set in map")
    });
    let repeated: String = repeated.collect();
    let problem = (!repeated.is_empty()).then(|| format!("yaml: unmarshal errors:{repeated}"));
    Ok((document.value, problem))
}

/// An object in normal form, with the messages of Go's strict decoder.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub value: Value,
    pub problems: Vec<String>,
}

pub(crate) fn read_object(target: &Target, body: &Body, cx: &mut Cx<'_>) -> Result<Value, ApiError> {
    let resource = &*target.resource;
    let unrecognized = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            resource.kind,
            excerpt(&body.bytes)
        ))
    };
    let Parsed {
        mut value,
        fields,
        keys,
    } = body.parse().map_err(|e| match body.kind {
        BodyKind::Json => unrecognized(format!("couldn't get version/kind; json parse error: {e}")),
        BodyKind::Yaml | BodyKind::Protobuf => e.into(),
    })?;
    check_kind(resource, &mut value, body, unrecognized)?;
    let decoded =
        decode(resource, value, &fields).map_err(|why| cannot_handle(resource, &why.to_string()))?;
    let value = decoded.value;
    let problems = keys.into_iter().chain(decoded.problems).collect();
    cx.strict(problems).map_err(|problems| {
        cannot_handle(
            resource,
            &format!("strict decoding error: {}", problems.join(", ")),
        )
    })?;
    Ok(value)
}

fn cannot_handle(resource: &Resource, why: &str) -> ApiError {
    let Resource { kind, version, .. } = resource;
    ApiError::bad_request(format!(
        "{kind} in version {} cannot be handled as a {kind}: {why}",
        go_quote(version)
    ))
}

/// As much of a body as upstream quotes in its message.
fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    if bytes.len() <= SHOWN {
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        format!("{} ...", String::from_utf8_lossy(&bytes[..SHOWN]))
    }
}

fn check_kind(
    resource: &Resource,
    value: &mut Value,
    body: &Body,
    unrecognized: impl Fn(String) -> ApiError,
) -> Result<(), ApiError> {
    let Value::Object(map) = value else {
        return Err(unrecognized(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json::type_name(value)
        )));
    };
    let text = |key: &str| {
        map.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let custom = matches!(resource.schema, SchemaSource::Custom(_));
    if custom && (kind.is_empty() || api_version.is_empty()) {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(unrecognized(format!(
            "Object '{missing}' is missing in '{}'",
            String::from_utf8_lossy(&body.bytes)
        )));
    }
    let expected = resource.api_version();
    let kind = if kind.is_empty() {
        resource.kind.clone()
    } else {
        kind
    };
    let api_version = if api_version.is_empty() {
        expected.clone()
    } else {
        api_version
    };
    // A custom resource's validation refuses the wrong kind of the right version.
    let wrong_kind = kind != resource.kind && !custom;
    if wrong_kind || api_version != expected {
        return Err(kind_mismatch(resource, &kind, &api_version, custom));
    }
    map.insert("kind".to_owned(), Value::String(kind));
    map.insert("apiVersion".to_owned(), Value::String(api_version));
    Ok(())
}

fn kind_mismatch(resource: &Resource, kind: &str, api_version: &str, custom: bool) -> ApiError {
    let gv = GroupVersion::parse(api_version).unwrap_or_else(|| GroupVersion::new("", api_version));
    let known = || {
        schema::kubernetes_resources()
            .iter()
            .any(|r| r.group == gv.group && r.version == gv.version)
    };
    if !custom && !known() {
        // The file and line are upstream's: tools compare whole messages.
        return ApiError::bad_request(format!(
            "{kind} in version {version} cannot be handled as a {}: no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            resource.kind,
            go_quote(kind),
            go_quote(api_version),
            version = go_quote(&gv.version),
        ));
    }
    if custom || gv.group != resource.group || gv.version != resource.version {
        return ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        ));
    }
    ApiError::bad_request(format!(
        "{kind} in version {} cannot be handled as a {}: {}",
        go_quote(&gv.version),
        resource.kind,
        unknown_conversion(resource, kind)
    ))
}

/// Go's message for another kind of the resource's group.
pub(super) fn unknown_conversion(resource: &Resource, kind: &str) -> String {
    let internal = if resource.group.is_empty() {
        "core"
    } else {
        resource.group.split('.').next().unwrap_or_default()
    };
    format!(
        "converting ({}.{kind}) to ({internal}.{}): unknown conversion",
        resource.version, resource.kind
    )
}

/// Normalizes and defaults an object. The error is Go's text.
pub(crate) fn decode(
    resource: &Resource,
    value: Value,
    duplicates: &[String],
) -> Result<Decoded, DecodeError> {
    let mut problems: Vec<String> = Vec::new();
    // An empty list means "remove all managers"; the normal form would drop it.
    let forget = !resource.is_custom()
        && value
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty);
    let value = match &resource.schema {
        SchemaSource::Builtin(definition) => {
            let decoded = schema::decode(schema::kubernetes(), definition, value)?;
            problems.extend(
                decoded
                    .unknown
                    .iter()
                    .map(|p| format!("unknown field {}", go_quote(p))),
            );
            decoded.value
        }
        SchemaSource::Custom(version) => {
            let (mut value, unknown) = decode_custom_metadata(value)?;
            let mut unknown: Vec<String> = unknown.iter().map(|p| format!("metadata.{p}")).collect();
            unknown.extend(version.prune(&mut value));
            unknown.sort();
            problems.extend(unknown.iter().map(|p| format!("unknown field {}", go_quote(p))));
            version.default(&mut value);
            value
        }
    };
    problems.extend(
        duplicates
            .iter()
            .map(|p| format!("duplicate field {}", go_quote(p))),
    );
    let mut value = value;
    if forget {
        super::put(
            &mut value,
            &["metadata", "managedFields"],
            Some(Value::Array(Vec::new())),
        );
    }
    (resource.strategy.default)(&mut value);
    Ok(Decoded { value, problems })
}

/// An object of the right kind, made here.
pub(crate) fn normal_form(resource: &Resource, value: Value) -> Result<Value, String> {
    decode(resource, value, &[])
        .map(|decoded| decoded.value)
        .map_err(|error| error.to_string())
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn decode_custom_metadata(mut value: Value) -> Result<(Value, Vec<String>), DecodeError> {
    let Some(map) = value.as_object_mut() else {
        return Ok((value, Vec::new()));
    };
    let metadata = map
        .remove("metadata")
        .unwrap_or_else(|| Value::Object(Map::new()));
    let decoded = schema::decode(schema::kubernetes(), OBJECT_META, metadata)?;
    map.insert("metadata".to_owned(), decoded.value);
    Ok((value, decoded.unknown))
}

/// An apply's configuration: JSON, else YAML 1.1, with go-yaml's words about repeated keys.
pub(crate) fn apply_value(text: &str) -> Result<(Value, Option<String>), BodyError> {
    match json::decode(text.as_bytes()) {
        Ok(decoded) if decoded.duplicates.is_empty() => Ok((decoded.value, None)),
        _ => yaml_value(text),
    }
}
