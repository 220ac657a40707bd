//! Servers of attackers: TCP and HTTP by hand, for a library would answer correctly.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// The first byte of a connection with TLS. As from other servers, the answer is plain: a client that may do without TLS
/// asks again.
const TLS_HANDSHAKE: u8 = 0x16;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Connections and requests so far.
#[derive(Debug, Default)]
pub(super) struct Contacts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Contacts {
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// A running server; dropping it closes all its connections.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    contacts: Arc<Contacts>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start<F>(serve: impl Fn(Connection) -> F + Send + 'static) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let contacts = Arc::<Contacts>::default();
        let counted = Arc::clone(&contacts);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(Connection {
                    stream,
                    contacts: Arc::clone(&counted),
                    unread: Vec::new(),
                    is_head: false,
                }));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            contacts,
            task,
        })
    }

    /// Accepts connections and never sends a byte.
    pub(super) async fn silent() -> io::Result<Self> {
        Self::start(|mut connection| async move { connection.silent().await }).await
    }

    /// Answers each request with this body.
    pub(super) async fn file(body: Vec<u8>) -> io::Result<Self> {
        let body = Arc::new(body);
        Self::start(move |mut connection| {
            let body = Arc::clone(&body);
            async move {
                while connection.head().await?.is_some() {
                    connection.answer(200, "application/gzip", &body).await?;
                }
                Ok(())
            }
        })
        .await
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn contacts(&self) -> Arc<Contacts> {
        Arc::clone(&self.contacts)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request: its line and its body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

pub(super) struct Connection {
    stream: TcpStream,
    contacts: Arc<Contacts>,
    unread: Vec<u8>,
    /// Whether the last request is a HEAD, whose answer has no body.
    is_head: bool,
}

impl Connection {
    /// Reads a request with its body; `None` at the end of the connection.
    pub(super) async fn head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.unread.first() == Some(&TLS_HANDSHAKE) {
                self.stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await?;
                return Ok(None);
            }
            if self.unread.len() > HEAD_BYTES_MAX || !self.read().await? {
                return Ok(None);
            }
        };
        let text = String::from_utf8_lossy(&self.unread[..end]).to_ascii_lowercase();
        self.is_head = text.starts_with("head ");
        let path = String::from_utf8_lossy(&self.unread[..end]);
        let path = path.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let header = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let length: usize = header("content-length:")
            .and_then(|length| length.parse().ok())
            .unwrap_or(0);
        let is_chunked = header("transfer-encoding:").is_some();
        if header("expect:").is_some() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        self.unread.drain(..end);
        let complete = |unread: &[u8]| match is_chunked {
            true => unread.ends_with(b"0\r\n\r\n"),
            false => unread.len() >= length,
        };
        while !complete(&self.unread) {
            if !self.read().await? {
                return Ok(None);
            }
        }
        let taken = if is_chunked { self.unread.len() } else { length };
        let body = self.unread.drain(..taken).collect();
        self.contacts.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Head { path, body }))
    }

    /// The server's address.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    async fn read(&mut self) -> io::Result<bool> {
        let mut buffer = vec![0; 16 << 10];
        let read = self.stream.read(&mut buffer).await?;
        self.unread.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }

    pub(super) async fn answer(&mut self, code: u16, kind: &str, body: &[u8]) -> io::Result<()> {
        let length = body.len();
        let head = format!("HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await?;
        match self.is_head {
            true => Ok(()),
            false => self.stream.write_all(body).await,
        }
    }

    pub(super) async fn json(&mut self, code: u16, body: &serde_json::Value) -> io::Result<()> {
        self.answer(code, "application/json", body.to_string().as_bytes())
            .await
    }

    /// Begins an answer that ends with the connection.
    pub(super) async fn begin(&mut self, kind: &str) -> io::Result<()> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends the same bytes until the peer closes the connection.
    pub(super) async fn endless(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            self.stream.write_all(bytes).await?;
        }
    }

    /// Sends a byte per second.
    pub(super) async fn drip(&mut self, byte: u8) -> io::Result<()> {
        loop {
            self.stream.write_all(&[byte]).await?;
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Sends nothing until the peer closes the connection.
    pub(super) async fn silent(&mut self) -> io::Result<()> {
        while self.read().await? {
            self.unread.clear();
        }
        Ok(())
    }
}

/// The status of a GET and its time; the error says why there is none.
pub(super) async fn get(
    address: SocketAddr,
    path: &str,
    patience: Duration,
) -> Result<(u16, Duration), String> {
    let begun = Instant::now();
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        io::Result::Ok(answer)
    };
    match timeout(patience, exchange).await {
        Ok(Ok(answer)) => {
            let text = String::from_utf8_lossy(&answer);
            let code = text.split_whitespace().nth(1).and_then(|code| code.parse().ok());
            let code = code.ok_or_else(|| format!("GET {path}: no status"))?;
            Ok((code, begun.elapsed()))
        }
        Ok(Err(error)) => Err(format!("GET {path}: {error}")),
        Err(_) => Err(format!("GET {path}: no answer within {patience:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn a_request_is_read_with_its_body_and_answered() {
        runtime().block_on(async {
            let server = Server::start(|mut connection| async move {
                while let Some(head) = connection.head().await? {
                    let text = format!("{} {}", head.path, head.body.len());
                    connection.answer(200, "text/plain", text.as_bytes()).await?;
                }
                Ok(())
            })
            .await
            .unwrap();
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            let sent = "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\
                        POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n";
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answers = vec![0; 4096];
            let mut all = String::new();
            while !all.contains("/b 12") {
                let read = stream.read(&mut answers).await.unwrap();
                assert!(read > 0, "{all}");
                all.push_str(&String::from_utf8_lossy(&answers[..read]));
            }
            assert!(all.contains("/a 3"), "{all}");
            assert_eq!(
                (server.contacts().connections(), server.contacts().requests()),
                (1, 2)
            );
        });
    }

    #[test]
    fn a_server_without_answer_is_noticed() {
        runtime().block_on(async {
            let server = Server::silent().await.unwrap();
            let said = get(server.address(), "/readyz", Duration::from_millis(50)).await;
            assert_eq!(said.unwrap_err(), "GET /readyz: no answer within 50ms");
        });
    }
}
