//! The end of a run, as a status; pure: the same state always gives the same status, so nothing unchanged
//! is written. Messages are those of Flux's `bucket_controller.go` (v1.9).

use equate_api::meta::Reason;
use equate_api::source::BucketStatus;
use jiff::Timestamp;

use super::act::{Done, Published};
use super::declared::Declared;
use crate::kit::controller::{Next, Report};
use crate::sources::draft::{self, Draft, OutdatedBy, about_artifact, ended, not_removed, recovered};

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &BucketStatus,
    done: Done,
    now: Timestamp,
) -> Report<BucketStatus> {
    let draft = Draft::new(before, declared.generation, now);
    match done {
        Done::Kept { url, latest, objects } => {
            let mut draft = draft.moved(url);
            draft.status.url = draft.status.artifact.as_ref().map(|_| latest);
            let status = succeeded(draft).finish();
            let notice = recovered(before, &status)
                .then(|| about_artifact(&status, Reason::Succeeded.as_str(), message(declared, objects)));
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let Published {
                stored,
                latest,
                index,
            } = *published;
            let mut draft = draft.stored(&stored);
            draft.status.url = Some(latest);
            draft.status.observed_ignore.clone_from(&declared.ignore);
            let status = succeeded(draft).finish();
            let same = before
                .artifact
                .as_ref()
                .is_some_and(|artifact| artifact.digest == stored.digest);
            let reason = match same {
                false => Some("NewArtifact"),
                true => recovered(before, &status).then_some(Reason::Succeeded.as_str()),
            };
            let notice =
                reason.map(|reason| about_artifact(&status, reason, message(declared, index.0.len())));
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
            let news = revision.as_deref().map(news);
            draft::failed(before, draft, &failure, news.as_ref(), declared.interval, false)
        }
        Done::NotRemoved(error) => not_removed(before, &error),
    }
}

/// A revision that is not the artifact's.
pub(super) fn news(revision: &str) -> OutdatedBy {
    OutdatedBy {
        reason: Reason::NewRevision,
        text: format!("new upstream revision '{revision}'"),
    }
}

fn message(declared: &Declared, objects: usize) -> String {
    let bucket = &declared.bucket;
    format!("stored artifact with {objects} fetched files from '{bucket}' bucket")
}

fn succeeded(draft: Draft<BucketStatus>) -> Draft<BucketStatus> {
    let artifact = draft.status.artifact.as_ref();
    let revision = artifact.map_or("", |artifact| &*artifact.revision);
    let message = format!("stored artifact: revision '{revision}'");
    draft.succeeded(Reason::Succeeded, &message)
}
