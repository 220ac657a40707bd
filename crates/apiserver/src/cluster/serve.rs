//! Serving the API on a loopback port, over TLS with a certificate authority made for this run: kubectl
//! sends no credentials over plain http. And serving any routes over plain http, with the same limits.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// Concurrent requests of one connection, watches included (as kube-apiserver).
const STREAMS_MAX: u32 = 1000;
/// Go's limit for the head of a request; long selectors are part of it.
const HEAD_BYTES_MAX: u32 = 1 << 20;
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How often idle HTTP/2 clients are pinged (as kube-apiserver).
const PING_EVERY: Duration = Duration::from_secs(30);

/// An error while serving an address.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Binding the address failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Creating the server's certificate failed.
    #[error("cannot create the server's certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused the certificate.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "equate");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    pub(crate) fn certificate_pem(&self) -> &str {
        &self.pem
    }

    fn server_config(&self, address: SocketAddr) -> Result<ServerConfig, ServeError> {
        let key = KeyPair::generate()?;
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "kubernetes.default.svc".to_owned()])?;
        params.subject_alt_names.push(SanType::IpAddress(address.ip()));
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// A served address. Dropping it stops serving.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Serving {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Stops serving and closes open connections.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await
            && !error.is_cancelled()
        {
            tracing::error!(%error, "the server task failed");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(super) async fn serve(
    router: Router,
    authority: Arc<Authority>,
    address: SocketAddr,
    stop: CancellationToken,
) -> Result<Serving, ServeError> {
    let listen = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let acceptor = TlsAcceptor::from(Arc::new(authority.server_config(address)?));
    let task = tokio::spawn(accept(listener, Some(acceptor), router, stop.clone()));
    Ok(Serving { address, stop, task })
}

/// Serves routes over plain http until it is stopped, then closes all connections.
///
/// A head of a request has 30 s, and there are at most 4,096 connections: further ones wait.
pub async fn serve_http(listener: TcpListener, router: Router, stop: CancellationToken) {
    accept(listener, None, router, stop).await;
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
                connections.spawn(async move {
                    let _slot = slot;
                    tokio::select! {
                        () = connection(stream, peer, acceptor, router) => {}
                        () = stop.cancelled() => {}
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors or an aborted connection: both pass.
                tracing::debug!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, peer: SocketAddr, acceptor: Option<TlsAcceptor>, router: Router) {
    // Small answers must not wait for the next segment.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let Some(acceptor) = acceptor else {
        return requests(stream, peer, false, router).await;
    };
    let tls = match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, %peer, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake timed out"),
    };
    // From the handshake: guessing it from the first bytes could wait forever.
    let second = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    requests(tls, peer, second, router).await;
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    second: bool,
    router: Router,
) {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if second {
        builder.http2_only()
    } else {
        builder.http1_only()
    };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX);
    let service = TowerToHyperService::new(router);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, %peer, "a connection failed");
    }
}
