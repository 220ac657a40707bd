//! Runs the objects of one kind: from the queue, through the four verbs, to the next wake.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::about::About;
use super::backoff::Backoff;
use super::controller::{
    Absence, Acted, Controller, Failure, Next, Notice, ROUNDS_MAX, Reconcilable as _, Report,
    StandardConditions, Status as _, StatusOf,
};
use super::events::Severity;
use super::listed;
use super::mirror::{Change, Mirror};
use super::queue::{self, Counts, Queue, Requeue, RunInfo, Settings};
use super::read::chain;
use super::reconciliation::{Reconciliation, Remembered, Stop};
use super::services::Kit;
use super::wake::Reason;
use crate::{Key, ObjectRef};

/// An object was reconciled.
#[derive(Debug, Clone, Copy)]
pub struct ReconcileEvent<'a> {
    /// Its kind and controller.
    pub about: &'static About,
    /// The object.
    pub key: &'a Key,
    /// How long it was ready and waited for a worker.
    pub waited: Duration,
    /// How long the run waited for processors.
    pub waited_for_processors: Duration,
    /// The duration of the run.
    pub took: Duration,
    /// Whether it failed, also if nothing retries it.
    pub failed: bool,
    /// Whether the object is not reconciled here any more.
    pub gone: bool,
}

/// Called after each run.
pub type Observer = Arc<dyn Fn(&ReconcileEvent<'_>) + Send + Sync>;

struct Outcome {
    next: Next,
    failed: bool,
}

type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Boxed: a memory has some KiB, and the table keeps the room of its peak.
type Memories<C> = HashMap<Key, Box<Remembered<<C as Controller>::Memory, StatusOf<C>>>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Concurrent runs per kind, `--concurrent`.
    pub(crate) concurrent: usize,
    pub(crate) backoff: Backoff,
}

pub(crate) trait Run: Send + Sync {
    fn about(&self) -> &'static About;

    fn counts(&self) -> Counts;

    fn objects(&self) -> Vec<Arc<dyn listed::Listed>>;

    fn wake_all(&self, reason: Reason);

    fn run(self: Arc<Self>, stop: CancellationToken, observer: Option<Observer>) -> Ended;
}

pub(crate) struct Runner<C: Controller> {
    kit: Arc<Kit>,
    controller: Arc<C>,
    mirror: Mirror<C::Object>,
    queue: Queue<Key>,
    // held for a map operation
    remembered: Mutex<Memories<C>>,
}

impl<C: Controller> fmt::Debug for Runner<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("about", C::ABOUT)
            .finish_non_exhaustive()
    }
}

impl<C: Controller> Runner<C> {
    pub(crate) fn new(kit: &Arc<Kit>, pace: Pace) -> Self {
        let queue = Queue::new(Settings {
            workers: C::ABOUT.concurrency.limit(pace.concurrent),
            tenants: kit.settings.tenants.clone(),
            yielding: kit.yielding.clone(),
            backoff: pace.backoff,
            jitter: kit.settings.jitter.clone(),
            ..Settings::default()
        });
        kit.waker.register(C::ABOUT.kind, queue.clone());
        let mirror = kit.mirror::<C::Object>();
        let controller = Arc::new(C::new(kit));
        {
            // the mirror lives in the kit, which the controller holds: a strong reference would keep all
            // three
            let (controller, waker) = (Arc::downgrade(&controller), kit.waker.clone());
            let shards = kit.settings.shards.clone();
            mirror.subscribe(move |change: &Change<C::Object>| {
                let Some(controller) = controller.upgrade() else {
                    return;
                };
                let own = |object: &Arc<C::Object>| shards.own(object.meta());
                let here = change.before.as_ref().is_some_and(own) || change.after.as_ref().is_some_and(own);
                let is_own = |object: &ObjectRef| {
                    object.kind == C::ABOUT.kind
                        && object.namespace == change.key.namespace
                        && object.name == change.key.name
                };
                let wakes = controller.affected(change).into_iter();
                waker.wake_all(wakes.filter(|(object, _)| here || !is_own(object)));
            });
        }
        Self {
            kit: Arc::clone(kit),
            controller,
            mirror,
            queue,
            remembered: Mutex::default(),
        }
    }

