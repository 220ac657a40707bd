//! The argument REPO: a local directory or a URL.
//!
//! A directory is read in place. Its objects have the URL of its remote `origin`, so that declarations with
//! that URL mean this directory. Without an origin they have `https://local.invalid/NAME`, which can never be
//! reached by mistake (RFC 2606).

use equate_git::{Head, LocalRepository, OpenError, Reference};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    pub(crate) url: String,
    pub(crate) reference: Reference,
    /// The directory to read instead of the URL.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) name: String,
    /// Whether the directory has uncommitted changes, which are not applied.
    pub(crate) uncommitted: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RepositoryError {
    #[error("{given} is neither a directory nor an http, https or ssh URL")]
    Unknown { given: String },
    /// A URL is printed and stored, with its credentials.
    #[error("the repository URL contains credentials")]
    Credentials,
    #[error("could not open a git repository in {directory}")]
    Open {
        directory: PathBuf,
        #[source]
        source: OpenError,
    },
    #[error("the repository in {directory} has no commit on branch {branch}")]
    Empty { directory: PathBuf, branch: String },
}

impl Repository {
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
                // the remote's HEAD; an empty `spec.ref` would mean `master`
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
            // as in CI checkouts
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

/// The URL in the custom resource's syntax; expands git's short form `git@host:path`.
pub(crate) fn remote_url(text: &str) -> Option<String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let known = matches!(scheme, "http" | "https" | "ssh");
        return (known && !rest.is_empty()).then(|| text.to_owned());
    }
    let (host, path) = text.split_once(':')?;
    let plain = !host.is_empty() && !host.contains('/') && !path.is_empty();
    // a single letter before the colon is a drive
    (plain && host.len() > 1).then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

/// Whether an http(s) URL has a user, which may be a token. Over ssh it is the account.
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
