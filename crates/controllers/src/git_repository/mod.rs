//! Keeps an artifact of what a GitRepository's reference leads to.
//!
//! A run looks where the reference leads, and only when that is another revision, or the spec takes other
//! files of it, makes an artifact and says so, in one status patch. What wakes it: its own spec and
//! annotations, a commit in a directory that stands in for its URL, a failed run, and its interval, which
//! is a safety net where there is a watch and the mechanism where there is none.
//!
//! A repository that cannot be read changes nothing: the last artifact stays, and `Ready` says why it is
//! the last.
//!
//! | file | answers |
//! |---|---|
//! | `declared` | what the custom resource asks for, and which of its fields have no meaning yet |
//! | `credentials` | what a Secret says about opening a repository |
//! | `includes` | other repositories' artifacts, and who waits for them |
//! | `observe` | what the store and the repository say |
//! | `decide` | what to do, from what was seen |
//! | `act` | makes the artifact |
//! | `failure` | what can go wrong, and whether it is worth another try |
//! | `report` | what the status says then |
//! | `verify` | whether a revision is signed by whom it must be |
//! | `watches` | local directories |

mod act;
mod credentials;
mod decide;
mod declared;
mod failure;
mod includes;
mod observe;
mod report;
#[cfg(test)]
mod tests;
mod verify;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{
    ConditionType, FINALIZER, Reason as Why, SOURCE_MANAGER, SOURCE_STATUS_MANAGER, merge_patch,
};
use equate_api::source::{Artifact as Included, GitRepository, GitRepositoryStatus};
use equate_git::{Mirrors, Remote, Revision};
use equate_source::{Place, Storage};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use self::act::Published;
use self::decide::{Admission, Artifact, Decision};
use self::declared::Declared;
use self::failure::Failure;
pub(crate) use self::includes::Includers;
use self::report::{Report, recovered};
pub(crate) use self::watches::Watches;
use crate::kit::backoff::Jitter;
use crate::kit::events::{Event, Recorder, Severity};
use crate::kit::mirror::{Mirror, What};
use crate::kit::queue::{Outcome, Queue};
use crate::kit::read::chain;
use crate::kit::wake::{Reason, Reasons};
use crate::{Key, Shards};

/// What takes longer than this gets a word in the status before it is done.
const GRACE: Duration = Duration::from_secs(2);

/// What all runs share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) repositories: Mirror<GitRepository>,
    pub(crate) git: Mirrors,
    pub(crate) storage: Storage,
    pub(crate) recorder: Recorder,
    pub(crate) queue: Queue<Key>,
    pub(crate) watches: Watches,
    pub(crate) jitter: Jitter,
    /// By which share intervals differ from what they are.
    pub(crate) interval_jitter: f64,
    /// Told of each repository that was looked at, also in vain: its status says what there is.
    pub(crate) looked: Box<dyn Fn(&Key) + Send + Sync>,
    /// How often remote repositories are looked at, in place of their own intervals.
    pub(crate) poll: Option<Duration>,
    /// Which of them are ours.
    pub(crate) shards: Shards,
}

/// Runs one GitRepository.
pub(crate) async fn reconcile(cx: Arc<Context>, key: Key, reasons: Reasons) -> Outcome {
    let Some(object) = cx.repositories.get(&key) else {
        return vanished(&cx, &key).await;
    };
    if !cx.shards.own(&object.metadata) {
        // its artifacts stay until it is gone: somebody may be reading them
        return gone(&cx, &key);
    }
    let declared = match Declared::try_from(&*object) {
        Ok(declared) => Arc::new(declared),
        Err(error) => {
            tracing::warn!(%key, %error, "a GitRepository's name cannot be a directory of the store");
            (cx.looked)(&key);
            return Outcome::done();
        }
    };
    let interval = declared.interval;
    let mut run = Run {
        cx: Arc::clone(&cx),
        object,
        declared,
    };
    match run.go().await {
        Ok(outcome) => {
            (cx.looked)(&key);
            outcome
        }
        Err(Stop::Gone) => gone(&cx, &key),
        Err(Stop::Failed(part, error)) => {
            tracing::warn!(%key, %reasons, part, error = %chain(&error), "a GitRepository could not be written");
            Outcome::failed_within(interval)
        }
    }
}

