//! One request to a registry, with all that surrounds it: the address policy, the namespace's share of the
//! host, credentials, redirects, pauses, and the time limit.
//!
//! The time that a request waits for its share does not count. Requests hold one share at a time, so that
//! no two wait for each other.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use equate_egress::{Admission, HeldAnswer, Outcome, Silence};
use jiff::Timestamp;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::challenge::{self, Challenge};
use crate::error::{Problem, Reason};
use crate::remote::{Remote, Scope};

const REDIRECTS_MAX: usize = 5;
/// How often a request is repeated that the registry put off.
const PUT_OFF_MAX: usize = 2;
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Characters of a registry's own text that are shown.
const SHOWN_CHARS_MAX: usize = 300;
/// If a registry limits requests and does not say for how long.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<Bytes>,
    pub(crate) scope: Scope,
}

impl Ask {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: Vec::new(),
            body: None,
            scope: Scope::Pull,
        }
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn may_be_redirected(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }
}

/// The head of an answer, and its body while it is read.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    remote: &'a Remote,
    response: reqwest::Response,
    admission: Admission,
    /// Where the answer came from, after redirects.
    pub(crate) url: Url,
}

impl Answer<'_> {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Problem> {
        match timeout_at(self.remote.deadline(), self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                let (problem, outcome) = transfer(error);
                self.admission.report(outcome);
                Err(problem)
            }
            Err(_) => Err(self.remote.late()),
        }
    }

    /// The whole body.
    pub(crate) async fn bytes(&mut self, name: &str, max: u64) -> Result<Vec<u8>, Problem> {
        self.body(name, max, |_| Ok(())).await
    }

    /// The same, counted.
    pub(crate) async fn counted(
        &mut self,
        name: &str,
        max: u64,
        held: &HeldAnswer,
    ) -> Result<Vec<u8>, Problem> {
        self.body(name, max, |bytes| Ok(held.add(bytes as u64).map(drop)?))
            .await
    }

    async fn body(
        &mut self,
        name: &str,
        max: u64,
        count: impl Fn(usize) -> Result<(), Problem>,
    ) -> Result<Vec<u8>, Problem> {
        let too_large = || Problem::new(Reason::TooLarge, format!("its {name} is larger than {max} bytes"));
        if self.response.content_length().is_some_and(|length| length > max) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if (body.len() + chunk.len()) as u64 > max {
                return Err(too_large());
            }
            count(chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The problem of an answer that is no success.
    pub(crate) async fn problem(mut self) -> Problem {
        let (status, headers) = (self.status(), self.response.headers());
        let after = retry_after(headers);
        // the status decides, whatever its body
        let body = self.bytes("error", ERROR_BYTES_MAX).await.unwrap_or_default();
        let mut problem = refusal(status, &body, self.remote.access().credentials.is_some());
        problem.after = after.filter(|_| problem.reason == Reason::Limited);
        problem
    }
}

impl Remote {
    /// Sends a request, with credentials if the registry requires some.
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Answer<'_>, Problem> {
        let mut put_off = 0;
        let mut authorized = false;
        loop {
            let key = self.token_key(ask.scope);
            let token = self.shared().token(&key);
            let answer = self.follow(ask, token.clone()).await?;
            match answer.status() {
                StatusCode::UNAUTHORIZED if !authorized && self.is_own(&answer.url) => {
                    let headers = answer.response.headers().get_all(header::WWW_AUTHENTICATE);
                    let Some(challenge) =
                        challenge::pick(headers.iter().filter_map(|value| value.to_str().ok()))
                    else {
                        return Ok(answer);
                    };
                    drop(answer);
                    if token.is_some() {
                        self.shared().forget_token(&key);
                    }
                    if !self.authorize(&challenge, ask.scope).await? {
                        return Err(Problem::new(
                            Reason::Authentication,
                            "the registry requires credentials (HTTP 401)",
                        ));
                    }
                    authorized = true;
                }
                StatusCode::TOO_MANY_REQUESTS => {
                    let after = retry_after(answer.response.headers()).unwrap_or(PAUSE_DEFAULT);
                    let host = host(&answer.url);
                    self.shared().keep_pause(&self.access().namespace, &host, after);
                    put_off += 1;
                    if put_off > PUT_OFF_MAX || after > self.limits().wait_max {
                        return Ok(answer);
                    }
                }
                _ => return Ok(answer),
            }
        }
    }

    /// Follows redirects. Credentials stay with the registry.
    async fn follow(&self, ask: &Ask, token: Option<HeaderValue>) -> Result<Answer<'_>, Problem> {
        let mut at = ask.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let own = token.clone().filter(|_| self.is_own(&at));
            let request = self.request(ask, at.clone(), own);
            let answer = self.exchange(request, at.clone()).await?;
            let moved = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            if !(moved && ask.may_be_redirected()) {
                return Ok(answer);
            }
            let next = answer.header(header::LOCATION).and_then(|to| at.join(to).ok());
            let Some(next) = next else {
                return Err(Problem::new(Reason::Malformed, "it redirects to no url"));
            };
            at = accepted(&at, next)?;
        }
        let text = format!("it redirects more than {REDIRECTS_MAX} times");
        Err(Problem::new(Reason::Refused, text))
    }

    fn request(&self, ask: &Ask, url: Url, token: Option<HeaderValue>) -> reqwest::RequestBuilder {
        let mut request = self.client().request(ask.method.clone(), url);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        match &ask.body {
            Some(body) => request.body(body.clone()),
            None => request,
        }
    }

    /// One request and the head of its answer.
    pub(crate) async fn exchange(
        &self,
        request: reqwest::RequestBuilder,
        url: Url,
    ) -> Result<Answer<'_>, Problem> {
        self.check(&url)?;
        let (namespace, host) = (&self.access().namespace, host(&url));
        if let Some(pause) = self.shared().pause(namespace, &host) {
            if pause > self.limits().wait_max || Instant::now() + pause > self.deadline() {
                let text = format!(
                    "{host} limits requests, and wants none for {}s",
                    pause.as_secs().max(1)
                );
                let problem = Problem::new(Reason::Limited, text);
                return Err(Problem {
                    after: Some(pause),
                    ..problem
                });
            }
            tokio::time::sleep(pause).await;
        }
        let waits = Instant::now();
        let admission = self.shared().egress.enter(namespace, &host).await;
        self.extend(waits.elapsed());
        let mut admission = admission.map_err(|refusal| Problem::new(Reason::Closed, refusal.to_string()))?;
        match timeout_at(self.deadline(), request.send()).await {
            Ok(Ok(response)) => {
                admission.report(Outcome::Answered);
                Ok(Answer {
                    remote: self,
                    response,
                    admission,
                    url,
                })
            }
            Ok(Err(error)) => {
                admission.because(Silence::of_request(&error));
                let (problem, outcome) = transfer(error);
                // a registry without TLS has answered, in its way
                let is_plain =
                    self.may_be_plain() && problem.reason == Reason::Tls && speaks_no_tls(&problem);
                admission.report(if is_plain { Outcome::Answered } else { outcome });
                Err(problem)
            }
            Err(_) => Err(self.late()),
        }
    }

    pub(crate) fn check(&self, url: &Url) -> Result<(), Problem> {
        let checked = self.shared().egress.check(url);
        checked.map_err(|error| Problem::new(Reason::Refused, "the host may not be dialled").because(error))
    }

    /// Answers a challenge; false if there is no answer.
    async fn authorize(&self, challenge: &Challenge, scope: Scope) -> Result<bool, Problem> {
        match challenge {
            Challenge::Basic => self.authorize_basic(scope),
            Challenge::Bearer {
                realm,
                service,
                scope: wanted,
            } => {
                self.authorize_bearer(realm, service.as_deref(), wanted.as_deref(), scope)
                    .await
            }
        }
    }
}

