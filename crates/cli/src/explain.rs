//! `equate explain`: why a Kustomization is ready or is not, as the chain of what leads to it.
//!
//! Everything is read, nothing is guessed: its status, conditions and events, its source, the
//! Kustomizations it depends on and what those wait for, and, where health is what it waits for, its
//! objects. What the chain makes of that is in `chain`, pure.

mod chain;
#[cfg(test)]
mod tests;
mod text;

use self::chain::{Known, Seen, Source};
use self::text::TerminalSize;
use crate::connection::{self, ConnectError};
use crate::document::{Form, document};
use crate::events;
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds};
use crate::objects::{self, Namespaces, RequestError};
use crate::table;
use equate_api::kustomize::Kustomization;
use equate_apply::cluster::Cluster;
use equate_apply::health::{self, Status};
use equate_apply::id::ObjectId;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// How long reading one object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How many objects are read at once.
const READS_MAX: usize = 16;
/// So many Kustomizations are looked at, and so many objects that are not healthy are named.
const CHAIN_MAX: usize = 100;
const UNHEALTHY_MAX: usize = 10;
/// How wide the text is where the terminal does not say, and at most.
const WIDTH: usize = 80;
const WIDTH_MAX: usize = 120;
/// So many events are shown.
const EVENTS_MAX: usize = 5;

