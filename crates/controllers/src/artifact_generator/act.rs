//! Composes the artifacts, publishes them, and writes the ExternalArtifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use equate_api::extensions::GeneratedArtifact;
use equate_api::meta::Reason;
use equate_api::source::{Artifact, ExternalArtifact};
use equate_source::{Pauses, Place, Publisher, Stored, Tree};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::captures::{self, Wanted};
use super::compose::{Ground, compose};
use super::decide::Observed;
use super::declared::Declared;
use super::observe::{fetching, origin};
use super::{ABOUT, ArtifactGenerators, GENERATOR, KIND, MANAGER, Run};
use crate::kit::controller::Failure;
use crate::kit::processors::{JobError, Turns};
use crate::kit::read::chain;
use crate::sources::{SourceArtifact, draft, store};

pub(super) const ORIGIN_REVISION: &str = "org.opencontainers.image.revision";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    Kept,
    Disabled,
    Published(Published),
    Failed(Failure),
}

/// All artifacts of a generator. Only [`publish`] makes them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) inventory: Vec<GeneratedArtifact>,
    pub(crate) digest: String,
}

/// Why not all artifacts are made.
#[derive(Debug)]
pub(super) enum Unmade {
    Failed(Failure),
    /// The generator is deleted meanwhile.
    Deleted,
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn build(message: String) -> Failure {
    Failure::passing(Reason::BuildFailed, message)
}

fn reconcile(message: String) -> Failure {
    Failure::passing(Reason::ReconciliationFailed, message)
}

/// Makes all artifacts, and removes those that are not wanted any more. On failure, the artifacts that were
/// made stay.
pub(super) async fn publish(
    cx: &ArtifactGenerators,
    run: &Run<'_>,
    declared: &Declared,
    observed: Observed,
) -> Result<Published, Unmade> {
    let sources = observed.sources?;
    let live = observed.live?;
    let mut trees = BTreeMap::new();
    for (alias, source) in &sources {
        trees.insert(alias.clone(), tree(cx, declared, source).await?);
    }
    let trees = Arc::new(trees);
    let mut inventory = Vec::new();
    // one by one, as upstream: each composed tree has an open file with all its content
    for wanted in expanded(cx, run, declared, &trees).await? {
        let name = wanted.artifact.name.clone();
        let tree = composed(cx, run, declared, &wanted, &trees).await?;
        let is_own = live.contains_key(&name);
        let stored = external(cx, run, declared, &wanted, tree, &sources, is_own).await?;
        inventory.push(GeneratedArtifact {
            digest: stored.digest,
            filename: stored.path.rsplit('/').next().unwrap_or_default().to_owned(),
            name,
            namespace: declared.key.namespace.clone(),
        });
    }
    let wanted: BTreeSet<&str> = inventory.iter().map(|made| &*made.name).collect();
    if live.keys().any(|name| !wanted.contains(&**name)) {
        remove(cx, declared, &wanted).await?;
    }
    Ok(Published {
        inventory,
        digest: observed.digest,
    })
}

async fn tree(
    cx: &ArtifactGenerators,
    declared: &Declared,
    source: &SourceArtifact,
) -> Result<Tree, Failure> {
    let (namespace, digest) = (&declared.key.namespace, &source.artifact.digest);
    let found = store::tree(&cx.kit, namespace, &source.publisher, digest).await;
    let found = found.map_err(|why| fetching(&format!("fetch sources failed: {why}")))?;
    found.ok_or_else(|| {
        fetching(&format!(
            "fetch sources failed: the store of this process has no artifact {} of {}; \
             run the controllers of its sources and of ArtifactGenerators in one process",
            source.artifact.digest,
            source.publisher.place()
        ))
    })
}

type Trees = Arc<BTreeMap<String, Tree>>;

fn internal() -> Failure {
    build("internal error; see the controller's log".to_owned())
}

/// Does work in turns, until it is done or the generator is deleted. `failed` makes the text of a limit a failure.
async fn in_turns<T: Send + 'static>(
    cx: &ArtifactGenerators,
    run: &Run<'_>,
    declared: &Declared,
    failed: impl Fn(String) -> Failure,
    work: impl Fn(&Turns) -> T + Clone + Send + 'static,
) -> Result<T, Unmade> {
    let (limit, throttled) = (cx.kit.settings.timeout_max, || run.throttled());
    let processors = &cx.kit.processors;
    let working = processors.by_turns(&declared.key.namespace, limit, &throttled, work);
    let done = tokio::select! {
        biased;
        done = working => done,
        () = run.deleted(declared.deleting) => return Err(Unmade::Deleted),
    };
    done.map_err(|error| match error {
        JobError::Late(limit) => {
            let limit: equate_api::meta::Duration = limit.into();
            let why = format!("it takes longer than {limit}; copy fewer files, or raise --timeout-max");
            failed(why).into()
        }
        _ => internal().into(),
    })
}

