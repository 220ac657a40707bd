//! Artifacts that are bytes: kept as they come, and read as they were kept.
//!
//! A Helm index, a chart and an OCI layer have digests that others name, so not a byte of them may change.
//! They go through to disk while they are hashed; memory holds one buffer.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::file_name::MediaType;
use super::record::{self, Content, Fingerprint, Record};
use super::{Place, Storage, StorageError, Stored};
use crate::limits::LimitExceeded;

/// How much is read and written at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// How a blob is published.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// Its name in the place's directory: `index-<hex>.yaml`, `<chart>-<version>.tgz`, `<hex>.tar.gz`. The
    /// ending gives the media type.
    pub file: &'a str,
    /// What it is the artifact of, as the source's status has it.
    pub revision: &'a str,
    /// A larger one is refused.
    pub bytes_max: u64,
}

/// The bytes of an artifact, verified and open: they stay whole even if the artifact is removed meanwhile.
#[derive(Debug)]
pub struct StoredFile {
    file: File,
    size: u64,
    digest: String,
    media_type: MediaType,
}

impl StoredFile {
    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `sha256:` and hex digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How to read them.
    pub fn media_type(&self) -> MediaType {
        self.media_type
    }
}

impl Read for StoredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Storage {
    /// Keeps `content`, byte for byte, as the artifact of `place` and lets go of older ones. Publishing what
    /// the place holds already under this name changes nothing.
    ///
    /// # Errors
    /// The file's name, the limit, the content cannot be read, the disk; what was published before stays as
    /// it was.
    pub fn publish_blob(
        &self,
        place: &Place,
        blob: &Blob<'_>,
        content: impl Read,
    ) -> Result<Stored, StorageError> {
        let media_type = MediaType::of_file(blob.file)?;
        let directory = self.shared.root.join(place.path());
        record::make_directory(&directory)?;
        let arrived = arrive(&directory, place, blob, content)?;
        let record = match self.same_blob(place, blob.file, &arrived.digest) {
            Some(record) if record.revision.as_deref() == Some(blob.revision) => record,
            Some(record) => Record {
                revision: Some(blob.revision.to_owned()),
                updated: Timestamp::now(),
                ..record
            },
            None => persist(arrived, &directory, blob, media_type)?,
        };
        let stored = self.stored(place, &record, blob.revision, None);
        self.add(place, record);
        self.collect(place)?;
        Ok(stored)
    }

    /// The bytes of the artifact with this digest, blob or archive of a tree; none when it is not here, or
    /// not what it was.
    pub fn open_blob(&self, digest: &str) -> Option<StoredFile> {
        let (place, record) = self.find(digest)?;
        self.open_whole(&place, &record)
    }

    /// The file of a record, if it is what its digest says; none when it was never hashed.
    pub(super) fn open_whole(&self, place: &Place, record: &Record) -> Option<StoredFile> {
        let path = self.shared.root.join(place.path()).join(&record.file);
        let digest = record.digest.clone()?;
        let file = File::open(&path).ok()?;
        if !record.verified(&path) {
            let fingerprint = Fingerprint::of(&path).ok();
            if record::file_digest(&path).ok().flatten().as_ref() != Some(&digest) {
                tracing::warn!(path = %path.display(), "artifact is damaged and not served");
                return None;
            }
            self.replace(
                place,
                Record {
                    fingerprint,
                    ..record.clone()
                },
            );
        }
        Some(StoredFile {
            file,
            size: record.size,
            digest,
            media_type: record.media_type,
        })
    }

    /// A record of these very bytes under this name, whose file is still as it was written.
    fn same_blob(&self, place: &Place, file: &str, digest: &str) -> Option<Record> {
        let path = self.shared.root.join(place.path()).join(file);
        let record = self.record(place, file)?;
        let is_same = record.digest.as_deref() == Some(digest) && record.verified(&path);
        is_same.then(|| Record {
            content: Content::Blob(record.content.tree().cloned()),
            ..record
        })
    }
}

/// Bytes on disk that have no name yet.
struct Arrived {
    file: NamedTempFile,
    digest: String,
    size: u64,
}

/// Writes all of `content` beside its place.
fn arrive(
    directory: &Path,
    place: &Place,
    blob: &Blob<'_>,
    mut content: impl Read,
) -> Result<Arrived, StorageError> {
    let path = directory.join(blob.file);
    let failed = |source| StorageError::of("write", &path, source);
    let mut file = record::temporary(directory).map_err(failed)?;
    let mut hash = Sha256::new();
    let mut size = 0_u64;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => {
                return Err(StorageError::Content {
                    place: place.clone(),
                    file: blob.file.to_owned(),
                    source,
                });
            }
        };
        size = size.saturating_add(read as u64);
        if size > blob.bytes_max {
            return Err(StorageError::TooLarge {
                place: place.clone(),
                file: blob.file.to_owned(),
                limit: LimitExceeded::FileBytes(blob.bytes_max),
            });
        }
        hash.update(&buffer[..read]);
        file.write_all(&buffer[..read]).map_err(failed)?;
    }
    Ok(Arrived {
        file,
        digest: record::digest_text(hash),
        size,
    })
}

fn persist(
    arrived: Arrived,
    directory: &Path,
    blob: &Blob<'_>,
    media_type: MediaType,
) -> Result<Record, StorageError> {
    let path = directory.join(blob.file);
    let failed = |source| StorageError::of("write", &path, source);
    let renamed = arrived.file.persist(&path);
    renamed.map_err(|error| failed(error.error))?;
    Ok(Record {
        file: blob.file.to_owned(),
        media_type,
        digest: Some(arrived.digest),
        fingerprint: Some(Fingerprint::of(&path).map_err(failed)?),
        size: arrived.size,
        revision: Some(blob.revision.to_owned()),
        updated: Timestamp::now(),
        content: Content::Blob(None),
    })
}