/// Show why a Kustomization is ready or is not: each step that leads there, and what it waits for.
///
/// The exit code is 0 when it is ready, 1 when it is not, and 2 when that cannot be told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Kustomization: `kustomization apps` or `ks/apps`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// How to print: text, or the same as data.
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Form>,
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// What was named is no kind.
    #[error(transparent)]
    Kind(#[from] KindError),
    /// Another kind than a Kustomization.
    #[error("a {0} has no chain to explain; a Kustomization has. `equate get` shows how it stands")]
    NoChain(&'static str),
    /// No name.
    #[error("which Kustomization? say its name")]
    Unnamed,
    /// All namespaces.
    #[error("one Kustomization lives in one namespace: say which, not --all-namespaces")]
    Everywhere,
    /// The cluster did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is one of that name elsewhere.
    #[error("Kustomization {name} is not in namespace {namespace}; there is one in {others}")]
    Elsewhere {
        /// The name.
        name: String,
        /// Where it was looked for.
        namespace: String,
        /// Where it is.
        others: String,
    },
    /// It is there, and no Kustomization.
    #[error("{0} cannot be read as a Kustomization")]
    Unreadable(String, #[source] serde_json::Error),
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ExplainError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Elsewhere { .. } => Some("-n names the namespace"),
            Self::NoChain(_) | Self::Unnamed | Self::Everywhere | Self::Unreadable(..) | Self::Output(_) => {
                None
            }
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }

    /// 1 says that it is not ready.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<ExitCode, ExplainError> {
    let connection = args.cluster.connect_aloud().await?;
    let size = TerminalSize {
        width: console::Term::stdout()
            .size_checked()
            .map_or(WIDTH, |(_, width)| usize::from(width).clamp(WIDTH, WIDTH_MAX)),
        colour: table::colour(),
    };
    let ready = explain(&connection.client, kinds, &args, &mut std::io::stdout(), size).await?;
    Ok(if ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints it; whether it is ready.
async fn explain(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
    size: TerminalSize,
) -> Result<bool, ExplainError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    if kind.kind != "Kustomization" {
        return Err(ExplainError::NoChain(kind.kind));
    }
    let name = name.ok_or(ExplainError::Unnamed)?;
    let Namespaces::One(namespace) = args.scope.namespaces() else {
        return Err(ExplainError::Everywhere);
    };
    let reader = Reader {
        client: client.clone(),
        kinds,
        kind,
    };
    let object = match objects::get(client, &kind, &namespace, &name).await {
        Err(RequestError::NotFound { .. }) => return Err(reader.elsewhere(namespace, name).await),
        found => found?,
    };
    let object = typed(object)?;
    let mut looked = BTreeSet::from([chain::own_name(&object)]);
    let seen = reader.look(object, &mut looked).await?;
    let said = reader.events(&namespace, &name).await?;
    let chain = chain::chain(&seen);
    let text = match args.output {
        None => text::drawn(&chain, &said, Timestamp::now(), size),
        Some(form) => document(&text::data(&chain, &said), form),
    };
    out.write_all(text.as_bytes()).map_err(ExplainError::Output)?;
    Ok(chain.ready)
}

fn typed(object: DynamicObject) -> Result<Kustomization, ExplainError> {
    let (namespace, name) = objects::names(&object);
    let called = chain::called(namespace, name);
    let value = serde_json::to_value(object);
    value
        .and_then(serde_json::from_value)
        .map_err(|error| ExplainError::Unreadable(called, error))
}

/// What reading needs on the way down.
struct Reader<'a> {
    client: Client,
    kinds: &'a Kinds,
    kind: Kind,
}

impl Reader<'_> {
    /// It is not there: where one of its name is, if anywhere.
    async fn elsewhere(&self, namespace: String, name: String) -> ExplainError {
        let all = objects::list(&self.client, &self.kind, &Namespaces::All, None, None).await;
        let others: Vec<String> = all
            .unwrap_or_default()
            .iter()
            .map(objects::names)
            .filter(|(_, other)| *other == name)
            .map(|(namespace, _)| namespace.to_owned())
            .collect();
        match others.is_empty() {
            true => ExplainError::Request(RequestError::NotFound {
                kind: self.kind.kind,
                name,
                namespace,
            }),
            false => ExplainError::Elsewhere {
                name,
                namespace,
                others: others.join(", "),
            },
        }
    }

    fn look<'r>(
        &'r self,
        object: Kustomization,
        looked: &'r mut BTreeSet<String>,
    ) -> BoxFuture<'r, Result<Seen, ExplainError>> {
        Box::pin(async move {
            let source = self.source(&object).await?;
            let mut dependencies = Vec::new();
            for on in &object.spec.depends_on {
                let (namespace, name) = chain::near(&object, on);
                let called = chain::called(namespace, name);
                let known = if looked.len() >= CHAIN_MAX || !looked.insert(called.clone()) {
                    Known::Elsewhere
                } else {
                    match objects::get(&self.client, &self.kind, namespace, name).await {
                        Ok(found) => Known::Read(Box::new(self.look(typed(found)?, looked).await?)),
                        Err(RequestError::NotFound { .. }) => Known::Absent,
                        Err(error) => return Err(error.into()),
                    }
                };
                dependencies.push((called, known));
            }
            let unhealthy = match chain::is_at_health(&object) {
                true => self.unhealthy(&object).await,
                false => Vec::new(),
            };
            Ok(Seen {
                object,
                source,
                dependencies,
                unhealthy,
            })
        })
    }

    async fn source(&self, object: &Kustomization) -> Result<Source, ExplainError> {
        let reference = &object.spec.source_ref;
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        let called = format!("{}/{namespace}/{}", reference.kind, reference.name);
        let Some(kind) = self.kinds.named(&reference.kind.to_string()) else {
            return Ok(Source {
                called,
                ..Source::default()
            });
        };
        let found = match objects::get(&self.client, kind, namespace, &reference.name).await {
            Ok(found) => found,
            Err(error @ (RequestError::NotFound { .. } | RequestError::NotServed(_))) => {
                return Ok(Source {
                    called,
                    trouble: Some(error.to_string()),
                    ..Source::default()
                });
            }
            Err(error) => return Err(error.into()),
        };
        let ready = objects::condition(&found, "Ready");
        let trouble = objects::text(ready, "status") == "False";
        let artifact = &found.data["status"]["artifact"];
        Ok(Source {
            called,
            revision: artifact["revision"].as_str().map(str::to_owned),
            updated: artifact["lastUpdateTime"]
                .as_str()
                .and_then(|time| time.parse().ok()),
            trouble: trouble.then(|| objects::text(ready, "message").to_owned()),
        })
    }

    /// What it holds and is not healthy by the rules of everybody: it may have its own.
    async fn unhealthy(&self, object: &Kustomization) -> Vec<(String, String)> {
        if object.spec.kube_config.is_some() || !object.spec.health_check_exprs.is_empty() {
            return Vec::new();
        }
        let cluster = Cluster::new(self.client.clone());
        let held = object
            .status
            .as_ref()
            .and_then(|status| status.inventory.as_ref());
        let ids = held.into_iter().flat_map(|inventory| &inventory.entries);
        let ids = ids.filter_map(|entry| Some((ObjectId::from_inventory(&entry.id).ok()?, entry.v.clone())));
        let ids: Vec<(ObjectId, String)> = ids.collect();
        let each = stream::iter(ids).map(|(id, version)| {
            let cluster = &cluster;
            async move {
                let health = match cluster.get(&id, &version, READ_TIMEOUT).await {
                    Ok(Some(object)) => health::compute(&object),
                    Ok(None) => health::Health::not_found(),
                    // what may not be read is left out: the message names it
                    Err(_) => return None,
                };
                let what = match health.message.is_empty() {
                    true => health.status.to_string(),
                    false => format!("{}: {}", health.status, health.message),
                };
                (health.status != Status::Current).then(|| (id.to_string(), what))
            }
        });
        let found = each.buffered(READS_MAX).filter_map(|one| async move { one });
        found.take(UNHEALTHY_MAX).collect().await
    }

    async fn events(&self, namespace: &str, name: &str) -> Result<Vec<text::Said>, ExplainError> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let about = format!("involvedObject.kind=Kustomization,involvedObject.name={name}");
        let list = api.list(&ListParams::default().fields(&about)).await;
        let mut found = list
            .map_err(|source| RequestError::Failed {
                verb: "list",
                what: format!("events of Kustomization {name}"),
                source: Box::new(source),
            })?
            .items;
        found.sort_by_key(events::last_seen);
        let newest = found.split_off(found.len().saturating_sub(EVENTS_MAX));
        let said = newest.into_iter().map(|event| {
            let when = events::last_seen(&event);
            (
                when,
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        });
        Ok(said.collect())
    }
}
