//! Errors of applying and pruning, and their retry policy.

use crate::id::ObjectId;
use crate::segment::SegmentError;
use equate_manifest::object::GroupVersionKind;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A kind was not resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The cluster does not serve it.
    #[error("the cluster has no kind {} in {}; is its CustomResourceDefinition applied?", .gvk.kind, .gvk.group_version())]
    NoSuchKind {
        /// The kind.
        gvk: GroupVersionKind,
    },
    /// Discovery failed.
    #[error("cannot discover the kinds of the cluster")]
    Unreachable(#[source] DiscoveryError),
}

/// A discovery request has no answer. Several callers may wait for one request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DiscoveryError {
    /// It failed.
    #[error(transparent)]
    Failed(Arc<kube::Error>),
    /// It took too long.
    #[error("no answer within {}s", .0.as_secs())]
    Late(Duration),
}

/// A failed object; displays its id and file.
#[derive(Debug, thiserror::Error)]
pub struct Failure {
    /// The object.
    pub id: ObjectId,
    /// Its file.
    pub origin: Option<String>,
    /// The cause.
    #[source]
    pub error: ApplyError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{} from {origin}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// An object was not applied or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Its kind is not served.
    #[error("the cluster has no kind {} in {}; is its CustomResourceDefinition applied?", .gvk.kind, .gvk.group_version())]
    NoSuchKind {
        /// The kind.
        gvk: GroupVersionKind,
    },
    /// Its `apiVersion` is invalid.
    #[error("invalid apiVersion `{api_version}`")]
    ApiVersion {
        /// The value.
        api_version: String,
    },
    /// Its name or namespace is invalid in a URL path.
    #[error(transparent)]
    Name(#[from] SegmentError),
    /// Its namespace does not exist.
    #[error("namespace {namespace} does not exist; create it, or declare it in git")]
    NamespaceMissing {
        /// The namespace.
        namespace: String,
    },
    /// Its namespace is being deleted.
    #[error("namespace {namespace} is being deleted; nothing can be created in it until it is gone")]
    NamespaceTerminating {
        /// The namespace.
        namespace: String,
    },
    /// A concurrent change, or a conflict with its owner.
    #[error("conflict: {message}")]
    Conflict {
        /// The API server's message.
        message: String,
    },
    /// The API server rejects it as invalid.
    #[error("not valid: {}", InvalidText(.message, .fields))]
    Invalid {
        /// The API server's message.
        message: String,
        /// The invalid fields, if the API server names them.
        fields: Vec<FieldCause>,
    },
    /// An immutable field would change; the object could be created.
    #[error(
        "a field cannot be changed: {}; allow recreating it with `kustomize.toolkit.fluxcd.io/force: Enabled`",
        InvalidText(.message, .fields)
    )]
    Immutable {
        /// The API server's message.
        message: String,
        /// The refused fields, if the API server names them.
        fields: Vec<FieldCause>,
    },
    /// The identity has no permission.
    #[error("not allowed: {message}")]
    Forbidden {
        /// The API server's message.
        message: String,
    },
    /// The API server does not accept the credentials.
    #[error("not authenticated: {message}")]
    Unauthorized {
        /// The API server's message.
        message: String,
    },
    /// A quota is exceeded.
    #[error("quota exceeded: {message}")]
    Quota {
        /// The API server's message.
        message: String,
    },
    /// An admission webhook denied it or did not answer.
    #[error("admission webhook: {message}")]
    Webhook {
        /// The API server's message.
        message: String,
        /// Whether it answered.
        answered: bool,
    },
    /// The API server is overloaded.
    #[error("the API server asks to retry later: {message}")]
    TooManyRequests {
        /// The API server's message.
        message: String,
        /// The `Retry-After` of the answer.
        retry_after: Option<Duration>,
    },
    /// The API server failed.
    #[error("the API server failed with {code}: {message}")]
    Server {
        /// The HTTP status.
        code: u16,
        /// Its message.
        message: String,
    },
    /// Any other refusal.
    #[error("the API server answered {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Its message.
        message: String,
    },
    /// The request failed.
    #[error("the API server cannot be reached")]
    Unreachable(#[source] kube::Error),
    /// The request timed out.
    #[error("the API server did not answer within {after:?}")]
    Timeout {
        /// The timeout.
        after: Duration,
    },
    /// The answer is not an object.
    #[error("the API server's answer is not an object")]
    Answer(#[source] serde_json::Error),
    /// The answer is larger than any object.
    #[error("the API server answered with more than {limit} bytes")]
    AnswerSize {
        /// The limit in bytes.
        limit: usize,
    },
    /// A list has too many objects.
    #[error("a list has more than {max} objects; remove some of them")]
    ListSize {
        /// The limit.
        max: usize,
    },
    /// Its deletion is in progress. Once it is gone, the object can be created.
    #[error("its deletion has not finished, so it cannot be created anew{}", Finalizers(.finalizers))]
    StillThere {
        /// Its uid: a new object of the same name has another.
        uid: String,
        /// Its finalizers.
        finalizers: Vec<String>,
    },
    /// It was skipped after the API server did not answer for another object.
    #[error("skipped: the API server does not answer")]
    NotTried,
    /// The plan has a step for an object that the caller did not pass.
    #[error("it is in the plan, but was not passed to the apply")]
    NotGiven,
}

/// One invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCause {
    /// The path, `spec.template.spec.containers[0].image`.
    pub field: String,
    /// The message.
    pub message: String,
}

