//! A web server for tests, in memory: files by path with ETags, behind an optional login or client
//! certificate. It is a chart repository, for instance, or a webhook.
//!
//! The server runs in its own thread, so blocking and asynchronous tests may use it.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{StatusCode, header};
use tokio::sync::oneshot;

use crate::git::{Identity, tls};
use crate::registry::digest;

/// The server's kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebOptions {
    /// The required name and password.
    pub login: Option<(String, String)>,
    /// TLS with a certificate of its own.
    pub tls: bool,
    /// Require the client certificate of [`WebServer::client`]; with TLS.
    pub clients: bool,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct WebServer {
    port: u16,
    shared: Arc<Shared>,
    certificate: Option<String>,
    client: Option<Identity>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The required `Authorization` header.
    login: Option<String>,
    state: Mutex<Content>,
}

/// Answers the body of a POST with a status and a text.
type Handler = Arc<dyn Fn(&[u8]) -> (u16, String) + Send + Sync>;

#[derive(Default)]
struct Content {
    files: BTreeMap<String, Bytes>,
    handlers: BTreeMap<String, Handler>,
    requests: Vec<String>,
    is_silent: bool,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Content> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WebServer {
    /// A server without files, without credentials and without TLS.
    pub fn open() -> io::Result<Self> {
        Self::start(WebOptions::default())
    }

    /// A server without files.
    pub fn start(options: WebOptions) -> io::Result<Self> {
        let made = match options.tls || options.clients {
            true => Some(tls::server(options.clients)?),
            false => None,
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let login = options
            .login
            .map(|(name, password)| format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))));
        let shared = Arc::new(Shared {
            login,
            state: Mutex::default(),
        });
        let (certificate, client, acceptor) = match made {
            Some(made) => (Some(made.certificate), made.client, Some(made.acceptor)),
            None => (None, None, None),
        };
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("web-test".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = run(listener, acceptor, router) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            port,
            shared,
            certificate,
            client,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// `http://localhost:port`, or `https` with TLS.
    pub fn url(&self) -> String {
        let scheme = match self.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// The certificate to trust, PEM; TLS only.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The required client certificate.
    pub fn client(&self) -> Option<&Identity> {
        self.client.as_ref()
    }

    /// Serves a file at a path, from the next request on.
    pub fn put(&self, path: &str, bytes: impl Into<Bytes>) {
        self.shared.state().files.insert(path.to_owned(), bytes.into());
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        self.shared.state().files.remove(path);
    }

    /// Answers each POST to a path, from the next request on. The answer is text, and JSON with status 200.
    pub fn handle(&self, path: &str, handler: impl Fn(&[u8]) -> (u16, String) + Send + Sync + 'static) {
        let handlers = &mut self.shared.state().handlers;
        handlers.insert(path.to_owned(), Arc::new(handler));
    }

    /// Whether requests are never answered.
    pub fn silence(&self, is_silent: bool) {
        self.shared.state().is_silent = is_silent;
    }

    /// The requests answered since the last call: path and status, with `+` after it if they had a login.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().requests)
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn run(listener: std::net::TcpListener, acceptor: Option<tokio_rustls::TlsAcceptor>, router: Router) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    match acceptor {
        None => axum::serve(listener, router).await.ok(),
        Some(acceptor) => axum::serve(tls::Listener { listener, acceptor }, router)
            .await
            .ok(),
    };
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if shared.state().is_silent {
        std::future::pending::<()>().await;
    }
    let (request, body) = request.into_parts();
    let path = request.uri.path().to_owned();
    let given = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
    let (login, known) = (given(header::AUTHORIZATION), given(header::IF_NONE_MATCH));
    let file = shared.state().files.get(&path).cloned();
    let handler = shared.state().handlers.get(&path).cloned();
    let handler = handler.filter(|_| request.method == http::Method::POST);
    let response = match file {
        _ if shared.login.is_some() && shared.login.as_deref() != login => Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .body(Body::empty()),
        _ if let Some(handler) = handler => {
            let body = axum::body::to_bytes(body, usize::MAX).await;
            let (status, text) = handler(&body.unwrap_or_default());
            let kind = match status {
                200 => "application/json",
                _ => "text/plain",
            };
            Response::builder()
                .status(status)
                .header(header::CONTENT_TYPE, kind)
                .body(Body::from(text))
        }
        None => Response::builder()
            .status(StatusCode::NOT_FOUND)
            .body(Body::empty()),
        Some(bytes) => {
            let etag = format!("\"{}\"", digest(&bytes));
            match known == Some(&*etag) {
                true => Response::builder()
                    .status(StatusCode::NOT_MODIFIED)
                    .body(Body::empty()),
                false => Response::builder()
                    .header(header::ETAG, etag)
                    .body(Body::from(bytes)),
            }
        }
    };
    let response = response.unwrap_or_default();
    let mark = if login.is_some() { "+" } else { "" };
    let line = format!("{path} {}{mark}", response.status().as_u16());
    shared.state().requests.push(line);
    response
}
