//! Artifacts on disk in Flux's layout, found by digest, served only when intact.
//!
//! Each source has a directory `<kind>/<namespace>/<name>` with a file per recent revision: the archive of a
//! tree, or a blob. A file beside them binds them to the uid of the source: a digest opens an artifact only
//! together with the source that published it. Files are written beside their place and renamed, so readers
//! never see partial ones. Files of this process are trusted while size and time are unchanged. Files found
//! after a restart, or found changed, are hashed before they are read, and only a request for their digest
//! makes them artifacts again. Damaged files are never served: their source publishes again.

mod blob;
#[cfg(test)]
mod blob_tests;
mod file_name;
mod place;
mod record;
mod retention;
mod serve;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::cache::{Cache, CacheError};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::{Pauses, Stopped};
use crate::tree::{ContentId, Tree};

pub use blob::{Blob, StoredFile};
pub use file_name::{FileNameError, MediaType};
pub use place::{Place, PlaceError, Publisher};
use record::{Content, Fingerprint, Kept, Record, file_digest};
pub use retention::Retention;

/// The store of artifacts. Clones share everything.
#[derive(Clone, Debug)]
pub struct Storage {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    base_url: String,
    retention: Retention,
    share: Share,
    limits: Limits,
    places: Mutex<BTreeMap<Place, Kept>>,
}

/// The part of the disk that each namespace may have for artifacts.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// The bytes of all artifacts of a namespace; no limit if absent. The last one may exceed it.
    pub bytes_max: Option<u64>,
    /// The namespaces without a limit.
    pub exempt: BTreeSet<String>,
}

/// An artifact as in its source's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The path below root and URL: `gitrepository/ns/name/<commit>.tar.gz`.
    pub path: String,
    /// The URL.
    pub url: String,
    /// `sha256:` and hexadecimal digits of the file.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
    /// The media type.
    pub media_type: MediaType,
    /// Its revision.
    pub revision: String,
    /// The time its file was written.
    pub updated: Timestamp,
    /// The tree of an archive; `None` for a blob.
    pub tree: Option<Tree>,
}

/// The reason why an operation of the store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The revision contains no file name.
    #[error("revision {revision:?} names no artifact file")]
    Revision {
        /// The revision.
        revision: String,
    },
    /// The file name is invalid.
    #[error(transparent)]
    FileName(#[from] FileNameError),
    /// The blob is too large.
    #[error("cannot store {place}/{file}: {limit}")]
    TooLarge {
        /// The artifact's place.
        place: Place,
        /// Its file.
        file: String,
        /// The publisher's limit.
        limit: LimitExceeded,
    },
    /// The namespace has used its part of the disk.
    #[error(
        "cannot store {place}: the artifacts of namespace {} have {bytes} bytes, and {bytes_max} are possible; remove \
         sources there, make them smaller, or raise --artifact-namespace-mib-max",
        place.namespace()
    )]
    Share {
        /// The artifact's place.
        place: Place,
        /// The bytes of the namespace's artifacts.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The content of a blob cannot be read.
    #[error("cannot read the content of {place}/{file}")]
    Content {
        /// The artifact's place.
        place: Place,
        /// Its file.
        file: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The disk is full, or the quota is used up.
    #[error("no space left to {what} {}: free some, or place the store elsewhere", path.display())]
    Full {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error from the system.
        #[source]
        source: io::Error,
    },
    /// The process lacks permission.
    #[error("no permission to {what} {}: the store's directory must belong to this user", path.display())]
    Denied {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error from the system.
        #[source]
        source: io::Error,
    },
    /// Another failure of the file system.
    #[error("cannot {what} {}", path.display())]
    Files {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error from the system.
        #[source]
        source: io::Error,
    },
    /// The tree cannot be archived.
    #[error("cannot archive {place} at {revision}")]
    Archive {
        /// The artifact's place.
        place: Place,
        /// Its revision.
        revision: String,
        /// The reason.
        #[source]
        source: Box<ArchiveError>,
    },
    /// The work was ended at a pause.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl StorageError {
    pub(crate) fn of(what: &'static str, path: &Path, source: io::Error) -> StorageError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StorageError::Full { what, path, source }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StorageError::Denied { what, path, source }
            }
            _ => StorageError::Files { what, path, source },
        }
    }
}

impl Storage {
    /// Opens or creates the store in `root`, with artifacts served below `base_url` (`http://host:port`).
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(root: PathBuf, base_url: &str, retention: Retention) -> Result<Storage, StorageError> {
        Self::open_shared(root, base_url, retention, Share::default())
    }

