//! Makes an artifact: verifies, pulls the manifest, downloads a layer, publishes. The only writes outside
//! the cluster.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek as _;
use std::sync::Arc;

use equate_registry::oci_spec::image::Descriptor;
use equate_registry::{Image, Remote, STAND_IN_LAYER, Version};
use equate_source::{Blob, Ignore, Limits, Pauses, Stored, Tree};

use super::Context;
use super::decide::{Found, Observed};
use super::declared::Declared;
use super::failure;
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::sources::draft::OutdatedBy;
use crate::sources::failure::Failure;
use crate::sources::signatures::Means;

/// Bytes of annotations that become metadata of the artifact: a status is stored in etcd.
const METADATA_BYTES_MAX: usize = 256 << 10;

/// The work of a plan at the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Verify,
    Publish,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is up to date; its URLs, which may have changed.
    Kept {
        url: Option<String>,
        latest: String,
        /// The revision that was verified.
        verified: Option<String>,
    },
    Published(Box<Published>),
    Failed {
        failure: Failure,
        /// The revision of the failed artifact, if it is to be shown.
        news: Option<OutdatedBy>,
        /// Whether the artifact of the status is missing from the store.
        lost: bool,
    },
    /// The artifacts of a deleted object could not be removed.
    NotRemoved(String),
}

/// An artifact in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    pub(crate) latest: String,
    /// The annotations of the manifest.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The revision that was verified.
    pub(crate) verified: Option<String>,
}

/// The URL that serves the newest artifact, as Flux's symbolic link.
pub(super) fn latest(cx: &Context, declared: &Declared) -> String {
    cx.storage
        .url(&format!("{}/latest.tar.gz", declared.publisher.place().path()))
}

/// Verifies a revision and makes its artifact, or only verifies it. On failure the earlier artifact stays.
pub(super) async fn publish(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    observed: Observed,
    found: Found,
    task: Task,
) -> Result<Done, Failure> {
    let broken = || Failure::broken(equate_api::meta::Reason::OciArtifactPullFailed, &declared.key);
    let (repository, access) = observed.open.ok_or_else(broken)?;
    let opened = cx.registries.open(repository, access);
    let remote = opened.map_err(|error| failure::open(&declared.url, &error))?;
    let verified = match &declared.verify {
        Some(required) => {
            let means = Means {
                client: &cx.client,
                processors: &cx.processors,
                namespace: &declared.key.namespace,
                limit: cx.limit(&declared),
            };
            let verified = required.verify(means, &remote, &found.digest).await;
            let is_verified = verified.map_err(|unverified| unverified.failure())?;
            is_verified.then(|| found.revision.clone())
        }
        None => None,
    };
    if task == Task::Verify {
        let stored = observed.status.artifact.as_ref();
        return Ok(Done::Kept {
            url: stored.map(|artifact| cx.storage.url(&artifact.path)),
            latest: latest(&cx, &declared),
            verified,
        });
    }
    let (layer, metadata) = without_worker(pull(&cx, &declared, &remote, &found)).await?;
    let (own, context, revision) = (Arc::clone(&declared), Arc::clone(&cx), found.revision.clone());
    let work = move |go_on: &dyn Fn() -> bool| store(&context, &own, &revision, layer, &Pauses::new(go_on));
    let publishing = cx.processors.paced(&declared.key.namespace, cx.timeout_max, work);
    let stored = publishing.await.unwrap_or_else(|error| {
        let reason = equate_api::meta::Reason::OciArtifactLayerOperationFailed;
        Err(Failure::unfinished(
            &error,
            reason,
            &declared.key,
            failure::doing(declared.copies()),
        ))
    })?;
    Ok(Done::Published(Box::new(Published {
        stored,
        latest: latest(&cx, &declared),
        metadata,
        verified,
    })))
}

/// The layer on disk, and the annotations of its manifest.
async fn pull(
    cx: &Context,
    declared: &Declared,
    remote: &Remote,
    found: &Found,
) -> Result<(File, BTreeMap<String, String>), Failure> {
    let limit = cx.limit(declared);
    let image = remote.image(&Version::Digest(found.digest.clone())).await;
    let image = image.map_err(|error| failure::pull(&declared.url, &error, limit))?;
    let metadata = metadata(&image)?;
    let layer = select(declared, &image)?;
    let mut file = cx
        .storage
        .scratch()
        .map_err(|error| failure::layer(chain(&error)))?;
    let downloaded = remote.blob(layer, &mut file).await;
    downloaded.map_err(|error| failure::download(declared.copies(), &error, limit))?;
    Ok((file, metadata))
}

fn metadata(image: &Image) -> Result<BTreeMap<String, String>, Failure> {
    let annotations = image.manifest.annotations().iter().flatten();
    let metadata: BTreeMap<String, String> = annotations
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let bytes: usize = metadata
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    match bytes > METADATA_BYTES_MAX {
        true => Err(failure::layer(format!(
            "failed to parse artifact manifest: its annotations are larger than {METADATA_BYTES_MAX} bytes"
        ))),
        false => Ok(metadata),
    }
}

fn select<'a>(declared: &Declared, image: &'a Image) -> Result<&'a Descriptor, Failure> {
    let layers = image.manifest.layers();
    let first = layers
        .first()
        .ok_or_else(|| failure::layer("no layers found in artifact".to_owned()))?;
    let selector = declared.selector.as_ref();
    let wanted = selector.and_then(|selector| selector.media_type.as_deref());
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Ok(first);
    };
    let mut all = layers.iter().map(|layer| (layer, layer.media_type().as_ref()));
    let found = all.find(|(_, own)| *own == wanted || *own == STAND_IN_LAYER);
    found.map(|(layer, _)| layer).ok_or_else(|| {
        failure::layer(format!(
            "failed to find layer with media type '{wanted}' in artifact"
        ))
    })
}

fn store(
    cx: &Context,
    declared: &Declared,
    revision: &str,
    mut layer: File,
    pauses: &Pauses<'_>,
) -> Result<Stored, Failure> {
    let limits = Limits::default();
    layer
        .rewind()
        .map_err(|error| failure::layer(format!("failed to read the downloaded layer: {error}")))?;
    if declared.copies() {
        let hex = revision.rsplit(':').next().unwrap_or(revision);
        let blob = Blob {
            file: &format!("{hex}.tar.gz"),
            revision,
            bytes_max: limits.archive_bytes_max,
        };
        let stored = cx
            .storage
            .publish_blob_pausing(&declared.publisher, &blob, layer, pauses);
        return stored.map_err(|error| failure::copied(&error));
    }
    let pack = cx
        .storage
        .scratch()
        .map_err(|error| failure::layer(chain(&error)))?;
    let ignore = Ignore::new(declared.ignore.as_deref());
    let tree = Tree::unpack(layer, &ignore, &limits, pack, pauses);
    let tree = tree.map_err(|error| failure::unpack(&error))?;
    let stored = cx
        .storage
        .publish_pausing(&declared.publisher, revision, &tree, pauses);
    stored.map_err(|error| Failure::storage(&error))
}
