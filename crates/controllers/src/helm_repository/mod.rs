//! Keeps an artifact of the index of a chart repository.
//!
//! A run asks the host for the index, with the version that it has, and publishes a new one after it was
//! parsed. The parsed index stays in memory for the charts of the repository. A repository of type `oci` is
//! static, as in Flux: it has no artifact, no conditions and no finalizer.
//!
//! A repository that cannot be read changes nothing: the last artifact is kept, and `Ready` shows the
//! reason.

mod act;
mod decide;
mod declared;
mod observe;
mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{FINALIZER, SOURCE_MANAGER, SOURCE_STATUS_MANAGER};
use equate_api::source::{HelmRepository, HelmRepositoryStatus, HelmRepositoryType};
use equate_source::Place;
use jiff::Timestamp;
use tokio::time::Instant;

use self::act::Done;
use self::decide::{Plan, Seen};
use self::declared::Declared;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Next, Reconcilable};
use crate::kit::mirror::Mirror;
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::sources::draft::Draft;
use crate::sources::http::Validators;
use crate::sources::store;
use crate::{Key, ObjectRef};

/// A longer operation gets a status about its progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// Flux's default.
const INTERVAL: Duration = Duration::from_secs(60);

const ABOUT: About = About {
    kind: "HelmRepository",
    plural: "helmrepositories",
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["helmrepo", "helm"],
    family: Some("sources"),
    component: SOURCE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: SOURCE_STATUS_MANAGER,
    owner: None,
    concurrency: Concurrency::Waits { at_least: 16 },
    suspends: true,
    columns: &[Column::new("REVISION", &["/status/artifact/revision"])],
};

pub(crate) struct HelmRepositories {
    kit: Arc<Kit>,
    repositories: Mirror<HelmRepository>,
}

/// The version of the index that the last answer had.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    url: String,
    revision: String,
    validators: Validators,
}

type Run<'a> = Reconciliation<'a, HelmRepositories>;

impl Controller for HelmRepositories {
    type Object = HelmRepository;
    type Declared = Declared;
    type Memory = Memory;
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            kit: Arc::clone(kit),
            repositories: kit.serve_source(),
        }
    }

    fn is_finalized(object: &HelmRepository) -> bool {
        object.spec.kind != Some(HelmRepositoryType::Oci)
    }

    fn declare(object: &HelmRepository) -> Result<Declared, controller::Failure> {
        Ok(Declared::try_from(object)?)
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        if declared.deleting || declared.is_static {
            return Ok(Seen::Unobserved(Box::new(run.status())));
        }
        let place = declared.home.as_ref().ok();
        let place = place.and_then(|home| self.kit.charts.substitute(home));
        let object = ObjectRef::of(ABOUT.kind, &declared.key);
        self.kit.watches.follow_files(object, place).await;
        let status = run.status();
        let known = run.memory.known.take();
        let (observed, known) = match status.artifact.is_none() {
            true => {
                let work = observe::observe(&self.kit, declared, status, known);
                run.with_progress(PATIENCE, work, |status| {
                    Draft::new(&status, declared.generation, Timestamp::now()).progressing(None)
                })
                .await?
            }
            false => observe::observe(&self.kit, declared, status, known).await,
        };
        run.memory.known = known;
        Ok(Seen::Observed(Box::new(observed)))
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
        Ok(match plan {
            Plan::Nothing => Acted::Unreported(Next::Await),
            Plan::Delete => match self.remove(declared).await {
                Ok(()) => Acted::Released,
                Err(error) => Acted::Done(Done::NotRemoved(error)),
            },
            Plan::Clear => match self.remove(declared).await {
                Ok(()) => {
                    run.write_status(HelmRepositoryStatus::default()).await?;
                    // its run ends here
                    self.finished(run.key());
                    Acted::Released
                }
                Err(error) => Acted::Done(Done::NotRemoved(error)),
            },
            Plan::Fail { failure, lost } => Acted::Done(Done::Failed {
                failure,
                revision: None,
                lost,
            }),
            Plan::Keep => Acted::Done(Done::Kept {
                place: act::urls(&self.kit.storage, declared, run.status().artifact.as_ref()),
            }),
            Plan::Publish { revision, lost } => {
                Acted::Done(match act::publish(&self.kit, declared, seen, &revision).await {
                    Ok(published) => Done::Published(Box::new(published)),
                    Err(failure) => Done::Failed {
                        // an index that does not parse is not shown as the newest
                        revision: Some(revision).filter(|_| !failure.hides_revision(true)),
                        failure,
                        lost,
                    },
                })
            }
        })
    }

    fn report(
        declared: &Declared,
        before: &HelmRepositoryStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<HelmRepositoryStatus> {
        report::report(declared, before, done, now)
    }

    fn suspended(declared: &Declared, status: HelmRepositoryStatus) -> HelmRepositoryStatus {
        match declared.is_static {
            true => status,
            false => Draft::new(&status, declared.generation, Timestamp::now()).suspended(),
        }
    }

    fn finished(&self, key: &Key) {
        self.kit.source_checked(&ObjectRef::of(ABOUT.kind, key));
    }

    async fn forget(&self, key: &Key, _memory: Memory, why: Absence) {
        self.kit.watches.leave(&ObjectRef::of(ABOUT.kind, key));
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name);
        let exists = self.repositories.get(key).is_some();
        if let (Absence::Deleted, true, false, Ok(place)) = (why, self.repositories.is_ready(), exists, place)
            && let Err(error) = store::remove(&self.kit.storage, place).await
        {
            tracing::warn!(%key, error, "cannot remove the artifacts of a deleted HelmRepository");
        }
    }
}

impl HelmRepositories {
    /// Removes its artifacts first: without the finalizer, nothing knows them.
    async fn remove(&self, declared: &Declared) -> Result<(), String> {
        self.kit.charts.forget(&declared.publisher);
        store::remove(&self.kit.storage, declared.publisher.place().clone()).await
    }
}

impl Reconcilable for HelmRepository {
    type Status = HelmRepositoryStatus;

    fn status(&self) -> Option<&HelmRepositoryStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        self.spec
            .interval
            .map_or(INTERVAL, equate_api::meta::Duration::get)
    }

    fn is_suspended(&self) -> bool {
        self.spec.suspend
    }

    fn is_static(&self) -> bool {
        !HelmRepositories::is_finalized(self)
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

crate::standard_status!(HelmRepositoryStatus);
