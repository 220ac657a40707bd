//! Lists: their state, selection and pages.

use super::negotiate::{Accepted, Format, Shape};
use super::options::{At, ListOptions};
use super::respond::{List, Reply, list_json, list_protobuf};
use crate::pipeline::{Api, View};
use crate::registry::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{ApiError, Cause, Details};
use crate::store::{AtError, Entry, ResourceId, Snapshot};
use crate::table;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How long a list waits for a future revision (apiserver watch cache, 3 s).
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn parse(resource: &Resource, options: &ListOptions) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(&options.label_selector).map_err(ApiError::bad_request)?;
        let fields = FieldSelector::parse(&options.field_selector).map_err(ApiError::bad_request)?;
        for test in fields.tests() {
            resource.check_selectable(&test.field)?;
        }
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, resource: &Resource, entry: &Entry) -> bool {
        if !self.labels.matches(|name| entry.label(name)) {
            return false;
        }
        self.fields.is_empty() || {
            let object = entry.view();
            self.fields
                .matches(|field| resource.selectable_value(&object, field))
        }
    }
}

#[derive(Debug)]
pub(crate) struct Page {
    pub entries: Vec<Arc<Entry>>,
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
}

impl Page {
    pub(crate) fn metadata(&self) -> Value {
        let mut out = json!({ "resourceVersion": self.revision.to_string() });
        if let Some(token) = &self.continue_token {
            out["continue"] = json!(token);
        }
        if let Some(remaining) = self.remaining {
            out["remainingItemCount"] = json!(remaining);
        }
        out
    }
}

pub(crate) async fn page(
    api: &Api,
    view: &View,
    resource: &Resource,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Page, ApiError> {
    let selection = Selection::parse(resource, options)?;
    let id = resource.storage();
    let (snapshot, start) = match &options.continue_token {
        Some(token) => continued(api, view, &id, namespace, token, options)?,
        None => (at(api, view, &id, options.at).await?, None),
    };
    // Upstream answers "any state" from its cache, which does not page.
    let limit = if options.at == At::Any && options.continue_token.is_none() {
        None
    } else {
        options.limit
    };
    let start = start.unwrap_or_default();
    let shown = match resource.conversion() {
        Some(_) => {
            let stored = snapshot.list_from(&id, namespace, &start);
            // without a selection a page is the first objects, and one more says that others follow
            let most = match limit {
                Some(limit) if selection.is_empty() => limit.saturating_add(1),
                _ => usize::MAX,
            };
            let stored = stored.take(most).map(|(_, entry)| Arc::clone(entry)).collect();
            Some(api.entries_as(resource, stored).await?)
        }
        None => None,
    };
    let mut entries = Vec::new();
    let mut last = None;
    let mut more = false;
    let mut seen = 0;
    for (at, (path, stored)) in snapshot.list_from(&id, namespace, &start).enumerate() {
        // A full page announces more if any object follows, selected or not.
        if limit.is_some_and(|limit| entries.len() >= limit) {
            more = true;
            break;
        }
        let entry = match &shown {
            Some(shown) => shown.get(at).unwrap_or(stored),
            None => stored,
        };
        if !selection.matches(resource, entry) {
            seen += 1;
            continue;
        }
        seen += 1;
        last = Some(path.clone());
        entries.push(Arc::clone(entry));
    }
    let continue_token = match (more, &last) {
        (true, Some(path)) => {
            api.store.page_expired(snapshot.revision());
            Some(encode_token(snapshot.revision(), namespace, path.as_str()))
        }
        _ => None,
    };
    let remaining = (continue_token.is_some() && selection.is_empty()).then(|| {
        let after_start = snapshot.list_from(&id, namespace, &start).count();
        after_start.saturating_sub(seen)
    });
    Ok(Page {
        entries,
        revision: snapshot.revision(),
        continue_token,
        remaining,
    })
}

pub(crate) async fn at(api: &Api, view: &View, id: &ResourceId, at: At) -> Result<Snapshot, ApiError> {
    match at {
        At::Newest | At::Any => Ok(view.snapshot.clone()),
        At::NotOlderThan(revision) => fresh(api, revision).await,
        At::Exactly(revision) => {
            fresh(api, revision).await?;
            api.store.snapshot_of(id, revision).map_err(|error| match error {
                AtError::Expired { .. } => expired(),
                AtError::Future { current } => too_large(revision, current),
            })
        }
    }
}

/// Waits briefly for a future revision; then 504.
async fn fresh(api: &Api, revision: u64) -> Result<Snapshot, ApiError> {
    if api.store.wait_for(revision, FRESHNESS_WAIT).await {
        Ok(api.store.snapshot())
    } else {
        Err(too_large(revision, api.store.revision()))
    }
}

fn expired() -> ApiError {
    ApiError::expired("The resourceVersion for the provided list is too old.")
}

pub(crate) fn too_large(revision: u64, current: u64) -> ApiError {
    ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {revision}, current: {current}"),
        Some(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds: Some(1),
            ..Details::default()
        }),
    )
}

