//! Fetches remote inputs of a build: repositories through mirrors, files over HTTP.
//!
//! Ignores the user's git configuration. Over SSH the first key in `~/.ssh` authenticates to the hosts in
//! `~/.ssh/known_hosts`; keys with a passphrase are not supported.

use super::commit::Commit;
use crate::up::entry::{self, EntryError};
use crate::up::remote_url;
use bytes::Bytes;
use equate_egress::Egress;
use equate_git::{Credentials, Kind, Limits, Mirrors, Reference, Remote, ResolveError, Revision};
use equate_kustomize::{Fetched, FileError, RemoteError, RemoteRepository, Remotes};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Handle;

const FILE_TIMEOUT: Duration = Duration::from_secs(30);
const KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FetchOptions {
    /// Refuse remote bases, components and files.
    #[arg(long)]
    pub(crate) no_remote_bases: bool,
    /// Read DIR instead of the git repository, or with `equate build --enable-helm` the charts, at URL, such as `https://example.org/app.git=../app` (can be repeated).
    #[arg(long, value_name = "URL=DIR", value_parser = crate::up::substitution)]
    pub(crate) instead_of: Vec<(String, PathBuf)>,
    /// Directory for mirrors of remote repositories (default: `$XDG_CACHE_HOME/equate` or `~/.cache/equate`).
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no directory for mirrors: HOME is not set; set one with --cache-dir")]
    NoCache,
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error("could not create an HTTP client")]
    Http(#[source] reqwest::Error),
    #[error("{0} is not a git URL over http, https or ssh")]
    Url(String),
}

#[derive(Debug)]
pub(crate) struct Fetcher {
    mirrors: Mirrors,
    ssh: Option<PathBuf>,
    http: reqwest::Client,
    runtime: Handle,
}

impl FetchOptions {
    /// The way out to charts. Only directories stand for places: charts are not fetched from hosts.
    pub(crate) fn egress(&self) -> Result<Egress, FetchError> {
        Ok(entry::instead_of(Egress::default(), &self.instead_of)?)
    }

    /// Returns none if remote bases are refused.
    pub(crate) fn fetcher(&self, runtime: &Handle) -> Result<Option<Fetcher>, FetchError> {
        if self.no_remote_bases {
            return Ok(None);
        }
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.filter(|cache| cache.is_absolute());
        let cache = cache.or_else(|| Some(home.as_ref()?.join(".cache")));
        let root = match (&self.cache_dir, cache) {
            (Some(given), _) => given.clone(),
            (None, Some(cache)) => cache.join("equate"),
            (None, None) => return Err(FetchError::NoCache),
        };
        entry::check_instead_of(&self.instead_of)?;
        let mut mirrors = Mirrors::new(root.join("git"), Limits::default());
        for (url, path) in &self.instead_of {
            // a short form matches the URL that it abbreviates
            let url = remote_url(url).unwrap_or_else(|| url.clone());
            mirrors = mirrors.instead_of(&url, path);
        }
        Ok(Some(Fetcher {
            mirrors,
            ssh: home.map(|home| home.join(".ssh")),
            http: reqwest::Client::builder().build().map_err(FetchError::Http)?,
            runtime: runtime.clone(),
        }))
    }
}

impl Fetcher {
    fn remote(&self, repository: &RemoteRepository) -> Result<(Mirrors, Remote), FetchError> {
        let written = repository.clone_url();
        if let Some(path) = written.strip_prefix("file://") {
            let mirrors = match self.mirrors.substitute(&written) {
                Some(_) => self.mirrors.clone(),
                None => self.mirrors.clone().instead_of(&written, Path::new(path)),
            };
            return Ok((mirrors, Remote::new(written)));
        }
        let url = remote_url(&written).ok_or_else(|| FetchError::Url(repository.to_string()))?;
        let mut remote = Remote::new(url).with_timeout(repository.timeout);
        if remote.url.starts_with("ssh://") && self.mirrors.substitute(&remote.url).is_none() {
            let me = ["USER", "LOGNAME"]
                .into_iter()
                .find_map(|name| std::env::var(name).ok());
            remote.url = with_user(remote.url, me.as_deref());
            if let Some(credentials) = self.ssh.as_deref().and_then(ssh) {
                remote = remote.with_credentials(credentials);
            }
        }
        Ok((self.mirrors.clone(), remote))
    }

