//! Artifacts on disk: where Flux keeps its own, found by digest, served only when whole.
//!
//! Each source has a directory `<kind>/<namespace>/<name>` with a file for each revision it published lately:
//! the archive of a tree, or a blob, which is kept byte for byte. A file is written beside its place and renamed into it, so that no reader ever sees half of one.
//! What this process wrote it trusts as long as the file's size and time stay; what it finds after a
//! restart, or finds changed, it hashes before anyone may read it, and only a digest that someone asks for
//! makes it an artifact again. A damaged file is never served: its source publishes again.

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

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::cache::{Cache, CacheError};
use crate::limits::{LimitExceeded, Limits};
use crate::tree::{ContentId, Tree};

pub use blob::{Blob, StoredFile};
pub use file_name::{FileNameError, MediaType};
pub use place::{Place, PlaceError};
use record::{Content, Fingerprint, Record, file_digest};
pub use retention::Retention;

/// The store of artifacts. Cheap to clone; all clones are one store.
#[derive(Clone, Debug)]
pub struct Storage {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    base_url: String,
    retention: Retention,
    limits: Limits,
    places: Mutex<BTreeMap<Place, Vec<Record>>>,
}

/// An artifact as its source's status names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Below the store's root and its URL: `gitrepository/ns/name/<commit>.tar.gz`.
    pub path: String,
    /// Where it is served.
    pub url: String,
    /// `sha256:` and hex digits over the file.
    pub digest: String,
    /// Bytes of the file.
    pub size: u64,
    /// As what it is served.
    pub media_type: MediaType,
    /// The revision it was published for.
    pub revision: String,
    /// When its file was written.
    pub updated: Timestamp,
    /// The tree that it is the archive of; none of a blob.
    pub tree: Option<Tree>,
}

