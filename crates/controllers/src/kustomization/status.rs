//! The end of a run, as a status; pure: the same state always gives the same status.
//!
//! Each function turns the present status into the next; the caller writes the difference, if any. Reasons
//! and well-known messages are those of Flux's kustomize-controller.

use std::collections::BTreeMap;
use std::time::Duration;

use equate_api::kustomize::{
    HISTORY_RECORDS_MAX, HistoryRecord, Inventory as StatusInventory, InventoryEntry, KustomizationStatus,
};
use equate_api::meta::{
    ConditionStatus, ConditionType, Reason, condition, is_true, remove_condition, set_condition,
};
use equate_apply::inventory::Inventory;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::declared::Declared;
use super::inputs::artifact::Revision;
use super::reasons::{Failure, Stall, Wait, flux_duration};

/// The conditions' former names; the next write removes them.
const RENAMED: [&str; 2] = ["Contested", "PruneHeld"];

const IN_PROGRESS: &str = "Reconciliation in progress";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The digest of the build, `sha256:<hex>`.
    pub(crate) digest: String,
    pub(crate) took: Duration,
}

/// The conditions that are independent of how the run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Aspects {
    /// The objects that another Kustomization declares as well.
    pub(crate) contested: Option<String>,
    /// The objects that another writer keeps changing.
    pub(crate) drifting: Option<String>,
    /// The objects that are not deleted yet because others may want them.
    pub(crate) awaited: Option<String>,
    /// The objects that are not deleted yet because others need objects in them.
    pub(crate) needed: Option<String>,
    /// The objects that are not deleted because of the prune budget.
    pub(crate) over_budget: Option<String>,
    /// The objects that another declares and does not take.
    pub(crate) untaken: Option<String>,
}

