//! The clone that a command works on, its upstream, and the person who runs it.

use super::ReleaseError;
use super::snapshot::Snapshot;
use crate::up::own_credentials::{Places, own_sources};
use equate_git::{
    Commit, Head, Identity, Limits, Mirrors, OwnCredentials, Remote, Upstream, WritableRepository,
};
use equate_release::record::{NOTES, Record};
use std::path::{Path, PathBuf};

/// The committer, unless `equate.yaml` names another.
const COMMITTER: &str = "Equate <equate@localhost>";

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Place {
    /// Directory in the clone.
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = ".",
        hide_default_value = true
    )]
    repo: PathBuf,
    /// Branch to read and write (default: the current one).
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Use the local branch instead of its upstream.
    #[arg(long)]
    local: bool,
}

/// A clone with the branch that a command works on.
pub(crate) struct Repository {
    pub(crate) inner: WritableRepository,
    pub(crate) branch: String,
    pub(crate) upstream: Option<(Upstream, Remote)>,
    pub(crate) mirrors: Mirrors,
    _state: tempfile::TempDir,
}

impl Place {
    pub(crate) fn open(&self) -> Result<Repository, ReleaseError> {
        let inner = WritableRepository::discover(&self.repo, Limits::default())?;
        let branch = match (&self.branch, inner.head()?) {
            (Some(branch), _) => branch.clone(),
            (None, Head::Branch(branch) | Head::Unborn(branch)) => branch,
            (None, Head::Detached(_)) => return Err(ReleaseError::Detached),
        };
        let upstream = match self.local {
            true => None,
            false => inner.upstream(Some(&branch)),
        };
        let state = tempfile::tempdir().map_err(|source| ReleaseError::File {
            doing: "make a directory in",
            path: std::env::temp_dir(),
            source,
        })?;
        let mut own = OwnCredentials::new(own_sources(Places::of_process()));
        let upstream = match upstream {
            Some(upstream) => {
                let mut remote = Remote::new(&upstream.url);
                if upstream.url.starts_with("https://") {
                    remote.ca = authorities(&inner)?;
                }
                let turns = turns();
                Some((Upstream { turns, ..upstream }, remote))
            }
            None => None,
        };
        if let Some((upstream, _)) = &upstream {
            own = own.for_repository(&upstream.url);
        }
        let mirrors = Mirrors::new(state.path().join("git"), Limits::default()).with_own_credentials(own);
        Ok(Repository {
            inner,
            branch,
            upstream,
            mirrors,
            _state: state,
        })
    }
}

impl Repository {
    /// The newest commit of the branch; fetched if the branch has an upstream.
    pub(crate) fn tip(&self) -> Result<Commit, ReleaseError> {
        let id = match &self.upstream {
            Some((upstream, remote)) => self
                .inner
                .fetch_upstream(&self.mirrors, remote, upstream, NOTES)?,
            None => {
                let tip = self.inner.tip(&format!("refs/heads/{}", self.branch));
                tip.ok_or_else(|| {
                    ReleaseError::Change(equate_git::ChangeError::NoBranch {
                        place: self.inner.root().display().to_string(),
                        branch: self.branch.clone(),
                    })
                })?
            }
        };
        Ok(self.inner.commit(&id)?.commit)
    }

    /// The branch as messages name it: `main`, or `main of https://...`.
    pub(crate) fn place(&self) -> String {
        match &self.upstream {
            Some((upstream, _)) => format!("{} of {}", upstream.branch, upstream.place()),
            None => self.branch.clone(),
        }
    }

    /// The message of a commit.
    pub(crate) fn message(&self, id: &str) -> Result<String, ReleaseError> {
        Ok(self.inner.commit(id)?.commit.message().to_owned())
    }

    /// The record of a commit: its note, else its trailers.
    pub(crate) fn record(&self, id: &str, message: &str) -> Option<Record> {
        let noted = self.notes(id).iter().find_map(|text| Record::parse_note(text));
        noted.or_else(|| Record::of_message(message))
    }

    /// The texts of a commit's notes: upstream's, and the local one.
    pub(crate) fn notes(&self, id: &str) -> Vec<String> {
        let upstream = self
            .upstream
            .as_ref()
            .map(|(upstream, _)| upstream.notes.as_str());
        let refs = upstream.into_iter().chain([NOTES]);
        refs.filter_map(|reference| self.inner.note(reference, id))
            .collect()
    }

