//! The files of a packed chart.
//!
//! All entries are below one directory, which is stripped whatever its name. Names are cleaned; one that
//! leads outside is an error in Helm's words. As in Helm, an entry other than file or directory is an
//! empty file: links are never followed.

use super::{ArchiveError, Budget};
use crate::chart::File;
use crate::limits::LimitExceeded;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};
use tar::{Archive, Entry, EntryType};

/// Bytes of an entry besides its data and name: headers and padding.
const OVERHEAD_BYTES: u64 = 4 * 512;

const HEADER_BYTES: usize = 10;

pub(super) fn files(bytes: &[u8], budget: &mut Budget<'_>) -> Result<Vec<File>, ArchiveError> {
    match bytes {
        [] => return Err(ArchiveError::NoBytes),
        _ if bytes.len() < HEADER_BYTES => return Err(ArchiveError::Truncated),
        [0x1f, 0x8b, 8, ..] => {}
        _ => return Err(ArchiveError::NotGzip),
    }
    let limits = budget.limits;
    let overhead = (limits.files_max as u64).saturating_mul(OVERHEAD_BYTES + limits.path_bytes_max as u64);
    let mut stream = MultiGzDecoder::new(bytes).take(limits.archive_bytes_max.saturating_add(overhead));
    let read = entries(&mut stream, budget);
    match read {
        Err(ArchiveError::Damaged(_) | ArchiveError::Truncated) if stream.limit() == 0 => {
            Err(LimitExceeded::ArchiveBytes(limits.archive_bytes_max).into())
        }
        read => read,
    }
}

fn entries(stream: &mut impl Read, budget: &mut Budget<'_>) -> Result<Vec<File>, ArchiveError> {
    let mut left = budget.limits.archive_bytes_max;
    let mut files = Vec::new();
    let mut archive = Archive::new(stream);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        budget.file()?;
        let kind = entry.header().entry_type();
        if is_directory(&entry) || matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) {
            continue;
        }
        let name = name(&entry)?;
        let path = path(&name)?;
        if path.len() > budget.limits.path_bytes_max {
            return Err(LimitExceeded::PathBytes(budget.limits.path_bytes_max).into());
        }
        let data = match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                content(&mut entry, &name, left, budget)?
            }
            _ => Vec::new(),
        };
        left -= data.len() as u64;
        if left == 0 {
            return Err(LimitExceeded::ArchiveBytes(budget.limits.archive_bytes_max).into());
        }
        files.push(File {
            name: path.into(),
            data: super::without_mark(&data).into(),
        });
    }
    match files.is_empty() {
        true => Err(ArchiveError::Empty),
        false => Ok(files),
    }
}

fn damaged(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        _ => ArchiveError::Damaged(error),
    }
}

fn is_directory(entry: &Entry<'_, impl Read>) -> bool {
    const KIND: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    let header = entry.header();
    header.entry_type().is_dir()
        || header.mode().is_ok_and(|mode| mode & KIND == DIRECTORY)
        || entry.path_bytes().ends_with(b"/")
}

fn name(entry: &Entry<'_, impl Read>) -> Result<String, ArchiveError> {
    let bytes = entry.path_bytes();
    match std::str::from_utf8(&bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(ArchiveError::Name(
            String::from_utf8_lossy(&bytes).chars().take(200).collect(),
        )),
    }
}

/// The path below the chart's directory. A name with a backslash comes from Windows.
fn path(name: &str) -> Result<String, ArchiveError> {
    let delimiter = if name.contains('\\') { '\\' } else { '/' };
    let (first, below) = name.split_once(delimiter).unwrap_or((name, ""));
    let below = below.replace(delimiter, "/");
    if below.starts_with('/') {
        return Err(ArchiveError::Absolute);
    }
    let clean = clean(&below);
    if clean == "." {
        return Err(ArchiveError::Outside(name.to_owned()));
    }
    if clean.starts_with("..") {
        return Err(ArchiveError::Parent);
    }
    if matches!(clean.as_bytes(), [drive, b':', b'/', ..] if drive.is_ascii_alphabetic()) {
        return Err(ArchiveError::Drive);
    }
    if first == "Chart.yaml" {
        return Err(ArchiveError::ChartYaml);
    }
    Ok(clean)
}

/// Go's `path.Clean` for a relative path.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        return ".".into();
    }
    parts.join("/")
}

fn content(
    entry: &mut Entry<'_, impl Read>,
    name: &str,
    left: u64,
    budget: &mut Budget<'_>,
) -> Result<Vec<u8>, ArchiveError> {
    let limits = budget.limits;
    if entry.size() > left {
        return Err(LimitExceeded::ArchiveBytes(limits.archive_bytes_max).into());
    }
    if entry.size() > limits.file_bytes_max {
        return Err(LimitExceeded::ArchivedFileBytes {
            name: name.to_owned(),
            max: limits.file_bytes_max,
        }
        .into());
    }
    budget.bytes(entry.size())?;
    // the claimed size is untrusted: only bytes that arrive take memory
    let (mut data, size) = (Vec::new(), entry.size());
    entry.take(size).read_to_end(&mut data).map_err(damaged)?;
    match data.len() as u64 == size {
        true => Ok(data),
        false => Err(ArchiveError::Truncated),
    }
}
