//! Responses: objects, lists, tables and failures, as bytes.

use super::negotiate::{Accepted, Format, Shape};
use crate::pipeline::Object;
use crate::registry::{Resource, SchemaSource};
use crate::status::ApiError;
use crate::store::Entry;
use crate::table;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use equate_manifest::schema;
use equate_manifest::schema::protobuf::{self, ProtobufError};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// Larger answers are compressed for clients that accept it (apiserver, 128 KiB).
const GZIP_MIN: usize = 128 * 1024;
/// The most bytes of `Warning` texts in one answer (apiserver `warning`, 4 KiB).
const WARNINGS_MAX: usize = 4 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub accepted: Accepted,
    pub include_object: table::IncludeObject,
    pub gzip: bool,
    pub now: jiff::Timestamp,
}

impl Reply {
    /// The rendering of a table; only the first of a watch has `headers`.
    pub(crate) fn rendering(&self, headers: bool) -> table::Rendering {
        table::Rendering {
            include: self.include_object,
            headers,
            now: self.now,
        }
    }

    pub(crate) fn object(&self, resource: &Resource, object: &Object, code: StatusCode) -> Response {
        match self.accepted.shape {
            Shape::Object => match object {
                Object::Stored(entry)
                    if self.accepted.format == Format::Json
                        && resource.shows_as_stored(entry.api_version()) =>
                {
                    self.bytes(code, Format::Json.content_type(), entry.encoded())
                }
                _ => match resource.to_version(object.value()) {
                    Ok(value) => self.value(code, &value),
                    Err(error) => self.failure(&error),
                },
            },
            Shape::PartialMetadata => self.value(code, &table::partial_metadata(object.value())),
            Shape::Table => {
                let value = match resource.to_version(object.value()) {
                    Ok(value) => value,
                    Err(error) => return self.failure(&error),
                };
                let meta = json!({ "resourceVersion": value["metadata"]["resourceVersion"] });
                let mut out = table::render(resource, std::iter::once(&*value), self.rendering(true));
                out["metadata"] = meta;
                self.value(code, &out)
            }
        }
    }

    pub(crate) fn value(&self, code: StatusCode, value: &Value) -> Response {
        match self.accepted.format {
            Format::Json => json(self, code, value),
            Format::Yaml => {
                let text = equate_manifest::yaml::to_string(value);
                self.bytes(code, Format::Yaml.content_type(), Bytes::from(text))
            }
            Format::Protobuf => match protobuf::encode_object(schema::kubernetes(), value) {
                Ok(bytes) => self.bytes(code, Format::Protobuf.content_type(), Bytes::from(bytes)),
                // such as the version, a document without a kind
                Err(ProtobufError::Kind { .. }) => json(self, code, value),
                Err(error) => self.failure(&ApiError::internal(error.to_string())),
            },
        }
    }

    /// A failure, always as one line of JSON.
    pub(crate) fn failure(&self, error: &ApiError) -> Response {
        failure(error)
    }

    pub(crate) fn bytes(&self, code: StatusCode, content_type: &'static str, bytes: Bytes) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = code;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        response.headers_mut().insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
        let compressed = (self.gzip && bytes.len() > GZIP_MIN)
            .then(|| gzip(&bytes))
            .flatten();
        *response.body_mut() = match compressed {
            Some(compressed) => {
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
                    .headers_mut()
                    .append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
                Body::from(compressed)
            }
            None => Body::from(bytes),
        };
        response
    }
}

fn json(reply: &Reply, code: StatusCode, value: &Value) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => reply.bytes(code, Format::Json.content_type(), Bytes::from(bytes)),
        Err(error) => reply.failure(&ApiError::internal(error.to_string())),
    }
}

/// The lowest compression level, as upstream: lists are repetitive enough.
fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

pub(crate) fn failure(error: &ApiError) -> Response {
    let mut response = Response::new(Body::from(error.to_value().to_string()));
    *response.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if let Some(seconds) = error.details.as_ref().and_then(|d| d.retry_after_seconds) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(crate) fn text(code: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// Adds `Warning` headers, without duplicates, up to upstream's limit.
pub(crate) fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    let mut total = 0;
    for warning in warnings {
        total += warning.len();
        if total > WARNINGS_MAX {
            return;
        }
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(header::WARNING, value);
        }
    }
}

