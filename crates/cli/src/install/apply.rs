//! Applies the manifests, kind after kind, and waits until the controllers run.
//!
//! Applying again what is there changes nothing: whether it did is told by what the API server answers,
//! not by what was sent. Costs two requests for each object.

use std::io::Write;
use std::time::Duration;

use equate_apply::cluster::{ApplyError, Cluster, Kind, ResolveError};
use equate_apply::difference::{Difference, differences};
use equate_apply::id::ObjectId;
use equate_manifest::object::{GroupVersionKind, Object};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::wait;
use kube::{Api, Client};
use serde_json::Value;

use super::manifests::{DefinitionError, NAME, Settings};
use crate::connection::ConnectError;
use crate::failure::{Failure, is_broken_pipe};

/// The field manager of what this command writes.
const MANAGER: &str = "equate";
/// How many objects of one kind are written at once.
const CONCURRENCY: usize = 8;
/// How long one answer is waited for.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a definition may take until its kind is served.
const ESTABLISHED: Duration = Duration::from_secs(60);

/// Why Equate is not installed, or does not run yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// There is no cluster to talk to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The cluster is that of `equate up`.
    #[error("`equate up` reconciles the cluster that it runs: nothing is installed in it")]
    OwnCluster,
    /// Flux's objects would be put back.
    #[error("Flux is held by {holder}, which would put back what is changed here")]
    Held {
        /// Who.
        holder: String,
    },
    /// Two would reconcile one object.
    #[error(
        "Flux's {name} runs in the namespace {namespace}: its Lease is there, and both would work at once"
    )]
    Elsewhere {
        /// Which controller.
        name: String,
        /// Where.
        namespace: String,
    },
    /// There is nothing that Equate could be beside.
    #[error(
        "Flux is not in the namespace {namespace}: its definitions and its ServiceAccount {account} have to be there"
    )]
    NoFlux {
        /// Where it was looked for.
        namespace: String,
        /// The account that the pod runs as.
        account: &'static str,
    },
    /// Nothing was made.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// It is not known what there is.
    #[error("could not read {what}")]
    Unread {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The cluster does not serve a kind.
    #[error("could not apply {id}")]
    Unserved {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: Box<ResolveError>,
    },
    /// It is not known what an object is like now.
    #[error("could not read {id}")]
    Unknown {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: Box<ApplyError>,
    },
    /// The cluster did not take an object.
    #[error("could not apply {id}")]
    Refused {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The cluster's answer is no object.
    #[error("could not read the answer for {id}")]
    Answer {
        /// The object.
        id: ObjectId,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A definition is not served.
    #[error("the definition {name} is not established after {after:?}")]
    Unestablished {
        /// Which.
        name: String,
        /// How long was waited.
        after: Duration,
    },
    /// An object cannot be watched.
    #[error("could not watch {what}")]
    Watch {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: wait::Error,
    },
    /// The controllers are not available.
    #[error("the controllers do not run after {after:?}: {said}")]
    Late {
        /// How long was waited.
        after: Duration,
        /// What the Deployment and its pods say.
        said: String,
    },
    /// Standard output could not be written.
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for InstallError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::OwnCluster => Some("name another cluster with --kubeconfig or --context"),
            Self::Held { .. } => Some(
                "--beside-flux leaves Flux's objects as they are; or put there what --export prints, see docs/install.md; --force writes them all the same",
            ),
            Self::Elsewhere { .. } => Some("name that namespace with -n, or scale it to 0 and say --force"),
            Self::NoFlux { .. } => Some("install without --beside-flux, or name its namespace with -n"),
            Self::Late { .. } => Some(
                "while Flux's controllers run they hold the Leases; --timeout waits longer, --no-wait not at all",
            ),
            Self::Unestablished { .. }
            | Self::Definition(_)
            | Self::Unread { .. }
            | Self::Unserved { .. }
            | Self::Unknown { .. }
            | Self::Refused { .. }
            | Self::Answer { .. }
            | Self::Watch { .. }
            | Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

/// What applying an object came to.
#[derive(Debug, PartialEq)]
enum Change {
    Created,
    Configured(Vec<Difference>),
    Unchanged,
}

/// Applies all objects, or asks what that would come to.
pub(super) async fn apply(
    client: &Client,
    settings: &Settings,
    dry_run: bool,
    out: &mut impl Write,
) -> Result<(), InstallError> {
    let install = Install {
        client: client.clone(),
        cluster: Cluster::new(client.clone()),
        dry_run,
        namespace: namespace(client, &settings.namespace).await?,
    };
    let objects: Vec<Object> = settings
        .manifests()?
        .into_iter()
        .filter_map(Object::from_value)
        .collect();
    for kind in objects.chunk_by(|a, b| a.kind() == b.kind()) {
        let applied: Vec<_> = stream::iter(kind)
            .map(|object| install.one(object))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        for (object, change) in kind.iter().zip(applied) {
            say(out, &ObjectId::of(object), &change?, dry_run).map_err(InstallError::Output)?;
        }
        if !dry_run {
            established(client, kind).await?;
        }
    }
    Ok(())
}

async fn namespace(client: &Client, name: &str) -> Result<bool, InstallError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get_opt(name).await;
    found
        .map(|found| found.is_some())
        .map_err(|source| InstallError::Unread {
            what: format!("Namespace/{name}"),
            source: Box::new(source),
        })
}

fn say(out: &mut impl Write, id: &ObjectId, change: &Change, dry_run: bool) -> std::io::Result<()> {
    let trial = if dry_run { " (dry run)" } else { "" };
    match change {
        Change::Created => writeln!(out, "{id} created{trial}"),
        Change::Unchanged => writeln!(out, "{id} unchanged{trial}"),
        Change::Configured(changes) => {
            writeln!(out, "{id} configured{trial}")?;
            // what is done is done; what would be is asked for to be read
            let mut shown = changes.iter().filter(|_| dry_run);
            shown.try_for_each(|change| writeln!(out, "    {change}"))
        }
    }
}

struct Install {
    client: Client,
    cluster: Cluster,
    dry_run: bool,
    /// Whether the namespace was there before.
    namespace: bool,
}

impl Install {
    async fn one(&self, object: &Object) -> Result<Change, InstallError> {
        let id = ObjectId::of(object);
        // every manifest has a version that is one
        let gvk = object
            .gvk()
            .unwrap_or_else(|| GroupVersionKind::new("", "v1", object.kind()));
        let kind = self
            .cluster
            .resolve(&gvk)
            .await
            .map_err(|source| InstallError::Unserved {
                id: id.clone(),
                source: Box::new(source),
            })?;
        if self.dry_run && kind.namespaced && !self.namespace {
            // nothing can be tried in a namespace that is not there
            return Ok(Change::Created);
        }
        let live = self.cluster.get(&id, &gvk.version, ANSWER).await;
        let live = live.map_err(|source| InstallError::Unknown {
            id: id.clone(),
            source: Box::new(source),
        })?;
        let answer = self.patch(&id, &kind, object).await?;
        Ok(match live {
            None => Change::Created,
            Some(live) => match differences(&live, &answer) {
                changes if changes.is_empty() && ours(&live) == ours(&answer) => Change::Unchanged,
                changes => Change::Configured(changes),
            },
        })
    }

    async fn patch(&self, id: &ObjectId, kind: &Kind, object: &Object) -> Result<Object, InstallError> {
        let api: Api<DynamicObject> = match kind.namespaced {
            true => Api::namespaced_with(self.client.clone(), &id.namespace, &kind.resource),
            false => Api::all_with(self.client.clone(), &kind.resource),
        };
        let params = PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::apply(MANAGER).force()
        };
        let answer = api.patch(&id.name, &params, &Patch::Apply(&object)).await;
        let answer = answer.map_err(|source| InstallError::Refused {
            id: id.clone(),
            source: Box::new(source),
        })?;
        let answer = serde_json::to_value(answer).and_then(serde_json::from_value);
        answer.map_err(|source| InstallError::Answer {
            id: id.clone(),
            source,
        })
    }
}

/// What the API server has booked for this command.
fn ours(object: &Object) -> Option<&Value> {
    let entries = object.metadata()?.get("managedFields")?.as_array()?;
    entries
        .iter()
        .find(|entry| entry["manager"] == MANAGER && entry["operation"] == "Apply")
}

/// Waits until the kinds of definitions are served.
async fn established(client: &Client, objects: &[Object]) -> Result<(), InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = objects
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition");
    for definition in definitions {
        let name = definition.name();
        let waiting = wait::await_condition(api.clone(), name, wait::conditions::is_crd_established());
        match tokio::time::timeout(ESTABLISHED, waiting).await {
            Ok(Ok(_)) => {}
            Ok(Err(source)) => {
                return Err(InstallError::Watch {
                    what: format!("CustomResourceDefinition/{name}"),
                    source,
                });
            }
            Err(_) => {
                return Err(InstallError::Unestablished {
                    name: name.to_owned(),
                    after: ESTABLISHED,
                });
            }
        }
    }
    Ok(())
}

