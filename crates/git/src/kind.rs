//! Failure classes that callers act on: the reason of a condition, and whether to retry. Callers never
//! parse error texts.

use equate_egress::Silence;

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The host refuses the credentials, or its ssh key is not trusted.
    Authentication,
    /// The URL or its options are invalid.
    UrlInvalid,
    /// The reference is invalid.
    ReferenceInvalid,
    /// The repository has no such ref or commit.
    ReferenceNotFound,
    /// The host has no such repository, or hides it from these credentials.
    RepositoryNotFound,
    /// No answer from the host.
    Unreachable(Silence),
    /// The host's certificate is not trusted, or TLS failed.
    Tls,
    /// The remote took longer than the timeout.
    Timeout,
    /// The host reported a failure of its own.
    RemoteFailure,
    /// The answer is not git's protocol.
    Protocol,
    /// A limit of [`crate::Limits`] was reached.
    Limit,
    /// The mirror or the local repository cannot be read or written.
    Storage,
}

impl Kind {
    /// Whether the same call can succeed later without a change of its inputs.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout | Self::RemoteFailure | Self::Protocol | Self::Storage => {
                true
            }
            // The remote may change: refs are pushed, credentials repaired, repositories created or shrunk.
            Self::ReferenceNotFound
            | Self::RepositoryNotFound
            | Self::Authentication
            | Self::Tls
            | Self::Limit => true,
            Self::UrlInvalid | Self::ReferenceInvalid => false,
        }
    }
}
