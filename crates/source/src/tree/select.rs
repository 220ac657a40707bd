//! The files of an unpacked archive, without those that ignore rules exclude.

use std::convert::Infallible;
use std::fs;
use std::io::Read;

use super::{Building, Content, Node, Tree, TreeError};
use crate::archive::ArchiveError;
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreDecision, IgnoreFile};
use crate::limits::{LimitExceeded, Limits};

/// Why an archive is not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The archive is malformed, or larger than a limit.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Its files make no tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl Tree {
    /// Reads a `tar.gz` from elsewhere, without the files that `ignore` and its `.sourceignore` files exclude.
    /// The contents go to `pack`, an empty file, so that memory holds names only.
    ///
    /// # Errors
    /// As [`Tree::from_archive`], and ignore rules that are larger than the limit.
    pub fn unpack(
        archive: impl Read,
        ignore: &Ignore,
        limits: &Limits,
        pack: fs::File,
    ) -> Result<Tree, UnpackError> {
        let whole = Tree::unpack_archive(archive, limits, pack)?;
        Ok(whole.without_ignored(ignore, limits)?)
    }

    fn without_ignored(&self, ignore: &Ignore, limits: &Limits) -> Result<Tree, TreeError> {
        let rules = ignore.rules(&self.ignore_files(limits)?);
        let mut building = Building::new(limits);
        self.walk(&mut |path, node| {
            let names: Vec<&str> = path.split('/').collect();
            let mut decision = IgnoreDecision::default();
            for depth in 1..names.len() {
                decision = rules.decide(decision, names.get(..depth).unwrap_or_default(), true);
            }
            decision = rules.decide(decision, &names, matches!(node, Node::Directory(_)));
            if decision.is_excluded() {
                return Ok(());
            }
            match node {
                Node::Directory(_) => Ok(building.directory(path)?),
                Node::File(file) => {
                    let bytes = self.content(path, file)?;
                    let content = match &file.content {
                        Content::Packed(packed) => Content::Packed(packed.clone()),
                        Content::Memory(_) | Content::Git(_) => Content::Memory(bytes.clone()),
                    };
                    Ok::<(), TreeError>(building.file_in(path, &bytes, content, file.executable)?)
                }
            }
        })?;
        Ok(building.finish())
    }

    /// Parents before children, siblings by name.
    fn ignore_files(&self, limits: &Limits) -> Result<Vec<IgnoreFile>, TreeError> {
        let mut paths = Vec::new();
        let walked: Result<(), Infallible> = self.walk(&mut |path, node| {
            let name = path.rsplit('/').next().unwrap_or(path);
            if name == IGNORE_FILE && matches!(node, Node::File(_)) {
                paths.push(path.to_owned());
            }
            Ok(())
        });
        let Ok(()) = walked;
        paths.sort_by_key(|path| path.matches('/').count());
        let mut found = Vec::new();
        for path in paths {
            let bytes = self.read(&path)?;
            if bytes.len() as u64 > limits.ignore_bytes_max {
                let limit = LimitExceeded::IgnoreBytes(limits.ignore_bytes_max);
                return Err(TreeError::Limit { path, limit });
            }
            found.push(IgnoreFile {
                directory: path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files_of_an_archive_are_left_out() {
        let limits = Limits::default();
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for path in ["a.yaml", "logo.png", "docs/a.md", "docs/b.md", "docs/c/d.txt"] {
            write(path, path);
        }
        let everything = Ignore::new(Some("!*"));
        let archive = |ignore: Option<&str>| {
            let tree = Tree::from_directory(folder.path(), &everything, &limits).unwrap();
            let mut bytes = Vec::new();
            tree.write_archive(&mut bytes, &limits).unwrap();
            let pack = tempfile::tempfile().unwrap();
            let tree = Tree::unpack(bytes.as_slice(), &Ignore::new(ignore), &limits, pack).unwrap();
            let mut paths = Vec::new();
            let walked: Result<(), Infallible> = tree.walk(&mut |path, node| {
                if matches!(node, Node::File(_)) {
                    paths.push(path.to_owned());
                }
                Ok(())
            });
            let Ok(()) = walked;
            (tree, paths)
        };
        let (tree, paths) = archive(None);
        assert_eq!(paths, ["a.yaml", "docs/a.md", "docs/b.md", "docs/c/d.txt"]);
        assert_eq!(tree.read("docs/a.md").unwrap(), "docs/a.md");
        let (_, paths) = archive(Some("docs/\n"));
        assert_eq!(paths, ["a.yaml", "logo.png"]);
        write("docs/.sourceignore", "*.md\n!b.md\n");
        let (_, paths) = archive(None);
        assert_eq!(
            paths,
            [
                "a.yaml",
                "docs/.sourceignore",
                "docs/b.md",
                "docs/c/d.txt",
                "logo.png"
            ]
        );
    }
}
