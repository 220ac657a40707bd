//! Makes an artifact: fetches the objects that changed, and publishes.

use std::fs::File;
use std::io::Seek as _;
use std::sync::Arc;

use equate_bucket::{Bucket, Reason as Class};
use equate_source::{Gathering, Limits, Pauses, Stored, Tree};
use futures::StreamExt as _;

use super::decide::{Artifact, Found, Observed};
use super::declared::Declared;
use super::failure;
use super::index::{Index, path};
use super::observe::IGNORE_FILE;
use super::{Buckets, Known};
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::sources::failure::Failure;
use crate::sources::store;

/// Objects that are fetched at once: as many as the way out admits for one host.
const FETCHED_AT_ONCE: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is up to date; its URLs, which may have changed.
    Kept {
        url: Option<String>,
        latest: String,
        objects: usize,
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

/// An artifact in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    pub(crate) latest: String,
    pub(crate) index: Arc<Index>,
}

/// The URL that serves the newest artifact, as Flux's symbolic link.
pub(super) fn latest(cx: &Buckets, declared: &Declared) -> String {
    let place = declared.publisher.place().path();
    cx.kit.storage.url(&format!("{place}/latest.tar.gz"))
}

/// Makes the artifact of the objects that were found. On failure the earlier artifact stays.
pub(super) async fn publish(
    cx: &Buckets,
    declared: &Declared,
    observed: Observed,
    known: Option<Arc<Known>>,
) -> Result<Published, Failure> {
    let previous = previous(cx, declared, &observed, known).await;
    let found = observed.found?;
    let (gathering, index) = fetch(cx, declared, found, previous).await?;
    let (storage, publisher, bucket) = (
        cx.kit.storage.clone(),
        declared.publisher.clone(),
        declared.bucket.clone(),
    );
    let work = move |go_on: &dyn Fn() -> bool| {
        let tree = gathering
            .finish()
            .map_err(|error| failure::tree(&bucket, &error))?;
        let stored = storage.publish_pausing(&publisher, &index.revision(), &tree, &Pauses::new(go_on));
        Ok((stored.map_err(|error| Failure::storage(&error))?, index))
    };
    let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
    let published = processors.paced(&declared.key.namespace, limit, work).await;
    let (stored, index) =
        published.unwrap_or_else(|error| Err(failure::unfinished(declared, &error, "make an artifact")))?;
    Ok(Published {
        stored,
        latest: latest(cx, declared),
        index: Arc::new(index),
    })
}

/// The artifact whose objects are known, so that those without a change are not fetched again.
struct Previous {
    tree: Tree,
    known: Arc<Known>,
}

async fn previous(
    cx: &Buckets,
    declared: &Declared,
    observed: &Observed,
    known: Option<Arc<Known>>,
) -> Option<Arc<Previous>> {
    let artifact = observed.status.artifact.as_ref()?;
    let known = known.filter(|known| known.digest == artifact.digest)?;
    if observed.artifact != Artifact::Stored {
        return None;
    }
    let (namespace, publisher) = (&declared.key.namespace, &declared.publisher);
    let read = store::tree(&cx.kit, namespace, publisher, &artifact.digest).await;
    let read = read.inspect_err(|why| {
        tracing::warn!(
            bucket = declared.bucket,
            why,
            "all objects are fetched, because the last artifact cannot be read"
        );
    });
    let tree = read.ok().flatten()?;
    Some(Arc::new(Previous { tree, known }))
}

/// The content of an object.
enum Content {
    /// The same as in the previous artifact.
    Same(Arc<Previous>),
    Fetched(File),
}

async fn fetch(
    cx: &Buckets,
    declared: &Declared,
    found: Found,
    previous: Option<Arc<Previous>>,
) -> Result<(Gathering, Index), Failure> {
    let limits = Limits::default();
    let scratch = || {
        let scratch = cx.kit.storage.scratch();
        scratch.map_err(|error| failure::unfetched(&declared.bucket, &chain(&error)))
    };
    let bucket = cx.open(declared, &found.access)?;
    let mut gathering = Gathering::new(scratch()?, &limits);
    if let Some(text) = &found.ignore_file {
        let added = gathering.add(IGNORE_FILE, text, false);
        added.map_err(|error| failure::tree(&declared.bucket, &error))?;
    }
    let mut index = found.index;
    let wanted: Vec<(String, String)> = index.0.clone().into_iter().collect();
    let getting = futures::stream::iter(wanted).map(|(key, etag)| {
        let (previous, scratch, bucket) = (previous.as_ref(), &scratch, &bucket);
        async move {
            let same = previous.filter(|previous| previous.known.index.0.get(&key) == Some(&etag));
            if let Some(previous) = same {
                return Ok((key, Some((etag, Content::Same(Arc::clone(previous))))));
            }
            let got = get(cx, declared, bucket, &key, scratch()?).await?;
            Ok::<_, Failure>((key, got.map(|(etag, file)| (etag, Content::Fetched(file)))))
        }
    });
    let mut getting = std::pin::pin!(getting.buffer_unordered(FETCHED_AT_ONCE));
    while let Some(got) = without_worker(getting.next()).await {
        let (key, got) = got?;
        let Some((etag, content)) = got else {
            tracing::info!(
                key,
                bucket = declared.bucket,
                "an object disappeared from its bucket"
            );
            index.0.remove(&key);
            continue;
        };
        let (at, name) = (path(&key), declared.bucket.clone());
        let adding = cx.kit.processors.run(&declared.key.namespace, move || {
            let unread = |why: String| failure::unfetched(&name, &why);
            let added = match content {
                Content::Same(previous) => {
                    let opened = previous.tree.open(&at);
                    let (length, content) = opened.map_err(|error| unread(chain(&error)))?;
                    gathering.add_from(&at, content, length, false)
                }
                Content::Fetched(mut file) => {
                    let length = file.stream_position().and_then(|length| {
                        file.rewind()?;
                        Ok(length)
                    });
                    let length = length.map_err(|error| unread(error.to_string()))?;
                    gathering.add_from(&at, file, length, false)
                }
            };
            added.map_err(|error| failure::tree(&name, &error))?;
            Ok::<_, Failure>(gathering)
        });
        let added = adding.done().await;
        gathering = added.map_err(|error| failure::unfinished(declared, &error, "add an object"))??;
        index.0.insert(key, etag);
    }
    Ok((gathering, index))
}

/// An object and its etag; `None` if it is gone.
async fn get(
    cx: &Buckets,
    declared: &Declared,
    bucket: &Bucket,
    key: &str,
    mut file: File,
) -> Result<Option<(String, File)>, Failure> {
    let bytes_max = Limits::default().file_bytes_max;
    match bucket.get(key, bytes_max, &mut file).await {
        Ok(etag) => Ok(Some((etag, file))),
        Err(error) if error.reason() == Class::NotFound => Ok(None),
        Err(error) => Err(failure::fetch(&declared.bucket, key, &error, cx.limit(declared))),
    }
}
