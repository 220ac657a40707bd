//! Applies the manifests kind by kind, and waits until the controllers run.
//!
//! Applying unchanged manifests changes nothing: the API server's answer tells whether an object changed.
//! Each object costs two requests.

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
use kube::{Api, Client};
use serde_json::Value;

use super::manifests::{DefinitionError, NAME, Settings};
use crate::connection::ConnectError;
use crate::failure::{Failure, is_broken_pipe};
use crate::watch::{WatchError, is_established, wait_until};

const MANAGER: &str = "equate";
/// Maximum number of concurrent writes of one kind.
const CONCURRENCY: usize = 8;
const ANSWER: Duration = Duration::from_secs(30);
/// Timeout until the kind of a CRD is served.
const ESTABLISHED: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("no image is given, and there is no published image of the controllers")]
    NoImage,
    #[error("cannot install into the cluster of `equate up`, which reconciles itself")]
    OwnCluster,
    #[error("Flux is managed by {manager}, which would revert the installation")]
    ManagedByOther { manager: String },
    #[error(
        "Flux's {name} runs in namespace {namespace} with a Lease of its own: both would reconcile at once"
    )]
    Elsewhere { name: String, namespace: String },
    #[error(
        "Flux is not installed in namespace {namespace}: its CRDs and its ServiceAccount {account} are required"
    )]
    NoFlux {
        namespace: String,
        account: &'static str,
    },
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("could not read {what}")]
    Inspect {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("could not apply {id}")]
    Unserved {
        id: ObjectId,
        #[source]
        source: Box<ResolveError>,
    },
    #[error("could not read {id}")]
    Unknown {
        id: ObjectId,
        #[source]
        source: Box<ApplyError>,
    },
    #[error("could not apply {id}")]
    Refused {
        id: ObjectId,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("could not read the answer for {id}")]
    Answer {
        id: ObjectId,
        #[source]
        source: serde_json::Error,
    },
    #[error("the CRD {name} is not established after {after:?}")]
    Unestablished { name: String, after: Duration },
    #[error("could not watch {what}")]
    Watch {
        what: String,
        #[source]
        source: WatchError,
    },
    #[error("the controllers are not available after {after:?}: {pod_status}")]
    Timeout { after: Duration, pod_status: String },
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for InstallError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::NoImage => Some(
                "make one with `cargo xtask image`, push it to a registry of the cluster, and name it with --image or --registry; see docs/install.md",
            ),
            Self::OwnCluster => Some("select another cluster with --kubeconfig or --context"),
            Self::ManagedByOther { .. } => Some(
                "use --beside-flux to leave Flux's objects alone, commit the output of --export instead (see docs/install.md), or overwrite them with --force",
            ),
            Self::Elsewhere { .. } => {
                Some("select that namespace with -n, or scale Flux's controller to 0 and use --force")
            }
            Self::NoFlux { .. } => Some("install without --beside-flux, or select Flux's namespace with -n"),
            Self::Timeout { .. } => Some(
                "Flux's controllers hold the Leases while they run; increase --timeout, or use --no-wait",
            ),
            Self::Unestablished { .. }
            | Self::Definition(_)
            | Self::Inspect { .. }
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

#[derive(Debug, PartialEq)]
enum Change {
    Created,
    Configured(Vec<Difference>),
    Unchanged,
}

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
        .map_err(|source| InstallError::Inspect {
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
            // only a dry run lists the changes
            let mut shown = changes.iter().filter(|_| dry_run);
            shown.try_for_each(|change| writeln!(out, "    {change}"))
        }
    }
}

struct Install {
    client: Client,
    cluster: Cluster,
    dry_run: bool,
    /// Whether the namespace existed before.
    namespace: bool,
}

impl Install {
    async fn one(&self, object: &Object) -> Result<Change, InstallError> {
        let id = ObjectId::of(object);
        // every manifest has a valid apiVersion
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
            // a dry run cannot create objects in a missing namespace
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

/// The API server's managedFields entry of this command.
fn ours(object: &Object) -> Option<&Value> {
    let entries = object.metadata()?.get("managedFields")?.as_array()?;
    entries
        .iter()
        .find(|entry| entry["manager"] == MANAGER && entry["operation"] == "Apply")
}

async fn established(client: &Client, objects: &[Object]) -> Result<(), InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = objects
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition");
    for definition in definitions {
        let name = definition.name();
        let waiting = wait_until(&api, name, is_established);
        match tokio::time::timeout(ESTABLISHED, waiting).await {
            Ok(Ok(())) => {}
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

/// Waits until the newest pod is available: it is once it holds the Leases.
pub(super) async fn wait(
    client: &Client,
    settings: &Settings,
    patience: Duration,
    out: &mut impl Write,
) -> Result<(), InstallError> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &settings.namespace);
    eprintln!("waiting until Deployment/{NAME} is available");
    let waiting = wait_until(&api, NAME, runs);
    match tokio::time::timeout(patience, waiting).await {
        Ok(Ok(())) => writeln!(out, "the controllers are running").map_err(InstallError::Output),
        Ok(Err(source)) => Err(InstallError::Watch {
            what: format!("Deployment/{NAME}"),
            source,
        }),
        Err(_) => Err(InstallError::Timeout {
            after: patience,
            pod_status: pod_status(client, settings).await,
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

/// Why the pod is not available, from its status.
async fn pod_status(client: &Client, settings: &Settings) -> String {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &settings.namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/name={NAME}"));
    let pods = match pods.list(&ours).await {
        Ok(pods) => pods.items,
        Err(error) => return format!("could not list its pods: {error}"),
    };
    let reasons: Vec<String> = pods.iter().flat_map(pod_problems).collect();
    match (pods.is_empty(), reasons.is_empty()) {
        (true, _) => format!(
            "it has no pod; see kubectl -n {} describe replicaset",
            settings.namespace
        ),
        (_, true) => "its pod runs and is not ready: it waits for the Leases, or see its log".to_owned(),
        (_, false) => reasons.join("; "),
    }
}

fn pod_problems(pod: &Pod) -> Vec<String> {
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
