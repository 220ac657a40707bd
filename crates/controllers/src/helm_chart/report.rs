//! The end of a run, as a status; pure. Messages are those of Flux's `helmchart_controller.go` (v1.9).

use equate_api::meta::{ConditionStatus, ConditionType, Reason, set_condition};
use equate_api::source::HelmChartStatus;
use jiff::Timestamp;

use super::act::{Done, Published, Urls};
use super::build::Build;
use super::decide::Failed;
use super::declared::Declared;
use crate::kit::controller::{Next, Notice, Report};
use crate::kit::events::Severity;
use crate::sources::draft::{self, Draft, OutdatedBy, about_artifact, ended, not_removed, recovered};

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &HelmChartStatus,
    done: Done,
    now: Timestamp,
) -> Report<HelmChartStatus> {
    let draft = Draft::new(before, declared.generation, now);
    match done {
        Done::Kept { urls, build, source } => {
            let mut draft = draft;
            if let Some(Urls { artifact, newest }) = urls {
                draft = draft.moved(Some(artifact));
                draft.status.url = Some(newest);
            }
            let status = succeeded(declared, draft, &build, source);
            let recovered = recovered(before, &status);
            let notice = recovered.then(|| about(&status, &build));
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let Published {
                stored,
                newest,
                build,
                source,
                added,
            } = *published;
            let mut draft = draft.stored(&stored);
            draft.status.url = Some(newest);
            draft.status.observed_chart_name = Some(build.name.clone());
            draft.status.observed_values_files = match declared.ignore_missing {
                true => build.values_files.clone(),
                false => Vec::new(),
            };
            let status = succeeded(declared, draft, &build, source);
            let artifact = before.artifact.as_ref();
            let is_new = artifact.is_none_or(|artifact| artifact.digest != stored.digest);
            let notice = (is_new || recovered(before, &status)).then(|| about(&status, &build));
            let mut report = ended(status, notice, Next::Interval);
            if added > 0 {
                let message = format!("resolved {added} chart dependencies");
                report
                    .notices
                    .insert(0, Notice::new(Severity::Normal, "ResolvedDependencies", message));
            }
            report
        }
        Done::Failed(failed) => {
            let Failed {
                failure,
                waits,
                build,
                source,
                lost,
            } = failed;
            let mut draft = if lost { draft.lost() } else { draft };
            if lost {
                draft.status.url = None;
            }
            observed(&mut draft.status, source);
            let news = build.map(|build| OutdatedBy {
                reason: Reason::NewChart,
                text: build.news(),
            });
            let mut report = draft::failed(before, draft, &failure, news.as_ref(), declared.interval, waits);
            if failure.reason == Reason::ChartVerificationError {
                // upstream sets both conditions
                set_condition(
                    &mut report.status.conditions,
                    ConditionType::SourceVerified,
                    ConditionStatus::False,
                    Reason::VerificationError,
                    &failure.message,
                    declared.generation,
                    now,
                );
            }
            report
        }
        Done::NotRemoved(error) => not_removed(before, &error),
    }
}

fn observed(status: &mut HelmChartStatus, source: Option<String>) {
    if source.is_some() {
        status.observed_source_artifact_revision = source;
    }
}

fn succeeded(
    declared: &Declared,
    mut draft: Draft<HelmChartStatus>,
    build: &Build,
    source: Option<String>,
) -> HelmChartStatus {
    observed(&mut draft.status, source);
    match declared.required.is_some() && build.verified {
        true => draft.set(
            ConditionType::SourceVerified,
            ConditionStatus::True,
            Reason::Succeeded,
            &format!("verified signature of version {}", build.version),
        ),
        false => draft.clear(ConditionType::SourceVerified),
    }
    draft.succeeded(build.reason(), &build.summary()).finish()
}

fn about(status: &HelmChartStatus, build: &Build) -> Notice {
    about_artifact(status, build.reason().as_str(), build.summary())
}
