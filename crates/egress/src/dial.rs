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
use crate::{CONNECT_MAX, Egress, bare};

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

/// The place in a URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpRefusal {
    /// It is an address that may not be dialled.
    #[error(transparent)]
    Address(#[from] RefusedAddress),
    /// The host may have any address at other ports only.
    #[error(
        "port {} of {host} is refused because the operator names {host} with another port",
        port.map_or_else(|| "(none)".to_owned(), |port| port.to_string())
    )]
    Port {
        /// The host.
        host: String,
        /// The refused port.
        port: Option<u16>,
    },
}

impl Egress {
    /// Connects to a host at one of its allowed addresses, within [`CONNECT_MAX`].
    ///
    /// # Errors
    /// No address is found, allowed, or answers in time.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let dialled = tokio::time::timeout(CONNECT_MAX, async {
            let addresses = self.addresses(host, Some(port)).await?;
            let stream = first(addresses).await;
            stream.map_err(|source| ConnectError::Unreachable(host.to_owned(), source))
        });
        dialled
            .await
            .unwrap_or_else(|_| Err(ConnectError::Late(host.to_owned())))
    }

    /// The allowed addresses of a host. Without a port, [`Egress::check`] has seen it.
    async fn addresses(&self, host: &str, asked: Option<u16>) -> Result<Vec<SocketAddr>, ConnectError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = asked.unwrap_or_default();
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let named = (host.to_owned(), port);
                // a task of the runtime: a thread that is started for the lookup has the priority of the one that polls
                let lookup = tokio::spawn(async move {
                    let found = tokio::net::lookup_host(named).await?;
                    Ok(found.take(ADDRESSES_MAX).collect())
                });
                let found = lookup.await.map_err(io::Error::other).flatten();
                found.map_err(|source| ConnectError::Unresolved(host.to_owned(), source))?
            }
        };
        let is_exempt = self
            .exempt(host)
            .is_some_and(|ports| asked.is_none() || ports.contains(asked));
        let Some(policy) = self.policy().filter(|_| !is_exempt) else {
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

    /// Checks the host of a URL if it is a literal address, and the port if the operator names the host: the
    /// resolver of an HTTP client sees no ports.
    ///
    /// # Errors
    /// It may not be dialled.
    pub fn check(&self, url: &Url) -> Result<(), HttpRefusal> {
        let (Some(host), Some(policy)) = (url.host_str(), self.policy()) else {
            return Ok(());
        };
        let (port, exempt) = (url.port_or_known_default(), self.exempt(host));
        if exempt.is_some_and(|ports| ports.contains(port)) {
            return Ok(());
        }
        match bare(host).parse() {
            Ok(address) => Ok(policy.check(address)?),
            Err(_) if exempt.is_none() => Ok(()),
            Err(_) => Err(HttpRefusal::Port {
                host: host.to_owned(),
                port,
            }),
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
            let found = egress.addresses(name.as_str(), None).await?;
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
    }

    #[tokio::test]
    async fn hosts_of_the_operator_are_exempt_at_their_port_only() {
        rustls::crypto::ring::default_provider().install_default().ok();
        let ((_listener, port), (other, other_port)) = (listener().await, listener().await);
        let exempting = |port| Egress::exempting(AddressPolicy::default(), [("LocalHost".to_owned(), port)]);
        let check = async |egress: &Egress, host: &str, port: u16, allowed: bool| {
            let connected = egress.connect(host, port).await.is_ok();
            assert_eq!(connected, allowed, "{host}:{port}");
            let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
            assert_eq!(egress.check(&url).is_ok(), allowed, "{url}");
        };
        let one = exempting(Some(port));
        check(&one, "localhost", port, true).await;
        check(&one, "localhost", other_port, false).await;
        check(&one, "127.0.0.1", port, false).await;
        let all = exempting(None);
        check(&all, "localhost", other_port, true).await;
        check(&all, "127.0.0.1", port, false).await;
        let literal = Egress::exempting(AddressPolicy::default(), [("127.0.0.1".to_owned(), Some(port))]);
        check(&literal, "127.0.0.1", port, true).await;
        check(&literal, "127.0.0.1", other_port, false).await;
        assert!(literal.connect("localhost", port).await.is_err());
        // the default port of a scheme
        let web = exempting(Some(80));
        let is_allowed = |url: &str| web.check(&Url::parse(url).unwrap()).is_ok();
        assert!(is_allowed("http://localhost/"));
        assert!(!is_allowed("https://localhost/"));
        drop(other);
    }

    #[tokio::test]
    async fn hosts_that_the_platform_names_may_have_any_address() {
        let (_listener, port) = listener().await;
        let guarded = Egress::new(AddressPolicy::default());
        let trusting = guarded.trusting_hosts();
        let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        assert!(trusting.check(&url).is_ok());
        assert!(trusting.connect("localhost", port).await.is_ok());
        assert!(guarded.check(&url).is_err(), "the other is as before");
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
