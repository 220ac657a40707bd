//! The requests of a store: whether a bucket exists, and the content of an object.
//!
//! The time that a request waits for its share of the host does not count. A request that the store puts
//! off, or whose connection breaks before the content begins, is repeated.

use std::collections::HashMap;
use std::error::Error as _;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use equate_egress::{Admission, Egress, Outcome, Silence};
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::{Instant, timeout_at};

use crate::access::{Access, Api};
use crate::answer::{self, ETAG_BYTES_MAX, bare, refusal};
use crate::azure::{self, AzureCredentials};
use crate::environment::AwsEnvironment;
use crate::error::{Error, Problem, Reason};
use crate::google;
use crate::identity::Keys;
use crate::local::Local;
use crate::place::{Kind, Place, PlaceError, Target, encoded, is_region};
use crate::sign;
use crate::tokens::{self, Tokens};

const REGION: &str = "us-east-1";
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// The answer of a token service, or what a store says of one object.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(250);
const CLIENTS_MAX: usize = 256;
const CLIENT_UNUSED_MAX: Duration = Duration::from_secs(60 * 60);
/// Limits on the answers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Objects of one list.
    pub objects_max: usize,
    /// Pages of one list.
    pub pages_max: usize,
    /// Bytes of one page.
    pub page_bytes_max: u64,
    /// Bytes of all pages of one list.
    pub list_bytes_max: u64,
    /// Bytes of all keys and etags of one list.
    pub key_bytes_max: usize,
    /// The first pause before a displaced list is asked for again.
    pub displaced_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects_max: 100_000,
            pages_max: 1000,
            page_bytes_max: 8 << 20,
            list_bytes_max: 128 << 20,
            key_bytes_max: 32 << 20,
            displaced_pause: Duration::from_millis(500),
        }
    }
}

/// The stores of a process. Clones share everything.
#[derive(Debug, Clone)]
pub struct Stores(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    egress: Egress,
    pub(crate) limits: Limits,
    // held for a map operation
    clients: Mutex<HashMap<[u8; 32], (reqwest::Client, Instant)>>,
    tokens: Tokens,
    pub(crate) keys: Tokens<Keys>,
    pub(crate) environment: AwsEnvironment,
}

impl Stores {
    /// Stores behind this way out, for a process that has no identity but that of its machine.
    #[must_use]
    pub fn new(egress: Egress, limits: Limits) -> Self {
        Self::identified(egress, limits, AwsEnvironment::default())
    }

    /// The same, for a process with the identity that this environment names.
    #[must_use]
    pub fn identified(egress: Egress, limits: Limits, environment: AwsEnvironment) -> Self {
        Self(Arc::new(Inner {
            egress,
            limits,
            clients: Mutex::default(),
            tokens: Tokens::default(),
            keys: Tokens::default(),
            environment,
        }))
    }

    /// Opens a bucket. The time limit begins now.
    ///
    /// # Errors
    /// The endpoint, the name, the certificates or the proxy are unusable.
    pub fn open(&self, endpoint: &str, bucket: &str, access: Access) -> Result<Bucket, Error> {
        let kind = access.api.kind();
        let failed = |problem: Problem| problem.of(kind, "connect to", endpoint);
        let local = self.substitute(endpoint, bucket).map(Local::new);
        let region = access.region.clone().filter(|region| !region.is_empty());
        // a directory has no API, and stands for a place of any store
        let of = match local.is_some() && endpoint.contains("://") {
            true => Kind::Azure,
            false => kind,
        };
        let place = Place::new(of, endpoint, bucket, region.as_deref(), access.insecure);
        let place = place.map_err(|error| failed(Problem::new(Reason::Configuration, error.to_string())))?;
        Ok(Bucket {
            client: self.0.client(&self.0.egress, &access).map_err(failed)?,
            stores: self.clone(),
            deadline: Mutex::new(Instant::now() + access.timeout),
            at: Mutex::new(At {
                place,
                region: region.unwrap_or_else(|| REGION.to_owned()),
            }),
            endpoint: endpoint.to_owned(),
            access,
            local,
        })
    }

