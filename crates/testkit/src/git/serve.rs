//! Smart HTTP for tests: `git upload-pack` and `git receive-pack` behind a loopback port, with credentials and faults.
//!
//! The server runs in its own thread, so blocking and asynchronous tests may use it. A fault applies
//! until another one is set.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    response::Response,
};
use base64::Engine as _;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use tokio::{
    io::AsyncWriteExt as _,
    sync::{oneshot, watch},
};

use super::tls::{self, Identity};

const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The required credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// None.
    Open,
    /// A name and a password.
    Basic(String, String),
    /// A token.
    Bearer(String),
    /// The client certificate of [`HttpServer::client`]; TLS only.
    Certificate,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Delay every answer.
    Delay(Duration),
    /// Never answer.
    Silence,
    /// Start the answer and do not end it.
    Stall,
    /// Send a byte at a time, with this pause between.
    Drip(Duration),
    /// Answer with this status only.
    Status(u16),
    /// Succeed with the right content type and a body that is not git's.
    Garbage,
    /// Answer with a web page.
    Page,
    /// Truncate answers after this many bytes.
    Cut(usize),
    /// Redirect the first request; `{path}` stands for its path and query.
    Redirect(String),
    /// Answer in protocol 0, which refuses wants other than tips of refs.
    Old,
    /// Receive a request whose path and query end so, and do nothing with it.
    Before(&'static str),
    /// Carry out a request whose path and query end so, and do not answer it.
    After(&'static str),
}

/// An answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The status.
    pub status: u16,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The request body.
    pub body: Vec<u8>,
    /// The size of the answer before any fault.
    pub bytes: usize,
    /// The number of objects in the answer's pack.
    pub objects: Option<u32>,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    certificate: Option<String>,
    client: Option<Identity>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    git: PathBuf,
    git_dir: PathBuf,
    guard: Guard,
    fault: watch::Sender<Fault>,
    answered: Mutex<Vec<Answered>>,
    held: watch::Sender<usize>,
}

