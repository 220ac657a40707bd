//! Failures of a registry operation: a class for callers, and a text with operation, URL and cause.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use equate_egress::Displaced;

/// The class of a failure. Callers never parse error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The registry or its token server refuses the credentials, or requires some.
    Authentication,
    /// The registry has no such repository, tag, manifest or blob, or hides it.
    NotFound,
    /// A limit of [`crate::Limits`] was reached.
    TooLarge,
    /// All answers together need too much memory.
    Displaced,
    /// The content has another digest or size than its descriptor.
    Digest,
    /// The registry limits requests.
    Limited,
    /// The registry reported a failure of its own, or refused the request.
    Failed,
    /// No connection, or a broken one.
    Unreachable,
    /// The certificate is not trusted, or TLS failed.
    Tls,
    /// The operation took longer than its time limit.
    Timeout,
    /// The answer is not that of a registry.
    Malformed,
    /// The address may not be dialled, or a redirect is not followed.
    Refused,
    /// The host does not answer this namespace, and is not asked.
    Closed,
    /// The given certificates or the proxy are unusable.
    Configuration,
    /// The content cannot be written.
    Write,
}

/// The failure of an operation of a registry.
#[derive(Debug)]
pub struct Error {
    pub(crate) doing: &'static str,
    pub(crate) url: String,
    pub(crate) problem: Problem,
}

/// A failure before its operation and URL are known.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) text: String,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
    pub(crate) after: Option<Duration>,
    pub(crate) status: Option<u16>,
}

impl From<Displaced> for Problem {
    fn from(displaced: Displaced) -> Self {
        Problem::new(Reason::Displaced, displaced.to_string())
    }
}

impl Problem {
    pub(crate) fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
            source: None,
            after: None,
            status: None,
        }
    }

    pub(crate) fn because(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    pub(crate) fn of(self, doing: &'static str, url: impl Into<String>) -> Error {
        Error {
            doing,
            url: url.into(),
            problem: self,
        }
    }
}

impl Error {
    /// The class of the failure.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.problem.reason
    }

    /// When the registry may be asked again, if it says so.
    #[must_use]
    pub fn after(&self) -> Option<Duration> {
        self.problem.after
    }

    /// The HTTP status of the registry's refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.problem.status
    }

    fn hint(&self) -> Option<&'static str> {
        match self.problem.reason {
            Reason::Authentication => Some("check the credentials and their permissions"),
            Reason::NotFound => {
                Some("check the name; registries also answer this when credentials lack read access")
            }
            Reason::Unreachable => Some(equate_egress::UNREACHABLE),
            Reason::Tls => Some("check the host's certificate and the configured ca"),
            Reason::Timeout => Some("check the host, or allow a longer timeout"),
            Reason::Malformed => Some("check that the url is that of an oci registry"),
            Reason::TooLarge
            | Reason::Displaced
            | Reason::Digest
            | Reason::Limited
            | Reason::Failed
            | Reason::Refused
            | Reason::Closed
            | Reason::Configuration
            | Reason::Write => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.url, self.problem.text)?;
        match self.hint() {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.problem.source.as_deref().map(|source| source as _)
    }
}