    async fn download(&self, url: &str, bytes_max: usize) -> Result<Bytes, FileError> {
        // reqwest's message contains the URL, which may contain a token
        let failed = |error: reqwest::Error| FileError::Failed(Box::new(error.without_url()));
        let request = self.http.get(url).timeout(FILE_TIMEOUT);
        let mut response = request.send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(FileError::Status(response.status().as_u16()));
        }
        let mut content = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            content.extend_from_slice(&chunk);
            if content.len() > bytes_max {
                // one byte more than the limit: the caller reports that it is too long
                content.truncate(bytes_max.saturating_add(1));
                break;
            }
        }
        Ok(Bytes::from(content))
    }
}

impl Remotes for Fetcher {
    fn repository(&self, repository: &RemoteRepository) -> Result<Fetched, RemoteError> {
        let (mirrors, remote) = self.remote(repository)?;
        let revision = resolve(&mirrors, &remote, &repository.reference).map_err(|error| match error {
            ResolveError::Remote(error) => RemoteError::from(error.without_url()),
            error => error.into(),
        })?;
        let commit = mirrors.fetch(&remote, &revision).map_err(|error| match error {
            equate_git::FetchError::Remote(error) => RemoteError::from(error.without_url()),
            error => error.into(),
        })?;
        Ok(Fetched {
            tree: Box::new(Commit(commit.tree().clone())),
            commit: revision.commit(),
        })
    }

    fn file(&self, url: &str, bytes_max: usize) -> Result<Bytes, FileError> {
        let stands_in = RemoteRepository::parse(url)
            .is_ok_and(|repository| self.mirrors.substitute(&repository.clone_url()).is_some());
        if stands_in {
            return Err(FileError::Repository);
        }
        self.runtime.block_on(self.download(url, bytes_max))
    }
}

/// Resolves a name like `git fetch`: a commit, a full name, a tag, a branch.
fn resolve(mirrors: &Mirrors, remote: &Remote, reference: &str) -> Result<Revision, ResolveError> {
    let is_commit = reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    let wanted = match reference {
        "" | "HEAD" => Reference::name("HEAD"),
        commit if is_commit => Reference::commit(commit),
        full if full.starts_with("refs/") => Reference::name(full),
        short => match mirrors.resolve(remote, &Reference::tag(short)) {
            Err(error) if error.kind() == Kind::ReferenceNotFound => Reference::branch(short),
            found => return found,
        },
    };
    mirrors.resolve(remote, &wanted)
}

/// Adds the current user to an SSH URL without one, like git. Only GitRepositories default to the user `git`.
fn with_user(url: String, me: Option<&str>) -> String {
    let Ok(mut parsed) = reqwest::Url::parse(&url) else {
        return url;
    };
    match me {
        Some(me) if parsed.username().is_empty() && !me.is_empty() => match parsed.set_username(me) {
            Ok(()) => parsed.into(),
            Err(()) => url,
        },
        _ => url,
    }
}

/// The first key, for known hosts.
fn ssh(directory: &Path) -> Option<Credentials> {
    let known_hosts = std::fs::read(directory.join("known_hosts")).ok()?;
    let key = KEYS
        .iter()
        .find_map(|name| std::fs::read_to_string(directory.join(name)).ok())?;
    Some(Credentials::Ssh {
        identity: key.as_str().into(),
        known_hosts,
        passphrase: None,
    })
}

#[cfg(test)]
mod tests {
    use super::with_user;

    #[test]
    fn ssh_url_without_a_user_gets_the_current_one() {
        #[track_caller]
        fn check(url: &str, me: Option<&str>, want: &str) {
            assert_eq!(with_user(url.to_owned(), me), want);
        }
        check("ssh://h/x", Some("me"), "ssh://me@h/x");
        check("ssh://h:2222/~/x", Some("me"), "ssh://me@h:2222/~/x");
        check("ssh://git@h/x", Some("me"), "ssh://git@h/x");
        check("ssh://h/x", None, "ssh://h/x");
        check("no url", Some("me"), "no url");
    }
}
