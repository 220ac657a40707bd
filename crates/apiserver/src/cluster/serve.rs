//! Serving the API on a loopback port, over TLS with a certificate authority made for this run: kubectl
//! sends no credentials over plain http. And serving any routes over plain http, with the same limits.

use axum::Router;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// Connections of an address. Clients behind one address are a gateway's, or shards of controllers on one node.
const PEER_CONNECTIONS_MAX: usize = 512;
/// Addresses whose pace is known, between two removals of those that may ask at once again.
const PACED_MAX: usize = 1024;
/// A client that reads nothing for this long is gone, or wants to hold the connection.
const WRITE_MAX: Duration = Duration::from_secs(60);
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
    let limits = Limits {
        // its clients are those of one user
        of_peer: CONNECTIONS_MAX,
        ..Limits::DEFAULT
    };
    let task = tokio::spawn(accept(listener, Some(acceptor), router, limits, stop.clone()));
    Ok(Serving { address, stop, task })
}

/// Serves routes over plain http until it is stopped, then closes all connections.
///
/// A head of a request has 30 s, and a client that reads nothing for 60 s is disconnected. There are at most
/// 4,096 connections: further ones wait. Of one address there are at most 512: further ones
/// take the place of the oldest without a request. Requests of one address beyond `pace` wait.
pub async fn serve_http(listener: TcpListener, router: Router, pace: Pace, stop: CancellationToken) {
    let limits = Limits {
        pace: Some(pace),
        ..Limits::DEFAULT
    };
    accept(listener, None, router, limits, stop).await;
}

/// How fast requests of one address are answered.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// In a long run.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Connections of one address.
    of_peer: usize,
    /// The wait for a client to read.
    write: Duration,
    /// The time for the head of a request.
    head: Duration,
    pace: Option<Pace>,
}

impl Limits {
    const DEFAULT: Limits = Limits {
        of_peer: PEER_CONNECTIONS_MAX,
        write: WRITE_MAX,
        head: HEAD_MAX,
        pace: None,
    };
}

/// The connections by address. A network of 64 bits is one client.
#[derive(Debug, Clone, Default)]
struct Peers(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    connections: HashMap<IpAddr, BTreeMap<u64, Peer>>,
    tickets: u64,
    /// When an address has used up what it may ask, if it goes on at its pace.
    paid: HashMap<IpAddr, Instant>,
}

#[derive(Debug, Clone, Default)]
struct Peer {
    /// Whether it has sent a request.
    asked: Arc<AtomicBool>,
    closed: CancellationToken,
}

/// A connection of an address.
struct PeerSlot {
    peers: Peers,
    address: IpAddr,
    ticket: u64,
    peer: Peer,
}

impl Peers {
    /// Beyond the number, the oldest connection without a request gives way: a probe has the address of its
    /// node, as others may have. `None` if all have sent one.
    fn enter(&self, address: IpAddr, max: usize) -> Option<PeerSlot> {
        let address = network(address);
        let mut known = self.lock();
        known.tickets += 1;
        let ticket = known.tickets;
        let own = known.connections.entry(address).or_default();
        if own.len() >= max {
            let silent = |(_, peer): &(&u64, &Peer)| !peer.asked.load(Ordering::Relaxed);
            let oldest = own.iter().find(silent).map(|(ticket, _)| *ticket)?;
            if let Some(peer) = own.remove(&oldest) {
                peer.closed.cancel();
            }
        }
        let peer = Peer::default();
        own.insert(ticket, peer.clone());
        drop(known);
        let peers = self.clone();
        Some(PeerSlot {
            peers,
            address,
            ticket,
            peer,
        })
    }

