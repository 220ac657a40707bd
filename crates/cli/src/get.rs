//! `equate get`: lists objects and their status.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::interrupt::interrupted;
use crate::kinds::{Kind, KindError, Kinds, split_name};
use crate::objects::{self, Namespaces, RequestError, condition, names, text};
use crate::status;
use crate::table::{self, Table, Value};
use crate::watch::{self, Event, Selectors};
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_manifest::yaml;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::io::Write;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate get [OPTIONS] <KIND> [NAME]",
    after_help = "Examples:
  # List all Flux objects in all namespaces
  equate get all --all-namespaces
  # List the GitRepositories in one namespace
  equate get sources git -n shop
  # List the Kustomizations that are not ready
  equate get kustomizations -A --status-selector ready=false
  # List two objects
  equate get ks/apps gitrepo/fleet
  # Print one Kustomization as YAML
  equate get kustomization apps -o yaml"
)]
pub(crate) struct Args {
    /// Kind, such as `all`, `sources`, `sources git`, `ks` or `hr`; to get one object, add its name: `ks apps`; to get several: `ks/apps ks/infra`.
    #[arg(value_name = "KIND", required = true, num_args = 1..)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    form: Form,
    /// Show only objects that match this label selector, such as `app=web`.
    #[arg(
        short = 'l',
        long = "selector",
        visible_alias = "label-selector",
        value_name = "SELECTOR"
    )]
    selector: Option<String>,
    /// Show only objects with this status of a condition, such as `ready=false`.
    #[arg(long, value_name = "TYPE=STATUS", value_parser = status_selector)]
    status_selector: Option<(String, String)>,
    /// After listing, watch for changes until interrupted.
    #[arg(short, long)]
    watch: bool,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Scope {
    /// Namespace of the objects (default: `flux-system`).
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Select objects in all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

#[derive(Debug, Clone, Default, clap::Args)]
struct Form {
    /// Output format (default: a table).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
    /// Omit the table header.
    #[arg(long)]
    no_header: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Wide,
    Json,
    Yaml,
    Name,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{0} names one object: use --namespace instead of --all-namespaces")]
    NameInAllNamespaces(String),
    #[error("the cluster serves none of Flux's kinds")]
    NothingServed,
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
    #[error("could not write an object as JSON")]
    Json(#[source] serde_json::Error),
}

impl Failure for GetError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NothingServed => Some(objects::NOT_SERVED),
            Self::NameInAllNamespaces(_) | Self::Output(_) | Self::Json(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// The column of kinds without a controller in this program.
const REVISION: &str = "REVISION";

struct Query<'a> {
    client: &'a Client,
    kinds: Vec<Kind>,
    names: Names,
    namespaces: Namespaces,
    args: &'a Args,
}

enum Names {
    All,
    /// The objects of this name, of every kind.
    OfAll(String),
    Each(Vec<Named>),
}

#[derive(PartialEq, Eq)]
struct Named {
    kind: Kind,
    namespace: String,
    name: String,
}

impl Names {
    fn first(&self) -> Option<&String> {
        match self {
            Self::All => None,
            Self::OfAll(name) => Some(name),
            Self::Each(named) => named.first().map(|one| &one.name),
        }
    }

    fn has(&self, kind: &Kind, object: &DynamicObject) -> bool {
        let (namespace, name) = names(object);
        match self {
            Self::All => true,
            Self::OfAll(wanted) => wanted == name,
            Self::Each(named) => named
                .iter()
                .any(|one| one.kind == *kind && one.namespace == namespace && one.name == name),
        }
    }
}

/// The kinds, names and namespaces of the arguments: kinds, one object, or several `KIND/NAME`.
fn parse(kinds: &Kinds, args: &Args) -> Result<(Vec<Kind>, Names, Namespaces), GetError> {
    let (words, scope) = (&args.what, &args.scope);
    let split = |name: &str| match scope.split(name)? {
        (Namespaces::All, name) => Err(GetError::NameInAllNamespaces(name)),
        (Namespaces::One(namespace), name) => Ok((namespace, name)),
    };
    let (mut all, mut named): (Vec<Kind>, Vec<Named>) = (Vec::new(), Vec::new());
    if words.len() == 1 || !words.iter().all(|word| word.contains('/')) {
        let (kinds, name) = kinds.parse(words)?;
        let Some(name) = name else {
            return Ok((kinds, Names::All, scope.namespaces()));
        };
        let (namespace, name) = split(&name)?;
        if let [kind] = kinds.as_slice() {
            named.push(Named {
                kind: *kind,
                namespace,
                name,
            });
            all = kinds;
        } else {
            return Ok((kinds, Names::OfAll(name), Namespaces::One(namespace)));
        }
    } else {
        for word in words {
            let (kind, name) = kinds.parse_one(std::slice::from_ref(word))?;
            let (namespace, name) = split(&name.unwrap_or_default())?;
            let one = Named {
                kind,
                namespace,
                name,
            };
            if !all.contains(&kind) {
                all.push(kind);
            }
            if !named.contains(&one) {
                named.push(one);
            }
        }
    }
    let first = named.first().map(|one| one.namespace.clone());
    let first = first.filter(|first| named.iter().all(|one| one.namespace == *first));
    let namespaces = first.map_or(Namespaces::All, Namespaces::One);
    Ok((all, Names::Each(named), namespaces))
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), GetError> {
    let connection = args.cluster.connect_and_print().await?;
    let mut out = std::io::stdout();
    let end = async {
        if let Err(error) = interrupted().await {
            tracing::warn!(%error, "cannot listen for an interrupt");
        }
    };
    get(&connection.client, kinds, &args, &mut out, table::colour(), end).await
}

impl Scope {
    pub(crate) fn namespaces(&self) -> Namespaces {
        if self.all_namespaces {
            Namespaces::All
        } else {
            let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
            Namespaces::One(namespace.to_owned())
        }
    }

    /// The namespaces of an object that is called `NAME` or `NAMESPACE/NAME`, and its name.
    pub(crate) fn split(&self, name: &str) -> Result<(Namespaces, String), KindError> {
        let (namespace, name) = split_name(name, self.namespace.as_deref())?;
        let namespaces = match namespace {
            Some(namespace) if !self.all_namespaces => Namespaces::One(namespace.to_owned()),
            _ => self.namespaces(),
        };
        Ok((namespaces, name.to_owned()))
    }
}

async fn get(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    out: &mut (impl Write + Send),
    colour: bool,
    end: impl Future<Output = ()>,
) -> Result<(), GetError> {
    let (kinds, names, namespaces) = parse(kinds, args)?;
    let query = Query {
        client,
        kinds,
        names,
        namespaces,
        args,
    };
    let found = query.fetch().await?;
    if found.iter().all(|(_, objects)| objects.is_empty()) && !args.watch {
        let plurals: Vec<&str> = query.kinds.iter().map(|kind| kind.plural).collect();
        eprintln!("no {} {}", plurals.join(", "), query.namespaces);
    }
    let served: Vec<Kind> = found.iter().map(|(kind, _)| *kind).collect();
    if args.watch {
        query.watch(served, out, colour, end).await
    } else {
        let text = query.print(found, colour)?;
        out.write_all(text.as_bytes()).map_err(GetError::Output)
    }
}

impl Query<'_> {
    /// The objects by kind. If several kinds are requested, those that are not served are skipped.
    async fn fetch(&self) -> Result<Vec<(Kind, Vec<DynamicObject>)>, GetError> {
        if let Names::Each(named) = &self.names {
            let mut found: Vec<(Kind, Vec<DynamicObject>)> =
                self.kinds.iter().map(|kind| (*kind, Vec::new())).collect();
            for Named {
                kind,
                namespace,
                name,
            } in named
            {
                let object = objects::get(self.client, kind, namespace, name).await?;
                if let Some((_, objects)) = found.iter_mut().find(|(other, _)| other == kind) {
                    objects.push(object);
                }
            }
            return Ok(found);
        }
        let selector = self.args.selector.as_deref();
        let lists = stream::iter(self.kinds.clone())
            .map(|kind| async move {
                (
                    kind,
                    objects::list(self.client, &kind, &self.namespaces, selector, None).await,
                )
            })
            .buffered(self.kinds.len().max(1))
            .collect::<Vec<_>>()
            .await;
        let mut found = Vec::new();
        for (kind, list) in lists {
            match list {
                Ok(mut list) => {
                    list.retain(|object| self.selects(&kind, object));
                    found.push((kind, list));
                }
                Err(RequestError::NotServed(_)) if self.kinds.len() > 1 => {}
                Err(error) => return Err(error.into()),
            }
        }
        if found.is_empty() {
            return Err(GetError::NothingServed);
        }
        Ok(found)
    }

    fn selects(&self, kind: &Kind, object: &DynamicObject) -> bool {
        let named = self.names.has(kind, object);
        let selected = self.args.status_selector.as_ref().is_none_or(|(kind, status)| {
            let conditions = object.data["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                let is = |field: &str, text: &str| {
                    condition[field]
                        .as_str()
                        .is_some_and(|found| found.eq_ignore_ascii_case(text))
                };
                is("type", kind) && is("status", status)
            })
        });
        named && selected
    }

    fn print(&self, found: Vec<(Kind, Vec<DynamicObject>)>, colour: bool) -> Result<String, GetError> {
        let several = self.kinds.len() > 1;
        match self.args.form.output {
            None | Some(Output::Wide) => {
                let mut tables = Vec::new();
                for (kind, objects) in found.iter().filter(|(_, objects)| !objects.is_empty()) {
                    let columns = columns(std::slice::from_ref(kind));
                    let mut table = self.table(&columns, colour);
                    for object in objects {
                        table.row(self.row(kind, object, &columns, several));
                    }
                    tables.push(table.take());
                }
                Ok(tables.join("\n"))
            }
            Some(Output::Name) => Ok(found
                .iter()
                .flat_map(|(kind, objects)| objects.iter().map(|object| name_line(kind, object)))
                .collect()),
            Some(form) => {
                let mut objects = Vec::new();
                for object in found.into_iter().flat_map(|(_, objects)| objects) {
                    objects.push(shown(object)?);
                }
                let value = match (self.names.first().is_some(), objects.len()) {
                    (true, 1) => objects.remove(0),
                    _ => json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects}),
                };
                document(&value, form)
            }
        }
    }

    /// Prints the objects, then every change, until `end`.
    async fn watch(
        &self,
        kinds: Vec<Kind>,
        out: &mut (impl Write + Send),
        colour: bool,
        end: impl Future<Output = ()>,
    ) -> Result<(), GetError> {
        let several = self.kinds.len() > 1;
        let streams = kinds.iter().map(|kind| {
            let selectors = match &self.names {
                Names::Each(named) if named.len() == 1 => Selectors::named(&named[0].name),
                Names::OfAll(name) => Selectors::named(name),
                Names::Each(_) | Names::All => Selectors::default(),
            };
            let selectors = Selectors {
                labels: self.args.selector.clone(),
                ..selectors
            };
            let api = objects::api(self.client, kind, &self.namespaces);
            let stream = watch::watch(&api, selectors);
            stream.map(move |event| (*kind, event)).boxed()
        });
        let mut changes = stream::select_all(streams);
        let columns = columns(&kinds);
        let mut table = self.table(&columns, colour);
        let mut unlisted: HashSet<&str> = kinds.iter().map(|kind| kind.plural).collect();
        // a list after a gap repeats objects that did not change
        let mut versions: HashMap<Option<String>, u64> = HashMap::new();
        tokio::pin!(end);
        loop {
            let (kind, event) = tokio::select! {
                () = &mut end => return Ok(()),
                change = changes.next() => match change {
                    Some(change) => change,
                    None => return Ok(()),
                },
            };
            let items = match event {
                Ok(Event::Applied(item) | Event::Deleted(item)) => vec![item],
                Ok(Event::Listed(items)) => {
                    unlisted.remove(kind.plural);
                    items
                }
                Err(error) => {
                    let error = error.line();
                    eprintln!("watch of {} interrupted, retrying: {error}", kind.plural);
                    continue;
                }
            };
            for item in items {
                let is_new = versions.insert(item.value.uid(), item.version) != Some(item.version);
                let object = item.value;
                if !is_new || !self.selects(&kind, &object) {
                    continue;
                }
                match self.args.form.output {
                    None | Some(Output::Wide) => table.row(self.row(&kind, &object, &columns, several)),
                    Some(Output::Name) => {
                        let line = name_line(&kind, &object);
                        out.write_all(line.as_bytes()).map_err(GetError::Output)?;
                    }
                    Some(form) => {
                        let text = document(&shown(object)?, form)?;
                        let text = if form == Output::Yaml {
                            format!("---\n{text}")
                        } else {
                            text
                        };
                        out.write_all(text.as_bytes()).map_err(GetError::Output)?;
                    }
                }
            }
            if unlisted.is_empty() {
                self.flush(&mut table, out)?;
            }
        }
    }

    fn flush(&self, table: &mut Table, out: &mut impl Write) -> Result<(), GetError> {
        if !matches!(self.args.form.output, None | Some(Output::Wide)) {
            return Ok(());
        }
        let text = table.take();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(GetError::Output)
    }

    fn table(&self, columns: &Columns, colour: bool) -> Table {
        let mut header = Vec::new();
        if self.namespaces == Namespaces::All {
            header.push("NAMESPACE");
        }
        header.push("NAME");
        header.extend(&columns.first);
        header.extend(["SUSPENDED", "READY", "MESSAGE"]);
        header.extend(&columns.last);
        if self.wide() {
            header.extend(["AGE", "SOURCE"]);
        }
        let mut table = Table::new(header, colour);
        if self.args.form.no_header {
            table.without_header();
        }
        table
    }

    fn wide(&self) -> bool {
        self.args.form.output == Some(Output::Wide)
    }

    fn row(&self, kind: &Kind, object: &DynamicObject, columns: &Columns, several: bool) -> Vec<Value> {
        let (namespace, name) = names(object);
        let mut row = Vec::new();
        if self.namespaces == Namespaces::All {
            row.push(Value::plain(namespace));
        }
        row.push(Value::plain(match several {
            true => format!("{}/{name}", kind.singular()),
            false => name.to_owned(),
        }));
        let own = |header: &&'static str| {
            let text = cell(kind, object, header);
            Value::plain(if self.wide() { text } else { short(&text) })
        };
        row.extend(columns.first.iter().map(own));
        row.push(Value::plain(suspended(object)));
        let (ready, message) = readiness(kind, object);
        row.push(Value::status(ready));
        row.push(Value::plain(message));
        row.extend(columns.last.iter().map(own));
        if self.wide() {
            row.push(Value::plain(
                revision_time(object).map_or_else(String::new, |at| table::since(at, Timestamp::now())),
            ));
            row.push(Value::plain(source(object)));
        }
        row
    }
}

