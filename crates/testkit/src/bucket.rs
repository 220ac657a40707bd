//! A store for tests, in memory: one bucket with lists by pages and objects, behind signatures that it computes
//! itself from the request as it arrived, with faults on demand. It is S3-compatible (AWS Signature Version 4) with
//! services of temporary keys, or has the API of Google Cloud Storage or Azure Blob Storage.
//!
//! The server runs in its own thread, so blocking and asynchronous tests may use it.

mod azure;
mod google;
mod temporary;

pub use azure::{AzureGuard, client_certificate};
pub use google::SERVICE_ACCOUNT_KEY;
pub use temporary::{CONTAINER_TOKEN, LDAP_USER, WEB_IDENTITY, WEB_ROLE};

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use crate::git::tls::{self, Identity};

/// The store's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketOptions {
    /// The name of the bucket.
    pub bucket: String,
    /// The required access key and its secret; none for anonymous access.
    pub keys: Option<(String, String)>,
    /// The region that signatures must name.
    pub region: String,
    /// Objects on a page.
    pub page: usize,
    /// TLS with a certificate of its own.
    pub tls: bool,
    /// TLS requires the certificate of [`BucketServer::client`].
    pub clients: bool,
    /// The API.
    pub api: BucketApi,
    /// Answers name keys as they are, without `encoding-type`.
    pub no_encoding: bool,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self {
            bucket: "apps".to_owned(),
            keys: Some(("access".to_owned(), "secret/key+1".to_owned())),
            region: "us-east-1".to_owned(),
            page: 1000,
            tls: false,
            clients: false,
            api: BucketApi::S3,
            no_encoding: false,
        }
    }
}

/// The API of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketApi {
    /// That of S3.
    S3,
    /// That of Google Cloud Storage, for [`BucketServer::service_account`].
    Google,
    /// That of Azure Blob Storage.
    Azure(AzureGuard),
}

/// A fault. It ends after its number of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketFault {
    /// Answer with this status.
    Status(u16),
    /// Every page of a list goes on.
    EndlessList,
    /// The list is this text.
    List(String),
    /// The connection breaks in the middle of an object.
    Cut,
    /// Redirect to this URL.
    Redirect(String),
    /// Never answer.
    Silence,
}

/// A running store; dropping it stops it.
#[derive(Debug)]
pub struct BucketServer {
    port: u16,
    shared: Arc<Shared>,
    certificate: Option<String>,
    client: Option<Identity>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    options: BucketOptions,
    state: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    objects: BTreeMap<String, Bytes>,
    requests: Vec<String>,
    faults: Vec<(BucketFault, usize)>,
    count: usize,
    /// The tokens and temporary keys that were made, and whether they are valid.
    tokens: Vec<bool>,
    /// How long temporary keys are valid; an hour by default.
    life: Option<std::time::Duration>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Content> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer of a token service.
    fn new_token(&self) -> serde_json::Value {
        let tokens = &mut self.state().tokens;
        tokens.push(true);
        let token = format!("token-{}", tokens.len());
        serde_json::json!({ "access_token": token, "expires_in": 3599, "token_type": "Bearer" })
    }

    fn accepts_token(&self, parts: &Parts) -> bool {
        let given = parts
            .headers
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let number = given.and_then(|given| given.strip_prefix("Bearer token-")?.parse::<usize>().ok());
        number.is_some_and(|number| self.state().tokens.get(number.wrapping_sub(1)) == Some(&true))
    }
}

impl BucketServer {
    /// An empty bucket `apps` behind the keys `access` and `secret/key+1`.
    pub fn open() -> io::Result<Self> {
        Self::start(BucketOptions::default())
    }