impl Aspects {
    pub(crate) fn map_messages(self, map: impl Fn(&str) -> String) -> Self {
        let map = |message: Option<String>| message.map(|message| map(&message));
        Self {
            contested: map(self.contested),
            drifting: map(self.drifting),
            awaited: map(self.awaited),
            needed: map(self.needed),
            over_budget: map(self.over_budget),
            untaken: map(self.untaken),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Healthy {
    NotChecked,
    Passed(Duration),
    Still,
}

#[derive(Debug)]
pub(crate) struct StatusDraft<'a> {
    ks: &'a Declared,
    now: Timestamp,
    status: KustomizationStatus,
}

impl<'a> StatusDraft<'a> {
    pub(crate) fn new(ks: &'a Declared, before: &KustomizationStatus, now: Timestamp) -> Self {
        let mut status = before.clone();
        // the first status replaces the default of the CRD, which means that nothing was observed
        if status.observed_generation.is_none() {
            status.observed_generation = Some(-1);
        }
        Self { ks, now, status }
    }

    pub(crate) fn finish(mut self, aspects: &Aspects) -> KustomizationStatus {
        self.status
            .conditions
            .retain(|condition| !RENAMED.contains(&&*condition.type_));
        self.aspect(
            ConditionType::OwnershipConflict,
            Reason::OwnershipConflict,
            aspects.contested.as_deref(),
        );
        self.aspect(
            ConditionType::Drifted,
            Reason::DriftRepeats,
            aspects.drifting.as_deref(),
        );
        // one at a time: the next is reported when the first is over
        let reasons = [
            (Reason::PruneBudgetExceeded, &aspects.over_budget),
            (Reason::OthersUnknown, &aspects.awaited),
            (Reason::StillNeeded, &aspects.needed),
            (Reason::NotTaken, &aspects.untaken),
        ];
        let first = reasons
            .into_iter()
            .find_map(|(reason, held)| Some((reason, held.as_deref()?)));
        let (reason, held) = first.unzip();
        self.aspect(ConditionType::PruneBlocked, reason.unwrap_or_default(), held);
        self.status
    }

    /// The inventory has to name new objects before they are created.
    #[must_use]
    pub(crate) fn started(mut self, revision: &Revision, inventory: &Inventory) -> Self {
        self.hold(inventory);
        self.attempted(revision);
        let message = detecting(&revision.revision, self.ks.timeout);
        self.progressing(&message);
        self
    }

    #[must_use]
    pub(crate) fn checking(mut self, revision: &Revision, inventory: &Inventory) -> Self {
        self.hold(inventory);
        self.attempted(revision);
        let message = checking(&revision.revision, self.ks.timeout);
        self.progressing(&message);
        self.set(
            ConditionType::Healthy,
            ConditionStatus::Unknown,
            Reason::Progressing,
            &message,
        );
        self
    }

    #[must_use]
    pub(crate) fn holding(mut self, inventory: &Inventory) -> Self {
        self.hold(inventory);
        self
    }

    #[must_use]
    pub(crate) fn ready(
        mut self,
        revision: &Revision,
        inventory: &Inventory,
        attempt: &Attempt,
        healthy: &Healthy,
    ) -> Self {
        self.hold(inventory);
        self.attempted(revision);
        self.remember(revision, attempt, Reason::ReconciliationSucceeded);
        self.status.last_applied_revision = Some(revision.revision.clone());
        self.status.last_applied_origin_revision = revision.origin.clone();
        self.clear(ConditionType::Reconciling);
        self.clear(ConditionType::Stalled);
        let message = format!("Applied revision: {}", revision.revision);
        self.set(
            ConditionType::Ready,
            ConditionStatus::True,
            Reason::ReconciliationSucceeded,
            &message,
        );
        match healthy {
            Healthy::NotChecked => self.clear(ConditionType::Healthy),
            Healthy::Still => {}
            Healthy::Passed(after) => {
                let message = format!("Health check passed in {}", flux_duration(*after));
                self.set(
                    ConditionType::Healthy,
                    ConditionStatus::True,
                    Reason::Succeeded,
                    &message,
                );
            }
        }
        self.status.observed_generation = Some(self.ks.generation);
        self
    }

    #[must_use]
    pub(crate) fn failed(
        mut self,
        failure: &Failure,
        revision: &Revision,
        inventory: &Inventory,
        attempt: Option<&Attempt>,
    ) -> Self {
        if self.status.inventory.is_some() || !inventory.is_empty() {
            self.hold(inventory);
        }
        if !matches!(failure, Failure::PathAbsent { .. } | Failure::Artifact(_)) {
            self.attempted(revision);
        }
        if let Some(attempt) = attempt {
            self.remember(revision, attempt, failure.reason());
        }
        let (at, timeout) = (&revision.revision, self.ks.timeout);
        let doing = match failure {
            Failure::PathAbsent { .. } | Failure::Artifact(_) => fetching(at, timeout),
            Failure::Build(_)
            | Failure::Substitution(_)
            | Failure::Decryption(_)
            | Failure::Values(_)
            | Failure::BuildTimeout(_) => format!(
                "Building manifests for revision {at} with a timeout of {}",
                flux_duration(timeout)
            ),
            Failure::Health(..) => checking(at, timeout),
            Failure::Apply(_)
            | Failure::Unreachable(_)
            | Failure::Stage(_)
            | Failure::OwnershipConflict(_)
            | Failure::Prune(_) => detecting(at, timeout),
        };
        self.clear(ConditionType::Stalled);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::ProgressingWithRetry,
            &doing,
        );
        let (reason, message) = (failure.reason(), failure.to_string());
        self.set(ConditionType::Ready, ConditionStatus::False, reason, &message);
        match failure {
            Failure::Health(_, why) => self.set(ConditionType::Healthy, ConditionStatus::False, reason, why),
            // the health of objects that are not applied is unknown
            _ => self.clear(ConditionType::Healthy),
        }
        self
    }

    #[must_use]
    pub(crate) fn awaiting(mut self, message: &str) -> Self {
        self.progressing(message);
        self
    }

    #[must_use]
    pub(crate) fn waiting(mut self, wait: &Wait) -> Self {
        if let Wait::Fetching {
            revision,
            trouble: None,
        } = wait
        {
            self.progressing(&fetching(revision, self.ks.timeout));
            return self;
        }
        self.clear(ConditionType::Stalled);
        if let Some(doing) = condition(&self.status.conditions, ConditionType::Reconciling) {
            let doing = doing.message.clone();
            self.set(
                ConditionType::Reconciling,
                ConditionStatus::True,
                Reason::ProgressingWithRetry,
                &doing,
            );
        }
        self.set(
            ConditionType::Ready,
            ConditionStatus::False,
            wait.reason(),
            &wait.to_string(),
        );
        self
    }

    #[must_use]
    pub(crate) fn stalled(mut self, stall: &Stall) -> Self {
        let (reason, message) = (stall.reason(), stall.to_string());
        self.clear(ConditionType::Reconciling);
        self.set(ConditionType::Stalled, ConditionStatus::True, reason, &message);
        self.set(ConditionType::Ready, ConditionStatus::False, reason, &message);
        self.status.observed_generation = Some(self.ks.generation);
        self
    }

    /// Suspended: a ready Kustomization stays ready, also for its dependents.
    #[must_use]
    pub(crate) fn suspended(mut self) -> Self {
        if is_true(&self.status.conditions, ConditionType::Ready) {
            self.status.observed_generation = Some(self.ks.generation);
        }
        self
    }

    fn progressing(&mut self, doing: &str) {
        self.clear(ConditionType::Stalled);
        self.set(
            ConditionType::Reconciling,
            ConditionStatus::True,
            Reason::Progressing,
            doing,
        );
        self.set(
            ConditionType::Ready,
            ConditionStatus::Unknown,
            Reason::Progressing,
            IN_PROGRESS,
        );
    }

    fn attempted(&mut self, revision: &Revision) {
        self.status.last_attempted_revision = Some(revision.revision.clone());
    }

    fn hold(&mut self, inventory: &Inventory) {
        let entries = inventory
            .entries()
            .into_iter()
            .map(|(id, v)| InventoryEntry { id, v });
        let entries: Vec<InventoryEntry> = entries.collect();
        if let Some(held) = &self.status.inventory {
            let mut held = held.entries.clone();
            held.sort_by(|one, other| one.id.cmp(&other.id));
            // only the order differs: Flux sorts by the order of applying
            if held == entries {
                return;
            }
        }
        self.status.inventory = Some(StatusInventory { entries });
    }

    fn remember(&mut self, revision: &Revision, attempt: &Attempt, reason: Reason) {
        let mut metadata = BTreeMap::from([("revision".to_owned(), revision.revision.clone())]);
        if let Some(origin) = &revision.origin {
            metadata.insert("originRevision".to_owned(), origin.clone());
        }
        remember(&mut self.status.history, attempt, reason, metadata, self.now);
    }

    fn set(&mut self, of: ConditionType, status: ConditionStatus, reason: Reason, message: &str) {
        set_condition(
            &mut self.status.conditions,
            of,
            status,
            reason,
            message,
            self.ks.generation,
            self.now,
        );
    }

    fn clear(&mut self, of: ConditionType) {
        remove_condition(&mut self.status.conditions, of);
    }

    fn aspect(&mut self, of: ConditionType, reason: Reason, message: Option<&str>) {
        match message {
            Some(message) => self.set(of, ConditionStatus::True, reason, message),
            None => self.clear(of),
        }
    }
}

/// Adds a result to the history, newest first: the same digest with the same result is one record.
fn remember(
    history: &mut Vec<HistoryRecord>,
    attempt: &Attempt,
    reason: Reason,
    metadata: BTreeMap<String, String>,
    now: Timestamp,
) {
    let now = Time(now);
    let same = history.iter().position(|record| {
        record.digest == attempt.digest && record.last_reconciled_status == reason.as_str()
    });
    let before = same.map(|place| history.remove(place));
    let record = HistoryRecord {
        digest: attempt.digest.clone(),
        first_reconciled: before
            .as_ref()
            .map_or_else(|| now.clone(), |b| b.first_reconciled.clone()),
        last_reconciled: now,
        last_reconciled_duration: attempt.took.into(),
        last_reconciled_status: reason.as_str().to_owned(),
        metadata,
        total_reconciliations: before.map_or(0, |b| b.total_reconciliations) + 1,
    };
    history.insert(0, record);
    history.truncate(HISTORY_RECORDS_MAX);
}

fn fetching(revision: &str, timeout: Duration) -> String {
    format!(
        "Fetching manifests for revision {revision} with a timeout of {}",
        flux_duration(timeout)
    )
}

/// Flux's message for applying, and for pruning, too.
fn detecting(revision: &str, timeout: Duration) -> String {
    format!(
        "Detecting drift for revision {revision} with a timeout of {}",
        flux_duration(timeout)
    )
}

fn checking(revision: &str, timeout: Duration) -> String {
    format!(
        "Running health checks for revision {revision} with a timeout of {}",
        flux_duration(timeout)
    )
}
