//! Artifacts that are bytes, stored and read unchanged.
//!
//! The digests of a Helm index, a chart and an OCI layer are given by others, so no byte may change. Blobs
//! stream to disk while they are hashed; memory holds one buffer.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::file_name::MediaType;
use super::record::{self, Arrived, Content, Fingerprint, Record};
use super::{Next, Place, Publisher, Storage, StorageError, Stored};
use crate::limits::LimitExceeded;
use crate::pauses::Pauses;

const BUFFER_BYTES: usize = 64 << 10;

/// A blob to publish.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// Its file name: `index-<hex>.yaml`, `<chart>-<version>.tgz`, `<hex>.tar.gz`. The ending determines
    /// the media type.
    pub file: &'a str,
    /// The revision in the source's status.
    pub revision: &'a str,
    /// The size limit.
    pub bytes_max: u64,
}

/// An open artifact, verified. It stays readable even if the artifact is removed.
#[derive(Debug)]
pub struct StoredFile {
    file: File,
    size: u64,
    digest: String,
    media_type: MediaType,
}

impl StoredFile {
    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `sha256:` and hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The media type.
    pub fn media_type(&self) -> MediaType {
        self.media_type
    }
}

impl Read for StoredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for StoredFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Storage {
    /// Stores `content`, byte for byte, as the artifact of a source, and removes older ones. Publishing the
    /// same content under the same name changes nothing.
    ///
    /// # Errors
    /// The file's name, the limit, a failure to read the content, or the disk. The published artifacts stay
    /// unchanged.
    pub fn publish_blob(
        &self,
        publisher: &Publisher,
        blob: &Blob<'_>,
        content: impl Read,
    ) -> Result<Stored, StorageError> {
        self.publish_blob_pausing(publisher, blob, content, &Pauses::none())
    }

    /// Like [`Storage::publish_blob`], with pauses.
    ///
    /// # Errors
    /// As [`Storage::publish_blob`], if the work is to end, and if the place's artifacts are removed meanwhile.
    pub fn publish_blob_pausing(
        &self,
        publisher: &Publisher,
        blob: &Blob<'_>,
        content: impl Read,
        pauses: &Pauses<'_>,
    ) -> Result<Stored, StorageError> {
        let place = publisher.place();
        let media_type = MediaType::of_file(blob.file)?;
        let directory = self.claim(publisher, pauses)?;
        self.check_share(place)?;
        let arrived = arrive(
            &self.shared.root,
            &directory,
            (place, blob, media_type),
            content,
            pauses,
        )?;
        let next = match self.same_blob(place, blob.file, &arrived.digest) {
            Some(record) => Next::Known(record),
            None => Next::Arrived(arrived),
        };
        let record = self.store(publisher, (blob.file, blob.revision), next, pauses)?;
        self.collect(place)?;
        Ok(self.stored(place, &record, blob.revision, None))
    }

    /// Opens the source's artifact with this digest, blob or archive. `None` if it is missing or damaged.
    pub fn open_blob(&self, publisher: &Publisher, digest: &str) -> Option<StoredFile> {
        let record = self.find(publisher, digest, &Pauses::none())?;
        self.open_whole(publisher.place(), &record)
    }

    /// `None` if it was never hashed or has changed.
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

    /// A record of these bytes under this name, with an unchanged file.
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

fn arrive(
    root: &Path,
    directory: &Path,
    (place, blob, media_type): (&Place, &Blob<'_>, MediaType),
    mut content: impl Read,
    pauses: &Pauses<'_>,
) -> Result<Arrived, StorageError> {
    let path = directory.join(blob.file);
    let failed = |source| StorageError::of("write", &path, source);
    let mut file = record::temporary(root).map_err(failed)?;
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
        pauses.count(read)?;
    }
    Ok(Arrived {
        file,
        media_type,
        digest: record::digest_text(hash),
        size,
        content: Content::Blob(None),
    })
}
