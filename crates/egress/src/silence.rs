//! The reason why a host gives no answer, in the same words for all clients: views find them in statuses.

use std::error::Error;
use std::io;

use crate::ConnectError;

/// The advice in the message of each request without an answer.
pub const UNREACHABLE: &str = "check the host's name and port, and that it is reachable from here";
/// Part of the message of each refused request to a closed host.
pub(crate) const CLOSED: &str = "times in a row; requests of namespace";

/// Why a host gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Silence {
    /// Its name has no address.
    Unresolved,
    /// It refuses connections.
    Refused,
    /// It takes too long.
    Late,
    /// The connection ends early.
    Broken,
    /// There is no connection for another reason.
    Unconnected,
}

impl Silence {
    const ALL: [Self; 5] = [
        Self::Unresolved,
        Self::Refused,
        Self::Late,
        Self::Broken,
        // its words begin those of others
        Self::Unconnected,
    ];

    /// The reason among the causes of a failed connection.
    #[must_use]
    pub fn of_connection(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            match cause.downcast_ref() {
                Some(ConnectError::Unresolved(..)) => return Self::Unresolved,
                Some(ConnectError::Late(_)) => return Self::Late,
                Some(ConnectError::Refused(..) | ConnectError::Unreachable(..) | ConnectError::NoHost)
                | None => {}
            }
            let failed = cause.downcast_ref::<io::Error>();
            match failed.map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => return Self::Refused,
                Some(io::ErrorKind::TimedOut) => return Self::Late,
                _ => {}
            }
            // `io::Error` hides its inner error from `source`
            next = match failed.and_then(io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        Self::Unconnected
    }

    /// The reason of a failed HTTP request.
    #[must_use]
    pub fn of_request(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            Self::Late
        } else if error.is_connect() {
            Self::of_connection(error)
        } else {
            Self::Broken
        }
    }

    /// The reason in a message, if it is that of a request without an answer.
    #[must_use]
    pub fn in_message(message: &str) -> Option<Self> {
        let says = |words: &str| message.contains(words);
        if !says(UNREACHABLE) && !says(CLOSED) {
            return None;
        }
        let named = Self::ALL.into_iter().find(|silence| says(silence.words()));
        Some(named.unwrap_or(Self::Unconnected))
    }

    /// The words in messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Unresolved => "no connection: its name cannot be resolved",
            Self::Refused => "no connection: the host refuses it",
            Self::Late => "it did not answer in time",
            Self::Broken => "the connection broke",
            Self::Unconnected => "no connection",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Egress;

    #[tokio::test]
    async fn a_message_tells_why_a_host_is_silent() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = Egress::default().http().build().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        for (url, expected) in [
            (format!("http://{closed}/"), Silence::Refused),
            ("http://nowhere.invalid/".to_owned(), Silence::Unresolved),
        ] {
            let error = http.get(&url).send().await.unwrap_err();
            let silence = Silence::of_request(&error);
            assert_eq!(silence, expected, "{error:?}");
            let message = format!("cannot get {url}: {} ({UNREACHABLE})", silence.words());
            assert_eq!(Silence::in_message(&message), Some(expected));
        }
        assert_eq!(Silence::in_message("no connection"), None);
        let plain = format!("cannot ask x: unknown ({UNREACHABLE})");
        assert_eq!(Silence::in_message(&plain), Some(Silence::Unconnected));
    }
}
