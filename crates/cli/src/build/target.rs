//! What DIR means: a directory, a tree of a local repository, or a URL.

use equate_kustomize::RemoteRepository;
use std::path::{Path, PathBuf};

/// What is built.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A directory on this machine.
    Directory(PathBuf),
    /// A directory of a commit: `REPO@REV:PATH`.
    Commit {
        repository: PathBuf,
        revision: String,
        path: String,
    },
    /// A repository elsewhere, as it is written.
    Url(String),
}

/// Why nothing is built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TargetError {
    /// There is something, but no directory.
    #[error("must build at directory: not a valid directory: '{0}' is a file")]
    File(String),
    /// There is nothing.
    #[error("must build at directory: not a valid directory: '{0}' does not exist")]
    Absent(String),
}

impl Target {
    /// A URL is one whatever directories there are: `./a@b:c` never is.
    pub(super) fn choose(given: &str) -> Result<Self, TargetError> {
        if RemoteRepository::parse(given).is_ok() {
            return Ok(Self::Url(given.to_owned()));
        }
        let path = Path::new(given);
        if path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if path.exists() {
            return Err(TargetError::File(given.to_owned()));
        }
        let commit = given.match_indices('@').find_map(|(at, _)| {
            let repository = Path::new(&given[..at]);
            let (revision, path) = given[at + 1..].split_once(':').unwrap_or((&given[at + 1..], ""));
            (repository.is_dir() && !revision.is_empty()).then(|| Self::Commit {
                repository: repository.to_owned(),
                revision: revision.to_owned(),
                path: path.to_owned(),
            })
        });
        commit.ok_or_else(|| TargetError::Absent(given.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dir_means() {
        let place = tempfile::tempdir().unwrap();
        let here = place.path().to_str().unwrap();
        std::fs::create_dir(place.path().join("a@b")).unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        let commit = |repository: &str, revision: &str, path: &str| {
            Ok(Target::Commit {
                repository: repository.into(),
                revision: revision.into(),
                path: path.into(),
            })
        };
        let below = |name: &str| format!("{here}/{name}");
        for (given, expected) in [
            (here.to_owned(), Ok(Target::Directory(here.into()))),
            (below("a@b"), Ok(Target::Directory(below("a@b").into()))),
            (format!("{here}@main:apps/x"), commit(here, "main", "apps/x")),
            (format!("{here}@HEAD~1"), commit(here, "HEAD~1", "")),
            (below("a@b@v1:"), commit(&below("a@b"), "v1", "")),
            (below("file"), Err(TargetError::File(below("file")))),
            (below("none"), Err(TargetError::Absent(below("none")))),
            (
                "git@h.example:o/r".to_owned(),
                Ok(Target::Url("git@h.example:o/r".to_owned())),
            ),
            (
                "fleet@main:apps".to_owned(),
                Err(TargetError::Absent("fleet@main:apps".to_owned())),
            ),
        ] {
            assert_eq!(Target::choose(&given), expected, "{given}");
        }
    }
}