    /// The directory that stands for `https://ENDPOINT/BUCKET`, which then needs no credentials. The endpoint may be
    /// a URL.
    #[must_use]
    pub fn substitute(&self, endpoint: &str, bucket: &str) -> Option<PathBuf> {
        let substitutes = self.0.egress.substitutes();
        let endpoint = endpoint.trim_end_matches('/');
        let find = |scheme| substitutes.find(&format!("{scheme}{endpoint}/{bucket}"));
        let found = match endpoint.contains("://") {
            true => find(""),
            false => find("https://").or_else(|| find("http://")),
        };
        found.map(|found| found.path())
    }
}

impl Inner {
    /// The way out to services that the operator or the platform names.
    pub(crate) fn trusting_egress(&self) -> Egress {
        self.egress.trusting_hosts()
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    pub(crate) fn client(&self, egress: &Egress, access: &Access) -> Result<reqwest::Client, Problem> {
        let (key, now) = (access.key(egress.trusts_hosts()), Instant::now());
        if let Some((client, used)) = lock(&self.clients).get_mut(&key) {
            *used = now;
            return Ok(client.clone());
        }
        // reading certificates is slow, and others must not wait for it
        let client = access.client(egress)?;
        let mut clients = lock(&self.clients);
        clients.retain(|_, (_, used)| now.saturating_duration_since(*used) < CLIENT_UNUSED_MAX);
        while clients.len() >= CLIENTS_MAX {
            let oldest = clients.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else {
                break;
            };
            clients.remove(&oldest);
        }
        clients.insert(key, (client.clone(), now));
        Ok(client)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open bucket.
#[derive(Debug)]
pub struct Bucket {
    pub(crate) stores: Stores,
    endpoint: String,
    pub(crate) access: Access,
    client: reqwest::Client,
    deadline: Mutex<Instant>,
    at: Mutex<At>,
    pub(crate) local: Option<Local>,
}

#[derive(Debug, Clone)]
struct At {
    place: Place,
    region: String,
}

/// The head of an answer, and its body while it is read.
pub(crate) struct Answer {
    response: reqwest::Response,
    admission: Admission,
}

/// The request of an operation.
struct Ask<'a> {
    method: Method,
    target: Target<'a>,
    query: &'a [(&'a str, &'a str)],
}

impl Bucket {
    /// Checks the endpoint and the name of a bucket.
    ///
    /// # Errors
    /// One of them is no part of a URL.
    pub fn check(kind: Kind, endpoint: &str, bucket: &str) -> Result<(), PlaceError> {
        Place::new(kind, endpoint, bucket, None, false).map(drop)
    }

    /// Gets temporary keys if the access needs some, which later requests use.
    ///
    /// # Errors
    /// The token service refuses the identity, or fails.
    pub async fn authenticate(&self) -> Result<(), Error> {
        let Api::S3As(identity) = &self.access.api else {
            return Ok(());
        };
        if self.local.is_some() {
            return Ok(());
        }
        let mut attempts = 1;
        loop {
            let refused = match self.keys(identity).await {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            };
            if !self.waits(refused.may_pass, attempts).await {
                let name = lock(&self.at).place.name().to_owned();
                return Err(refused.problem.of(self.kind(), "get credentials for", name));
            }
            attempts += 1;
        }
    }

    /// Whether the bucket exists.
    ///
    /// # Errors
    /// The store forbids to ask, or fails.
    pub async fn exists(&self) -> Result<bool, Error> {
        if let Some(local) = &self.local {
            return Ok(local.exists());
        }
        let asked = match self.kind() {
            Kind::S3 => self.head().await,
            Kind::Google => self.get_from(Target::Bucket, &[("fields", "name")]).await,
            Kind::Azure => {
                let query = [("comp", "list"), ("restype", "container"), ("maxresults", "1")];
                self.get_from(Target::List, &query).await
            }
        };
        match asked {
            Ok(_) => Ok(true),
            Err(problem) if problem.reason == Reason::NotFound => Ok(false),
            Err(problem) => Err(problem.of(self.kind(), "ask for", lock(&self.at).place.name())),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.access.api.kind()
    }

    async fn head(&self) -> Result<Answer, Problem> {
        let ask = Ask {
            method: Method::HEAD,
            target: Target::Bucket,
            query: &[],
        };
        match self.send(&ask).await {
            // its answer has no text: that to a list says why, and names the region
            Err(problem) if matches!(problem.reason, Reason::Failed | Reason::Authentication) => {
                let query = [("list-type", "2"), ("max-keys", "1")];
                self.get_from(Target::List, &query).await
            }
            asked => asked,
        }
    }

    pub(crate) async fn get_from(
        &self,
        target: Target<'_>,
        query: &[(&str, &str)],
    ) -> Result<Answer, Problem> {
        let method = Method::GET;
        self.send(&Ask {
            method,
            target,
            query,
        })
        .await
    }

    /// Writes the content of an object to `out` while it arrives. Returns its etag, without quotes.
    ///
    /// # Errors
    /// The store has no such object, or more than `bytes_max` of it, or fails; or `out` does. On failure,
    /// the content must not be used.
    pub async fn get(
        &self,
        key: &str,
        bytes_max: u64,
        out: &mut (dyn Write + Send),
    ) -> Result<String, Error> {
        let got = match &self.local {
            // a file of this machine is read as fast as `out` takes it
            Some(local) => local.get(key, bytes_max, out),
            None => self.content(key, bytes_max, out).await,
        };
        got.map_err(|problem| problem.of(self.kind(), "get", key.chars().take(300).collect::<String>()))
    }

    async fn content(
        &self,
        key: &str,
        bytes_max: u64,
        out: &mut (dyn Write + Send),
    ) -> Result<String, Problem> {
        let target = Target::Object(key);
        let (mut answer, known) = match self.kind() {
            Kind::S3 | Kind::Azure => (self.get_from(target, &[]).await?, None),
            // the etag of a list is not in the headers of the content: as Flux, get that of the object first
            Kind::Google => {
                let mut answer = self.get_from(target, &[("fields", google::HEAD_FIELDS)]).await?;
                let bytes = self.body(&mut answer, ANSWER_BYTES_MAX, "metadata").await?;
                drop(answer);
                let head = google::head(&bytes)?;
                let query = [("alt", "media"), ("ifGenerationMatch", &*head.generation)];
                (self.get_from(target, &query).await?, Some(head.etag))
            }
        };
        let etag = answer.response.headers().get(ETAG);
        let etag = etag
            .filter(|etag| etag.len() <= ETAG_BYTES_MAX)
            .and_then(|etag| etag.to_str().ok())
            .unwrap_or_default();
        let etag = match (self.kind(), known) {
            (Kind::Azure, _) => azure::version(etag),
            (_, Some(known)) => known,
            (_, None) => bare(etag).to_owned(),
        };
        let length = answer.response.content_length();
        let too_large = || Problem::new(Reason::TooLarge, format!("it is larger than {bytes_max} bytes"));
        if length.is_some_and(|length| length > bytes_max) {
            return Err(too_large());
        }
        let mut received = 0;
        while let Some(chunk) = self.chunk(&mut answer).await? {
            received += chunk.len() as u64;
            if received > bytes_max {
                return Err(too_large());
            }
            let written = out.write_all(&chunk);
            written.map_err(|error| {
                Problem::new(Reason::Write, "its content cannot be written").because(error)
            })?;
        }
        match length.is_none_or(|length| length == received) {
            true => Ok(etag),
            false => Err(Problem::new(Reason::Unreachable, "the connection broke")),
        }
    }

    /// Extends the time limit, by a time in which no answer was awaited.
    pub fn extend(&self, by: Duration) {
        *lock(&self.deadline) += by;
    }

    /// The name of the bucket for errors.
    pub(crate) fn name(&self) -> String {
        lock(&self.at).place.name().to_owned()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.stores.0
    }

    async fn body(&self, answer: &mut Answer, max: u64, name: &str) -> Result<Vec<u8>, Problem> {
        self.counted_body(answer, max, name, |_| Ok(())).await
    }

    /// The whole body; each part is counted.
    pub(crate) async fn counted_body(
        &self,
        answer: &mut Answer,
        max: u64,
        name: &str,
        count: impl Fn(usize) -> Result<(), Problem>,
    ) -> Result<Vec<u8>, Problem> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(answer).await? {
            if (body.len() + chunk.len()) as u64 > max {
                let text = format!("its {name} is larger than {max} bytes");
                return Err(Problem::new(Reason::TooLarge, text));
            }
            count(chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    async fn chunk(&self, answer: &mut Answer) -> Result<Option<Bytes>, Problem> {
        match timeout_at(self.deadline(), answer.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                answer.admission.report(Outcome::Silent);
                Err(transfer(error))
            }
            Err(_) => Err(self.late()),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        *lock(&self.deadline)
    }

    fn late(&self) -> Problem {
        let seconds = self.access.timeout.as_secs_f64();
        Problem::new(Reason::Timeout, format!("it took longer than {seconds}s"))
    }

    /// Sends a request until it succeeds or its failure is final.
    async fn send(&self, ask: &Ask<'_>) -> Result<Answer, Problem> {
        let (mut attempts, mut moved) = (1, false);
        loop {
            let refused = match self.exchange(ask).await {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            let region = refused.region.filter(|region| !moved && is_region(region));
            if region.is_some_and(|region| self.move_to(region)) {
                moved = true;
                continue;
            }
            if !self.waits(refused.may_pass, attempts).await {
                return Err(refused.problem);
            }
            attempts += 1;
        }
    }

    /// Waits before the next attempt; false if there is none.
    async fn waits(&self, may_pass: bool, attempts: u32) -> bool {
        let pause = PAUSE * 4_u32.pow(attempts - 1);
        if !may_pass || attempts == ATTEMPTS_MAX || Instant::now() + pause > self.deadline() {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// Signs for another region from now on. False if it is the present one.
    fn move_to(&self, region: String) -> bool {
        let mut at = lock(&self.at);
        if at.region == region || self.access.region.as_ref().is_some_and(|own| !own.is_empty()) {
            return false;
        }
        let name = at.place.name().to_owned();
        if let Ok(place) = Place::new(
            self.kind(),
            &self.endpoint,
            &name,
            Some(&region),
            self.access.insecure,
        ) {
            at.place = place;
        }
        at.region = region;
        true
    }

    /// One request, and the head of its answer.
    async fn exchange(&self, ask: &Ask<'_>) -> Result<Answer, Refused> {
        let At { place, region } = lock(&self.at).clone();
        let url = place.url(ask.target, ask.query).ok_or_else(|| {
            let text = "its key is too long, or has a segment '.' or '..', which no URL can carry";
            Problem::new(Reason::Malformed, text)
        })?;
        let (url, headers) = self.authorized(&ask.method, url, &region).await?;
        let request = self.client.request(ask.method.clone(), url.clone());
        let egress = &self.stores.0.egress;
        let mut answer = self.dispatch(egress, &url, request.headers(headers)).await?;
        match answer.response.status().is_success() {
            true => Ok(answer),
            false => Err(self.refused(&mut answer).await),
        }
    }

    /// The URL and the headers that carry the credentials.
    async fn authorized(
        &self,
        method: &Method,
        mut url: Url,
        region: &str,
    ) -> Result<(Url, HeaderMap), Refused> {
        let now = Timestamp::now();
        let unusable = |what: &str| Problem::new(Reason::Authentication, what.to_owned());
        // an endpoint of Azure names its scheme; a signature or a token must not be read on the way
        if url.scheme() != "https" && !self.access.insecure {
            return Err(unusable("the endpoint is not https, and spec.insecure is not set").into());
        }
        let headers = match &self.access.api {
            Api::S3(None) => HeaderMap::new(),
            Api::S3(Some(keys)) => {
                let signed = sign::headers(keys, None, region, method.as_str(), &url, now);
                signed.ok_or_else(|| unusable("accesskey is no text of a header"))?
            }
            Api::S3As(identity) => {
                let Keys { credentials, session } = self.keys(identity).await?;
                let signed =
                    sign::headers(&credentials, session.as_ref(), region, method.as_str(), &url, now);
                signed.ok_or_else(|| unusable("the temporary keys are no text of a header"))?
            }
            Api::Google(_) => HeaderMap::from_iter([(AUTHORIZATION, self.token().await?)]),
            Api::Azure(AzureCredentials::AccountKey(key)) => {
                let signed = azure::headers(Some(key), method.as_str(), &url, now);
                signed.ok_or_else(|| {
                    unusable("accountKey is not in base64, or the endpoint does not begin with an account")
                })?
            }
            Api::Azure(AzureCredentials::Sas(sas)) => {
                azure::with_sas(&mut url, sas);
                azure::headers(None, method.as_str(), &url, now).unwrap_or_default()
            }
            Api::Azure(AzureCredentials::Principal(_)) => {
                let token = self.token().await?;
                let mut headers = azure::headers(None, method.as_str(), &url, now).unwrap_or_default();
                headers.insert(AUTHORIZATION, token);
                headers
            }
        };
        Ok((url, headers))
    }

    /// The hash of credentials that a token service exchanges.
    fn token_key(&self) -> Option<[u8; 32]> {
        match &self.access.api {
            Api::Google(account) => Some(*account.hash()),
            Api::Azure(AzureCredentials::Principal(principal)) => Some(principal.hash()),
            Api::S3(_)
            | Api::S3As(_)
            | Api::Azure(AzureCredentials::AccountKey(_) | AzureCredentials::Sas(_)) => None,
        }
    }

    /// A token of the token service; the last one while it is valid.
    async fn token(&self) -> Result<HeaderValue, Refused> {
        let inner = &self.stores.0;
        let unusable = |what: &str| Problem::new(Reason::Authentication, what.to_owned());
        let key = self.token_key().unwrap_or_default();
        if let Some(token) = inner.tokens.get(&key) {
            return Ok(token);
        }
        let (url, form) = match &self.access.api {
            Api::Google(account) => {
                let form = account.form(Timestamp::now());
                let form = form.ok_or_else(|| unusable("private_key of serviceaccount cannot sign"))?;
                (account.token_url().clone(), form)
            }
            Api::Azure(AzureCredentials::Principal(principal)) => {
                let url = principal.token_url();
                let url = url.ok_or_else(|| unusable("tenantId or authorityHost is no part of a URL"))?;
                let form = principal.form(&url, Timestamp::now());
                let form = form.ok_or_else(|| unusable("clientCertificate cannot sign"))?;
                (url, form)
            }
            Api::S3(_) | Api::S3As(_) | Api::Azure(_) => {
                return Err(unusable("no token service is known").into());
            }
        };
        if url.scheme() != "https" && !self.access.insecure {
            return Err(unusable("the URL of the token service is not https").into());
        }
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = self.client.post(url.clone());
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = request.body(encoded(&form));
        let body = self.exchanged(&inner.egress, &url, body, tokens::told).await?;
        let token = tokens::token(&body)?;
        inner.tokens.insert(key, token.header.clone(), token.life);
        Ok(token.header)
    }

    /// The answer of a token service; `told` reads the words of one that refuses.
    pub(crate) async fn exchanged(
        &self,
        egress: &Egress,
        url: &Url,
        request: reqwest::RequestBuilder,
        told: impl Fn(&[u8]) -> String,
    ) -> Result<Vec<u8>, Refused> {
        let mut answer = self.dispatch(egress, url, request).await?;
        let status = answer.response.status();
        let body = self.body(&mut answer, ANSWER_BYTES_MAX, "token").await;
        match status.is_success() {
            true => Ok(body?),
            false => Err(Refused {
                // the status decides, whatever its body
                problem: tokens::refusal(status.as_u16(), &told(&body.unwrap_or_default())),
                region: None,
                may_pass: may_pass(status.as_u16()),
            }),
        }
    }

    /// Sends a request within the namespace's share of the host, and reads the head of the answer.
    async fn dispatch(
        &self,
        egress: &Egress,
        url: &Url,
        request: reqwest::RequestBuilder,
    ) -> Result<Answer, Refused> {
        let checked = egress.check(url);
        checked
            .map_err(|error| Problem::new(Reason::Refused, "the host may not be dialled").because(error))?;
        let waits = Instant::now();
        let admission = egress.enter(&self.access.namespace, &authority(url)).await;
        self.extend(waits.elapsed());
        let mut admission = admission.map_err(|refusal| Problem::new(Reason::Closed, refusal.to_string()))?;
        let response = match timeout_at(self.deadline(), request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                admission.report(Outcome::Silent);
                admission.because(Silence::of_request(&error));
                let problem = transfer(error);
                return Err(Refused {
                    may_pass: problem.reason == Reason::Unreachable,
                    ..problem.into()
                });
            }
            Err(_) => return Err(self.late().into()),
        };
        admission.report(Outcome::Answered);
        Ok(Answer { response, admission })
    }

    async fn refused(&self, answer: &mut Answer) -> Refused {
        let status = answer.response.status();
        let named = answer.response.headers().get("x-amz-bucket-region");
        let named = named.and_then(|region| region.to_str().ok()).map(str::to_owned);
        // the status decides, whatever its body
        let body = self
            .body(answer, ERROR_BYTES_MAX, "error")
            .await
            .unwrap_or_default();
        let (told, region) = match self.kind() {
            Kind::S3 | Kind::Azure => answer::told(&body),
            Kind::Google => (google::told(&body), None),
        };
        let is_expired = ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId"]
            .iter()
            .any(|code| told.starts_with(code));
        match (status.as_u16(), &self.access.api, self.token_key()) {
            (401, _, Some(key)) => self.stores.0.tokens.remove(&key),
            (status, Api::S3As(identity), _) if is_expired || status == 401 => {
                self.stores.0.keys.remove(&identity.hash());
            }
            _ => {}
        }
        let mut problem = refusal(status.as_u16(), &told, self.access.api.has_credentials());
        if let (Api::S3As(_), Reason::Authentication) = (&self.access.api, problem.reason) {
            problem.hint = Some("check the permissions of the identity that the keys are for");
        }
        Refused {
            problem,
            region: named.or(region),
            may_pass: may_pass(status.as_u16()),
        }
    }
}

/// Whether the same request may succeed later.
fn may_pass(status: u16) -> bool {
    matches!(status, 429 | 500 | 502..=504)
}

/// A request without success.
pub(crate) struct Refused {
    pub(crate) problem: Problem,
    /// The region that the store names.
    region: Option<String>,
    /// Whether the same request may succeed later.
    may_pass: bool,
}

impl Refused {
    /// With the name of a service beside the store, and advice.
    pub(crate) fn at(self, service: &str, hint: &'static str) -> Self {
        Self {
            problem: self.problem.at(service, hint),
            ..self
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            region: None,
            may_pass: false,
        }
    }
}

/// `host`, or `host:port` if the port is not that of the scheme.
fn authority(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// TLS first: its failures look like failed connections.
fn transfer(error: reqwest::Error) -> Problem {
    // the operation's error has the name, and a URL may have a signature
    let error = error.without_url();
    let (reason, text) = if is_tls(&error) {
        (Reason::Tls, "the connection is not trusted")
    } else {
        (Reason::Unreachable, Silence::of_request(&error).words())
    };
    Problem::new(reason, text).because(error)
}

/// Whether TLS is among the causes. `io::Error` hides its inner error from `source`.
fn is_tls(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.is::<rustls::Error>() {
            return true;
        }
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    false
}