async fn expanded(
    cx: &ArtifactGenerators,
    run: &Run<'_>,
    declared: &Declared,
    trees: &Trees,
) -> Result<Vec<Wanted>, Unmade> {
    let (artifacts, pattern) = (declared.artifacts.clone(), declared.pattern.clone());
    let trees = Arc::clone(trees);
    let work =
        move |turns: &Turns| captures::wanted(&artifacts, pattern.as_deref(), &trees, &|| turns.go_on(0));
    let message = |why: String| format!("failed to expand path pattern: {why}");
    let expanded = in_turns(cx, run, declared, |why| build(message(why)), work).await?;
    expanded.map_err(|why| Failure::stalled(Reason::BuildFailed, message(why)).into())
}

async fn composed(
    cx: &ArtifactGenerators,
    run: &Run<'_>,
    declared: &Declared,
    wanted: &Wanted,
    trees: &Trees,
) -> Result<Tree, Unmade> {
    let (artifact, trees, storage) = (wanted.artifact.clone(), Arc::clone(trees), cx.kit.storage.clone());
    let work = move |turns: &Turns| {
        let ground = Ground {
            scratch: &|| storage.scratch().map_err(|error| chain(&error)),
            go_on: &|held| turns.go_on(held),
        };
        compose(&artifact, &trees, ground)
    };
    let failed = |why: String| build(format!("{} build failed: {why}", wanted.artifact.name));
    let composed = in_turns(cx, run, declared, failed, work).await?;
    composed.map_err(|why| failed(why).into())
}

