//! Deletes or keeps the objects of a deleted Kustomization.

use std::sync::Arc;

use equate_api::meta::Reason as Why;
use equate_apply::id::ObjectId;
use equate_apply::plan::Plan;

use super::execution;
use super::finish::{emit_kept_objects, prune};
use super::status::{emit, end_run};
use crate::kit::controller::{Acted, Next};
use crate::kit::events::Severity;
use crate::kit::wake::Reason;
use crate::kustomization::decide::objects::Objects;
use crate::kustomization::decide::seen::Prepared;
use crate::kustomization::decide::{AfterDeletion, Removal};
use crate::kustomization::declared::Declared;
use crate::kustomization::observe::access::account_exists;
use crate::kustomization::observe::follow::follow;
use crate::kustomization::report::{Done, Outcome};
use crate::kustomization::{Kustomizations, Run};

/// Checks whether its objects can be deleted, and watches those whose deletion is awaited.
pub(super) async fn prepare(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    account: bool,
    waits: bool,
) {
    let account = !account || account_exists(cx, run, ks).await;
    let starting = account && waits && {
        let followed = follow(cx, run, ks, &[], &ks.inventory).await;
        followed.is_ok_and(|kinds| kinds.starting.is_some())
    };
    run.memory.this_run.deletion = Some(Prepared { account, starting });
}

/// Deletes the inventory's objects, in the reverse order of applying.
pub(super) async fn delete(
    cx: &Kustomizations,
    run: &mut Run<'_>,
    ks: &Declared,
    objects: &Objects,
    plan: Plan,
    then: AfterDeletion,
) -> Acted<Done> {
    run.memory.surveying_since = None;
    let options = objects.options();
    let pruned = prune(cx, run, &plan.prune, &ks.inventory, &execution(cx, ks, &options)).await;
    if let Err((failure, _)) = pruned {
        let message = format!("pruning for deleted resource failed: {failure}");
        emit(run, Severity::Warning, Why::PruneFailed, &message);
        return Acted::Unreported(Next::BackoffWithin(ks.retry_interval));
    }
    match then {
        AfterDeletion::Removal => {
            emit_kept_objects(run, &plan);
            Acted::Released
        }
        AfterDeletion::Check => {
            run.memory.this_run.deleted = Some(Arc::new(plan));
            Acted::Again
        }
        AfterDeletion::Hold(remains) => {
            // others still need some; their announcement that they no longer do begins the next run
            run.memory.lingering = remains.clone();
            let next = Next::After(ks.interval, Reason::Interval);
            end_run(cx, run, ks, Outcome::Steady(remains), next)
        }
    }
}

/// Lets the finalizer go, and reports the objects that stay.
pub(super) fn removal(run: &Run<'_>, removal: &Removal) -> Acted<Done> {
    match removal {
        Removal::Orphaned => {}
        Removal::Abandoned(objects) => {
            let message = format!("unable to prune objects: \n{}", joined(objects, "\n"));
            emit(run, Severity::Warning, Why::PruneFailed, &message);
        }
        Removal::Deleted(plan) => emit_kept_objects(run, plan),
        Removal::Overdue(remaining, plan) => {
            let names = joined(remaining, ", ");
            let message = format!("failed to wait for resources termination: [{names}]");
            emit(run, Severity::Warning, Why::PruneFailed, &message);
            emit_kept_objects(run, plan);
        }
    }
    Acted::Released
}

fn joined(objects: &[ObjectId], separator: &str) -> String {
    let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
    names.join(separator)
}
