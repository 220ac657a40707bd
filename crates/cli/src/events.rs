//! `equate events`: lists the Events of controllers, oldest first.

use crate::connection::{self, ConnectError};
use crate::document::{Form, document};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::interrupt::interrupted;
use crate::kinds::{KindError, Kinds};
use crate::objects::{self, Namespaces, RequestError};
use crate::reconcile::source;
use crate::table::{self, Table, Value};
use crate::watch::{self, Event as Change, Selectors};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use std::collections::HashSet;
use std::io::Write;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # List the events of Flux objects, oldest first
  equate events
  # List the events of a Kustomization and its source
  equate events --for Kustomization/apps
  # Watch the warnings in all namespaces
  equate events --all-namespaces --types Warning --watch")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Show only events of this object, such as `Kustomization/apps`, and of its source.
    #[arg(long = "for", value_name = "KIND/NAME")]
    object: Option<String>,
    /// Show only events of these types: `Normal`, `Warning`.
    #[arg(long, value_delimiter = ',', value_name = "TYPE,...")]
    types: Vec<String>,
    /// After listing, watch for new events until interrupted.
    #[arg(short, long)]
    watch: bool,
    /// Output format (default: a table); with --watch, one document for each event.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
    /// Omit the table header.
    #[arg(long)]
    no_header: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EventsError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("--for expects KIND/NAME, got {0:?}")]
    For(String),
    #[error("--for names an object of one namespace: use --namespace instead of --all-namespaces")]
    AllNamespaces,
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not write an event as JSON")]
    Json(#[source] serde_json::Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for EventsError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::For(_) | Self::AllNamespaces | Self::Json(_) | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// An object whose events are listed: kind, namespace, name.
type Subject = (&'static str, String, String);

struct Filter<'a> {
    kinds: &'a Kinds,
    subjects: Option<Vec<Subject>>,
    types: &'a [String],
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), EventsError> {
    let connection = args.cluster.connect_and_print().await?;
    let mut out = std::io::stdout();
    let end = async {
        if let Err(error) = interrupted().await {
            tracing::warn!(%error, "cannot listen for an interrupt");
        }
    };
    events(&connection.client, kinds, &args, &mut out, table::colour(), end).await
}

async fn events(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    out: &mut (impl Write + Send),
    colour: bool,
    end: impl Future<Output = ()>,
) -> Result<(), EventsError> {
    let (namespaces, subjects) = subjects(client, kinds, args).await?;
    let filter = Filter {
        kinds,
        subjects,
        types: &args.types,
    };
    // the events of an object are in its namespace; those of its source may be in another
    let api: Api<Event> = match &namespaces {
        Namespaces::One(namespace) if !filter.spans(namespace) => Api::namespaced(client.clone(), namespace),
        Namespaces::One(_) | Namespaces::All => Api::all(client.clone()),
    };
    let wide = namespaces == Namespaces::All;
    let mut header = if wide { vec!["NAMESPACE"] } else { Vec::new() };
    header.extend(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    let mut table = Table::new(header, colour);
    if args.no_header {
        table.without_header();
    }
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(|source| RequestError::Failed {
            verb: "list",
            what: format!("events {namespaces}"),
            source: Box::new(source),
        })?;
    let mut found: Vec<Event> = list
        .items
        .into_iter()
        .filter(|event| filter.admits(event))
        .collect();
    found.sort_by_key(order);
    if found.is_empty() && !args.watch {
        eprintln!("no events {namespaces}");
    }
    if let (Some(form), false) = (args.output, args.watch) {
        let items: Vec<serde_json::Value> = found.into_iter().map(shown).collect::<Result<_, _>>()?;
        let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
        return say(out, &document(&list, form));
    }
    if found.is_empty() && !args.watch {
        return Ok(());
    }
    let mut print = |events: Vec<Event>| match args.output {
        Some(form) => say(out, &stream(events, form)?),
        None => {
            for event in &events {
                table.row(row(event, wide));
            }
            say(out, &table.take())
        }
    };
    let mut seen: HashSet<_> = found.iter().map(version).collect();
    print(found)?;
    if !args.watch {
        return Ok(());
    }
    let mut changes = watch::watch(&api, Selectors::default()).boxed();
    tokio::pin!(end);
    loop {
        let change = tokio::select! {
            () = &mut end => return Ok(()),
            change = changes.next() => change,
        };
        let items = match change {
            Some(Ok(Change::Applied(item))) => vec![item],
            Some(Ok(Change::Listed(items))) => items,
            Some(Ok(Change::Deleted(_))) => continue,
            Some(Err(error)) => {
                eprintln!("watch of events interrupted, retrying: {}", error.line());
                continue;
            }
            None => return Ok(()),
        };
        for event in items.into_iter().map(|item| item.value) {
            // the watch begins with the listed events
            if filter.admits(&event) && seen.insert(version(&event)) {
                print(vec![event])?;
            }
        }
    }
}

async fn subjects(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
) -> Result<(Namespaces, Option<Vec<Subject>>), EventsError> {
    let Some(said) = &args.object else {
        return Ok((args.scope.namespaces(), None));
    };
    let (kind, name) = kinds.parse_one(std::slice::from_ref(said))?;
    let name = name.ok_or_else(|| EventsError::For(said.clone()))?;
    let (Namespaces::One(namespace), name) = args.scope.split(&name)? else {
        return Err(EventsError::AllNamespaces);
    };
    let mut subjects = vec![(kind.kind, namespace.clone(), name.clone())];
    match objects::get(client, &kind, &namespace, &name).await {
        Ok(object) => {
            if let Ok((kind, namespace, name)) = source(kinds, &kind, &object) {
                subjects.push((kind.kind, namespace, name));
            }
        }
        // events outlive their object
        Err(RequestError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((Namespaces::One(namespace), Some(subjects)))
}

impl Filter<'_> {
    fn spans(&self, namespace: &str) -> bool {
        self.subjects
            .iter()
            .flatten()
            .any(|(_, other, _)| other != namespace)
    }

    fn admits(&self, event: &Event) -> bool {
        let object = &event.involved_object;
        let field = |field: &Option<String>| field.clone().unwrap_or_default();
        let kind = field(&object.kind);
        let ours = match &self.subjects {
            Some(subjects) => subjects.iter().any(|(of, namespace, name)| {
                *of == kind && *namespace == field(&object.namespace) && *name == field(&object.name)
            }),
            None => {
                let group = field(&object.api_version);
                let group = group.split_once('/').map_or("", |(group, _)| group);
                self.kinds.find(group, &kind).is_some()
            }
        };
        let said = event.type_.as_deref().unwrap_or_default();
        ours && (self.types.is_empty() || self.types.iter().any(|wanted| wanted.eq_ignore_ascii_case(said)))
    }
}

pub(crate) fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
    let last = event
        .last_timestamp
        .as_ref()
        .or(event.first_timestamp.as_ref())
        .map(|time| time.0);
    micro
        .max(last)
        .or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The order of events. Most have the time of a second, so the later write comes last.
pub(crate) fn order(event: &Event) -> (Option<i64>, u64) {
    let version = event.metadata.resource_version.as_deref();
    let version = version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default();
    (last_seen(event).map(Timestamp::as_second), version)
}

fn row(event: &Event, wide: bool) -> Vec<Value> {
    let object = &event.involved_object;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let mut row = Vec::new();
    if wide {
        row.push(Value::plain(text(&event.metadata.namespace)));
    }
    row.push(Value::plain(seen(event, Timestamp::now())));
    row.push(Value::plain(text(&event.type_)));
    row.push(Value::plain(text(&event.reason)));
    row.push(Value::plain(format!(
        "{}/{}",
        text(&object.kind),
        text(&object.name)
    )));
    row.push(Value::plain(one_line(
        event.message.as_deref().unwrap_or_default(),
    )));
    row
}

/// The lines of a message, such as one for each object, as a list.
pub(crate) fn one_line(message: &str) -> String {
    let mut line = String::new();
    for next in message.lines().map(str::trim).filter(|next| !next.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with([':', ',', ';']) {
                " "
            } else {
                "; "
            });
        }
        line.push_str(next);
    }
    line
}

/// The time of the last occurrence; for a repeated event also the count and the first time.
fn seen(event: &Event, now: Timestamp) -> String {
    let last = last_seen(event).map_or_else(|| "unknown".to_owned(), |at| table::since(at, now));
    let count = event
        .series
        .as_ref()
        .and_then(|series| series.count)
        .or(event.count);
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    let first = first.or(event.event_time.as_ref().map(|time| time.0));
    match (count, first) {
        (Some(count), Some(first)) if count > 1 => {
            format!("{last} (x{count} over {})", table::since(first, now))
        }
        _ => last,
    }
}

fn version(event: &Event) -> (Option<String>, Option<String>) {
    (event.uid(), event.resource_version())
}

fn shown(mut event: Event) -> Result<serde_json::Value, EventsError> {
    event.metadata.managed_fields = None;
    serde_json::to_value(event).map_err(EventsError::Json)
}

fn stream(events: Vec<Event>, form: Form) -> Result<String, EventsError> {
    let mut text = String::new();
    for event in events {
        if form == Form::Yaml {
            text.push_str("---\n");
        }
        text.push_str(&document(&shown(event)?, form));
    }
    Ok(text)
}

fn say(out: &mut impl Write, text: &str) -> Result<(), EventsError> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(EventsError::Output)
}

#[cfg(test)]
mod tests;
