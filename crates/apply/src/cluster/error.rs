//! Why something was not done, and when it is worth trying again.

use crate::id::ObjectId;
use crate::segment::SegmentError;
use equate_manifest::object::GroupVersionKind;
use std::fmt;
use std::time::Duration;

/// Why a kind was not resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The cluster does not serve it.
    #[error("the cluster has no kind {} in {}; is its CustomResourceDefinition applied?", .gvk.kind, .gvk.group_version())]
    NoSuchKind {
        /// The kind.
        gvk: GroupVersionKind,
    },
    /// The cluster did not say.
    #[error("the cluster does not say which kinds it has")]
    Unreachable(#[source] kube::Error),
}

/// Something that was not done to an object; prints which, and where it comes from.
#[derive(Debug, thiserror::Error)]
pub struct Failure {
    /// The object.
    pub id: ObjectId,
    /// The file it comes from.
    pub origin: Option<String>,
    /// Why.
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

/// Why an object was not applied or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Its kind is not served.
    #[error("the cluster has no kind {} in {}; is its CustomResourceDefinition applied?", .gvk.kind, .gvk.group_version())]
    NoSuchKind {
        /// The kind.
        gvk: GroupVersionKind,
    },
    /// It has no `apiVersion` that could be one.
    #[error("`{api_version}` is no apiVersion")]
    ApiVersion {
        /// What it has.
        api_version: String,
    },
    /// Its name or namespace cannot stand in an address.
    #[error(transparent)]
    Name(#[from] SegmentError),
    /// Its namespace is not there.
    #[error("namespace {namespace} is not there; create it, or let git hold it")]
    NamespaceMissing {
        /// The namespace.
        namespace: String,
    },
    /// Its namespace is going away.
    #[error("namespace {namespace} is being deleted; nothing can be created in it until it is gone")]
    NamespaceTerminating {
        /// The namespace.
        namespace: String,
    },
    /// Somebody else changed it at the same time, or holds it.
    #[error("conflict: {message}")]
    Conflict {
        /// The API server's words.
        message: String,
    },
    /// The API server does not accept it.
    #[error("not valid: {}", InvalidText(.message, .fields))]
    Invalid {
        /// The API server's words.
        message: String,
        /// What is wrong where, if it said so.
        fields: Vec<FieldCause>,
    },
    /// It cannot be changed to what git wants, but it could be created so.
    #[error(
        "a field cannot be changed: {}; allow recreating it with `kustomize.toolkit.fluxcd.io/force: Enabled`",
        InvalidText(.message, .fields)
    )]
    Immutable {
        /// The API server's words.
        message: String,
        /// What is refused where, if it said so.
        fields: Vec<FieldCause>,
    },
    /// It may not be done by whom it was tried as.
    #[error("not allowed: {message}")]
    Forbidden {
        /// The API server's words.
        message: String,
    },
    /// The API server does not know who asks.
    #[error("not authenticated: {message}")]
    Unauthorized {
        /// The API server's words.
        message: String,
    },
    /// A quota is used up.
    #[error("quota used up: {message}")]
    Quota {
        /// The API server's words.
        message: String,
    },
    /// An admission webhook denied it, or did not answer.
    #[error("admission webhook: {message}")]
    Webhook {
        /// The API server's words.
        message: String,
        /// Whether it answered.
        answered: bool,
    },
    /// The API server has too much to do.
    #[error("the API server asks to come back later: {message}")]
    TooManyRequests {
        /// The API server's words.
        message: String,
        /// When, if it said so.
        retry_after: Option<Duration>,
    },
    /// The API server failed.
    #[error("the API server failed with {code}: {message}")]
    Server {
        /// The HTTP status.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The API server answered something else.
    #[error("the API server answered {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Its words.
        message: String,
    },
    /// No answer.
    #[error("the API server cannot be reached")]
    Unreachable(#[source] kube::Error),
    /// No answer in time.
    #[error("the API server did not answer within {after:?}")]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// An answer that is no object.
    #[error("the API server answered with something that is no object")]
    Answer(#[source] serde_json::Error),
    /// An answer larger than any object.
    #[error("the API server answered with more than {limit} bytes")]
    AnswerSize {
        /// How much is read.
        limit: usize,
    },
    /// It is deleted and has not gone yet. When it has, the object can be created.
    #[error("it was deleted to be created anew, but is still there{}", Finalizers(.finalizers))]
    StillThere {
        /// Which it is: another of its name is not.
        uid: String,
        /// What it waits for.
        finalizers: Vec<String>,
    },
    /// It was not tried, because the API server had just not answered for another one.
    #[error("not tried: the API server does not answer")]
    NotTried,
    /// The caller planned a step for an object it did not give.
    #[error("it is in the plan but was not given to be applied")]
    NotGiven,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCause {
    /// Where, `spec.template.spec.containers[0].image`.
    pub field: String,
    /// What.
    pub message: String,
}

/// When it is worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Now: somebody was faster.
    Now,
    /// After this long: the API server said so.
    After(Duration),
    /// Later, with growing distance: it is not about the object.
    Later,
    /// When git, the cluster's configuration or another object changes. Trying again without is for safety only.
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
            Self::Answer(_) | Self::AnswerSize { .. } => "BadAnswer",
            Self::StillThere { .. } => "StillThere",
            Self::NotGiven => "NotGiven",
        }
    }

    /// When it is worth trying again.
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
            | Self::StillThere { .. }
            | Self::NotGiven => Retry::OnChange,
        }
    }

    /// Whether the API server did not answer at all, so that the next object need not be tried.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout { .. })
    }
}

impl From<ResolveError> for ApplyError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NoSuchKind { gvk } => Self::NoSuchKind { gvk },
            ResolveError::Unreachable(error) => Self::Unreachable(error),
        }
    }
}

/// The fields if there are some, else the message.
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
