//! The files of one source on disk and their known properties.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::file_name::MediaType;
use super::{Place, Publisher, StorageError};
use crate::limits::Limits;
use crate::pauses::Pauses;
use crate::tree::Tree;

const WRITING: &str = ".writing-";
/// The file with the uid of the source that published the others.
const BINDING: &str = ".source";
const BINDING_FORMAT: &str = "v1";
const UNREADABLE: &str = "?";
const BINDING_BYTES_MAX: u64 = 1 << 10;

/// The artifacts of a place, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Their publisher; `None` in an older store.
    pub(super) uid: Option<String>,
    pub(super) records: Vec<Record>,
}

impl Kept {
    /// Unbound artifacts belong to the present source of the name.
    pub(super) fn of(&self, publisher: &Publisher) -> Option<&[Record]> {
        let is_own = self.uid.as_deref().is_none_or(|uid| uid == publisher.uid());
        is_own.then_some(&self.records)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) file: String,
    pub(super) media_type: MediaType,
    /// `None` until this process has hashed it.
    pub(super) digest: Option<String>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) size: u64,
    /// `None` for files found at the start.
    pub(super) revision: Option<String>,
    pub(super) updated: Timestamp,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// The archive of this tree, written here: an equal tree has the same bytes.
    Tree(Tree),
    /// Bytes from elsewhere: an equal tree may have others. The tree is set once it was requested.
    Blob(Option<Tree>),
}

impl Content {
    pub(super) fn tree(&self) -> Option<&Tree> {
        match self {
            Content::Tree(tree) => Some(tree),
            Content::Blob(tree) => tree.as_ref(),
        }
    }
}

/// The properties that change when a file is written to: a hint, not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    size: u64,
    modified: SystemTime,
}

impl Fingerprint {
    pub(super) fn of(path: &Path) -> io::Result<Fingerprint> {
        let metadata = fs::symlink_metadata(path)?;
        match metadata.is_file() {
            true => Ok(Fingerprint {
                size: metadata.len(),
                modified: metadata.modified()?,
            }),
            false => Err(io::Error::other("not a regular file")),
        }
    }
}

impl Record {
    /// The same file for another revision.
    pub(super) fn at(self, revision: &str) -> Record {
        match self.revision.as_deref() == Some(revision) {
            true => self,
            false => Record {
                revision: Some(revision.to_owned()),
                updated: Timestamp::now(),
                ..self
            },
        }
    }

    /// Its bytes on disk, with those of its unpacked files.
    pub(super) fn bytes(&self) -> u64 {
        let packed = self.content.tree().map_or(0, Tree::packed_bytes);
        self.size.saturating_add(packed)
    }

    pub(super) fn verified(&self, path: &Path) -> bool {
        self.digest.is_some() && self.fingerprint.is_some() && Fingerprint::of(path).ok() == self.fingerprint
    }
}

/// A complete file that is not at its place yet.
pub(super) struct Arrived {
    pub(super) file: NamedTempFile,
    pub(super) media_type: MediaType,
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) content: Content,
}

impl Arrived {
    /// Renames the file to its name in a place's directory.
    pub(super) fn persist(
        self,
        directory: &Path,
        file: &str,
        revision: &str,
    ) -> Result<Record, StorageError> {
        let path = directory.join(file);
        let failed = |source| StorageError::of("write", &path, source);
        let renamed = self.file.persist(&path);
        renamed.map_err(|error| failed(error.error))?;
        Ok(Record {
            file: file.to_owned(),
            media_type: self.media_type,
            digest: Some(self.digest),
            fingerprint: Some(Fingerprint::of(&path).map_err(failed)?),
            size: self.size,
            revision: Some(revision.to_owned()),
            updated: Timestamp::now(),
            content: self.content,
        })
    }
}

/// Writes the archive of a tree below `root`; `path` is for errors.
pub(super) fn write(
    root: &Path,
    path: &Path,
    (place, revision): (&Place, &str),
    tree: &Tree,
    limits: &Limits,
    pauses: &Pauses<'_>,
) -> Result<Arrived, StorageError> {
    let failed = |source| StorageError::of("write", path, source);
    let mut file = temporary(root).map_err(failed)?;
    let out = io::BufWriter::new(file.as_file_mut());
    let archived = tree
        .write_archive_pausing(out, limits, &|| tempfile::tempfile_in(root), pauses)
        .map_err(|error| match error {
            crate::ArchiveError::Write(source) => failed(source),
            crate::ArchiveError::Stopped(stopped) => stopped.into(),
            source => StorageError::Archive {
                place: place.clone(),
                revision: revision.to_owned(),
                source: Box::new(source),
            },
        })?;
    Ok(Arrived {
        file,
        media_type: MediaType::Gzip,
        digest: archived.digest,
        size: archived.size,
        content: Content::Tree(tree.clone()),
    })
}

