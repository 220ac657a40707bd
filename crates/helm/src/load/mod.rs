//! Charts from archives, directories and lists of files.
//!
//! Charts are untrusted: everything has a limit ([`Limits`]), no name in an archive is opened, and a link
//! in an archive is an empty file. Only [`Chart::from_directory`] reads files, and follows links as Helm
//! does: the directory is the caller's own. Use [`Chart::from_tree`] for untrusted trees such as a
//! checkout; it has no links.
//!
//! Root charts of versions other than 1 and 2 are errors; as in Helm, subcharts may have others. Of
//! repeated files the last one wins, also for `Chart.yaml`, where Helm merges them.

mod archive;
mod assemble;
mod decode;
mod directory;
mod error;
mod ignore;

pub use directory::links;
pub use error::{ArchiveError, FileError, LoadError};

pub(crate) use decode::index_entry;

use crate::chart::{Chart, File};
use crate::limits::{LimitExceeded, Limits};
use crate::metadata::Metadata;
use ignore::Rules;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

impl Chart {
    /// Loads a packed chart, a `tar.gz`.
    ///
    /// # Errors
    /// An invalid archive, names that lead outside, limits, and an invalid chart.
    pub fn from_archive(bytes: &[u8], limits: &Limits) -> Result<Self, LoadError> {
        archive_parts(bytes, limits).map(|(chart, _)| chart)
    }

    /// Loads a chart directory, applying its `.helmignore`. Links are followed wherever they lead: the
    /// directory is the caller's own.
    ///
    /// # Errors
    /// Unreadable files, limits, and an invalid chart.
    pub fn from_directory(path: &Path, limits: &Limits) -> Result<Self, LoadError> {
        directory_parts(path, limits).map(|(chart, _)| chart)
    }

    /// Loads a chart directory or archive.
    ///
    /// # Errors
    /// Those of [`Chart::from_archive`] and [`Chart::from_directory`].
    pub fn from_path(path: &Path, limits: &Limits) -> Result<Self, LoadError> {
        path_parts(path, limits).map(|(chart, _)| chart)
    }

    /// Makes a chart of an untrusted tree's files, applying its `.helmignore`.
    ///
    /// # Errors
    /// Invalid paths, limits, and an invalid chart.
    pub fn from_tree(files: impl IntoIterator<Item = File>, limits: &Limits) -> Result<Self, LoadError> {
        tree_parts(files, limits).map(|(chart, _)| chart)
    }

    /// Makes a chart of files, without a `.helmignore`.
    ///
    /// # Errors
    /// Invalid paths, limits, and an invalid chart.
    pub fn from_files(files: impl IntoIterator<Item = File>, limits: &Limits) -> Result<Self, LoadError> {
        let mut budget = Budget::new(limits);
        let files = counted(files, &mut budget)?;
        assemble::chart(files, &mut budget, 1)
    }
}

