//! `equate explain`: shows the steps that make a Kustomization ready, and the step that does not pass.
//!
//! Reads the Kustomization, its events, its source, the Kustomizations it depends on and, while it waits for
//! health, its objects. `chain` derives the steps from them and is pure.

mod chain;
#[cfg(test)]
mod tests;
mod text;

use self::chain::{Dependency, Seen, Source};
use self::text::TerminalSize;
use crate::connection::{self, ConnectError};
use crate::document::{Form, document};
use crate::events;
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, KindError, Kinds, with_article};
use crate::objects::{self, Namespaces, RequestError};
use crate::table;
use equate_api::kustomize::Kustomization;
use equate_apply::cluster::Cluster;
use equate_apply::health::{self, Status};
use equate_apply::id::ObjectId;
use equate_controllers::kit::reconciliation::THROTTLED_EVENT;
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

const READ_TIMEOUT: Duration = Duration::from_secs(30);
const READS_MAX: usize = 16;
/// Limits of the Kustomizations that are read and the unhealthy objects that are shown.
const CHAIN_MAX: usize = 100;
const UNHEALTHY_MAX: usize = 10;
/// Width of the text if the terminal reports none, and its maximum.
const WIDTH: usize = 80;
const WIDTH_MAX: usize = 120;
const EVENTS_MAX: usize = 5;
/// An older event says nothing about now; the controllers repeat it after five minutes.
const THROTTLED_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate explain [OPTIONS] <KIND> <NAME>",
    // one Kustomization is explained
    mut_arg("all_namespaces", |arg| arg.hide(true)),
    after_help = "Examples:
  # Explain why a Kustomization is not ready
  equate explain kustomization apps
  # Print the steps as JSON
  equate explain ks/apps -n shop -o json

Exit codes:
  0  the Kustomization is ready
  1  the Kustomization is not ready
  2  an error occurred"
)]
pub(crate) struct Args {
    /// Kustomization to explain, such as `kustomization apps` or `ks/apps`.
    #[arg(value_name = "KIND NAME", required = true, num_args = 1..=2)]
    what: Vec<String>,
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
    /// Output format (default: text).
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExplainError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("{} cannot be explained, only a Kustomization; see its status with `equate get`", with_article(.0))]
    NotExplainable(&'static str),
    #[error("missing the name of the Kustomization")]
    MissingName,
    #[error("a Kustomization is in one namespace: use --namespace instead of --all-namespaces")]
    AllNamespaces,
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("Kustomization {name} not found in namespace {namespace}; it exists in {others}")]
    Elsewhere {
        name: String,
        namespace: String,
        others: String,
    },
    #[error("could not decode {0} as a Kustomization")]
    Unreadable(String, #[source] serde_json::Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ExplainError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Kind(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Elsewhere { .. } => Some("select the namespace with -n"),
            Self::NotExplainable(_)
            | Self::MissingName
            | Self::AllNamespaces
            | Self::Unreadable(..)
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }

    /// 1 means not ready.
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(2)
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<ExitCode, ExplainError> {
    let connection = args.cluster.connect_and_print().await?;
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

async fn explain(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    out: &mut impl Write,
    size: TerminalSize,
) -> Result<bool, ExplainError> {
    let (kind, name) = kinds.parse_one(&args.what)?;
    if kind.kind != "Kustomization" {
        return Err(ExplainError::NotExplainable(kind.kind));
    }
    let name = name.ok_or(ExplainError::MissingName)?;
    let Namespaces::One(namespace) = args.scope.namespaces() else {
        return Err(ExplainError::AllNamespaces);
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
    let mut events = reader.events(&namespace, &name).await?;
    let mut chain = chain::chain(&seen);
    let now = Timestamp::now();
    let is_recent = |when: Timestamp| now.duration_since(when).unsigned_abs() < THROTTLED_MAX;
    let throttled = events
        .iter()
        .rev()
        .find(|(when, reason, _)| reason == THROTTLED_EVENT && when.is_some_and(is_recent));
    chain.throttled = throttled.map(|(_, _, message)| message.clone());
    if chain.throttled.is_some() {
        events.retain(|(_, reason, _)| reason != THROTTLED_EVENT);
    }
    let events = events.split_off(events.len().saturating_sub(EVENTS_MAX));
    let text = match args.output {
        None => text::render(&chain, &events, now, size),
        Some(form) => document(&text::data(&chain, &events), form),
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

struct Reader<'a> {
    client: Client,
    kinds: &'a Kinds,
    kind: Kind,
}

impl Reader<'_> {
    /// The error for a missing Kustomization: names the namespaces that have one of this name.
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
                let (namespace, name) = chain::dependency_key(&object, on);
                let called = chain::called(namespace, name);
                let known = if looked.len() >= CHAIN_MAX || !looked.insert(called.clone()) {
                    Dependency::Elsewhere
                } else {
                    match objects::get(&self.client, &self.kind, namespace, name).await {
                        Ok(found) => Dependency::Read(Box::new(self.look(typed(found)?, looked).await?)),
                        Err(RequestError::NotFound { .. }) => Dependency::Absent,
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

    /// Objects of the inventory that are unhealthy by the built-in rules; the Kustomization may have its own.
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
                    // the message names objects that cannot be read
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

    async fn events(&self, namespace: &str, name: &str) -> Result<Vec<text::EventLine>, ExplainError> {
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
        let events = found.into_iter().map(|event| {
            let when = events::last_seen(&event);
            (
                when,
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        });
        Ok(events.collect())
    }
}
