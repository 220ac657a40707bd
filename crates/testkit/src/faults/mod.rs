//! Scripted faults between a client and the API server.
//!
//! A [`Faults`] wraps a `kube::Client`: every request passes the rules in order, and the first match with
//! turns left applies: refusals, lost answers of completed writes, truncated bodies, watches that end or fall
//! silent, delays. The client may also die at any request a test chooses.
//!
//! The same script and seed give the same faults for the same requests. Every request is logged.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body as AnyBody;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tower::BoxError;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Any request.
    Any,
    /// A GET other than a watch.
    Read,
    /// A watch.
    Watch,
    /// POST, PUT, PATCH or DELETE.
    Write,
    /// POST.
    Create,
    /// PUT.
    Replace,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    fn matches(self, call: &Call) -> bool {
        match self {
            Verb::Any => true,
            Verb::Read => call.method == Method::GET && !call.watch,
            Verb::Watch => call.watch,
            Verb::Write => call.is_write(),
            Verb::Create => call.method == Method::POST,
            Verb::Replace => call.method == Method::PUT,
            Verb::Patch => call.method == Method::PATCH,
            Verb::Delete => call.method == Method::DELETE,
        }
    }
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Answer with this code and a Status; the request is not executed.
    Status {
        /// The HTTP code.
        code: u16,
        /// `Retry-After`, in the header and the Status.
        retry_after_seconds: Option<u32>,
    },
    /// Refuse the connection.
    Unreachable,
    /// Execute the request and lose the answer.
    LostAnswer,
    /// Truncate the answer after this many bytes.
    CutAfterBytes(usize),
    /// End the answer regularly after this many lines: a watch that ends early.
    EndAfterLines(usize),
    /// Keep the answer open and silent after this many lines.
    SilentAfterLines(usize),
    /// Drop the connection after this many lines, in the middle of the next.
    CutAfterLines(usize),
    /// Repeat each line of the answer: a watch with duplicates.
    RepeatLines,
    /// Answer a watch with an ERROR event of this code.
    ErrorEvent(u16),
    /// Delay the request.
    Slow(Duration),
}

impl Fault {
    /// A status without `Retry-After`.
    pub const fn status(code: u16) -> Self {
        Fault::Status {
            code,
            retry_after_seconds: None,
        }
    }
}

/// A fault and its condition.
#[derive(Debug, Clone)]
pub struct Rule {
    verb: Verb,
    path: String,
    fault: Fault,
    skip: usize,
    times: usize,
    percent: u8,
}

impl Rule {
    /// Applies to requests of this verb whose path contains this text.
    pub fn new(verb: Verb, path: impl Into<String>, fault: Fault) -> Self {
        Self {
            verb,
            path: path.into(),
            fault,
            skip: 0,
            times: usize::MAX,
            percent: 100,
        }
    }

    /// Limits the number of times.
    #[must_use]
    pub const fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Skips the first matches.
    #[must_use]
    pub const fn after(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Applies to this percentage of matches, by the seed.
    #[must_use]
    pub const fn percent(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }
}

/// A logged request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, verbatim.
    pub query: String,
    /// Whether it is a watch.
    pub watch: bool,
    /// Whether it asks for metadata only.
    pub metadata: bool,
    /// The injected fault.
    pub fault: Option<Fault>,
}

impl Call {
    fn of(request: &Request<Body>) -> Self {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let watch = query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            watch: watch && request.method() == Method::GET,
            metadata: request.headers().get(header::ACCEPT).is_some_and(|accept| {
                accept
                    .to_str()
                    .is_ok_and(|accept| accept.contains("as=PartialObjectMetadata"))
            }),
            query,
            fault: None,
        }
    }

    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.watch { "WATCH" } else { self.method.as_str() };
        write!(f, "{method} {}", self.path)
    }
}

/// When a client dies, relative to the request that kills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Death {
    /// Before the request is sent.
    Before,
    /// After the request is executed, before its answer.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Alive,
    /// The last request is executed; nothing is answered any more.
    Dying,
    Dead,
}

type Judge = Box<dyn FnMut(&Call) -> Option<Death> + Send>;

