//! The HelmChart of a template: its creation, change and deletion. Both use this process's own rights, as
//! upstream: a tenant's account needs none for sources.

use std::time::Duration;

use equate_api::meta::Reason as Why;
use equate_api::source::HelmChart;
use equate_apply::cluster::{Propagation, Write};
use equate_apply::id::ObjectId;
use equate_manifest::object::Object;
use kube::{Resource as _, ResourceExt as _};
use serde_json::Value;
use tokio::time::Instant;

use super::fail;
use crate::helm_release::decide::Obstacle;
use crate::helm_release::declared::Declared;
use crate::helm_release::observe::chart::template;
use crate::helm_release::report::Done;
use crate::helm_release::status::Draft;
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run, owner_of};
use crate::kit::controller::{Acted, Notice};
use crate::kit::events::Severity;
use crate::kit::read::chain;
use crate::kit::reconciliation::Stop;
use crate::policy::Policy;

const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);
const API_VERSION: &str = "source.toolkit.fluxcd.io/v1";
const GROUP: &str = "source.toolkit.fluxcd.io";

pub(super) async fn apply(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
) -> Result<Acted<Done>, Stop> {
    let Some(chart) = template(declared) else {
        return Ok(failed(draft, "spec.chart is missing"));
    };
    let object = match object(&chart, declared) {
        Ok(object) => object,
        Err(why) => return Ok(failed(draft, &why)),
    };
    let id = ObjectId::of(&object);
    let write = Write::Apply {
        object: &object,
        dry_run: false,
    };
    let before = cx.charts.get(&declared.source.key());
    let applied = cx
        .here
        .cluster
        .write(&HELM_RELEASE, (&id, API_VERSION), write, (ANSWER, PATIENCE))
        .await;
    match applied {
        Ok(Some(written)) => {
            let created = written.created;
            if created {
                run.memory.chart_created = Some(Instant::now());
            }
            // the next look sees it
            if let Ok(chart) = serde_json::from_value::<HelmChart>(Value::Object(written.object.0)) {
                if created
                    || before.is_none_or(|before| before.resource_version() != chart.resource_version())
                {
                    run.emit(changed(&chart, declared, created));
                }
                cx.charts.note(chart);
            }
        }
        Ok(None) => {}
        Err(error) => {
            return Ok(failed(
                draft,
                &format!("failed to run server-side apply: {}", chain(&error)),
            ));
        }
    }
    let (namespace, name) = (&declared.source.namespace, &declared.source.name);
    draft.status.helm_chart = Some(format!("{namespace}/{name}"));
    // if it is lost, the HelmChart is applied again or found by its labels
    run.hold_status(draft.status);
    Ok(Acted::Again)
}

fn changed(chart: &HelmChart, declared: &Declared, created: bool) -> Notice {
    let (reason, verb) = match created {
        true => ("HelmChartCreated", "Created"),
        false => ("HelmChartConfigured", "Configured"),
    };
    let (to, of) = (&declared.source, &chart.spec.source_ref);
    let message = format!(
        "{verb} HelmChart/{}/{} with SourceRef '{}/{}/{}'",
        to.namespace,
        to.name,
        of.kind.as_str(),
        to.namespace,
        of.name
    );
    Notice::new(Severity::Normal, reason, message)
}

fn object(chart: &HelmChart, declared: &Declared) -> Result<Object, String> {
    let mut value = serde_json::to_value(chart).map_err(|error| error.to_string())?;
    value["apiVersion"] = HelmChart::api_version(&()).into();
    value["kind"] = HelmChart::kind(&()).into();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    let mut object = Object::from_value(value).ok_or("the HelmChart is not an object")?;
    owner_of(&declared.key).label(&mut object);
    Ok(object)
}

pub(super) async fn delete(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
    mut draft: Draft,
    chart: &str,
) -> Result<Acted<Done>, Stop> {
    let Some((namespace, name)) = chart.split_once('/') else {
        draft.status.helm_chart = None;
        run.write_status(draft.status).await?;
        return Ok(Acted::Again);
    };
    if let Some(why) = denied(&cx.kit.settings.policy, declared, namespace, name) {
        return Ok(failed(draft, &why));
    }
    let id = ObjectId::new(GROUP, "HelmChart", namespace, name);
    let write = Write::Delete(Propagation::Background);
    let deleted = cx
        .here
        .cluster
        .write(&HELM_RELEASE, (&id, API_VERSION), write, (ANSWER, PATIENCE))
        .await;
    match deleted {
        Ok(Some(_)) => run.emit(Notice::new(
            Severity::Normal,
            "HelmChartDeleted",
            format!("deleted HelmChart '{chart}'"),
        )),
        // it is gone already
        Ok(None) => {}
        Err(error) => {
            let why = format!("failed to delete HelmChart '{chart}': {}", chain(&error));
            return Ok(failed(draft, &why));
        }
    }
    if declared.deleting {
        return Ok(Acted::Released);
    }
    draft.status.helm_chart = None;
    run.memory.chart = None;
    run.memory.loaded = None;
    run.write_status(draft.status).await?;
    Ok(Acted::Again)
}

fn denied(policy: &Policy, declared: &Declared, namespace: &str, name: &str) -> Option<String> {
    let denied = policy.no_cross_namespace_refs && namespace != declared.key.namespace;
    denied.then(|| {
        format!("cross-namespace references are not allowed: cannot access HelmChart {namespace}/{name}")
    })
}

fn failed(draft: Draft, why: &str) -> Acted<Done> {
    let obstacle = Obstacle {
        reason: Why::ArtifactFailed,
        message: why.to_owned(),
        event: Some(why.to_owned()),
    };
    fail(draft, &obstacle)
}
