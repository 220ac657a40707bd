//! An OCI registry for tests, in memory: the distribution specification v1.1 with pull, push, tags by pages,
//! ranges and referrers, behind optional credentials, with faults on demand.
//!
//! The server runs in its own thread, so blocking and asynchronous tests may use it. The token server has
//! its own port, as an other host would.

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
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use crate::git::Identity;
use crate::git::tls;

const REQUEST_BYTES_MAX: usize = 64 << 20;
/// The service in the challenges.
const SERVICE: &str = "test-registry";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The required credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RegistryGuard {
    /// None.
    #[default]
    Open,
    /// A name and a password.
    Basic(String, String),
    /// A token, which the token server gives to this name and password; without them, for pulls of
    /// repositories below `public/`.
    Token(String, String),
    /// The client certificate of [`RegistryServer::client`]; TLS only.
    Certificate,
}

/// The registry's kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryOptions {
    /// The required credentials.
    pub guard: RegistryGuard,
    /// TLS with a certificate of its own.
    pub tls: bool,
    /// Tags on a page; all if none.
    pub page: Option<usize>,
    /// No referrers API.
    pub no_referrers: bool,
    /// No ranges.
    pub no_ranges: bool,
}

/// A fault. It ends after its number of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryFault {
    /// The registry limits requests: 429, with this `Retry-After`.
    Limited(u64),
    /// Answer with this status.
    Status(u16),
    /// Truncate blobs after this many bytes.
    Cut(usize),
    /// Blobs and manifests have an other byte.
    Lie,
    /// Blobs are at this URL; `{path}` stands for path and query.
    Redirect(String),
    /// Every page of tags links to an other one.
    EndlessTags,
    /// A link after the last page of tags.
    LinkAfterLast,
    /// Never answer.
    Silence,
}

/// An answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRequest {
    /// The method.
    pub method: String,
    /// Path and query; that of the token server begins with `/token`.
    pub path: String,
    /// The status.
    pub status: u16,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `Range` header.
    pub range: Option<String>,
}

/// A running registry; dropping it stops it.
#[derive(Debug)]
pub struct RegistryServer {
    port: u16,
    shared: Arc<Shared>,
    certificate: Option<String>,
    client: Option<Identity>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    options: RegistryOptions,
    /// The URL of the token server.
    realm: String,
    state: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    /// By digest.
    blobs: BTreeMap<String, Bytes>,
    /// By repository, then by digest: media type and bytes.
    manifests: BTreeMap<String, BTreeMap<String, (String, Bytes)>>,
    /// By repository, then by tag: the digest.
    tags: BTreeMap<String, BTreeMap<String, String>>,
    uploads: BTreeMap<String, Vec<u8>>,
    tokens: BTreeMap<String, String>,
    requests: Vec<RegistryRequest>,
    faults: Vec<(RegistryFault, usize)>,
    count: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Content> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest of some bytes, `sha256:<hex>`.
pub fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // writing to a String does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl RegistryServer {
    /// An empty registry without credentials.
    pub fn open() -> io::Result<Self> {
        Self::start(RegistryOptions::default())
    }

    /// An empty registry.
    pub fn start(options: RegistryOptions) -> io::Result<Self> {
        let clients = options.guard == RegistryGuard::Certificate;
        let made = match options.tls || clients {
            true => Some(tls::server(clients)?),
            false => None,
        };
        let bind = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            io::Result::Ok((listener, port))
        };
        let ((registry, port), (tokens, token_port)) = (bind()?, bind()?);
        let scheme = if made.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            options,
            realm: format!("{scheme}://localhost:{token_port}/token"),
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
            .name("registry-test".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = run(registry, acceptor.clone(), router.clone()) => {}
                        () = run(tokens, acceptor, router) => {}
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

    /// `localhost:port`.
    pub fn authority(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// `oci://localhost:port`.
    pub fn url(&self) -> String {
        format!("oci://{}", self.authority())
    }

    /// The certificate to trust, PEM; TLS only.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The required client certificate.
    pub fn client(&self) -> Option<&Identity> {
        self.client.as_ref()
    }

    /// Adds a fault to so many later requests.
    pub fn fault(&self, fault: RegistryFault, times: usize) {
        self.shared.state().faults.push((fault, times));
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.shared.state().faults.clear();
    }

    /// The requests answered since the last call.
    pub fn take(&self) -> Vec<RegistryRequest> {
        std::mem::take(&mut self.shared.state().requests)
    }

    /// Stores a blob. Returns its descriptor.
    pub fn blob(&self, media_type: &str, bytes: impl Into<Bytes>) -> Value {
        let bytes = bytes.into();
        let digest = digest(&bytes);
        let descriptor = json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() });
        self.shared.state().blobs.insert(digest, bytes);
        descriptor
    }

