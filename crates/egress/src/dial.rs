//! Resolves a name, checks its addresses and dials one of them.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::address::RefusedAddress;
use crate::{CONNECT_MAX, Egress};

/// The delay before the next address is tried beside a silent one (RFC 8305 recommends 250 ms).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
const ADDRESSES_MAX: usize = 16;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No address of the host may be dialled.
    #[error("cannot connect to {0}")]
    Refused(String, #[source] RefusedAddress),
    /// The name cannot be resolved.
    #[error("cannot resolve {0}")]
    Unresolved(String, #[source] io::Error),
    /// No address answers.
    #[error("cannot connect to {0}")]
    Unreachable(String, #[source] io::Error),
    /// It took too long.
    #[error("cannot connect to {0} within {limit}s", limit = CONNECT_MAX.as_secs())]
    Late(String),
    /// The URL names no host.
    #[error("the URL has no host")]
    NoHost,
}

/// A URL names an address that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct HttpRefusal(#[from] RefusedAddress);

impl Egress {
    /// Connects to a host at one of its allowed addresses, within [`CONNECT_MAX`].
    ///
    /// # Errors
    /// No address is found, allowed, or answers in time.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let dialled = tokio::time::timeout(CONNECT_MAX, async {
            let addresses = self.addresses(host, port).await?;
            let stream = first(addresses).await;
            stream.map_err(|source| ConnectError::Unreachable(host.to_owned(), source))
        });
        dialled
            .await
            .unwrap_or_else(|_| Err(ConnectError::Late(host.to_owned())))
    }

    /// The allowed addresses of a host.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let found = tokio::net::lookup_host((host, port)).await;
                found
                    .map_err(|source| ConnectError::Unresolved(host.to_owned(), source))?
                    .take(ADDRESSES_MAX)
                    .collect()
            }
        };
        let Some(policy) = self.policy_for(host) else {
            return Ok(found);
        };
        let (mut allowed, mut refused) = (Vec::with_capacity(found.len()), None);
        for address in found {
            match policy.check(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(source) if allowed.is_empty() => Err(ConnectError::Refused(host.to_owned(), source)),
            _ => Ok(allowed),
        }
    }

    /// A builder of HTTP clients without redirects. They dial literal addresses without a lookup:
    /// [`Egress::check`] every URL.
    pub fn http(&self) -> reqwest::ClientBuilder {
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_MAX)
            .dns_resolver(Resolver(self.clone()))
    }

    /// Checks the host of a URL if it is a literal address.
    ///
    /// # Errors
    /// It may not be dialled.
    pub fn check(&self, url: &Url) -> Result<(), HttpRefusal> {
        let Some(host) = url.host_str() else { return Ok(()) };
        let Some(policy) = self.policy_for(host) else {
            return Ok(());
        };
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        match literal.parse() {
            Ok(address) => Ok(policy.check(address)?),
            Err(_) => Ok(()),
        }
    }

    /// A connector for clients of `hyper`.
    #[must_use]
    pub fn connector(&self) -> Connector {
        Connector(self.clone())
    }
}

async fn first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut left = addresses.into_iter();
    let mut tries = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    loop {
        match left.next() {
            Some(address) => {
                tries.spawn(TcpStream::connect(address));
            }
            None if tries.is_empty() => return Err(failed),
            None => {}
        }
        let patience = async {
            match left.len() {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(NEXT_ADDRESS).await,
            }
        };
        tokio::select! {
            tried = tries.join_next() => match tried {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failed = error,
                Some(Err(error)) => failed = io::Error::other(error),
                None => {}
            },
            () = patience => {}
        }
    }
}

struct Resolver(Egress);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = self.0.clone();
        Box::pin(async move {
            let found = egress.addresses(name.as_str(), 0).await?;
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// Connects clients of `hyper` to the host of a URL.
#[derive(Debug, Clone)]
pub struct Connector(Egress);

type Dialled = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, ConnectError>> + Send>>;

impl tower::Service<http::Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Dialled;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: http::Uri) -> Dialled {
        let egress = self.0.clone();
        Box::pin(async move {
            let host = to.host().ok_or(ConnectError::NoHost)?;
            let port = to.port_u16().unwrap_or(match to.scheme_str() {
                Some("https") => 443,
                _ => 80,
            });
            let stream = egress.connect(host, port).await?;
            // requests are small and wait for their answers
            stream.set_nodelay(true).ok();
            Ok(TokioIo::new(stream))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AddressPolicy;

    async fn listener() -> (tokio::net::TcpListener, u16) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[tokio::test]
    async fn refused_addresses_are_not_dialled_by_any_name() {
        let (listener, port) = listener().await;
        let guarded = Egress::new(AddressPolicy::default());
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let error = guarded.connect(host, port).await.unwrap_err();
            assert!(matches!(error, ConnectError::Refused(..)), "{host}: {error}");
        }
        let silent = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(silent.is_err(), "no connection was made");
        assert!(Egress::default().connect("localhost", port).await.is_ok());
        let exempting = Egress::exempting(AddressPolicy::default(), ["LocalHost".to_owned()]);
        assert!(exempting.connect("localhost", port).await.is_ok());
        assert!(exempting.connect("127.0.0.1", port).await.is_err());
    }

    #[tokio::test]
    async fn http_clients_dial_no_refused_address() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let (listener, port) = listener().await;
        let guarded = Egress::new(AddressPolicy::default());
        let client = guarded.http().build().unwrap();
        let error = client
            .get(format!("http://localhost:{port}/"))
            .send()
            .await
            .unwrap_err();
        assert!(format!("{error:?}").contains("RefusedAddress"), "{error:?}");
        let check = |url: &str, allowed: bool| {
            assert_eq!(guarded.check(&Url::parse(url).unwrap()).is_ok(), allowed, "{url}");
        };
        check(&format!("http://127.0.0.1:{port}/"), false);
        check("http://2130706433/", false);
        check("http://0x7f.1/", false);
        check("http://[::1]/", false);
        check("http://169.254.169.254/latest", false);
        check("http://10.0.0.1/", true);
        let silent = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(silent.is_err(), "no connection was made");
    }
}