    /// The same with a limit for each namespace.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open_shared(
        root: PathBuf,
        base_url: &str,
        retention: Retention,
        share: Share,
    ) -> Result<Storage, StorageError> {
        record::make_directory(&root)?;
        let shared = Shared {
            places: Mutex::new(record::find_files(&root)?),
            root,
            base_url: base_url.trim_end_matches('/').to_owned(),
            retention,
            share,
            limits: Limits::default(),
        };
        Ok(Storage {
            shared: Arc::new(shared),
        })
    }

    /// Publishes `tree` as the artifact of a source at `revision`, and removes older ones. Publishing the
    /// current artifact writes nothing; a tree of another revision is not archived again.
    ///
    /// # Errors
    /// The revision, the tree or the disk. The source's published artifacts stay unchanged.
    pub fn publish(
        &self,
        publisher: &Publisher,
        revision: &str,
        tree: &Tree,
    ) -> Result<Stored, StorageError> {
        self.publish_pausing(publisher, revision, tree, &Pauses::none())
    }

    /// Like [`Storage::publish`], with pauses.
    ///
    /// # Errors
    /// As [`Storage::publish`], and if the work is to end.
    pub fn publish_pausing(
        &self,
        publisher: &Publisher,
        revision: &str,
        tree: &Tree,
        pauses: &Pauses<'_>,
    ) -> Result<Stored, StorageError> {
        // the place may be another source's by now
        pauses.here()?;
        let place = publisher.place();
        let file = place::file_name(revision).ok_or_else(|| StorageError::Revision {
            revision: revision.to_owned(),
        })?;
        let directory = self.claim(publisher)?;
        let same = self.same_tree(place, tree.id());
        let record = match same {
            Some(record) if record.file == file && record.revision.as_deref() == Some(revision) => record,
            Some(record) => record::link_revision(&directory, record, &file, revision)?,
            None => {
                self.check_share(place)?;
                record::write(
                    &directory,
                    place,
                    (&file, revision),
                    tree,
                    &self.shared.limits,
                    pauses,
                )?
            }
        };
        let stored = self.stored(place, &record, revision, Some(tree));
        self.keep(tree, directory.join(&file), stored.digest.clone());
        self.add(publisher, record);
        self.collect(place)?;
        Ok(stored)
    }

    /// An unnamed file on the store's disk, for content that is not an artifact yet.
    ///
    /// # Errors
    /// The disk.
    pub fn scratch(&self) -> Result<fs::File, StorageError> {
        let root = &self.shared.root;
        tempfile::tempfile_in(root).map_err(|source| StorageError::of("write to", root, source))
    }

    /// Adopts the source's artifact with the path and digest from a status, if it is intact, and makes it the
    /// place's newest.
    ///
    /// # Errors
    /// The file cannot be read. A damaged file is removed and yields `None`.
    pub fn adopt(
        &self,
        publisher: &Publisher,
        path: &str,
        digest: &str,
        revision: &str,
    ) -> Result<Option<Stored>, StorageError> {
        self.adopt_as(publisher, path, digest, revision, |record, full| {
            let known = record.content.tree().cloned();
            known.or_else(|| self.read(full)).map(Content::Tree)
        })
    }

    /// Like [`Storage::adopt`] for a blob, where only the digest must match.
    ///
    /// # Errors
    /// As [`Storage::adopt`].
    pub fn adopt_blob(
        &self,
        publisher: &Publisher,
        path: &str,
        digest: &str,
        revision: &str,
    ) -> Result<Option<Stored>, StorageError> {
        self.adopt_as(publisher, path, digest, revision, |record, _| {
            Some(Content::Blob(record.content.tree().cloned()))
        })
    }

    fn adopt_as(
        &self,
        publisher: &Publisher,
        path: &str,
        digest: &str,
        revision: &str,
        content: impl FnOnce(&Record, &Path) -> Option<Content>,
    ) -> Result<Option<Stored>, StorageError> {
        let place = publisher.place();
        let Some(file) = path
            .strip_prefix(&place.path())
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            return Ok(None);
        };
        let Some(mut record) = self.own_record(publisher, |record| record.file == file) else {
            return Ok(None);
        };
        let full = self.shared.root.join(place.path()).join(file);
        let verified = match record.verified(&full) {
            true => record.digest.clone(),
            false => file_digest(&full).map_err(|source| StorageError::of("read", &full, source))?,
        };
        let content = match verified.as_deref() == Some(digest) {
            true => content(&record, &full),
            false => None,
        };
        let Some(content) = content else {
            self.forget(place, file)?;
            return Ok(None);
        };
        record.digest = verified;
        record.fingerprint = Fingerprint::of(&full).ok();
        record.revision = Some(revision.to_owned());
        let tree = match &content {
            Content::Tree(tree) => Some(tree),
            Content::Blob(_) => None,
        };
        let stored = self.stored(place, &record, revision, tree);
        record.content = content;
        self.claim(publisher)?;
        self.add(publisher, record);
        Ok(Some(stored))
    }

    /// The tree of the source's artifact with this digest. After a restart it is read once from its
    /// archive. A chart or a layer has a tree, too; an index and other blobs have none.
    pub fn tree(&self, publisher: &Publisher, digest: &str) -> Option<Tree> {
        let place = publisher.place();
        let mut record = self.find(publisher, digest)?;
        if let Some(tree) = record.content.tree() {
            return Some(tree.clone());
        }
        if record.media_type != MediaType::Gzip {
            return None;
        }
        let full = self.shared.root.join(place.path()).join(&record.file);
        if !record.verified(&full) && file_digest(&full).ok()?.as_deref() != Some(digest) {
            return None;
        }
        let tree = self.read(&full)?;
        record.content = Content::Blob(Some(tree.clone()));
        self.replace(place, record);
        Some(tree)
    }

    /// [`Storage::tree`], if it is in memory.
    pub fn known_tree(&self, publisher: &Publisher, digest: &str) -> Option<Tree> {
        let known = self.own_record(publisher, |record| record.digest.as_deref() == Some(digest))?;
        known.content.tree().cloned()
    }

    /// Removes artifacts of `place` beyond the retention, and returns their number.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn collect(&self, place: &Place) -> Result<usize, StorageError> {
        let garbage = match self.places().get(place) {
            Some(kept) => self.shared.retention.garbage(&kept.records, Timestamp::now()),
            None => return Ok(0),
        };
        for file in &garbage {
            self.forget(place, file)?;
        }
        Ok(garbage.len())
    }

    /// Removes all artifacts of `place`.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, place: &Place) -> Result<(), StorageError> {
        self.places().remove(place);
        let directory = self.shared.root.join(place.path());
        match fs::remove_dir_all(&directory) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::of("remove", &directory, source))
            }
            _ => Ok(()),
        }
    }

    /// The URL of this path; the address may differ from that in an older status.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{}", self.shared.base_url, path.trim_start_matches('/'))
    }

    /// The cache for downloaded archives, below this store's root but never served.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn cache(&self) -> Result<Cache, CacheError> {
        // no place's name begins with a dot
        Cache::open(self.shared.root.join(".fetched"))
    }

    /// The tree of the place's newest artifact, if known: a newer tree can share with it.
    pub fn newest(&self, place: &Place) -> Option<Tree> {
        self.places().get(place)?.records.last()?.content.tree().cloned()
    }

    /// Refuses an artifact of a namespace that has used its part of the disk. Of the same source, only the
    /// newest counts: the others are about to be removed.
    fn check_share(&self, place: &Place) -> Result<(), StorageError> {
        let Share { bytes_max, exempt } = &self.shared.share;
        let Some(bytes_max) = bytes_max.filter(|_| !exempt.contains(place.namespace())) else {
            return Ok(());
        };
        let places = self.places();
        let of_namespace = places
            .iter()
            .filter(|(other, _)| other.namespace() == place.namespace());
        let bytes = of_namespace
            .map(|(other, kept)| match other == place {
                true => kept.records.last().map_or(0, |record| record.size),
                false => kept.records.iter().map(|record| record.size).sum(),
            })
            .fold(0_u64, u64::saturating_add);
        match bytes < bytes_max {
            true => Ok(()),
            false => Err(StorageError::Share {
                place: place.clone(),
                bytes,
                bytes_max,
            }),
        }
    }

    fn stored(&self, place: &Place, record: &Record, revision: &str, tree: Option<&Tree>) -> Stored {
        let path = format!("{}/{}", place.path(), record.file);
        Stored {
            url: self.url(&path),
            path,
            digest: record.digest.clone().unwrap_or_default(),
            size: record.size,
            media_type: record.media_type,
            revision: revision.to_owned(),
            updated: record.updated,
            tree: tree.cloned(),
        }
    }

    fn same_tree(&self, place: &Place, tree: ContentId) -> Option<Record> {
        let directory = self.shared.root.join(place.path());
        let record = self
            .places()
            .get(place)?
            .records
            .iter()
            .rfind(|record| matches!(&record.content, Content::Tree(own) if own.id() == tree))?
            .clone();
        record.verified(&directory.join(&record.file)).then_some(record)
    }

    /// Makes the directory of a source. Files of an earlier one are removed first, so none of them is bound.
    fn claim(&self, publisher: &Publisher) -> Result<PathBuf, StorageError> {
        let place = publisher.place();
        let directory = self.shared.root.join(place.path());
        record::make_directory(&directory)?;
        let bound = self.places().get(place).and_then(|kept| kept.uid.clone());
        if bound.as_deref() == Some(publisher.uid()) {
            return Ok(directory);
        }
        if bound.is_some() {
            self.remove(place)?;
            record::make_directory(&directory)?;
        }
        record::bind(&directory, publisher.uid())?;
        self.places().entry(place.clone()).or_default().uid = Some(publisher.uid().to_owned());
        Ok(directory)
    }

    fn find(&self, publisher: &Publisher, digest: &str) -> Option<Record> {
        let known = self.own_record(publisher, |record| record.digest.as_deref() == Some(digest));
        known.or_else(|| self.unhashed(publisher, digest))
    }

    fn unhashed(&self, publisher: &Publisher, digest: &str) -> Option<Record> {
        let place = publisher.place();
        let kept = self.places().get(place).cloned()?;
        let mut open = kept
            .of(publisher)?
            .iter()
            .filter(|record| record.digest.is_none())
            .cloned();
        open.find_map(|mut record| {
            let full = self.shared.root.join(place.path()).join(&record.file);
            let fingerprint = Fingerprint::of(&full).ok();
            let found = file_digest(&full).ok()??;
            let is_asked = found == digest;
            (record.digest, record.fingerprint) = (Some(found), fingerprint);
            self.replace(place, record.clone());
            is_asked.then_some(record)
        })
    }

    fn read(&self, path: &Path) -> Option<Tree> {
        let read = fs::File::open(path)
            .map_err(ArchiveError::Malformed)
            .and_then(|file| Tree::from_archive(file, &self.shared.limits));
        read.inspect_err(|error| {
            tracing::warn!(path = %path.display(), error = error as &dyn std::error::Error, "artifact not usable");
        })
        .ok()
    }

    fn keep(&self, tree: &Tree, archive: PathBuf, digest: String) {
        let shared = Arc::downgrade(&self.shared);
        tree.keep(Arc::new(move || {
            let storage = Storage {
                shared: shared.upgrade()?,
            };
            let whole = file_digest(&archive).ok()?.as_deref() == Some(&*digest);
            whole.then(|| storage.read(&archive)).flatten()
        }));
    }

    fn own_record(&self, publisher: &Publisher, is_asked: impl Fn(&Record) -> bool) -> Option<Record> {
        let places = self.places();
        let mut own = places.get(publisher.place())?.of(publisher)?.iter();
        own.find(|record| is_asked(record)).cloned()
    }

    fn record(&self, place: &Place, file: &str) -> Option<Record> {
        self.places()
            .get(place)?
            .records
            .iter()
            .find(|record| record.file == file)
            .cloned()
    }

    /// Replaces an older record with the same file, unless another source has the place by now.
    fn add(&self, publisher: &Publisher, record: Record) {
        let mut places = self.places();
        if let Some(kept) = places.get_mut(publisher.place())
            && kept.of(publisher).is_some()
        {
            kept.records.retain(|old| old.file != record.file);
            kept.records.push(record);
        }
    }

    /// Updates a record unless it was removed meanwhile.
    fn replace(&self, place: &Place, record: Record) {
        let mut places = self.places();
        let own = places
            .get_mut(place)
            .and_then(|kept| kept.records.iter_mut().find(|own| own.file == record.file));
        if let Some(own) = own {
            *own = record;
        }
    }

    fn forget(&self, place: &Place, file: &str) -> Result<(), StorageError> {
        if let Some(kept) = self.places().get_mut(place) {
            kept.records.retain(|record| record.file != file);
        }
        let full = self.shared.root.join(place.path()).join(file);
        match fs::remove_file(&full) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::of("remove", &full, source))
            }
            _ => Ok(()),
        }
    }

    /// Every statement leaves the index consistent, so a panic elsewhere is harmless.
    fn places(&self) -> MutexGuard<'_, BTreeMap<Place, Kept>> {
        self.shared.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
