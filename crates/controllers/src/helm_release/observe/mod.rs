//! Observes everything that a decision about a release depends on, and no more than the first obstacle.
//!
//! | file | observes |
//! |---|---|
//! | `chart` | the HelmChart of the template, the source, and the chart of its artifact |
//! | `dependencies` | the HelmReleases that have to be ready first |
//! | `records` | the last record of the release |
//! | `drift` | the objects that differ from the release |
//! | `applying` | whether a commit still changes the spec, the values or the chart |

pub(super) mod applying;
pub(super) mod chart;
pub(super) mod dependencies;
pub(super) mod drift;
pub(super) mod records;

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use tokio::time::Instant;

use super::decide::seen::{Access, Dependencies, OwnChart, Seen, Source, Storage, UnnamedChart, Values};
use super::declared::Declared;
use super::{HelmReleases, Run, object_ref, owner_of};
use crate::key::is_name;
use crate::kit::inputs::{RejectedValues, Versions};
use crate::kit::wake::Reason;
use crate::targets::destination::{AccessError, Destination};

const ANSWER: Duration = Duration::from_secs(10);

/// Whether the run's reason calls for reading ConfigMaps, Secrets and records again; fewer reasons do if
/// they are watched.
fn refreshes(reason: Reason, watched: bool) -> bool {
    match reason {
        Reason::Requested | Reason::Appeared | Reason::Changed => true,
        Reason::Source | Reason::Input | Reason::Interval | Reason::Retry => !watched,
        Reason::Deleted
        | Reason::Dependency
        | Reason::Object
        | Reason::Push
        | Reason::Deadline
        | Reason::Deferred => false,
    }
}

