//! Smart HTTP over reqwest.
//!
//! Credentials go only to the URL's host. A redirect is followed only on the first request, to the same
//! host, and never from https to http. There are no cookies, no compression and no netrc. Waits end at the
//! deadline.

use std::{
    any::Any,
    io::{self, BufRead, Cursor, Read, Write},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use equate_egress::Egress;
use gix::protocol::transport::{
    Protocol,
    client::blocking_io::{
        Transport,
        http::{self, GetResponse, Http, PostBodyDataKind, PostResponse},
    },
};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION},
};

use super::{ANSWER_MAX, Failure, Shared, silent};
use crate::{
    kind::Kind,
    remote::{Credentials, Endpoint, Remote},
    secret::Secret,
};

mod classify;
mod clients;

pub(super) use clients::Runtime;
pub(crate) use clients::{Answer, Ask, Clients};

/// A renamed repository or a missing `.git` needs one.
const REDIRECTS_MAX: usize = 5;

pub(super) fn connect(
    clients: &Clients,
    remote: &Remote,
    endpoint: &Endpoint,
    credentials: &Credentials,
    shared: &Shared,
) -> Result<Box<dyn Transport + Send>, Failure> {
    let (runtime, client) = clients.get(remote)?;
    let wire = Arc::new(Wire {
        egress: clients.egress().clone(),
        runtime,
        client,
        shared: shared.clone(),
        authorization: authorization(credentials)?,
    });
    let url = gix::url::parse(endpoint.to_string().as_str())
        .map_err(|_| Failure::new(Kind::UrlInvalid, "the url is malformed"))?;
    let http = HttpTransport {
        wire,
        redirected: None,
    };
    Ok(Box::new(http::Transport::new_http(
        http,
        url,
        Protocol::V2,
        false,
    )))
}