    /// Stores a manifest under a tag, or only under its digest. Returns its descriptor.
    pub fn manifest(&self, repository: &str, tag: Option<&str>, manifest: &Value) -> Value {
        let bytes = Bytes::from(manifest.to_string());
        let digest = digest(&bytes);
        let media_type = manifest["mediaType"].as_str().unwrap_or(MANIFEST).to_owned();
        let descriptor = json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() });
        let mut state = self.shared.state();
        let manifests = state.manifests.entry(repository.to_owned()).or_default();
        manifests.insert(digest.clone(), (media_type, bytes));
        if let Some(tag) = tag {
            let tags = state.tags.entry(repository.to_owned()).or_default();
            tags.insert(tag.to_owned(), digest);
        }
        descriptor
    }

    /// Stores an artifact with these layers, as their media type and bytes, and annotations. Returns the
    /// digest of its manifest.
    pub fn artifact(
        &self,
        repository: &str,
        tag: &str,
        layers: &[(&str, &[u8])],
        annotations: &[(&str, &str)],
    ) -> String {
        let config = self.blob(
            "application/vnd.cncf.flux.config.v1+json",
            "{}".as_bytes().to_vec(),
        );
        let layers: Vec<Value> = layers
            .iter()
            .map(|(media_type, bytes)| self.blob(media_type, bytes.to_vec()))
            .collect();
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
            "annotations": annotations,
        });
        let descriptor = self.manifest(repository, Some(tag), &manifest);
        descriptor["digest"].as_str().unwrap_or_default().to_owned()
    }

    /// The bytes of a manifest by tag or digest.
    pub fn stored_manifest(&self, repository: &str, reference: &str) -> Option<Bytes> {
        let state = self.shared.state();
        let digest = state.digest_of(repository, reference)?;
        let (_, bytes) = state.manifests.get(repository)?.get(&digest)?;
        Some(bytes.clone())
    }

    /// The bytes of a blob.
    pub fn stored_blob(&self, digest: &str) -> Option<Bytes> {
        self.shared.state().blobs.get(digest).cloned()
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Content {
    fn digest_of(&self, repository: &str, reference: &str) -> Option<String> {
        match reference.contains(':') {
            true => Some(reference.to_owned()),
            false => self.tags.get(repository)?.get(reference).cloned(),
        }
    }

    /// Takes one use of the first fault that the request meets.
    fn fault(&mut self, meets: impl Fn(&RegistryFault) -> bool) -> Option<RegistryFault> {
        let at = self
            .faults
            .iter()
            .position(|(fault, left)| *left > 0 && meets(fault))?;
        let (fault, left) = self.faults.get_mut(at)?;
        *left -= 1;
        Some(fault.clone())
    }
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
    let body = axum::body::to_bytes(body, REQUEST_BYTES_MAX)
        .await
        .unwrap_or_default();
    let text = |name| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
    let path = parts.uri.path_and_query().map(ToString::to_string);
    let (authorization, range) = (text(header::AUTHORIZATION), text(header::RANGE));
    let silence = shared.state().fault(|fault| *fault == RegistryFault::Silence);
    if silence.is_some() {
        std::future::pending::<()>().await;
    }
    let response = route(&shared, &parts, body);
    shared.state().requests.push(RegistryRequest {
        method: parts.method.to_string(),
        path: path.unwrap_or_default(),
        status: response.status().as_u16(),
        authorization,
        range,
    });
    response
}

fn route(shared: &Shared, parts: &Parts, body: Bytes) -> Response {
    let path = parts.uri.path();
    if path == "/token" {
        return token(shared, parts, &body);
    }
    let general =
        |fault: &RegistryFault| matches!(fault, RegistryFault::Limited(_) | RegistryFault::Status(_));
    match shared.state().fault(general) {
        Some(RegistryFault::Limited(seconds)) => {
            let mut response = error(StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "slow down");
            set(&mut response, header::RETRY_AFTER, &seconds.to_string());
            return response;
        }
        Some(RegistryFault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
            return error(status, "UNKNOWN", "a fault");
        }
        _ => {}
    }
    // a target of redirects, which knows no credentials
    if let Some(digest) = path.strip_prefix("/elsewhere/") {
        let blob = shared.state().blobs.get(digest).cloned();
        return blob.map_or_else(unknown_blob, |blob| {
            typed(StatusCode::OK, "application/octet-stream", blob)
        });
    }
    let Some(below) = path.strip_prefix("/v2/") else {
        return error(StatusCode::NOT_FOUND, "UNKNOWN", "no such page");
    };
    if let Some(refusal) = refuse(shared, &parts.headers, &parts.method, below) {
        return refusal;
    }
    let query: BTreeMap<String, String> = query(parts.uri.query().unwrap_or_default());
    if below.is_empty() {
        return typed(StatusCode::OK, "application/json", Bytes::from_static(b"{}"));
    }
    let split = |word: &str| {
        let (repository, rest) = below.split_once(word)?;
        Some((repository.to_owned(), rest.to_owned()))
    };
    if let Some((repository, _)) = split("/tags/list") {
        return tags(shared, &repository, &query);
    }
    if let Some((repository, reference)) = split("/manifests/") {
        return manifests(shared, parts, &repository, &reference, body);
    }
    if let Some((repository, session)) = split("/blobs/uploads/") {
        return uploads(shared, parts, &repository, &session, &query, &body);
    }
    if let Some((_, digest)) = split("/blobs/") {
        return blobs(shared, parts, &digest);
    }
    match split("/referrers/") {
        Some((repository, digest)) if !shared.options.no_referrers => {
            referrers(shared, &repository, &digest, query.get("artifactType"))
        }
        _ => error(StatusCode::NOT_FOUND, "UNSUPPORTED", "no such page"),
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
            match byte {
                b'+' => bytes.push(b' '),
                b'%' => {
                    let (high, low) = (hex(rest.next()), hex(rest.next()));
                    let value = high.unwrap_or_default() * 16 + low.unwrap_or_default();
                    bytes.push(u8::try_from(value).unwrap_or_default());
                }
                byte => bytes.push(byte),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

fn refuse(shared: &Shared, headers: &HeaderMap, method: &Method, below: &str) -> Option<Response> {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let challenge = match &shared.options.guard {
        // a client without a certificate fails in the TLS handshake
        RegistryGuard::Open | RegistryGuard::Certificate => return None,
        RegistryGuard::Basic(name, password) if given == Some(basic(name, password).as_str()) => return None,
        RegistryGuard::Basic(..) => "Basic realm=\"test\"".to_owned(),
        RegistryGuard::Token(..) => {
            let ends = ["/tags/list", "/manifests/", "/blobs/", "/referrers/"];
            let repository = ends
                .iter()
                .find_map(|end| below.split_once(end))
                .map(|(name, _)| name);
            let actions = match *method == Method::GET || *method == Method::HEAD {
                true => "pull",
                false => "pull,push",
            };
            let scope = repository.map(|name| format!("repository:{name}:{actions}"));
            let token = given.and_then(|given| given.strip_prefix("Bearer "));
            let granted = token.and_then(|token| shared.state().tokens.get(token).cloned());
            let is_granted = granted.is_some_and(|granted| match &scope {
                None => true,
                Some(scope) => granted
                    .split(' ')
                    .any(|own| own == scope || own == scope.replace(":pull", ":pull,push")),
            });
            if is_granted {
                return None;
            }
            let scope = scope.map(|scope| format!(",scope=\"{scope}\""));
            let realm = &shared.realm;
            format!(
                "Bearer realm=\"{realm}\",service=\"{SERVICE}\"{}",
                scope.unwrap_or_default()
            )
        }
    };
    let mut response = error(
        StatusCode::UNAUTHORIZED,
        "UNAUTHORIZED",
        "authentication required",
    );
    set(&mut response, header::WWW_AUTHENTICATE, &challenge);
    Some(response)
}

/// GET with basic credentials, or POST with a refresh token, which is the password.
fn token(shared: &Shared, parts: &Parts, body: &Bytes) -> Response {
    let RegistryGuard::Token(name, password) = &shared.options.guard else {
        return error(StatusCode::NOT_FOUND, "UNKNOWN", "no such page");
    };
    let given = parts.headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let form = query(&String::from_utf8_lossy(body));
    let asked = query(parts.uri.query().unwrap_or_default());
    let (scope, known) = match parts.method == Method::POST {
        true => (form.get("scope"), form.get("refresh_token") == Some(password)),
        false => (asked.get("scope"), given == Some(basic(name, password).as_str())),
    };
    let scope = scope.cloned().unwrap_or_default();
    if given.is_some() && !known {
        return error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "wrong credentials");
    }
    let is_public = scope.starts_with("repository:public/") && scope.ends_with(":pull");
    let granted = match known || is_public {
        true => scope,
        false => String::new(),
    };
    let mut state = shared.state();
    state.count += 1;
    let token = format!("token-{}", state.count);
    state.tokens.insert(token.clone(), granted);
    let answer = json!({ "token": token, "expires_in": 300 });
    typed(
        StatusCode::OK,
        "application/json",
        Bytes::from(answer.to_string()),
    )
}

fn tags(shared: &Shared, repository: &str, query: &BTreeMap<String, String>) -> Response {
    let mut state = shared.state();
    let endless = state
        .fault(|fault| *fault == RegistryFault::EndlessTags)
        .is_some();
    let after_last = state
        .fault(|fault| *fault == RegistryFault::LinkAfterLast)
        .is_some();
    let Some(all) = state.tags.get(repository) else {
        return error(
            StatusCode::NOT_FOUND,
            "NAME_UNKNOWN",
            "repository name not known to registry",
        );
    };
    let last = query.get("last").cloned().unwrap_or_default();
    let asked = query.get("n").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let size = shared.options.page.unwrap_or(asked).min(asked);
    let rest: Vec<&String> = all.keys().filter(|tag| **tag > last || endless).collect();
    let page: Vec<&String> = rest.iter().take(size).copied().collect();
    let more = rest.len() > page.len() || endless || (after_last && !page.is_empty());
    let list = json!({ "name": repository, "tags": page });
    let mut response = typed(StatusCode::OK, "application/json", Bytes::from(list.to_string()));
    if more {
        let last = page.last().map(|tag| tag.as_str()).unwrap_or_default();
        let count = state.requests.len();
        let link = format!("</v2/{repository}/tags/list?n={asked}&last={last}&page={count}>; rel=\"next\"");
        set(&mut response, header::LINK, &link);
    }
    response
}

fn manifests(shared: &Shared, parts: &Parts, repository: &str, reference: &str, body: Bytes) -> Response {
    let mut state = shared.state();
    if parts.method == Method::PUT {
        let own = digest(&body);
        if reference.contains(':') && reference != own {
            return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID", "digest invalid");
        }
        let media_type = parts.headers.get(header::CONTENT_TYPE);
        let media_type = media_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or(MANIFEST)
            .to_owned();
        let parsed: Value = serde_json::from_slice(&body).unwrap_or_default();
        let layers = parsed["layers"].as_array().cloned().unwrap_or_default();
        let blobs = layers.iter().chain([&parsed["config"]]);
        let mut digests = blobs.filter_map(|blob| blob["digest"].as_str());
        if digests.any(|digest| !state.blobs.contains_key(digest)) {
            return error(StatusCode::NOT_FOUND, "MANIFEST_BLOB_UNKNOWN", "blob unknown");
        }
        let manifests = state.manifests.entry(repository.to_owned()).or_default();
        manifests.insert(own.clone(), (media_type, body));
        if !reference.contains(':') {
            let tags = state.tags.entry(repository.to_owned()).or_default();
            tags.insert(reference.to_owned(), own.clone());
        }
        let mut response = typed(StatusCode::CREATED, "application/json", Bytes::new());
        set(&mut response, "docker-content-digest", &own);
        return response;
    }
    let lie = state.fault(|fault| *fault == RegistryFault::Lie).is_some();
    let found = state.digest_of(repository, reference);
    let found = found.and_then(|own| {
        let (media_type, bytes) = state.manifests.get(repository)?.get(&own)?;
        Some((own, media_type.clone(), bytes.clone()))
    });
    let Some((own, media_type, bytes)) = found else {
        return error(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", "manifest unknown");
    };
    let bytes = match lie {
        true => Bytes::from([&bytes, b" ".as_slice()].concat()),
        false => bytes,
    };
    let mut response = typed(StatusCode::OK, &media_type, head_or(&parts.method, &bytes));
    set(&mut response, "docker-content-digest", &own);
    if parts.method == Method::HEAD {
        set(&mut response, header::CONTENT_LENGTH, &bytes.len().to_string());
    }
    response
}

fn head_or(method: &Method, bytes: &Bytes) -> Bytes {
    match *method == Method::HEAD {
        true => Bytes::new(),
        false => bytes.clone(),
    }
}

fn blobs(shared: &Shared, parts: &Parts, own: &str) -> Response {
    let mut state = shared.state();
    let Some(blob) = state.blobs.get(own).cloned() else {
        return unknown_blob();
    };
    if parts.method == Method::HEAD {
        let mut response = typed(StatusCode::OK, "application/octet-stream", Bytes::new());
        set(&mut response, header::CONTENT_LENGTH, &blob.len().to_string());
        return response;
    }
    let of_blobs = |fault: &RegistryFault| {
        matches!(
            fault,
            RegistryFault::Cut(_) | RegistryFault::Redirect(_) | RegistryFault::Lie
        )
    };
    let fault = state.fault(of_blobs);
    drop(state);
    if let Some(RegistryFault::Redirect(to)) = &fault {
        let mut response = typed(StatusCode::TEMPORARY_REDIRECT, "text/plain", Bytes::new());
        set(&mut response, header::LOCATION, &to.replace("{digest}", own));
        return response;
    }
    let blob = match (&fault, blob.first()) {
        (Some(RegistryFault::Lie), Some(first)) => Bytes::from([&[!first], &blob[1..]].concat()),
        _ => blob,
    };
    let range = parts
        .headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok());
    let from = range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let from = from.filter(|from: &usize| !shared.options.no_ranges && *from < blob.len());
    let rest = blob.slice(from.unwrap_or_default()..);
    let body = match fault {
        Some(RegistryFault::Cut(at)) if at < rest.len() => broken(rest.slice(..at)),
        _ => Body::from(rest),
    };
    let mut response = Response::new(body);
    set(&mut response, header::CONTENT_TYPE, "application/octet-stream");
    if let Some(from) = from {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {from}-{}/{}", blob.len() - 1, blob.len());
        set(&mut response, header::CONTENT_RANGE, &range);
    }
    response
}

/// A body whose connection breaks after these bytes, which are sent before.
fn broken(bytes: Bytes) -> Body {
    let pieces = [Some(bytes), None].into_iter();
    Body::from_stream(futures::stream::unfold(pieces, |mut pieces| async move {
        match pieces.next()? {
            Some(bytes) => Some((Ok(bytes), pieces)),
            None => {
                // the server writes what it has while nothing more is ready
                tokio::task::yield_now().await;
                Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), pieces))
            }
        }
    }))
}

