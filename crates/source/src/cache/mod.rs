//! A cache of downloaded archives by source and digest, each stored once for all readers of the source.
//!
//! A download goes to disk while it is hashed, and is read only if its digest matches. Then it is unpacked
//! into an unnamed file that backs its tree, so memory grows with names, not with bytes. The archive stays
//! for a restart, after which it is hashed again. Archives that nobody requested since the start are swept,
//! unused ones are forgotten, and a full cache keeps no further archives.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::digest::{Digest, Hasher};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::Pauses;
use crate::storage::Publisher;
use crate::tree::Tree;

const KEPT_BYTES_MAX: u64 = 2 << 30;
const SOURCE_BYTES: usize = 16;
const ARRIVING: &str = ".arriving-";

/// The cache. Clones share everything.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    limits: Limits,
    kept_bytes_max: u64,
    /// Requested since the start.
    used: Mutex<BTreeSet<CacheKey>>,
}

/// An archive of one source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    digest: Digest,
    source: String,
}

impl CacheKey {
    /// The archive with this digest that the source published.
    pub fn new(publisher: &Publisher, digest: Digest) -> CacheKey {
        let mut hash = Sha256::new();
        for part in [&*publisher.place().path(), publisher.uid()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let half = &hash.finalize()[..SOURCE_BYTES];
        CacheKey {
            digest,
            source: half.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The digest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    fn file_name(&self) -> String {
        format!("{}-{}", self.source, self.digest.file_name())
    }

    fn of_file_name(name: &str) -> Option<CacheKey> {
        let (source, digest) = name.split_once('-')?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_source = source.len() == 2 * SOURCE_BYTES && source.bytes().all(is_hex);
        Some(CacheKey {
            digest: Digest::of_file_name(digest).filter(|_| is_source)?,
            source: source.to_owned(),
        })
    }
}

/// A failure of the disk.
#[derive(Debug, Error)]
#[error("cannot {what} {}", path.display())]
pub struct CacheError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The reason why a download is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// It is too large.
    #[error("{0}")]
    Limit(LimitExceeded),
    /// The digest does not match.
    #[error("computed digest doesn't match provided '{0}'")]
    Digest(Digest),
    /// The digest matches, but the archive cannot be read.
    #[error("failed to extract archive")]
    Archive(#[source] ArchiveError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] CacheError),
}

impl CacheError {
    fn of(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
        let path = path.to_owned();
        move |source| CacheError { what, path, source }
    }
}

impl Cache {
    /// Opens or creates the cache in `root`, and removes partial files of a killed process.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(root: PathBuf) -> Result<Cache, CacheError> {
        Cache::with(root, Limits::default(), KEPT_BYTES_MAX)
    }

    fn with(root: PathBuf, limits: Limits, kept_bytes_max: u64) -> Result<Cache, CacheError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        // only for this user: artifacts may contain secrets
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&root).map_err(CacheError::of("make", &root))?;
        for entry in fs::read_dir(&root).map_err(CacheError::of("read", &root))? {
            let entry = entry.map_err(CacheError::of("read", &root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // an older version recorded no source
            if name.starts_with(ARRIVING) || Digest::of_file_name(&name).is_some() {
                let path = entry.path();
                fs::remove_file(&path).map_err(CacheError::of("remove", &path))?;
            }
        }
        let shared = Shared {
            root,
            limits,
            kept_bytes_max,
            used: Mutex::default(),
        };
        Ok(Cache {
            shared: Arc::new(shared),
        })
    }

    /// The tree of a cached archive. The file is hashed, and removed if it is damaged.
    pub fn load(&self, key: &CacheKey) -> Option<Tree> {
        self.used().insert(key.clone());
        let path = self.path(key);
        let mut file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "cannot open a cached artifact");
                }
                return None;
            }
        };
        let tree = verified(&mut file, &key.digest, &path).and_then(|()| self.unpacked(file));
        tree.inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            tracing::warn!(path = %path.display(), error, "removing an unusable cached artifact");
            self.forget(key);
        })
        .ok()
    }

    /// Starts a download.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn receive(&self, key: &CacheKey) -> Result<Receiving, CacheError> {
        self.used().insert(key.clone());
        let root = &self.shared.root;
        let file = tempfile::Builder::new()
            .prefix(ARRIVING)
            .tempfile_in(root)
            .map_err(CacheError::of("write to", root))?;
        Ok(Receiving {
            cache: self.clone(),
            hasher: Hasher::of(&key.digest),
            key: key.clone(),
            file,
            bytes: 0,
        })
    }

    /// Marks an archive as unused. Trees read from it stay valid.
    pub fn forget(&self, key: &CacheKey) {
        self.used().remove(key);
        self.remove(&self.path(key));
    }

    /// Removes archives that nobody requested since the start, and returns their number.
    pub fn sweep(&self) -> usize {
        let unused = |(_, path, _): &(_, PathBuf, u64)| self.remove(path);
        self.unused().iter().filter(|kept| unused(kept)).count()
    }

    /// Oldest first: time, path and size.
    fn unused(&self) -> Vec<(std::time::SystemTime, PathBuf, u64)> {
        let used = self.used();
        let mut unused: Vec<_> = self
            .kept()
            .into_iter()
            .filter(|(key, ..)| !used.contains(key))
            .map(|(_, time, path, bytes)| (time, path, bytes))
            .collect();
        unused.sort();
        unused
    }

    fn kept(&self) -> Vec<(CacheKey, std::time::SystemTime, PathBuf, u64)> {
        // unreadable files count as missing: nothing is used without being hashed
        let entries = fs::read_dir(&self.shared.root).into_iter().flatten().flatten();
        let one = |entry: fs::DirEntry| {
            let key = CacheKey::of_file_name(entry.file_name().to_str()?)?;
            let metadata = entry.metadata().ok()?;
            Some((key, metadata.modified().ok()?, entry.path(), metadata.len()))
        };
        entries.filter_map(one).collect()
    }

    fn has_room(&self, bytes: u64) -> bool {
        let mut kept: u64 = self.kept().iter().map(|(.., bytes)| bytes).sum();
        let max = self.shared.kept_bytes_max;
        let fits = |kept: u64| kept.saturating_add(bytes) <= max;
        if fits(kept) {
            return true;
        }
        for (_, path, freed) in self.unused() {
            if self.remove(&path) {
                kept = kept.saturating_sub(freed);
            }
            if fits(kept) {
                return true;
            }
        }
        false
    }

    fn remove(&self, path: &Path) -> bool {
        match fs::remove_file(path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "cannot remove a cached artifact");
                }
                false
            }
        }
    }

    fn unpacked(&self, archive: fs::File) -> Result<Tree, ReceiveError> {
        let root = &self.shared.root;
        // unnamed from the start, so the disk frees it with the last tree that reads it
        let pack = tempfile::tempfile_in(root).map_err(CacheError::of("unpack below", root))?;
        let unpacked = Tree::unpack_archive(
            io::BufReader::new(archive),
            &self.shared.limits,
            pack,
            &Pauses::none(),
        );
        unpacked.map_err(|error| match error {
            ArchiveError::Unpack(source) => CacheError::of("unpack below", root)(source).into(),
            error => ReceiveError::Archive(error),
        })
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.shared.root.join(key.file_name())
    }

    /// A panic elsewhere leaves no partial change.
    fn used(&self) -> MutexGuard<'_, BTreeSet<CacheKey>> {
        self.shared.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A download in progress. Dropping it leaves nothing.
