//! Remote resources of a build: repositories and files that a kustomization names by URL.
//!
//! The URL grammar is kustomize's (`NewRepoSpecFromURL`, api 0.21). Nothing is fetched here: the caller
//! provides [`Remotes`], and without it every URL is refused. Credentials in a URL go to the caller and are
//! shown nowhere.

mod query;
#[cfg(test)]
mod tests;

use crate::path;
use crate::tree::Tree;
use bytes::Bytes;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Fetches for a build. The crate requests each repository and each file once per build.
pub trait Remotes {
    /// Fetches a repository at the reference in its URL.
    fn repository(&self, repository: &RemoteRepository) -> Result<Fetched, RemoteError>;

    /// Downloads a file from an http or https URL, reading at most `bytes_max` bytes and one more.
    fn file(&self, url: &str, bytes_max: usize) -> Result<Bytes, FileError>;
}

/// A repository at one commit.
pub struct Fetched {
    /// Its files.
    pub tree: Box<dyn Tree>,
    /// The commit, as git writes it.
    pub commit: String,
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}

/// The caller's own error for a repository.
pub type RemoteError = Box<dyn Error + Send + Sync>;

/// Why a file cannot be downloaded.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The server answered with another status.
    #[error("HTTP Error: status code {0}")]
    Status(u16),
    /// The caller knows the URL as a repository and did not request a file.
    #[error("URL is a git repository")]
    Repository,
    /// The request failed.
    #[error("the download failed")]
    Failed(#[source] RemoteError),
}

/// The URL of a repository. `Debug` and `Display` omit credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteRepository {
    /// As written; cycles are detected by it.
    raw: String,
    host: String,
    repository: String,
    /// The directory to build, relative to the repository's root; empty for the root.
    pub directory: String,
    /// A branch, tag, ref or commit; empty for the remote's HEAD.
    pub reference: String,
    /// The fetch timeout.
    pub timeout: Duration,
    /// Whether to fetch submodules.
    pub submodules: bool,
    /// Whether the prefix `git::` is missing, which kustomize warns about.
    pub forced: bool,
    /// Whether more than the host distinguishes it from a file.
    marked: bool,
}

/// Why a text is not a repository URL. Most paths are not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteUrlError {
    /// It begins with a slash.
    #[error("uri looks like abs path: {0}")]
    Absolute(String),
    /// It has no scheme, no user, and a host other than GitHub.
    #[error("failed to parse scheme")]
    Scheme,
    /// The host is missing.
    #[error("failed to parse host segment")]
    Host,
    /// The path after the host is too short.
    #[error("failed to parse repo path segment")]
    Repository,
    /// The directory leaves the repository.
    #[error("url path exits repo: {0}")]
    Exits(String),
}

const FILE: &str = "file://";
const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", FILE];
/// The segments of a repository's path if nothing marks its end.
const ORGANIZATION_AND_NAME: usize = 2;

impl RemoteRepository {
    /// Parses a URL as kustomize does.
    ///
    /// # Errors
    /// When it is a path or malformed.
    pub fn parse(text: &str) -> Result<Self, RemoteUrlError> {
        if text.starts_with('/') {
            return Err(RemoteUrlError::Absolute(text.to_owned()));
        }
        let (rest, query) = text.split_once('?').unwrap_or((text, ""));
        let query = query::parse(query);
        let forced = without_prefix(rest, "git::");
        let (host, rest) = split_host(forced.unwrap_or(rest))?;
        let split = split_path(&rest, host.starts_with(FILE)).ok_or(RemoteUrlError::Repository)?;
        if split.repository.is_empty() {
            return Err(RemoteUrlError::Repository);
        }
        let directory = path::join("", split.directory.trim_start_matches('/'))
            .map_err(|_| RemoteUrlError::Exits(rest.clone()))?;
        Ok(Self {
            raw: text.to_owned(),
            host,
            repository: split.repository.to_owned(),
            directory,
            marked: split.marked || query.known,
            reference: query.reference,
            timeout: query.timeout,
            submodules: query.submodules,
            forced: forced.is_some(),
        })
    }

    /// The URL to clone. It may contain credentials.
    pub fn clone_url(&self) -> String {
        format!("{}{}", self.host, self.repository)
    }

    /// The URL as written. It may contain credentials.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Whether it looks more like a repository than a file: a reference, `//`, `.git`.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }

    /// The prefix of its paths: clone URL and reference, without credentials.
    pub(crate) fn label(&self) -> String {
        let url = shown(&self.clone_url());
        match self.reference.as_str() {
            "" => url,
            reference => format!("{url}@{reference}"),
        }
    }
}

impl fmt::Display for RemoteRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

