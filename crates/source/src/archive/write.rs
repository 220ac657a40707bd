//! Writes a tree as a deterministic `tar.gz`.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::rc::Rc;

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::{ArchiveError, Archived};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::{ENTRY, Pauses, Stopped};
use crate::tree::{Content, Node, ReadError, Tree};

const FILE_MODE: u32 = 0o600;
const EXECUTABLE_MODE: u32 = 0o700;
const DIRECTORY_MODE: u32 = 0o750;

/// Manifests compress about as well at 4 as at the usual 6, in half the time.
const COMPRESSION: Compression = Compression::new(4);
/// A larger content does not stay in memory while it is compressed.
const LARGE: u64 = 4 << 20;

impl Tree {
    /// Writes the tree as `tar.gz`. Equal trees give equal bytes.
    ///
    /// # Errors
    /// A file cannot be read, `out` cannot be written, or a reader with the same `limits` would refuse the
    /// archive: the sizes of a commit's files are known only now.
    pub fn write_archive(&self, out: impl Write, limits: &Limits) -> Result<Archived, ArchiveError> {
        self.write_archive_pausing(out, limits, &tempfile::tempfile, &Pauses::none())
    }

    /// `scratch` makes unnamed files.
    pub(crate) fn write_archive_pausing(
        &self,
        out: impl Write,
        limits: &Limits,
        scratch: &dyn Fn() -> io::Result<File>,
        pauses: &Pauses<'_>,
    ) -> Result<Archived, ArchiveError> {
        let mut bytes = 0_u64;
        let counted = Counted {
            out,
            hash: Sha256::new(),
            size: 0,
        };
        let mut tar = Builder::new(GzBuilder::new().mtime(0).write(counted, COMPRESSION));
        let directory = |tar: &mut Builder<_>, path: &str| {
            append(tar, path, EntryType::Directory, DIRECTORY_MODE, (0, &[][..]))
        };
        directory(&mut tar, ".").map_err(ArchiveError::Write)?;
        self.walk(&mut |path, node| {
            pauses.count(ENTRY)?;
            match node {
                Node::Directory(_) => directory(&mut tar, path).map_err(ArchiveError::Write),
                Node::File(file) => {
                    let mode = if file.executable {
                        EXECUTABLE_MODE
                    } else {
                        FILE_MODE
                    };
                    let (size, content) = self.open(path).map_err(ArchiveError::Tree)?;
                    bytes = bytes.saturating_add(size);
                    check_sizes(path, size, bytes, limits)?;
                    let content = match &file.content {
                        Content::Git(_) | Content::Memory(_) if size > LARGE => {
                            Box::new(spilled(content, scratch).map_err(ArchiveError::Write)?)
                        }
                        _ => content,
                    };
                    let (unread, content) = Pausing::new(content, pauses);
                    let appended = append(&mut tar, path, EntryType::Regular, mode, (size, content));
                    appended.map_err(|error| match (pauses.is_stopped(), unread.take()) {
                        (true, _) => Stopped.into(),
                        (false, None) => ArchiveError::Write(error),
                        (false, Some(source)) => ArchiveError::Tree(ReadError::Packed {
                            path: path.to_owned(),
                            source,
                        }),
                    })
                }
            }
        })?;
        let mut counted = tar
            .into_inner()
            .and_then(flate2::write::GzEncoder::finish)
            .map_err(ArchiveError::Write)?;
        // a dropped buffered writer hides its last failure
        counted.flush().map_err(ArchiveError::Write)?;
        if counted.size > limits.archive_bytes_max {
            let limit = LimitExceeded::ArchiveBytes(limits.archive_bytes_max);
            return Err(ArchiveError::Limit {
                path: String::new(),
                limit,
            });
        }
        let digest = counted.hash.finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Archived {
            digest: format!("sha256:{hex}"),
            size: counted.size,
        })
    }
}

/// A large content is not in memory while it is compressed: others go first meanwhile.
fn spilled(mut content: impl Read, scratch: &dyn Fn() -> io::Result<File>) -> io::Result<File> {
    let mut spilled = scratch()?;
    io::copy(&mut content, &mut spilled)?;
    spilled.rewind()?;
    Ok(spilled)
}

/// A content that lets others go first while it is read, and keeps its own error apart from those of the archive.
struct Pausing<'p, R> {
    content: R,
    pauses: &'p Pauses<'p>,
    unread: Rc<Cell<Option<io::Error>>>,
}

impl<'p, R> Pausing<'p, R> {
    fn new(content: R, pauses: &'p Pauses<'p>) -> (Rc<Cell<Option<io::Error>>>, Self) {
        let unread = Rc::new(Cell::new(None));
        let pausing = Pausing {
            content,
            pauses,
            unread: Rc::clone(&unread),
        };
        (unread, pausing)
    }
}

impl<R: Read> Read for Pausing<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer).map_err(|error| {
            let kind = error.kind();
            self.unread.set(Some(error));
            io::Error::from(kind)
        })?;
        self.pauses.count(read).map_err(io::Error::other)?;
        Ok(read)
    }
}

fn check_sizes(path: &str, file: u64, tree: u64, limits: &Limits) -> Result<(), ArchiveError> {
    let limit = match (file > limits.file_bytes_max, tree > limits.tree_bytes_max) {
        (true, _) => LimitExceeded::FileBytes(limits.file_bytes_max),
        (_, true) => LimitExceeded::TreeBytes(limits.tree_bytes_max),
        (false, false) => return Ok(()),
    };
    Err(ArchiveError::Limit {
        path: path.to_owned(),
        limit,
    })
}

fn append(
    tar: &mut Builder<impl Write>,
    path: &str,
    kind: EntryType,
    mode: u32,
    (size, content): (u64, impl Read),
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    tar.append_data(&mut header, path, content)
}

struct Counted<W> {
    out: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