/// A list as written: items of built-in kinds have no `apiVersion` and `kind`.
pub(crate) struct List<'a, I> {
    pub resource: &'a Resource,
    pub metadata: Value,
    pub items: I,
}

impl<'a, I> Serialize for List<'a, I>
where
    I: Iterator<Item = &'a Value> + Clone,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("kind", &self.resource.list_kind)?;
        map.serialize_entry("apiVersion", &self.resource.api_version())?;
        map.serialize_entry("metadata", &self.metadata)?;
        match self.resource.schema {
            SchemaSource::Custom(_) => {
                let api_version = self.resource.api_version();
                map.serialize_entry(
                    "items",
                    &Sequence(self.items.clone().map(|v| InVersion(v, &api_version))),
                )?;
            }
            SchemaSource::Builtin(_) => {
                map.serialize_entry("items", &Sequence(self.items.clone().map(WithoutKind)))?;
            }
        }
        map.end()
    }
}

/// A list in JSON. Items in their stored form are copied from their shared bytes.
pub(crate) fn list_json(
    resource: &Resource,
    metadata: Value,
    entries: &[Arc<Entry>],
) -> Result<Bytes, ApiError> {
    let failed = |error: serde_json::Error| ApiError::internal(error.to_string());
    let empty = List {
        resource,
        metadata,
        items: std::iter::empty(),
    };
    let mut out = serde_json::to_vec(&empty).map_err(failed)?;
    // The items come last: `]}` is appended after them.
    out.truncate(out.len().saturating_sub(2));
    // each growth would touch new pages
    out.reserve(entries.iter().map(|entry| entry.known_size() + 1).sum());
    let custom = resource.is_custom();
    for (n, entry) in entries.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        match (resource.shows_as_stored(entry.api_version()), custom) {
            (true, true) => out.extend_from_slice(&entry.encoded()),
            (true, false) => entry.write_untyped(&mut out),
            (false, _) => {
                let shown = resource.view(entry)?;
                if custom {
                    serde_json::to_writer(&mut out, &*shown).map_err(failed)?;
                } else {
                    serde_json::to_writer(&mut out, &WithoutKind(&shown)).map_err(failed)?;
                }
            }
        }
    }
    out.extend_from_slice(b"]}");
    Ok(Bytes::from(out))
}

/// A list of a built-in kind in protobuf.
pub(crate) fn list_protobuf(
    resource: &Resource,
    metadata: &Value,
    entries: &[Arc<Entry>],
) -> Result<Bytes, ApiError> {
    let failed = |error: ProtobufError| ApiError::internal(error.to_string());
    let SchemaSource::Builtin(definition) = &resource.schema else {
        return Err(ApiError::internal(
            "a custom resource has no protobuf form".to_owned(),
        ));
    };
    let defs = schema::kubernetes();
    let mut item = Vec::new();
    protobuf::encode(defs, LIST_META, metadata, &mut item).map_err(failed)?;
    let mut raw = Vec::new();
    protobuf::put_bytes(&mut raw, 1, &item);
    for entry in entries {
        item.clear();
        let shown = resource.view(entry)?;
        protobuf::encode(defs, definition, &shown, &mut item).map_err(failed)?;
        protobuf::put_bytes(&mut raw, 2, &item);
    }
    let envelope = protobuf::Envelope {
        api_version: &resource.api_version(),
        kind: &resource.list_kind,
        raw: &raw,
    };
    Ok(Bytes::from(envelope.seal()))
}

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

struct Sequence<I>(I);

impl<I> Serialize for Sequence<I>
where
    I: Iterator + Clone,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

struct WithoutKind<'a>(&'a Value);

impl Serialize for WithoutKind<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                serializer.collect_map(map.iter().filter(|(k, _)| *k != "apiVersion" && *k != "kind"))
            }
            other => other.serialize(serializer),
        }
    }
}

struct InVersion<'a>(&'a Value, &'a str);

impl Serialize for InVersion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let mut out = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    if key == "apiVersion" {
                        out.serialize_entry(key, self.1)?;
                    } else {
                        out.serialize_entry(key, value)?;
                    }
                }
                out.end()
            }
            other => other.serialize(serializer),
        }
    }
}
