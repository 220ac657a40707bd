//! The end of a run, as a status; pure: the same state always gives the same status, so nothing unchanged
//! is written. Messages are those of Flux's `ocirepository_controller.go` (v1.9).

use equate_api::meta::{ConditionStatus, ConditionType, Reason};
use equate_api::source::{Artifact, OciRepositoryStatus};
use jiff::Timestamp;

use super::act::{Done, Published};
use super::decide::Found;
use super::declared::Declared;
use crate::kit::controller::{Next, Report};
use crate::sources::draft::{self, Draft, OutdatedBy, about_artifact, ended, not_removed, recovered};

/// Annotations of Flux's command line.
const SOURCE: &str = "org.opencontainers.image.source";
const REVISION: &str = "org.opencontainers.image.revision";

/// The end of a run as status, events and the time of the next run.
pub(super) fn report(
    declared: &Declared,
    before: &OciRepositoryStatus,
    done: Done,
    now: Timestamp,
) -> Report<OciRepositoryStatus> {
    let draft = Draft::new(before, declared.generation, now);
    match done {
        Done::Kept {
            url,
            latest,
            verified,
        } => {
            let mut draft = draft.moved(url);
            draft.status.url = draft.status.artifact.as_ref().map(|_| latest);
            let status = succeeded(declared, draft, verified.as_deref()).finish();
            let artifact = status.artifact.as_ref().filter(|_| recovered(before, &status));
            let notice = artifact.map(|artifact| {
                let message = message(declared, artifact);
                about_artifact(&status, Reason::Succeeded.as_str(), message)
            });
            ended(status, notice, Next::Interval)
        }
        Done::Published(published) => {
            let status = publish(declared, draft, &published).finish();
            let stored = before.artifact.as_ref();
            let same = stored.is_some_and(|artifact| artifact.digest == published.stored.digest);
            let reason = match same {
                false => Some("NewArtifact"),
                true => recovered(before, &status).then_some(Reason::Succeeded.as_str()),
            };
            let notice = reason
                .zip(status.artifact.as_ref())
                .map(|(reason, artifact)| about_artifact(&status, reason, message(declared, artifact)));
            ended(status, notice, Next::Interval)
        }
        Done::Failed { failure, news, lost } => {
            let draft = match lost {
                true => {
                    let mut draft = draft.lost();
                    draft.status.url = None;
                    draft
                }
                false => draft,
            };
            draft::failed(before, draft, &failure, news.as_ref(), declared.interval, false)
        }
        Done::NotRemoved(error) => not_removed(before, &error),
    }
}

/// A revision that is not the artifact's.
pub(super) fn news(declared: &Declared, found: &Found) -> OutdatedBy {
    let name = match &declared.repository {
        Ok(repository) => repository.at(&found.version),
        Err(_) => declared.url.clone(),
    };
    OutdatedBy {
        reason: Reason::NewRevision,
        text: format!("new revision '{}' for '{name}'", found.revision),
    }
}

fn message(declared: &Declared, artifact: &Artifact) -> String {
    let message = format!(
        "stored artifact with revision '{}' from '{}'",
        artifact.revision, declared.url
    );
    match (artifact.metadata.get(SOURCE), artifact.metadata.get(REVISION)) {
        (Some(source), Some(revision)) if !source.is_empty() && !revision.is_empty() => {
            format!("{message}, origin source '{source}', origin revision '{revision}'")
        }
        _ => message,
    }
}

fn publish(
    declared: &Declared,
    draft: Draft<OciRepositoryStatus>,
    published: &Published,
) -> Draft<OciRepositoryStatus> {
    let Published {
        stored,
        latest,
        metadata,
        verified,
    } = published;
    let mut draft = draft.stored(stored);
    let status = &mut draft.status;
    if let Some(artifact) = &mut status.artifact {
        artifact.metadata = metadata.clone();
    }
    status.url = Some(latest.clone());
    status.observed_ignore = declared.ignore.clone();
    status.observed_layer_selector = declared.selector.clone();
    if verified.is_none() {
        // it would be about another revision
        draft.clear(ConditionType::SourceVerified);
    }
    succeeded(declared, draft, verified.as_deref())
}

fn succeeded(
    declared: &Declared,
    mut draft: Draft<OciRepositoryStatus>,
    verified: Option<&str>,
) -> Draft<OciRepositoryStatus> {
    match (&declared.verify, verified) {
        (None, _) => draft.clear(ConditionType::SourceVerified),
        (Some(_), Some(revision)) => draft.set(
            ConditionType::SourceVerified,
            ConditionStatus::True,
            Reason::Succeeded,
            &format!("verified signature of revision {revision}"),
        ),
        // verified by an earlier run, or let pass by a policy
        (Some(_), None) => {}
    }
    let artifact = draft.status.artifact.as_ref();
    let revision = artifact.map_or("", |artifact| &*artifact.revision);
    let message = format!("stored artifact for digest '{revision}'");
    draft.succeeded(Reason::Succeeded, &message)
}