/// Why a change of an object has it run; also its end, for what it leaves behind here.
pub(crate) fn wakes(what: What) -> Option<Reason> {
    match what {
        What::Gone => Some(Reason::Deleted),
        other => other.reason(),
    }
}

/// Somebody took its finalizer away, or it is gone as it should: nothing of it stays here either way.
async fn vanished(cx: &Arc<Context>, key: &Key) -> Outcome {
    if let (true, Ok(place)) = (
        cx.repositories.is_ready(),
        Place::new("GitRepository", &key.namespace, &key.name),
    ) {
        let storage = cx.storage.clone();
        let removed = spawn_blocking(move || storage.remove(&place).map_err(|error| chain(&error))).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%key, error, "artifacts of a GitRepository that is gone are still there");
        }
    }
    gone(cx, key)
}

fn gone(cx: &Context, key: &Key) -> Outcome {
    cx.watches.leave(key);
    cx.queue.forget(key);
    Outcome::done()
}

/// Why a run ends early.
#[derive(Debug)]
enum Stop {
    /// The object is no longer there.
    Gone,
    /// The API server did not take this part.
    Failed(&'static str, kube::Error),
}

/// One run.
struct Run {
    cx: Arc<Context>,
    object: Arc<GitRepository>,
    declared: Arc<Declared>,
}

impl Run {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method's path stands for one lifetime, a closure for any"
    )]
    async fn go(&mut self) -> Result<Outcome, Stop> {
        match decide::admit(&self.declared) {
            Admission::Delete => self.delete().await,
            Admission::Rest => {
                self.cx.watches.leave(&self.declared.key);
                self.write(|report| report.rested()).await?;
                Ok(Outcome::done())
            }
            Admission::Stall(failure) => {
                self.adopt_finalizer().await?;
                self.stall(&failure, false).await
            }
            Admission::Look => {
                self.adopt_finalizer().await?;
                self.look().await
            }
        }
    }

    async fn look(&mut self) -> Result<Outcome, Stop> {
        self.follow().await;
        let work = observe::observe(Arc::clone(&self.cx), Arc::clone(&self.declared), self.status());
        // a known source is asked again and again: only what is new gets a word while it lasts
        let (seen, remote) = match self.is_new() {
            true => self.with_progress(work, None).await?,
            false => work.await,
        };
        let lost = seen.artifact == Artifact::Lost;
        let decision = decide::decide(&self.declared, &self.status(), &seen);
        match (decision, remote) {
            (Decision::Keep, _) => {
                let storage = self.cx.storage.clone();
                let before = self.write(|report| report.kept(|path| storage.url(path))).await?;
                self.tell_recovery(&before);
                Ok(self.again())
            }
            (Decision::Publish(revision, why), Some(remote)) => {
                tracing::debug!(key = %self.declared.key, %revision, ?why, "an artifact is made");
                self.publish(remote, revision, seen.included, lost).await
            }
            (Decision::Publish(..), None) => Ok(Outcome::failed_within(self.interval())),
            (Decision::Fail(failure), _) => self.fail(&failure, None, lost).await,
        }
    }

    async fn publish(
        &mut self,
        remote: Remote,
        revision: Revision,
        included: Vec<Included>,
        lost: bool,
    ) -> Result<Outcome, Stop> {
        let text = revision.to_string();
        let new = self
            .status()
            .artifact
            .is_none_or(|artifact| artifact.revision != text);
        let shown = new.then_some(&*text);
        let (cx, declared) = (Arc::clone(&self.cx), Arc::clone(&self.declared));
        let work = act::publish(cx, declared, remote, revision, included);
        match self.with_progress(work, shown).await? {
            Ok(published) => {
                let verified = published.verified.as_deref();
                let before = self
                    .write(|report| report.published(&published.stored, &published.included, verified))
                    .await?;
                self.tell_artifact(&before, &published);
                Ok(self.again())
            }
            Err(failure) => {
                // what is not verified is no newer revision to anyone, nor what was never had
                let unknown = match failure.condition {
                    Some(ConditionType::SourceVerified) => true,
                    Some(ConditionType::FetchFailed) => self.status().artifact.is_none(),
                    _ => false,
                };
                let shown = shown.filter(|_| !unknown);
                self.fail(&failure, shown, lost).await
            }
        }
    }

    /// What there is stays; only what is no longer in the store is not claimed any more.
    async fn fail(&mut self, failure: &Failure, revision: Option<&str>, lost: bool) -> Result<Outcome, Stop> {
        if !failure.retry {
            return self.stall(failure, lost).await;
        }
        self.write(|report| {
            let report = if lost { report.lost() } else { report };
            report.failed(failure, revision)
        })
        .await?;
        let severity = match failure.condition {
            // nothing is wrong with it: it waits
            Some(ConditionType::IncludeUnavailable) => Severity::Normal,
            _ => Severity::Warning,
        };
        self.tell(severity, failure.reason.as_str(), &failure.message);
        Ok(match failure.condition {
            // whoever is waited for wakes it
            Some(ConditionType::IncludeUnavailable) => self.again(),
            _ => Outcome::failed_within(self.interval()),
        })
    }

    async fn stall(&mut self, failure: &Failure, lost: bool) -> Result<Outcome, Stop> {
        let before = self
            .write(|report| {
                let report = if lost { report.lost() } else { report };
                report.stalled(failure)
            })
            .await?;
        if before != self.status() {
            self.tell(Severity::Warning, failure.reason.as_str(), &failure.message);
        }
        Ok(Outcome::done())
    }

    /// Its artifacts go first: once the finalizer is gone, nobody knows of them.
    async fn delete(&mut self) -> Result<Outcome, Stop> {
        self.cx.watches.leave(&self.declared.key);
        let (storage, place) = (self.cx.storage.clone(), self.declared.place.clone());
        let removed = spawn_blocking(move || storage.remove(&place).map_err(|error| chain(&error))).await;
        if let Ok(Err(error)) = removed {
            let message = format!("garbage collection for deleted resource failed: {error}");
            self.tell(Severity::Warning, "GarbageCollectionFailed", &message);
            return Ok(Outcome::failed());
        }
        if self.declared.finalizer {
            self.set_finalizer(false).await?;
        }
        Ok(gone(&self.cx, &self.declared.key))
    }

    /// Watches the directory that stands in for the URL, before it is read: no commit falls in between.
    async fn follow(&self) {
        let Some(path) = self.cx.git.substitute(&self.declared.url).map(ToOwned::to_owned) else {
            return self.cx.watches.leave(&self.declared.key);
        };
        let (cx, key) = (Arc::clone(&self.cx), self.declared.key.clone());
        let queue = self.cx.queue.clone();
        let woken = Arc::new(move |key| queue.wake(key, Reason::Push));
        let followed = spawn_blocking(move || {
            if let Err(error) = cx.watches.follow(&key, &path, woken) {
                tracing::warn!(%key, error = %chain(&error), "a local repository is not watched: its interval alone wakes it");
            }
        });
        // it does not panic by itself; unwatched, the interval still wakes it
        drop(followed.await);
    }

    /// Waits for work, and says in the status that it goes on when it takes long.
    async fn with_progress<T>(
        &mut self,
        work: impl Future<Output = T>,
        revision: Option<&str>,
    ) -> Result<T, Stop> {
        let mut work = std::pin::pin!(work);
        match tokio::time::timeout(GRACE, &mut work).await {
            Ok(done) => Ok(done),
            Err(_) => {
                self.write(|report| report.progressing(revision)).await?;
                Ok(work.await)
            }
        }
    }

    fn interval(&self) -> Duration {
        let remote = self.cx.git.substitute(&self.declared.url).is_none();
        self.cx.poll.filter(|_| remote).unwrap_or(self.declared.interval)
    }

    fn again(&self) -> Outcome {
        Outcome::after(
            self.cx.jitter.spread(self.interval(), self.cx.interval_jitter),
            Reason::Interval,
        )
    }

    fn status(&self) -> GitRepositoryStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Whether its spec was never carried out as it is now.
    fn is_new(&self) -> bool {
        let status = self.object.status.as_ref();
        status.is_none_or(|status| {
            status.artifact.is_none() || status.observed_generation != Some(self.declared.generation)
        })
    }

    /// Writes what changed of the status, if anything did; how it was before.
    async fn write(
        &mut self,
        what: impl FnOnce(Report<'_>) -> Report<'_>,
    ) -> Result<GitRepositoryStatus, Stop> {
        let before = self.status();
        let after = what(Report::new(&self.declared, &before, Timestamp::now())).finish();
        let failed = |error| Stop::Failed("status", kube::Error::SerdeError(error));
        let Some(patch) = merge_patch(&before, &after).map_err(failed)? else {
            return Ok(before);
        };
        // the uid: a status never goes to an object that took this one's name
        let patch = json!({ "metadata": { "uid": self.object.metadata.uid }, "status": patch });
        let written = self
            .api()
            .patch_status(&self.declared.key.name, &params(), &Patch::Merge(patch))
            .await;
        self.update_cached("status", written)?;
        Ok(before)
    }

    async fn adopt_finalizer(&mut self) -> Result<(), Stop> {
        match self.declared.finalizer {
            true => Ok(()),
            false => self.set_finalizer(true).await,
        }
    }

    /// Sets or removes our finalizer; the others stay as they are, also if they change meanwhile.
    async fn set_finalizer(&mut self, on: bool) -> Result<(), Stop> {
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
            .patch(&self.declared.key.name, &params(), &Patch::Merge(patch))
            .await;
        self.update_cached("finalizer", written)
    }

    fn update_cached(
        &mut self,
        part: &'static str,
        written: kube::Result<GitRepository>,
    ) -> Result<(), Stop> {
        match written {
            Ok(object) => {
                self.cx.repositories.note(object.clone());
                self.object = Arc::new(object);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(Stop::Gone),
            Err(error) => Err(Stop::Failed(part, error)),
        }
    }

    fn api(&self) -> Api<GitRepository> {
        Api::namespaced(self.cx.client.clone(), &self.declared.key.namespace)
    }

    fn tell_artifact(&self, before: &GitRepositoryStatus, published: &Published) {
        let message = format!("stored artifact for commit '{}'", published.summary);
        let same = before
            .artifact
            .as_ref()
            .is_some_and(|artifact| artifact.digest == published.stored.digest);
        if !same {
            self.tell(Severity::Normal, "NewArtifact", &message);
        } else if recovered(before, &self.status()) {
            self.tell(Severity::Normal, Why::Succeeded.as_str(), &message);
        }
    }

    fn tell_recovery(&self, before: &GitRepositoryStatus) {
        let status = self.status();
        if let Some(artifact) = status.artifact.as_ref().filter(|_| recovered(before, &status)) {
            let message = format!("stored artifact for commit '{}'", artifact.revision);
            self.tell(Severity::Normal, Why::Succeeded.as_str(), &message);
        }
    }

    /// Tells of something that happened, with the artifact there is.
    fn tell(&self, severity: Severity, reason: &str, message: &str) {
        let mut event = Event::about(&*self.object, SOURCE_MANAGER, severity, reason, message);
        if let (Severity::Normal, Some(artifact)) = (severity, self.status().artifact) {
            event = event
                .with("revision", artifact.revision)
                .with("digest", artifact.digest);
        }
        self.cx.recorder.publish(event);
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(SOURCE_STATUS_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
