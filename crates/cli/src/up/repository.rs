//! What REPO means: a directory on this machine, or a URL.
//!
//! A directory is read in place. Its objects carry the URL that the repository
//! calls `origin`, so that declarations which name that URL mean this very
//! directory; without an origin they carry `https://local.invalid/NAME`, a name
//! that can never be reached by mistake (RFC 2606).

use equate_git::{Head, LocalRepository, OpenError, Reference};
use std::path::{Path, PathBuf};

/// A chosen repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    /// What `spec.url` says.
    pub(crate) url: String,
    /// What is followed.
    pub(crate) reference: Reference,
    /// The directory that stands in for the URL.
    pub(crate) directory: Option<PathBuf>,
    /// For people: `fleet`.
    pub(crate) name: String,
    /// Whether the directory holds work that no commit has, which is not applied.
    pub(crate) uncommitted: bool,
}

/// Why a repository could not be chosen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepositoryError {
    /// Neither a directory nor a URL that git over http(s) or ssh understands.
    #[error("{given} is neither a directory nor an http, https or ssh URL")]
    Unknown {
        /// As given.
        given: String,
    },
    /// A URL is shown and stored; what it says of credentials would be too.
    #[error("the URL of the repository holds credentials")]
    Credentials,
    /// The directory is not in a git repository, or that cannot be read.
    #[error("could not open a git repository in {directory}")]
    Open {
        /// Which directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// There is nothing to follow yet.
    #[error("the repository in {directory} has no commit on branch {branch}")]
    Empty {
        /// Which directory.
        directory: PathBuf,
        /// The branch that HEAD names.
        branch: String,
    },
}

impl Repository {
    /// From the arguments REPO and `--branch`.
    pub(crate) fn choose(given: &str, branch: Option<&str>) -> Result<Self, RepositoryError> {
        let path = Path::new(given);
        if path.is_dir() {
            return Self::local(path, branch);
        }
        let Some(url) = remote_url(given) else {
            return Err(RepositoryError::Unknown { given: given.into() });
        };
        if holds_credentials(&url) {
            return Err(RepositoryError::Credentials);
        }
        Ok(Self {
            name: last_segment(&url).to_owned(),
            reference: match branch {
                Some(branch) => Reference::branch(branch),
                // The remote's own choice; `spec.ref` without a field would mean `master`.
                None => Reference::name("HEAD"),
            },
            url,
            directory: None,
            uncommitted: false,
        })
    }

    fn local(directory: &Path, branch: Option<&str>) -> Result<Self, RepositoryError> {
        let local = LocalRepository::discover(directory).map_err(|source| RepositoryError::Open {
            directory: directory.into(),
            source,
        })?;
        let reference = match (branch, &local.head) {
            (Some(branch), _) => Reference::branch(branch),
            (None, Head::Branch(branch)) => Reference::branch(branch),
            // As CI checks out.
            (None, Head::Detached(_)) => Reference::name("HEAD"),
            (None, Head::Unborn(branch)) => {
                return Err(RepositoryError::Empty {
                    directory: local.root,
                    branch: branch.clone(),
                });
            }
        };
        let name = local
            .root
            .file_name()
            .map_or_else(|| "repository".into(), |name| name.to_string_lossy().into_owned());
        Ok(Self {
            url: local
                .origin
                .as_deref()
                .and_then(remote_url)
                .unwrap_or_else(|| format!("https://local.invalid/{}", url_segment(&name))),
            reference,
            directory: Some(local.root),
            name,
            uncommitted: local.uncommitted,
        })
    }
}

/// The URL as the custom resource takes it; git's short form `git@host:path` is written out.
pub(crate) fn remote_url(text: &str) -> Option<String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let known = matches!(scheme, "http" | "https" | "ssh");
        return (known && !rest.is_empty()).then(|| text.to_owned());
    }
    let (host, path) = text.split_once(':')?;
    let plain = !host.is_empty() && !host.contains('/') && !path.is_empty();
    // A single letter before the colon is a drive.
    (plain && host.len() > 1).then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

/// Whether an http(s) URL names a user: a token is as often given as one. Over ssh it is the account.
fn holds_credentials(url: &str) -> bool {
    let authority = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .and_then(|rest| rest.split('/').next());
    authority.is_some_and(|authority| authority.contains('@'))
}

fn last_segment(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.rsplit('/').next().unwrap_or(url).trim_end_matches(".git")
}

fn url_segment(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-._".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (given, expected) in [
            ("https://example.org/a/b.git", Some("https://example.org/a/b.git")),
            ("ssh://git@example.org/a", Some("ssh://git@example.org/a")),
            ("git@example.org:a/b.git", Some("ssh://git@example.org/a/b.git")),
            ("example.org:/srv/a", Some("ssh://example.org/srv/a")),
            ("file:///srv/a", None),
            ("https://", None),
            ("C:\\a", None),
            ("./a:b", None),
            ("fleet", None),
        ] {
            assert_eq!(remote_url(given).as_deref(), expected, "{given}");
        }
        for (url, expected) in [
            ("https://token@example.org/a", true),
            ("https://u:p@example.org/a", true),
            ("https://example.org/a@b", false),
            ("ssh://git@example.org/a", false),
        ] {
            assert_eq!(holds_credentials(url), expected, "{url}");
        }
        assert_eq!(last_segment("https://example.org/a/fleet.git/"), "fleet");
        assert_eq!(url_segment("my fleet"), "my-fleet");
    }
}
