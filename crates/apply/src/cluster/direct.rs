//! Single requests, for callers that plan in another way than [`plan`](crate::plan): releases of Helm.
//!
//! Each has the timeout and the identity of the cluster's other requests, and their errors.

use super::error::{ApplyError, ResolveError};
use super::request::{Endpoint, ObjectRequest};
use super::{Cluster, retry_transient};
use crate::id::ObjectId;
use crate::owner::OwnerKind;
use crate::segment::segment;
use equate_manifest::object::{GroupVersionKind, Object};
use http::{Method, header};
use kube::client::Body;
use kube::core::{DynamicObject, Resource as _};
use serde_json::{Value, json};
use std::time::Duration;

/// The most pages of a list.
const PAGES_MAX: usize = 100;
/// Objects in a page: a page of Secrets of a megabyte each is smaller than the largest answer.
const PAGE: usize = 10;
/// The same for lists of metadata.
const METADATA_PAGE: usize = 500;

/// A write.
#[derive(Debug, Clone, Copy)]
pub enum Write<'a> {
    /// Server-side apply that takes over the fields of other managers; unknown fields are errors.
    Apply {
        /// The object.
        object: &'a Object,
        /// Only try.
        dry_run: bool,
    },
    /// Creates an object.
    Create(&'a Object),
    /// Replaces an object.
    Replace(&'a Object),
    /// Patches an object.
    Patch(PatchKind, &'a Value),
    /// Deletes an object.
    Delete(Propagation),
}

/// The content type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Kubernetes' own, for built-in kinds.
    Strategic,
}

/// The treatment of dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// The answer to a write.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object; after a deletion the object or a Status.
    pub object: Object,
    /// Whether it was created.
    pub created: bool,
}

type Parts = (Method, String, &'static str, Result<Vec<u8>, serde_json::Error>);

impl Write<'_> {
    pub(super) fn request(self, by: &OwnerKind, collection: &str, item: &str) -> Parts {
        let manager = by.field_manager;
        match self {
            Self::Apply { object, dry_run } => {
                let dry = if dry_run { "&dryRun=All" } else { "" };
                (
                    Method::PATCH,
                    format!("{item}?fieldManager={manager}&force=true&fieldValidation=Strict{dry}"),
                    "application/apply-patch+yaml",
                    serde_json::to_vec(object),
                )
            }
            Self::Create(object) => (
                Method::POST,
                format!("{collection}?fieldManager={manager}"),
                "application/json",
                serde_json::to_vec(object),
            ),
            Self::Replace(object) => (
                Method::PUT,
                format!("{item}?fieldManager={manager}"),
                "application/json",
                serde_json::to_vec(object),
            ),
            Self::Patch(kind, patch) => (
                Method::PATCH,
                format!("{item}?fieldManager={manager}"),
                match kind {
                    PatchKind::Json => "application/json-patch+json",
                    PatchKind::Merge => "application/merge-patch+json",
                    PatchKind::Strategic => "application/strategic-merge-patch+json",
                },
                serde_json::to_vec(patch),
            ),
            Self::Delete(propagation) => (
                Method::DELETE,
                item.to_owned(),
                "application/json",
                serde_json::to_vec(&json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": match propagation {
                        Propagation::Background => "Background",
                        Propagation::Foreground => "Foreground",
                        Propagation::Orphan => "Orphan",
                    },
                })),
            ),
        }
    }
}

