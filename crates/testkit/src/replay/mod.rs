//! Scenarios of requests: loaded from the conformance format, played against any cluster.
//!
//! A scenario is a list of steps in one namespace. A step is a request, with the recorded answer of a
//! real server. Playing yields an [`Exchange`] per step. Values that change from run to run are
//! normalised ([`normal`]), the rest is compared ([`compare`]). Steps after which the recorder slept are
//! repeated until the expected answer or a deadline: nothing here sleeps for a fixed time.

pub mod compare;
pub mod normal;
pub mod ratchet;
mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::real::ADMIN_TOKEN;
use crate::wire::{self, Answer, Call, Sender};

pub use script::load_script;

/// How long to repeat a step, beyond the recorder's sleep; steps with known differences take all of it.
const AWAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long to repeat a step with an explicit condition: longer, for busy machines.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(120);

const AWAIT_INTERVAL: Duration = Duration::from_millis(100);

/// A scenario was not loaded or played.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{}:{line} is not a {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The expected form.
        what: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// A request got no answer.
    #[error("step {step} ({desc}) of {scenario}")]
    Wire {
        /// The scenario's name.
        scenario: String,
        /// The step, from 0.
        step: usize,
        /// Its description.
        desc: String,
        /// The cause.
        source: wire::Error,
    },
    /// A captured value is not in the answer.
    #[error("step {step} of {scenario} answers nothing at {path} to capture as {name}")]
    Capture {
        /// The scenario's name.
        scenario: String,
        /// The step, from 0.
        step: usize,
        /// The dotted path.
        path: String,
        /// The capture's name.
        name: String,
    },
    /// The scenario's namespace did not become ready.
    #[error("namespace {namespace} is not ready: {last_seen}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The last answer.
        last_seen: String,
    },
}

/// A list of requests in one namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name.
    #[serde(rename = "scenario")]
    pub name: String,
    /// Its namespace; `None` if the scenario creates its own.
    pub namespace: Option<String>,
    /// Values from answers for later requests.
    #[serde(default)]
    pub captures: Vec<Capture>,
    /// The requests.
    pub steps: Vec<Step>,
}

/// A value from an answer; `{{name}}` in later paths and bodies stands for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Capture {
    /// The step of the answer, from 0.
    pub step: usize,
    /// Its path in the answer, dotted.
    pub path: String,
    /// Its name.
    #[serde(rename = "as")]
    pub name: String,
}

/// A request and the recorded answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its description.
    pub desc: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body: a string is sent as text, other JSON verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// `Content-Type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `Accept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// Bearer token; `None` for anonymous.
    #[serde(default)]
    pub token: Option<String>,
    /// Other headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// For a watch: the most seconds to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_seconds: Option<u64>,
    /// The recorder's sleep before it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<u64>,
    /// Repeat until this condition holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// The recorded answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Recorded>,
}

/// The condition of a repeated step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// The status code.
    pub status: u16,
    /// The value at a JSON pointer of the body, if checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<(String, Value)>,
}

/// A real server's normalised answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The status code.
    pub status: u16,
    /// The compared headers, by lower-case name; warnings are a list.
    pub headers: BTreeMap<String, Value>,
    /// The body.
    pub body: Value,
}

impl From<Recorded> for Answer {
    fn from(recorded: Recorded) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Answer {
            status: recorded.status,
            content_type: recorded
                .headers
                .get("content-type")
                .and_then(text)
                .unwrap_or_default(),
            warnings: match recorded.headers.get("warning") {
                Some(Value::Array(warnings)) => warnings.iter().filter_map(text).collect(),
                Some(warning) => text(warning).into_iter().collect(),
                None => Vec::new(),
            },
            body: recorded.body,
        }
    }
}

impl From<Answer> for Recorded {
    fn from(answer: Answer) -> Self {
        let mut headers = BTreeMap::from([("content-type".to_owned(), Value::String(answer.content_type))]);
        if !answer.warnings.is_empty() {
            headers.insert("warning".to_owned(), answer.warnings.into());
        }
        Recorded {
            status: answer.status,
            headers,
            body: answer.body,
        }
    }
}

/// A played step.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The step's index, from 0.
    pub index: usize,
    /// The step.
    pub step: &'a Step,
    /// The raw answer.
    pub answer: Answer,
}

/// Loads the conformance format: a scenario per line.
///
/// # Errors
/// The file cannot be read, or a line is invalid.
pub fn load(path: &Path) -> Result<Vec<Scenario>, Error> {
    lines(path, "scenario")
}

fn lines<T: for<'de> Deserialize<'de>>(path: &Path, what: &'static str) -> Result<Vec<T>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.into(),
        source,
    })?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|source| Error::Format {
                path: path.into(),
                line: index + 1,
                what,
                source,
            })
        })
        .collect()
}