/// Writes one ExternalArtifact. Its archive belongs to its uid, so the object comes first.
async fn external(
    cx: &ArtifactGenerators,
    run: &Run<'_>,
    declared: &Declared,
    wanted: &Wanted,
    tree: Tree,
    sources: &BTreeMap<String, SourceArtifact>,
    is_own: bool,
) -> Result<Artifact, Unmade> {
    let (namespace, name) = (&declared.key.namespace, &wanted.artifact.name);
    let failed = |why: String| reconcile(format!("{name} reconcile failed: {why}"));
    let api = cx.api(namespace);
    if !is_own {
        let found = api.get_opt(name).await.map_err(|error| failed(chain(&error)))?;
        let own = |object: &ExternalArtifact| {
            let labels = object.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(GENERATOR)) == Some(&declared.uid)
        };
        if found.is_some_and(|object| !own(&object)) {
            let why = format!(
                "ExternalArtifact {namespace}/{name} is not of this generator; delete it, or choose another name"
            );
            return Err(failed(why).into());
        }
    }
    let params = PatchParams::apply(MANAGER).force();
    let applied = api
        .patch(name, &params, &Patch::Apply(object(declared, wanted)))
        .await;
    let applied =
        applied.map_err(|error| failed(format!("failed to apply ExternalArtifact: {}", chain(&error))))?;
    let place = Place::new(KIND, namespace, name).map_err(|error| failed(chain(&error)))?;
    let publisher = Publisher::new(place, applied.metadata.uid.clone().unwrap_or_default());
    let (storage, revision) = (cx.kit.storage.clone(), format!("files:{}", tree.id()));
    let store = move |turns: &Turns| {
        let go_on = || turns.go_on(0);
        storage.publish_pausing(&publisher, &revision, &tree, &Pauses::new(&go_on))
    };
    let stored: Stored = in_turns(cx, run, declared, failed, store)
        .await?
        .map_err(|error| failed(chain(&error)))?;
    let mut artifact = draft::artifact(&stored);
    let of = |alias: &Option<String>| {
        let alias = alias.as_deref().and_then(|alias| alias.strip_prefix('@'))?;
        sources.get(alias)
    };
    artifact.revision = match of(&wanted.artifact.revision) {
        Some(source) => source.artifact.revision.clone(),
        None => format!("latest@{}", artifact.digest),
    };
    if let Some(source) = of(&wanted.artifact.origin_revision) {
        artifact
            .metadata
            .insert(ORIGIN_REVISION.to_owned(), origin(source));
    }
    let before = applied
        .status
        .as_ref()
        .and_then(|status| status.artifact.as_ref());
    if before == Some(&artifact) {
        return Ok(artifact);
    }
    let status = status(&applied, &artifact);
    let patched = api.patch_status(name, &params, &Patch::Apply(status)).await;
    patched.map_err(|error| {
        failed(format!(
            "failed to patch ExternalArtifact status: {}",
            chain(&error)
        ))
    })?;
    Ok(artifact)
}

fn object(declared: &Declared, wanted: &Wanted) -> Value {
    let mut labels = declared.metadata.labels.clone();
    labels.extend(wanted.labels.clone());
    labels.insert("app.kubernetes.io/managed-by".to_owned(), MANAGER.to_owned());
    labels.insert(GENERATOR.to_owned(), declared.uid.clone());
    let (namespace, name) = (&declared.key.namespace, &wanted.artifact.name);
    let mut metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
    if !declared.metadata.annotations.is_empty() {
        metadata["annotations"] = json!(declared.metadata.annotations);
    }
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": KIND,
        "metadata": metadata,
        "spec": {
            "sourceRef": {
                "apiVersion": format!("{}/{}", ABOUT.group, ABOUT.version),
                "kind": ABOUT.kind,
                "name": declared.key.name,
                "namespace": namespace,
            },
        },
    })
}

fn status(object: &ExternalArtifact, artifact: &Artifact) -> Value {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": KIND,
        "metadata": { "name": object.metadata.name, "namespace": object.metadata.namespace },
        "status": {
            "artifact": artifact,
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Succeeded",
                "message": "Artifact is ready",
                "observedGeneration": object.metadata.generation,
                "lastTransitionTime": Time(now),
            }],
        },
    })
}

/// Removes the ExternalArtifacts of this generator that are not wanted, and their archives.
pub(super) async fn remove(
    cx: &ArtifactGenerators,
    declared: &Declared,
    wanted: &BTreeSet<&str>,
) -> Result<(), Failure> {
    let live = match cx.live(declared).await {
        Ok(live) => live,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => {
            return Err(reconcile(format!(
                "error listing external artifacts: {}",
                chain(&error)
            )));
        }
    };
    let names = live.iter().filter_map(|object| object.metadata.name.as_deref());
    for name in names.filter(|name| !wanted.contains(name)) {
        let failed = |why: String| reconcile(format!("failed to delete ExternalArtifact {name}: {why}"));
        let deleted = cx
            .api(&declared.key.namespace)
            .delete(name, &DeleteParams::default())
            .await;
        match deleted {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(failed(chain(&error))),
        }
        let place = Place::new(KIND, &declared.key.namespace, name);
        let place = place.map_err(|error| failed(chain(&error)))?;
        store::remove(&cx.kit.storage, place).await.map_err(failed)?;
    }
    Ok(())
}
