//! Finds the access to a Kustomization's objects at the beginning of its run: the cluster, and the
//! identity. Also polls objects that no watch covers for that identity.
//!
//! If the target cluster changes, the objects in the old one stay, as in Flux: no declaration says to
//! delete them.

use std::sync::Arc;
use std::time::Duration;

use equate_apply::observed::Observed;
use equate_apply::plan::Presence;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;

use super::values::refreshes_values;
use crate::key::is_name;
use crate::kit::read::chain;
use crate::kit::watcher::view::ScopedAnswer;
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::Memory;
use crate::kustomization::reasons::Failure;
use crate::kustomization::{KUSTOMIZATION, Kustomizations, Run, object_ref, owner_of};
use crate::targets::destination::{AccessError, Destination};
use crate::targets::target::Access;

const ANSWER: Duration = Duration::from_secs(10);
const TOGETHER: usize = 8;

/// Finds the access; keeps the old one if it is the same.
pub(super) async fn connect(cx: &Kustomizations, run: &mut Run<'_>, ks: &Declared) {
    let to = Destination {
        owner: owner_of(&ks.key),
        kube_config: ks.kube_config.as_ref(),
        account: ks.account(&cx.kit.settings.policy),
    };
    let reasons = run.reasons;
    let rereads = |watched| reasons.iter().any(|reason| refreshes_values(reason, watched));
    let access = match cx.kit.access(&to, &mut run.memory.remote, rereads).await {
        Ok(access) => access,
        Err(AccessError::Remote(error)) => return lose_access(run, error.into()),
        // it stalls
        Err(AccessError::Account(_)) => return,
    };
    let before = run.memory.access.as_ref();
    if let Some(before) = before.filter(|before| before.is(&access)) {
        run.memory.this_run.access = Some(before.clone());
        return;
    }
    leave_cluster(run, Some(&access));
    let me = object_ref(&ks.key);
    cx.kit.ownership().set_target(&me, &access.target);
    run.memory.access = Some(access.clone());
    run.memory.this_run.access = Some(access);
}

/// Without access nothing is done about its objects.
fn lose_access(run: &mut Run<'_>, failure: Failure) {
    run.memory.remote = None;
    leave_cluster(run, None);
    run.memory.this_run.no_access = Some(failure);
}

/// Drops what was known of another cluster: none of it applies here.
fn leave_cluster(run: &mut Run<'_>, to: Option<&Access>) {
    if let Some(before) = run.memory.access.take() {
        before.view.forget(run.key());
    }
    let Some(target) = to.map(|to| &to.target) else {
        return;
    };
    let memory = &mut run.memory;
    if memory.target.as_ref().is_some_and(|before| before != target) {
        *memory = Memory {
            remote: memory.remote.take(),
            ..Memory::default()
        };
    }
    memory.target = Some(target.clone());
}

/// Whether the impersonated account exists; true if unknown.
pub(in crate::kustomization) async fn account_exists(
    cx: &Kustomizations,
    run: &Run<'_>,
    ks: &Declared,
) -> bool {
    let Some(account) = ks.account(&cx.kit.settings.policy) else {
        return true;
    };
    if !is_name(account) {
        return false;
    }
    let client = cx.access(&run.memory).cluster.client().clone();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &ks.key.namespace);
    let found = tokio::time::timeout(ANSWER, accounts.get_metadata_opt(account)).await;
    !matches!(found, Ok(Ok(None)))
}

/// Polls the checked objects of others, with the identity's rights. An identity with watches for all needs
/// none.
pub(super) async fn observe_unwatched(cx: &Kustomizations, run: &Run<'_>) {
    let access = cx.access(&run.memory);
    if !access.view.is_narrow() {
        return;
    }
    let (key, owner) = (run.key(), &owner_of(run.key()));
    let record = run.memory.record.as_ref();
    let asked = record.map_or(&[][..], |record| &record.asked);
    let asking = asked.iter().map(|(id, version)| async move {
        let seen = match access.cluster.get(id, version, ANSWER).await {
            Ok(Some(object)) => {
                let (rules, owner) = (Arc::clone(&cx.rules), owner.clone());
                let observe = move || {
                    let mut observed = Observed::under(&object, &KUSTOMIZATION, &*rules);
                    observed.judge(&object, &owner, &*rules);
                    Arc::new(observed)
                };
                let observed = match cx.rules.judges(key, id) {
                    false => Ok(observe()),
                    true => cx.kit.processors.run(&key.namespace, observe).done().await,
                };
                match observed {
                    Ok(observed) => ScopedAnswer::Is(Presence::Present(observed)),
                    Err(error) => ScopedAnswer::Refused(format!("cannot evaluate its health: {error}")),
                }
            }
            Ok(None) => ScopedAnswer::Is(Presence::Absent),
            Err(error) => ScopedAnswer::Refused(chain(&error)),
        };
        (id.clone(), seen)
    });
    let asking: Vec<_> = asking.collect();
    let answers = stream::iter(asking).buffer_unordered(TOGETHER);
    access.view.set_answers(answers.collect().await);
}