    /// Runs one object. Returns when it runs next, and whether this run failed.
    async fn reconcile(&self, key: Key, info: RunInfo) -> (Requeue, bool) {
        let reasons = info.reasons;
        let Some(object) = self.mirror.get(&key) else {
            return (self.forget(&key, Absence::Deleted, None).await, false);
        };
        if !self.kit.settings.shards.own(object.meta()) {
            return (self.forget(&key, Absence::OtherShard, None).await, false);
        }
        let remembered = self.recall(&key, &object).await;
        let mut run = Reconciliation::new(&self.kit, &self.mirror, key.clone(), object, reasons, remembered);
        if info.throttled {
            run.throttled();
        }
        let ended = match self.verbs(&mut run).await {
            Ok(outcome) => run.write_held().await.map(|()| outcome),
            Err(stop) => Err(stop),
        };
        let interval = self.controller.interval(run.object());
        let retry_interval = run.object().retry_interval();
        let object = Arc::clone(run.object());
        let remembered = run.into_remembered();
        self.remembered().insert(key.clone(), Box::new(remembered));
        match ended {
            Ok(Outcome { next, failed }) => {
                self.controller.finished(&key);
                let requeue = self.requeue(next, interval);
                (requeue, failed || requeue.is_failure())
            }
            Err(Stop::Gone) => (self.forget(&key, Absence::Deleted, Some(&object)).await, false),
            Err(Stop::Failed(error)) => {
                let kind = C::ABOUT.kind;
                tracing::warn!(kind, %key, %reasons, error = %chain(&error), "cannot write an object");
                (Requeue::BackoffWithin(retry_interval), true)
            }
        }
    }

    async fn verbs(&self, run: &mut Reconciliation<'_, C>) -> Result<Outcome, Stop> {
        run.write_unwritten().await?;
        for _ in 0..ROUNDS_MAX {
            let object = Arc::clone(run.object());
            let deleting = object.meta().deletion_timestamp.is_some();
            if let Some(finalizer) = C::ABOUT.finalizer {
                match (deleting, run.has_finalizer(finalizer)) {
                    (true, false) => return Err(Stop::Gone),
                    (false, false) if C::is_finalized(&object) => run.set_finalizer(finalizer, true).await?,
                    (false, false) | (_, true) => {}
                }
            } else if deleting {
                return Ok(Next::Await.into());
            }
            let declared = match C::declare(&object) {
                Ok(declared) => declared,
                Err(failure) if deleting => return self.release(run, &failure).await,
                Err(failure) => {
                    self.fail(run, &failure).await?;
                    return Ok(Outcome {
                        next: Next::Await,
                        failed: true,
                    });
                }
            };
            if object.is_suspended() && !deleting && !C::ATTENDS_SUSPENDED {
                let memory = std::mem::take(&mut run.memory);
                self.controller.suspend(run.key(), memory);
                let status = C::suspended(&declared, self.answered(run, run.status()));
                run.write_status(status).await?;
                return Ok(Next::Await.into());
            }
            let seen = self.controller.observe(run, &declared).await?;
            let plan = C::decide(&declared, &seen, Instant::now());
            tracing::debug!(kind = C::ABOUT.kind, key = %run.key(), ?plan, "decided");
            match self.controller.act(run, &declared, seen, plan).await? {
                Acted::Again => {}
                Acted::Unreported(next) => return Ok(next.into()),
                Acted::Done(done) => {
                    let report = C::report(&declared, &run.status(), done, Timestamp::now());
                    return self.publish(run, report).await;
                }
                Acted::Released => {
                    if let Some(finalizer) = C::ABOUT.finalizer.filter(|own| run.has_finalizer(own)) {
                        run.set_finalizer(finalizer, false).await?;
                    }
                    return Err(Stop::Gone);
                }
            }
        }
        // its input has arrived; others go first
        Ok(Next::After(Duration::ZERO, Reason::Deferred).into())
    }

    async fn publish(
        &self,
        run: &mut Reconciliation<'_, C>,
        report: Report<StatusOf<C>>,
    ) -> Result<Outcome, Stop> {
        let Report {
            status,
            notices,
            next,
            ended,
            failed,
        } = report;
        let status = if ended { self.answered(run, status) } else { status };
        run.publish(status, notices).await?;
        Ok(Outcome { next, failed })
    }

    /// Releases a deleted object with an invalid spec: the verbs need a valid one.
    async fn release(&self, run: &mut Reconciliation<'_, C>, refused: &Failure) -> Result<Outcome, Stop> {
        match self.controller.release_undeclared(run, refused).await {
            Ok(notice) => {
                if let Some(finalizer) = C::ABOUT.finalizer {
                    run.set_finalizer(finalizer, false).await?;
                }
                run.emit(notice);
                Err(Stop::Gone)
            }
            Err(failure) => {
                self.fail(run, &failure).await?;
                Ok(Outcome {
                    next: failure.next(run.object().retry_interval()),
                    failed: true,
                })
            }
        }
    }

