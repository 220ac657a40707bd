//! Requests about the containers of a pod. None runs here: `log` answers with the declared log of a
//! simulated container, the others say so.

use super::{Call, respond};
use crate::builtin::tree::{get, items, text};
use crate::controllers;
use crate::field::FieldError;
use crate::pipeline::{Api, Target};
use crate::status::{ApiError, Details};
use crate::store::{EventKind, Key, Snapshot, Subscription};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const NOTHING_DECLARED: &str = "no container runs here: declare the log of the simulated one with the annotation equate.dev/simulate-log";

/// The parameters of a request for a log.
#[derive(Debug, Default)]
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    bytes_max: Option<usize>,
    /// Without the standard output, on which simulated containers write.
    only_errors: bool,
}

impl Call<'_> {
    /// `log`, `exec`, `attach` and `portforward` of a pod.
    pub(super) fn container(&self, target: &Target, request: &str) -> Result<Response, ApiError> {
        let snapshot = &self.view.snapshot;
        let pod = snapshot.get(&target.key()).ok_or_else(|| target.not_found())?;
        let simulated = self.api().settings.node.is_some();
        if request == "log" && simulated {
            return self.log(target, pod.object());
        }
        let hint = match simulated {
            true => "the workloads are simulated; `kubectl logs` shows declared logs",
            false => "this API only stores pods",
        };
        let action = match request {
            "exec" => "run a command in",
            "attach" => "attach to",
            "portforward" => "forward ports of",
            _ => "read the log of",
        };
        let name = &target.name;
        let why = format!("cannot {action} pod {name:?}: no container runs here, {hint}");
        Err(ApiError::new(
            501,
            "NotImplemented",
            why,
            Some(Details::default()),
        ))
    }

    fn log(&self, target: &Target, pod: &Value) -> Result<Response, ApiError> {
        let options = self.log_options()?;
        let name = container_name(pod, self.query.get("container").unwrap_or_default())?;
        if text(pod, "spec.nodeName").is_empty() {
            return Ok(plain(StatusCode::NO_CONTENT, Body::empty()));
        }
        let (started, running) = state(pod, &name, options.previous)?;
        let snapshot = &self.view.snapshot;
        let declared = controllers::log(snapshot, pod, &name);
        let log = declared.unwrap_or_default();
        let start = options.select(log, started);
        let body = match options.follow && running {
            false => Body::from(start),
            true => {
                let follower = Follower {
                    api: Arc::clone(&self.server.api),
                    key: target.key(),
                    container: name,
                    timestamps: options.timestamps.then_some(started),
                    written: log.to_owned(),
                    first: Some(start),
                    events: subscribe(self.api(), target, snapshot)?,
                };
                let next = |mut follower: Follower| async move {
                    let chunk = follower.next().await?;
                    Some((Ok::<_, Infallible>(Bytes::from(chunk)), follower))
                };
                Body::from_stream(futures::stream::unfold(follower, next))
            }
        };
        let mut response = plain(StatusCode::OK, body);
        if declared.is_none() {
            respond::warn(response.headers_mut(), &[NOTHING_DECLARED.to_owned()]);
        }
        Ok(response)
    }

    fn log_options(&self) -> Result<LogOptions, ApiError> {
        let mut errors = Vec::new();
        let mut number = |name: &str, low: i64, why: &str| -> Result<Option<i64>, ApiError> {
            let Some(given) = self.query.get(name).filter(|given| !given.is_empty()) else {
                return Ok(None);
            };
            let number: i64 = given.parse().map_err(|_| {
                ApiError::bad_request(format!("strconv.ParseInt: parsing {given:?}: invalid syntax"))
            })?;
            if number < low {
                errors.push(FieldError::invalid(name, &json!(number), why));
            }
            Ok(Some(number))
        };
        let tail = number("tailLines", 0, "must be greater than or equal to 0")?;
        let bytes_max = number("limitBytes", 1, "must be greater than 0")?;
        let seconds = number("sinceSeconds", 1, "must be greater than 0")?;
        let since_time = self.query.get("sinceTime").filter(|given| !given.is_empty());
        let since_time: Option<Timestamp> = match since_time.map(str::parse) {
            None => None,
            Some(Ok(time)) => Some(time),
            Some(Err(error)) => return Err(ApiError::bad_request(format!("sinceTime: {error}"))),
        };
        if since_time.is_some() && seconds.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", why));
        }
        let stream = self.query.get("stream").unwrap_or("All");
        if !["All", "Stdout", "Stderr"].contains(&stream) {
            errors.push(FieldError::not_supported(
                "stream",
                &json!(stream),
                &["All", "Stderr", "Stdout"],
            ));
        } else if stream != "All" && tail.is_some() {
            let why = "`tailLines` and specific `stream` are mutually exclusive for now";
            errors.push(FieldError::forbidden("", why));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("", "PodLogOptions", "", &errors));
        }
        let ago = seconds.map(|seconds| (self.api().clock)() - SignedDuration::from_secs(seconds));
        Ok(LogOptions {
            follow: self.query.flag("follow"),
            previous: self.query.flag("previous"),
            timestamps: self.query.flag("timestamps"),
            since: since_time.or(ago),
            tail: tail.and_then(|lines| usize::try_from(lines).ok()),
            bytes_max: bytes_max.and_then(|bytes| usize::try_from(bytes).ok()),
            only_errors: stream == "Stderr",
        })
    }
}

