//! Detects uncommitted changes, and lists the files that a commit of the worktree would contain.
//!
//! Detection stops at the first difference and runs the cheapest check first: index against HEAD, files
//! against the index's sizes and times, then untracked files.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    ops::ControlFlow,
    path::Path,
};

use gix::{
    ObjectId,
    bstr::{BStr, BString, ByteSlice},
    index::entry::{Mode, Stage, Stat, stat},
};

pub(super) fn any(repository: &gix::Repository) -> Result<bool, gix::Error> {
    let Some(root) = repository.workdir().map(Path::to_owned) else {
        return Ok(false);
    };
    let index = repository.index_or_empty()?;
    if staged(repository, &index)? || changed(repository, &index, &root)? {
        return Ok(true);
    }
    let found = untracked(repository, &index, &root, |_path| ControlFlow::Break(()))?;
    Ok(found.is_break())
}

pub(super) fn files(repository: &gix::Repository) -> Result<BTreeSet<String>, gix::Error> {
    let mut files = BTreeSet::new();
    let Some(root) = repository.workdir().map(Path::to_owned) else {
        return Ok(files);
    };
    let index = repository.index_or_empty()?;
    for entry in index.entries() {
        let path = entry.path(&index);
        let there = gix::path::from_bstr(path).is_ok_and(|path| root.join(path).symlink_metadata().is_ok());
        if there && !entry.mode.is_submodule() {
            files.insert(path.to_string());
        }
    }
    let _all = untracked(repository, &index, &root, |path| {
        files.insert(path.to_string());
        ControlFlow::Continue(())
    })?;
    Ok(files)
}

fn staged(repository: &gix::Repository, index: &gix::index::File) -> Result<bool, gix::Error> {
    let tree = repository.head_tree_id_or_empty()?.detach();
    let mut committed: HashSet<(BString, ObjectId)> = HashSet::new();
    if !tree.is_empty_tree() {
        let files = repository.find_tree(tree)?.traverse().breadthfirst.files()?;
        committed = files
            .into_iter()
            .filter(|entry| !entry.mode.is_tree())
            .map(|entry| (entry.filepath, entry.oid))
            .collect();
    }
    let mut seen = 0;
    for entry in index.entries() {
        if entry.stage() != Stage::Unconflicted
            || !committed.contains(&(entry.path(index).to_owned(), entry.id))
        {
            return Ok(true);
        }
        seen += 1;
    }
    Ok(seen != committed.len())
}

fn changed(repository: &gix::Repository, index: &gix::index::File, root: &Path) -> Result<bool, gix::Error> {
    for entry in index.entries() {
        let sparse = gix::index::entry::Flags::SKIP_WORKTREE | gix::index::entry::Flags::ASSUME_VALID;
        if entry.mode.is_submodule() || entry.flags.intersects(sparse) {
            continue;
        }
        let Ok(path) = gix::path::from_bstr(entry.path(index)) else {
            return Ok(true);
        };
        let path = root.join(path);
        let Ok(metadata) = gix::index::fs::Metadata::from_path_no_follow(&path) else {
            return Ok(true);
        };
        let same = Stat::from_fs(&metadata).is_ok_and(|now| {
            let options = stat::Options {
                trust_ctime: false,
                check_stat: false,
                ..stat::Options::default()
            };
            now.matches(&entry.stat, options)
        });
        // Written in the same tick as the index, so its times prove nothing ("racily clean").
        let racy = entry.stat.mtime.secs as i64 >= index.timestamp().unix_seconds();
        if same && !racy {
            continue;
        }
        if !same_content(repository, &path, entry.mode, entry.id) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn same_content(repository: &gix::Repository, path: &Path, mode: Mode, id: ObjectId) -> bool {
    let content = if mode == Mode::SYMLINK {
        fs::read_link(path).ok().and_then(|target| {
            gix::path::into_bstr(target)
                .ok()
                .map(|target| target.into_owned().into())
        })
    } else {
        fs::read(path).ok()
    };
    let content: Option<Vec<u8>> = content;
    content.is_some_and(|content| {
        gix::objs::compute_hash(repository.object_hash(), gix::objs::Kind::Blob, &content)
            .is_ok_and(|now| now == id)
    })
}

/// Unreadable paths count as untracked files.
fn untracked(
    repository: &gix::Repository,
    index: &gix::index::File,
    root: &Path,
    mut found: impl FnMut(&BStr) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, gix::Error> {
    let mut excludes = repository.excludes(
        index,
        None,
        gix::worktree::stack::state::ignore::Source::WorktreeThenIdMappingIfNotSkipped,
    )?;
    let mut pending = vec![BString::default()];
    while let Some(directory) = pending.pop() {
        let Ok(path) = gix::path::from_bstr(directory.as_bstr()) else {
            if found(directory.as_bstr()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            continue;
        };
        let Ok(children) = fs::read_dir(root.join(path)) else {
            continue;
        };
        for child in children.flatten() {
            let Ok(name) = gix::path::os_str_into_bstr(&child.file_name()).map(BStr::to_owned) else {
                if found(directory.as_bstr()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            };
            if name == ".git" {
                continue;
            }
            let mut path = directory.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            let is_directory = child.file_type().is_ok_and(|kind| kind.is_dir());
            if index.entry_by_path(path.as_bstr()).is_some() {
                continue;
            }
            let mode = if is_directory { Mode::DIR } else { Mode::FILE };
            if excludes
                .at_entry(path.as_bstr(), Some(mode))
                .is_ok_and(|at| at.is_excluded())
            {
                continue;
            }
            if !is_directory {
                if found(path.as_bstr()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            // A nested repository is not part of this one.
            if !child.path().join(".git").exists() {
                pending.push(path);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
