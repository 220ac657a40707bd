//! Keeps an artifact of a chart: pulled from a chart repository, or packaged from files of another source.
//!
//! A run selects the version that the spec asks for, from the index of the repository or from the files of the
//! source. If name and version are those of the artifact, nothing is fetched.
//!
//! | file | contents |
//! |---|---|
//! | `origin` | what the source offers |
//! | `build` | the steps of a build, and their failures |
//! | `local` | charts of files, without a cluster |
//! | `registry` | charts in registries |
//! | `dependencies` | charts that the chart needs |

mod act;
mod build;
mod decide;
mod declared;
mod dependencies;
pub mod local;
mod observe;
mod origin;
mod registry;
#[cfg(test)]
mod registry_tests;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{FINALIZER, SOURCE_MANAGER, SOURCE_STATUS_MANAGER};
use equate_api::source::{ChartSourceKind, HelmChart, HelmChartStatus, HelmRepository};
use equate_source::Place;
use jiff::Timestamp;
use tokio::time::Instant;

use self::act::Done;
use self::decide::{Plan, Seen};
use self::declared::Declared;
use crate::kit::about::{About, Column, Concurrency};
use crate::kit::controller::{self, Absence, Acted, Controller, Next, Reconcilable, own_reason};
use crate::kit::mirror::{Change, Mirror};
use crate::kit::reconciliation::{Reconciliation, Stop};
use crate::kit::services::Kit;
use crate::kit::wake::Reason;
use crate::sources::draft::Draft;
use crate::sources::store;
use crate::{Key, ObjectRef};

/// A longer operation gets a status about its progress.
const PATIENCE: Duration = Duration::from_secs(2);

const ABOUT: About = About {
    kind: "HelmChart",
    plural: "helmcharts",
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    aliases: &["hc", "chart"],
    family: Some("sources"),
    component: SOURCE_MANAGER,
    finalizer: Some(FINALIZER),
    status_manager: SOURCE_STATUS_MANAGER,
    owner: None,
    concurrency: Concurrency::Waits { at_least: 16 },
    suspends: true,
    columns: &[Column::new("REVISION", &["/status/artifact/revision"])],
};

pub(crate) struct HelmCharts {
    kit: Arc<Kit>,
    charts: Mirror<HelmChart>,
    repositories: Mirror<HelmRepository>,
}

type Run<'a> = Reconciliation<'a, HelmCharts>;

impl Controller for HelmCharts {
    type Object = HelmChart;
    type Declared = Declared;
    type Memory = ();
    type Seen = Seen;
    type Plan = Plan;
    type Done = Done;

    const ABOUT: &'static About = &ABOUT;

    fn new(kit: &Arc<Kit>) -> Self {
        Self {
            kit: Arc::clone(kit),
            charts: kit.serve_source(),
            repositories: kit.mirror(),
        }
    }

    fn affected(&self, change: &Change<HelmChart>) -> Vec<(ObjectRef, Reason)> {
        let own = ObjectRef::of(ABOUT.kind, &change.key);
        let source = change.after.as_ref().map(|object| declared::source(object));
        self.kit
            .source_readers
            .set(&own, source.into_iter().collect::<BTreeSet<_>>());
        let reason = own_reason(change.what);
        reason.map(|reason| (own, reason)).into_iter().collect()
    }

    async fn ready(&self) {
        let kinds: Vec<&str> = ChartSourceKind::ALL.iter().map(|kind| kind.as_str()).collect();
        self.kit.sources.ready(&kinds).await;
    }

    fn declare(object: &HelmChart) -> Result<Declared, controller::Failure> {
        Ok(Declared::try_from(object)?)
    }

    async fn observe(&self, run: &mut Run<'_>, declared: &Declared) -> Result<Seen, Stop> {
        if declared.deleting {
            return Ok(Seen::Unobserved);
        }
        let deleted = run.deleted(declared.deleting);
        Ok(tokio::select! {
            biased;
            observed = observe::observe(self, declared, run.status()) => Seen::Observed(Box::new(observed)),
            () = deleted => Seen::Deleted,
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
        Ok(match plan {
            Plan::Delete => {
                let place = declared.publisher.place().clone();
                match store::remove(&self.kit.storage, place).await {
                    Ok(()) => Acted::Released,
                    Err(error) => Acted::Done(Done::NotRemoved(error)),
                }
            }
            // the next run removes the artifacts
            Plan::End => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
            Plan::Fail(failed) => Acted::Done(Done::Failed(failed)),
            Plan::Keep { build, source } => Acted::Done(Done::Kept {
                urls: act::urls(&self.kit.storage, declared, run.status().artifact.as_ref()),
                build,
                source,
            }),
            Plan::Build { build, lost } => {
                let Seen::Observed(observed) = seen else {
                    return Ok(Acted::Again);
                };
                let deleted = run.deleted(declared.deleting);
                let work = async {
                    tokio::select! {
                        biased;
                        done = act::publish(self, declared, *observed, build, lost) => Acted::Done(done),
                        // the next run removes the artifacts
                        () = deleted => Acted::Unreported(Next::After(Duration::ZERO, Reason::Changed)),
                    }
                };
                let progress =
                    |status| Draft::new(&status, declared.generation, Timestamp::now()).progressing(None);
                Box::pin(run.with_progress(PATIENCE, work, progress)).await?
            }
        })
    }

    fn report(
        declared: &Declared,
        before: &HelmChartStatus,
        done: Done,
        now: Timestamp,
    ) -> controller::Report<HelmChartStatus> {
        report::report(declared, before, done, now)
    }

    fn suspended(declared: &Declared, status: HelmChartStatus) -> HelmChartStatus {
        Draft::new(&status, declared.generation, Timestamp::now()).suspended()
    }

    fn finished(&self, key: &Key) {
        self.kit.source_checked(&ObjectRef::of(ABOUT.kind, key));
    }

    async fn forget(&self, key: &Key, (): (), why: Absence) {
        self.kit.watches.leave(&ObjectRef::of(ABOUT.kind, key));
        let place = Place::new(ABOUT.kind, &key.namespace, &key.name);
        if let (Absence::Deleted, true, Ok(place)) = (why, self.charts.is_ready(), place)
            && let Err(error) = store::remove(&self.kit.storage, place).await
        {
            tracing::warn!(%key, error, "cannot remove the artifacts of a deleted HelmChart");
        }
    }
}

impl Reconcilable for HelmChart {
    type Status = HelmChartStatus;

    fn status(&self) -> Option<&HelmChartStatus> {
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

crate::standard_status!(HelmChartStatus);