impl HttpServer {
    pub(super) fn start(git_dir: &Path, guard: Guard, tls: bool) -> io::Result<Option<Self>> {
        let Some(git) = git() else {
            #[allow(clippy::print_stderr, reason = "a skipped test has to say so")]
            {
                eprintln!("skipped: the git program is not installed");
            }
            return Ok(None);
        };
        let (fault, _) = watch::channel(Fault::None);
        let clients = guard == Guard::Certificate;
        let shared = Arc::new(Shared {
            git,
            git_dir: git_dir.to_owned(),
            guard,
            fault,
            answered: Mutex::default(),
            held: watch::channel(0).0,
        });
        let (certificate, client, acceptor) = match tls || clients {
            true => {
                let made = tls::server(clients)?;
                (Some(made.certificate), made.client, Some(made.acceptor))
            }
            false => (None, None, None),
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("git-http-test".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = run(listener, acceptor, router) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Some(Self {
            address,
            shared,
            certificate,
            client,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// The repository's URL.
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}/fleet.git", self.authority())
    }

    pub(super) fn authority(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// The certificate to trust, PEM; TLS only.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The required client certificate.
    pub fn client(&self) -> Option<&Identity> {
        self.client.as_ref()
    }

    /// Sets the fault of later requests.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// The number of requests that [`Fault::Before`] and [`Fault::After`] have stopped.
    pub fn held(&self) -> usize {
        *self.shared.held.borrow()
    }

    /// The requests answered since the last call.
    pub fn take(&self) -> Vec<Answered> {
        std::mem::take(
            &mut *self
                .shared
                .answered
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The full path of the program. With a bare name and its own `PATH`, `Command` uses `fork`, which copies
/// the page tables of a large test process.
pub(super) fn git() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("git"))
        .find(|git| git.is_file())
}

async fn run(listener: std::net::TcpListener, acceptor: Option<tokio_rustls::TlsAcceptor>, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    match acceptor {
        None => {
            axum::serve(listener, router).await.ok();
        }
        Some(acceptor) => {
            axum::serve(tls::Listener { listener, acceptor }, router)
                .await
                .ok();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts
        .uri
        .path_and_query()
        .map(ToString::to_string)
        .unwrap_or_default();
    let sent = axum::body::to_bytes(body, REQUEST_BYTES_MAX)
        .await
        .unwrap_or_default();
    let fault = shared.fault.borrow().clone();
    if matches!(fault, Fault::Before(end) if path.ends_with(end)) {
        shared.held.send_modify(|held| *held += 1);
        return std::future::pending().await;
    }
    let whole = whole(
        &shared,
        &parts.method,
        &path,
        &parts.headers,
        sent.clone(),
        &fault,
    )
    .await;
    let (head, body) = whole.into_parts();
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let authorization = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let answered = Answered {
        method: parts.method.to_string(),
        path,
        status: head.status.as_u16(),
        authorization: authorization.map(str::to_owned),
        body: sent.to_vec(),
        bytes: bytes.len(),
        objects: objects(&bytes),
    };
    shared
        .answered
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(answered);
    if matches!(fault, Fault::After(end) if parts.uri.to_string().ends_with(end)) {
        shared.held.send_modify(|held| *held += 1);
        return std::future::pending().await;
    }
    Response::from_parts(head, broken(fault, bytes).await)
}

/// The body with its fault.
async fn broken(fault: Fault, bytes: Bytes) -> Body {
    match fault {
        Fault::Delay(delay) => {
            tokio::time::sleep(delay).await;
            Body::from(bytes)
        }
        Fault::Silence => std::future::pending().await,
        Fault::Stall => pieces(vec![bytes.slice(..bytes.len() / 2)], Duration::ZERO, End::Never),
        Fault::Drip(pause) => pieces(
            bytes.chunks(1).map(Bytes::copy_from_slice).collect(),
            pause,
            End::Well,
        ),
        Fault::Cut(at) if at < bytes.len() => pieces(vec![bytes.slice(..at)], Duration::ZERO, End::Broken),
        Fault::None
        | Fault::Cut(_)
        | Fault::Status(_)
        | Fault::Garbage
        | Fault::Page
        | Fault::Redirect(_)
        | Fault::Old
        | Fault::Before(_)
        | Fault::After(_) => Body::from(bytes),
    }
}

/// A body in pieces, with a pause before each but the first.
fn pieces(pieces: Vec<Bytes>, pause: Duration, end: End) -> Body {
    let pieces = pieces.into_iter().enumerate();
    Body::from_stream(futures::stream::unfold(pieces, move |mut pieces| async move {
        match (pieces.next(), end) {
            (Some((at, piece)), _) => {
                if at > 0 && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Some((Ok(piece), pieces))
            }
            (None, End::Well) => None,
            (None, End::Never) => std::future::pending().await,
            (None, End::Broken) => Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), pieces)),
        }
    }))
}

#[derive(Clone, Copy)]
enum End {
    Well,
    Never,
    Broken,
}

async fn whole(
    shared: &Shared,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
    fault: &Fault,
) -> Response {
    let service = match path.ends_with("git-receive-pack") {
        true => "receive-pack",
        false => "upload-pack",
    };
    let listing = method == Method::GET && path.ends_with(&format!("/info/refs?service=git-{service}"));
    let packing = method == Method::POST && path.ends_with(&format!("/git-{service}"));
    let kind = match (service, listing) {
        ("receive-pack", true) => "application/x-git-receive-pack-advertisement",
        ("receive-pack", false) => "application/x-git-receive-pack-result",
        (_, true) => "application/x-git-upload-pack-advertisement",
        (_, false) => "application/x-git-upload-pack-result",
    };
    match fault {
        Fault::Status(status) => {
            return plain(
                StatusCode::from_u16(*status).unwrap_or(StatusCode::IM_A_TEAPOT),
                "a fault",
            );
        }
        Fault::Garbage => return typed(kind, Bytes::from_static(b"000fthis is not\x00\xff git")),
        Fault::Page => return typed("text/html", Bytes::from_static(b"<html>sign in</html>")),
        Fault::Redirect(to) if listing && !path.starts_with("/moved") => {
            let mut response = plain(StatusCode::MOVED_PERMANENTLY, "moved");
            if let Ok(to) = to.replace("{path}", path).parse() {
                response.headers_mut().insert(header::LOCATION, to);
            }
            return response;
        }
        Fault::None
        | Fault::Delay(_)
        | Fault::Silence
        | Fault::Stall
        | Fault::Drip(_)
        | Fault::Cut(_)
        | Fault::Redirect(_)
        | Fault::Old
        | Fault::Before(_)
        | Fault::After(_) => {}
    }
    if let Some(refusal) = refuse(&shared.guard, headers) {
        return refusal;
    }
    if !listing && !packing {
        return plain(StatusCode::NOT_FOUND, "no such page");
    }
    if !path.trim_start_matches("/moved").starts_with("/fleet") {
        return plain(StatusCode::NOT_FOUND, "no such repository");
    }
    let version = match fault {
        Fault::Old => None,
        _ => headers.get("git-protocol").and_then(|value| value.to_str().ok()),
    };
    match pack(service, &shared.git, &shared.git_dir, listing, version, body).await {
        Ok(mut output) => {
            let is_second = version.is_some_and(|version| version.contains("version=2"));
            // a push has no second version
            if listing && !(is_second && service == "upload-pack") {
                let line = format!("# service=git-{service}\n");
                let line = format!("{:04x}{line}0000", line.len() + 4);
                output = [line.as_bytes(), &output].concat();
            }
            typed(kind, Bytes::from(output))
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn refuse(guard: &Guard, headers: &HeaderMap) -> Option<Response> {
    let wanted = match guard {
        // a client without a certificate fails in the TLS handshake
        Guard::Open | Guard::Certificate => return None,
        Guard::Basic(user, password) => {
            let pair = format!("{user}:{password}");
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        }
        Guard::Bearer(token) => format!("Bearer {token}"),
    };
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    if given == Some(wanted.as_str()) {
        return None;
    }
    let mut response = plain(StatusCode::UNAUTHORIZED, "who are you");
    response.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        header::HeaderValue::from_static("Basic realm=\"test\""),
    );
    Some(response)
}

async fn pack(
    service: &str,
    git: &Path,
    git_dir: &Path,
    listing: bool,
    version: Option<&str>,
    body: Bytes,
) -> io::Result<Vec<u8>> {
    let mut command = tokio::process::Command::new(git);
    command.args(["-c", "safe.directory=*", service, "--stateless-rpc"]);
    if listing {
        command.arg("--advertise-refs");
    }
    command.arg(git_dir);
    command
        .env_clear()
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    if let Some(version) = version {
        command.env("GIT_PROTOCOL", version);
    }
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // git may exit before it has read everything; its output is the answer then
            stdin.write_all(&body).await.ok();
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), feed);
    // a refusal is an answer too: git prints a line and exits with an error
    Ok(output?.stdout)
}

fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn typed(kind: &'static str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// The number of objects in a pack's header, anywhere in the answer.
fn objects(bytes: &[u8]) -> Option<u32> {
    const HEAD: &[u8] = b"PACK\0\0\0\x02";
    let at = bytes.windows(HEAD.len()).position(|window| window == HEAD)?;
    let count = bytes.get(at + HEAD.len()..at + HEAD.len() + 4)?;
    Some(u32::from_be_bytes(count.try_into().ok()?))
}