/// Plays a scenario and passes every exchange to `seen`, in order.
///
/// `settled` decides whether a repeated step has the expected answer.
///
/// # Errors
/// A request gets no answer, a captured value is missing, or the namespace cannot be created.
pub async fn play<'a>(
    sender: &Sender,
    scenario: &'a Scenario,
    mut settled: impl FnMut(usize, &Step, &Answer) -> bool,
    mut seen: impl FnMut(Exchange<'a>),
) -> Result<(), Error> {
    if let Some(namespace) = &scenario.namespace {
        make_namespace(sender, namespace).await?;
    }
    let mut captured: Vec<(String, String)> = Vec::new();
    for (index, step) in scenario.steps.iter().enumerate() {
        let call = step.call(&captured);
        let patience = match step.until {
            Some(_) => UNTIL_TIMEOUT,
            None => AWAIT_TIMEOUT,
        };
        let deadline = Instant::now() + patience + Duration::from_secs(step.sleep.unwrap_or(0));
        let answer = ask(sender, &call, deadline, |answer| match &step.until {
            Some(until) => until.holds(answer),
            None => step.sleep.is_none() || settled(index, step, answer),
        })
        .await
        .map_err(|source| Error::Wire {
            scenario: scenario.name.clone(),
            step: index,
            desc: step.desc.clone(),
            source,
        })?;
        for capture in scenario.captures.iter().filter(|capture| capture.step == index) {
            captured.push((
                format!("{{{{{}}}}}", capture.name),
                scenario.capture(capture, &answer)?,
            ));
        }
        seen(Exchange { index, step, answer });
    }
    Ok(())
}

async fn ask(
    sender: &Sender,
    call: &Call,
    deadline: Instant,
    mut done: impl FnMut(&Answer) -> bool,
) -> Result<Answer, wire::Error> {
    let mut interval = tokio::time::interval(AWAIT_INTERVAL);
    loop {
        interval.tick().await;
        let answer = sender.call(call).await?;
        if done(&answer) || Instant::now() > deadline {
            return Ok(answer);
        }
    }
}

/// Creates a namespace and waits for its default objects.
async fn make_namespace(sender: &Sender, name: &str) -> Result<(), Error> {
    let error = |last_seen: String| Error::Namespace {
        namespace: name.to_owned(),
        last_seen,
    };
    let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let create = admin(
        "POST",
        "/api/v1/namespaces".to_owned(),
        Some(body.to_string().into_bytes()),
    );
    let answer = sender
        .call(&create)
        .await
        .map_err(|source| error(source.to_string()))?;
    if answer.status != 201 {
        return Err(error(answer.body.to_string()));
    }
    for awaited in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let get = admin("GET", format!("/api/v1/namespaces/{name}/{awaited}"), None);
        let deadline = Instant::now() + UNTIL_TIMEOUT;
        let answer = ask(sender, &get, deadline, |answer| answer.status == 200)
            .await
            .map_err(|source| error(source.to_string()))?;
        if answer.status != 200 {
            return Err(error(answer.body.to_string()));
        }
    }
    Ok(())
}

fn admin(method: &str, path: String, body: Option<Vec<u8>>) -> Call {
    Call {
        method: method.to_owned(),
        path,
        content_type: body.is_some().then(|| "application/json".to_owned()),
        body,
        token: Some(ADMIN_TOKEN.to_owned()),
        ..Call::default()
    }
}

impl Scenario {
    fn capture(&self, capture: &Capture, answer: &Answer) -> Result<String, Error> {
        let pointer = format!("/{}", capture.path.replace('.', "/"));
        match answer.body.pointer(&pointer) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            _ => Err(Error::Capture {
                scenario: self.name.clone(),
                step: capture.step,
                path: capture.path.clone(),
                name: capture.name.clone(),
            }),
        }
    }
}

impl Step {
    fn call(&self, captured: &[(String, String)]) -> Call {
        let fill = |text: &str| {
            captured
                .iter()
                .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        Call {
            method: self.method.clone(),
            path: fill(&self.path),
            body: self
                .body
                .as_deref()
                .map(|body| fill(&wire_text(body)).into_bytes()),
            content_type: self.content_type.clone(),
            accept: self.accept.clone(),
            token: self.token.clone(),
            headers: self.headers.clone().unwrap_or_default().into_iter().collect(),
            watch: self.watch_seconds.map(Duration::from_secs),
        }
    }
}

fn wire_text(body: &RawValue) -> String {
    serde_json::from_str::<String>(body.get()).unwrap_or_else(|_| body.get().to_owned())
}

impl Until {
    fn holds(&self, answer: &Answer) -> bool {
        answer.status == self.status
            && self
                .at
                .as_ref()
                .is_none_or(|(pointer, value)| answer.body.pointer(pointer) == Some(value))
    }
}

#[cfg(test)]
mod tests;
