//! One request to the API server, and the meaning of its answer.
//!
//! Requests are built here because `kube::Api` hides two things that decide the next step: whether an
//! apply created the object (201), and the `Retry-After` header.

use super::caller::Caller;
use super::discovery::Kind;
use super::error::{ApplyError, FieldCause};
use crate::id::ObjectId;
use crate::owner::OwnerKind;
use crate::segment::segment;
use equate_manifest::object::{GroupVersionKind, Object};
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::Body;
use kube::core::{DynamicObject, Resource as _, Status};
use serde_json::{Value, json};
use std::time::Duration;

/// The largest accepted answer; etcd holds objects of 1.5 MiB, managed fields included.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages of structured merge and decoding for an object that does not match its type; their status is
/// 500.
const TYPED: [&str; 4] = [
    "field not declared in schema",
    "failed to create typed patch object",
    "failed to convert merged object",
    "failed to convert new object",
];

/// Replaces the API server's message for a Secret.
const WITHHELD: &str = "the values of its data must be strings in base64, of stringData strings \
    (what the API server says is left out, because it may quote the secret)";

#[derive(Debug, Clone, Copy)]
pub(super) enum ObjectRequest<'a> {
    Get,
    /// Writes name the kind of owner: its field manager is the author.
    Apply {
        by: &'a OwnerKind,
        object: &'a Object,
        dry_run: bool,
    },
    /// A dry run: whether the object could be created.
    CreateDryRun(&'a OwnerKind, &'a Object),
    JsonPatch {
        by: &'a OwnerKind,
        patch: &'a [Value],
        dry_run: bool,
    },
    /// A dry run: whether the object may be changed.
    Touch(&'a OwnerKind),
    /// In the background, with preconditions on the uid and, if given, the resource version.
    Delete {
        uid: &'a str,
        version: Option<&'a str>,
    },
    /// A write as its caller wants it.
    Direct(&'a OwnerKind, super::direct::Write<'a>),
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) object: Object,
    pub(super) created: bool,
}

#[derive(Debug)]
pub(super) struct Endpoint<'a> {
    pub(super) id: &'a ObjectId,
    pub(super) kind: Kind,
    pub(super) timeout: Duration,
}

