//! Looks whether the declared versions are applied and healthy in an environment's cluster. It only reads.

use super::{ReleaseError, text};
use crate::connection::{self, Connection};
use crate::diagnosis::{NodeHealth, Reader};
use equate_apply::id::ObjectId;
use equate_kustomize::Tree;
use equate_manifest::object::Object;
use equate_release::config::Config;
use equate_release::field::{self, Field};
use equate_release::fleet::Fleet;
use equate_release::rules::Health;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_millis(500);
/// The time for one look, even when no other time is left.
const LOOK_LEAST: Duration = Duration::from_secs(5);
/// The looks at a failure before it counts: a pod may start at its second attempt.
const FAILURES_MIN: usize = 3;

/// A declared object and its versions.
struct Wanted {
    id: ObjectId,
    version: String,
    fields: Vec<Field>,
}

/// The state of a service in a cluster.
enum State {
    NotApplied(String),
    Waiting(String),
    Failed(String),
    Healthy(Vec<String>),
}

/// Waits until the versions of a service are applied and healthy, and prints the steps.
pub(super) async fn until_healthy(
    tree: &dyn Tree,
    config: &Config,
    (environment, service): (&str, &str),
    given: &connection::Options,
    timeout: Duration,
) -> Result<(), ReleaseError> {
    let blind = |reason: String| ReleaseError::Blind {
        environment: environment.to_owned(),
        reason,
    };
    let connection = connect(config, environment, given).await.map_err(blind)?;
    let wanted = wanted(tree, config, environment, service);
    if wanted.is_empty() {
        return Err(blind(format!("{service} has no object with a version")));
    }
    let reader = Reader::new(connection.client.clone());
    let began = Instant::now();
    let mut is_applied = false;
    let mut failures = 0;
    loop {
        let left = timeout.saturating_sub(began.elapsed()).max(LOOK_LEAST);
        let looked = tokio::time::timeout(left, look(&reader, config, &wanted)).await;
        let state = looked.map_err(|_| blind("the API server did not answer in time".to_owned()))?;
        if !is_applied && !matches!(state, State::NotApplied(_)) {
            is_applied = true;
            if let Some(owner) = owner(&reader, &wanted).await {
                text::print(&format!(
                    "applied    {owner} after {}s\n",
                    began.elapsed().as_secs()
                ))?;
            }
        }
        failures = if matches!(state, State::Failed(_)) {
            failures + 1
        } else {
            0
        };
        let is_late = began.elapsed() >= timeout;
        let unhealthy = |cause: String| ReleaseError::Unhealthy {
            service: service.to_owned(),
            environment: environment.to_owned(),
            cause,
        };
        match state {
            State::Healthy(objects) => {
                let seconds = began.elapsed().as_secs();
                for object in objects {
                    text::print(&format!("healthy    {object} after {seconds}s\n"))?;
                }
                return Ok(());
            }
            State::Failed(cause) if failures >= FAILURES_MIN || is_late => return Err(unhealthy(cause)),
            State::Waiting(cause) if is_late => return Err(unhealthy(cause)),
            State::NotApplied(reason) if is_late => return Err(blind(reason)),
            State::Failed(_) | State::Waiting(_) | State::NotApplied(_) => {}
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The clusters of environments. Each is connected to once, so that a silent one costs its timeout once.
pub(super) struct Clusters<'o> {
    given: &'o connection::Options,
    known: Mutex<BTreeMap<String, Result<Reader, String>>>,
}

impl<'o> Clusters<'o> {
    pub(super) fn new(given: &'o connection::Options) -> Self {
        Self {
            given,
            known: Mutex::default(),
        }
    }

    /// The reader of an environment's cluster, or the reason why there is none.
    pub(super) async fn reader(&self, config: &Config, environment: &str) -> Result<Reader, String> {
        let mut known = self.known.lock().await;
        if let Some(found) = known.get(environment) {
            return found.clone();
        }
        let found = match connect(config, environment, self.given).await {
            Ok(connection) => {
                let answer = connection.client.apiserver_version().await;
                let answer = answer.map_err(|error| crate::failure::chain(&error));
                answer.map(|_| Reader::new(connection.client.clone()))
            }
            Err(reason) => Err(reason),
        };
        known.insert(environment.to_owned(), found.clone());
        found
    }

    /// The health of the declared versions of a service, at one look.
    pub(super) async fn health(
        &self,
        tree: &dyn Tree,
        config: &Config,
        (environment, service): (&str, &str),
    ) -> Health {
        let reader = match self.reader(config, environment).await {
            Ok(reader) => reader,
            Err(reason) => return Health::Unknown(reason),
        };
        let wanted = wanted(tree, config, environment, service);
        match look(&reader, config, &wanted).await {
            State::Healthy(_) if !wanted.is_empty() => Health::Healthy,
            State::Healthy(_) => Health::Unknown(format!("{service} has no object with a version")),
            State::NotApplied(reason) => Health::Unknown(reason),
            State::Waiting(cause) | State::Failed(cause) => Health::Unhealthy(cause),
        }
    }
}

/// The cluster of `equate.yaml`, of the options, or the `equate up` that runs here. The user's current
/// context is never guessed to be an environment.
async fn connect(
    config: &Config,
    environment: &str,
    given: &connection::Options,
) -> Result<Connection, String> {
    let is_given = given.kubeconfig.is_some() || given.context.is_some();
    let declared = config.clusters.get(environment).filter(|_| !is_given);
    let options = match declared {
        Some(cluster) => connection::Options {
            kubeconfig: cluster.kubeconfig.clone().map(Into::into),
            context: cluster.context.clone(),
        },
        None => given.clone(),
    };
    let connection = options
        .connect()
        .await
        .map_err(|error| crate::failure::chain(&error))?;
    match is_given || declared.is_some() || connection.is_up() {
        true => Ok(connection),
        false => Err("no cluster is named for it, and no `equate up` runs here".to_owned()),
    }
}

fn wanted(tree: &dyn Tree, config: &Config, environment: &str, service: &str) -> Vec<Wanted> {
    let fleet = Fleet::of_services(tree, config, &[service]);
    let unit = fleet.unit(environment, service).map(|at| &fleet.units[at]);
    let Some(Ok(built)) = unit.map(|unit| &unit.state) else {
        return Vec::new();
    };
    let mut by_object: BTreeMap<usize, Vec<Field>> = BTreeMap::new();
    for member in built.services.get(service).into_iter().flatten() {
        by_object
            .entry(member.object)
            .or_default()
            .push(member.field.clone());
    }
    by_object
        .into_iter()
        .map(|(at, fields)| {
            let value = &built.objects[at].value;
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let api_version = text("/apiVersion");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let (kind, namespace, name) =
                (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
            Wanted {
                id: ObjectId::new(group, kind, namespace, name),
                version: version.to_owned(),
                fields,
            }
        })
        .collect()
}

async fn look(reader: &Reader, config: &Config, wanted: &[Wanted]) -> State {
    let mut healthy = Vec::new();
    let mut waiting = None;
    for wanted in wanted {
        let found = live(reader, wanted).await;
        let (id, object) = match found {
            Ok(Some(found)) => found,
            Ok(None) => return State::NotApplied(format!("{} does not exist", shown(&wanted.id))),
            Err(reason) => return State::NotApplied(reason),
        };
        let value = object.clone().into_value();
        let now = field::of(&value, &config.values);
        let other = wanted.fields.iter().find(|field| {
            let same = |now: &&Field| now.pointer == field.pointer;
            now.iter()
                .find(same)
                .is_none_or(|now| now.version != field.version)
        });
        if let Some(field) = other {
            let (object, version) = (shown(&id), &field.version);
            return State::NotApplied(format!("{object} does not have {version} yet"));
        }
        let node = reader.diagnose(&id, &object).await;
        let cause = || node.cause().unwrap_or_else(|| node.text());
        match node.health {
            NodeHealth::Healthy => healthy.push(format!("{}{}", shown(&id), replicas(&value))),
            NodeHealth::Failed => return State::Failed(cause()),
            NodeHealth::Waiting => {
                waiting.get_or_insert(cause());
            }
        }
    }
    match waiting {
        Some(cause) => State::Waiting(cause),
        None => State::Healthy(healthy),
    }
}

/// The live object. A manifest without a namespace gets it from its Kustomization, so it is found by name.
async fn live(reader: &Reader, wanted: &Wanted) -> Result<Option<(ObjectId, Object)>, String> {
    let mut id = wanted.id.clone();
    if id.namespace.is_empty() {
        let kind = GroupVersionKind::gvk(&id.group, &wanted.version, &id.kind);
        let api: Api<DynamicObject> = Api::all_with(reader.client().clone(), &ApiResource::from_gvk(&kind));
        let parameters = ListParams::default().fields(&format!("metadata.name={}", id.name));
        let found = api.list(&parameters).await;
        let found = found.map_err(|error| crate::failure::chain(&error))?;
        let found = found.items.into_iter();
        let namespaces = found.map(|object| object.metadata.namespace.unwrap_or_default());
        let Some(namespace) = only(&shown(&id), namespaces.collect())? else {
            return Ok(None);
        };
        id = ObjectId::new(&id.group, &id.kind, &namespace, &id.name);
    }
    let object = reader.object(&id, &wanted.version).await;
    let object = object.map_err(|error| crate::failure::chain(&error))?;
    Ok(object.map(|object| (id, object)))
}

/// The namespace of the only object of a name. With several, another environment's object could be taken.
fn only(object: &str, mut namespaces: Vec<String>) -> Result<Option<String>, String> {
    match namespaces.len() {
        0 | 1 => Ok(namespaces.pop()),
        _ => Err(format!(
            "{object} exists in the namespaces {}; set its namespace in the manifest or the kustomization",
            namespaces.join(", ")
        )),
    }
}

/// The Kustomization or HelmRelease that applied the first object, by Flux's labels.
async fn owner(reader: &Reader, wanted: &[Wanted]) -> Option<String> {
    let (kind, namespace, name) = owner_of(reader, wanted).await.ok()??;
    Some(format!("{kind} {namespace}/{name}"))
}

type Owner = (&'static str, String, String);

async fn owner_of(reader: &Reader, wanted: &[Wanted]) -> Result<Option<Owner>, String> {
    let Some(first) = wanted.first() else {
        return Ok(None);
    };
    let Some((_, object)) = live(reader, first).await? else {
        return Ok(None);
    };
    let labels = object.metadata().and_then(|metadata| metadata.get("labels"));
    let label = |key: &str| Some(labels?.get(key)?.as_str()?.to_owned());
    let kinds = [
        ("Kustomization", "kustomize.toolkit.fluxcd.io"),
        ("HelmRelease", "helm.toolkit.fluxcd.io"),
    ];
    Ok(kinds.into_iter().find_map(|(kind, group)| {
        let name = label(&format!("{group}/name"))?;
        let namespace = label(&format!("{group}/namespace"))?;
        Some((kind, namespace, name))
    }))
}

/// The live Kustomization that applied a service; `None` if there is none.
pub(super) async fn kustomization(
    reader: &Reader,
    tree: &dyn Tree,
    config: &Config,
    (environment, service): (&str, &str),
) -> Result<Option<Value>, String> {
    let wanted = wanted(tree, config, environment, service);
    let owner = owner_of(reader, &wanted).await?;
    let Some(("Kustomization", namespace, name)) = owner else {
        return Ok(None);
    };
    let id = ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", &namespace, &name);
    let object = reader.object(&id, "v1").await;
    let object = object.map_err(|error| crate::failure::chain(&error))?;
    Ok(object.map(Object::into_value))
}

fn shown(id: &ObjectId) -> String {
    match &*id.namespace {
        "" => format!("{} {}", id.kind, id.name),
        namespace => format!("{} {namespace}/{}", id.kind, id.name),
    }
}

/// ` 3/3`, for objects with replicas.
fn replicas(object: &Value) -> String {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    match number("/spec/replicas") {
        Some(wanted) => format!(" {}/{wanted}", number("/status/readyReplicas").unwrap_or(0)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn an_object_of_another_environment_is_never_taken() {
        let found = |namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(|name| (*name).to_owned());
            only("Deployment web", namespaces.collect())
        };
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&["dev"]), Ok(Some("dev".to_owned())));
        assert_eq!(
            found(&["dev", "staging"]).unwrap_err(),
            "Deployment web exists in the namespaces dev, staging; set its namespace in the manifest or the kustomization"
        );
    }
}
