//! A tree of files that arrive one by one from elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use super::build::File;
use super::{Building, Content, Packing, Tree, TreeError};
use crate::limits::{LimitExceeded, Limits};

/// Files that become a tree, in any order. Their contents go to a file on disk, so that memory holds names
/// only.
#[derive(Debug)]
pub struct Gathering {
    packing: Packing,
    limits: Limits,
    files: BTreeMap<String, File>,
    bytes: u64,
}

impl Gathering {
    /// No file yet. `pack` is an empty file.
    pub fn new(pack: fs::File, limits: &Limits) -> Gathering {
        Gathering {
            packing: Packing::new(pack),
            limits: limits.clone(),
            files: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Adds a file. Of a path given twice the later file counts.
    ///
    /// # Errors
    /// A limit is exceeded, or the disk is full.
    pub fn add(&mut self, path: &str, bytes: &[u8], executable: bool) -> Result<(), TreeError> {
        self.add_from(path, bytes, bytes.len() as u64, executable)
    }

    /// The same for a content of this many bytes, which is read part by part.
    ///
    /// # Errors
    /// As [`Self::add`], or the content cannot be read.
    pub fn add_from(
        &mut self,
        path: &str,
        content: impl Read,
        length: u64,
        executable: bool,
    ) -> Result<(), TreeError> {
        let limit = |limit| TreeError::Limit {
            path: path.chars().take(200).collect(),
            limit,
        };
        let limits = &self.limits;
        if length > limits.file_bytes_max {
            return Err(limit(LimitExceeded::FileBytes(limits.file_bytes_max)));
        }
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > limits.tree_bytes_max {
            return Err(limit(LimitExceeded::TreeBytes(limits.tree_bytes_max)));
        }
        if self.files.len() >= limits.entries_max {
            return Err(limit(LimitExceeded::Entries(limits.entries_max)));
        }
        let added = self.packing.add(content, length);
        let (packed, blob) = added.map_err(|error| error.at(path))?;
        let file = File::of(path, blob, executable, Content::Packed(packed))?;
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// The tree of the files.
    ///
    /// # Errors
    /// A path cannot be part of a tree, or is both a file and a directory.
    pub fn finish(self) -> Result<Tree, TreeError> {
        let mut building = Building::new(&self.limits);
        for (path, file) in self.files {
            building.place(&path, file)?;
        }
        Ok(building.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(files: &[(&str, &str)]) -> Result<Tree, TreeError> {
        let limits = Limits {
            file_bytes_max: 8,
            tree_bytes_max: 12,
            ..Limits::default()
        };
        let mut gathering = Gathering::new(tempfile::tempfile().unwrap(), &limits);
        for (path, text) in files {
            gathering.add(path, text.as_bytes(), false)?;
        }
        gathering.finish()
    }

    #[test]
    fn files_in_any_order_make_the_same_tree() {
        let tree = gathered(&[("b/c.yaml", "c"), ("a.yaml", "old"), ("a.yaml", "a")]).unwrap();
        assert_eq!(tree.read("a.yaml").unwrap(), "a");
        assert_eq!(tree.read("b/c.yaml").unwrap(), "c");
        assert_eq!(tree, gathered(&[("a.yaml", "a"), ("b/c.yaml", "c")]).unwrap());
    }

    #[test]
    fn paths_and_sizes_are_limited() {
        let check = |files: &[(&str, &str)], why: &str| {
            let error = gathered(files).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        check(&[("a", "a"), ("a/b", "b")], "it is both a file and a directory");
        check(&[("../a", "a")], "it has the name . or ..");
        check(&[("a", "123456789")], "a file larger than 8 bytes");
        check(
            &[("a", "12345678"), ("b", "12345678")],
            "more than 12 bytes in all files together",
        );
    }
}
