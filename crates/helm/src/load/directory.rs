//! The files of a chart's directory.
//!
//! Links are followed as in Helm. A link cycle ends at [`crate::Limits::directories_depth_max`]; in Helm
//! the system ends it.

use super::{Budget, CHART_YAML, HELM_IGNORE, LoadError, Rules, without_mark};
use crate::chart::File;
use crate::limits::{LimitExceeded, Limits};
use crate::log::{Level, LogLine};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The content of `Chart.yaml`, and all files that are not ignored, sorted by path.
pub(super) fn files(root: &Path, budget: &mut Budget<'_>) -> Result<(Vec<u8>, Vec<File>), LoadError> {
    let detect = |source| LoadError::Detect {
        path: root.join(CHART_YAML).display().to_string(),
        source,
    };
    let chart_yaml = read(&root.join(CHART_YAML), budget.limits.file_bytes_max).map_err(detect)?;
    let rules = match read(&root.join(HELM_IGNORE), budget.limits.file_bytes_max) {
        Ok(text) => Rules::parse(&String::from_utf8_lossy(&text))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Rules::parse("")?,
        Err(source) => return Err(unreadable(&root.join(HELM_IGNORE), source)),
    };
    let mut files = Vec::new();
    walk(root, "", 0, &rules, budget, &mut files)?;
    Ok((chart_yaml, files))
}

/// The lines that Helm logs for the symbolic links in a chart's directory. Errors are those of a load.
pub fn links(root: &Path, limits: &Limits) -> Vec<LogLine> {
    let mut found = Vec::new();
    let ignore = read(&root.join(HELM_IGNORE), limits.file_bytes_max).unwrap_or_default();
    if let Ok(rules) = Rules::parse(&String::from_utf8_lossy(&ignore)) {
        find_links(root, "", 0, &rules, limits, &mut found);
    }
    found
}

fn find_links(
    path: &Path,
    below: &str,
    depth: usize,
    rules: &Rules,
    limits: &Limits,
    found: &mut Vec<LogLine>,
) {
    let Ok(link) = fs::symlink_metadata(path) else {
        return;
    };
    let is_root = below.is_empty();
    // Helm adds a slash to the chart's own path, which follows a link
    if !is_root
        && link.is_symlink()
        && let Ok(resolved) = fs::canonicalize(path)
    {
        let line = LogLine::new(
            Level::Info,
            "found symbolic link in path. Contents of linked file included and used",
        );
        let line = line.with("path", path.display().to_string());
        found.push(line.with("resolved", resolved.display().to_string()));
    }
    let is_folder = fs::metadata(path).is_ok_and(|meta| meta.is_dir());
    if !is_folder || depth > limits.directories_depth_max || (!is_root && rules.ignores(below, true)) {
        return;
    }
    for name in names(path, limits.files_max).unwrap_or_default() {
        let inner = match is_root {
            true => name.clone(),
            false => format!("{below}/{name}"),
        };
        find_links(&path.join(&name), &inner, depth + 1, rules, limits, found);
    }
}

fn unreadable(path: &Path, source: io::Error) -> LoadError {
    LoadError::Read {
        path: path.display().to_string(),
        source,
    }
}

fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    fs::File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut data)?;
    Ok(data)
}

fn walk(
    directory: &Path,
    prefix: &str,
    depth: usize,
    rules: &Rules,
    budget: &mut Budget<'_>,
    files: &mut Vec<File>,
) -> Result<(), LoadError> {
    let limits = budget.limits;
    if depth > limits.directories_depth_max {
        return Err(LimitExceeded::Directories(limits.directories_depth_max).into());
    }
    for name in names(directory, limits.files_max)? {
        let path = directory.join(&name);
        let shown = || path.display().to_string();
        let link = fs::symlink_metadata(&path).map_err(|source| unreadable(&path, source))?;
        let meta = if link.is_symlink() {
            fs::metadata(&path).map_err(|source| LoadError::Link {
                path: shown(),
                source,
            })?
        } else {
            link
        };
        let below = format!("{prefix}{name}");
        if below.len() > limits.path_bytes_max {
            return Err(LimitExceeded::PathBytes(limits.path_bytes_max).into());
        }
        if rules.ignores(&below, meta.is_dir()) {
            continue;
        }
        if meta.is_dir() {
            walk(&path, &format!("{below}/"), depth + 1, rules, budget, files)?;
            continue;
        }
        if !meta.is_file() {
            return Err(LoadError::Irregular { path: shown() });
        }
        budget.file()?;
        let data = read(&path, limits.file_bytes_max).map_err(|source| unreadable(&path, source))?;
        if data.len() as u64 > limits.file_bytes_max {
            return Err(LimitExceeded::FileBytes {
                name,
                max: limits.file_bytes_max,
            }
            .into());
        }
        budget.bytes(data.len() as u64)?;
        files.push(File {
            name: below.into(),
            data: without_mark(&data).into(),
        });
    }
    Ok(())
}

fn names(directory: &Path, names_max: usize) -> Result<Vec<String>, LoadError> {
    let failed = |source| unreadable(directory, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(name.into_string().map_err(|name| LoadError::Name {
            name: name.to_string_lossy().into_owned(),
        })?);
        if names.len() > names_max {
            return Err(LimitExceeded::Files(names_max).into());
        }
    }
    names.sort();
    Ok(names)
}
