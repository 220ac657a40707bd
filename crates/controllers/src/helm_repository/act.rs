//! Publishes an index after it was parsed.

use std::io::{BufReader, Seek as _};
use std::sync::Arc;

use equate_api::meta::{ConditionType, Reason};
use equate_api::source::Artifact;
use equate_helm::repository::catalog::Catalog;
use equate_helm::repository::index::IndexError;
use equate_source::{Blob, Pauses, Storage, Stored};

use super::decide::{Index, Seen};
use super::declared::Declared;
use crate::kit::read::chain;
use crate::kit::services::Kit;
use crate::sources::failure::Failure;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is up to date; its URLs, which may have changed.
    Kept {
        place: Option<Urls>,
    },
    Published(Box<Published>),
    Failed {
        failure: Failure,
        /// The revision of the failed artifact.
        revision: Option<String>,
        /// Whether the artifact of the status is missing from the store.
        lost: bool,
    },
    /// The artifacts of a deleted object could not be removed.
    NotRemoved(String),
}

/// The URLs of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Urls {
    pub(crate) artifact: String,
    /// That of the newest one.
    pub(crate) newest: String,
}

/// An artifact in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    pub(crate) newest: String,
}

/// Publishes an observed index. On failure the earlier artifact stays.
pub(super) async fn publish(
    kit: &Arc<Kit>,
    declared: &Declared,
    seen: Seen,
    revision: &str,
) -> Result<Published, Failure> {
    let broken = || Failure::broken(Reason::IndexationFailed, &declared.key);
    let Seen::Observed(observed) = seen else {
        return Err(broken());
    };
    let Ok(Index::Fetched { file, .. }) = observed.index else {
        return Err(broken());
    };
    let (storage, publisher) = (kit.storage.clone(), declared.publisher.clone());
    let (settings, revision) = (kit.charts.settings.clone(), revision.to_owned());
    let work = move |go_on: &dyn Fn() -> bool| {
        let unusable = |error: IndexError| {
            Failure::passing(
                ConditionType::FetchFailed,
                Reason::IndexationFailed,
                format!(
                    "failed to load Helm repository from index YAML: failed to load index: {}",
                    chain(&error)
                ),
            )
        };
        let mut text = BufReader::new(file);
        let catalog = Catalog::read(&mut text, &settings.index()).map_err(unusable)?;
        text.rewind().map_err(|error| unusable(IndexError::Read(error)))?;
        let hex = revision.strip_prefix("sha256:").unwrap_or(&revision);
        let blob = Blob {
            file: &format!("index-{hex}.yaml"),
            revision: &revision,
            bytes_max: settings.index_bytes_max,
        };
        let stored = storage.publish_blob_pausing(&publisher, &blob, text, &Pauses::new(go_on));
        let stored = stored.map_err(|error| Failure {
            message: format!("unable to save artifact to storage: {}", chain(&error)),
            ..Failure::storage(&error)
        })?;
        Ok((stored, catalog))
    };
    let (processors, limit) = (&kit.processors, kit.settings.timeout_max);
    let published = processors.paced(&declared.key.namespace, limit, work).await;
    let (stored, catalog) = published.map_err(|error| {
        let (reason, doing) = (Reason::IndexationFailed, "failed to store Helm repository index");
        Failure::unfinished(&error, reason, &declared.key, doing)
    })??;
    let keeping = kit
        .charts
        .keep(&declared.publisher, &stored.digest, Arc::new(catalog));
    keeping.await;
    Ok(Published {
        stored,
        newest: newest(&kit.storage, declared),
    })
}

/// The URLs of the present artifact.
pub(super) fn urls(storage: &Storage, declared: &Declared, artifact: Option<&Artifact>) -> Option<Urls> {
    Some(Urls {
        artifact: storage.url(&artifact?.path),
        newest: newest(storage, declared),
    })
}

fn newest(storage: &Storage, declared: &Declared) -> String {
    storage.url(&format!("{}/index.yaml", declared.publisher.place().path()))
}
