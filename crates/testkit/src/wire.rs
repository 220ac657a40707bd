//! Sends requests to either kind of cluster and reads the answers.
//!
//! No credentials, headers or retries are added. Answers are read whole, up to [`BODY_BYTES_MAX`]; a
//! watch is read as events until it ends or its time is over.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt as _;

/// Far above any answer of the tests; stops endless streams.
pub const BODY_BYTES_MAX: usize = 64 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Bytes = axum::body::Bytes;

/// A request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("cannot make the request {request}")]
    Request {
        /// Method and path.
        request: String,
        /// The cause.
        source: http::Error,
    },
    /// The connection failed.
    #[error("{request} got no answer")]
    Transport {
        /// Method and path.
        request: String,
        /// The cause.
        source: BoxError,
    },
    /// The body is too long.
    #[error("the answer to {request} is longer than {BODY_BYTES_MAX} bytes")]
    TooLong {
        /// Method and path.
        request: String,
    },
}

/// A connection to a cluster.
#[derive(Clone)]
pub enum Sender {
    /// Over TLS, without credentials.
    Remote(kube::Client),
    /// Directly to the service, without a socket.
    Router(axum::Router),
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Sender::Remote(_) => "Sender::Remote",
            Sender::Router(_) => "Sender::Router",
        })
    }
}

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body, verbatim.
    pub body: Option<Vec<u8>>,
    /// `Content-Type`, when there is a body.
    pub content_type: Option<String>,
    /// `Accept`.
    pub accept: Option<String>,
    /// Bearer token; `None` for anonymous.
    pub token: Option<String>,
    /// Other headers.
    pub headers: Vec<(String, String)>,
    /// Read the answer as events for at most this long.
    pub watch: Option<Duration>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// `Content-Type`, empty when absent.
    pub content_type: String,
    /// Every `Warning` header, in order.
    pub warnings: Vec<String>,
    /// The body: JSON when it parses, text otherwise, an array of events for a watch.
    pub body: Value,
}

impl Sender {
    /// Sends a request and returns the raw response.
    ///
    /// # Errors
    /// There is no response; any status is a response.
    pub async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        match self {
            Sender::Remote(client) => {
                let response = client.send(request.map(kube::client::Body::from)).await?;
                Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
            Sender::Router(router) => {
                let mut request = request;
                // a client with a socket sends the host it connected to
                request
                    .headers_mut()
                    .entry(HOST)
                    .or_insert(HeaderValue::from_static("127.0.0.1:443"));
                let response = router
                    .clone()
                    .oneshot(request.map(axum::body::Body::from))
                    .await?;
                Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        }
    }

    /// Sends the call and reads its answer.
    ///
    /// # Errors
    /// The answer is incomplete; any status is an answer.
    pub async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let name = || format!("{} {}", call.method, call.path);
        let request = request(call).map_err(|source| Error::Request {
            request: name(),
            source,
        })?;
        let transport = |source| Error::Transport {
            request: name(),
            source,
        };
        let deadline = call.watch.map(|watch| Instant::now() + watch);
        let response = self.send(request).await.map_err(transport)?;
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        loop {
            let frame = match deadline {
                None => body.frame().await,
                // a watch that exceeds its time is dropped, as a client would
                Some(deadline) => match tokio::time::timeout_at(deadline, body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => break,
                },
            };
            let Some(frame) = frame else { break };
            if let Some(data) = frame.map_err(transport)?.data_ref() {
                bytes.extend_from_slice(data);
            }
            if bytes.len() > BODY_BYTES_MAX {
                return Err(Error::TooLong { request: name() });
            }
        }
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(Answer {
            status: head.status.as_u16(),
            content_type: head.headers.get(CONTENT_TYPE).map(text).unwrap_or_default(),
            warnings: head.headers.get_all("warning").iter().map(text).collect(),
            body: if call.watch.is_some() {
                events(&bytes)
            } else {
                document(&bytes)
            },
        })
    }
}

fn request(call: &Call) -> Result<Request<Vec<u8>>, http::Error> {
    let mut builder = Request::builder()
        .method(Method::from_bytes(call.method.as_bytes())?)
        .uri(&call.path);
    if let Some(value) = &call.content_type {
        builder = builder.header(CONTENT_TYPE, value);
    }
    if let Some(value) = &call.accept {
        builder = builder.header(ACCEPT, value);
    }
    if let Some(token) = &call.token {
        builder = builder.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    for (name, value) in &call.headers {
        builder = builder.header(HeaderName::from_bytes(name.as_bytes())?, value);
    }
    builder.body(call.body.clone().unwrap_or_default())
}

fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// The complete documents of a stream; a truncated one is not an event.
fn events(bytes: &[u8]) -> Value {
    let stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    Value::Array(stream.map_while(Result::ok).collect())
}
