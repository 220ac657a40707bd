//! The classes of failure a caller decides by: which reason a condition gets, whether a retry
//! can help. Text is for people; nothing branches on it.

/// What a failure of git was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The host wants other credentials, or does not trust these; or we do not trust its ssh key.
    Authentication,
    /// The URL or what goes with it can never work.
    UrlInvalid,
    /// The reference can never mean anything.
    ReferenceInvalid,
    /// The repository has no such ref or commit.
    ReferenceNotFound,
    /// The host has no such repository, or hides it from these credentials.
    RepositoryNotFound,
    /// No connection to the host.
    Unreachable,
    /// The host's certificate is not trusted, or TLS failed otherwise.
    Tls,
    /// The remote took longer than allowed.
    Timeout,
    /// The host answered, but with a failure of its own.
    RemoteFailure,
    /// What answered does not speak git.
    Protocol,
    /// A ceiling of [`crate::Limits`] was reached.
    Limit,
    /// The mirror or the local repository cannot be read or written.
    Storage,
}

impl Kind {
    /// Whether the same call can succeed later without anyone changing what was asked.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Unreachable | Self::Timeout | Self::RemoteFailure | Self::Protocol | Self::Storage => true,
            // A ref may be pushed, a credential repaired, a repository made or shrunk on the other
            // side: all worth asking again, at the interval.
            Self::ReferenceNotFound
            | Self::RepositoryNotFound
            | Self::Authentication
            | Self::Tls
            | Self::Limit => true,
            Self::UrlInvalid | Self::ReferenceInvalid => false,
        }
    }
}
