//! The argument DIR: a directory, a tree of a local repository, or a URL.

use equate_kustomize::RemoteRepository;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Directory(PathBuf),
    /// A directory of a commit: `REPO@REV:PATH`.
    Commit {
        repository: PathBuf,
        revision: String,
        path: String,
        /// The part before the path, as given.
        given: String,
    },
    Url(String),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TargetError {
    #[error("must build at directory: not a valid directory: '{0}' is a file")]
    File(String),
    #[error("must build at directory: not a valid directory: '{0}' does not exist")]
    Absent(String),
    #[error("must build at directory: not a valid directory: '{0}' is a broken or circular symbolic link")]
    Link(String),
}

impl Target {
    /// Parses DIR. A URL wins over a directory of the same name, except for SSH's short form
    /// `user@host:path`: if a directory has that name, `has` decides whether its repository has the revision.
    /// `./a@b:c` is never a URL.
    pub(super) fn choose(given: &str, has: impl Fn(&Path, &str) -> bool) -> Result<Self, TargetError> {
        let commit = Self::commit(given);
        if RemoteRepository::parse(given).is_ok() {
            return Ok(match commit {
                // branches are unlikely to have the name of a host
                Some(Self::Commit {
                    repository, revision, ..
                }) if !has(&repository, &revision) && revision.contains('.') => Self::Url(given.to_owned()),
                Some(commit) => commit,
                None => Self::Url(given.to_owned()),
            });
        }
        let path = Path::new(given);
        if path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        if path.exists() {
            return Err(TargetError::File(given.to_owned()));
        }
        match commit {
            Some(commit) => Ok(commit),
            None if path.is_symlink() => Err(TargetError::Link(given.to_owned())),
            None => Err(TargetError::Absent(given.to_owned())),
        }
    }

    fn commit(given: &str) -> Option<Self> {
        given.match_indices('@').find_map(|(at, _)| {
            let repository = Path::new(&given[..at]);
            let (revision, path) = given[at + 1..].split_once(':').unwrap_or((&given[at + 1..], ""));
            (repository.is_dir() && !revision.is_empty()).then(|| Self::Commit {
                repository: repository.to_owned(),
                revision: revision.to_owned(),
                path: path.to_owned(),
                given: format!("{}@{revision}:", &given[..at]),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dir_is_a_directory_a_commit_or_a_url() {
        let place = tempfile::tempdir().unwrap();
        let here = place.path().to_str().unwrap();
        std::fs::create_dir(place.path().join("a@b")).unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("round", place.path().join("round")).unwrap();
        let commit = |repository: &str, revision: &str, path: &str| {
            Ok(Target::Commit {
                repository: repository.into(),
                revision: revision.into(),
                path: path.into(),
                given: format!("{repository}@{revision}:"),
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
            (below("round"), Err(TargetError::Link(below("round")))),
            (
                "git@h.example:o/r".to_owned(),
                Ok(Target::Url("git@h.example:o/r".to_owned())),
            ),
            (
                "fleet@main:apps".to_owned(),
                Err(TargetError::Absent("fleet@main:apps".to_owned())),
            ),
        ] {
            assert_eq!(Target::choose(&given, |_, _| false), expected, "{given}");
        }
    }

    /// `src` is a directory wherever these tests run.
    #[test]
    fn directory_wins_over_a_host() {
        let commit = |revision: &str, path: &str| Target::Commit {
            repository: "src".into(),
            revision: revision.into(),
            path: path.into(),
            given: format!("src@{revision}:"),
        };
        let url = |given: &str| Target::Url(given.into());
        for (given, has, expected) in [
            ("src@main:apps/web", true, commit("main", "apps/web")),
            ("src@v1.2:apps/web", true, commit("v1.2", "apps/web")),
            // an unknown revision is named in the message; a host would be a URL
            ("src@mian:apps/web", false, commit("mian", "apps/web")),
            ("src@h.example:o/r", false, url("src@h.example:o/r")),
            ("none@main:apps/web", true, url("none@main:apps/web")),
        ] {
            assert_eq!(Target::choose(given, |_, _| has), Ok(expected), "{given}");
        }
    }
}