/// An unpublished file of mode 0600: renaming publishes it, dropping removes it. It is not in the directory of a
/// place, which may be removed meanwhile.
pub(super) fn temporary(root: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(WRITING).tempfile_in(root)
}

/// Copies an archive of the same tree.
pub(super) fn copy(root: &Path, directory: &Path, record: Record) -> Result<Arrived, StorageError> {
    let path = directory.join(&record.file);
    let failed = |source| StorageError::of("copy", &path, source);
    let mut file = temporary(root).map_err(failed)?;
    let mut from = fs::File::open(&path).map_err(failed)?;
    io::copy(&mut from, file.as_file_mut()).map_err(failed)?;
    Ok(Arrived {
        file,
        media_type: record.media_type,
        digest: record.digest.unwrap_or_default(),
        size: record.size,
        content: record.content,
    })
}

/// The files below `root`, oldest first. Removes partial files of a killed process, and skips names that
/// the store does not use (Flux's `.lock`).
pub(super) fn find_files(root: &Path) -> Result<BTreeMap<Place, Kept>, StorageError> {
    for file in names(root, fs::FileType::is_file)? {
        remove_partial(root, &file)?;
    }
    let mut places = BTreeMap::new();
    for kind in directories(root)? {
        for namespace in directories(&root.join(&kind))? {
            for name in directories(&root.join(&kind).join(&namespace))? {
                if let Ok(place) = Place::new(&kind, &namespace, &name) {
                    let directory = root.join(place.path());
                    let (uid, records) = (binding(&directory)?, files(&directory)?);
                    places.insert(place, Kept { uid, records });
                }
            }
        }
    }
    Ok(places)
}

/// Binds the files of a directory to a source.
pub(super) fn bind(root: &Path, directory: &Path, uid: &str) -> Result<(), StorageError> {
    let path = directory.join(BINDING);
    let failed = |source| StorageError::of("write", &path, source);
    let mut temporary = temporary(root).map_err(failed)?;
    io::Write::write_all(&mut temporary, format!("{BINDING_FORMAT} {uid}\n").as_bytes()).map_err(failed)?;
    temporary.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// An unreadable binding is of no source: its artifacts are published again.
fn binding(directory: &Path) -> Result<Option<String>, StorageError> {
    let path = directory.join(BINDING);
    let failed = |source| StorageError::of("read", &path, source);
    let mut text = String::new();
    let read = match fs::File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?.take(BINDING_BYTES_MAX),
    }
    .read_to_string(&mut text);
    match read {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(failed(error)),
        _ => Ok(Some(match text.split_once(' ') {
            Some((BINDING_FORMAT, uid)) => uid.trim_end().to_owned(),
            _ => UNREADABLE.to_owned(),
        })),
    }
}

fn files(directory: &Path) -> Result<Vec<Record>, StorageError> {
    let mut records = Vec::new();
    for file in names(directory, fs::FileType::is_file)? {
        let path = directory.join(&file);
        let failed = |source| StorageError::of("read", &path, source);
        if remove_partial(directory, &file)? {
            continue;
        }
        if let Ok(media_type) = MediaType::of_file(&file) {
            let found = Fingerprint::of(&path).map_err(failed)?;
            records.push(Record {
                file,
                media_type,
                digest: None,
                fingerprint: None,
                size: found.size,
                revision: None,
                updated: Timestamp::try_from(found.modified).unwrap_or(Timestamp::UNIX_EPOCH),
                content: Content::Blob(None),
            });
        }
    }
    records.sort_by_key(|record| record.updated);
    Ok(records)
}

/// Removes a file that was not complete; tells whether it was one.
fn remove_partial(directory: &Path, file: &str) -> Result<bool, StorageError> {
    if !file.starts_with(WRITING) {
        return Ok(false);
    }
    let path = directory.join(file);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(source) => Err(StorageError::of("remove", &path, source)),
    }
}

fn directories(path: &Path) -> Result<Vec<String>, StorageError> {
    names(path, fs::FileType::is_dir)
}

/// Skips names that are not UTF-8, which the store never writes.
fn names(path: &Path, kind: fn(&fs::FileType) -> bool) -> Result<Vec<String>, StorageError> {
    let failed = |source| StorageError::of("read", path, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if kind(&entry.file_type().map_err(failed)?)
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// `None` if there is no regular file.
pub(super) fn file_digest(path: &Path) -> io::Result<Option<String>> {
    file_digest_pausing(path, &Pauses::none())
}

pub(super) fn file_digest_pausing(path: &Path, pauses: &Pauses<'_>) -> io::Result<Option<String>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        pauses.count(read).map_err(io::Error::other)?;
    }
    Ok(Some(digest_text(hash)))
}

pub(super) fn digest_text(hash: Sha256) -> String {
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// For this user only: artifacts may contain secrets.
pub(super) fn make_directory(path: &Path) -> Result<(), StorageError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(|source| StorageError::of("make", path, source))
}
