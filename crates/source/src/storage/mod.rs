//! Artifacts on disk in Flux's layout, found by digest, served only when intact.
//!
//! Each source has a directory `<kind>/<namespace>/<name>` with a file per recent revision: the archive of a
//! tree, or a blob. A file beside them binds them to the uid of the source: a digest opens an artifact only
//! together with the source that published it. Files are written in the root and renamed to their place, so readers
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
use record::{Arrived, Content, Fingerprint, Kept, Record, file_digest, file_digest_pausing};
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
    /// The directory of unnamed files.
    scratch: PathBuf,
    retention: Retention,
    share: Share,
    limits: Limits,
    places: Mutex<BTreeMap<Place, Kept>>,
    /// How often artifacts of a place were removed. Locked while files come to places or go; before `places`.
    removals: Mutex<u64>,
}

/// The next artifact of a source.
enum Next {
    Known(Record),
    Arrived(Arrived),
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
        "cannot store {place}: the artifacts of namespace {} and their unpacked files have {bytes} bytes, and {bytes_max} are possible; remove \
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
    /// The artifacts of the place were removed during the work.
    #[error("cannot store {place}: its artifacts were removed meanwhile, as of a deleted source")]
    Removed {
        /// The artifact's place.
        place: Place,
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
            scratch: root.clone(),
            root,
            base_url: base_url.trim_end_matches('/').to_owned(),
            retention,
            share,
            limits: Limits::default(),
            removals: Mutex::new(0),
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
    /// As [`Storage::publish`], if the work is to end, and if the place's artifacts are removed meanwhile.
    pub fn publish_pausing(
        &self,
        publisher: &Publisher,
        revision: &str,
        tree: &Tree,
        pauses: &Pauses<'_>,
    ) -> Result<Stored, StorageError> {
        let place = publisher.place();
        let file = place::file_name(revision).ok_or_else(|| StorageError::Revision {
            revision: revision.to_owned(),
        })?;
        let directory = self.claim(publisher, pauses)?;
        let root = &self.shared.root;
        let next = match self.same_tree(place, tree.id()) {
            Some(record) if record.file == file => Next::Known(record),
            Some(record) => Next::Arrived(record::copy(root, &directory, record)?),
            None => {
                self.check_share(place)?;
                let (path, limits) = (directory.join(&file), &self.shared.limits);
                let written = record::write(root, &path, (place, revision), tree, limits, pauses)?;
                Next::Arrived(written)
            }
        };
        let record = self.store(publisher, (&file, revision), next, pauses)?;
        let stored = self.stored(place, &record, revision, Some(tree));
        self.keep(tree, directory.join(&file), stored.digest.clone());
        self.collect(place)?;
        Ok(stored)
    }

    /// An unnamed file on the store's disk, for content that is not an artifact yet.
    ///
    /// # Errors
    /// The disk.
    pub fn scratch(&self) -> Result<fs::File, StorageError> {
        let directory = &self.shared.scratch;
        tempfile::tempfile_in(directory).map_err(|source| StorageError::of("write to", directory, source))
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
            let tree = match record.content.tree() {
                Some(known) => Some(known.clone()),
                None => self.read(full, &Pauses::none())?,
            };
            Ok(tree.map(Content::Tree))
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
            Ok(Some(Content::Blob(record.content.tree().cloned())))
        })
    }

    fn adopt_as(
        &self,
        publisher: &Publisher,
        path: &str,
        digest: &str,
        revision: &str,
        content: impl FnOnce(&Record, &Path) -> Result<Option<Content>, StorageError>,
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
            true => content(&record, &full)?,
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
        let _removals = self.removals();
        if self.own_record(publisher, |own| own.file == file).is_none() {
            return Ok(None);
        }
        self.bind(publisher)?;
        self.add(publisher, record);
        Ok(Some(stored))
    }

    /// The tree of the source's artifact with this digest. After a restart it is read once from its
    /// archive. A chart or a layer has a tree, too; an index and other blobs have none.
    ///
    /// # Errors
    /// The disk, or the work is to end.
    pub fn tree(
        &self,
        publisher: &Publisher,
        digest: &str,
        pauses: &Pauses<'_>,
    ) -> Result<Option<Tree>, StorageError> {
        let place = publisher.place();
        let found = self.find(publisher, digest, pauses);
        pauses.ended()?;
        let Some(mut record) = found else {
            return Ok(None);
        };
        if let Some(tree) = record.content.tree() {
            return Ok(Some(tree.clone()));
        }
        if record.media_type != MediaType::Gzip {
            return Ok(None);
        }
        let full = self.shared.root.join(place.path()).join(&record.file);
        if !record.verified(&full) {
            let found = file_digest_pausing(&full, pauses);
            pauses.ended()?;
            let found = found.map_err(|source| StorageError::of("read", &full, source))?;
            if found.as_deref() != Some(digest) {
                return Ok(None);
            }
        }
        let Some(tree) = self.read(&full, pauses)? else {
            return Ok(None);
        };
        // of several readers at once, the first one's
        if let Some(known) = self.known_tree(publisher, digest) {
            return Ok(Some(known));
        }
        record.content = Content::Blob(Some(tree.clone()));
        self.replace(place, record);
        Ok(Some(tree))
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
        let mut removals = self.removals();
        *removals = removals.wrapping_add(1);
        self.clear(place)
    }

    fn clear(&self, place: &Place) -> Result<(), StorageError> {
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
                true => kept.records.last().map_or(0, Record::bytes),
                false => kept.records.iter().map(Record::bytes).sum(),
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

    /// Changes files of places if the work goes on. Its question may wait for other work, so no lock is held. A
    /// removal after a question asks again: a source ends its work before its artifacts are removed.
    fn change<T>(
        &self,
        pauses: &Pauses<'_>,
        change: impl FnOnce() -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut before = *self.removals();
        loop {
            pauses.here()?;
            let removals = self.removals();
            if *removals == before {
                return change();
            }
            before = *removals;
        }
    }

    /// Makes the directory of a source.
    fn claim(&self, publisher: &Publisher, pauses: &Pauses<'_>) -> Result<PathBuf, StorageError> {
        self.change(pauses, || self.bind(publisher))
    }

    /// Files of an earlier source are removed first, so none of them is bound.
    fn bind(&self, publisher: &Publisher) -> Result<PathBuf, StorageError> {
        let (place, root) = (publisher.place(), &self.shared.root);
        let directory = root.join(place.path());
        let bound = self.places().get(place).and_then(|kept| kept.uid.clone());
        let is_own = bound.as_deref() == Some(publisher.uid());
        if bound.is_some() && !is_own {
            self.clear(place)?;
        }
        record::make_directory(&directory)?;
        if !is_own {
            record::bind(root, &directory, publisher.uid())?;
            self.places().entry(place.clone()).or_default().uid = Some(publisher.uid().to_owned());
        }
        Ok(directory)
    }

    /// Makes an artifact the newest of a source that has claimed its place.
    fn store(
        &self,
        publisher: &Publisher,
        (file, revision): (&str, &str),
        next: Next,
        pauses: &Pauses<'_>,
    ) -> Result<Record, StorageError> {
        let place = publisher.place();
        self.change(pauses, || {
            let bound = self.places().get(place).and_then(|kept| kept.uid.clone());
            if bound.as_deref() != Some(publisher.uid()) {
                return Err(StorageError::Removed { place: place.clone() });
            }
            let record = match next {
                Next::Known(record) => record.at(revision),
                Next::Arrived(arrived) => {
                    arrived.persist(&self.shared.root.join(place.path()), file, revision)?
                }
            };
            self.add(publisher, record.clone());
            Ok(record)
        })
    }

    fn find(&self, publisher: &Publisher, digest: &str, pauses: &Pauses<'_>) -> Option<Record> {
        let known = self.own_record(publisher, |record| record.digest.as_deref() == Some(digest));
        known.or_else(|| self.unhashed(publisher, digest, pauses))
    }

    fn unhashed(&self, publisher: &Publisher, digest: &str, pauses: &Pauses<'_>) -> Option<Record> {
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
            let found = file_digest_pausing(&full, pauses).ok()??;
            let is_asked = found == digest;
            (record.digest, record.fingerprint) = (Some(found), fingerprint);
            self.replace(place, record.clone());
            is_asked.then_some(record)
        })
    }

    /// `None` if it is no archive.
    fn read(&self, path: &Path, pauses: &Pauses<'_>) -> Result<Option<Tree>, StorageError> {
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|source| StorageError::of("read", path, source))?,
        };
        match Tree::unpack_archive(file, &self.shared.limits, self.scratch()?, pauses) {
            Ok(tree) => Ok(Some(tree)),
            Err(ArchiveError::Stopped(stopped)) => Err(stopped.into()),
            Err(ArchiveError::Unpack(source)) => Err(StorageError::of("unpack", path, source)),
            Err(error) => {
                tracing::warn!(path = %path.display(), error = &error as &dyn std::error::Error, "artifact not usable");
                Ok(None)
            }
        }
    }

    fn keep(&self, tree: &Tree, archive: PathBuf, digest: String) {
        let shared = Arc::downgrade(&self.shared);
        tree.keep(Arc::new(move || {
            let storage = Storage {
                shared: shared.upgrade()?,
            };
            let whole = file_digest(&archive).ok()?.as_deref() == Some(&*digest);
            let read = whole.then(|| storage.read(&archive, &Pauses::none()));
            read?.ok().flatten()
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

    fn removals(&self) -> MutexGuard<'_, u64> {
        self.shared
            .removals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Every statement leaves the index consistent, so a panic elsewhere is harmless.
    fn places(&self) -> MutexGuard<'_, BTreeMap<Place, Kept>> {
        self.shared.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
