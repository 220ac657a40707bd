//! Reads an untrusted `tar.gz` as a tree.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::ArchiveError;
use super::bounded::{Bounded, Expanding, ReachedLimit};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::{Pauses, Stopped};
use crate::tree::{Building, Content, PackError, Packing, Tree};

/// The overhead of an entry: a header, padding, a long name.
const OVERHEAD_BYTES: u64 = 4 * 512;
/// The largest extended header: a long name, or PAX records. As in Go's archive/tar.
const HEADER_BYTES_MAX: u64 = 1 << 20;

impl Tree {
    /// Reads a `tar.gz`, whole or not at all. As in Flux, symbolic links are skipped, and of a file given
    /// twice the later one counts. The contents are in an unnamed file.
    ///
    /// # Errors
    /// Absolute paths, `..`, hard links, special and sparse files, an exceeded limit, or bytes that are not
    /// an archive.
    pub fn from_archive(archive: impl Read, limits: &Limits) -> Result<Tree, ArchiveError> {
        let pack = tempfile::tempfile().map_err(ArchiveError::Unpack)?;
        Tree::unpack_archive(archive, limits, pack, &Pauses::none())
    }

    /// Like [`Tree::from_archive`], with the content of files in `pack`, an empty file.
    pub(crate) fn unpack_archive(
        archive: impl Read,
        limits: &Limits,
        pack: fs::File,
        pauses: &Pauses<'_>,
    ) -> Result<Tree, ArchiveError> {
        let reached = ReachedLimit::default();
        let compressed = Rc::new(Cell::new(0));
        let bounded = Bounded {
            inner: archive,
            pauses,
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
            pauses,
            max: expanded_max,
            limit: LimitExceeded::TreeBytes(limits.tree_bytes_max),
            reached: reached.clone(),
            read: Rc::default(),
        };
        let mut path = String::new();
        let read = entries(&mut expanded, limits, &mut Packing::new(pack), &mut path);
        match (read, reached.get()) {
            (Err(ArchiveError::Malformed(_)), _) if pauses.is_stopped() => Err(Stopped.into()),
            (Err(ArchiveError::Malformed(_)), Some(limit)) => Err(ArchiveError::Limit { path, limit }),
            (read, _) => read,
        }
    }
}

fn entries(
    archive: &mut impl Read,
    limits: &Limits,
    pack: &mut Packing,
    path: &mut String,
) -> Result<Tree, ArchiveError> {
    let mut building = Building::new(limits);
    let mut archive = Archive::new(archive);
    let mut extended = Extended::default();
    // raw: the library reads extended headers of any size
    for entry in archive.entries().map_err(ArchiveError::Malformed)?.raw(true) {
        let mut entry = entry.map_err(ArchiveError::Malformed)?;
        if extended.take(&mut entry)? {
            continue;
        }
        *path = self::path(&entry, &std::mem::take(&mut extended))?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let size = size(&entry, path, limits, &building)?;
                let executable = entry.header().mode().map_err(ArchiveError::Malformed)? & 0o111 != 0;
                let (packed, blob) = pack.add(&mut entry, size).map_err(|error| match error {
                    PackError::Read(error) => ArchiveError::Malformed(error),
                    PackError::Write(error) => ArchiveError::Unpack(error),
                })?;
                building.file_of(path, blob, Content::Packed(packed), executable)?;
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

/// The extended headers before an entry.
#[derive(Debug, Default)]
struct Extended {
    /// GNU's long name.
    name: Option<Vec<u8>>,
    /// The PAX record `path`.
    pax_path: Option<Vec<u8>>,
    /// The PAX record `size`.
    pax_size: Option<u64>,
}

impl Extended {
    /// Reads an extended header; any other entry is left as it is.
    fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<bool, ArchiveError> {
        let kind = entry.header().entry_type();
        if !matches!(
            kind,
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader
        ) {
            return Ok(false);
        }
        let limit = LimitExceeded::HeaderBytes(HEADER_BYTES_MAX);
        if entry.size() > HEADER_BYTES_MAX {
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            return Err(ArchiveError::Limit { path, limit });
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(ArchiveError::Malformed)?;
        match kind {
            EntryType::GNULongName => {
                // it ends with a zero byte
                let end = content
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(content.len());
                content.truncate(end);
                self.name = Some(content);
            }
            EntryType::XHeader => self.records(&content)?,
            // links are skipped or refused
            _ => {}
        }
        Ok(true)
    }

    fn records(&mut self, content: &[u8]) -> Result<(), ArchiveError> {
        for record in PaxExtensions::new(content) {
            let record = record.map_err(ArchiveError::Malformed)?;
            match record.key_bytes() {
                b"path" => self.pax_path = Some(record.value_bytes().to_vec()),
                b"size" => {
                    let size = record.value().ok().and_then(|size| size.parse().ok());
                    let unreadable = || ArchiveError::Malformed(io::ErrorKind::InvalidData.into());
                    self.pax_size = Some(size.ok_or_else(unreadable)?);
                }
                // the content of a sparse file is a map and pieces
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(ArchiveError::Kind {
                        path: String::from_utf8_lossy(self.pax_path.as_deref().unwrap_or_default())
                            .into_owned(),
                        kind: kind(EntryType::GNUSparse),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The path in a tree: `./a/` is `a`, `.` the root.
fn path(entry: &Entry<'_, impl Read>, extended: &Extended) -> Result<String, ArchiveError> {
    // only files of 8 GiB and more need another size than their header has
    if extended.pax_size.is_some_and(|size| size != entry.size()) {
        return Err(ArchiveError::Malformed(io::ErrorKind::InvalidData.into()));
    }
    let long = extended.name.as_deref().or(extended.pax_path.as_deref());
    let bytes = long.map_or_else(|| entry.path_bytes(), Into::into);
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

fn size(
    entry: &Entry<'_, impl Read>,
    path: &str,
    limits: &Limits,
    building: &Building<'_>,
) -> Result<u64, ArchiveError> {
    let limit = |limit| ArchiveError::Limit {
        path: path.to_owned(),
        limit,
    };
    let size = entry.size();
    if size > limits.file_bytes_max {
        return Err(limit(LimitExceeded::FileBytes(limits.file_bytes_max)));
    }
    match size > building.bytes_left() {
        true => Err(limit(LimitExceeded::TreeBytes(limits.tree_bytes_max))),
        false => Ok(size),
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