/// The headers of the columns that depend on the kinds.
#[derive(Default)]
struct Columns {
    /// Before the columns of every kind.
    first: Vec<&'static str>,
    /// After the message.
    last: Vec<&'static str>,
}

fn columns(kinds: &[Kind]) -> Columns {
    let mut all = Columns::default();
    for kind in kinds {
        let own: Vec<(&'static str, bool)> = match kind.controller {
            Some(about) => about
                .columns
                .iter()
                .map(|column| (column.header, column.is_after_message))
                .collect(),
            None => vec![(REVISION, false)],
        };
        for (header, is_last) in own {
            let headers = match is_last {
                true => &mut all.last,
                false => &mut all.first,
            };
            if !headers.contains(&header) {
                headers.push(header);
            }
        }
    }
    all
}

/// The text of a column; empty if the kind does not have it.
fn cell(kind: &Kind, object: &DynamicObject, header: &str) -> String {
    let Some(about) = kind.controller else {
        return if header == REVISION {
            revision(object)
        } else {
            String::new()
        };
    };
    let column = about.columns.iter().find(|column| column.header == header);
    let pointers = column.map_or(&[][..], |column| column.pointers);
    let values = pointers.iter().filter_map(|pointer| object.data.pointer(pointer));
    match values.into_iter().find(|value| !value.is_null()) {
        None => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The object's revision, whichever field its kind keeps it in.
pub(crate) fn revision(object: &DynamicObject) -> String {
    let status = &object.data["status"];
    let latest = &status["latestRef"];
    if let (Some(name), Some(tag)) = (latest["name"].as_str(), latest["tag"].as_str()) {
        return format!("{name}:{tag}");
    }
    let candidates = [
        &status["artifact"]["revision"],
        &status["lastAppliedRevision"],
        &status["history"][0]["chartVersion"],
        &status["lastScanResult"]["revision"],
        &status["observedSourceRevision"],
    ];
    let found = candidates.into_iter().find_map(|value| value.as_str());
    found.unwrap_or_default().to_owned()
}

/// A revision with its hash cut to eight digits, as Flux shows it.
pub(crate) fn short(revision: &str) -> String {
    let Some((before, hash)) = revision.rsplit_once(':') else {
        return revision.to_owned();
    };
    let is_hash = hash.len() >= 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match hash.get(..8) {
        Some(short) if is_hash => format!("{before}:{short}"),
        _ => revision.to_owned(),
    }
}

fn suspended(object: &DynamicObject) -> &'static str {
    match object.data["spec"]["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) | None => "False",
    }
}

/// The status of the Ready condition, and its text.
pub(crate) fn readiness<'a>(kind: &Kind, object: &'a DynamicObject) -> (&'a str, String) {
    let ready = condition(object, "Ready");
    match ready {
        Some(_) => {
            let status = text(ready, "status");
            let reason = match status {
                "True" => "",
                _ => text(ready, "reason"),
            };
            (status, status::line(reason, text(ready, "message")))
        }
        None if kind.is_unsupported() => ("Unknown", status::UNSUPPORTED.to_owned()),
        None if objects::is_static(kind, &object.data["spec"]) => ("True", objects::STATIC.to_owned()),
        None => ("Unknown", status::NOT_RECONCILED.to_owned()),
    }
}