/// When a retry makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Now: there was a concurrent change.
    Now,
    /// After this time, which the API server asked for.
    After(Duration),
    /// Later, with backoff: the error is not about the object.
    Later,
    /// When git, the cluster's configuration or another object changes. Earlier retries are for safety
    /// only.
    OnChange,
}

impl ApplyError {
    /// A word for status and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchKind { .. } => "NoSuchKind",
            Self::ApiVersion { .. } | Self::Name(_) | Self::Invalid { .. } => "Invalid",
            Self::NamespaceMissing { .. } => "NamespaceMissing",
            Self::NamespaceTerminating { .. } => "NamespaceTerminating",
            Self::Conflict { .. } => "Conflict",
            Self::Immutable { .. } => "Immutable",
            Self::Forbidden { .. } => "Forbidden",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Quota { .. } => "QuotaExceeded",
            Self::Webhook { .. } => "Webhook",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::Server { .. } => "ServerError",
            Self::Refused { .. } => "Refused",
            Self::Unreachable(_) | Self::Timeout { .. } | Self::NotTried => "Unreachable",
            Self::Answer(_) | Self::AnswerSize { .. } | Self::ListSize { .. } => "BadAnswer",
            Self::StillThere { .. } => "StillThere",
            Self::NotGiven => "NotGiven",
        }
    }

    /// When a retry makes sense.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Conflict { .. } => Retry::Now,
            Self::TooManyRequests {
                retry_after: Some(after),
                ..
            } => Retry::After(*after),
            Self::TooManyRequests {
                retry_after: None, ..
            }
            | Self::Server { .. }
            | Self::Unreachable(_)
            | Self::Timeout { .. }
            | Self::NotTried
            | Self::NamespaceTerminating { .. }
            | Self::Webhook { answered: false, .. } => Retry::Later,
            Self::NoSuchKind { .. }
            | Self::ApiVersion { .. }
            | Self::Name(_)
            | Self::NamespaceMissing { .. }
            | Self::Invalid { .. }
            | Self::Immutable { .. }
            | Self::Forbidden { .. }
            | Self::Unauthorized { .. }
            | Self::Quota { .. }
            | Self::Webhook { answered: true, .. }
            | Self::Refused { .. }
            | Self::Answer(_)
            | Self::AnswerSize { .. }
            | Self::ListSize { .. }
            | Self::StillThere { .. }
            | Self::NotGiven => Retry::OnChange,
        }
    }

    /// Rewrites the texts of the API server, which may quote the object.
    pub fn map_messages(&mut self, map: impl Fn(&str) -> String) {
        match self {
            Self::Invalid { message, fields } | Self::Immutable { message, fields } => {
                *message = map(message);
                for cause in fields {
                    cause.field = map(&cause.field);
                    cause.message = map(&cause.message);
                }
            }
            Self::Conflict { message }
            | Self::Forbidden { message }
            | Self::Unauthorized { message }
            | Self::Quota { message }
            | Self::Webhook { message, .. }
            | Self::TooManyRequests { message, .. }
            | Self::Server { message, .. }
            | Self::Refused { message, .. } => *message = map(message),
            Self::NoSuchKind { .. }
            | Self::ApiVersion { .. }
            | Self::Name(_)
            | Self::NamespaceMissing { .. }
            | Self::NamespaceTerminating { .. }
            | Self::Unreachable(_)
            | Self::Timeout { .. }
            | Self::Answer(_)
            | Self::AnswerSize { .. }
            | Self::ListSize { .. }
            | Self::StillThere { .. }
            | Self::NotTried
            | Self::NotGiven => {}
        }
    }

    /// Whether the API server did not answer at all, so that further objects are skipped.
    pub(super) fn is_unresponsive(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout { .. })
    }
}

impl From<ResolveError> for ApplyError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NoSuchKind { gvk } => Self::NoSuchKind { gvk },
            ResolveError::Unreachable(error) => Self::Unreachable(kube::Error::Service(Box::new(error))),
        }
    }
}

struct InvalidText<'a>(&'a str, &'a [FieldCause]);

impl fmt::Display for InvalidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() {
            return f.write_str(self.0);
        }
        for (at, cause) in self.1.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", cause.field, cause.message)?;
        }
        Ok(())
    }
}

struct Finalizers<'a>(&'a [String]);

impl fmt::Display for Finalizers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            finalizers => write!(f, ": it waits for {}", finalizers.join(", ")),
        }
    }
}