impl Cluster {
    /// Writes one object; transient failures are retried within `patience`. A deleted object that does not
    /// exist is `None`.
    ///
    /// # Errors
    /// The kind is not served, or the API server rejects the write.
    pub async fn write(
        &self,
        by: &OwnerKind,
        (id, api_version): (&ObjectId, &str),
        write: Write<'_>,
        (timeout, patience): (Duration, Duration),
    ) -> Result<Option<Written>, ApplyError> {
        let version = api_version
            .rsplit_once('/')
            .map_or(api_version, |(_, version)| version);
        let gvk = GroupVersionKind::new(&*id.group, version, &*id.kind);
        let resolved = match write {
            Write::Delete(_) => self.resolve_any_version(&gvk).await,
            _ => self.resolve(&gvk).await,
        };
        let kind = match resolved {
            Ok(kind) => kind,
            Err(ResolveError::NoSuchKind { .. }) if matches!(write, Write::Delete(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let endpoint = Endpoint { id, kind, timeout };
        let asked = ObjectRequest::Direct(by, write);
        // another's change of a deleted object does not matter, and a conflict of a creation lasts
        let answer = match write {
            Write::Create(_) => endpoint.ask(&self.caller, asked).await,
            _ => retry_transient(patience, || endpoint.ask(&self.caller, asked)).await,
        };
        let gone = |error: &ApplyError| {
            matches!(
                error,
                ApplyError::Refused { code: 404, .. } | ApplyError::NoSuchKind { .. }
            )
        };
        match answer {
            Ok(answer) => {
                if &*id.kind == "CustomResourceDefinition"
                    && let Some(group) = answer
                        .object
                        .0
                        .get("spec")
                        .and_then(|spec| spec.get("group")?.as_str())
                {
                    self.expect_change(group);
                }
                Ok(Some(Written {
                    object: answer.object,
                    created: answer.created,
                }))
            }
            Err(error) if matches!(write, Write::Delete(_)) && gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a kind in a namespace with these labels. With `metadata_only`, only their metadata.
    ///
    /// # Errors
    /// The kind is not served, the request failed, or there are too many.
    pub async fn list(
        &self,
        gvk: &GroupVersionKind,
        namespace: &str,
        (labels, metadata_only): (&str, bool),
        timeout: Duration,
    ) -> Result<Vec<Object>, ApplyError> {
        let kind = self.resolve(gvk).await?;
        let space = segment("namespace", namespace)?;
        let path = DynamicObject::url_path(&kind.resource, Some(&space));
        let id = ObjectId::new(&gvk.group, &gvk.kind, namespace, "");
        let endpoint = Endpoint {
            id: &id,
            kind,
            timeout,
        };
        let (accept, limit) = match metadata_only {
            true => (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                METADATA_PAGE,
            ),
            false => ("application/json", PAGE),
        };
        let (mut found, mut next) = (Vec::new(), String::new());
        for _ in 0..PAGES_MAX {
            let request = http::Request::builder()
                .method(Method::GET)
                .uri(format!("{path}?labelSelector={labels}&limit={limit}{next}"))
                .header(header::ACCEPT, accept)
                .body(Body::from(Vec::new()))
                .map_err(|error| ApplyError::Unreachable(kube::Error::HttpError(error)))?;
            let (_, bytes) = endpoint.exchange(&self.caller, request).await?;
            let mut list: Value = serde_json::from_slice(&bytes).map_err(ApplyError::Answer)?;
            if let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) {
                found.extend(items.into_iter().filter_map(Object::from_value));
            }
            let token = list
                .get("metadata")
                .and_then(|metadata| metadata.get("continue")?.as_str());
            match token.filter(|token| !token.is_empty()) {
                Some(token) => next = format!("&continue={}", segment("continue token", token)?),
                None => return Ok(found),
            }
        }
        Err(ApplyError::ListSize {
            max: PAGES_MAX * limit,
        })
    }

    /// The last lines of a pod's log; empty if it has none.
    ///
    /// # Errors
    /// The request failed.
    pub async fn pod_log(
        &self,
        namespace: &str,
        name: &str,
        lines: usize,
        timeout: Duration,
    ) -> Result<String, ApplyError> {
        let kind = self.resolve(&GroupVersionKind::new("", "v1", "Pod")).await?;
        let id = ObjectId::new("", "Pod", namespace, name);
        let (space, pod) = (segment("namespace", namespace)?, segment("resource name", name)?);
        let path = format!("/api/v1/namespaces/{space}/pods/{pod}/log?tailLines={lines}&limitBytes=16384");
        let endpoint = Endpoint {
            id: &id,
            kind,
            timeout,
        };
        let request = http::Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(Body::from(Vec::new()))
            .map_err(|error| ApplyError::Unreachable(kube::Error::HttpError(error)))?;
        let (_, bytes) = endpoint.exchange(&self.caller, request).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A GET of a path by the caller's identity: the answer's JSON, or `None` if there is no such object.
    ///
    /// # Errors
    /// The kind is not served, or the request failed.
    pub async fn look_up(
        &self,
        api_version: &str,
        kind: &str,
        (namespace, name): (&str, &str),
        timeout: Duration,
    ) -> Result<Option<Value>, ApplyError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resolved = match self.resolve(&GroupVersionKind::new(group, version, kind)).await {
            Ok(resolved) => resolved,
            Err(ResolveError::NoSuchKind { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let within = resolved.namespaced && !namespace.is_empty();
        let space = within.then(|| segment("namespace", namespace)).transpose()?;
        let mut path = DynamicObject::url_path(&resolved.resource, space.as_deref());
        if !name.is_empty() {
            path.push('/');
            path.push_str(&segment("name", name)?);
        }
        let id = ObjectId::new(group, kind, namespace, name);
        let endpoint = Endpoint {
            id: &id,
            kind: resolved,
            timeout,
        };
        let request = http::Request::builder()
            .method(Method::GET)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .body(Body::from(Vec::new()))
            .map_err(|error| ApplyError::Unreachable(kube::Error::HttpError(error)))?;
        match endpoint.exchange(&self.caller, request).await {
            Ok((_, bytes)) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(ApplyError::Answer),
            Err(ApplyError::Refused { code: 404, .. } | ApplyError::NoSuchKind { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All served API versions and kinds, read now: `apps/v1`, `apps/v1/Deployment`.
    ///
    /// # Errors
    /// Discovery failed.
    pub async fn api_versions(&self) -> Result<Vec<String>, ResolveError> {
        self.kinds.api_versions(self.client()).await
    }
}