    /// The wait before the next request of an address (the generic cell rate algorithm of ATM networks).
    fn pay(&self, address: IpAddr, pace: Pace, now: Instant) -> Duration {
        let cost = Duration::from_secs(1) / pace.per_second.max(1);
        let mut known = self.lock();
        if known.paid.len() >= PACED_MAX {
            known.paid.retain(|_, until| *until > now);
        }
        let until = known.paid.entry(address).or_insert(now);
        *until = (*until).max(now) + cost;
        (*until - now).saturating_sub(cost * pace.burst)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerSlot {
    async fn pay(&self, pace: Option<Pace>) {
        let Some(pace) = pace else { return };
        let wait = self.peers.pay(self.address, pace, Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }
}

/// The client of an address: all of a network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        IpAddr::V4(address) => IpAddr::V4(address),
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut known = self.peers.lock();
        if let Some(own) = known.connections.get_mut(&self.address) {
            own.remove(&self.ticket);
            if own.is_empty() {
                known.connections.remove(&self.address);
            }
        }
    }
}

/// A connection whose writes fail if the client reads nothing for a time.
struct Read<S> {
    stream: S,
    limit: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Read<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
        }
    }

    fn progress(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(cx).map(|()| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client reads nothing",
            ))
        })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let peers = Peers::default();
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
                let Some(own) = peers.enter(peer.ip(), limits.of_peer) else {
                    tracing::debug!(%peer, max = limits.of_peer, "too many connections of an address");
                    continue;
                };
                let stream = Read::new(stream, limits.write);
                let (acceptor, router, stop) = (acceptor.clone(), router.clone(), stop.clone());
                connections.spawn(async move {
                    let _slot = slot;
                    let own = Arc::new(own);
                    let asking = Arc::clone(&own);
                    let router = router.layer(axum::middleware::map_request(move |request: Request| {
                        let asking = Arc::clone(&asking);
                        async move {
                            asking.peer.asked.store(true, Ordering::Relaxed);
                            asking.pay(limits.pace).await;
                            request
                        }
                    }));
                    tokio::select! {
                        () = connection(stream, peer, acceptor, router, limits.head) => {}
                        () = own.peer.closed.cancelled() => {
                            tracing::debug!(%peer, "closed for a newer connection of the address");
                        }
                        () = stop.cancelled() => {}
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors or an aborted connection: both pass.
                tracing::debug!(%error, "accept failed");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(
    stream: Read<TcpStream>,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    head: Duration,
) {
    // Small answers must not wait for the next segment.
    if let Err(error) = stream.stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let Some(acceptor) = acceptor else {
        return requests(stream, peer, false, router, head).await;
    };
    let tls = match tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, %peer, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake timed out"),
    };
    // From the handshake: guessing it from the first bytes could wait forever.
    let second = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    requests(tls, peer, second, router, head).await;
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    second: bool,
    router: Router,
    head: Duration,
) {
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut builder = if second {
        builder.http2_only()
    } else {
        builder.http1_only()
    };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
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

impl<S: AsyncRead + Unpin> AsyncRead for Read<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Read<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.progress(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.progress(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn served(limits: Limits, router: Router) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(accept(listener, None, router, limits, stop.clone()));
        (address, stop)
    }

    /// The answer to one request; empty if the connection is closed without.
    async fn ask(stream: &mut TcpStream) -> String {
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let mut answer = [0; 12];
        match stream.write_all(request).await {
            Ok(()) => match stream.read_exact(&mut answer).await {
                Ok(_) => String::from_utf8_lossy(&answer).into_owned(),
                Err(_) => String::new(),
            },
            Err(_) => String::new(),
        }
    }

    #[tokio::test]
    async fn an_address_has_a_number_of_connections() {
        let limits = Limits {
            of_peer: 2,
            ..Limits::DEFAULT
        };
        let router = Router::new().route("/", axum::routing::get(async || "ok"));
        let (address, stop) = served(limits, router).await;
        let mut kept = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(ask(&mut stream).await, "HTTP/1.1 200");
            kept.push(stream);
        }
        let mut third = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut third).await, "", "both others have sent a request");
        // the place of a closed one is free
        kept.pop();
        loop {
            let mut next = TcpStream::connect(address).await.unwrap();
            if ask(&mut next).await == "HTTP/1.1 200" {
                break;
            }
        }
        stop.cancel();
    }

    #[tokio::test]
    async fn a_half_sent_head_closes_the_connection() {
        let limits = Limits {
            head: Duration::from_millis(50),
            ..Limits::DEFAULT
        };
        let (address, stop) = served(limits, Router::new()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
        let mut rest = Vec::new();
        // ends, with or without an answer
        stream.read_to_end(&mut rest).await.ok();
        assert!(!rest.starts_with(b"HTTP/1.1 2"));
        stop.cancel();
    }

    #[tokio::test]
    async fn half_sent_requests_keep_no_other_client_of_their_address_out() {
        let limits = Limits {
            of_peer: 3,
            ..Limits::DEFAULT
        };
        let router = Router::new().route("/", axum::routing::get(async || "ok"));
        let (address, stop) = served(limits, router).await;
        let mut half_sent = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nx-").await.ok();
            half_sent.push(stream);
        }
        for _ in 0..5 {
            let mut probe = TcpStream::connect(address).await.unwrap();
            assert_eq!(ask(&mut probe).await, "HTTP/1.1 200");
        }
        stop.cancel();
    }

    #[test]
    fn requests_beyond_the_pace_of_an_address_wait() {
        let (peers, now) = (Peers::default(), Instant::now());
        let pace = Pace {
            per_second: 10,
            burst: 3,
        };
        let pay = |address: &str, after: u64| {
            let now = now + Duration::from_millis(after);
            peers.pay(address.parse().unwrap(), pace, now).as_millis()
        };
        let waits: Vec<u128> = (0..5).map(|_| pay("10.0.0.1", 0)).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(pay("10.0.0.2", 0), 0, "each address has its own");
        assert_eq!(pay("10.0.0.1", 300), 0, "the pace goes on while it waits");
        assert_eq!(pay("10.0.0.1", 300), 100);
    }

    #[test]
    fn a_network_is_one_peer() {
        let peers = Peers::default();
        let enter = |address: &str| {
            let slot = peers.enter(address.parse().unwrap(), 1)?;
            slot.peer.asked.store(true, Ordering::Relaxed);
            Some(slot)
        };
        let first = enter("2001:db8::1");
        assert!(first.is_some());
        assert!(enter("2001:db8::2").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        let fourth = enter("10.0.0.1");
        assert!(enter("::ffff:10.0.0.1").is_none());
        assert!(enter("10.0.0.2").is_some());
        drop((first, fourth));
        assert!(peers.lock().connections.is_empty());
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let limits = Limits {
            write: Duration::from_millis(50),
            ..Limits::DEFAULT
        };
        // more than the buffers of both ends hold
        let body = vec![b'x'; 64 << 20];
        let router = Router::new().route("/", axum::routing::get(move || std::future::ready(body.clone())));
        let (address, stop) = served(limits, router).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut stream).await, "HTTP/1.1 200");
        let mut other = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut other).await, "HTTP/1.1 200");
        // nothing is read for longer than the limit
        sleep(10 * limits.write).await;
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest).await;
        assert!(ended.is_err() || rest.len() < 64 << 20, "{} bytes", rest.len());
        stop.cancel();
    }
}