    /// The person who runs the command.
    pub(crate) fn author(&self, given: Option<&str>) -> Result<Identity, ReleaseError> {
        if let Some(given) = given {
            let parsed = Identity::parse(given).filter(|who| !who.email.is_empty());
            return parsed.ok_or_else(|| ReleaseError::Author(given.to_owned()));
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let files = user_settings();
        let setting = |key: &str| {
            let own = self.inner.setting(&format!("user.{key}"));
            own.or_else(|| files.iter().find_map(|text| value(text, "user", key)))
        };
        let name = variable("GIT_AUTHOR_NAME").or_else(|| setting("name"));
        let email = variable("GIT_AUTHOR_EMAIL").or_else(|| setting("email"));
        match (name, email) {
            (Some(name), Some(email)) => Ok(Identity { name, email }),
            _ => Err(ReleaseError::NoAuthor),
        }
    }

    /// Whether the user's commits are signed.
    pub(crate) fn wants_signatures(&self) -> bool {
        let own = self.inner.setting("commit.gpgsign");
        let found = own.or_else(|| {
            let files = user_settings();
            files.iter().find_map(|text| value(text, "commit", "gpgsign"))
        });
        found.is_some_and(|value| {
            matches!(
                value.to_ascii_lowercase().as_str(),
                "true" | "yes" | "on" | "1" | ""
            )
        })
    }
}

/// The certificates that git trusts besides the machine's: `GIT_SSL_CAINFO`, else `http.sslCAInfo`.
fn authorities(repository: &WritableRepository) -> Result<Option<Vec<u8>>, ReleaseError> {
    let variable = std::env::var_os("GIT_SSL_CAINFO").map(PathBuf::from);
    let path = variable
        .or_else(|| repository.setting("http.sslCAInfo").map(PathBuf::from))
        .or_else(|| {
            let files = user_settings();
            let found = files.iter().find_map(|text| value(text, "http", "sslCAInfo"));
            found.map(PathBuf::from)
        });
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let path = match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    };
    let read = std::fs::read(&path);
    read.map(Some).map_err(|source| ReleaseError::File {
        doing: "read the trusted certificates in",
        path,
        source,
    })
}

pub(crate) fn committer(configured: Option<&str>) -> Identity {
    let parsed = configured
        .and_then(Identity::parse)
        .or_else(|| Identity::parse(COMMITTER));
    parsed.unwrap_or(Identity {
        name: "Equate".to_owned(),
        email: String::new(),
    })
}

pub(crate) fn tree_of(commit: &Commit) -> Snapshot {
    Snapshot::new(commit.tree().clone())
}

/// The directory in which the user's processes wait for their turns to push.
fn turns() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let cache = given.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(cache.join("equate/turns"))
}

/// The texts of the user's git configuration, the strongest first.
fn user_settings() -> Vec<String> {
    let home = std::env::home_dir();
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(home.as_ref()?.join(".config")));
    let paths = [
        home.as_ref().map(|home| home.join(".gitconfig")),
        config.map(|config| config.join("git/config")),
    ];
    let read = |path: &Path| {
        const BYTES_MAX: u64 = 1 << 20;
        let small = std::fs::metadata(path).is_ok_and(|found| found.len() <= BYTES_MAX);
        small.then(|| std::fs::read_to_string(path).ok())?
    };
    paths.iter().flatten().filter_map(|path| read(path)).collect()
}

/// The last value of a key in a section without a subsection.
fn value(text: &str, section: &str, key: &str) -> Option<String> {
    let mut is_in = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default();
            is_in = header.trim().eq_ignore_ascii_case(section);
            continue;
        }
        if !is_in || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if name.trim().eq_ignore_ascii_case(key) {
            let value = value.trim();
            let value = match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next().unwrap_or_default(),
                None => value.split([';', '#']).next().unwrap_or_default().trim(),
            };
            found = Some(value.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn user_settings_are_read() {
        let text = "[User]\n\tname = Mia Holm ; me\n  email=\"mia@example.org\" # mail\n[user \"x\"]\nname = no\n\
                    [commit]\ngpgSign\n";
        assert_eq!(value(text, "user", "name").as_deref(), Some("Mia Holm"));
        assert_eq!(value(text, "user", "email").as_deref(), Some("mia@example.org"));
        assert_eq!(value(text, "commit", "gpgsign").as_deref(), Some(""));
        assert_eq!(value(text, "core", "name"), None);
    }
}
