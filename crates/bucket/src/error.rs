//! Failures of a store: a class for callers, and a text with operation, name and cause.

use std::error::Error as StdError;
use std::fmt;

use equate_egress::Displaced;

use crate::place::Kind;

/// The class of a failure. Callers never parse error texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The store refuses the credentials, or requires some.
    Authentication,
    /// The store has no such bucket or object.
    NotFound,
    /// A limit of [`crate::Limits`] was reached.
    TooLarge,
    /// All answers together need too much memory.
    Displaced,
    /// The store reported a failure of its own, or refused the request.
    Failed,
    /// No connection, or a broken one.
    Unreachable,
    /// The certificate is not trusted, or TLS failed.
    Tls,
    /// The operation took longer than its time limit.
    Timeout,
    /// The answer is not that of a store.
    Malformed,
    /// The address may not be dialled, or the store redirects.
    Refused,
    /// The host does not answer this namespace, and is not asked.
    Closed,
    /// The given certificates or the proxy are unusable.
    Configuration,
    /// The content cannot be written.
    Write,
}

/// The failure of an operation of a store.
#[derive(Debug)]
pub struct Error {
    pub(crate) kind: Kind,
    pub(crate) doing: &'static str,
    pub(crate) name: String,
    pub(crate) problem: Problem,
}

/// A failure before its operation is known.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) text: String,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
    /// Advice that is better than that for the reason.
    pub(crate) hint: Option<&'static str>,
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
            hint: None,
        }
    }

    /// The problem of a service beside the store, with its own advice.
    pub(crate) fn at(self, service: &str, hint: &'static str) -> Self {
        Self {
            text: format!("{service}: {}", self.text),
            hint: Some(hint),
            ..self
        }
    }

    pub(crate) fn because(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    pub(crate) fn of(self, kind: Kind, doing: &'static str, name: impl Into<String>) -> Error {
        Error {
            kind,
            doing,
            name: name.into(),
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

    fn hint(&self) -> Option<&'static str> {
        if self.problem.hint.is_some() {
            return self.problem.hint;
        }
        match self.problem.reason {
            Reason::Authentication => Some(match self.kind {
                Kind::S3 => "check accesskey, secretkey and their permissions",
                Kind::Google => "check serviceaccount and its permissions for the bucket",
                Kind::Azure => "check the keys of the Secret and their permissions for the container",
            }),
            Reason::Unreachable => Some(equate_egress::UNREACHABLE),
            Reason::Tls => Some("check the host's certificate and the configured ca"),
            Reason::Timeout => Some("check the host, or allow a longer timeout"),
            Reason::Malformed => Some(match self.kind {
                Kind::S3 => "check that the endpoint is that of an S3-compatible store",
                Kind::Google => "check that the endpoint is that of Google Cloud Storage",
                Kind::Azure => "check that the endpoint is that of Azure Blob Storage",
            }),
            Reason::NotFound
            | Reason::TooLarge
            | Reason::Displaced
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
        write!(f, "cannot {} {}: {}", self.doing, self.name, self.problem.text)?;
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