struct Script {
    rules: Vec<Rule>,
    log: VecDeque<Call>,
    calls: usize,
    writes: usize,
    judge: Option<Judge>,
    seed: u64,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("rules", &self.rules)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

const LOG_CALLS_MAX: usize = 100_000;

/// Scripted faults; clones share them.
#[derive(Debug, Clone)]
pub struct Faults {
    script: Arc<Mutex<Script>>,
    life: Arc<watch::Sender<Life>>,
}

enum Fate {
    Pass(Option<Fault>),
    DieBefore,
    DieAfter,
}

impl Default for Faults {
    fn default() -> Self {
        Self::seeded(1)
    }
}

impl Faults {
    /// Without rules; the seed decides for rules with a percentage.
    pub fn seeded(seed: u64) -> Self {
        Self {
            script: Arc::new(Mutex::new(Script {
                rules: Vec::new(),
                log: VecDeque::new(),
                calls: 0,
                writes: 0,
                judge: None,
                seed,
            })),
            life: Arc::new(watch::channel(Life::Alive).0),
        }
    }

    /// Appends a rule.
    pub fn add(&self, rule: Rule) {
        self.script().rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.script().rules.clear();
    }

    /// Kills the client at the first request for which `judge` returns a death. That request and all
    /// others, running or later, get no answer.
    pub fn die_when(&self, judge: impl FnMut(&Call) -> Option<Death> + Send + 'static) {
        self.script().judge = Some(Box::new(judge));
    }

    /// Waits until the client dies.
    pub async fn died(&self) {
        let mut life = self.life.subscribe();
        // the sender is held here, so the wait cannot fail
        drop(life.wait_for(|life| *life == Life::Dead).await);
    }

    /// Whether the client is dead.
    pub fn is_dead(&self) -> bool {
        *self.life.borrow() != Life::Alive
    }

    /// The last 100,000 requests.
    pub fn log(&self) -> Vec<Call> {
        self.script().log.iter().cloned().collect()
    }

    /// Clears the log.
    pub fn clear_log(&self) {
        self.script().log.clear();
    }

    /// The number of requests.
    pub fn calls(&self) -> usize {
        self.script().calls
    }

    /// The number of writes.
    pub fn writes(&self) -> usize {
        self.script().writes
    }