fn uploads(
    shared: &Shared,
    parts: &Parts,
    repository: &str,
    session: &str,
    query: &BTreeMap<String, String>,
    body: &[u8],
) -> Response {
    let mut state = shared.state();
    let accepted = |session: &str| {
        let mut response = typed(StatusCode::ACCEPTED, "text/plain", Bytes::new());
        let location = format!("/v2/{repository}/blobs/uploads/{session}?state=1");
        set(&mut response, header::LOCATION, &location);
        response
    };
    if parts.method == Method::POST {
        state.count += 1;
        let session = format!("upload-{}", state.count);
        state.uploads.insert(session.clone(), Vec::new());
        return accepted(&session);
    }
    let Some(mut content) = state.uploads.remove(session) else {
        return error(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "no such upload");
    };
    content.extend_from_slice(body);
    if parts.method == Method::PATCH {
        state.uploads.insert(session.to_owned(), content);
        return accepted(session);
    }
    let own = digest(&content);
    if query.get("digest") != Some(&own) {
        return error(StatusCode::BAD_REQUEST, "DIGEST_INVALID", "digest invalid");
    }
    state.blobs.insert(own.clone(), content.into());
    let mut response = typed(StatusCode::CREATED, "text/plain", Bytes::new());
    set(&mut response, "docker-content-digest", &own);
    response
}

