//! The files of a work tree that a commit changes: clean before, and updated after.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use gix::{
    bstr::ByteSlice as _,
    index::entry::{Flags, Mode, Stage, Stat},
};

use crate::{objects::Changes, store::Store};

/// How long another process may hold the index.
const INDEX_LOCK: Duration = Duration::from_secs(5);

/// The paths whose file or index entry has a content that is neither that of HEAD nor the new one. The new one
/// is there if an earlier call was killed before its commit.
pub(super) fn dirty(store: &Store, changes: &Changes) -> Result<Vec<String>, gix::Error> {
    store.with(|repository| {
        let Some(root) = repository.workdir() else {
            return Ok(Vec::new());
        };
        let index = repository.index_or_empty()?;
        let hash = repository.object_hash();
        let id_of = |content: &[u8]| gix::objs::compute_hash(hash, gix::objs::Kind::Blob, content);
        let mut dirty = Vec::new();
        for (path, new) in changes {
            let known = [
                committed(repository, path)?,
                new.as_deref().map(id_of).transpose()?,
            ];
            let entry = index.entry_by_path_and_stage(path.as_bytes().as_bstr(), Stage::Unconflicted);
            let file = match std::fs::read(root.join(path)) {
                Ok(content) => Some(id_of(&content)?),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(_) => {
                    dirty.push(path.clone());
                    continue;
                }
            };
            if !known.contains(&entry.map(|entry| entry.id)) || !known.contains(&file) {
                dirty.push(path.clone());
            }
        }
        Ok(dirty)
    })
}

/// The file's content in HEAD.
fn committed(repository: &gix::Repository, path: &str) -> Result<Option<gix::ObjectId>, gix::Error> {
    let head = repository.head_tree_id_or_empty()?.detach();
    if head.is_empty_tree() {
        return Ok(None);
    }
    let entry = repository
        .find_tree(head)?
        .lookup_entry_by_path(Path::new(path))?;
    Ok(entry.map(|entry| entry.object_id()))
}

/// Writes the content of HEAD to the files of a change that did not become a commit.
pub(super) fn restore(store: &Store, changes: &Changes) -> Result<(), gix::Error> {
    let old = store.with(|repository| -> Result<Changes, gix::Error> {
        let mut old = Changes::new();
        for path in changes.keys() {
            let content = match committed(repository, path)? {
                Some(id) => Some(repository.find_object(id)?.data.clone()),
                None => None,
            };
            old.insert(path.clone(), content);
        }
        Ok(old)
    })?;
    update(store, &old)
}

/// Writes the files, each in one step, and the index.
pub(super) fn update(store: &Store, changes: &Changes) -> Result<(), gix::Error> {
    store.with(|repository| {
        let Some(root) = repository.workdir().map(Path::to_owned) else {
            return Ok(());
        };
        for (path, content) in changes {
            write(&root, path, content.as_deref()).map_err(gix::Error::from_error)?;
        }
        // held from reading to writing: another process may change other entries
        let patience = gix::lock::acquire::Fail::AfterDurationWithBackoff(INDEX_LOCK);
        let path = repository.index_path();
        let lock = gix::lock::File::acquire_to_update_resource(&path, patience, None, 0)?;
        let mut index = gix::index::File::at_or_default(
            path,
            repository.object_hash(),
            false,
            gix::index::decode::Options::default(),
        )?;
        for (path, content) in changes {
            let key = path.as_bytes().as_bstr();
            let Some(content) = content else {
                index.remove_entries(|_, known, _| known == key);
                continue;
            };
            let metadata = gix::index::fs::Metadata::from_path_no_follow(&root.join(path));
            let metadata = metadata.map_err(gix::Error::from_error)?;
            let stat = Stat::from_fs(&metadata).map_err(gix::Error::from_error)?;
            let id = gix::objs::compute_hash(repository.object_hash(), gix::objs::Kind::Blob, content)?;
            match index.entry_mut_by_path_and_stage(key, Stage::Unconflicted) {
                Some(entry) => {
                    entry.id = id;
                    entry.stat = stat;
                }
                None => {
                    index.dangerously_push_entry(stat, id, Flags::empty(), Mode::FILE, key);
                    index.sort_entries();
                }
            }
        }
        index.remove_tree();
        let mut lock = std::io::BufWriter::new(lock);
        index.write_to(&mut lock, gix::index::write::Options::default())?;
        let lock = lock.into_inner().map_err(gix::Error::from_error)?;
        lock.commit()
            .map_err(|failed| gix::Error::from_error(failed.error))?;
        Ok(())
    })
}

fn write(root: &Path, path: &str, content: Option<&[u8]>) -> std::io::Result<()> {
    let file = root.join(path);
    let Some(content) = content else {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        // directories that become empty go, too, as with git; the first one with other files stays
        let above = file.ancestors().skip(1).take_while(|above| *above != root);
        let _first_kept = above.map(std::fs::remove_dir).find(Result::is_err);
        return Ok(());
    };
    let directory = file.parent().unwrap_or(root);
    std::fs::create_dir_all(directory)?;
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // the mode of a file that git checks out, unless it has another one already
        let mode = std::fs::metadata(&file).map_or(0o644, |known| known.permissions().mode());
        new.as_file()
            .set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    new.persist(&file).map_err(|error| error.error)?;
    Ok(())
}
