//! One object while it is reconciled: its latest version, its memory, and the only writer of its status,
//! finalizer and events.
//!
//! A status is written as a patch, once per transition, never without a change. The answer goes into the
//! mirror: the next run reads what this one wrote. A status may be held until the next one is written, at
//! most until the end of the run, or of the next one: two transitions then cost one request.
//!
//! No status goes to an object that is known to have taken this one's name. The API server does not check
//! that: it ignores the uid in a patch of a custom resource's status.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use equate_api::meta::{REQUESTED_AT, merge_patch};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::controller::{Controller, Notice, StatusOf};
use super::controller::{Reconcilable, Status as _};
use super::events::{Event, Severity};
use super::mirror::Mirror;
use super::services::Kit;
use super::wake::Reasons;
use crate::{Key, ObjectRef};

/// The reason of the event about an object that waits because its tenant has used its share.
pub const THROTTLED_EVENT: &str = "Throttled";

#[derive(Debug)]
pub(super) struct Remembered<M, S> {
    /// Another object may take the name before the end of this one is seen.
    pub(super) uid: Option<String>,
    pub(super) memory: M,
    pub(super) unwritten: Option<Unwritten<S>>,
    /// The status that the next run holds.
    pub(super) postponed: Option<S>,
}

#[derive(Debug)]
pub(super) struct Unwritten<S> {
    generation: Option<i64>,
    status: S,
    /// Its events: the next run sees the written status and no change to report.
    notices: Vec<Notice>,
}

impl<M: Default, S> Remembered<M, S> {
    pub(super) fn of(object: &impl Resource) -> Self {
        Self {
            uid: object.meta().uid.clone(),
            memory: M::default(),
            unwritten: None,
            postponed: None,
        }
    }
}

const DELETED_EVERY: Duration = Duration::from_secs(1);

/// Why a run ends early.
#[derive(Debug)]
pub enum Stop {
    /// The object is gone.
    Gone,
    /// The object could not be written.
    Failed(WriteError),
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Self {
        Self::Failed(error)
    }
}

/// Why an object could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The API server rejected it.
    #[error("cannot write the {part}")]
    Refused {
        /// The part of the object.
        part: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// The status cannot be written as JSON.
    #[error("cannot encode the status as JSON")]
    Json(#[from] serde_json::Error),
}

/// One object while it is reconciled.
#[derive(Debug)]
pub struct Reconciliation<'a, C: Controller> {
    /// The memory between runs.
    pub memory: C::Memory,
    /// The reasons of the run.
    pub reasons: Reasons,
    /// The start of the run.
    pub began: Instant,
    key: Key,
    object: Arc<C::Object>,
    /// Read when the run begins: a later request is not answered by older observations.
    request: Option<String>,
    unwritten: Option<Unwritten<StatusOf<C>>>,
    /// The next status that is written is made from it.
    held: Option<StatusOf<C>>,
    /// Whether the end of the run leaves the held status to the next one.
    postponed: bool,
    kit: &'a Kit,
    mirror: &'a Mirror<C::Object>,
}

impl<'a, C: Controller> Reconciliation<'a, C> {
    pub(super) fn new(
        kit: &'a Kit,
        mirror: &'a Mirror<C::Object>,
        key: Key,
        object: Arc<C::Object>,
        reasons: Reasons,
        remembered: Remembered<C::Memory, StatusOf<C>>,
    ) -> Self {
        let Remembered {
            uid: _,
            memory,
            unwritten,
            postponed,
        } = remembered;
        Self {
            memory,
            reasons,
            began: Instant::now(),
            key,
            request: open_request(&*object),
            object,
            unwritten,
            held: postponed,
            postponed: false,
            kit,
            mirror,
        }
    }

    pub(super) fn into_remembered(self) -> Remembered<C::Memory, StatusOf<C>> {
        let meta = self.object.meta();
        let (postponed, held) = match self.postponed {
            true => (self.held, None),
            false => (None, self.held),
        };
        // the run ended before it could be written
        let held = held.map(|status| Unwritten {
            generation: meta.generation,
            status,
            notices: Vec::new(),
        });
        Remembered {
            uid: meta.uid.clone(),
            memory: self.memory,
            unwritten: self.unwritten.or(held),
            postponed,
        }
    }

    /// Its namespace and name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The object, as last read or written.
    pub fn object(&self) -> &Arc<C::Object> {
        &self.object
    }

    /// Its status, as last written or held; empty before the first.
    pub fn status(&self) -> StatusOf<C> {
        self.held.clone().unwrap_or_else(|| self.written_status())
    }

    fn written_status(&self) -> StatusOf<C> {
        self.object.status().cloned().unwrap_or_default()
    }

