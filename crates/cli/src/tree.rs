//! `equate tree`: shows the objects that a Kustomization or a HelmRelease applied, and their health.

mod release;

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds, with_article};
use crate::objects::{self, Namespaces, RequestError};
use crate::schemaless::{self, GroupKind};
use crate::status::{self, StatusText};
use crate::table::{self, Table, Value};
use crate::up::{State, state_and_message};
use equate_apply::cluster::{ApplyError, Cluster};
use equate_apply::health::{self, Health};
use equate_apply::id::{ObjectId, ParseIdError};
use equate_manifest::object::Object;
use equate_manifest::yaml;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Client;
use kube::api::DynamicObject;
use release::ChartSeen;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const READS_MAX: usize = 16;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate tree [OPTIONS] <KIND> <NAME>",
    // a tree has one root
    mut_arg("all_namespaces", |arg| arg.hide(true)),
    after_help = "Examples:
  # Show all objects below a Kustomization
  equate tree kustomization flux-system
  # Show the chart of a release, and the objects that it holds
  equate tree helmrelease web -n shop
  # Show only the Flux objects below it
  equate tree ks/flux-system --compact"
)]
pub(crate) struct Args {
    /// Kustomization or HelmRelease to show, such as `kustomization apps`, `ks/apps` or `hr/web`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Show only Flux objects, such as Kustomizations and HelmReleases.
    #[arg(long)]
    compact: bool,
    /// Output format (default: a tree).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
    Yaml,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("{} has no inventory to show; choose a {others}", with_article(.kind))]
    NoInventory { kind: &'static str, others: String },
    #[error("missing the name of the {0}")]
    MissingName(&'static str),
    #[error("{} is in one namespace: use --namespace instead of --all-namespaces", with_article(.0))]
    AllNamespaces(&'static str),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not read {id}")]
    Read {
        id: ObjectId,
        #[source]
        source: Box<ApplyError>,
    },
    #[error("could not read the inventory of {kind} {namespace}/{name}")]
    Inventory {
        kind: &'static str,
        namespace: String,
        name: String,
        #[source]
        source: ParseIdError,
    },
    #[error("could not list the definitions of the cluster")]
    Definitions(#[source] kube::Error),
    #[error("could not write the tree as JSON")]
    Json(#[source] serde_json::Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for TreeError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NoInventory { .. }
            | Self::MissingName(_)
            | Self::AllNamespaces(_)
            | Self::Read { .. }
            | Self::Inventory { .. }
            | Self::Definitions(_)
            | Self::Json(_)
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

#[derive(Debug)]
struct Node {
    id: ObjectId,
    /// Of a HelmRelease with a release.
    chart: Option<ChartSeen>,
    /// Why objects may be missing below it.
    unknown: Option<String>,
    health: Health,
    children: Vec<Node>,
}

struct Reader<'a> {
    client: Client,
    cluster: Cluster,
    kinds: &'a Kinds,
    compact: bool,
    in_up: bool,
    schemaless: BTreeSet<GroupKind>,
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), TreeError> {
    let connection = args.cluster.connect_and_print().await?;
    tree(
        (&connection.client, connection.is_up()),
        kinds,
        &args,
        &mut std::io::stdout(),
        table::colour(),
    )
    .await
}

async fn tree(
    (client, in_up): (&Client, bool),
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
    colour: bool,
) -> Result<(), TreeError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    if !kind.has_inventory() {
        let others = kinds.iter().filter(|kind| kind.has_inventory());
        let others: Vec<&str> = others.map(|kind| kind.kind).collect();
        return Err(TreeError::NoInventory {
            kind: kind.kind,
            others: others.join(" or a "),
        });
    }
    let name = name.ok_or(TreeError::MissingName(kind.kind))?;
    let (Namespaces::One(namespace), name) = args.scope.split(&name)? else {
        return Err(TreeError::AllNamespaces(kind.kind));
    };
    let reader = Reader {
        client: client.clone(),
        cluster: Cluster::new(client.clone()),
        kinds,
        compact: args.compact,
        in_up,
        schemaless: match in_up {
            true => schemaless::kinds(client).await.map_err(TreeError::Definitions)?,
            false => BTreeSet::new(),
        },
    };
    let root = objects::get(client, &kind, &namespace, &name).await?;
    let node = reader.owner(kind, root, BTreeSet::new()).await?;
    let text = match args.output {
        None => render(&node, colour),
        Some(Output::Yaml) => yaml::to_string(&data(&node)),
        Some(Output::Json) => serde_json::to_string_pretty(&data(&node)).map_err(TreeError::Json)? + "\n",
    };
    out.write_all(text.as_bytes()).map_err(TreeError::Output)
}

impl Reader<'_> {
    /// An object that applied others, with everything below it. `above` are its ancestors, which end a cycle.
    fn owner(
        &self,
        kind: Kind,
        object: DynamicObject,
        mut above: BTreeSet<ObjectId>,
    ) -> BoxFuture<'_, Result<Node, TreeError>> {
        Box::pin(async move {
            let (namespace, name) = objects::names(&object);
            let id = ObjectId::new(kind.group, kind.kind, namespace, name);
            above.insert(id.clone());
            let entries = inventory(&object).map_err(|source| TreeError::Inventory {
                kind: kind.kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                source,
            })?;
            let remote = object.data["spec"]["kubeConfig"].is_object();
            let is_release = kind.kind == release::KIND;
            let (entries, unknown) = match is_release && entries.is_empty() {
                true => match self.recorded(&object).await {
                    Ok(recorded) => (recorded, None),
                    Err(why) => (Vec::new(), Some(format!("its objects are not known: {why}"))),
                },
                false => (entries, None),
            };
            let wanted = entries
                .into_iter()
                .filter(|(id, _)| !self.compact || self.kinds.find(&id.group, &id.kind).is_some());
            let children = stream::iter(wanted)
                .map(|(id, version)| self.object(id, version, remote, above.clone()))
                .buffered(READS_MAX)
                .try_collect()
                .await?;
            let value = serde_json::to_value(&object).map_err(TreeError::Json)?;
            let health = Object::from_value(value)
                .map_or_else(Health::not_found, |object| judged(Some(&kind), &object));
            Ok(Node {
                id,
                chart: is_release.then(|| ChartSeen::of(&object)).flatten(),
                unknown,
                health,
                children,
            })
        })
    }

    /// The health of an object that nothing acts on.
    fn unjudged(&self, id: &ObjectId) -> Option<Health> {
        let kind = self.kinds.find(&id.group, &id.kind);
        let message = if self.in_up && kind.is_some_and(Kind::is_unsupported) {
            status::UNSUPPORTED
        } else if self
            .schemaless
            .contains(&(id.group.to_string(), id.kind.to_string()))
        {
            "no schema: its kind was accepted as it is"
        } else {
            return None;
        };
        Some(Health {
            status: health::Status::Unknown,
            message: message.to_owned(),
        })
    }

    async fn object(
        &self,
        id: ObjectId,
        version: String,
        remote: bool,
        above: BTreeSet<ObjectId>,
    ) -> Result<Node, TreeError> {
        if remote {
            let health = Health {
                status: health::Status::Unknown,
                message: "in another cluster".to_owned(),
            };
            return Ok(Node::leaf(id, health));
        }
        let kind = self.kinds.find(&id.group, &id.kind);
        if let Some(kind) = kind.filter(|kind| kind.has_inventory())
            && !above.contains(&id)
        {
            match objects::get(&self.client, kind, &id.namespace, &id.name).await {
                Ok(object) => return self.owner(*kind, object, above).await,
                Err(RequestError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = self.cluster.get(&id, &version, READ_TIMEOUT).await;
        let health = match found {
            Ok(Some(object)) => self.unjudged(&id).unwrap_or_else(|| judged(kind, &object)),
            Ok(None) => Health::not_found(),
            Err(source) => {
                let source = Box::new(source);
                return Err(TreeError::Read { id, source });
            }
        };
        Ok(Node::leaf(id, health))
    }
}

impl Node {
    fn leaf(id: ObjectId, health: Health) -> Self {
        Self {
            id,
            chart: None,
            unknown: None,
            health,
            children: Vec::new(),
        }
    }

    fn message(&self) -> String {
        // a current object needs no explanation
        let is_current = self.health.status == health::Status::Current;
        let message = Some(self.health.message.clone()).filter(|text| !is_current && !text.is_empty());
        let chart = self.chart.as_ref().map(ToString::to_string);
        let parts = chart.into_iter().chain(message).chain(self.unknown.clone());
        parts.collect::<Vec<_>>().join("; ")
    }
}

/// The health of an object; of one with a controller here, as `equate up` shows it.
fn judged(kind: Option<&Kind>, object: &Object) -> Health {
    let text = StatusText::of(object);
    let health = Health {
        status: text.status,
        message: text.line(),
    };
    match kind.filter(|kind| kind.controller.is_some()) {
        Some(kind) if health.status != health::Status::Terminating => reconciled(kind, object, health),
        _ => health,
    }
}

fn reconciled(kind: &Kind, object: &Object, health: Health) -> Health {
    let field = |name: &str| object.0.get(name).unwrap_or(&Json::Null);
    let (spec, status) = (field("spec"), field("status"));
    let suspended = spec["suspend"] == true;
    if objects::is_static(kind, spec) && !suspended {
        return Health {
            status: health::Status::Current,
            ..health
        };
    }
    let Ok(conditions) = serde_json::from_value::<Option<Vec<Condition>>>(status["conditions"].clone())
    else {
        return health;
    };
    let meta = ObjectMeta {
        generation: field("metadata")["generation"].as_i64(),
        ..ObjectMeta::default()
    };
    let conditions = conditions.unwrap_or_default();
    let observed = status["observedGeneration"].as_i64();
    let (state, message) = state_and_message(&meta, suspended, &conditions, observed);
    match state {
        State::Ready => Health {
            status: health::Status::Current,
            ..health
        },
        State::Failed => Health {
            status: health::Status::Failed,
            ..health
        },
        State::Waiting => Health {
            status: health::Status::InProgress,
            ..health
        },
        State::Idle | State::Kept => Health {
            status: health::Status::Unknown,
            message,
        },
    }
}

fn inventory(object: &DynamicObject) -> Result<Vec<(ObjectId, String)>, ParseIdError> {
    let entries = object.data["status"]["inventory"]["entries"].as_array();
    let ids = entries.into_iter().flatten().map(|entry| {
        let id = ObjectId::from_inventory(entry["id"].as_str().unwrap_or_default())?;
        Ok((id, entry["v"].as_str().unwrap_or_default().to_owned()))
    });
    ids.collect()
}

fn render(root: &Node, colour: bool) -> String {
    let mut table = Table::new(vec!["OBJECT", "HEALTH", "MESSAGE"], colour);
    draw(root, "", "", &mut table);
    table.take()
}

/// Draws one object behind its branch; `stem` prefixes the lines below it.
fn draw(node: &Node, branch: &str, stem: &str, table: &mut Table) {
    table.row(vec![
        Value::plain(format!("{branch}{}", node.id)),
        Value::status(&node.health.status.to_string()),
        Value::plain(node.message()),
    ]);
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let (branch, trunk) = if last {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        draw(
            child,
            &format!("{stem}{branch}"),
            &format!("{stem}{trunk}"),
            table,
        );
    }
}

/// Flux's own tree format, with the health added.
fn data(node: &Node) -> serde_json::Value {
    let id = &node.id;
    let mut value = json!({
        "resource": {
            "Namespace": &*id.namespace,
            "Name": &*id.name,
            "GroupKind": { "Group": &*id.group, "Kind": &*id.kind },
        },
        "health": { "status": node.health.status.to_string(), "message": node.health.message },
    });
    if let Some(chart) = &node.chart {
        value["chart"] = chart.data();
    }
    if let Some(unknown) = &node.unknown {
        value["unknown"] = unknown.as_str().into();
    }
    if !node.children.is_empty() {
        value["resources"] = node.children.iter().map(data).collect();
    }
    value
}

#[cfg(test)]
mod tests;
