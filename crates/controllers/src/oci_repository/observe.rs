//! Observes the artifact in the store, and the digest of the reference. It only reads, except that the
//! store removes a damaged archive.

use std::sync::Arc;

use equate_api::source::OciRepositoryStatus;
use equate_registry::{Access, Remote, Repository, Version, tags};

use super::Context;
use super::access::access;
use super::decide::{Artifact, Found, Observed};
use super::declared::{Declared, Wanted, copies};
use super::failure;
use crate::kit::queue::without_worker;
use crate::sources::failure::Failure;
use crate::sources::selection::{Unselected, among_tags};
use crate::sources::store::{Form, is_stored};

const LATEST: &str = "latest";

/// Observes the store, then the registry.
pub(super) async fn observe(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    status: OciRepositoryStatus,
) -> Observed {
    let artifact = artifact(&cx, &declared, &status).await;
    let repository = match &declared.repository {
        Ok(repository) => repository.clone(),
        Err(error) => {
            return Observed {
                status,
                artifact,
                found: Err(failure::url(&declared.url, error)),
                open: None,
            };
        }
    };
    let (found, open) = match access(&cx, &declared, &repository).await {
        Err(failure) => (Err(failure), None),
        Ok(access) => {
            let found = resolve(&cx, &declared, &repository, access.clone()).await;
            (found, Some((repository, access)))
        }
    };
    Observed {
        status,
        artifact,
        found,
        open,
    }
}

async fn artifact(cx: &Context, declared: &Declared, status: &OciRepositoryStatus) -> Artifact {
    let Some(artifact) = status.artifact.clone() else {
        return Artifact::None;
    };
    let form = match copies(status.observed_layer_selector.as_ref()) {
        true => Form::Blob,
        false => Form::Tree,
    };
    match is_stored(&cx.storage, &declared.publisher, artifact, form).await {
        true => Artifact::Stored,
        false => Artifact::Lost,
    }
}

async fn resolve(
    cx: &Context,
    declared: &Declared,
    repository: &Repository,
    access: Access,
) -> Result<Found, Failure> {
    let limit = cx.limit(declared);
    let wanted = declared.wanted.as_ref().map_err(failure::version)?;
    let opened = cx.registries.open(repository.clone(), access);
    let remote = opened.map_err(|error| failure::open(&declared.url, &error))?;
    let version = match wanted {
        Wanted::Exactly(version) => version.clone(),
        Wanted::Newest { range, filter } => newest(cx, declared, &remote, range, filter.as_deref()).await?,
    };
    let digest = without_worker(remote.resolve(&version)).await;
    let digest = digest.map_err(|error| failure::digest(&error, limit))?;
    Ok(Found {
        revision: match &version {
            Version::Tag(tag) => format!("{tag}@{digest}"),
            Version::Digest(digest) => digest.to_string(),
        },
        version,
        digest,
    })
}

async fn newest(
    cx: &Context,
    declared: &Declared,
    remote: &Remote,
    range: &str,
    filter: Option<&str>,
) -> Result<Version, Failure> {
    let limit = cx.limit(declared);
    let selector = declared.selector.as_ref();
    let media_type = selector.and_then(|selector| selector.media_type.as_deref());
    let is_chart = media_type == Some(tags::CHART_LAYER);
    let (range, filter, is_local) = (range.to_owned(), filter.map(str::to_owned), remote.is_local());
    let select = move |all: &[String], go_on: &dyn Fn() -> bool| {
        // a directory without versions stands for all of them
        match is_local && *all == [LATEST] {
            true => Ok(LATEST.to_owned()),
            false => tags::newest(all, &range, filter.as_deref(), is_chart, go_on).map(str::to_owned),
        }
    };
    let tag = among_tags(&cx.processors, remote, &declared.key.namespace, limit, select).await;
    let tag = tag.map_err(|why| match why {
        Unselected::Tags(error) => failure::list(&declared.url, &error, limit),
        Unselected::Selection(why) => failure::tag(&declared.url, &why),
    })?;
    let tag = tag.map_err(|error| failure::no_tag(&declared.url, &error))?;
    Version::tag(&tag).map_err(|error| failure::version(&error))
}
