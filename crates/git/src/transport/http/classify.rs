//! The failure class of an HTTP status or a failed transfer.

use std::error::Error;

use equate_egress::Silence;
use reqwest::StatusCode;

use crate::{kind::Kind, transport::Failure};

pub(super) fn status(status: StatusCode, credentials: bool) -> Failure {
    let code = status.as_u16();
    match code {
        401 if credentials => Failure::new(
            Kind::Authentication,
            "the host refused the credentials (HTTP 401)",
        ),
        401 => Failure::new(Kind::Authentication, "the host requires credentials (HTTP 401)"),
        407 => Failure::new(Kind::Authentication, "the proxy requires credentials (HTTP 407)"),
        403 => Failure::new(Kind::Authentication, "the host forbids access (HTTP 403)"),
        404 | 410 => Failure::new(
            Kind::RepositoryNotFound,
            format!("no such repository (HTTP {code})"),
        ),
        429 => Failure::new(Kind::RemoteFailure, "the host limits requests (HTTP 429)"),
        500.. => Failure::new(Kind::RemoteFailure, format!("the host failed (HTTP {code})")),
        _ => Failure::new(Kind::Protocol, format!("the host answers HTTP {code}")),
    }
}

/// TLS first: its failures look like failed connections. A client's only time limit is that of a connection,
/// which no tenant can choose.
pub(super) fn transfer(error: reqwest::Error) -> Failure {
    // Our own text already has the URL.
    let error = error.without_url();
    let (kind, problem) = if find_cause(&error, <dyn Error>::is::<rustls::Error>) {
        (Kind::Tls, "the connection is not trusted")
    } else {
        let silence = Silence::of_request(&error);
        (Kind::Unreachable(silence), silence.words())
    };
    Failure::new(kind, problem).because(error)
}

/// `io::Error` hides its inner error from `source`.
fn find_cause(error: &(dyn Error + 'static), wanted: impl Fn(&(dyn Error + 'static)) -> bool) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if wanted(cause) {
            return true;
        }
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    false
}
