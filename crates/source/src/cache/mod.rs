//! A cache of downloaded archives by digest, each stored once for all readers.
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

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::archive::ArchiveError;
use crate::digest::{Digest, Hasher};
use crate::limits::{LimitExceeded, Limits};
use crate::tree::Tree;

const KEPT_BYTES_MAX: u64 = 2 << 30;
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
    used: Mutex<BTreeSet<Digest>>,
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
            if entry.file_name().to_string_lossy().starts_with(ARRIVING) {
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
    pub fn load(&self, digest: &Digest) -> Option<Tree> {
        self.used().insert(digest.clone());
        let path = self.path(digest);
        let mut file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "cannot open a cached artifact");
                }
                return None;
            }
        };
        let tree = verified(&mut file, digest, &path).and_then(|()| self.unpacked(file));
        tree.inspect_err(|error| {
            let error = error as &dyn std::error::Error;
            tracing::warn!(path = %path.display(), error, "removing an unusable cached artifact");
            self.forget(digest);
        })
        .ok()
    }

    /// Starts a download.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn receive(&self, digest: &Digest) -> Result<Receiving, CacheError> {
        self.used().insert(digest.clone());
        let root = &self.shared.root;
        let file = tempfile::Builder::new()
            .prefix(ARRIVING)
            .tempfile_in(root)
            .map_err(CacheError::of("write to", root))?;
        Ok(Receiving {
            cache: self.clone(),
            hasher: Hasher::of(digest),
            digest: digest.clone(),
            file,
            bytes: 0,
        })
    }

    /// Marks an archive as unused. Trees read from it stay valid.
    pub fn forget(&self, digest: &Digest) {
        self.used().remove(digest);
        self.remove(&self.path(digest));
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
            .filter(|(digest, ..)| !used.contains(digest))
            .map(|(_, time, path, bytes)| (time, path, bytes))
            .collect();
        unused.sort();
        unused
    }

    fn kept(&self) -> Vec<(Digest, std::time::SystemTime, PathBuf, u64)> {
        // unreadable files count as missing: nothing is used without being hashed
        let entries = fs::read_dir(&self.shared.root).into_iter().flatten().flatten();
        let one = |entry: fs::DirEntry| {
            let digest = Digest::of_file_name(entry.file_name().to_str()?)?;
            let metadata = entry.metadata().ok()?;
            Some((digest, metadata.modified().ok()?, entry.path(), metadata.len()))
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
        let unpacked = Tree::unpack_archive(io::BufReader::new(archive), &self.shared.limits, pack);
        unpacked.map_err(|error| match error {
            ArchiveError::Unpack(source) => CacheError::of("unpack below", root)(source).into(),
            error => ReceiveError::Archive(error),
        })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.shared.root.join(digest.file_name())
    }

    /// A panic elsewhere leaves no partial change.
    fn used(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.shared.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A download in progress. Dropping it leaves nothing.
pub struct Receiving {
    cache: Cache,
    digest: Digest,
    hasher: Hasher,
    file: NamedTempFile,
    bytes: u64,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving")
            .field("digest", &self.digest)
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
            digest,
            hasher,
            mut file,
            bytes,
        } = self;
        if !hasher.is(&digest) {
            return Err(ReceiveError::Digest(digest));
        }
        let failed = |source| CacheError::of("read", file.path())(source);
        let archive = file.as_file().try_clone().map_err(failed)?;
        rewound(file.as_file_mut()).map_err(|source| CacheError::of("read", &cache.shared.root)(source))?;
        let tree = cache.unpacked(archive)?;
        if cache.has_room(bytes) {
            let path = cache.path(&digest);
            file.persist(&path)
                .map_err(|error| CacheError::of("write", &path)(error.error))?;
        } else {
            tracing::warn!(%digest, bytes, "cannot cache an artifact: the cache is full, and a restart fetches it again");
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
