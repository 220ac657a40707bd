//! The files of a work tree that a commit changes: clean before, and updated after.

use std::io::Write as _;
use std::path::Path;

use gix::{
    bstr::ByteSlice as _,
    index::entry::{Flags, Mode, Stage, Stat},
};

use crate::{objects::Changes, store::Store};

/// The paths whose file or index entry differs from HEAD.
pub(super) fn dirty(store: &Store, changes: &Changes) -> Result<Vec<String>, gix::Error> {
    store.with(|repository| {
        let Some(root) = repository.workdir() else {
            return Ok(Vec::new());
        };
        let index = repository.index_or_empty()?;
        let head = repository.head_tree_id_or_empty()?.detach();
        let mut dirty = Vec::new();
        for path in changes.keys() {
            let committed = match head.is_empty_tree() {
                true => None,
                false => repository
                    .find_tree(head)?
                    .lookup_entry_by_path(Path::new(path))?
                    .map(|entry| entry.object_id()),
            };
            let entry = index.entry_by_path_and_stage(path.as_bytes().as_bstr(), Stage::Unconflicted);
            let staged = entry.map(|entry| entry.id);
            let is_same = staged == committed
                && match (std::fs::read(root.join(path)), committed) {
                    (Ok(content), Some(id)) => {
                        gix::objs::compute_hash(repository.object_hash(), gix::objs::Kind::Blob, &content)
                            .is_ok_and(|now| now == id)
                    }
                    (Err(_), None) => true,
                    (Ok(_), None) | (Err(_), Some(_)) => false,
                };
            if !is_same {
                dirty.push(path.clone());
            }
        }
        Ok(dirty)
    })
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
        let mut index = gix::index::File::at_or_default(
            repository.index_path(),
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
        index.write(gix::index::write::Options::default())
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
