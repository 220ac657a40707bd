//! Non-resource paths: discovery, OpenAPI, version, health.

use super::Call;
use super::respond::{Reply, text};
use crate::auth::issued;
use crate::catalog::Registry;
use crate::status::ApiError;
use crate::{discovery, openapi};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Documents made from a registry, cached until it changes.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    revision: u64,
    made: HashMap<String, Arc<Document>>,
}

#[derive(Debug)]
pub(crate) struct Document {
    pub bytes: Bytes,
    pub hash: String,
}

impl Documents {
    fn get(
        &self,
        registry: &Registry,
        name: &str,
        make: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Arc<Document>> {
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.revision != registry.revision() {
                *kept = Kept {
                    revision: registry.revision(),
                    made: HashMap::new(),
                };
            }
            if let Some(document) = kept.made.get(name) {
                return Some(Arc::clone(document));
            }
        }
        // Made outside the lock: a large document must not delay the small ones.
        let bytes = Bytes::from(make()?);
        let document = Arc::new(Document {
            hash: openapi::hash(&bytes),
            bytes,
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.revision == registry.revision() {
            kept.made.insert(name.to_owned(), Arc::clone(&document));
        }
        Some(document)
    }
}

pub(super) fn respond(call: &Call<'_>) -> Result<Response, ApiError> {
    if !matches!(call.method.as_str(), "GET" | "HEAD") {
        return Ok(text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n"));
    }
    let path = call.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let registry = &call.view.registry;
    let resources = registry.resources();
    match parts.as_slice() {
        [] => json(call, &discovery::root_paths(resources)),
        ["version"] => json(call, &discovery::version()),
        ["healthz" | "livez" | "readyz", rest @ ..] => Ok(health(call, &parts, rest)),
        ["api"] => match super::negotiate::aggregated_discovery(call.headers) {
            Some(version) => aggregated(call, version, true),
            None => json(call, &discovery::api_versions(host(call))),
        },
        ["apis"] => match super::negotiate::aggregated_discovery(call.headers) {
            Some(version) => aggregated(call, version, false),
            None => json(call, &discovery::group_list(resources)),
        },
        ["api", version] => found(call, discovery::resource_list(resources, "", version)),
        ["apis", group] => found(call, discovery::group(resources, group)),
        ["apis", group, version] => found(call, discovery::resource_list(resources, group, version)),
        [".well-known", "openid-configuration"] => {
            issuer(call, &issued::configuration(host(call)), "application/json")
        }
        ["openid", "v1", "jwks"] => issuer(
            call,
            &call.server.api.auth.issued().keys(),
            "application/jwk-set+json",
        ),
        ["openapi", "v3"] => openapi_index(call),
        ["openapi", "v3", rest @ ..] => openapi_document(call, rest),
        ["openapi", "v2"] => openapi_v2(call),
        _ => Ok(not_found()),
    }
}

fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// HTTP/2 has the host in the URI.
fn host<'a>(call: &Call<'a>) -> &'a str {
    let header = call.headers.get(header::HOST).and_then(|v| v.to_str().ok());
    header.or(call.authority).unwrap_or("localhost")
}

fn issuer(call: &Call<'_>, value: &Value, content_type: &'static str) -> Result<Response, ApiError> {
    let mut response = call
        .reply_any()
        .bytes(StatusCode::OK, content_type, Bytes::from(value.to_string()));
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    Ok(response)
}

fn json(call: &Call<'_>, value: &Value) -> Result<Response, ApiError> {
    let reply: Reply = call.reply()?;
    Ok(reply.value(StatusCode::OK, value))
}

fn found(call: &Call<'_>, value: Option<Value>) -> Result<Response, ApiError> {
    match value {
        Some(value) => json(call, &value),
        None => Ok(not_found()),
    }
}

fn aggregated(call: &Call<'_>, version: &'static str, core: bool) -> Result<Response, ApiError> {
    let registry = &call.view.registry;
    let name = format!("aggregated/{version}/{core}");
    let document = call
        .server
        .documents
        .get(registry, &name, || {
            serde_json::to_vec(&discovery::aggregated(registry.resources(), core, version)).ok()
        })
        .ok_or_else(|| ApiError::internal("cannot encode the discovery document"))?;
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    cached(call, &document, content_type)
}

/// A cacheable answer: 304 if the client has it already.
fn cached(call: &Call<'_>, document: &Document, content_type: &'static str) -> Result<Response, ApiError> {
    let etag = format!("\"{}\"", document.hash);
    let held = call
        .headers
        .get(header::IF_NONE_MATCH)
        .and_then(|v| v.to_str().ok())
        == Some(etag.as_str());
    let reply = call.reply_any();
    let mut response = if held {
        reply.bytes(StatusCode::NOT_MODIFIED, content_type, Bytes::new())
    } else {
        reply.bytes(StatusCode::OK, content_type, document.bytes.clone())
    };
    let value = HeaderValue::from_str(&etag).map_err(|e| ApiError::internal(e.to_string()))?;
    response.headers_mut().insert(header::ETAG, value);
    response
        .headers_mut()
        .append(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

fn openapi_index(call: &Call<'_>) -> Result<Response, ApiError> {
    let registry = &call.view.registry;
    let documents = &call.server.documents;
    let index = documents.get(registry, "openapi/index", || {
        let mut shared = openapi::Shared::default();
        let hashes = openapi::group_versions(registry.resources())
            .into_iter()
            .filter_map(|path| {
                let document = openapi_made(call, &path, &mut shared)?;
                Some((path, document.hash.clone()))
            })
            .collect::<Vec<_>>();
        serde_json::to_vec(&openapi::index(&hashes)).ok()
    });
    let index = index.ok_or_else(|| ApiError::internal("cannot encode the OpenAPI index"))?;
    cached(call, &index, "application/json")
}

/// client-go asks for protobuf alone.
fn openapi_v2(call: &Call<'_>) -> Result<Response, ApiError> {
    let resources = call.view.registry.resources();
    let binary = super::negotiate::prefers_openapi_protobuf(call.headers);
    let (name, content_type) = match binary {
        true => (
            "openapi/v2.pb",
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        ),
        false => {
            call.reply()?;
            ("openapi/v2", "application/json")
        }
    };
    let made = call
        .server
        .documents
        .get(&call.view.registry, name, || match binary {
            true => openapi::document_v2_protobuf(resources),
            false => openapi::document_v2(resources),
        });
    let document = made.ok_or_else(|| ApiError::internal("cannot encode the OpenAPI v2 document"))?;
    cached(call, &document, content_type)
}

fn openapi_made(call: &Call<'_>, path: &str, shared: &mut openapi::Shared) -> Option<Arc<Document>> {
    let registry = &call.view.registry;
    call.server
        .documents
        .get(registry, &format!("openapi/{path}"), || {
            openapi::document(registry.resources(), path, shared)
        })
}

fn openapi_document(call: &Call<'_>, rest: &[&str]) -> Result<Response, ApiError> {
    match openapi_made(call, &rest.join("/"), &mut openapi::Shared::default()) {
        Some(document) => cached(call, &document, "application/json"),
        None => Ok(not_found()),
    }
}

/// `ok`; with `?verbose`, the list of checks.
fn health(call: &Call<'_>, parts: &[&str], rest: &[&str]) -> Response {
    const CHECKS: [&str; 2] = ["ping", "store"];
    let endpoint = parts.first().copied().unwrap_or_default();
    if endpoint == "readyz" && !call.server.api.store.is_writable() {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "[+]ping ok\n[-]store failed: the journal could not be written\nreadyz check failed\n",
        );
    }
    match rest {
        [] if call.query.get("verbose").is_some() => {
            let lines: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"))
        }
        [] => text(StatusCode::OK, "ok"),
        [check] if CHECKS.contains(check) => text(StatusCode::OK, "ok"),
        _ => not_found(),
    }
}