/// Waits until the newest pod is available, which it is when it holds the Leases.
pub(super) async fn wait(
    client: &Client,
    settings: &Settings,
    patience: Duration,
    out: &mut impl Write,
) -> Result<(), InstallError> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &settings.namespace);
    eprintln!("waiting until Deployment/{NAME} is available");
    let waiting = wait::await_condition(api.clone(), NAME, |object: Option<&Deployment>| {
        object.is_some_and(runs)
    });
    match tokio::time::timeout(patience, waiting).await {
        Ok(Ok(_)) => writeln!(out, "the controllers run").map_err(InstallError::Output),
        Ok(Err(source)) => Err(InstallError::Watch {
            what: format!("Deployment/{NAME}"),
            source,
        }),
        Err(_) => Err(InstallError::Late {
            after: patience,
            said: said(client, settings).await,
        }),
    }
}

fn runs(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or_default() >= wanted
            && status.available_replicas.unwrap_or_default() >= wanted
    })
}

/// Why the pod is not available, as far as the cluster says.
async fn said(client: &Client, settings: &Settings) -> String {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &settings.namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/name={NAME}"));
    let pods = match pods.list(&ours).await {
        Ok(pods) => pods.items,
        Err(error) => return format!("its pods cannot be listed: {error}"),
    };
    let reasons: Vec<String> = pods.iter().flat_map(troubles).collect();
    match (pods.is_empty(), reasons.is_empty()) {
        (true, _) => format!(
            "there is no pod; kubectl -n {} describe replicaset says why",
            settings.namespace
        ),
        (_, true) => "its pod runs and is not ready: it waits for the Leases, or its log says why".to_owned(),
        (_, false) => reasons.join("; "),
    }
}

/// What holds a pod up: no node, no image, a crash.
fn troubles(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else {
        return Vec::new();
    };
    let unscheduled = status.conditions.iter().flatten();
    let unscheduled =
        unscheduled.filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let unscheduled = unscheduled.filter_map(|condition| condition.message.clone());
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        Some(match &waiting.message {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        })
    });
    unscheduled.chain(waiting).collect()
}
