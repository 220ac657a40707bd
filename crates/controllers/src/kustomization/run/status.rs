//! Saying it: status, finalizer, events. One request per transition, none where nothing changed.

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::{
    Condition, ConditionType, FINALIZER, KUSTOMIZE_MANAGER, KUSTOMIZE_STATUS_MANAGER, Reason, condition,
    is_true, merge_patch,
};
use equate_apply::inventory::Inventory;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Run, count};
use crate::kit::events::{Event, Severity};
use crate::kustomization::declared::Declared;
use crate::kustomization::reasons::Wait;
use crate::kustomization::report::{Aspects, Report};
use crate::ownership::contest::Contest;

/// Why a run ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The Kustomization is gone.
    Gone,
    /// It could not be written.
    Failed(WriteError),
}

/// Why a Kustomization could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The API server did not take it.
    #[error("the API server did not take the {part}")]
    Refused {
        /// Which part.
        part: &'static str,
        #[source]
        source: kube::Error,
    },
    /// It cannot be written as JSON.
    #[error("the status cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl Run<'_> {
    /// Writes what changed of the status, if anything did.
    pub(super) async fn report_status<'k>(
        &mut self,
        ks: &'k Declared,
        what: impl FnOnce(Report<'k>) -> Report<'k>,
    ) -> Result<(), Stop> {
        let before = self.object.status.clone().unwrap_or_default();
        let report = what(Report::new(ks, &before, Timestamp::now()));
        let after = report.finish(&self.aspects(ks));
        self.patch_status(after).await
    }

    /// Writes a status that an earlier run could not.
    pub(super) async fn retry_status(&mut self) -> Result<(), Stop> {
        match self.memory.unwritten_status.take() {
            // what was said of another spec is not true of this one
            Some(unwritten_status) if self.current() => self.patch_status(unwritten_status).await,
            _ => Ok(()),
        }
    }

    fn current(&self) -> bool {
        let record = self.memory.record.as_ref();
        record.is_none_or(|record| Some(record.generation) == self.object.metadata.generation)
    }

    async fn patch_status(&mut self, after: KustomizationStatus) -> Result<(), Stop> {
        let before = self.object.status.clone().unwrap_or_default();
        let patch = merge_patch(&before, &after).map_err(|error| Stop::Failed(error.into()))?;
        let Some(patch) = patch else { return Ok(()) };
        count(&self.cx.kit.tally.status_patches, 1);
        // the uid: a status never goes to an object that took this one's name
        let patch = Patch::Merge(json!({ "metadata": { "uid": self.object.metadata.uid }, "status": patch }));
        let written = self.api().patch_status(&self.key.name, &params(), &patch).await;
        match written {
            Ok(object) => {
                self.update_cached(object);
                Ok(())
            }
            Err(error) => {
                let stop = stop("status", error);
                if matches!(stop, Stop::Failed(_)) {
                    self.memory.unwritten_status = Some(after);
                }
                Err(stop)
            }
        }
    }

    /// Sets or removes our finalizer; the others stay as they are, also if they change meanwhile.
    pub(super) async fn set_finalizer(&mut self, on: bool) -> Result<(), Stop> {
        let mut finalizers = self.object.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if on {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch: Value = json!({ "metadata": {
            "finalizers": finalizers,
            "resourceVersion": self.object.metadata.resource_version,
        }});
        let written = self
            .api()
            .patch(&self.key.name, &params(), &Patch::Merge(patch))
            .await;
        match written {
            Ok(object) => {
                self.update_cached(object);
                Ok(())
            }
            Err(error) => Err(stop("finalizer", error)),
        }
    }

    fn update_cached(&mut self, object: Kustomization) {
        self.cx.kustomizations.note(object.clone());
        self.object = object.into();
    }

    fn api(&self) -> Api<Kustomization> {
        Api::namespaced(self.cx.kit.client.clone(), &self.key.namespace)
    }

    /// What holds whatever the run came to.
    fn aspects(&self, ks: &Declared) -> Aspects {
        let mut contests: Vec<Contest> = self.cx.index().contested(&self.me);
        let record = self.memory.record.as_ref();
        contests.extend(
            record
                .into_iter()
                .flat_map(|record| record.contests.iter().cloned()),
        );
        contests.sort();
        contests.dedup();
        let lines: Vec<String> = contests.iter().map(ToString::to_string).collect();
        Aspects {
            contested: (!lines.is_empty()).then(|| lines.join(", ")),
            drifting: self.memory.corrections.said(Instant::now()),
            awaited: self.awaited(ks),
            needed: self.needed(ks),
            over_budget: self.over_budget(ks),
            untaken: self.untaken(ks),
        }
    }

    /// What it says of being ready.
    pub(super) fn ready_condition(&self) -> Option<&Condition> {
        condition(&self.object.status.as_ref()?.conditions, ConditionType::Ready)
    }

    /// Whether it says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        let status = self.object.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready))
    }

    /// Whether it says that it is healthy.
    pub(super) fn is_healthy(&self) -> bool {
        let status = self.object.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, ConditionType::Healthy))
    }

    /// What its status says it holds.
    pub(super) fn inventory(&self) -> Inventory {
        Declared::from(&*self.object).inventory
    }

    /// A text that may quote what was built, without values of Secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        let read = self.values.iter().flatten().map(|values| values.masks());
        let kept = self.memory.record.iter().flat_map(|record| &record.masks);
        read.chain(kept)
            .fold(text.to_owned(), |text, masks| masks.mask(&text))
    }

    /// Tells of what is waited for, unless the status says it already.
    pub(super) fn emit_wait(&self, wait: &Wait, revision: &str) {
        let message = wait.to_string();
        let status = self.object.status.as_ref();
        let ready = status.and_then(|status| condition(&status.conditions, ConditionType::Ready));
        if ready.is_some_and(|ready| ready.message == message) {
            return;
        }
        let (of, reason) = (KUSTOMIZE_MANAGER, wait.reason().as_str());
        let event = Event::about(&*self.object, of, Severity::Warning, reason, message);
        self.cx.kit.recorder.publish(event.with("revision", revision));
    }

    /// Tells of something that happened; of the revision if one is being carried out.
    pub(super) fn emit(&self, severity: Severity, reason: Reason, message: impl Into<String>) {
        self.cx
            .kit
            .recorder
            .publish(self.event(severity, reason, message));
    }

    /// The same, for more to be said of it.
    pub(super) fn event(&self, severity: Severity, reason: Reason, message: impl Into<String>) -> Event {
        let mut event = Event::about(
            &*self.object,
            KUSTOMIZE_MANAGER,
            severity,
            reason.as_str(),
            self.masked(&message.into()),
        );
        if let Some(record) = &self.memory.record {
            event = event.with("revision", &record.revision.revision);
            if let Some(origin) = &record.revision.origin {
                event = event.with("originRevision", origin);
            }
        }
        event
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(KUSTOMIZE_STATUS_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn stop(part: &'static str, source: kube::Error) -> Stop {
    match &source {
        kube::Error::Api(status) if status.is_not_found() => Stop::Gone,
        _ => Stop::Failed(WriteError::Refused { part, source }),
    }
}