    /// The token of the request that this run answers: the one that was open when it began. The next run
    /// answers a later one.
    pub fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// Writes the status if it changed.
    ///
    /// # Errors
    ///
    /// If the object is gone, or the API server rejects the status: then the next run writes it first.
    pub async fn write_status(&mut self, after: StatusOf<C>) -> Result<(), Stop> {
        self.publish(after, Vec::new()).await
    }

    /// Sets the status, to be written with the next one, at the latest when the run ends. Nothing may depend
    /// on it before.
    pub fn hold_status(&mut self, after: StatusOf<C>) {
        self.held = Some(after);
        self.postponed = false;
    }

    /// Like [`hold_status`](Self::hold_status), but this run does not write it when it ends: the next run starts
    /// from it. It is lost when the process ends.
    pub(crate) fn postpone_status(&mut self, after: StatusOf<C>) {
        self.held = Some(after);
        self.postponed = true;
    }

    /// Writes the held status, unless the next run does.
    pub(super) async fn write_held(&mut self) -> Result<(), Stop> {
        match self.held.take_if(|_| !self.postponed) {
            Some(held) => self.write_status(held).await,
            None => Ok(()),
        }
    }

    /// Writes the held status while the run itself is in use.
    pub(crate) fn held_status(&self) -> HeldStatus<'a, C> {
        HeldStatus {
            status: self.status(),
            key: self.key.clone(),
            object: Arc::clone(&self.object),
            kit: self.kit,
            mirror: self.mirror,
        }
    }

    /// Takes what [`HeldStatus::write`] returned.
    pub(crate) fn was_written(&mut self, object: Arc<C::Object>) {
        if self.held.as_ref() == object.status() {
            self.held = None;
        }
        self.object = object;
    }

    /// Writes the status, then publishes its events. If the write fails, the next run gets both.
    pub(super) async fn publish(&mut self, after: StatusOf<C>, notices: Vec<Notice>) -> Result<(), Stop> {
        match self.patch_status(&after).await {
            Ok(()) => {
                notices.into_iter().for_each(|notice| self.emit(notice));
                Ok(())
            }
            Err(stop) => {
                if matches!(stop, Stop::Failed(WriteError::Refused { .. })) {
                    self.unwritten = Some(Unwritten {
                        generation: self.object.meta().generation,
                        status: after,
                        notices,
                    });
                }
                Err(stop)
            }
        }
    }

    async fn patch_status(&mut self, after: &StatusOf<C>) -> Result<(), Stop> {
        self.held = None;
        if self.written_status() == *after {
            // most runs find everything unchanged
            return Ok(());
        }
        let status = HeldStatus {
            status: after.clone(),
            ..self.held_status()
        };
        self.object = status.write().await?;
        Ok(())
    }

    /// Writes the unwritten status of an earlier run. If the spec changed since, or the object is deleted, this run
    /// starts from it in place of that: it may name what has to be deleted.
    pub(super) async fn write_unwritten(&mut self) -> Result<(), Stop> {
        let Some(unwritten) = self.unwritten.take() else {
            return Ok(());
        };
        if unwritten.generation != self.object.meta().generation {
            self.hold_status(unwritten.status);
            // the next status does not differ by what they say
            unwritten.notices.into_iter().for_each(|notice| self.emit(notice));
            return Ok(());
        }
        self.publish(unwritten.status, unwritten.notices).await?;
        // it may answer the request
        self.request = open_request(&*self.object);
        Ok(())
    }

    /// Sets or removes the controller's finalizer; others stay, even if they change meanwhile.
    pub(super) async fn set_finalizer(&mut self, finalizer: &str, on: bool) -> Result<(), Stop> {
        let mut finalizers = self.object.meta().finalizers.clone().unwrap_or_default();
        finalizers.retain(|other| other != finalizer);
        if on {
            finalizers.push(finalizer.to_owned());
        }
        let patch: Value = json!({ "metadata": {
            "finalizers": finalizers,
            "resourceVersion": self.object.meta().resource_version,
        }});
        let patch = Patch::Merge(patch);
        let api: Api<C::Object> = Api::namespaced(self.kit.client.clone(), &self.key.namespace);
        let written = api.patch(&self.key.name, &patch_params::<C>(), &patch).await;
        match written {
            Ok(object) => {
                self.mirror.note(object.clone());
                self.object = Arc::new(object);
                Ok(())
            }
            Err(error) => Err(stop("finalizer", error)),
        }
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        let finalizers = self.object.meta().finalizers.iter().flatten();
        finalizers.into_iter().any(|own| own == finalizer)
    }

    /// Publishes an event about the object. Never waits, never fails.
    pub fn emit(&self, notice: Notice) {
        let Notice {
            severity,
            reason,
            message,
            metadata,
        } = notice;
        let event = Event::about(&*self.object, C::ABOUT.component, severity, reason, message);
        let event = metadata
            .into_iter()
            .fold(event, |event, (name, value)| event.with(name, value));
        self.kit.recorder.publish(event);
    }

    /// Ends when the object is deleted, unless the run began with its deletion. Long work is dropped then.
    pub(crate) fn deleted(&self, was_deleting: bool) -> impl Future<Output = ()> + Send + use<'a, C> {
        let (key, uid, mirror) = (self.key.clone(), self.object.meta().uid.clone(), self.mirror);
        async move {
            if was_deleting {
                return std::future::pending().await;
            }
            let stays = |object: Arc<C::Object>| {
                object.meta().deletion_timestamp.is_none() && object.meta().uid == uid
            };
            while mirror.get(&key).is_some_and(stays) {
                tokio::time::sleep(DELETED_EVERY).await;
            }
        }
    }

    /// Reports, at most once in five minutes, that work of other tenants goes first.
    pub(crate) fn throttled(&self) {
        if self.kit.report_throttled(ObjectRef::of(C::ABOUT.kind, &self.key)) {
            let tenant = self.kit.settings.tenants.of(&self.key.namespace);
            let message = format!("{tenant} has used its share; other tenants go first");
            self.emit(Notice::new(Severity::Normal, THROTTLED_EVENT, &message));
        }
    }

    /// Waits for work. If it takes longer than `patience`, writes a progress status.
    ///
    /// # Errors
    ///
    /// If that status cannot be written; the work is dropped.
    pub async fn with_progress<T>(
        &mut self,
        patience: Duration,
        work: impl Future<Output = T>,
        status: impl FnOnce(StatusOf<C>) -> StatusOf<C>,
    ) -> Result<T, Stop> {
        let mut work = std::pin::pin!(work);
        match tokio::time::timeout(patience, &mut work).await {
            Ok(done) => Ok(done),
            Err(_elapsed) => {
                self.write_status(status(self.status())).await?;
                Ok(work.await)
            }
        }
    }
}