impl fmt::Debug for RemoteRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRepository")
            .field("url", &shown(&self.clone_url()))
            .field("directory", &self.directory)
            .field("reference", &self.reference)
            .field("timeout", &self.timeout)
            .field("submodules", &self.submodules)
            .finish_non_exhaustive()
    }
}

pub(crate) fn is_file(clone_url: &str) -> bool {
    clone_url.starts_with(FILE)
}

pub(crate) fn is_http(entry: &str) -> bool {
    without_prefix(entry, "https:").is_some() || without_prefix(entry, "http:").is_some()
}

pub(crate) fn is_remote(entry: &str) -> bool {
    is_http(entry) || RemoteRepository::parse(entry).is_ok()
}

/// A URL for messages, without passwords, users (except ssh's) and queries that may be tokens.
pub(crate) fn shown(url: &str) -> String {
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let mut text = match rest.split_once("://") {
        None => rest.to_owned(),
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let authority = match authority.rsplit_once('@') {
                None => authority.to_owned(),
                Some((user, host)) if scheme.ends_with("ssh") => {
                    let user = user.split(':').next().unwrap_or_default();
                    format!("{user}@{host}")
                }
                // a file URL has only a path
                Some(_) if scheme.ends_with("file") => authority.to_owned(),
                Some((_, host)) => host.to_owned(),
            };
            format!("{scheme}://{authority}{path}")
        }
    };
    if query::is_harmless(query) {
        text.push('?');
        text.push_str(query);
    } else if !query.is_empty() {
        text.push_str("?…");
    }
    text
}

fn split_host(text: &str) -> Result<(String, String), RemoteUrlError> {
    let (scheme, rest) = SCHEMES
        .into_iter()
        .find_map(|scheme| Some((scheme, without_prefix(text, scheme)?)))
        .unwrap_or(("", text));
    let (user, rest) = split_user(rest);
    let github = ["github.com/", "github.com:"]
        .into_iter()
        .any(|host| without_prefix(rest, host).is_some());
    // git's short form for ssh requires a user, except for github.com
    let short = scheme.is_empty() && (!user.is_empty() || github);
    if scheme.is_empty() && !short {
        return Err(RemoteUrlError::Scheme);
    }
    if scheme == FILE {
        return Ok((FILE.to_owned(), format!("{user}{rest}")));
    }
    let slash = rest.find('/');
    let colon = rest.find(':').filter(|_| short);
    let end = match (slash, colon) {
        (None, colon) => colon,
        (Some(slash), Some(colon)) if 0 < colon && colon < slash => Some(colon),
        (slash, _) => slash,
    };
    let (host, rest) = end.map_or((rest, ""), |end| rest.split_at(end + 1));
    if github {
        return Ok(match scheme == "ssh://" || !user.is_empty() {
            true => (format!("{user}github.com:"), rest.to_owned()),
            false => ("https://github.com/".to_owned(), rest.to_owned()),
        });
    }
    if host.is_empty() {
        return Err(RemoteUrlError::Host);
    }
    Ok((format!("{scheme}{user}{host}"), rest.to_owned()))
}

/// Parses a user with its `@`: letters, digits and dashes, a letter first.
fn split_user(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_alphanumeric() && byte != b'-')
        .unwrap_or(text.len());
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    match text.as_bytes().get(end) {
        Some(b'@') if starts => text.split_at(end + 1),
        _ => ("", text),
    }
}

struct Split<'a> {
    repository: &'a str,
    directory: &'a str,
    marked: bool,
}

/// Finds the end of the repository's path: after the segment that follows `_git/`, before `//`, after `.git`,
/// else after two segments. A file URL is all repository.
fn split_path(path: &str, file: bool) -> Option<Split<'_>> {
    let split = |end: usize, directory: &'_ str| (end, path.len() - directory.len());
    let marked = if let Some(at) = path.find("_git/") {
        let start = at + "_git/".len();
        let end = path[start..].find('/').map_or(path.len(), |end| start + end);
        Some(split(end, path[end..].strip_prefix('/').unwrap_or_default()))
    } else if let Some(at) = path.find("//") {
        Some(split(at, &path[at + 2..]))
    } else {
        path.find(".git")
            .map(|at| split(at + ".git".len(), &path[at + ".git".len()..]))
    };
    let (end, start) = match marked {
        Some(split) => split,
        None if file => (path.len(), path.len()),
        None => {
            let mut slashes = path.match_indices('/').map(|(at, _)| at);
            slashes.nth(ORGANIZATION_AND_NAME - 2)?;
            let end = slashes.next().unwrap_or(path.len());
            (end, path.len().min(end + 1))
        }
    };
    Some(Split {
        repository: &path[..end],
        directory: &path[start..],
        marked: marked.is_some(),
    })
}

fn without_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}
