//! Keeps an artifact of the manifest that an OCIRepository references.
//!
//! A run resolves the reference to a digest: one request, none for a digest. If the revision changed, or the
//! spec selects other content of it, the run verifies and pulls the manifest, downloads one layer and makes
//! an artifact, and reports it with one status patch. A run begins on a change of the spec or annotations,
//! after a failure, and at the interval.
//!
//! A registry that cannot be read changes nothing: the last artifact is kept, and `Ready` shows the reason.

mod access;
mod act;
mod decide;
mod declared;
mod failure;
mod observe;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{FINALIZER, SOURCE_MANAGER, SOURCE_STATUS_MANAGER};
use equate_api::source::{OciRepository, OciRepositoryStatus};
use equate_registry::Registries;
use equate_source::{Place, Storage};
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;

use self::act::{Done, Task};
use self::decide::{Plan, Seen};
use self::declared::Declared;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Next, Reconcilable};
use crate::kit::mirror::Mirror;
use crate::kit::processors::Processors;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::sources::draft::{Draft, OutdatedBy};
use crate::sources::store;
use crate::{Key, ObjectRef};

/// A longer operation gets a status about its progress.
const PATIENCE: Duration = Duration::from_secs(2);

const ABOUT: About = About {
    kind: "OCIRepository",
    plural: "ocirepositories",
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["ocirepo", "oci"],
    family: Some("sources"),
    component: SOURCE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: SOURCE_STATUS_MANAGER,
    owner: None,
    // as for GitRepositories: a handful of unresponsive hosts must not delay all other sources
    concurrency: Concurrency::Waits { at_least: 64 },
    suspends: true,
    columns: &[Column::new("REVISION", &["/status/artifact/revision"])],
};

pub(crate) struct OciRepositories {
    cx: Arc<Context>,
    kit: Arc<Kit>,
}

/// Dependencies of the verbs.
struct Context {
    client: Client,
    repositories: Mirror<OciRepository>,
    registries: Registries,
    storage: Storage,
    processors: Processors,
    timeout_max: Duration,
}

type Run<'a> = Reconciliation<'a, OciRepositories>;

impl Controller for OciRepositories {
    type Object = OciRepository;
    type Declared = Arc<Declared>;
    type Memory = ();
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            cx: Arc::new(Context {
                client: kit.client.clone(),
                repositories: kit.serve_source(),
                registries: kit.registries.clone(),
                storage: kit.storage.clone(),
                processors: kit.processors.clone(),
                timeout_max: kit.settings.timeout_max,
            }),
            kit: Arc::clone(kit),
        }
    }

    fn declare(object: &OciRepository) -> Result<Arc<Declared>, controller::Failure> {
        Ok(Arc::new(Declared::try_from(object)?))
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Arc<Declared>) -> Result<Seen, Stop> {
        if declared.deleting || declared.refused().is_some() {
            return Ok(Seen::Unobserved);
        }
        let place = declared.repository.as_ref().ok();
        let place = place.and_then(|repository| self.cx.registries.substitute(repository));
        let object = ObjectRef::of(ABOUT.kind, &declared.key);
        self.kit.watches.follow_files(object, place).await;
        let (cx, own, status) = (Arc::clone(&self.cx), Arc::clone(declared), run.status());
        let deleted = run.deleted(declared.deleting);
        let work = Box::pin(async {
            tokio::select! {
                biased;
                observed = observe::observe(cx, own, status) => Seen::Observed(Box::new(observed)),
                () = deleted => Seen::Deleted,
            }
        });
        // known sources are checked again and again: only a new one gets a status meanwhile
        Ok(match is_new(declared, &run.status()) {
            true => {
                let progress = |status| progressing(declared, &status, None);
                run.with_progress(PATIENCE, work, progress).await?
            }
            false => work.await,
        })
    }

    fn decide(declared: &Arc<Declared>, seen: &Seen, _now: Instant) -> Plan {
        decide::decide(declared, seen)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Arc<Declared>,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        let place = declared.publisher.place();
        Ok(match plan {
            Plan::Delete => match store::remove(&self.cx.storage, place.clone()).await {
                // first: without the finalizer, nothing knows them
                Ok(()) => Acted::Released,
                Err(error) => Acted::Done(Done::NotRemoved(error)),
            },
            // the next run removes the artifacts
            Plan::End => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
            Plan::Fail { failure, lost } => Acted::Done(Done::Failed {
                failure,
                news: None,
                lost,
            }),
            Plan::Keep => {
                let path = run.status().artifact.map(|artifact| artifact.path);
                Acted::Done(Done::Kept {
                    url: path.map(|path| self.cx.storage.url(&path)),
                    latest: act::latest(&self.cx, declared),
                    verified: None,
                })
            }
            Plan::Verify(found) => {
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                let done = self.publish(run, declared, *observed, &found, Task::Verify);
                done.await?
            }
            Plan::Publish(found, why) => {
                let key = run.key();
                tracing::debug!(%key, revision = found.revision, ?why, "creating an artifact");
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                let done = self.publish(run, declared, *observed, &found, Task::Publish);
                done.await?
            }
        })
    }

    fn report(
        declared: &Arc<Declared>,
        before: &OciRepositoryStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<OciRepositoryStatus> {
        report::report(declared, before, done, now)
    }

    fn interval(&self, object: &OciRepository) -> Duration {
        self.kit.settings.poll.unwrap_or_else(|| object.interval())
    }

    fn suspended(declared: &Arc<Declared>, status: OciRepositoryStatus) -> OciRepositoryStatus {
        Draft::new(&status, declared.generation, Timestamp::now()).suspended()
    }

    fn finished(&self, key: &Key) {
        self.kit.source_checked(&ObjectRef::of(Self::ABOUT.kind, key));
    }

    /// Removes the artifacts of an object that was deleted without our finalizer. Artifacts of another
    /// process's object stay until it is deleted: they may be in use.
    async fn forget(&self, key: &Key, (): (), why: Absence) {
        self.kit.watches.leave(&ObjectRef::of(ABOUT.kind, key));
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name);
        if let (Absence::Deleted, true, Ok(place)) = (why, self.cx.repositories.is_ready(), place)
            && let Err(error) = store::remove(&self.cx.storage, place).await
        {
            tracing::warn!(%key, error, "cannot remove the artifacts of a deleted OCIRepository");
        }
    }
}

