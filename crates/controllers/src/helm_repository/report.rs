//! The end of a run, as a status; pure. Messages are those of Flux's `helmrepository_controller.go` (v1.9).

use equate_api::meta::Reason;
use equate_api::source::HelmRepositoryStatus;
use jiff::Timestamp;

use super::act::{Done, Published, Urls};
use super::declared::Declared;
use crate::kit::controller::{Next, Report};
use crate::sources::charts::human_size;
use crate::sources::draft::{self, Draft, OutdatedBy, about_artifact, ended, not_removed, recovered};

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &HelmRepositoryStatus,
    done: Done,
    now: Timestamp,
) -> Report<HelmRepositoryStatus> {
    let draft = Draft::new(before, declared.generation, now);
    match done {
        Done::Kept { place } => {
            let mut draft = draft;
            if let Some(Urls { artifact, newest }) = place {
                draft = draft.moved(Some(artifact));
                draft.status.url = Some(newest);
            }
            let status = succeeded(draft);
            let recovered = recovered(before, &status);
            let notice = recovered.then(|| about(declared, &status, Reason::Succeeded.as_str()));
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let Published { stored, newest } = *published;
            let mut draft = draft.stored(&stored);
            draft.status.url = Some(newest);
            let status = succeeded(draft);
            let artifact = before.artifact.as_ref();
            let same = artifact.is_some_and(|artifact| artifact.digest == stored.digest);
            let reason = match same {
                false => Some("NewArtifact"),
                true => recovered(before, &status).then_some(Reason::Succeeded.as_str()),
            };
            let notice = reason.map(|reason| about(declared, &status, reason));
            ended(status, notice, Next::Interval)
        }
        Done::Failed {
            failure,
            revision,
            lost,
        } => {
            let mut draft = if lost { draft.lost() } else { draft };
            if lost {
                draft.status.url = None;
            }
            let news = revision.map(|revision| OutdatedBy {
                reason: Reason::NewRevision,
                text: format!("new index revision '{revision}'"),
            });
            let interval = declared.interval_or_default();
            draft::failed(before, draft, &failure, news.as_ref(), interval, false)
        }
        Done::NotRemoved(error) => not_removed(before, &error),
    }
}

fn succeeded(draft: Draft<HelmRepositoryStatus>) -> HelmRepositoryStatus {
    let artifact = draft.status.artifact.as_ref();
    let revision = artifact.map_or("", |artifact| &*artifact.revision);
    let message = format!("stored artifact: revision '{revision}'");
    draft.succeeded(Reason::Succeeded, &message).finish()
}

fn about(declared: &Declared, status: &HelmRepositoryStatus, reason: &str) -> crate::kit::controller::Notice {
    let size = status.artifact.as_ref().and_then(|artifact| artifact.size);
    let size = size.map_or_else(
        || "unknown size".to_owned(),
        |size| format!("size {}", human_size(u64::try_from(size).unwrap_or_default())),
    );
    let message = format!("stored fetched index of {size} from '{}'", declared.url);
    about_artifact(status, reason, message)
}