/// The time of the object's revision, or of its creation if it has none.
fn revision_time(object: &DynamicObject) -> Option<Timestamp> {
    let status = &object.data["status"];
    let candidates = [
        &status["artifact"]["lastUpdateTime"],
        &status["history"][0]["firstReconciled"],
        &status["history"][0]["lastDeployed"],
        &status["lastScanResult"]["scanTime"],
    ];
    let times = candidates.into_iter().filter_map(|time| time.as_str());
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    times.filter_map(|time| time.parse().ok()).next().or(created)
}

fn source(object: &DynamicObject) -> String {
    let spec = &object.data["spec"];
    for reference in ["sourceRef", "chartRef", "imageRepositoryRef", "providerRef"] {
        if let Some(name) = spec[reference]["name"].as_str() {
            return match spec[reference]["kind"].as_str() {
                Some(kind) => format!("{kind}/{name}"),
                None => name.to_owned(),
            };
        }
    }
    let address = ["url", "endpoint", "image"]
        .into_iter()
        .find_map(|field| spec[field].as_str());
    address.unwrap_or_default().to_owned()
}

fn name_line(kind: &Kind, object: &DynamicObject) -> String {
    format!("{}/{}\n", kind.qualified(), names(object).1)
}

fn shown(mut object: DynamicObject) -> Result<serde_json::Value, GetError> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).map_err(GetError::Json)
}

fn document(value: &serde_json::Value, form: Output) -> Result<String, GetError> {
    match form {
        Output::Yaml => Ok(yaml::to_string(value)),
        Output::Json | Output::Wide | Output::Name => {
            let text = serde_json::to_string_pretty(value).map_err(GetError::Json)?;
            Ok(format!("{text}\n"))
        }
    }
}

fn status_selector(text: &str) -> Result<(String, String), String> {
    let parts = text
        .split_once('=')
        .filter(|(kind, status)| !kind.is_empty() && !status.is_empty());
    let (kind, status) = parts.ok_or("expected TYPE=STATUS, such as ready=false")?;
    Ok((kind.to_owned(), status.to_owned()))
}

#[cfg(test)]
mod tests;