impl Endpoint<'_> {
    /// The live object; `None` if it does not exist or its kind is not served.
    pub(super) async fn get(&self, caller: &Caller) -> Result<Option<Object>, ApplyError> {
        match self.ask(caller, ObjectRequest::Get).await {
            Ok(answer) => Ok(Some(answer.object)),
            Err(ApplyError::NoSuchKind { .. } | ApplyError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn ask(&self, caller: &Caller, ask: ObjectRequest<'_>) -> Result<Answer, ApplyError> {
        let (status, bytes) = self.exchange(caller, self.request(ask)?).await?;
        Ok(Answer {
            object: serde_json::from_slice(&bytes).map_err(ApplyError::Answer)?,
            created: status == StatusCode::CREATED,
        })
    }

    /// Sends a request; returns the body of a successful answer.
    pub(super) async fn exchange(
        &self,
        caller: &Caller,
        request: http::Request<Body>,
    ) -> Result<(StatusCode, Vec<u8>), ApplyError> {
        let exchange = async {
            let response = caller.send(request).await.map_err(ApplyError::Unreachable)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let bytes = body.map_err(unreadable)?.to_bytes();
            Ok::<_, ApplyError>((head, bytes))
        };
        let (head, bytes) = tokio::time::timeout(self.timeout, exchange)
            .await
            .map_err(|_| ApplyError::Timeout { after: self.timeout })??;
        if head.status.is_success() {
            return Ok((head.status, bytes.to_vec()));
        }
        let retry_after = head.headers.get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|v| v.to_str().ok()?.parse().ok().map(Duration::from_secs));
        let status = serde_json::from_slice(&bytes).unwrap_or_else(|_| Status {
            message: String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned(),
            ..Status::default()
        });
        Err(self.refusal(head.status.as_u16(), &status, retry_after))
    }

    fn request(&self, ask: ObjectRequest<'_>) -> Result<http::Request<Body>, ApplyError> {
        let namespace = self.kind.namespaced.then_some(&*self.id.namespace);
        let namespace = namespace.map(|namespace| segment("namespace", namespace));
        let namespace = namespace.transpose()?;
        let collection = DynamicObject::url_path(&self.kind.resource, namespace.as_deref());
        let item = format!("{collection}/{}", segment("resource name", &self.id.name)?);
        let dry = |dry_run: bool| if dry_run { "&dryRun=All" } else { "" };
        let (method, uri, content_type, body) = match ask {
            ObjectRequest::Direct(by, write) => write.request(by, &collection, &item),
            ObjectRequest::Get => (Method::GET, item, "application/json", Ok(Vec::new())),
            ObjectRequest::Apply { by, object, dry_run } => (
                Method::PATCH,
                format!(
                    "{item}?fieldManager={}&force=true{}",
                    by.field_manager,
                    dry(dry_run)
                ),
                "application/apply-patch+yaml",
                serde_json::to_vec(object),
            ),
            ObjectRequest::CreateDryRun(by, object) => (
                Method::POST,
                format!("{collection}?fieldManager={}&dryRun=All", by.field_manager),
                "application/json",
                serde_json::to_vec(object),
            ),
            ObjectRequest::JsonPatch { by, patch, dry_run } => (
                Method::PATCH,
                format!("{item}?fieldManager={}{}", by.field_manager, dry(dry_run)),
                "application/json-patch+json",
                serde_json::to_vec(patch),
            ),
            ObjectRequest::Touch(by) => (
                Method::PATCH,
                format!("{item}?fieldManager={}&dryRun=All", by.field_manager),
                "application/merge-patch+json",
                Ok(b"{}".to_vec()),
            ),
            ObjectRequest::Delete { uid, version } => (
                Method::DELETE,
                item,
                "application/json",
                serde_json::to_vec(&json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "propagationPolicy": "Background",
                    "preconditions": match version {
                        Some(version) => json!({ "uid": uid, "resourceVersion": version }),
                        None => json!({ "uid": uid }),
                    },
                })),
            ),
        };
        http::Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(Body::from(body.map_err(ApplyError::Answer)?))
            .map_err(|error| ApplyError::Unreachable(kube::Error::HttpError(error)))
    }

    /// Classifies a refusal. Matches on texts only where the API server gives nothing else.
    fn refusal(&self, code: u16, status: &Status, retry_after: Option<Duration>) -> ApplyError {
        let text = status.message.as_str();
        let typed = TYPED.iter().any(|words| text.contains(words));
        let secret = &*self.id.kind == "Secret" && self.id.group.is_empty();
        let message = match code {
            // the message may quote secret values
            400 | 422 | 500 if secret && (code != 500 || typed) => WITHHELD.to_owned(),
            _ => text.to_owned(),
        };
        // a webhook's message may quote values
        let quoted = || if secret { WITHHELD } else { text }.to_owned();
        let details = status.details.as_ref();
        let causes = details.map_or(&[][..], |details| &details.causes);
        let namespace = self.id.namespace.to_string();
        if causes.iter().any(|cause| cause.reason == "NamespaceTerminating") {
            return ApplyError::NamespaceTerminating { namespace };
        }
        if text.contains("admission webhook") && text.contains("denied the request") {
            return ApplyError::Webhook {
                message: quoted(),
                answered: true,
            };
        }
        if text.contains("failed calling webhook") {
            return ApplyError::Webhook {
                message: quoted(),
                answered: false,
            };
        }
        match code {
            400 | 422 => ApplyError::Invalid {
                fields: causes
                    .iter()
                    .filter(|cause| !cause.field.is_empty())
                    .map(|cause| FieldCause {
                        field: cause.field.clone(),
                        message: if secret {
                            cause.reason.clone()
                        } else {
                            cause.message.clone()
                        },
                    })
                    .collect(),
                message,
            },
            401 => ApplyError::Unauthorized { message },
            403 if text.contains("exceeded quota") => ApplyError::Quota { message },
            403 => ApplyError::Forbidden { message },
            404 if details.is_none_or(|d| d.name.is_empty()) => ApplyError::NoSuchKind {
                gvk: GroupVersionKind::new(
                    &self.kind.resource.group,
                    &self.kind.resource.version,
                    &self.kind.resource.kind,
                ),
            },
            404 if details.is_some_and(|d| d.kind == "namespaces" && &*self.id.kind != "Namespace") => {
                ApplyError::NamespaceMissing { namespace }
            }
            409 => ApplyError::Conflict { message },
            429 => {
                let told = details.map_or(0, |d| d.retry_after_seconds);
                let told = (told > 0).then(|| Duration::from_secs(told.into()));
                ApplyError::TooManyRequests {
                    message,
                    retry_after: retry_after.or(told),
                }
            }
            500 if typed => ApplyError::Invalid {
                message,
                fields: Vec::new(),
            },
            500.. => ApplyError::Server { code, message },
            _ => ApplyError::Refused { code, message },
        }
    }
}

fn unreadable(error: Box<dyn std::error::Error + Send + Sync>) -> ApplyError {
    if error.is::<LengthLimitError>() {
        return ApplyError::AnswerSize {
            limit: ANSWER_BYTES_MAX,
        };
    }
    ApplyError::Unreachable(kube::Error::Service(error))
}