/// Why the store could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// No file name can be made of the revision.
    #[error("revision {revision:?} names no artifact file")]
    Revision {
        /// The revision.
        revision: String,
    },
    /// A file cannot have this name.
    #[error(transparent)]
    FileName(#[from] FileNameError),
    /// A blob has more bytes than it may have.
    #[error("cannot store {place}/{file}: {limit}")]
    TooLarge {
        /// Whose artifact.
        place: Place,
        /// Its file.
        file: String,
        /// The limit that its publisher gave.
        limit: LimitExceeded,
    },
    /// A blob could not be read to its end.
    #[error("cannot read the content of {place}/{file}")]
    Content {
        /// Whose artifact.
        place: Place,
        /// Its file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The disk is full, or the quota used up.
    #[error("no space left to {what} {}: free some, or place the store elsewhere", path.display())]
    Full {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// This process may not do it.
    #[error("no permission to {what} {}: the store's directory must belong to this user", path.display())]
    Denied {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Another failure of the file system.
    #[error("cannot {what} {}", path.display())]
    Files {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The tree could not be archived.
    #[error("cannot archive {place} at {revision}")]
    Archive {
        /// Whose artifact.
        place: Place,
        /// Of which revision.
        revision: String,
        /// Why.
        #[source]
        source: Box<ArchiveError>,
    },
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
    /// The store in `root`, which is made if need be, whose artifacts are reached below `base_url`
    /// (`http://host:port`).
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn open(root: PathBuf, base_url: &str, retention: Retention) -> Result<Storage, StorageError> {
        record::make_directory(&root)?;
        let shared = Shared {
            places: Mutex::new(record::found(&root)?),
            root,
            base_url: base_url.trim_end_matches('/').to_owned(),
            retention,
            limits: Limits::default(),
        };
        Ok(Storage {
            shared: Arc::new(shared),
        })
    }

    /// Keeps `tree` as the artifact of `place` at `revision` and lets go of older ones. Publishing what the
    /// place holds already writes nothing; a tree it holds under another revision is not archived again.
    ///
    /// # Errors
    /// The revision, the tree, the disk; what was published before stays as it was.
    pub fn publish(&self, place: &Place, revision: &str, tree: &Tree) -> Result<Stored, StorageError> {
        let file = place::file_name(revision).ok_or_else(|| StorageError::Revision {
            revision: revision.to_owned(),
        })?;
        let directory = self.shared.root.join(place.path());
        record::make_directory(&directory)?;
        let same = self.same_tree(place, tree.id());
        let record = match same {
            Some(record) if record.file == file && record.revision.as_deref() == Some(revision) => record,
            Some(record) => record::again(&directory, record, &file, revision)?,
            None => record::write(&directory, place, &file, revision, tree, &self.shared.limits)?,
        };
        let stored = self.stored(place, &record, revision, Some(tree));
        self.keep(tree, directory.join(&file), stored.digest.clone());
        self.add(place, record);
        self.collect(place)?;
        Ok(stored)
    }

    /// The tree that `place` published, with this path and digest, as a status remembers it, if it is still
    /// here and whole. It becomes the place's newest.
    ///
    /// # Errors
    /// The file is there but cannot be read; one that is damaged is removed and none.
    pub fn adopt(
        &self,
        place: &Place,
        path: &str,
        digest: &str,
        revision: &str,
    ) -> Result<Option<Stored>, StorageError> {
        self.adopt_as(place, path, digest, revision, |record, full| {
            let known = record.content.tree().cloned();
            known.or_else(|| self.read(full)).map(Content::Tree)
        })
    }

    /// The same for a blob, of which only the digest has to match.
    ///
    /// # Errors
    /// As above.
    pub fn adopt_blob(
        &self,
        place: &Place,
        path: &str,
        digest: &str,
        revision: &str,
    ) -> Result<Option<Stored>, StorageError> {
        self.adopt_as(place, path, digest, revision, |record, _| {
            Some(Content::Blob(record.content.tree().cloned()))
        })
    }

    fn adopt_as(
        &self,
        place: &Place,
        path: &str,
        digest: &str,
        revision: &str,
        content: impl FnOnce(&Record, &Path) -> Option<Content>,
    ) -> Result<Option<Stored>, StorageError> {
        let Some(file) = path
            .strip_prefix(&place.path())
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            return Ok(None);
        };
        let Some(mut record) = self.record(place, file) else {
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
        self.add(place, record);
        Ok(Some(stored))
    }

    /// The tree of the artifact with this digest. One that was stored before a restart is read from its
    /// archive, once. So is a blob that is one: readers of artifacts unpack a chart or a layer as they unpack
    /// an archive. An index has no tree, nor has a blob that is no `tar.gz`.
    pub fn tree(&self, digest: &str) -> Option<Tree> {
        let (place, mut record) = self.find(digest)?;
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
        self.replace(&place, record);
        Some(tree)
    }

    /// Lets go of what `place` published and keeps longer than the retention says; how many files that were.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn collect(&self, place: &Place) -> Result<usize, StorageError> {
        let garbage = match self.places().get(place) {
            Some(records) => self.shared.retention.garbage(records, Timestamp::now()),
            None => return Ok(0),
        };
        for file in &garbage {
            self.forget(place, file)?;
        }
        Ok(garbage.len())
    }

    /// Removes everything `place` ever published.
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

    /// Where an artifact with this path is served: the address may be another one than in an older status.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{}", self.shared.base_url, path.trim_start_matches('/'))
    }

    /// Where archives that others published are kept, below this store's own root and out of what it serves.
    ///
    /// # Errors
    /// The directory cannot be made or read.
    pub fn cache(&self) -> Result<Cache, CacheError> {
        // no name of a place begins with a dot
        Cache::open(self.shared.root.join(".fetched"))
    }

    /// The tree of the place's newest artifact, if this process knows it: what a newer one can share with.
    pub fn newest(&self, place: &Place) -> Option<Tree> {
        self.places().get(place)?.last()?.content.tree().cloned()
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

    /// A record of this very tree whose file is still as it was written.
    fn same_tree(&self, place: &Place, tree: ContentId) -> Option<Record> {
        let directory = self.shared.root.join(place.path());
        let record = self
            .places()
            .get(place)?
            .iter()
            .rfind(|record| matches!(&record.content, Content::Tree(own) if own.id() == tree))?
            .clone();
        record.verified(&directory.join(&record.file)).then_some(record)
    }

    /// The artifact with this digest.
    fn find(&self, digest: &str) -> Option<(Place, Record)> {
        let known = self.places().iter().find_map(|(place, records)| {
            let record = records
                .iter()
                .find(|record| record.digest.as_deref() == Some(digest))?;
            Some((place.clone(), record.clone()))
        });
        known.or_else(|| self.unhashed(digest))
    }

    /// Hashes what was found at the start and never asked for, until one has this digest.
    fn unhashed(&self, digest: &str) -> Option<(Place, Record)> {
        let open: Vec<(Place, Record)> = self
            .places()
            .iter()
            .flat_map(|(place, records)| records.iter().map(move |record| (place.clone(), record.clone())))
            .filter(|(_, record)| record.digest.is_none())
            .collect();
        for (place, mut record) in open {
            let full = self.shared.root.join(place.path()).join(&record.file);
            let fingerprint = Fingerprint::of(&full).ok();
            if let Ok(found @ Some(_)) = file_digest(&full) {
                (record.digest, record.fingerprint) = (found, fingerprint);
                self.replace(&place, record.clone());
                if record.digest.as_deref() == Some(digest) {
                    return Some((place, record));
                }
            }
        }
        None
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

    /// The tree can be read from its archive, too.
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

    fn record(&self, place: &Place, file: &str) -> Option<Record> {
        self.places()
            .get(place)?
            .iter()
            .find(|record| record.file == file)
            .cloned()
    }

    /// Makes it the place's newest, instead of an older one with the same file.
    fn add(&self, place: &Place, record: Record) {
        let mut places = self.places();
        let records = places.entry(place.clone()).or_default();
        records.retain(|old| old.file != record.file);
        records.push(record);
    }

    /// Writes back what was learnt about a record, unless it went meanwhile.
    fn replace(&self, place: &Place, record: Record) {
        let mut places = self.places();
        let own = places
            .get_mut(place)
            .and_then(|records| records.iter_mut().find(|own| own.file == record.file));
        if let Some(own) = own {
            *own = record;
        }
    }

    fn forget(&self, place: &Place, file: &str) -> Result<(), StorageError> {
        if let Some(records) = self.places().get_mut(place) {
            records.retain(|record| record.file != file);
        }
        let full = self.shared.root.join(place.path()).join(file);
        match fs::remove_file(&full) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StorageError::of("remove", &full, source))
            }
            _ => Ok(()),
        }
    }

    /// The index is whole after every statement: a panic elsewhere leaves nothing half-done in it.
    fn places(&self) -> MutexGuard<'_, BTreeMap<Place, Vec<Record>>> {
        self.shared.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
