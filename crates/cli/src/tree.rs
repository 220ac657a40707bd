//! `equate tree`: what a Kustomization applied, and how each object is doing.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds};
use crate::objects::{self, Namespaces, RequestError};
use crate::table::{self, Table, Value};
use equate_apply::cluster::{ApplyError, Cluster};
use equate_apply::health::{self, Health};
use equate_apply::id::{ObjectId, ParseIdError};
use equate_manifest::yaml;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

/// How long reading one object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How many objects are read at once.
const READS_MAX: usize = 16;

/// Show what a Kustomization applied, as a tree, and how each object is doing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Kustomization: `kustomization apps` or `ks/apps`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Only sources, Kustomizations and the other kinds of Flux.
    #[arg(long)]
    compact: bool,
    /// How to print: a tree, or the same as data.
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Output>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
    Yaml,
}

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What was named is no kind.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// A kind that applies nothing.
    #[error("a {kind} has no inventory to show; a {others} has")]
    NoInventory {
        /// The kind.
        kind: &'static str,
        /// Those that have one.
        others: String,
    },
    /// No name.
    #[error("which {0}? say its name")]
    Unnamed(&'static str),
    /// All namespaces.
    #[error("one {0} lives in one namespace: say which, not --all-namespaces")]
    Everywhere(&'static str),
    /// The cluster did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An object of the inventory could not be read.
    #[error("could not read {id}")]
    Read {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: Box<ApplyError>,
    },
    /// The inventory cannot be read.
    #[error("the inventory of {kind} {namespace}/{name} cannot be read")]
    Inventory {
        /// The kind.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: ParseIdError,
    },
    /// The tree could not be written as JSON.
    #[error("could not write the tree as JSON")]
    Json(#[source] serde_json::Error),
    /// Standard output could not be written.
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
            | Self::Unnamed(_)
            | Self::Everywhere(_)
            | Self::Read { .. }
            | Self::Inventory { .. }
            | Self::Json(_)
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// An object and what it brought.
#[derive(Debug)]
struct Node {
    id: ObjectId,
    health: Health,
    children: Vec<Node>,
}

/// What reading needs on the way down.
struct Reader<'a> {
    client: Client,
    cluster: Cluster,
    kinds: &'a Kinds,
    compact: bool,
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), TreeError> {
    let connection = args.cluster.connect_aloud().await?;
    tree(
        &connection.client,
        kinds,
        &args,
        &mut std::io::stdout(),
        table::colour(),
    )
    .await
}

async fn tree(
    client: &Client,
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
    let name = name.ok_or(TreeError::Unnamed(kind.kind))?;
    let Namespaces::One(namespace) = args.scope.namespaces() else {
        return Err(TreeError::Everywhere(kind.kind));
    };
    let reader = Reader {
        client: client.clone(),
        cluster: Cluster::new(client.clone()),
        kinds,
        compact: args.compact,
    };
    let root = objects::get(client, &kind, &namespace, &name).await?;
    let node = reader.owner(kind, root, BTreeSet::new()).await?;
    let text = match args.output {
        None => drawn(&node, colour),
        Some(Output::Yaml) => yaml::to_string(&data(&node)),
        Some(Output::Json) => serde_json::to_string_pretty(&data(&node)).map_err(TreeError::Json)? + "\n",
    };
    out.write_all(text.as_bytes()).map_err(TreeError::Output)
}

impl Reader<'_> {
    /// An object that applied others, with everything below it. `above` are those it is part of, so that a
    /// circle ends.
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
            let wanted = entries
                .into_iter()
                .filter(|(id, _)| !self.compact || self.kinds.find(&id.group, &id.kind).is_some());
            let children = stream::iter(wanted)
                .map(|(id, version)| self.object(id, version, remote, above.clone()))
                .buffered(READS_MAX)
                .try_collect()
                .await?;
            let health = equate_manifest::object::Object::from_value(
                serde_json::to_value(&object).map_err(TreeError::Json)?,
            )
            .map_or_else(Health::not_found, |object| health::compute(&object));
            Ok(Node { id, health, children })
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
                message: "it is in another cluster".to_owned(),
            };
            return Ok(Node {
                id,
                health,
                children: Vec::new(),
            });
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
            Ok(Some(object)) => health::compute(&object),
            Ok(None) => Health::not_found(),
            Err(source) => {
                let source = Box::new(source);
                return Err(TreeError::Read { id, source });
            }
        };
        Ok(Node {
            id,
            health,
            children: Vec::new(),
        })
    }
}

/// The objects that one applied and the versions they were applied in.
fn inventory(object: &DynamicObject) -> Result<Vec<(ObjectId, String)>, ParseIdError> {
    let entries = object.data["status"]["inventory"]["entries"].as_array();
    let ids = entries.into_iter().flatten().map(|entry| {
        let id = ObjectId::from_inventory(entry["id"].as_str().unwrap_or_default())?;
        Ok((id, entry["v"].as_str().unwrap_or_default().to_owned()))
    });
    ids.collect()
}

fn drawn(root: &Node, colour: bool) -> String {
    let mut table = Table::new(vec!["OBJECT", "HEALTH", "MESSAGE"], colour);
    draw(root, "", "", &mut table);
    table.take()
}

/// One object behind its branch; what is below it begins with the stem.
fn draw(node: &Node, branch: &str, stem: &str, table: &mut Table) {
    let health = &node.health;
    // That all is well needs no explanation.
    let message = if health.status == health::Status::Current {
        ""
    } else {
        &health.message
    };
    table.row(vec![
        Value::plain(format!("{branch}{}", node.id)),
        Value::status(&health.status.to_string()),
        Value::plain(message),
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

/// In the form of Flux's own tree, and the health.
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
    if !node.children.is_empty() {
        value["resources"] = node.children.iter().map(data).collect();
    }
    value
}

#[cfg(test)]
mod tests;