/// A chart's directory or archive, and its files.
pub(crate) fn path_parts(path: &Path, limits: &Limits) -> Result<(Chart, Vec<File>), LoadError> {
    let shown = path.display().to_string();
    let read = |source| LoadError::Read {
        path: shown.clone(),
        source,
    };
    if std::fs::metadata(path).map_err(read)?.is_dir() {
        return directory_parts(path, limits);
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(read)?;
    file.take(limits.archive_bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(read)?;
    if bytes.len() as u64 > limits.archive_bytes_max {
        return Err(LimitExceeded::ArchiveBytes(limits.archive_bytes_max).into());
    }
    if !bytes.starts_with(&[0x1f, 0x8b, 8]) {
        return Err(LoadError::NotArchive { path: shown });
    }
    archive_parts(&bytes, limits)
}

fn directory_parts(path: &Path, limits: &Limits) -> Result<(Chart, Vec<File>), LoadError> {
    let mut budget = Budget::new(limits);
    let (chart_yaml, files) = directory::files(path, &mut budget)?;
    decode::version(&chart_yaml, limits)?;
    let chart = assemble::chart(files.clone(), &mut budget, 1)?;
    Ok((chart, files))
}

/// A packed chart, and its files.
pub(crate) fn archive_parts(bytes: &[u8], limits: &Limits) -> Result<(Chart, Vec<File>), LoadError> {
    let mut budget = Budget::new(limits);
    let files = archive::files(bytes, &mut budget).map_err(|error| match error {
        ArchiveError::NotGzip => LoadError::NotGzip,
        error => LoadError::Archive(error),
    })?;
    match files.iter().rev().find(|file| &*file.name == CHART_YAML) {
        Some(file) => decode::version(&file.data, limits)?,
        None => return Err(LoadError::Undetected),
    }
    let chart = assemble::chart(files.clone(), &mut budget, 1)?;
    Ok((chart, assemble::latest(files)))
}

/// A chart of a tree, and its files without ignored ones.
pub(crate) fn tree_parts(
    files: impl IntoIterator<Item = File>,
    limits: &Limits,
) -> Result<(Chart, Vec<File>), LoadError> {
    let mut budget = Budget::new(limits);
    let mut files = counted(files, &mut budget)?;
    let rules = match files.iter().find(|file| &*file.name == HELM_IGNORE) {
        Some(file) => Rules::parse(&String::from_utf8_lossy(&file.data))?,
        None => Rules::parse("")?,
    };
    let mut ignored: BTreeMap<String, bool> = BTreeMap::new();
    files.retain(|file| {
        let above = file.name.match_indices('/').map(|(at, _)| &file.name[..at]);
        let mut above = above.map(|directory| match ignored.get(directory) {
            Some(known) => *known,
            None => {
                let ignores = rules.ignores(directory, true);
                ignored.insert(directory.to_owned(), ignores);
                ignores
            }
        });
        !above.any(|ignores| ignores) && !rules.ignores(&file.name, false)
    });
    if let Some(file) = files.iter().rev().find(|file| &*file.name == CHART_YAML) {
        decode::version(&file.data, limits)?;
    }
    let chart = assemble::chart(files.clone(), &mut budget, 1)?;
    Ok((chart, assemble::latest(files)))
}

/// The metadata of a chart, from its `Chart.yaml`, and its `requirements.yaml` if there is one.
///
/// # Errors
/// They do not decode, or are invalid.
pub fn read_metadata(
    chart_yaml: &[u8],
    requirements: Option<&[u8]>,
    limits: &Limits,
) -> Result<Metadata, LoadError> {
    let failed = |file| move |source| LoadError::File { file, source };
    let mut parsed = decode::Parsed::default();
    decode::metadata(chart_yaml, limits, &mut parsed).map_err(failed(CHART_YAML))?;
    if parsed.metadata.api_version.is_empty() {
        "v1".clone_into(&mut parsed.metadata.api_version);
    }
    if let Some(requirements) = requirements {
        decode::metadata(requirements, limits, &mut parsed).map_err(failed("requirements.yaml"))?;
    }
    Ok(parsed.validated()?)
}

const CHART_YAML: &str = "Chart.yaml";
const HELM_IGNORE: &str = ".helmignore";

fn counted(files: impl IntoIterator<Item = File>, budget: &mut Budget<'_>) -> Result<Vec<File>, LoadError> {
    let mut counted = Vec::new();
    for file in files {
        budget.file()?;
        budget.bytes(file.data.len() as u64)?;
        let limits = budget.limits;
        if file.data.len() as u64 > limits.file_bytes_max {
            return Err(LimitExceeded::FileBytes {
                name: file.name.to_string(),
                max: limits.file_bytes_max,
            }
            .into());
        }
        if file.name.len() > limits.path_bytes_max {
            return Err(LimitExceeded::PathBytes(limits.path_bytes_max).into());
        }
        if file.name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(LoadError::Name {
                name: file.name.to_string(),
            });
        }
        let data = without_mark(&file.data);
        counted.push(match data.len() == file.data.len() {
            true => file,
            false => File {
                name: file.name,
                data: data.into(),
            },
        });
    }
    Ok(counted)
}

fn without_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}

struct Budget<'l> {
    limits: &'l Limits,
    bytes_left: u64,
    templates_bytes_left: u64,
    values_left: usize,
    files: usize,
    charts: usize,
}

impl<'l> Budget<'l> {
    fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            bytes_left: limits.total_bytes_max,
            templates_bytes_left: limits.templates_bytes_max,
            values_left: limits.values_nodes_max,
            files: 0,
            charts: 0,
        }
    }

    fn file(&mut self) -> Result<(), LimitExceeded> {
        self.files += 1;
        match self.files > self.limits.files_max {
            true => Err(LimitExceeded::Files(self.limits.files_max)),
            false => Ok(()),
        }
    }

    fn bytes(&mut self, bytes: u64) -> Result<(), LimitExceeded> {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(LimitExceeded::TotalBytes(self.limits.total_bytes_max)),
        }
    }

    fn template(&mut self, bytes: u64) -> Result<(), LimitExceeded> {
        match self.templates_bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.templates_bytes_left = left;
                Ok(())
            }
            None => Err(LimitExceeded::TemplatesBytes(self.limits.templates_bytes_max)),
        }
    }

    fn values(&mut self, values: usize) -> Result<(), LimitExceeded> {
        match self.values_left.checked_sub(values) {
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
            None => Err(LimitExceeded::Values(self.limits.values_nodes_max)),
        }
    }

    fn chart(&mut self, depth: usize) -> Result<(), LimitExceeded> {
        self.charts += 1;
        if depth > self.limits.depth_max {
            return Err(LimitExceeded::Depth(self.limits.depth_max));
        }
        match self.charts > self.limits.charts_max {
            true => Err(LimitExceeded::Charts(self.limits.charts_max)),
            false => Ok(()),
        }
    }
}