impl LogOptions {
    /// The asked part of a log. A simulated container writes it at its start.
    fn select(&self, log: &str, started: Timestamp) -> String {
        if self.only_errors || self.since.is_some_and(|since| started < since) {
            return String::new();
        }
        let lines: Vec<&str> = log.lines().collect();
        let skipped = self.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
        let mut out = written(&lines[skipped..], self.timestamps.then_some(started));
        if let Some(max) = self.bytes_max.filter(|max| *max < out.len()) {
            let end = (0..=max).rev().find(|end| out.is_char_boundary(*end));
            out.truncate(end.unwrap_or(0));
        }
        out
    }
}

fn written(lines: &[&str], time: Option<Timestamp>) -> String {
    let stamp = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string());
    let stamp = stamp.unwrap_or_default();
    lines.iter().map(|line| format!("{stamp}{line}\n")).collect()
}

fn plain(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    let cache = HeaderValue::from_static("no-cache, private");
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    response
}

/// The asked container, or the only one.
fn container_name(pod: &Value, asked: &str) -> Result<String, ApiError> {
    let name = text(pod, "metadata.name");
    let names = |list: &str| -> Vec<&str> {
        let containers = items(get(pod, "spec"), list).iter();
        containers.map(|container| text(container, "name")).collect()
    };
    if !asked.is_empty() {
        let known = CONTAINER_LISTS.iter().any(|list| names(list).contains(&asked));
        return match known {
            true => Ok(asked.to_owned()),
            false => Err(ApiError::bad_request(format!(
                "container {asked} is not valid for pod {name}"
            ))),
        };
    }
    let [containers, initial, ephemeral] = CONTAINER_LISTS.map(names);
    if let [only] = containers[..]
        && initial.is_empty()
        && ephemeral.is_empty()
    {
        return Ok(only.to_owned());
    }
    let mut why = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]",
        containers.join(" ")
    );
    for (kind, names) in [("init", initial), ("ephemeral", ephemeral)] {
        if !names.is_empty() {
            why.push_str(&format!(
                " or one of the {kind} containers: [{}]",
                names.join(" ")
            ));
        }
    }
    Err(ApiError::bad_request(why))
}

/// The start of the run whose log is asked for, and whether it goes on. The texts are the kubelet's.
fn state(pod: &Value, name: &str, previous: bool) -> Result<(Timestamp, bool), ApiError> {
    let shown = text(pod, "metadata.name");
    let refused = |why: String| Err(ApiError::bad_request(why));
    let lists = ["status.containerStatuses", "status.initContainerStatuses"];
    let mut statuses = lists.into_iter().flat_map(|list| items(pod, list));
    let Some(status) = statuses.find(|status| text(status, "name") == name) else {
        let mut ephemeral = items(pod, "status.ephemeralContainerStatuses").iter();
        // `kubectl debug` follows the log after a refused attach, and would wait for ever.
        if ephemeral.any(|status| text(status, "name") == name) {
            return refused(format!(
                "debug container {name:?} in pod {shown:?} has no log: no container runs here"
            ));
        }
        return refused(format!("container {name:?} in pod {shown:?} is not available"));
    };
    let start = |path: &str| {
        let start: Option<Timestamp> = text(status, path).parse().ok();
        start.unwrap_or(Timestamp::UNIX_EPOCH)
    };
    let last = !get(status, "lastState.terminated").is_null();
    let waiting = text(status, "state.waiting.reason");
    if previous {
        return match last {
            true => Ok((start("lastState.terminated.startedAt"), false)),
            false => refused(format!(
                "previous terminated container {name:?} in pod {shown:?} not found"
            )),
        };
    }
    if !get(status, "state.running").is_null() {
        return Ok((start("state.running.startedAt"), true));
    }
    if !get(status, "state.terminated").is_null() {
        return Ok((start("state.terminated.startedAt"), false));
    }
    if last {
        return Ok((start("lastState.terminated.startedAt"), false));
    }
    let why = match waiting {
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    refused(format!(
        "container {name:?} in pod {shown:?} is waiting to start: {why}"
    ))
}

fn subscribe(api: &Api, target: &Target, snapshot: &Snapshot) -> Result<Subscription, ApiError> {
    let resource = target.resource.storage();
    api.store
        .subscribe(&resource, snapshot.revision())
        .map_err(|error| ApiError::expired(error.to_string()))
}

/// A log that is followed: text that is declared later is added, the end of the container ends it.
struct Follower {
    api: Arc<Api>,
    key: Key,
    container: String,
    timestamps: Option<Timestamp>,
    written: String,
    first: Option<String>,
    events: Subscription,
}

impl Follower {
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        loop {
            let events = self.events.next().await.ok()?;
            for event in events.iter().filter(|event| event.key == self.key) {
                let pod = event.entry.view();
                let ended = event.kind == EventKind::Deleted
                    || !matches!(state(&pod, &self.container, false), Ok((_, true)));
                if ended {
                    return None;
                }
                let snapshot = self.api.store.snapshot();
                let log = controllers::log(&snapshot, &pod, &self.container).unwrap_or_default();
                let added = log.strip_prefix(self.written.as_str()).unwrap_or_default();
                let lines: Vec<&str> = added.lines().filter(|line| !line.is_empty()).collect();
                let chunk = written(&lines, self.timestamps);
                if !chunk.is_empty() {
                    log.clone_into(&mut self.written);
                    return Some(chunk);
                }
            }
        }
    }
}
