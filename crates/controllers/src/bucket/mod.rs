//! Keeps an artifact of the objects of a Bucket: an S3-compatible store.
//!
//! A run lists the objects. Their keys and etags are the revision. If it changed, the run fetches the objects
//! whose etags changed, takes the others from the last artifact, and reports the new one with one status
//! patch. A run begins on a change of the spec or annotations, after a failure, and at the interval.
//!
//! A store that cannot be read changes nothing: the last artifact is kept, and `Ready` shows the reason.

mod access;
mod act;
mod decide;
mod declared;
mod failure;
mod index;
mod observe;
mod report;

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{FINALIZER, SOURCE_MANAGER, SOURCE_STATUS_MANAGER};
use equate_api::source::{Bucket, BucketStatus};
use equate_source::Place;
use jiff::Timestamp;
use tokio::time::Instant;

use self::act::Done;
use self::decide::{Plan, Seen};
use self::declared::Declared;
use self::index::Index;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Next, Reconcilable};
use crate::kit::mirror::Mirror;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::sources::draft::{Draft, OutdatedBy};
use crate::sources::store;
use crate::sources::watches::Watched;
use crate::{Key, ObjectRef};

/// A longer operation gets a status about its progress.
const PATIENCE: Duration = Duration::from_secs(2);

const ABOUT: About = About {
    kind: "Bucket",
    plural: "buckets",
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    aliases: &[],
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

pub(crate) struct Buckets {
    kit: Arc<Kit>,
    buckets: Mirror<Bucket>,
}

/// The objects of the last artifact. After a restart they are unknown, and a new revision fetches all.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    known: Option<Arc<Known>>,
}

#[derive(Debug)]
struct Known {
    /// The digest of the artifact.
    digest: String,
    index: Arc<Index>,
}

type Run<'a> = Reconciliation<'a, Buckets>;

impl Controller for Buckets {
    type Object = Bucket;
    type Declared = Declared;
    type Memory = Memory;
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            kit: Arc::clone(kit),
            buckets: kit.serve_source(),
        }
    }

    fn declare(object: &Bucket) -> Result<Declared, controller::Failure> {
        Ok(Declared::try_from(object)?)
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        if declared.deleting || declared.refused().is_some() {
            return Ok(Seen::Unobserved);
        }
        let directory = self.kit.buckets.substitute(&declared.endpoint, &declared.bucket);
        let object = ObjectRef::of(ABOUT.kind, &declared.key);
        let watches = &self.kit.watches;
        watches.follow(object, directory, Watched::Files).await;
        let status = run.status();
        let is_new = status.artifact.is_none() || status.observed_generation != Some(declared.generation);
        let deleted = run.deleted(declared.deleting);
        let work = async {
            tokio::select! {
                biased;
                observed = observe::observe(self, declared, status) => Seen::Observed(Box::new(observed)),
                () = deleted => Seen::Deleted,
            }
        };
        // known sources are checked again and again: only a new one gets a status meanwhile
        Ok(match is_new {
            true => {
                let progress = |status| progressing(declared, &status, None);
                Box::pin(run.with_progress(PATIENCE, work, progress)).await?
            }
            false => Box::pin(work).await,
        })
    }

    fn decide(declared: &Declared, seen: &Seen, _now: Instant) -> Plan {
        decide::decide(declared, seen)
    }

    async fn act(
        &self,
        run: &mut Run<'_>,
        declared: &Declared,
        seen: Seen,
        plan: Plan,
    ) -> Result<Acted<Done>, Stop> {
        let place = declared.publisher.place();
        Ok(match plan {
            Plan::Delete => match store::remove(&self.kit.storage, place.clone()).await {
                // first: without the finalizer, nothing knows them
                Ok(()) => Acted::Released,
                Err(error) => Acted::Done(Done::NotRemoved(error)),
            },
            Plan::Fail { failure, lost } => Acted::Done(Done::Failed {
                failure,
                revision: None,
                lost,
            }),
            Plan::Keep { objects } => {
                let path = run.status().artifact.map(|artifact| artifact.path);
                Acted::Done(Done::Kept {
                    url: path.map(|path| self.kit.storage.url(&path)),
                    latest: act::latest(self, declared),
                    objects,
                })
            }
            Plan::Publish { revision, why } => {
                let key = run.key();
                tracing::debug!(%key, revision, ?why, "creating an artifact");
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                self.publish(run, declared, *observed, revision).await?
            }
            Plan::End => ended(),
        })
    }

    fn report(
        declared: &Declared,
        before: &BucketStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<BucketStatus> {
        report::report(declared, before, done, now)
    }

    fn interval(&self, object: &Bucket) -> Duration {
        self.kit.settings.poll.unwrap_or_else(|| object.interval())
    }

    fn suspended(declared: &Declared, status: BucketStatus) -> BucketStatus {
        Draft::new(&status, declared.generation, Timestamp::now()).suspended()
    }

    fn finished(&self, key: &Key) {
        self.kit.source_checked(&ObjectRef::of(ABOUT.kind, key));
    }

    /// Removes the artifacts of an object that was deleted without our finalizer. Artifacts of another
    /// process's object stay until it is deleted: they may be in use.
    async fn forget(&self, key: &Key, _memory: Memory, why: Absence) {
        self.kit.watches.leave(&ObjectRef::of(ABOUT.kind, key));
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name);
        if let (Absence::Deleted, true, Ok(place)) = (why, self.buckets.is_ready(), place)
            && let Err(error) = store::remove(&self.kit.storage, place).await
        {
            tracing::warn!(%key, error, "cannot remove the artifacts of a deleted Bucket");
        }
    }
}

impl Buckets {
    async fn publish(
        &self,
        run: &mut Run<'_>,
        declared: &Declared,
        observed: decide::Observed,
        revision: String,
    ) -> Result<Acted<Done>, Stop> {
        let lost = observed.is_lost();
        let stored = run.status().artifact;
        let is_first = stored.is_none();
        let is_current = stored.is_some_and(|artifact| artifact.revision == revision);
        let news = (!is_current).then(|| report::news(&revision));
        let (known, deleted) = (run.memory.known.clone(), run.deleted(declared.deleting));
        let work = async {
            tokio::select! {
                biased;
                published = act::publish(self, declared, observed, known) => Some(published),
                () = deleted => None,
            }
        };
        let progress = |status| progressing(declared, &status, news.as_ref());
        let published = Box::pin(run.with_progress(PATIENCE, work, progress)).await?;
        Ok(match published {
            Some(Ok(published)) => {
                run.memory.known = Some(Arc::new(Known {
                    digest: published.stored.digest.clone(),
                    index: Arc::clone(&published.index),
                }));
                Acted::Done(Done::Published(Box::new(published)))
            }
            Some(Err(failure)) => Acted::Done(Done::Failed {
                // a first one that was never fetched is not shown
                revision: Some(revision).filter(|_| !is_current && !failure.hides_revision(is_first)),
                failure,
                lost,
            }),
            None => ended(),
        })
    }
}

/// It was deleted meanwhile: the next run removes its artifacts.
fn ended() -> Acted<Done> {
    Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed))
}

fn progressing(declared: &Declared, status: &BucketStatus, news: Option<&OutdatedBy>) -> BucketStatus {
    Draft::new(status, declared.generation, Timestamp::now()).progressing(news)
}

impl Reconcilable for Bucket {
    type Status = BucketStatus;

    fn status(&self) -> Option<&BucketStatus> {
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

crate::standard_status!(BucketStatus);