/// `host`, or `host:port` if the port is not that of the scheme.
pub(crate) fn host(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// Nothing in an answer becomes a credential, and TLS is never given up.
pub(crate) fn accepted(from: &Url, mut to: Url) -> Result<Url, Problem> {
    let refuse = |why: &str| {
        let text = format!("it redirects to {}://{}, {why}", to.scheme(), host(&to));
        Problem::new(Reason::Refused, text)
    };
    if !matches!(to.scheme(), "http" | "https") || !to.has_host() {
        return Err(refuse("which is no url of a registry"));
    }
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(refuse("a less secure protocol"));
    }
    let failed = to.set_username("").is_err() || to.set_password(None).is_err();
    match failed {
        true => Err(Problem::new(
            Reason::Refused,
            "it redirects to no url of a registry",
        )),
        false => Ok(to),
    }
}

/// RFC 9110, section 10.2.3: seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let left = at.as_second().saturating_sub(Timestamp::now().as_second());
    Some(Duration::from_secs(u64::try_from(left).unwrap_or_default()))
}

/// TLS first: its failures look like failed connections.
fn transfer(error: reqwest::Error) -> (Problem, Outcome) {
    // the operation's error has the URL
    let error = error.without_url();
    let (reason, text) = if find_tls(&error).is_some() {
        (Reason::Tls, "the connection is not trusted")
    } else {
        (Reason::Unreachable, Silence::of_request(&error).words())
    };
    (Problem::new(reason, text).because(error), Outcome::Silent)
}