fn referrers(shared: &Shared, repository: &str, subject: &str, wanted: Option<&String>) -> Response {
    let state = shared.state();
    let all = state.manifests.get(repository).into_iter().flatten();
    let found: Vec<Value> = all
        .filter_map(|(digest, (media_type, bytes))| {
            let manifest: Value = serde_json::from_slice(bytes).ok()?;
            if manifest["subject"]["digest"] != *subject {
                return None;
            }
            let own = match &manifest["artifactType"] {
                Value::Null => manifest["config"]["mediaType"].clone(),
                own => own.clone(),
            };
            let is_wanted = wanted.is_none_or(|wanted| own == **wanted);
            is_wanted.then(|| {
                json!({
                    "mediaType": media_type,
                    "digest": digest,
                    "size": bytes.len(),
                    "artifactType": own,
                })
            })
        })
        .collect();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": found });
    typed(StatusCode::OK, INDEX, Bytes::from(index.to_string()))
}

fn unknown_blob() -> Response {
    error(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "blob unknown to registry")
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "errors": [{ "code": code, "message": message }] });
    typed(status, "application/json", Bytes::from(body.to_string()))
}

fn typed(status: StatusCode, kind: &str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    set(&mut response, header::CONTENT_TYPE, kind);
    response
}

/// A value that no header can carry is left out.
fn set(response: &mut Response, name: impl header::IntoHeaderName, value: &str) {
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
}