    /// A client whose requests pass through these faults.
    pub fn wrap(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let faults = self.clone();
        let client = client.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let faults = faults.clone();
            let client = client.clone();
            async move { faults.answer(client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn answer(&self, client: Client, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let fault = match self.fate(Call::of(&request)) {
            Fate::Pass(fault) => fault,
            Fate::DieBefore => return std::future::pending().await,
            Fate::DieAfter => {
                let answer = client.send(request).await;
                drop(answer);
                self.life.send_replace(Life::Dead);
                return std::future::pending().await;
            }
        };
        match fault {
            Some(Fault::Status {
                code,
                retry_after_seconds,
            }) => return refusal(code, retry_after_seconds),
            Some(Fault::Unreachable) => {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
            }
            Some(Fault::ErrorEvent(code)) => return error_event(code),
            Some(Fault::Slow(delay)) => tokio::time::sleep(delay).await,
            None | Some(_) => {}
        }
        let answer = client.send(request).await;
        if self.is_dead() {
            return std::future::pending().await;
        }
        let answer = answer?;
        if fault == Some(Fault::LostAnswer) {
            return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
        }
        Ok(answer.map(|body| self.body(body, fault)))
    }

    fn fate(&self, mut call: Call) -> Fate {
        let mut script = self.script();
        if self.is_dead() {
            return Fate::DieBefore;
        }
        script.calls += 1;
        if call.is_write() {
            script.writes += 1;
        }
        let death = script.judge.as_mut().and_then(|judge| judge(&call));
        if death == Some(Death::Before) {
            drop(script);
            self.life.send_replace(Life::Dead);
            return Fate::DieBefore;
        }
        if death.is_none() {
            call.fault = script.fault(&call);
        }
        let fault = call.fault;
        if script.log.len() == LOG_CALLS_MAX {
            script.log.pop_front();
        }
        script.log.push_back(call);
        match death {
            Some(_) => {
                self.life.send_replace(Life::Dying);
                Fate::DieAfter
            }
            None => Fate::Pass(fault),
        }
    }

    /// The answer's body with its fault; a dead client receives nothing.
    fn body(&self, body: Body, fault: Option<Fault>) -> AnyBody {
        let state = Passage {
            body,
            fault,
            lines: 0,
            bytes: 0,
            ended: false,
            life: self.life.subscribe(),
        };
        AnyBody::from_stream(stream::unfold(state, |mut state| async move {
            let next = state.next().await?;
            Some((next, state))
        }))
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    fn fault(&mut self, call: &Call) -> Option<Fault> {
        let matching = self
            .rules
            .iter_mut()
            .filter(|rule| rule.times > 0 && rule.verb.matches(call) && call.path.contains(&rule.path));
        for rule in matching {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.percent < 100 && roll(&mut self.seed) >= rule.percent {
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault);
        }
        None
    }
}

/// The next percentage, by a linear congruential generator.
fn roll(seed: &mut u64) -> u8 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    u8::try_from((*seed >> 33) % 100).unwrap_or(0)
}

struct Passage {
    body: Body,
    fault: Option<Fault>,
    lines: usize,
    bytes: usize,
    ended: bool,
    life: watch::Receiver<Life>,
}

impl Passage {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        loop {
            if self.exhausted() {
                return self.stop().await;
            }
            let life = &mut self.life;
            let died = async { drop(life.wait_for(|life| *life != Life::Alive).await) };
            let frame = tokio::select! {
                biased;
                () = died => return std::future::pending().await,
                frame = self.body.frame() => frame,
            };
            match frame? {
                Err(error) => return Some(Err(error.into())),
                Ok(frame) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Some(Ok(self.let_through(data))),
                    Err(_) => {}
                },
            }
        }
    }

    fn exhausted(&self) -> bool {
        match self.fault {
            Some(
                Fault::EndAfterLines(lines) | Fault::SilentAfterLines(lines) | Fault::CutAfterLines(lines),
            ) => self.lines >= lines,
            Some(Fault::CutAfterBytes(bytes)) => self.bytes >= bytes,
            _ => false,
        }
    }

    async fn stop(&mut self) -> Option<Result<Bytes, BoxError>> {
        self.ended = true;
        match self.fault {
            Some(Fault::SilentAfterLines(_)) => std::future::pending().await,
            Some(Fault::CutAfterLines(_) | Fault::CutAfterBytes(_)) => Some(Err(std::io::Error::from(
                std::io::ErrorKind::ConnectionReset,
            )
            .into())),
            _ => None,
        }
    }

    fn let_through(&mut self, data: Bytes) -> Bytes {
        let data = match self.fault {
            Some(Fault::EndAfterLines(lines) | Fault::SilentAfterLines(lines)) => {
                self.first_lines(&data, lines, 0)
            }
            // plus half of the next line, if there is one
            Some(Fault::CutAfterLines(lines)) => self.first_lines(&data, lines, 40),
            Some(Fault::CutAfterBytes(bytes)) => {
                data.slice(..data.len().min(bytes.saturating_sub(self.bytes)))
            }
            Some(Fault::RepeatLines) => repeat_lines(&data),
            _ => data,
        };
        self.bytes += data.len();
        data
    }

    fn first_lines(&mut self, data: &Bytes, lines: usize, more: usize) -> Bytes {
        for (place, byte) in data.iter().enumerate() {
            if *byte == b'\n' {
                self.lines += 1;
                if self.lines == lines {
                    let rest = &data[place + 1..];
                    let line = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    return data.slice(..place + 1 + line.min(more));
                }
            }
        }
        data.clone()
    }
}

/// Complete lines twice, an incomplete one once.
fn repeat_lines(data: &Bytes) -> Bytes {
    let mut twice = Vec::with_capacity(2 * data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        twice.extend_from_slice(line);
        if line.ends_with(b"\n") {
            twice.extend_from_slice(line);
        }
    }
    twice.into()
}

fn status_object(code: u16, retry_after_seconds: Option<u32>) -> serde_json::Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let mut status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("injected {code}"), "reason": reason, "code": code,
    });
    if let Some(seconds) = retry_after_seconds {
        status["details"] = serde_json::json!({ "retryAfterSeconds": seconds });
    }
    status
}

fn refusal(code: u16, retry_after_seconds: Option<u32>) -> Result<Response<AnyBody>, BoxError> {
    let body = serde_json::to_vec(&status_object(code, retry_after_seconds))?;
    let mut response = Response::new(AnyBody::from(body));
    *response.status_mut() = StatusCode::from_u16(code)?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_seconds {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

fn error_event(code: u16) -> Result<Response<AnyBody>, BoxError> {
    let event = serde_json::json!({ "type": "ERROR", "object": status_object(code, None) });
    let mut line = serde_json::to_vec(&event)?;
    line.push(b'\n');
    let mut response = Response::new(AnyBody::from(line));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
