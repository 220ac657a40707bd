//! Reads a local directory as a tree, for builds of files outside of a repository.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use super::ignored::IgnoreFiles;
use super::{Building, Tree, TreeError};
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreDecision, Rules};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::Pauses;

impl Tree {
    /// Reads a local directory into memory, without the files that `ignore` and its `.sourceignore` files
    /// exclude. Symbolic links and `.git` are skipped.
    ///
    /// # Errors
    /// A limit is exceeded, a name is not UTF-8, or a file cannot be read.
    pub fn from_directory(path: &Path, ignore: &Ignore, limits: &Limits) -> Result<Tree, TreeError> {
        Self::below(&Root { path, only: None }, ignore, limits)
    }

    /// Like [`Self::from_directory`], for these files only. Other files are not even listed, so build
    /// results beside the sources cost nothing.
    ///
    /// # Errors
    /// As [`Self::from_directory`]. Missing files are not errors.
    pub fn from_files(
        path: &Path,
        files: &BTreeSet<String>,
        ignore: &Ignore,
        limits: &Limits,
    ) -> Result<Tree, TreeError> {
        let only = Some(files);
        Self::below(&Root { path, only }, ignore, limits)
    }

    fn below(root: &Root<'_>, ignore: &Ignore, limits: &Limits) -> Result<Tree, TreeError> {
        let mut found = IgnoreFiles::new(limits);
        let mut seen = 0;
        survey(root, "", limits, &mut seen, &mut found)?;
        let rules = found.rules(ignore)?;
        let mut building = Building::new(limits);
        read(
            root,
            &mut Vec::new(),
            IgnoreDecision::default(),
            &rules,
            limits,
            &mut building,
        )?;
        Ok(building.finish())
    }
}

struct Root<'a> {
    path: &'a Path,
    only: Option<&'a BTreeSet<String>>,
}

impl Root<'_> {
    fn counts(&self, path: &str, is_directory: bool) -> bool {
        let Some(only) = self.only else {
            return true;
        };
        if !is_directory {
            return only.contains(path);
        }
        let below = format!("{path}/");
        only.range(below.clone()..)
            .next()
            .is_some_and(|file| file.starts_with(&below))
    }
}

struct Child {
    name: String,
    kind: fs::FileType,
}

/// Finds `.sourceignore` files, parents before children, siblings by name.
fn survey(
    root: &Root<'_>,
    directory: &str,
    limits: &Limits,
    seen: &mut usize,
    found: &mut IgnoreFiles<'_>,
) -> Result<(), TreeError> {
    let limit = |limit| TreeError::Limit {
        path: directory.to_owned(),
        limit,
    };
    if directory.split('/').count() > limits.depth_max {
        return Err(limit(LimitExceeded::Depth(limits.depth_max)));
    }
    let children = children(root, directory)?;
    *seen += children.len();
    if *seen > limits.entries_max {
        return Err(limit(LimitExceeded::Entries(limits.entries_max)));
    }
    if children
        .iter()
        .any(|child| child.name == IGNORE_FILE && child.kind.is_file())
    {
        let path = root.path.join(directory).join(IGNORE_FILE);
        let bytes = contents(&path, limits.ignore_bytes_max)?;
        // a larger one was not read to its end
        found.count(
            directory,
            bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64),
        )?;
        found.add(directory, &bytes.unwrap_or_default())?;
    }
    for child in children.iter().filter(|child| child.kind.is_dir()) {
        survey(root, &join(directory, &child.name), limits, seen, found)?;
    }
    Ok(())
}

fn read(
    root: &Root<'_>,
    directory: &mut Vec<String>,
    decision: IgnoreDecision,
    rules: &Rules,
    limits: &Limits,
    building: &mut Building<'_>,
) -> Result<(), TreeError> {
    for child in children(root, &directory.join("/"))? {
        directory.push(child.name);
        let path = directory.join("/");
        let names: Vec<&str> = directory.iter().map(String::as_str).collect();
        let pauses = Pauses::none();
        let decision = rules.decide(decision, &names, child.kind.is_dir(), &pauses)?;
        if child.kind.is_dir() {
            if !decision.is_excluded() {
                building.directory(&path)?;
            }
            if !decision.is_excluded() || rules.may_include_below(decision, &names, &pauses)? {
                read(root, directory, decision, rules, limits, building)?;
            }
        } else if !decision.is_excluded() && child.kind.is_symlink() {
            building.link(&path)?;
        } else if !decision.is_excluded() && child.kind.is_file() {
            file(root.path, &path, limits, building)?;
        }
        directory.pop();
    }
    Ok(())
}

fn file(root: &Path, path: &str, limits: &Limits, building: &mut Building<'_>) -> Result<(), TreeError> {
    let limit = |limit| TreeError::Limit {
        path: path.to_owned(),
        limit,
    };
    let full = root.join(path);
    let max = limits.file_bytes_max.min(building.bytes_left());
    let bytes = contents(&full, max)?.ok_or_else(|| {
        limit(match max < limits.file_bytes_max {
            true => LimitExceeded::TreeBytes(limits.tree_bytes_max),
            false => LimitExceeded::FileBytes(limits.file_bytes_max),
        })
    })?;
    building.file(path, bytes.into(), is_executable(&full)?)?;
    Ok(())
}

fn children(root: &Root<'_>, directory: &str) -> Result<Vec<Child>, TreeError> {
    let path = root.path.join(directory);
    let failed = |source| TreeError::Read {
        path: path.clone(),
        source,
    };
    let mut children = Vec::new();
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| TreeError::Path {
            path: join(directory, &name.to_string_lossy()),
            why: "its name is not UTF-8",
        })?;
        let kind = entry.file_type().map_err(failed)?;
        if name != ".git" && root.counts(&join(directory, &name), kind.is_dir()) {
            children.push(Child { name, kind });
        }
    }
    children.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(children)
}

/// `None` beyond `max` bytes.
fn contents(path: &Path, max: u64) -> Result<Option<Vec<u8>>, TreeError> {
    let failed = |source| TreeError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = open(path).map_err(failed)?;
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok((bytes.len() as u64 <= max).then_some(bytes))
}

/// Refuses symbolic links, even if one replaced the file after the listing.
fn open(path: &Path) -> std::io::Result<fs::File> {
    let file = fs::File::open(path)?;
    let (opened, listed) = (file.metadata()?, fs::symlink_metadata(path)?);
    match listed.file_type().is_file() && same_file(&opened, &listed) {
        true => Ok(file),
        false => Err(std::io::Error::other("it was replaced while it was read")),
    }
}

#[cfg(unix)]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.len() == other.len()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> Result<bool, TreeError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = fs::symlink_metadata(path).map_err(|source| TreeError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_path: &Path) -> Result<bool, TreeError> {
    Ok(false)
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}