impl OciRepositories {
    async fn publish(
        &self,
        run: &mut Run<'_>,
        declared: &Arc<Declared>,
        observed: decide::Observed,
        found: &decide::Found,
        task: Task,
    ) -> Result<Acted<Done>, Stop> {
        let lost = observed.is_lost();
        let stored = run.status().artifact;
        let is_first = stored.is_none();
        let is_current = stored.is_some_and(|artifact| artifact.revision == found.revision);
        let news = (!is_current).then(|| report::news(declared, found));
        let (cx, own, found) = (Arc::clone(&self.cx), Arc::clone(declared), found.clone());
        let deleted = run.deleted(declared.deleting);
        let work = Box::pin(async {
            tokio::select! {
                biased;
                done = act::publish(cx, own, observed, found, task) => Some(done),
                () = deleted => None,
            }
        });
        let progress = |status| progressing(declared, &status, news.as_ref());
        Ok(match run.with_progress(PATIENCE, work, progress).await? {
            Some(Ok(done)) => Acted::Done(done),
            Some(Err(failure)) => Acted::Done(Done::Failed {
                // an unverified revision is not shown as the newest, nor is one that was never fetched
                news: news.filter(|_| !failure.hides_revision(is_first)),
                failure,
                lost,
            }),
            // the next run removes the artifacts
            None => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
        })
    }
}

/// Whether its present spec was never carried out.
fn is_new(declared: &Declared, status: &OciRepositoryStatus) -> bool {
    status.artifact.is_none() || status.observed_generation != Some(declared.generation)
}

fn progressing(
    declared: &Declared,
    status: &OciRepositoryStatus,
    news: Option<&OutdatedBy>,
) -> OciRepositoryStatus {
    Draft::new(status, declared.generation, Timestamp::now()).progressing(news)
}

impl Reconcilable for OciRepository {
    type Status = OciRepositoryStatus;

    fn status(&self) -> Option<&OciRepositoryStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec.interval.get()
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn revision(&self) -> Option<&str> {
        let artifact = self.status.as_ref()?.artifact.as_ref()?;
        Some(&artifact.revision)
    }

    fn revision_time(&self) -> Option<Timestamp> {
        let artifact = self.status.as_ref()?.artifact.as_ref()?;
        Some(artifact.last_update_time.0)
    }
}

crate::standard_status!(OciRepositoryStatus);