fn authorization(credentials: &Credentials) -> Result<Option<HeaderValue>, Failure> {
    let (scheme, secret) = match credentials {
        Credentials::None | Credentials::Ssh { .. } | Credentials::SshAgent { .. } => return Ok(None),
        Credentials::Basic { username, password } => {
            let pair = [username.as_bytes(), b":", password.expose()].concat();
            ("Basic ", Secret::new(base64(&pair)))
        }
        Credentials::Bearer(token) => ("Bearer ", token.clone()),
    };
    let mut value =
        HeaderValue::from_bytes(&[scheme.as_bytes(), secret.expose()].concat()).map_err(|_| {
            Failure::new(
                Kind::Authentication,
                "the token contains bytes that a header cannot carry",
            )
        })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            match index <= chunk.len() {
                true => text.push(char::from(ALPHABET[(bits >> (18 - 6 * index)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

struct Wire {
    egress: Egress,
    runtime: Arc<Runtime>,
    client: reqwest::Client,
    shared: Shared,
    authorization: Option<HeaderValue>,
}

impl Wire {
    /// Waits for a host that may be silent.
    fn wait_first<T>(&self, what: impl Future<Output = Result<T, reqwest::Error>>) -> io::Result<T> {
        let answered = self.runtime.wait(&self.shared, async {
            tokio::time::timeout(ANSWER_MAX, what).await
        })?;
        let answered = answered.map_err(|_| self.shared.fail(silent()))?;
        answered.map_err(|error| self.shared.fail(classify::transfer(error)))
    }

    fn wait<T>(&self, what: impl Future<Output = Result<T, reqwest::Error>>) -> io::Result<T> {
        self.runtime
            .wait(&self.shared, what)?
            .map_err(|error| self.shared.fail(classify::transfer(error)))
    }

    fn headers(&self, lines: &[String]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().filter_map(|line| line.split_once(':')) {
            let name = HeaderName::try_from(name);
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value.trim())) {
                headers.append(name, value);
            }
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        headers
    }

    fn send(&self, url: &Url, headers: HeaderMap, body: Option<Vec<u8>>) -> io::Result<reqwest::Response> {
        match body {
            None => self.wait_first(self.client.get(url.clone()).headers(headers).send()),
            // a host may take its time to make a pack
            Some(body) => self.wait(self.client.post(url.clone()).body(body).headers(headers).send()),
        }
    }

    fn checked(&self, response: reqwest::Response) -> io::Result<reqwest::Response> {
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(self
                .shared
                .fail(classify::status(status, self.authorization.is_some()))),
        }
    }

    fn url(&self, text: &str) -> io::Result<Url> {
        let url = Url::parse(text).map_err(|error| {
            self.shared
                .fail(Failure::new(Kind::UrlInvalid, "the url is malformed").because(error))
        })?;
        // a redirect changes no host
        let checked = self.egress.check(&url);
        checked.map_err(|error| self.shared.fail(clients::refused(error)))?;
        Ok(url)
    }
}

struct HttpTransport {
    wire: Arc<Wire>,
    redirected: Option<String>,
}

impl HttpTransport {
    /// Only the first request may be redirected; later ones go to its final URL.
    fn first(&mut self, url: &str, base: &str, headers: &HeaderMap) -> io::Result<reqwest::Response> {
        let wire = Arc::clone(&self.wire);
        let tail = url.strip_prefix(base).unwrap_or_default();
        let mut at = wire.url(url)?;
        for _ in 0..=REDIRECTS_MAX {
            let response = wire.send(&at, headers.clone(), None)?;
            let moved = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            if !moved {
                return wire.checked(response);
            }
            let next = response
                .headers()
                .get(LOCATION)
                .and_then(|to| at.join(to.to_str().ok()?).ok());
            let next = match next {
                Some(next) => next,
                None => return Err(wire.shared.fail(classify::status(response.status(), false))),
            };
            let accepted = redirect(&at, &next, tail).map_err(|failure| wire.shared.fail(failure))?;
            self.redirected = Some(accepted);
            at = next;
        }
        let problem = format!("it redirects more than {REDIRECTS_MAX} times");
        Err(wire.shared.fail(Failure::new(Kind::Protocol, problem)))
    }
}

fn redirect(from: &Url, to: &Url, tail: &str) -> Result<String, Failure> {
    let refuse = |why: &str| {
        let host = to.host_str().unwrap_or_default();
        let scheme = to.scheme();
        Err(Failure::new(
            Kind::Protocol,
            format!("it redirects to {scheme}://{host}, {why}"),
        ))
    };
    if from.scheme() != to.scheme() && (from.scheme(), to.scheme()) != ("http", "https") {
        return refuse("a less secure protocol: use its new url");
    }
    let upgraded = from.scheme() != to.scheme() && to.port().is_none();
    let same_port = from.port_or_known_default() == to.port_or_known_default();
    if from.host_str() != to.host_str() || !(same_port || upgraded) {
        return refuse("another host, which is not followed: use its new url");
    }
    let mut base = to.clone();
    // Nothing in a host's answer becomes a credential.
    if base
        .set_username("")
        .and_then(|()| base.set_password(None))
        .is_err()
    {
        return refuse("which is not a git url");
    }
    match base.as_str().strip_suffix(tail) {
        Some(base) => Ok(base.to_owned()),
        None => refuse("a page that is not a git repository: check the path"),
    }
}

impl Http for HttpTransport {
    type Headers = Headers;
    type ResponseBody = Body;
    type PostBody = Upload;

    fn get(
        &mut self,
        url: &str,
        base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<Self::Headers, Self::ResponseBody>> {
        let lines: Vec<String> = headers.into_iter().map(|line| line.as_ref().to_owned()).collect();
        let headers = self.wire.headers(&lines);
        let response = self
            .first(url, base_url, &headers)
            .map_err(gix::Error::from_error)?;
        let (headers, body) = readers(Exchange::share(&self.wire, State::Answered(response)));
        Ok(GetResponse { headers, body })
    }

    fn post(
        &mut self,
        url: &str,
        base_url: &str,
        headers: impl IntoIterator<Item = impl AsRef<str>>,
        _body: PostBodyDataKind,
    ) -> gix::Result<PostResponse<Self::Headers, Self::ResponseBody, Self::PostBody>> {
        let lines: Vec<String> = headers.into_iter().map(|line| line.as_ref().to_owned()).collect();
        let headers = self.wire.headers(&lines);
        let target = match &self.redirected {
            Some(redirected) => format!("{redirected}{}", url.strip_prefix(base_url).unwrap_or_default()),
            None => url.to_owned(),
        };
        let url = self.wire.url(&target).map_err(gix::Error::from_error)?;
        let exchange = Exchange::share(
            &self.wire,
            State::Asked {
                url,
                headers,
                body: Vec::new(),
            },
        );
        let post_body = Upload(Arc::clone(&exchange));
        let (headers, body) = readers(exchange);
        Ok(PostResponse {
            post_body,
            headers,
            body,
        })
    }

    fn configure(&mut self, _: &dyn Any) -> gix::Result {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.redirected.clone()
    }
}

/// gix holds the upload and two readers; the first read sends the complete upload.
struct Exchange {
    wire: Arc<Wire>,
    state: State,
}

enum State {
    Asked {
        url: Url,
        headers: HeaderMap,
        body: Vec<u8>,
    },
    Answered(reqwest::Response),
    Failed,
}

type Shareable = Arc<Mutex<Exchange>>;

impl Exchange {
    fn share(wire: &Arc<Wire>, state: State) -> Shareable {
        Arc::new(Mutex::new(Self {
            wire: Arc::clone(wire),
            state,
        }))
    }

    fn response(&mut self) -> io::Result<&mut reqwest::Response> {
        if let State::Asked { .. } = self.state
            && let State::Asked { url, headers, body } = std::mem::replace(&mut self.state, State::Failed)
        {
            let response = self.wire.send(&url, headers, Some(body))?;
            self.state = State::Answered(self.wire.checked(response)?);
        }
        match &mut self.state {
            State::Answered(response) => Ok(response),
            State::Asked { .. } | State::Failed => Err(io::Error::other("the request has already failed")),
        }
    }

    fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for (name, value) in self.response()?.headers() {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.push(b':');
            lines.extend_from_slice(value.as_bytes());
            lines.push(b'\n');
        }
        Ok(lines)
    }

    fn chunk(&mut self) -> io::Result<Bytes> {
        let wire = Arc::clone(&self.wire);
        let chunk = wire.wait(self.response()?.chunk())?.unwrap_or_default();
        wire.shared.count(chunk.len())?;
        Ok(chunk)
    }
}

fn locked(exchange: &Shareable) -> std::sync::MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Upload(Shareable);

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut locked(&self.0).state {
            State::Asked { body, .. } => body.extend_from_slice(bytes),
            State::Answered(_) | State::Failed => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Headers {
    exchange: Shareable,
    lines: Option<Cursor<Vec<u8>>>,
}

impl Headers {
    fn lines(&mut self) -> io::Result<&mut Cursor<Vec<u8>>> {
        let lines = match self.lines.take() {
            Some(lines) => lines,
            None => Cursor::new(locked(&self.exchange).head()?),
        };
        Ok(self.lines.insert(lines))
    }
}

impl Read for Headers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lines()?.read(buffer)
    }
}

impl BufRead for Headers {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.lines()?.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        if let Some(lines) = &mut self.lines {
            lines.consume(bytes);
        }
    }
}

struct Body {
    exchange: Shareable,
    chunk: Bytes,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let read = available.len().min(buffer.len());
        buffer[..read].copy_from_slice(&available[..read]);
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Body {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.is_empty() {
            self.chunk = locked(&self.exchange).chunk()?;
        }
        Ok(&self.chunk)
    }

    fn consume(&mut self, bytes: usize) {
        self.chunk = self.chunk.split_off(bytes.min(self.chunk.len()));
    }
}

fn readers(exchange: Shareable) -> (Headers, Body) {
    let headers = Headers {
        exchange: Arc::clone(&exchange),
        lines: None,
    };
    (
        headers,
        Body {
            exchange,
            chunk: Bytes::new(),
        },
    )
}

#[cfg(test)]
mod tests {
    use reqwest::Url;

    use super::{base64, redirect};

    #[test]
    fn base64_is_padded() {
        for (text, want) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob\u{ff}", "Zm9vYsO/"),
        ] {
            assert_eq!(base64(text.as_bytes()), want);
        }
    }

    #[test]
    fn only_safe_redirects_are_followed() {
        const TAIL: &str = "info/refs?service=git-upload-pack";
        #[track_caller]
        fn check(from: &str, to: &str, want: &str) {
            let url = |text: &str| Url::parse(&text.replace("TAIL", TAIL)).unwrap();
            let got = match redirect(&url(from), &url(to), TAIL) {
                Ok(base) => base,
                Err(failure) => failure.problem,
            };
            assert_eq!(got, want, "{from} to {to}");
        }
        check("https://h/x/TAIL", "https://h/x.git/TAIL", "https://h/x.git/");
        check("http://h/x/TAIL", "https://h/x/TAIL", "https://h/x/");
        check("https://h/x/TAIL", "https://me:pw@h/x/TAIL", "https://h/x/");
        check(
            "https://h/x/TAIL",
            "http://h/x/TAIL",
            "it redirects to http://h, a less secure protocol: use its new url",
        );
        check(
            "https://h/x/TAIL",
            "https://evil/x/TAIL",
            "it redirects to https://evil, another host, which is not followed: use its new url",
        );
        check(
            "https://h/x/TAIL",
            "https://h:444/x/TAIL",
            "it redirects to https://h, another host, which is not followed: use its new url",
        );
        check(
            "https://h/x/TAIL",
            "https://h/login",
            "it redirects to https://h, a page that is not a git repository: check the path",
        );
    }
}
