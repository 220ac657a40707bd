//! Observes the artifact in the store, and the index at its host.

use std::sync::Arc;

use equate_api::meta::{ConditionType, Reason};
use equate_api::source::HelmRepositoryStatus;

use super::Known;
use super::decide::{Artifact, Index, Observed};
use super::declared::Declared;
use crate::kit::controller::Retry;
use crate::kit::read::chain;
use crate::kit::services::Kit;
use crate::kit::time_limit::TimeLimit;
use crate::sources::charts::{Saved, index_too_large, index_url};
use crate::sources::failure::Failure;
use crate::sources::http::{Answer, Get, HttpError};
use crate::sources::store::{Form, is_stored};

/// Observes the store, then the host. Returns the version to ask for the next time as well.
pub(super) async fn observe(
    kit: &Arc<Kit>,
    declared: &Declared,
    status: HelmRepositoryStatus,
    known: Option<Known>,
) -> (Observed, Option<Known>) {
    let artifact = match status.artifact.clone() {
        None => Artifact::None,
        Some(artifact) => match is_stored(&kit.storage, &declared.publisher, artifact, Form::Blob).await {
            true => Artifact::Stored,
            false => Artifact::Lost,
        },
    };
    let stored = status.artifact.as_ref().filter(|_| artifact == Artifact::Stored);
    // without the artifact of that version, the whole index is needed
    let known = known.filter(|known| {
        known.url == declared.url && stored.is_some_and(|artifact| artifact.revision == known.revision)
    });
    let (index, known) = match index(kit, declared, known).await {
        Ok((index, known)) => (Ok(index), known),
        Err(failure) => (Err(failure), None),
    };
    let observed = Observed {
        status,
        artifact,
        index,
    };
    (observed, known)
}

async fn index(
    kit: &Arc<Kit>,
    declared: &Declared,
    known: Option<Known>,
) -> Result<(Index, Option<Known>), Failure> {
    let home = declared.home.clone().map_err(|why| {
        let message = format!("invalid Helm repository URL: {why}");
        Failure::stalling(ConditionType::FetchFailed, Reason::UrlInvalid, message)
    })?;
    let namespace = &declared.key.namespace;
    let url = index_url(&home);
    let charts = &kit.charts;
    let access = charts
        .access(&kit.client, namespace, home, &declared.access)
        .await;
    let access = access.map_err(|error| Failure {
        condition: Some(ConditionType::FetchFailed),
        reason: Reason::AuthenticationFailed,
        message: error.message(),
        retry: match error.is_final() {
            true => Retry::Never,
            false => Retry::Backoff,
        },
    })?;
    let limit = TimeLimit::of(declared.timeout, kit.settings.timeout_max);
    let get = Get {
        namespace,
        url: url.as_str(),
        access: &access,
        known: known.as_ref().map(|known| &known.validators),
        bytes_max: charts.settings.index_bytes_max,
        limit,
    };
    let (Saved { file, digest }, validators) =
        match charts.index(get).await.map_err(|error| failed(&error))? {
            Answer::NotModified => return Ok((Index::Unchanged, known)),
            Answer::Body { body, validators } => (body, validators),
        };
    let known = (!validators.is_empty()).then(|| Known {
        url: declared.url.clone(),
        revision: digest.clone(),
        validators,
    });
    let fetched = Index::Fetched {
        file,
        revision: digest,
    };
    Ok((fetched, known))
}

fn failed(error: &HttpError) -> Failure {
    let message = match error {
        HttpError::Save(source) => {
            return Failure::passing(
                ConditionType::StorageOperationFailed,
                Reason::ArchiveOperationFailed,
                format!("unable to save the index to storage: {}", chain(source)),
            );
        }
        HttpError::TooLarge { bytes_max, .. } => index_too_large(*bytes_max),
        error => chain(error),
    };
    let message =
        format!("failed to fetch Helm repository index: failed to cache index to temporary file: {message}");
    Failure::passing(ConditionType::FetchFailed, Reason::Failed, message)
}
