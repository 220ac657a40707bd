//! The end of a run, as a status; pure: the same state always gives the same status, so nothing unchanged
//! is written. Messages are those of Flux's `gitrepository_controller.go` (v1.9).

use equate_api::meta::{ConditionStatus, ConditionType, Reason};
use equate_api::source::GitRepositoryStatus;
use jiff::Timestamp;

use super::act::{Done, Published};
use super::declared::Declared;
use crate::kit::controller::{Next, Report};
use crate::sources::draft::{self, Draft, OutdatedBy, about_artifact, ended, not_removed, recovered};

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &GitRepositoryStatus,
    done: Done,
    now: Timestamp,
) -> Report<GitRepositoryStatus> {
    let draft = Draft::new(before, declared.generation, now);
    match done {
        Done::Kept { url } => {
            let status = succeeded(declared, draft.moved(url)).finish();
            let artifact = status.artifact.as_ref().filter(|_| recovered(before, &status));
            let notice = artifact.map(|artifact| {
                let message = format!("stored artifact for commit '{}'", artifact.revision);
                about_artifact(&status, Reason::Succeeded.as_str(), message)
            });
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let status = publish(declared, draft, &published).finish();
            let message = format!("stored artifact for commit '{}'", published.summary);
            let stored = before.artifact.as_ref();
            let same = stored.is_some_and(|artifact| artifact.digest == published.stored.digest);
            let reason = match same {
                false => Some("NewArtifact"),
                true => recovered(before, &status).then_some(Reason::Succeeded.as_str()),
            };
            let notice = reason.map(|reason| about_artifact(&status, reason, message));
            ended(status, notice, Next::Interval)
        }
        Done::Failed {
            failure,
            revision,
            lost,
        } => {
            let draft = if lost { draft.lost() } else { draft };
            let news = revision.as_deref().map(news);
            // the included repository wakes it
            let waits = failure.condition == Some(ConditionType::IncludeUnavailable);
            draft::failed(before, draft, &failure, news.as_ref(), declared.interval, waits)
        }
        Done::Unopened => Report {
            ended: false,
            failed: true,
            ..ended(before.clone(), None, Next::BackoffWithin(declared.interval))
        },
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

pub(super) fn publish(
    declared: &Declared,
    draft: Draft<GitRepositoryStatus>,
    published: &Published,
) -> Draft<GitRepositoryStatus> {
    let Published {
        stored,
        summary: _,
        verified,
        included,
    } = published;
    let mut draft = draft.stored(stored);
    let status = &mut draft.status;
    status.observed_ignore = declared.ignore.clone();
    status.observed_include = declared.include.clone();
    status.included_artifacts = included.clone();
    status.observed_recurse_submodules = declared.submodules;
    status.observed_sparse_checkout = declared.sparse.clone();
    if let (Some(verify), Some(message)) = (&declared.verify, verified) {
        status.source_verification_mode = Some(verify.mode.as_str().to_owned());
        draft.set(
            ConditionType::SourceVerified,
            ConditionStatus::True,
            Reason::Succeeded,
            message,
        );
    }
    succeeded(declared, draft)
}

pub(super) fn succeeded(
    declared: &Declared,
    mut draft: Draft<GitRepositoryStatus>,
) -> Draft<GitRepositoryStatus> {
    if declared.verify.is_none() {
        draft.clear(ConditionType::SourceVerified);
        draft.status.source_verification_mode = None;
    }
    let artifact = draft.status.artifact.as_ref();
    let revision = artifact.map_or("", |artifact| &*artifact.revision);
    let message = format!("stored artifact for revision '{revision}'");
    draft.succeeded(Reason::Succeeded, &message)
}
