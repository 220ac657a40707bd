//! One file on disk, and what is known about it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::file_name::MediaType;
use super::{Place, StorageError};
use crate::limits::Limits;
use crate::tree::Tree;

/// How the name of a half-written file begins.
const WRITING: &str = ".writing-";

#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Its name in the place's directory.
    pub(super) file: String,
    pub(super) media_type: MediaType,
    /// None until it was hashed by this process.
    pub(super) digest: Option<String>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) size: u64,
    /// None for what was found at the start.
    pub(super) revision: Option<String>,
    pub(super) updated: Timestamp,
    pub(super) content: Content,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// The archive of this tree, written here: an equal tree has the same bytes.
    Tree(Tree),
    /// Bytes that are not known to be written here, so an equal tree may have others. The tree is in them
    /// where somebody asked for it.
    Blob(Option<Tree>),
}

impl Content {
    /// The tree, as far as it is known.
    pub(super) fn tree(&self) -> Option<&Tree> {
        match self {
            Content::Tree(tree) => Some(tree),
            Content::Blob(tree) => tree.as_ref(),
        }
    }
}

/// What of a file changes when someone writes to it: enough to notice, not to prove.
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
    /// Whether the file is what it was when its digest was taken.
    pub(super) fn verified(&self, path: &Path) -> bool {
        self.digest.is_some() && self.fingerprint.is_some() && Fingerprint::of(path).ok() == self.fingerprint
    }
}

/// Archives `tree`, beside its place first.
pub(super) fn write(
    directory: &Path,
    place: &Place,
    file: &str,
    revision: &str,
    tree: &Tree,
    limits: &Limits,
) -> Result<Record, StorageError> {
    let path = directory.join(file);
    let failed = |source| StorageError::of("write", &path, source);
    let mut temporary = temporary(directory).map_err(failed)?;
    let archived = tree
        .write_archive(io::BufWriter::new(temporary.as_file_mut()), limits)
        .map_err(|error| match error {
            crate::ArchiveError::Write(source) => failed(source),
            source => StorageError::Archive {
                place: place.clone(),
                revision: revision.to_owned(),
                source: Box::new(source),
            },
        })?;
    temporary.persist(&path).map_err(|error| failed(error.error))?;
    Ok(Record {
        file: file.to_owned(),
        media_type: MediaType::Gzip,
        digest: Some(archived.digest),
        fingerprint: Some(Fingerprint::of(&path).map_err(failed)?),
        size: archived.size,
        revision: Some(revision.to_owned()),
        updated: Timestamp::now(),
        content: Content::Tree(tree.clone()),
    })
}

/// A file that becomes an artifact's when it is renamed: made with mode 0600, and removed when it is dropped.
pub(super) fn temporary(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(WRITING).tempfile_in(directory)
}

/// The same archive under the name of another revision.
pub(super) fn again(
    directory: &Path,
    record: Record,
    file: &str,
    revision: &str,
) -> Result<Record, StorageError> {
    let path = directory.join(file);
    let failed = |source| StorageError::of("write", &path, source);
    if record.file != file {
        let mut temporary = temporary(directory).map_err(failed)?;
        let mut from = fs::File::open(directory.join(&record.file)).map_err(failed)?;
        io::copy(&mut from, temporary.as_file_mut()).map_err(failed)?;
        temporary.persist(&path).map_err(|error| failed(error.error))?;
    }
    Ok(Record {
        file: file.to_owned(),
        fingerprint: Some(Fingerprint::of(&path).map_err(failed)?),
        revision: Some(revision.to_owned()),
        updated: Timestamp::now(),
        ..record
    })
}

/// The files below `root`, oldest first, nothing known about them yet but their names. What a killed process
/// left half written is removed; a file whose name the store would not give (Flux's `.lock`) stays out.
pub(super) fn found(root: &Path) -> Result<BTreeMap<Place, Vec<Record>>, StorageError> {
    let mut places = BTreeMap::new();
    for kind in directories(root)? {
        for namespace in directories(&root.join(&kind))? {
            for name in directories(&root.join(&kind).join(&namespace))? {
                if let Ok(place) = Place::new(&kind, &namespace, &name) {
                    let records = files(&root.join(place.path()))?;
                    places.insert(place, records);
                }
            }
        }
    }
    Ok(places)
}

fn files(directory: &Path) -> Result<Vec<Record>, StorageError> {
    let mut records = Vec::new();
    for file in names(directory, fs::FileType::is_file)? {
        let path = directory.join(&file);
        let failed = |source| StorageError::of("read", &path, source);
        if file.starts_with(WRITING) {
            fs::remove_file(&path).map_err(|source| StorageError::of("remove", &path, source))?;
        } else if let Ok(media_type) = MediaType::of_file(&file) {
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

fn directories(path: &Path) -> Result<Vec<String>, StorageError> {
    names(path, fs::FileType::is_dir)
}

/// What in a directory is of a kind; a name that is not UTF-8 is not ours.
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

/// The digest of a regular file; none when there is none.
pub(super) fn file_digest(path: &Path) -> io::Result<Option<String>> {
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
    }
    Ok(Some(digest_text(hash)))
}

/// A digest as statuses have it.
pub(super) fn digest_text(hash: Sha256) -> String {
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Made for this user alone: artifacts may hold what a cluster should not show to every process.
pub(super) fn make_directory(path: &Path) -> Result<(), StorageError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(|source| StorageError::of("make", path, source))
}