pub(super) async fn observe(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Seen {
    cx.rules.compiled(&declared.key, &cx.kit.processors).await;
    let mut seen = Seen {
        status: run.status(),
        problem: cx.rules.problem(&declared.key).map(|problem| problem.to_string()),
        own_chart: OwnChart::None,
        unnamed_chart: UnnamedChart::None,
        dependencies: Dependencies::Ready,
        source: Source::NotLooked,
        values: Values::NotLooked,
        access: Access::NotLooked,
        storage: Storage::NotLooked,
        operation: run
            .memory
            .operation
            .as_ref()
            .map(|operation| operation.basis.clone()),
        attempted: run.memory.attempted.clone(),
        kind_defined: cx.kit.missing_kinds.is_defined(&object_ref(&declared.key)),
        retry_in: None,
        applying: None,
        drift: Vec::new(),
    };
    if declared.deleting {
        if seen.status.helm_chart.is_none() {
            seen.unnamed_chart = chart::unnamed(cx, declared);
        }
        if !declared.spec.suspend && seen.status.storage_namespace.is_some() {
            seen.access = connect(cx, run, declared).await;
            if seen.access == Access::Open {
                seen.access = account(cx, run, declared).await;
            }
        }
        return seen;
    }
    if seen.problem.is_some() {
        return seen;
    }
    seen.source = chart::denied(cx, declared).map_or(Source::NotLooked, Source::Denied);
    if matches!(seen.source, Source::Denied(_)) {
        return seen;
    }
    seen.own_chart = chart::own(cx, run, declared);
    if matches!(seen.own_chart, OwnChart::Differs | OwnChart::Unlisted) {
        return seen;
    }
    seen.dependencies = dependencies::look(cx, run, declared).await;
    if seen.dependencies != Dependencies::Ready && seen.operation.is_none() {
        return seen;
    }
    seen.applying = applying::look(cx, run, declared);
    seen.source = chart::source(cx, run, declared).await;
    if !matches!(seen.source, Source::Ready(_)) {
        return seen;
    }
    seen.values = values(cx, run, declared).await;
    if !matches!(seen.values, Values::Ready(_)) {
        return seen;
    }
    seen.retry_in = retry_in(run, declared).filter(|_| !seen.kind_defined);
    seen.access = connect(cx, run, declared).await;
    if seen.access != Access::Open || seen.operation.is_some() {
        return seen;
    }
    seen.storage = records::look(cx, run, declared, &seen).await;
    if drift::matters(declared, &seen) {
        seen.drift = drift::look(cx, run, declared).await;
    }
    seen
}

fn retry_in(run: &Run<'_>, declared: &Declared) -> Option<Duration> {
    let retry = run.memory.retry.as_ref()?;
    let left = retry.at.checked_duration_since(Instant::now())?;
    (!left.is_zero() && retry.inputs == run.memory.attempt_inputs(declared)).then_some(left)
}

/// Reads the values, unless those of an earlier run are current.
async fn values(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Values {
    if !declared.spec.values_from.is_empty() {
        cx.kit.inputs.begin();
    }
    let client = &cx.kit.client;
    if let Some(known) = &run.memory.values {
        let watched = known
            .versions()
            .are_current(|holder| cx.kit.inputs.version(holder));
        let rereads = run.reasons.iter().any(|reason| refreshes(reason, watched));
        let is_same_spec = run.memory.values_generation == declared.generation;
        if is_same_spec
            && (run.memory.this_run.values_read || !rereads || known.versions().are_unchanged(client).await)
        {
            run.memory.this_run.values_read = true;
            return Values::Ready(known.digest.clone());
        }
    }
    if let Some(rejected) = &run.memory.rejected_values
        && rejected.holds(declared.generation, client).await
    {
        return Values::Failed(rejected.error.to_string());
    }
    let spec = &declared.spec;
    let namespace = &declared.key.namespace;
    let (inline, references) = (spec.values.as_ref(), &spec.values_from);
    let mut versions = Versions::default();
    let composed =
        super::values::compose_with_versions(client.into(), namespace, inline, references, &mut versions)
            .await;
    let error = composed.as_ref().err().filter(|error| error.is_repeatable());
    run.memory.rejected_values = error.map(|error| RejectedValues {
        generation: declared.generation,
        versions,
        error: error.clone(),
    });
    match composed {
        Ok(composed) => {
            let digest = composed.digest.clone();
            run.memory.values = Some(composed);
            run.memory.values_generation = declared.generation;
            run.memory.this_run.values_read = true;
            Values::Ready(digest)
        }
        Err(error) => Values::Failed(error.to_string()),
    }
}

/// Finds the access to the target cluster.
async fn connect(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Access {
    let to = Destination {
        owner: owner_of(&declared.key),
        kube_config: declared.kube_config.as_ref(),
        account: declared.account(&cx.kit.settings.policy),
    };
    let reasons = run.reasons;
    let rereads = |watched| reasons.iter().any(|reason| refreshes(reason, watched));
    match cx.kit.access(&to, &mut run.memory.remote, rereads).await {
        Ok(access) => {
            let same = run.memory.access.as_ref().is_some_and(|known| known.is(&access));
            if !same {
                if let Some(before) = run.memory.access.take() {
                    before.view.forget(run.key());
                    run.memory.records = None;
                    run.memory.expected.clear();
                }
                cx.kit
                    .ownership()
                    .set_target(&object_ref(&declared.key), &access.target);
                run.memory.access = Some(access);
            }
            Access::Open
        }
        Err(error @ AccessError::Remote(_)) => {
            let why = error.to_string();
            let missing = why.contains("not found");
            Access::Failed(why, missing)
        }
        Err(error @ AccessError::Account(_)) => Access::Failed(error.to_string(), false),
    }
}

/// Whether the account exists with which a release is uninstalled.
async fn account(cx: &HelmReleases, run: &Run<'_>, declared: &Declared) -> Access {
    let account = declared.account(&cx.kit.settings.policy);
    let (Some(account), None) = (account, &declared.kube_config) else {
        return Access::Open;
    };
    if !is_name(account) {
        return Access::NoAccount(account.to_owned());
    }
    let Some(access) = &run.memory.access else {
        return Access::Open;
    };
    let accounts: Api<ServiceAccount> =
        Api::namespaced(access.cluster.client().clone(), &declared.key.namespace);
    match tokio::time::timeout(ANSWER, accounts.get_metadata_opt(account)).await {
        Ok(Ok(None)) => Access::NoAccount(account.to_owned()),
        _ => Access::Open,
    }
}