    /// Ends the run with a failure, which is reported once.
    async fn fail(&self, run: &mut Reconciliation<'_, C>, failure: &Failure) -> Result<(), Stop> {
        let before = run.status();
        let mut status = self.answered(run, before.clone());
        let generation = run.object().meta().generation.unwrap_or_default();
        StandardConditions::new(&mut status, generation, Timestamp::now()).failed(failure);
        let notice = || Notice::new(Severity::Warning, failure.reason.as_str(), &failure.message);
        let notice = (status != before).then(notice);
        run.publish(status, notice.into_iter().collect()).await
    }

    fn answered(&self, run: &Reconciliation<'_, C>, mut status: StatusOf<C>) -> StatusOf<C> {
        if let Some(token) = run.request() {
            *status.last_handled_reconcile_at() = Some(token.to_owned());
        }
        status
    }

    /// Takes the memory of an object out of the map: after a panic the next run begins without it.
    async fn recall(&self, key: &Key, object: &C::Object) -> Remembered<C::Memory, StatusOf<C>> {
        let known = self.remembered().remove(key);
        match known {
            Some(known) if known.uid == object.meta().uid => return *known,
            // the end of the old object of this name was not seen
            Some(other) => self.controller.forget(key, other.memory, Absence::Deleted).await,
            None => {}
        }
        Remembered::of(object)
    }

    /// Drops all state of an object that is not reconciled here. `ended` is the object, if its end was
    /// seen before the mirror had it.
    async fn forget(&self, key: &Key, why: Absence, ended: Option<&C::Object>) -> Requeue {
        let known = self.remembered().remove(key);
        let memory = known.map(|known| known.memory).unwrap_or_default();
        // before any await: a later wake is for a new object of this name
        self.queue.forget(key);
        self.controller.forget(key, memory, why).await;
        // a wake during the run has just been dropped
        let object = self.mirror.get(key);
        let object = object.filter(|object| self.kit.settings.shards.own(object.meta()));
        let is_another =
            |object: Arc<C::Object>| ended.is_none_or(|ended| ended.meta().uid != object.meta().uid);
        if object.is_some_and(is_another) {
            self.queue.wake(key.clone(), Reason::Appeared);
        }
        Requeue::Wait
    }

    fn requeue(&self, next: Next, interval: Duration) -> Requeue {
        match next {
            Next::Await => Requeue::Wait,
            Next::Interval => Requeue::After(self.kit.spread(interval), Reason::Interval),
            Next::After(delay, reason) => Requeue::After(delay, reason),
            Next::Pause(delay, reason) => Requeue::Pause(delay, reason),
            Next::Backoff => Requeue::Backoff,
            Next::BackoffWithin(delay) => Requeue::BackoffWithin(delay),
        }
    }

    fn is_gone(&self, key: &Key) -> bool {
        let object = self.mirror.get(key);
        object.is_none_or(|object| !self.kit.settings.shards.own(object.meta()))
    }

    fn remembered(&self) -> MutexGuard<'_, Memories<C>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        Self { next, failed: false }
    }
}

impl<C: Controller> Run for Runner<C> {
    fn about(&self) -> &'static About {
        C::ABOUT
    }

    fn counts(&self) -> Counts {
        self.queue.counts()
    }

    fn objects(&self) -> Vec<Arc<dyn listed::Listed>> {
        let all = self.mirror.all().into_iter();
        all.map(|object| object as Arc<dyn listed::Listed>).collect()
    }

    fn wake_all(&self, reason: Reason) {
        for object in self.mirror.all() {
            self.queue.wake(Key::of(object.meta()), reason);
        }
    }

    fn run(self: Arc<Self>, stop: CancellationToken, observer: Option<Observer>) -> Ended {
        Box::pin(async move {
            let listed = async {
                self.mirror.ready().await;
                self.controller.ready().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = listed => {}
            }
            let queue = self.queue.clone();
            let handler = move |key: Key, run: RunInfo| {
                let (runner, observer) = (Arc::clone(&self), observer.clone());
                async move {
                    let began = Instant::now();
                    let (requeue, failed) = runner.reconcile(key.clone(), run).await;
                    tracing::debug!(
                        kind = C::ABOUT.kind,
                        %key,
                        waited = ?run.waited,
                        for_processors = ?queue::waited(),
                        took = ?began.elapsed(),
                        "ran"
                    );
                    if let Some(observer) = observer {
                        observer(&ReconcileEvent {
                            about: C::ABOUT,
                            key: &key,
                            waited: run.waited,
                            waited_for_processors: queue::waited(),
                            took: began.elapsed(),
                            failed,
                            gone: runner.is_gone(&key),
                        });
                    }
                    requeue
                }
            };
            queue.run(stop, handler).await;
        })
    }
}
