//! Reads an untrusted `tar.gz` as a tree.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use super::ArchiveError;
use super::bounded::{Bounded, Expanding, ReachedLimit};
use crate::limits::{LimitExceeded, Limits};
use crate::tree::{Building, Content, Packing, Tree};

/// The overhead of an entry: a header, padding, a long name.
const OVERHEAD_BYTES: u64 = 4 * 512;

impl Tree {
    /// Reads a `tar.gz`, whole or not at all. As in Flux, symbolic links are skipped, and of a file given
    /// twice the later one counts.
    ///
    /// # Errors
    /// Absolute paths, `..`, hard links, special and sparse files, an exceeded limit, or bytes that are not
    /// an archive.
    pub fn from_archive(archive: impl Read, limits: &Limits) -> Result<Tree, ArchiveError> {
        Tree::read_archive(archive, limits, None)
    }

    /// Like [`Tree::from_archive`], with the content of files in `pack`, an empty file.
    ///
    /// # Errors
    /// As [`Tree::from_archive`], or `pack` cannot be written.
    pub(crate) fn unpack_archive(
        archive: impl Read,
        limits: &Limits,
        pack: fs::File,
    ) -> Result<Tree, ArchiveError> {
        Tree::read_archive(archive, limits, Some(Packing::new(pack)))
    }

    fn read_archive(
        archive: impl Read,
        limits: &Limits,
        mut pack: Option<Packing>,
    ) -> Result<Tree, ArchiveError> {
        let reached = ReachedLimit::default();
        let compressed = Rc::new(Cell::new(0));
        let bounded = Bounded {
            inner: archive,
            max: limits.archive_bytes_max,
            limit: LimitExceeded::ArchiveBytes(limits.archive_bytes_max),
            reached: reached.clone(),
            read: Rc::clone(&compressed),
        };
        let expanding = Expanding {
            inner: MultiGzDecoder::new(bounded),
            compressed,
            expanded: 0,
            expansion_max: limits.expansion_max,
            reached: reached.clone(),
        };
        let expanded_max = (limits.entries_max as u64)
            .saturating_mul(OVERHEAD_BYTES + limits.path_bytes_max as u64)
            .saturating_add(limits.tree_bytes_max);
        let mut expanded = Bounded {
            inner: expanding,
            max: expanded_max,
            limit: LimitExceeded::TreeBytes(limits.tree_bytes_max),
            reached: reached.clone(),
            read: Rc::default(),
        };
        let mut path = String::new();
        let read = entries(&mut expanded, limits, pack.as_mut(), &mut path);
        match (read, reached.get()) {
            (Err(ArchiveError::Malformed(_)), Some(limit)) => Err(ArchiveError::Limit { path, limit }),
            (read, _) => read,
        }
    }
}

fn entries(
    archive: &mut impl Read,
    limits: &Limits,
    mut pack: Option<&mut Packing>,
    path: &mut String,
) -> Result<Tree, ArchiveError> {
    let mut building = Building::new(limits);
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(ArchiveError::Malformed)? {
        let mut entry = entry.map_err(ArchiveError::Malformed)?;
        *path = self::path(&entry)?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let content = content(&mut entry, path, limits, &building)?;
                let executable = entry.header().mode().map_err(ArchiveError::Malformed)? & 0o111 != 0;
                match &mut pack {
                    None => building.file(path, content.into(), executable)?,
                    Some(pack) => {
                        let packed = pack.add(&content).map_err(ArchiveError::Unpack)?;
                        building.file_in(path, &content, Content::Packed(packed), executable)?;
                    }
                }
            }
            EntryType::Directory => building.directory(path)?,
            EntryType::Symlink => building.link(path)?,
            EntryType::XGlobalHeader => {}
            other => {
                return Err(ArchiveError::Kind {
                    path: path.clone(),
                    kind: kind(other),
                });
            }
        }
    }
    // the checksum covers the rest of the stream, after the last entry
    let mut archive = archive.into_inner();
    io::copy(&mut archive, &mut io::sink()).map_err(ArchiveError::Malformed)?;
    Ok(building.finish())
}

/// The path in a tree: `./a/` is `a`, `.` the root.
fn path(entry: &Entry<'_, impl Read>) -> Result<String, ArchiveError> {
    let bytes = entry.path_bytes();
    let text = std::str::from_utf8(&bytes).map_err(|_| ArchiveError::Path {
        path: String::from_utf8_lossy(&bytes).chars().take(200).collect(),
        why: "its name is not UTF-8",
    })?;
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = if entry.header().entry_type().is_dir() {
        text.trim_end_matches('/')
    } else {
        text
    };
    let absolute = text.is_empty() && bytes.starts_with(b"/");
    match absolute {
        true => Err(ArchiveError::Path {
            path: "/".to_owned(),
            why: "it is absolute",
        }),
        false => Ok(if text == "." {
            String::new()
        } else {
            text.to_owned()
        }),
    }
}

fn content(
    entry: &mut Entry<'_, impl Read>,
    path: &str,
    limits: &Limits,
    building: &Building<'_>,
) -> Result<Vec<u8>, ArchiveError> {
    let limit = |limit| ArchiveError::Limit {
        path: path.to_owned(),
        limit,
    };
    let size = entry.size();
    if size > limits.file_bytes_max {
        return Err(limit(LimitExceeded::FileBytes(limits.file_bytes_max)));
    }
    if size > building.bytes_left() {
        return Err(limit(LimitExceeded::TreeBytes(limits.tree_bytes_max)));
    }
    // allocate for received bytes only, not for the size in the header
    let mut content = Vec::new();
    entry.read_to_end(&mut content).map_err(ArchiveError::Malformed)?;
    match content.len() as u64 == size {
        true => Ok(content),
        false => Err(ArchiveError::Malformed(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn kind(entry: EntryType) -> &'static str {
    match entry {
        EntryType::Link => "hard link",
        EntryType::Char => "character device",
        EntryType::Block => "block device",
        EntryType::Fifo => "named pipe",
        EntryType::GNUSparse => "sparse file",
        _ => "special entry",
    }
}