/// A status, and the object that it is written to.
pub(crate) struct HeldStatus<'a, C: Controller> {
    status: StatusOf<C>,
    key: Key,
    object: Arc<C::Object>,
    kit: &'a Kit,
    mirror: &'a Mirror<C::Object>,
}

impl<C: Controller> HeldStatus<'_, C> {
    /// Writes it if it changed. Returns the object as it is then.
    ///
    /// # Errors
    ///
    /// If the object is gone, or the API server rejects the status.
    pub(crate) async fn write(self) -> Result<Arc<C::Object>, Stop> {
        let before = self.object.status().cloned().unwrap_or_default();
        let patch = merge_patch(&before, &self.status).map_err(WriteError::from)?;
        let Some(patch) = patch else {
            return Ok(self.object);
        };
        let known = self.mirror.get(&self.key);
        if known.is_none_or(|known| self.is_another(&known)) {
            return Err(Stop::Gone);
        }
        if C::ABOUT.owner.is_some() {
            self.kit.tally.status_patches.fetch_add(1, Ordering::Relaxed);
        }
        let patch = Patch::Merge(json!({ "metadata": { "uid": self.object.meta().uid }, "status": patch }));
        let api: Api<C::Object> = Api::namespaced(self.kit.client.clone(), &self.key.namespace);
        let params = patch_params::<C>();
        let written = api.patch_status(&self.key.name, &params, &patch);
        let written = written.await.map_err(|error| stop("status", error))?;
        if self.is_another(&written) {
            return Err(Stop::Gone);
        }
        self.mirror.note(written.clone());
        Ok(Arc::new(written))
    }

    fn is_another(&self, object: &C::Object) -> bool {
        object.meta().uid != self.object.meta().uid
    }
}

/// The token of a request that no status has answered yet.
fn open_request<K: Reconcilable>(object: &K) -> Option<String> {
    let asked = object.meta().annotations.as_ref()?.get(REQUESTED_AT)?;
    let mut status = object.status().cloned().unwrap_or_default();
    let answered = status.last_handled_reconcile_at().as_ref();
    (answered != Some(asked)).then(|| asked.clone())
}

fn patch_params<C: Controller>() -> PatchParams {
    PatchParams {
        field_manager: Some(C::ABOUT.status_manager.to_owned()),
        ..PatchParams::default()
    }
}

fn stop(part: &'static str, source: kube::Error) -> Stop {
    match &source {
        kube::Error::Api(status) if status.is_not_found() => Stop::Gone,
        _ => Stop::Failed(WriteError::Refused { part, source }),
    }
}