    /// An empty bucket.
    pub fn start(options: BucketOptions) -> io::Result<Self> {
        let made = match options.tls {
            true => Some(tls::server(options.clients)?),
            false => None,
        };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            options,
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
            .name("bucket-test".to_owned())
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

    /// `localhost:port`.
    pub fn endpoint(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The JSON file of the key that Google's API accepts.
    pub fn service_account(&self) -> String {
        google::service_account(self.port)
    }

    /// `http://127.0.0.1:port`, the endpoint of the account `127` with Azure's API.
    pub fn azure_endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes all tokens invalid; returns their number so far.
    pub fn revoke(&self) -> usize {
        let tokens = &mut self.shared.state().tokens;
        tokens.fill(false);
        tokens.len()
    }

    /// How long later temporary keys are valid.
    pub fn temporary_life(&self, life: std::time::Duration) {
        self.shared.state().life = Some(life);
    }

    /// `http://127.0.0.1:port`, or with TLS `https://localhost:port`: the services of temporary keys.
    pub fn services(&self) -> String {
        match self.certificate {
            Some(_) => format!("https://localhost:{}", self.port),
            None => format!("http://127.0.0.1:{}", self.port),
        }
    }

    /// The certificate to trust, PEM; TLS only.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The certificate that a client must have.
    pub fn client(&self) -> Option<&Identity> {
        self.client.as_ref()
    }

    /// Stores an object. Returns its etag, without quotes.
    pub fn put(&self, key: &str, bytes: impl Into<Bytes>) -> String {
        let bytes = bytes.into();
        let etag = etag(&bytes);
        self.shared.state().objects.insert(key.to_owned(), bytes);
        etag
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        self.shared.state().objects.remove(key);
    }

    /// Adds a fault to so many later requests.
    pub fn fault(&self, fault: BucketFault, times: usize) {
        self.shared.state().faults.push((fault, times));
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.shared.state().faults.clear();
    }

    /// The requests answered since the last call: method, path with query, status.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().requests)
    }
}

impl Drop for BucketServer {
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

impl Content {
    /// Takes one use of the first fault that the request meets.
    fn fault(&mut self, meets: impl Fn(&BucketFault) -> bool) -> Option<BucketFault> {
        let mut faults = self.faults.iter_mut();
        let (fault, left) = faults.find(|(fault, left)| *left > 0 && meets(fault))?;
        *left -= 1;
        Some(fault.clone())
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let path = parts.uri.path_and_query().map(ToString::to_string);
    let silence = shared.state().fault(|fault| *fault == BucketFault::Silence);
    if silence.is_some() {
        std::future::pending::<()>().await;
    }
    let response = route(&shared, &parts, &body);
    let status = response.status().as_u16();
    let request = format!("{} {} {status}", parts.method, path.unwrap_or_default());
    shared.state().requests.push(request);
    response
}

fn route(shared: &Shared, parts: &Parts, body: &Bytes) -> Response {
    let general = |fault: &BucketFault| matches!(fault, BucketFault::Status(_) | BucketFault::Redirect(_));
    match shared.state().fault(general) {
        Some(BucketFault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
            return refusal(status, "Fault", "a fault", None);
        }
        Some(BucketFault::Redirect(to)) => {
            let mut response = refusal(StatusCode::TEMPORARY_REDIRECT, "TemporaryRedirect", "moved", None);
            if let Ok(to) = to.parse() {
                response.headers_mut().insert("location", to);
            }
            return response;
        }
        _ => {}
    }
    match &shared.options.api {
        BucketApi::S3 => {}
        BucketApi::Google => return google::route(shared, parts, body),
        BucketApi::Azure(guard) => return azure::route(shared, guard, parts, body),
    }
    if let Some(answer) = temporary::route(shared, parts, body) {
        return answer;
    }
    if let Some(refused) = refuse(shared, parts) {
        return refused;
    }
    let path = decode(parts.uri.path().trim_start_matches('/'));
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    if bucket != shared.options.bucket {
        return refusal(
            StatusCode::NOT_FOUND,
            "NoSuchBucket",
            "the bucket does not exist",
            None,
        );
    }
    match (key.is_empty(), &parts.method) {
        (true, &Method::HEAD) => Response::new(Body::empty()),
        (true, &Method::GET) => list(shared, parts.uri.query().unwrap_or_default()),
        (false, &Method::GET) => object(shared, key),
        (false, &Method::HEAD) => {
            let mut response = object(shared, key);
            *response.body_mut() = Body::empty();
            response
        }
        _ => refusal(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "not here",
            None,
        ),
    }
}

fn object(shared: &Shared, key: &str) -> Response {
    let mut state = shared.state();
    let Some(bytes) = state.objects.get(key).cloned() else {
        return refusal(StatusCode::NOT_FOUND, "NoSuchKey", "the key does not exist", None);
    };
    let etag = format!("\"{}\"", etag(&bytes));
    let length = bytes.len();
    let body = match state.fault(|fault| *fault == BucketFault::Cut) {
        None => Body::from(bytes),
        Some(_) => {
            let half = bytes.slice(..length / 2);
            let broken = Err(io::Error::other("cut"));
            Body::from_stream(futures::stream::iter([Ok(half), broken]))
        }
    };
    let response = Response::builder()
        .header("etag", etag)
        .header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        .header("content-length", length);
    response.body(body).unwrap_or_default()
}

fn list(shared: &Shared, text: &str) -> Response {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let query: BTreeMap<String, String> = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    if value("list-type") != "2" {
        return refusal(StatusCode::BAD_REQUEST, "InvalidArgument", "list-type", None);
    }
    let mut state = shared.state();
    state.count += 1;
    let count = state.count;
    if let Some(BucketFault::List(text)) = state.fault(|fault| matches!(fault, BucketFault::List(_))) {
        return xml(StatusCode::OK, text);
    }
    let is_endless = state.fault(|fault| *fault == BucketFault::EndlessList).is_some();
    let encodes = value("encoding-type") == "url" && !shared.options.no_encoding;
    let last = value("continuation-token")
        .strip_prefix("after:")
        .unwrap_or_default();
    let last = last.split('\n').next().unwrap_or_default();
    let begin = |key: &&String| is_endless || last.is_empty() || key.as_str() > last;
    let all = state
        .objects
        .keys()
        .filter(|key| key.starts_with(value("prefix")));
    let rest: Vec<&String> = all.filter(begin).collect();
    let asked = value("max-keys").parse().unwrap_or(usize::MAX);
    let page: Vec<&String> = rest
        .iter()
        .take(shared.options.page.min(asked))
        .copied()
        .collect();
    let is_truncated = is_endless || page.len() < rest.len();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        .to_owned();
    if encodes {
        text.push_str("<EncodingType>url</EncodingType>");
    }
    // writing to a String does not fail
    let _ = write!(text, "<IsTruncated>{is_truncated}</IsTruncated>");
    for key in &page {
        let bytes = state.objects.get(*key).cloned().unwrap_or_default();
        let shown = match encodes {
            true => encode(key, b"/").replace("%20", "+"),
            false => key.replace('&', "&amp;").replace('<', "&lt;"),
        };
        let (etag, size) = (etag(&bytes), bytes.len());
        let _ = write!(
            text,
            "<Contents><Key>{shown}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size></Contents>"
        );
    }
    if is_truncated {
        let last = page.last().map_or("", |key| key.as_str());
        let _ = write!(
            text,
            "<NextContinuationToken>after:{last}\n{count}</NextContinuationToken>"
        );
    }
    text.push_str("</ListBucketResult>");
    xml(StatusCode::OK, text)
}

/// Compares the signature of a request.
fn refuse(shared: &Shared, parts: &Parts) -> Option<Response> {
    let options = &shared.options;
    let (access, secret) = options.keys.as_ref()?;
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let denied = |code: &str, why: &str| Some(refusal(StatusCode::FORBIDDEN, code, why, None));
    let Some(given) = header("authorization") else {
        return denied("AccessDenied", "Access Denied.");
    };
    let Some(fields) = given.strip_prefix("AWS4-HMAC-SHA256 ") else {
        return denied("AccessDenied", "unknown algorithm");
    };
    let fields: BTreeMap<&str, &str> = fields
        .split(", ")
        .filter_map(|field| field.split_once('='))
        .collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    let scope: Vec<&str> = field("Credential").split('/').collect();
    let [key, day, region, "s3", "aws4_request"] = scope[..] else {
        return denied("AccessDenied", "malformed credential");
    };
    let temporary;
    let secret = match temporary::number(key) {
        Some(number) => {
            let is_valid = shared.state().tokens.get(number) == Some(&true);
            if !is_valid || header("x-amz-security-token") != Some(temporary::session(number).as_str()) {
                return denied("InvalidAccessKeyId", "the temporary key does not exist");
            }
            temporary = temporary::secret(number);
            &temporary
        }
        None if key == access => secret,
        None => return denied("InvalidAccessKeyId", "the access key does not exist"),
    };
    if region != options.region {
        let code = "AuthorizationHeaderMalformed";
        let refused = refusal(
            StatusCode::BAD_REQUEST,
            code,
            "the region is wrong",
            Some(&options.region),
        );
        return Some(refused);
    }
    let mut canonical = format!("{}\n{}\n", parts.method, parts.uri.path());
    let mut query: Vec<&str> = parts.uri.query().unwrap_or_default().split('&').collect();
    query.sort_unstable();
    canonical.push_str(&query.join("&"));
    canonical.push('\n');
    for name in field("SignedHeaders").split(';') {
        let _ = writeln!(canonical, "{name}:{}", header(name).unwrap_or_default().trim());
    }
    let (payload, time) = (
        header("x-amz-content-sha256").unwrap_or_default(),
        header("x-amz-date").unwrap_or_default(),
    );
    let _ = write!(canonical, "\n{}\n{payload}", field("SignedHeaders"));
    let text = format!(
        "AWS4-HMAC-SHA256\n{time}\n{day}/{region}/s3/aws4_request\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let mut signing = format!("AWS4{secret}").into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        signing = hmac(&signing, part.as_bytes());
    }
    let signs = |wanted: &str| field("SignedHeaders").split(';').any(|name| name == wanted);
    let is_signed = signs("host")
        && (header("x-amz-security-token").is_none() || signs("x-amz-security-token"))
        && payload == hex(&Sha256::digest([]))
        && time.starts_with(day)
        && hex(&hmac(&signing, text.as_bytes())) == field("Signature");
    match is_signed {
        true => None,
        false => denied("SignatureDoesNotMatch", "the signature does not match"),
    }
}

fn query(parts: &Parts) -> BTreeMap<String, String> {
    let text = parts.uri.query().unwrap_or_default();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

/// RFC 2104.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = match key.len() > 64 {
        true => Sha256::digest(key).to_vec(),
        false => key.to_vec(),
    };
    block.resize(64, 0);
    let padded = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::digest([padded(0x36).as_slice(), text].concat());
    Sha256::digest([padded(0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // writing to a String does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn etag(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)).chars().take(32).collect()
}

fn encode(text: &str, also: &[u8]) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => {
                let (high, low) = (hex(rest.next()), hex(rest.next()));
                let value = high.unwrap_or_default() * 16 + low.unwrap_or_default();
                bytes.push(u8::try_from(value).unwrap_or_default());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn refusal(status: StatusCode, code: &str, message: &str, region: Option<&str>) -> Response {
    let region = region.map(|region| format!("<Region>{region}</Region>"));
    let region = region.unwrap_or_default();
    xml(
        status,
        format!("<Error><Code>{code}</Code><Message>{message}</Message>{region}</Error>"),
    )
}

fn xml(status: StatusCode, text: String) -> Response {
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/xml");
    response.body(Body::from(text)).unwrap_or_default()
}
