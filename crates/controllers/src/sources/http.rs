//! GET requests to the hosts that sources name.
//!
//! Credentials stay at the host of their source, unless the source passes them on. A redirect is followed
//! like a new request: its host is checked and counted, too. A body is read into memory or written
//! to a file, within a limit.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use equate_egress::{Egress, HttpRefusal, Outcome, Refusal, Silence, UNREACHABLE};
use reqwest::header::{
    AUTHORIZATION, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION,
};
use reqwest::{StatusCode, Url};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::local::LocalError;
use crate::kit::queue::without_worker;
use crate::kit::time_limit::TimeLimit;

/// A host that sends nothing for this long is unreachable.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// As many as Go's client follows.
const REDIRECTS_MAX: usize = 10;
/// Unused clients are dropped: they contain secrets.
const UNUSED_MAX: Duration = Duration::from_secs(60 * 60);
/// The editor of one Secret can request any number.
const CLIENTS_MAX: usize = 256;
/// Room that a claimed length reserves at once. Until it is used, it takes no memory of the machine; growing in steps
/// takes up to three times the length.
const RESERVED_MAX: u64 = 64 << 20;
const VALIDATOR_BYTES_MAX: usize = 1 << 10;

/// A username and a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: Zeroizing<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(masked)")
    }
}

/// Certificates, in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// Trusted beside the system's.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificate and its key.
    pub(crate) client: Option<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates(masked)")
    }
}

impl Certificates {
    fn key(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for field in [self.ca.as_deref(), self.client.as_ref().map(|client| &***client)] {
            hash.update(field.map_or(u64::MAX, |field| field.len() as u64).to_be_bytes());
            hash.update(field.unwrap_or_default());
        }
        hash.finalize().into()
    }
}

/// How a source's hosts are addressed.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The source's own host.
    pub(crate) home: Url,
    pub(crate) login: Option<Login>,
    /// Whether other hosts get the login, too.
    pub(crate) passes_login: bool,
    pub(crate) certificates: Certificates,
}

impl Access {
    fn login_at(&self, url: &Url, is_redirect: bool) -> Option<&Login> {
        let is_home = url.origin() == self.home.origin();
        let login = self.login.as_ref()?;
        // as in Go, a redirect to another host drops it
        (is_home || self.passes_login && !is_redirect).then_some(login)
    }
}

/// The versions of an answer, as its host names them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Validators {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
}

impl Validators {
    fn of(headers: &HeaderMap) -> Self {
        let value = |name| {
            let value: Option<&HeaderValue> = headers.get(name);
            value.filter(|value| value.len() <= VALIDATOR_BYTES_MAX).cloned()
        };
        Self {
            etag: value(ETAG),
            modified: value(LAST_MODIFIED),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.etag.is_none() && self.modified.is_none()
    }
}

#[derive(Debug)]
pub(crate) struct Get<'a> {
    /// The namespace on whose account it is.
    pub(crate) namespace: &'a str,
    pub(crate) url: &'a str,
    pub(crate) access: &'a Access,
    /// The versions that are known already.
    pub(crate) known: Option<&'a Validators>,
    pub(crate) bytes_max: u64,
    pub(crate) limit: TimeLimit,
}

#[derive(Debug)]
pub(crate) enum Answer<B> {
    /// The known version is the present one.
    NotModified,
    /// The body, or nothing if it was written elsewhere.
    Body { body: B, validators: Validators },
}

/// Where the bytes of a body go.
enum Sink<'a> {
    Memory(&'a mut Vec<u8>),
    File(&'a mut (dyn Write + Send)),
}

impl Sink<'_> {
    /// The length that the host claims, at most what is allowed.
    fn reserve(&mut self, length: u64) {
        if let Self::Memory(bytes) = self {
            bytes.reserve_exact(usize::try_from(length.min(RESERVED_MAX)).unwrap_or_default());
        }
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), HttpError> {
        match self {
            Self::Memory(bytes) => bytes.extend_from_slice(chunk),
            Self::File(file) => file.write_all(chunk).map_err(HttpError::Save)?,
        }
        Ok(())
    }
}

