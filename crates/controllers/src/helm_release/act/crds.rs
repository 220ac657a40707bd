//! The CRDs of a chart, before it is rendered: its objects may be of their kinds.

use std::sync::Arc;
use std::time::Duration;

use equate_api::helm::CrdsPolicy;
use equate_api::meta::{HELM_RELEASE_NAME, HELM_RELEASE_NAMESPACE};
use equate_apply::cluster::{ApplyError, Write};
use equate_apply::health::{Status, compute};
use equate_apply::id::ObjectId;
use equate_helm::{Chart, Values, dependencies, listing};
use equate_manifest::object::Object;
use serde_json::Value;
use tokio::time::Instant;

use super::objects as cluster;
use crate::helm_release::declared::{Action, Declared};
use crate::helm_release::memory::Definitions;
use crate::helm_release::objects::{is_made, label, read};
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run};
use crate::kit::read::chain;
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);
/// Upstream's time for CRDs to be established.
const ESTABLISHED: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// Applies CRDs by the action's policy. `Some` is the time until the next look at whether they are
/// established.
pub(super) async fn apply(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    chart: (&Arc<Chart>, &Arc<Values>),
    action: Action,
    access: &Access,
    server_side: bool,
) -> Result<Option<Duration>, String> {
    let policy = declared.crds(action);
    let failed = |why: String| format!("failed to apply CustomResourceDefinitions: {why}");
    let of = (
        declared.generation,
        run.memory
            .chart
            .as_ref()
            .map(|chart| chart.artifact.clone())
            .unwrap_or_default(),
    );
    let known = run.memory.definitions.take().filter(|known| known.of == of);
    let mut definitions = match known {
        Some(known) => known,
        None => {
            if policy == CrdsPolicy::Skip {
                return Ok(None);
            }
            let objects = objects(cx, declared, chart).await.map_err(failed)?;
            let waits = write(declared, objects, policy, access, server_side)
                .await
                .map_err(failed)?;
            Definitions {
                of,
                waits,
                until: Instant::now() + ESTABLISHED,
            }
        }
    };
    let mut left = Vec::new();
    for id in std::mem::take(&mut definitions.waits) {
        let live = cluster::get(access, &id, "apiextensions.k8s.io/v1")
            .await
            .map_err(failed)?;
        let ready = live
            .as_ref()
            .is_some_and(|live| compute(live).status == Status::Current);
        match (ready, live) {
            (true, Some(live)) => {
                let spec = live.0.get("spec");
                if let Some(group) = spec.and_then(|spec| spec.get("group").and_then(Value::as_str)) {
                    access.cluster.expect_change(group);
                }
            }
            _ => left.push(id),
        }
    }
    if left.is_empty() {
        return Ok(None);
    }
    if definitions.until <= Instant::now() {
        let names: Vec<&str> = left.iter().map(|id| &*id.name).collect();
        return Err(failed(format!(
            "failed to wait for CustomResourceDefinition(s): timeout waiting for: [{}]",
            names.join(", ")
        )));
    }
    definitions.waits = left;
    run.memory.definitions = Some(definitions);
    Ok(Some(POLL))
}

/// The CRDs of a chart and its enabled subcharts, read on the tenants' processors.
pub(super) async fn objects(
    cx: &HelmReleases,
    declared: &Declared,
    (chart, values): (&Arc<Chart>, &Arc<Values>),
) -> Result<Vec<Object>, String> {
    if listing::crds(chart).is_empty() {
        return Ok(Vec::new());
    }
    let (chart, values) = (Arc::clone(chart), Arc::clone(values));
    let processors = &cx.kit.processors;
    let reading = processors.run(&declared.key.namespace, move || parsed(&chart, &values));
    reading.done().await.map_err(|error| error.to_string())?
}

/// The CRDs of a chart and its enabled subcharts.
pub(in crate::helm_release) fn parsed(chart: &Chart, values: &Values) -> Result<Vec<Object>, String> {
    let processed = dependencies::process(chart, values);
    let (chart, _) = processed.map_err(|error| format!("failed to process chart dependencies: {error}"))?;
    let mut found = Vec::new();
    for file in listing::crds(&chart) {
        let objects = read(&file.content);
        let objects = objects.map_err(|why| {
            format!(
                "failed to parse CustomResourceDefinitions from {}: {why}",
                file.source
            )
        })?;
        // other objects do not belong there
        found.extend(
            objects
                .into_iter()
                .filter(|object| object.kind() == "CustomResourceDefinition"),
        );
    }
    Ok(found)
}

async fn write(
    declared: &Declared,
    objects: Vec<Object>,
    policy: CrdsPolicy,
    access: &Access,
    server_side: bool,
) -> Result<Vec<ObjectId>, String> {
    let mut written = Vec::new();
    for mut object in objects {
        label(
            &mut object,
            [
                (HELM_RELEASE_NAME, declared.key.name.as_str()),
                (HELM_RELEASE_NAMESPACE, declared.key.namespace.as_str()),
            ],
        );
        let id = ObjectId::of(&object);
        let live = cluster::get(access, &id, object.api_version()).await?;
        let mut replaced = object.clone();
        // `equate up` made this definition, so the chart may replace it
        let policy = match live.as_ref().is_some_and(is_made) {
            true => CrdsPolicy::CreateReplace,
            false => policy,
        };
        let write = match (&live, policy) {
            (Some(_), CrdsPolicy::Create) => {
                continue;
            }
            (None, _) if !server_side => Write::Create(&object),
            (Some(live), CrdsPolicy::CreateReplace) if !server_side => {
                let version = live
                    .metadata()
                    .and_then(|metadata| metadata.get("resourceVersion"));
                if let (Some(version), Some(metadata)) = (
                    version,
                    replaced.0.get_mut("metadata").and_then(Value::as_object_mut),
                ) {
                    metadata.insert("resourceVersion".to_owned(), version.clone());
                }
                Write::Replace(&replaced)
            }
            _ => Write::Apply {
                object: &object,
                dry_run: false,
            },
        };
        let at = (&id, object.api_version());
        match access
            .cluster
            .write(&HELM_RELEASE, at, write, (ANSWER, PATIENCE))
            .await
        {
            Ok(_) => written.push(id),
            // another release was faster
            Err(ApplyError::Conflict { message }) if message.contains("already exists") => {}
            Err(error) => {
                return Err(format!(
                    "failed to create CustomResourceDefinition {}: {}",
                    id.name,
                    chain(&error)
                ));
            }
        }
    }
    Ok(written)
}
