//! `equate logs`: prints the controllers' logs by object, like `flux logs`; of a running `equate up`, its
//! events, because it has no pods.

use super::PART_OF_FLUX;
use crate::connection::{self, ConnectError, Connection};
use crate::events;
use crate::failure::{Failure, chain, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::Kinds;
use crate::objects::{Namespaces, RequestError};
use equate_api::meta::{DEFAULT_NAMESPACE, Duration};
use futures::{AsyncBufReadExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use serde::Deserialize;
use std::io::Write;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Print the logs about all objects
  equate logs --all-namespaces
  # Print the errors of the last two minutes
  equate logs -A --level error --since 2m
  # Follow the logs about one Kustomization
  equate logs --kind Kustomization --name apps --follow")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Show only this level.
    #[arg(long, value_enum, value_name = "LEVEL")]
    level: Option<Level>,
    /// Show only objects of this kind, such as `Kustomization`.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Show only objects of this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// After printing, follow the logs until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Number of recent lines of each controller to read (default: all).
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,
    /// Show only lines newer than this, such as `5s`, `2m` or `3h`.
    #[arg(long, value_name = "DURATION", conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Show only lines after this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    since_time: Option<Timestamp>,
    /// Namespace of the controllers.
    #[arg(long, default_value = DEFAULT_NAMESPACE, value_name = "NAMESPACE")]
    flux_namespace: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    Debug,
    Info,
    Error,
}

impl Level {
    fn text(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogsError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("no controllers found in namespace {0} with the label {PART_OF_FLUX}")]
    NoControllers(String),
    #[error("`equate logs` cannot follow an `equate up`, which has events and no logs")]
    FollowUp,
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for LogsError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NoControllers(_) => Some("select their namespace with --flux-namespace"),
            Self::FollowUp => Some("follow its events with `equate events --watch`"),
            Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// A line in Flux's format; other lines are not about an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    ts: String,
    level: String,
    msg: String,
    error: String,
    #[serde(rename = "controllerKind", alias = "reconciler kind")]
    kind: String,
    name: String,
    namespace: String,
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), LogsError> {
    let connection = args.cluster.connect_and_print().await?;
    let mut out = std::io::stdout();
    match connection.is_up() {
        true if args.follow => Err(LogsError::FollowUp),
        true => of_events(&connection, kinds, &args, &mut out).await,
        false => of_pods(&connection, &args, &mut out).await,
    }
}

impl Args {
    fn admits(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let here = match self.scope.namespaces() {
            Namespaces::All => true,
            Namespaces::One(namespace) => namespace.eq_ignore_ascii_case(&entry.namespace),
        };
        here && is(&self.kind, &entry.kind)
            && is(&self.name, &entry.name)
            && self.level.is_none_or(|level| level.text() == entry.level)
    }
}

impl Entry {
    /// One line; none if it is not wanted or not an entry.
    pub(super) fn format(line: &str, args: &Args) -> Option<String> {
        let entry: Self = serde_json::from_str(line).ok()?;
        args.admits(&entry).then(|| entry.line())
    }

    fn line(&self) -> String {
        let about = match self.name.is_empty() {
            true => self.kind.clone(),
            false => format!("{}/{}.{}", self.kind, self.name, self.namespace),
        };
        let text = format!("{} {} {about} - {} {}", self.ts, self.level, self.msg, self.error);
        // a terminal would obey control characters
        text.trim_end()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }
}

async fn of_pods(connection: &Connection, args: &Args, out: &mut impl Write) -> Result<(), LogsError> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &args.flux_namespace);
    let pods = api.list(&ListParams::default().labels(PART_OF_FLUX)).await;
    let pods = pods.map_err(|source| RequestError::Failed {
        verb: "list",
        what: format!("pods in namespace {}", args.flux_namespace),
        source: Box::new(source),
    })?;
    if pods.items.is_empty() {
        return Err(LogsError::NoControllers(args.flux_namespace.clone()));
    }
    let parameters = LogParams {
        follow: args.follow,
        tail_lines: args.tail.map(i64::from),
        since_seconds: args
            .since
            .map(|since| i64::try_from(since.get().as_secs()).unwrap_or(i64::MAX).max(1)),
        since_time: args.since_time,
        ..LogParams::default()
    };
    let mut lines = Vec::new();
    for pod in &pods.items {
        let name = pod.name_any();
        let stream = api.log_stream(&name, &parameters).await;
        let stream = stream.map_err(|source| RequestError::Failed {
            verb: "read",
            what: format!("the logs of pod {name}"),
            source: Box::new(source),
        })?;
        lines.push(stream.lines().boxed());
    }
    if args.follow {
        let mut all = stream::select_all(lines);
        while let Some(line) = all.next().await {
            print(line, args, out)?;
        }
        return Ok(());
    }
    for mut lines in lines {
        while let Some(line) = lines.next().await {
            print(line, args, out)?;
        }
    }
    Ok(())
}

fn print(line: std::io::Result<String>, args: &Args, out: &mut impl Write) -> Result<(), LogsError> {
    match line {
        Ok(line) => match Entry::format(&line, args) {
            Some(line) => writeln!(out, "{line}").map_err(LogsError::Output),
            None => Ok(()),
        },
        Err(error) => {
            eprintln!("a log ended early: {}", chain(&error));
            Ok(())
        }
    }
}

pub(super) async fn of_events(
    connection: &Connection,
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
) -> Result<(), LogsError> {
    let api: Api<Event> = match args.scope.namespaces() {
        Namespaces::One(namespace) => Api::namespaced(connection.client.clone(), &namespace),
        Namespaces::All => Api::all(connection.client.clone()),
    };
    let found = api.list(&ListParams::default()).await;
    let mut found = found.map_err(|source| RequestError::Failed {
        verb: "list",
        what: "events".to_owned(),
        source: Box::new(source),
    })?;
    found.items.sort_by_key(events::order);
    let since = args.since.map(|since| Timestamp::now() - since.get());
    let since = since.or(args.since_time);
    let mut lines = Vec::new();
    for event in found.items {
        let object = &event.involved_object;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let version = text(&object.api_version);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let when = events::last_seen(&event);
        if kinds.find(group, &text(&object.kind)).is_none() || when < since {
            continue;
        }
        let entry = Entry {
            ts: when.map(|when| when.to_string()).unwrap_or_default(),
            level: match event.type_.as_deref() {
                Some("Warning") => "error".to_owned(),
                _ => "info".to_owned(),
            },
            msg: events::one_line(event.message.as_deref().unwrap_or_default()),
            error: String::new(),
            kind: text(&object.kind),
            name: text(&object.name),
            namespace: text(&object.namespace),
        };
        if args.admits(&entry) {
            lines.push(entry.line());
        }
    }
    let first = args
        .tail
        .map_or(0, |tail| lines.len().saturating_sub(tail as usize));
    for line in &lines[first..] {
        writeln!(out, "{line}").map_err(LogsError::Output)?;
    }
    Ok(())
}
