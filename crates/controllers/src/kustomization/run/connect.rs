//! Finds the way to the objects of a Kustomization at the beginning of its run: the cluster, and as whom
//! (`cluster`); and asks for what that identity has to see and nobody tells it of.
//!
//! Where the way leads to another cluster than before, what was applied stays there, as in Flux: nobody
//! says that it may go.

use std::sync::Arc;
use std::time::Duration;

use equate_apply::observed::Observed;
use equate_apply::plan::Presence;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;

use super::{Run, refreshes_values};
use crate::key::is_name;
use crate::kit::read::chain;
use crate::kit::wake::Reasons;
use crate::kit::watcher::view::ScopedAnswer;
use crate::kustomization::decide::Phase;
use crate::kustomization::declared::Declared;
use crate::kustomization::memory::{Memory, Record};
use crate::kustomization::reasons::Failure;
use crate::kustomization::{KUSTOMIZATION, owner_of};
use crate::targets::destination::{AccessError, Destination};
use crate::targets::target::Access;

/// How long an answer about one object may take.
const ANSWER: Duration = Duration::from_secs(10);
/// So many objects of others are asked for at once.
const TOGETHER: usize = 8;
/// How often objects are asked for that are waited for and nobody tells of.
const LOOK: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Finds the way to its objects: as before, if it is the same.
    pub(super) async fn connect(&mut self, reasons: Reasons) {
        let ks = Declared::from(&*self.object);
        let to = Destination {
            owner: owner_of(&ks.key),
            kube_config: ks.kube_config.as_ref(),
            account: ks.account(&self.cx.kit.settings.policy),
        };
        let rereads = |told| reasons.iter().any(|reason| refreshes_values(reason, told));
        let access = match self.cx.kit.access(&to, &mut self.memory.remote, rereads).await {
            Ok(access) => access,
            Err(AccessError::Remote(error)) => return self.lose_access(error.into()),
            // it stalls
            Err(AccessError::Account(_)) => return,
        };
        let before = self.memory.access.as_ref();
        if let Some(before) = before.filter(|before| before.is(&access)) {
            self.access = before.clone();
            return;
        }
        self.leave_cluster(Some(&access));
        self.cx.index().set_target(&self.me, &access.target);
        self.memory.access = Some(access.clone());
        self.access = access;
    }

    /// There is no way to its objects: nothing is done about them until there is one.
    fn lose_access(&mut self, failure: Failure) {
        self.memory.remote = None;
        self.leave_cluster(None);
        self.access_failure = Some(failure);
    }

    /// Leaves what was reached before: what is known of another cluster is nothing here.
    fn leave_cluster(&mut self, to: Option<&Access>) {
        if let Some(before) = self.memory.access.take() {
            before.hub.forget(&self.key);
        }
        let Some(target) = to.map(|to| &to.target) else {
            return;
        };
        if self.memory.target.as_ref().is_some_and(|before| before != target) {
            let unwritten_status = self.memory.unwritten_status.take();
            self.memory = Memory {
                remote: self.memory.remote.take(),
                unwritten_status,
                ..Memory::default()
            };
        }
        self.memory.target = Some(target.clone());
    }

    /// Whether the account that it acts as is there; also where nobody can say.
    pub(super) async fn account_exists(&self) -> bool {
        let ks = Declared::from(&*self.object);
        let Some(account) = ks.account(&self.cx.kit.settings.policy) else {
            return true;
        };
        if !is_name(account) {
            return false;
        }
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.access.cluster.client().clone(), &self.key.namespace);
        let found = tokio::time::timeout(ANSWER, accounts.get_metadata_opt(account)).await;
        !matches!(found, Ok(Ok(None)))
    }

    /// Asks for what has to be healthy and is not its own, with the rights that it has; who is told
    /// of everything asks for nothing.
    pub(super) async fn observe_unwatched(&self) {
        if !self.access.hub.is_narrow() {
            return;
        }
        let owner = &owner_of(&self.key);
        let record = self.memory.record.as_ref();
        let asked = record.map_or(&[][..], |record| &record.asked);
        let asking = asked.iter().map(|(id, version)| async move {
            let told = match self.access.cluster.get(id, version, ANSWER).await {
                Ok(Some(object)) => {
                    let mut observed = Observed::under(&object, &KUSTOMIZATION, &*self.cx.rules);
                    observed.judge(&object, owner, &*self.cx.rules);
                    ScopedAnswer::Is(Presence::Present(Arc::new(observed)))
                }
                Ok(None) => ScopedAnswer::Is(Presence::Absent),
                Err(error) => ScopedAnswer::Refused(chain(&error)),
            };
            (id.clone(), told)
        });
        let asking: Vec<_> = asking.collect();
        let answers = stream::iter(asking).buffer_unordered(TOGETHER);
        self.access.hub.told(answers.collect().await);
    }

    /// When to ask again, while it waits for what nobody tells of.
    pub(super) fn observe_again_after(&self, record: &Record) -> Option<Duration> {
        let waits = matches!(
            record.phase,
            Phase::Checking { .. } | Phase::Ready { until: Some(_) }
        );
        (waits && !record.asked.is_empty()).then_some(LOOK)
    }
}