/// A continue token: the revision of the first page, and the last key, relative to the listed prefix.
fn encode_token(revision: u64, namespace: Option<&str>, path: &str) -> String {
    let relative = match namespace {
        Some(namespace) => path
            .strip_prefix(namespace)
            .and_then(|p| p.strip_prefix('/'))
            .unwrap_or(path),
        None => path,
    };
    token(json!({ "v": "meta.k8s.io/v1", "rv": revision, "start": format!("/{relative}\u{0}") }))
}

fn token(value: Value) -> String {
    let Value::Object(map) = value else {
        return String::new();
    };
    let text = |key: &str| map.get(key).map(Value::to_string).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(format!(
        "{{\"v\":{},\"rv\":{},\"start\":{}}}",
        text("v"),
        text("rv"),
        text("start")
    ))
}

fn continued(
    api: &Api,
    view: &View,
    id: &ResourceId,
    namespace: Option<&str>,
    token_text: &str,
    options: &ListOptions,
) -> Result<(Snapshot, Option<String>), ApiError> {
    let invalid = |why: String| ApiError::bad_request(format!("invalid continue token: {why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(token_text)
        .map_err(|e| invalid(format!("continue key is not valid: {e}")))?;
    let value = equate_manifest::json::decode(&bytes)
        .map_err(|e| invalid(format!("continue key is not valid: {e}")))?
        .value;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(invalid(format!(
            "continue key is not valid: server does not recognize this encoded version {}",
            value["v"]
        )));
    }
    let start = value["start"].as_str().unwrap_or_default();
    let Some(start) = start.strip_prefix('/').filter(|s| !s.is_empty()) else {
        return Err(invalid(
            "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)".to_owned(),
        ));
    };
    if !matches!(options.at, At::Newest | At::Any) {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let start = match namespace {
        Some(namespace) => format!("{namespace}/{start}"),
        None => start.to_owned(),
    };
    match value["rv"].as_i64() {
        // An inconsistent continuation, offered after the first revision was compacted.
        Some(-1) => Ok((view.snapshot.clone(), Some(start))),
        Some(revision) => {
            let revision = u64::try_from(revision).unwrap_or_default();
            if api.store.page_expired(revision) {
                return Err(expired_continue(&value));
            }
            match api.store.snapshot_of(id, revision) {
                Ok(snapshot) => Ok((snapshot, Some(start))),
                Err(AtError::Future { current }) => Err(too_large(revision, current)),
                Err(AtError::Expired { .. }) => Err(expired_continue(&value)),
            }
        }
        None => Err(invalid(
            "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
                .to_owned(),
        )),
    }
}

/// 410 with a token that continues at the newest state, for clients that accept an inconsistent list.
fn expired_continue(value: &Value) -> ApiError {
    let fresh = token(json!({ "v": "meta.k8s.io/v1", "rv": -1, "start": value["start"] }));
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    error.continue_token = Some(fresh);
    error
}

pub(crate) fn respond(reply: &Reply, resource: &Resource, page: &Page) -> Result<Response, ApiError> {
    let list_metadata = || {
        let mut metadata = page.metadata();
        if resource.is_custom() && page.continue_token.is_none() {
            // Upstream's untyped lists always have the field.
            metadata["continue"] = json!("");
        }
        metadata
    };
    if reply.accepted == Accepted::JSON {
        let bytes = list_json(resource, list_metadata(), &page.entries)?;
        return Ok(reply.bytes(StatusCode::OK, Format::Json.content_type(), bytes));
    }
    if reply.accepted.format == Format::Protobuf && reply.accepted.shape == Shape::Object {
        let bytes = list_protobuf(resource, &list_metadata(), &page.entries)?;
        return Ok(reply.bytes(StatusCode::OK, Format::Protobuf.content_type(), bytes));
    }
    let converted: Vec<std::borrow::Cow<'_, Value>> = page
        .entries
        .iter()
        .map(|entry| resource.view(entry))
        .collect::<Result<_, _>>()?;
    let items = converted.iter().map(AsRef::as_ref);
    let value = match reply.accepted.shape {
        Shape::Object => {
            let list = List {
                resource,
                metadata: list_metadata(),
                items,
            };
            serde_json::to_value(&list).map_err(|e| ApiError::internal(e.to_string()))?
        }
        Shape::PartialMetadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": page.metadata(),
            "items": items.map(table::partial_metadata).collect::<Vec<_>>(),
        }),
        Shape::Table => {
            let mut out = table::render(resource, items, reply.rendering(true));
            out["metadata"] = page.metadata();
            out
        }
    };
    Ok(reply.value(StatusCode::OK, &value))
}
