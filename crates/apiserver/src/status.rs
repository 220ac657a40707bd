//! API errors: `v1.Status`.
//!
//! [`ApiError`] is the only error of a request. Its constructors have upstream's texts (apimachinery
//! `pkg/api/errors`, 1.36), because clients match on them.

use crate::field::FieldError;
use serde_json::{Value, json};
use std::fmt;

/// A group and plural resource name; prints `deployments.apps`, or `configmaps` in the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, `deployments`.
    pub resource: String,
}

impl GroupResource {
    /// Builds one from its two parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cause {
    /// `FieldValueInvalid`, `FieldManagerConflict`, ...; empty for none.
    pub reason: String,
    pub message: String,
    /// Empty for none.
    pub field: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Details {
    pub name: String,
    pub group: String,
    /// The plural resource, or the Kind for Invalid and preconditions.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub code: u16,
    /// The machine-readable reason; empty for none.
    pub reason: &'static str,
    pub message: String,
    /// `None` omits `details`, `Some(default)` writes `{}`.
    pub details: Option<Box<Details>>,
    /// Continues a list, inconsistently, after its revision expired.
    pub continue_token: Option<String>,
}

impl ApiError {
    pub(crate) fn new(
        code: u16,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: details.map(Box::new),
            continue_token: None,
        }
    }

    pub(crate) fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{resource} \"{name}\" not found"),
            Some(named(resource, name)),
        )
    }

    /// 404: the group is served but not this resource or subresource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
            Some(Details::default()),
        )
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            Some(Details::default()),
        )
    }

    /// 409: the name is taken.
    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
            Some(named(resource, name)),
        )
    }

    /// 409 of an update: `why` completes `Operation cannot be fulfilled on configmaps "a": `.
    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
            Some(named(resource, name)),
        )
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message, None)
    }

    /// 401.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized", None)
    }

    /// 403 of a resource request: `why` completes `pods "x" is forbidden: `; an empty name is omitted.
    pub(crate) fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message, Some(named(resource, name)))
    }

    /// 422: `group` and `kind` name the type, `Deployment.apps "web" is invalid: ...`.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = match texts.as_slice() {
            [] => String::new(),
            [one] => format!(": {one}"),
            many => format!(": [{}]", many.join(", ")),
        };
        let causes = errors
            .iter()
            .map(|e| Cause {
                reason: e.kind.reason().to_owned(),
                message: e.body(),
                field: e.field.clone(),
            })
            .collect();
        Self::new(
            422,
            "Invalid",
            format!("{qualified} \"{name}\" is invalid{all}"),
            Some(Details {
                name: name.to_owned(),
                group: group.to_owned(),
                kind: kind.to_owned(),
                causes,
                ..Details::default()
            }),
        )
    }

    /// 410: the revision was compacted.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message, None)
    }

    /// 415.
    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
            None,
        )
    }

    /// 500.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let cause = Cause {
            message: message.into(),
            ..Cause::default()
        };
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {}", cause.message),
            Some(Details {
                causes: vec![cause],
                ..Details::default()
            }),
        )
    }

    /// 501: this server does not support the feature `what`.
    pub(crate) fn not_supported(what: impl fmt::Display) -> Self {
        Self::new(
            501,
            "NotImplemented",
            format!("the embedded API server does not support {what}"),
            None,
        )
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut out = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            out["reason"] = json!(self.reason);
        }
        if let Some(token) = &self.continue_token {
            out["metadata"]["continue"] = json!(token);
        }
        if let Some(details) = &self.details {
            out["details"] = details.to_value();
        }
        out
    }
}

impl Details {
    pub(crate) fn to_value(&self) -> Value {
        let mut out = serde_json::Map::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                out.insert(key.to_owned(), json!(value));
            }
        };
        text("name", &self.name);
        text("group", &self.group);
        text("kind", &self.kind);
        text("uid", &self.uid);
        if !self.causes.is_empty() {
            out.insert(
                "causes".to_owned(),
                Value::Array(self.causes.iter().map(Cause::to_value).collect()),
            );
        }
        if let Some(seconds) = self.retry_after_seconds {
            out.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = json!({ "message": self.message });
        if !self.reason.is_empty() {
            out["reason"] = json!(self.reason);
        }
        if !self.field.is_empty() {
            out["field"] = json!(self.field);
        }
        out
    }
}

fn named(resource: &GroupResource, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    }
}