/// Why there is no answer. The texts of Helm's getter, where it has them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{0:?} is not an http or https URL")]
    Address(String),
    #[error("Get {url:?}")]
    Forbidden {
        url: String,
        #[source]
        source: HttpRefusal,
    },
    #[error(transparent)]
    Closed(Refusal),
    #[error("Get {url:?}{}", unanswered(source))]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("Get {url:?}: no complete answer within {limit}")]
    Late { url: String, limit: TimeLimit },
    #[error("failed to fetch {url} : {status}")]
    Status { url: String, status: StatusCode },
    #[error("Get {0:?}: stopped after 10 redirects")]
    Redirects(String),
    #[error("Get {url:?}: the answer has more than {bytes_max} bytes")]
    TooLarge { url: String, bytes_max: u64 },
    #[error("the username or the password has characters that an HTTP header cannot have")]
    Login,
    #[error("cannot use the certificates")]
    Certificates(#[source] reqwest::Error),
    #[error("cannot get {url} from {}, which stands for its repository", directory.display())]
    Directory {
        url: String,
        directory: PathBuf,
        #[source]
        source: Box<LocalError>,
    },
    #[error("cannot save the answer")]
    Save(#[source] io::Error),
    #[error("internal error; see the controller's log")]
    Aborted,
}

impl HttpError {
    /// Whether the host refuses the credentials, or is not trusted.
    pub(crate) fn is_about_trust(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status == StatusCode::UNAUTHORIZED,
            Self::Login | Self::Certificates(_) => true,
            Self::Unreachable { source, .. } => is_tls(source),
            _ => false,
        }
    }
}

/// Why there is no answer, unless TLS failed, which the cause tells.
fn unanswered(error: &reqwest::Error) -> String {
    match is_tls(error) {
        true => String::new(),
        false => format!(": {} ({UNREACHABLE})", Silence::of_request(error).words()),
    }
}