/// The TLS error among the causes. `io::Error` hides its inner error from `source`.
fn find_tls(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    None
}

/// Whether a connection failed because the other side speaks no TLS, and not for a certificate.
pub(crate) fn speaks_no_tls(problem: &Problem) -> bool {
    let source = problem.source.as_deref();
    let error = source.and_then(|source| source.downcast_ref::<reqwest::Error>());
    match problem.reason {
        Reason::Unreachable => true,
        Reason::Tls => {
            let tls = error.and_then(find_tls);
            !matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
        }
        _ => false,
    }
}

/// The errors of the distribution specification.
#[derive(Debug, Default, Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<Diagnostic>,
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

fn refusal(status: StatusCode, body: &[u8], has_credentials: bool) -> Problem {
    let errors: Errors = serde_json::from_slice(body).unwrap_or_default();
    let told: Vec<String> = errors
        .errors
        .iter()
        .map(|diagnostic| match diagnostic.message.is_empty() {
            true => diagnostic.code.clone(),
            false => format!("{}: {}", diagnostic.code, diagnostic.message),
        })
        .collect();
    let told: String = told
        .join("; ")
        .chars()
        .filter(|char| !char.is_control())
        .take(SHOWN_CHARS_MAX)
        .collect();
    let code = status.as_u16();
    let (reason, text) = match code {
        401 if has_credentials => (Reason::Authentication, "the registry refused the credentials"),
        401 => (Reason::Authentication, "the registry requires credentials"),
        407 => (Reason::Authentication, "the proxy requires credentials"),
        403 => (Reason::Authentication, "the registry forbids access"),
        404 | 410 => (Reason::NotFound, "not found"),
        429 => (Reason::Limited, "the registry limits requests"),
        500.. => (Reason::Failed, "the registry failed"),
        _ => (Reason::Failed, "the registry refused the request"),
    };
    let text = match told.is_empty() {
        true => format!("{text} (HTTP {code})"),
        false => format!("{text} (HTTP {code}): {told}"),
    };
    Problem {
        status: Some(code),
        ..Problem::new(reason, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_redirects_are_followed() {
        #[track_caller]
        fn check(from: &str, to: &str, want: &str) {
            let url = |text: &str| Url::parse(text).unwrap();
            let got = match accepted(&url(from), url(to)) {
                Ok(url) => url.to_string(),
                Err(problem) => problem.text,
            };
            assert_eq!(got, want, "{from} to {to}");
        }
        check("https://r/x", "https://cdn/y?sig=1", "https://cdn/y?sig=1");
        check("https://r/x", "https://me:pw@cdn/y", "https://cdn/y");
        check("http://r/x", "https://r/x", "https://r/x");
        check(
            "https://r/x",
            "http://r/x",
            "it redirects to http://r, a less secure protocol",
        );
        check(
            "https://r/x",
            "file:///etc",
            "it redirects to file://, which is no url of a registry",
        );
    }

    #[test]
    fn refusals_tell_what_the_registry_said() {
        #[track_caller]
        fn check(status: u16, body: &str, reason: Reason, want: &str) {
            let got = refusal(StatusCode::from_u16(status).unwrap(), body.as_bytes(), false);
            assert_eq!((got.reason, got.text.as_str()), (reason, want));
        }
        check(
            404,
            r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#,
            Reason::NotFound,
            "not found (HTTP 404): MANIFEST_UNKNOWN: manifest unknown",
        );
        check(500, "<html>", Reason::Failed, "the registry failed (HTTP 500)");
        check(
            401,
            "",
            Reason::Authentication,
            "the registry requires credentials (HTTP 401)",
        );
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let parse = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            retry_after(&HeaderMap::from_iter([(header::RETRY_AFTER, value)]))
        };
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(parse("soon"), None);
    }
}