pub struct Receiving {
    cache: Cache,
    key: CacheKey,
    hasher: Hasher,
    file: NamedTempFile,
    bytes: u64,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving")
            .field("key", &self.key)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Receiving {
    /// Adds bytes.
    ///
    /// # Errors
    /// The limit is exceeded, or the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ReceiveError> {
        let max = self.cache.shared.limits.archive_bytes_max;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > max {
            return Err(ReceiveError::Limit(LimitExceeded::ArchiveBytes(max)));
        }
        self.hasher.update(bytes);
        let written = self.file.write_all(bytes);
        written.map_err(|source| CacheError::of("write", self.file.path())(source).into())
    }

    /// Finishes the download and returns its tree.
    ///
    /// # Errors
    /// The digest does not match, or the archive cannot be read.
    pub fn finish(self) -> Result<Tree, ReceiveError> {
        let Receiving {
            cache,
            key,
            hasher,
            mut file,
            bytes,
        } = self;
        if !hasher.is(&key.digest) {
            return Err(ReceiveError::Digest(key.digest));
        }
        let failed = |source| CacheError::of("read", file.path())(source);
        let archive = file.as_file().try_clone().map_err(failed)?;
        rewound(file.as_file_mut()).map_err(|source| CacheError::of("read", &cache.shared.root)(source))?;
        let tree = cache.unpacked(archive)?;
        if cache.has_room(bytes) {
            let path = cache.path(&key);
            file.persist(&path)
                .map_err(|error| CacheError::of("write", &path)(error.error))?;
        } else {
            tracing::warn!(digest = %key.digest, bytes, "cannot cache an artifact: the cache is full, and a restart fetches it again");
        }
        Ok(tree)
    }
}

fn verified(file: &mut fs::File, digest: &Digest, path: &Path) -> Result<(), ReceiveError> {
    let hashed = hashes_to(file, digest).map_err(CacheError::of("read", path))?;
    if !hashed {
        return Err(ReceiveError::Digest(digest.clone()));
    }
    rewound(file).map_err(|source| CacheError::of("read", path)(source).into())
}

fn hashes_to(file: &mut fs::File, digest: &Digest) -> io::Result<bool> {
    let mut hasher = Hasher::of(digest);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hasher.is(digest))
}

fn rewound(file: &mut fs::File) -> io::Result<()> {
    io::Seek::rewind(file)
}