fn is_tls(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<rustls::Error>() {
            return true;
        }
        let io = error.downcast_ref::<io::Error>();
        let inner = io.and_then(io::Error::get_ref);
        if inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[derive(Debug)]
pub(crate) struct Http {
    egress: Egress,
    // held for a map operation
    clients: Mutex<HashMap<[u8; 32], CachedClient>>,
}

#[derive(Debug)]
struct CachedClient {
    client: reqwest::Client,
    used: Instant,
}

impl Http {
    pub(crate) fn new(egress: Egress) -> Self {
        // reqwest panics in a process without a default provider. If there is one, this changes nothing.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        Self {
            egress,
            clients: Mutex::default(),
        }
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Gets a URL into memory, without a worker meanwhile.
    pub(crate) async fn get(&self, get: Get<'_>) -> Result<Answer<Vec<u8>>, HttpError> {
        let mut bytes = Vec::new();
        let answer = self.received(get, Sink::Memory(&mut bytes)).await?;
        Ok(match answer {
            Answer::NotModified => Answer::NotModified,
            Answer::Body { validators, .. } => Answer::Body {
                body: bytes,
                validators,
            },
        })
    }

    /// Writes the body of a URL to a file as it comes, without a worker meanwhile.
    pub(crate) async fn save(
        &self,
        get: Get<'_>,
        file: &mut (dyn Write + Send),
    ) -> Result<Answer<()>, HttpError> {
        self.received(get, Sink::File(file)).await
    }

    async fn received(&self, get: Get<'_>, mut sink: Sink<'_>) -> Result<Answer<()>, HttpError> {
        let client = self.client(&get.access.certificates)?;
        without_worker(self.followed(&client, &get, &mut sink)).await
    }

    async fn followed(
        &self,
        client: &reqwest::Client,
        get: &Get<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Answer<()>, HttpError> {
        let mut url = address(get.url)?;
        let late = |url: &Url| HttpError::Late {
            url: shown(url),
            limit: get.limit,
        };
        let deadline = tokio::time::Instant::now() + get.limit.time.min(Duration::from_secs(1 << 30));
        for hop in 0..=REDIRECTS_MAX {
            let source = self.egress.check(&url);
            source.map_err(|source| HttpError::Forbidden {
                url: shown(&url),
                source,
            })?;
            let admission = self.egress.enter(get.namespace, &authority(&url)).await;
            let mut admission = admission.map_err(HttpError::Closed)?;
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let asked = timeout(left, ask(client, get, sink, &url, hop > 0)).await;
            let outcome = match &asked {
                // the limit may be the tenant's, and means nothing
                Err(_elapsed) => None,
                Ok(Err(HttpError::Unreachable { source, .. })) => {
                    admission.because(Silence::of_request(source));
                    Some(Outcome::Silent)
                }
                Ok(_) => Some(Outcome::Answered),
            };
            if let Some(outcome) = outcome {
                admission.report(outcome);
            }
            match asked.map_err(|_elapsed| late(&url))?? {
                Step::Done(answer) => return Ok(answer),
                Step::Redirect(next) => url = next,
            }
        }
        Err(HttpError::Redirects(shown(&url)))
    }

    fn client(&self, certificates: &Certificates) -> Result<reqwest::Client, HttpError> {
        let (key, now) = (certificates.key(), Instant::now());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = clients.get_mut(&key) {
            cached.used = now;
            return Ok(cached.client.clone());
        }
        clients.retain(|_, cached| now.saturating_duration_since(cached.used) < UNUSED_MAX);
        while clients.len() >= CLIENTS_MAX {
            let oldest = clients.iter().min_by_key(|(_, cached)| cached.used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                break;
            };
            clients.remove(&oldest);
        }
        let client = self.built(certificates).map_err(HttpError::Certificates)?;
        let cached = CachedClient {
            client: client.clone(),
            used: now,
        };
        clients.insert(key, cached);
        Ok(client)
    }

    fn built(&self, certificates: &Certificates) -> Result<reqwest::Client, reqwest::Error> {
        let mut builder = self
            .egress
            .http()
            .read_timeout(SILENCE_MAX)
            .user_agent(concat!("equate/", env!("CARGO_PKG_VERSION")));
        if let Some(ca) = &certificates.ca {
            builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(ca)?);
        }
        if let Some(client) = &certificates.client {
            builder = builder.identity(reqwest::Identity::from_pem(client)?);
        }
        builder.build()
    }
}

enum Step {
    Done(Answer<()>),
    Redirect(Url),
}

async fn ask(
    client: &reqwest::Client,
    get: &Get<'_>,
    sink: &mut Sink<'_>,
    url: &Url,
    is_redirect: bool,
) -> Result<Step, HttpError> {
    let unreachable = |source: reqwest::Error| HttpError::Unreachable {
        url: shown(url),
        source: source.without_url(),
    };
    let mut request = client.get(url.clone());
    if let Some(login) = get.access.login_at(url, is_redirect) {
        request = request.header(AUTHORIZATION, authorization(login)?);
    }
    if let Some(known) = get.known {
        for (name, value) in [(IF_NONE_MATCH, &known.etag), (IF_MODIFIED_SINCE, &known.modified)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
    }
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    match status {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if get.known.is_some() => return Ok(Step::Done(Answer::NotModified)),
        status if status.is_redirection() => {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let next = to.and_then(|to| url.join(to).ok());
            let next = next.filter(|next| matches!(next.scheme(), "http" | "https"));
            return next.map(Step::Redirect).ok_or_else(|| HttpError::Status {
                url: shown(url),
                status,
            });
        }
        status => {
            let url = shown(url);
            return Err(HttpError::Status { url, status });
        }
    }
    let too_large = || HttpError::TooLarge {
        url: shown(url),
        bytes_max: get.bytes_max,
    };
    let length = response.content_length().unwrap_or_default();
    if length > get.bytes_max {
        return Err(too_large());
    }
    let validators = Validators::of(response.headers());
    sink.reserve(length);
    let mut received = 0;
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        received += chunk.len() as u64;
        if received > get.bytes_max {
            return Err(too_large());
        }
        sink.write(&chunk)?;
    }
    Ok(Step::Done(Answer::Body { body: (), validators }))
}

fn authorization(login: &Login) -> Result<HeaderValue, HttpError> {
    use base64::Engine as _;
    let pair = Zeroizing::new(format!("{}:{}", login.username, &*login.password));
    let encoded = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()));
    let text = Zeroizing::new(format!("Basic {}", &*encoded));
    let mut value = HeaderValue::from_str(&text).map_err(|_| HttpError::Login)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Parses the URL of a host.
pub(crate) fn address(url: &str) -> Result<Url, HttpError> {
    let parsed = Url::parse(url).ok();
    let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| HttpError::Address(url.chars().take(200).collect()))
}

/// The host, and the port if it is not the usual one.
fn authority(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// An address without its password and its query, which may be one.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // both can be set for an address with a host
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.into()
}
