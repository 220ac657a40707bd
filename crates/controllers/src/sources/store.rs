//! The artifacts of a source in the store, off the runtime's threads.

use equate_api::source::Artifact;
use equate_priority::blocking;
use equate_source::{Pauses, Place, Publisher, Storage, Tree};

use crate::kit::read::chain;
use crate::kit::services::Kit;

/// The form of a kind's artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Archives of trees.
    Tree,
    /// Bytes from elsewhere.
    Blob,
}

/// Whether the store has the artifact of a status, intact. Removes artifacts past the retention, also where
/// nothing new is published.
pub(crate) async fn is_stored(
    storage: &Storage,
    publisher: &Publisher,
    artifact: Artifact,
    form: Form,
) -> bool {
    let (storage, publisher) = (storage.clone(), publisher.clone());
    let adopting = blocking(move || {
        let Artifact {
            path,
            digest,
            revision,
            ..
        } = &artifact;
        let adopted = match form {
            Form::Tree => storage.adopt(&publisher, path, digest, revision),
            Form::Blob => storage.adopt_blob(&publisher, path, digest, revision),
        };
        let collected = storage.collect(publisher.place());
        for error in [adopted.as_ref().err(), collected.as_ref().err()]
            .into_iter()
            .flatten()
        {
            tracing::warn!(place = %publisher.place(), error = %chain(error), "cannot read or clean the artifact store");
        }
        adopted.ok().flatten().is_some()
    });
    adopting.await.unwrap_or(false)
}

/// The tree of an artifact in the store. A chart, a layer, or an artifact of an earlier process is read from its
/// archive.
///
/// # Errors
/// The disk, or it takes too long.
pub(crate) async fn tree(
    kit: &Kit,
    namespace: &str,
    publisher: &Publisher,
    digest: &str,
) -> Result<Option<Tree>, String> {
    let (storage, digest) = (kit.storage.clone(), digest.to_owned());
    if let Some(known) = storage.known_tree(publisher, &digest) {
        return Ok(Some(known));
    }
    let publisher = publisher.clone();
    let reading = kit
        .processors
        .paced(namespace, kit.settings.timeout_max, move |go_on| {
            storage.tree(&publisher, &digest, &Pauses::new(go_on))
        });
    let read = reading
        .await
        .map_err(|error| format!("cannot unpack the artifact: {}", chain(&error)))?;
    read.map_err(|error| chain(&error))
}

/// Removes all artifacts of a place.
pub(crate) async fn remove(storage: &Storage, place: Place) -> Result<(), String> {
    let storage = storage.clone();
    let removed = blocking(move || storage.remove(&place).map_err(|error| chain(&error)));
    // the store logs its panic, and the next start removes the rest
    removed.await.unwrap_or(Ok(()))
}
