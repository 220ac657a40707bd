//! The files of an unpacked archive, without those that ignore rules exclude.

use std::fs;
use std::io::Read;

use super::ignored::IgnoreFiles;
use super::{Building, Node, Tree, TreeError};
use crate::archive::ArchiveError;
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreDecision};
use crate::limits::Limits;
use crate::pauses::{ENTRY, Pauses};

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
    /// As [`Tree::from_archive`], ignore rules that are larger than the limit, and the end of the work.
    pub fn unpack(
        archive: impl Read,
        ignore: &Ignore,
        limits: &Limits,
        pack: fs::File,
        pauses: &Pauses<'_>,
    ) -> Result<Tree, UnpackError> {
        let whole = Tree::unpack_archive(archive, limits, pack, pauses)?;
        Ok(whole.without_ignored(ignore, limits, pauses)?)
    }

    fn without_ignored(
        &self,
        ignore: &Ignore,
        limits: &Limits,
        pauses: &Pauses<'_>,
    ) -> Result<Tree, TreeError> {
        let rules = self.ignore_files(limits)?.rules(ignore)?;
        let mut building = Building::new(limits);
        self.walk(&mut |path, node| {
            pauses.count(ENTRY)?;
            let names: Vec<&str> = path.split('/').collect();
            let mut decision = IgnoreDecision::default();
            for depth in 1..names.len() {
                decision = rules.decide(decision, names.get(..depth).unwrap_or_default(), true, pauses)?;
            }
            decision = rules.decide(decision, &names, matches!(node, Node::Directory(_)), pauses)?;
            if decision.is_excluded() {
                return Ok(());
            }
            match node {
                Node::Directory(_) => Ok(building.directory(path)?),
                // an archive's contents are in its pack, which needs no tree
                Node::File(file) => Ok::<(), TreeError>(building.place(path, file.clone())?),
            }
        })?;
        Ok(building.finish())
    }

    /// Parents before children, siblings by name.
    fn ignore_files<'l>(&self, limits: &'l Limits) -> Result<IgnoreFiles<'l>, TreeError> {
        let mut found = IgnoreFiles::new(limits);
        let mut paths = Vec::new();
        self.walk(&mut |path, node| {
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
            if let Node::File(file) = node
                && name == IGNORE_FILE
            {
                let bytes = match file.content.bytes() {
                    Some(bytes) => bytes,
                    None => self.content(path, file)?.len() as u64,
                };
                found.count(directory, bytes)?;
                paths.push(path.to_owned());
            }
            Ok::<(), TreeError>(())
        })?;
        paths.sort_by_key(|path| path.matches('/').count());
        for path in paths {
            let directory = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            found.add(directory, &self.read(&path)?)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn ignore_files_of_an_archive_are_limited_together() {
        let limits = Limits::default();
        let check = |text: &str, expected: &str| {
            let mut building = Building::new(&limits);
            for number in 0..2000 {
                let path = format!("{:02}/{:02}/{IGNORE_FILE}", number / 50, number % 50);
                building.file(&path, text.to_owned().into(), false).unwrap();
            }
            let mut archive = Vec::new();
            building.finish().write_archive(&mut archive, &limits).unwrap();
            let pack = tempfile::tempfile().unwrap();
            let error = Tree::unpack(
                archive.as_slice(),
                &Ignore::default(),
                &limits,
                pack,
                &Pauses::none(),
            )
            .unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            &"#".repeat(1024),
            r#""20/06/.sourceignore": more than 1048576 bytes in all files of ignore patterns together, with their paths"#,
        );
        check(
            &"a\n".repeat(10),
            r#""20/00/.sourceignore": more than 10000 ignore patterns"#,
        );
    }

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
            let tree = Tree::unpack(
                bytes.as_slice(),
                &Ignore::new(ignore),
                &limits,
                pack,
                &Pauses::none(),
            )
            .unwrap();
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
