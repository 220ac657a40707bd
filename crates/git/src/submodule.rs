//! The submodules of a commit: what `.gitmodules` says, and the commits it leads to.
//!
//! `.gitmodules` is written by whoever writes to the repository, so nothing in it is trusted: names are not
//! used, a path counts only where the commit has a submodule, an `update` command is never run, a URL is
//! `https`, `http` or `ssh` (the short form `git@host:path` too) or relative to its parent's. A local path
//! is refused, unless a directory stands in for that URL.
//!
//! The credentials of the parent go along to the same host by the same protocol, and to any host by ssh,
//! which is one that `known_hosts` lists. Another host by http is asked without: a repository's content
//! does not decide who sees a password. (Flux hands them to any host.)

use std::time::{Duration, Instant};

use reqwest::Url;

use crate::{
    commit::Commit,
    fetch::FetchError,
    kind::Kind,
    mirrors::Mirrors,
    reference::Revision,
    remote::{Credentials, Endpoint, Ration, Remote, Scheme, UrlError},
    tree::{Mode, Tree, TreeError},
};

const FILE: &str = ".gitmodules";
/// Of one commit, with those inside them.
const SUBMODULES_MAX: usize = 100;
/// Submodules in submodules, as deep as Flux goes.
const DEPTH_MAX: usize = 10;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A submodule that was fetched.
#[derive(Debug, Clone)]
pub struct Submodule {
    /// Where it stands, from the outermost commit.
    pub path: String,
    /// Its content.
    pub tree: Tree,
}

/// Why the submodules of a commit are not at hand.
#[derive(Debug, thiserror::Error)]
pub enum SubmoduleError {
    /// `.gitmodules` cannot be read.
    #[error("{path:?} cannot be read")]
    File {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        source: ModulesError,
    },
    /// A URL that is not followed.
    #[error("the url of submodule {path:?} is refused")]
    Url {
        /// Where the submodule stands.
        path: String,
        /// What is wrong with it.
        source: SubmoduleUrlError,
    },
    /// More of them than are fetched.
    #[error("more than {max} submodules")]
    Count {
        /// The limit.
        max: usize,
    },
    /// Submodules in submodules in submodules.
    #[error("submodule {path:?} is nested deeper than {max} submodules")]
    Depth {
        /// Where it stands.
        path: String,
        /// The limit.
        max: usize,
    },
    /// The time for all of them is over.
    #[error("its submodules took longer than {seconds}s in total, up to {path:?}")]
    Timeout {
        /// The one that would have been next.
        path: String,
        /// The time.
        seconds: f64,
    },
    /// Its commit cannot be fetched.
    #[error("cannot fetch submodule {path:?}")]
    Fetch {
        /// Where it stands.
        path: String,
        /// Why.
        source: Box<FetchError>,
    },
    /// A commit's tree cannot be read.
    #[error("cannot look for submodules in {path:?}")]
    Tree {
        /// Where it stands.
        path: String,
        /// Why.
        source: TreeError,
    },
}

/// What is wrong with a `.gitmodules`.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// It is not at hand.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A directory, a link.
    #[error("it is not a file")]
    Kind,
    /// It is too long.
    #[error("it has more than {max} bytes")]
    Bytes {
        /// The limit.
        max: u64,
    },
    /// It is no text.
    #[error("it is not UTF-8")]
    Text,
    /// It is none of git's configurations.
    #[error(transparent)]
    Syntax(#[from] gix::config::parse::Error),
    /// A path that leads elsewhere.
    #[error("the path {0:?} is invalid")]
    Path(String),
}

/// Why the URL of a submodule is not followed.
#[derive(Debug, thiserror::Error)]
pub enum SubmoduleUrlError {
    /// It is none that is known.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// It could be taken for something else.
    #[error("it looks like an option or contains control characters")]
    Hostile,
    /// Whoever reads the repository would read that, too.
    #[error("it contains a password")]
    Password,
    /// It names a program.
    #[error("remote helpers are not supported")]
    Helper,
    /// It names a directory of this machine.
    #[error(
        "a local path is not followed: use https://HOST/PATH, ssh://git@HOST/PATH or one that is relative to \
         the repository's url"
    )]
    Local,
    /// It is relative to a URL that is none.
    #[error("its parent's url is malformed")]
    Parent,
    /// It has more `..` than its parent's path has names.
    #[error("it leaves the parent's host")]
    Leaves,
}

impl SubmoduleError {
    /// What it was about.
    pub fn kind(&self) -> Kind {
        match self {
            // another commit may say something else
            Self::File { .. } | Self::Url { .. } => Kind::Protocol,
            Self::Count { .. } | Self::Depth { .. } => Kind::Limit,
            Self::Timeout { .. } => Kind::Timeout,
            Self::Fetch { source, .. } => source.kind(),
            Self::Tree { .. } => Kind::Storage,
        }
    }
}

impl Mirrors {
    /// The submodules of a commit, and those inside them: outer ones first. The remote's timeout is for all
    /// of them together, and so is the limit of what a fetch may bring.
    ///
    /// # Errors
    /// One of them cannot be had: there is no tree with some of them.
    pub fn submodules(&self, remote: &Remote, commit: &Commit) -> Result<Vec<Submodule>, SubmoduleError> {
        let mut found = Vec::new();
        let mut walk = Walk {
            mirrors: self,
            deadline: Instant::now() + remote.timeout,
            timeout: remote.timeout,
            found: &mut found,
        };
        let remote = Remote {
            ration: Some(Ration::of(self.limits().pack_bytes_max)),
            ..remote.clone()
        };
        walk.below("", &remote, commit.tree(), 0)?;
        Ok(found)
    }
}

struct Walk<'a> {
    mirrors: &'a Mirrors,
    deadline: Instant,
    timeout: Duration,
    found: &'a mut Vec<Submodule>,
}

impl Walk<'_> {
    fn below(&mut self, at: &str, remote: &Remote, tree: &Tree, depth: usize) -> Result<(), SubmoduleError> {
        for module in modules(at, tree)? {
            let own = module.path.trim_end_matches('/');
            let path = match at {
                "" => own.to_owned(),
                at => format!("{at}/{own}"),
            };
            let unread = |source| SubmoduleError::Tree {
                path: path.clone(),
                source,
            };
            // a path that leads elsewhere is no submodule, and neither is what nobody committed
            let names = own.split('/');
            if own.is_empty() || names.clone().any(|name| matches!(name, "" | "." | "..")) {
                continue;
            }
            let entry = tree.entry(own).map_err(unread)?;
            let Some(entry) = entry.filter(|entry| entry.mode == Mode::Submodule) else {
                continue;
            };
            let hostile = |text: &str| text.starts_with('-') || text.chars().any(char::is_control);
            if hostile(own) {
                let place = format!("{}{FILE}", path.strip_suffix(own).unwrap_or_default());
                return Err(SubmoduleError::File {
                    path: place,
                    source: ModulesError::Path(own.to_owned()),
                });
            }
            let Some(url) = module.url else { continue };
            if hostile(&url) {
                return Err(SubmoduleError::Url {
                    path,
                    source: SubmoduleUrlError::Hostile,
                });
            }
            if self.found.iter().any(|known| known.path == path) {
                continue;
            }
            if depth == DEPTH_MAX {
                return Err(SubmoduleError::Depth { path, max: DEPTH_MAX });
            }
            if self.found.len() == SUBMODULES_MAX {
                return Err(SubmoduleError::Count { max: SUBMODULES_MAX });
            }
            let refused = |source| SubmoduleError::Url {
                path: path.clone(),
                source,
            };
            let url = absolute(&remote.url, &url).map_err(refused)?;
            let timeout = self.deadline.saturating_duration_since(Instant::now());
            if timeout.is_zero() {
                return Err(SubmoduleError::Timeout {
                    path,
                    seconds: self.timeout.as_secs_f64(),
                });
            }
            let inner = self.remote(remote, &url).map_err(refused)?.with_timeout(timeout);
            let revision = Revision {
                reference: None,
                absolute: false,
                id: entry.id.0,
            };
            let fetched = self.mirrors.fetch(&inner, &revision);
            let commit = fetched.map_err(|source| SubmoduleError::Fetch {
                path: path.clone(),
                source: Box::new(source),
            })?;
            self.found.push(Submodule {
                path: path.clone(),
                tree: commit.tree().clone(),
            });
            self.below(&path, &inner, commit.tree(), depth + 1)?;
        }
        Ok(())
    }

    /// What opens a submodule.
    fn remote(&self, parent: &Remote, url: &str) -> Result<Remote, SubmoduleUrlError> {
        let anonymous = Remote {
            url: url.to_owned(),
            credentials: Credentials::None,
            client_certificate: None,
            principal: None,
            ..parent.clone()
        };
        if self.mirrors.substitute(url).is_some() {
            return Ok(anonymous);
        }
        let own = Endpoint::parse(url)?;
        if own.password.is_some() {
            return Err(SubmoduleUrlError::Password);
        }
        let same_host = Endpoint::parse(&parent.url).is_ok_and(|parent| {
            parent.scheme == own.scheme && parent.host == own.host && parent.port == own.port
        });
        let with_key = own.scheme == Scheme::Ssh && matches!(parent.credentials, Credentials::Ssh { .. });
        Ok(match same_host || with_key {
            false => anonymous,
            true => Remote {
                url: url.to_owned(),
                credentials: match &parent.credentials {
                    Credentials::None if same_host => Endpoint::parse(&parent.url)
                        .and_then(|parent| parent.credentials(&Credentials::None))
                        .unwrap_or_default(),
                    given => given.clone(),
                },
                ..parent.clone()
            },
        })
    }
}

/// What a `.gitmodules` says of one submodule.
#[derive(Debug, Default)]
struct Module {
    path: String,
    url: Option<String>,
}

/// What `.gitmodules` says, in the order of its names; nothing where there is no such file.
fn modules(at: &str, tree: &Tree) -> Result<Vec<Module>, SubmoduleError> {
    let place = match at {
        "" => FILE.to_owned(),
        at => format!("{at}/{FILE}"),
    };
    let unreadable = |source: ModulesError| SubmoduleError::File {
        path: place.clone(),
        source,
    };
    let entry = tree.entry(FILE).map_err(|error| unreadable(error.into()))?;
    let Some(entry) = entry else {
        return Ok(Vec::new());
    };
    if !matches!(entry.mode, Mode::File | Mode::Executable) {
        return Err(unreadable(ModulesError::Kind));
    }
    let size = tree.size(&entry.id).map_err(|error| unreadable(error.into()))?;
    if size > FILE_BYTES_MAX {
        return Err(unreadable(ModulesError::Bytes { max: FILE_BYTES_MAX }));
    }
    let bytes = tree.read(&entry.id).map_err(|error| unreadable(error.into()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| unreadable(ModulesError::Text))?;
    let file = gix::config::File::try_from(text).map_err(|error| unreadable(error.into()))?;
    let mut modules: Vec<(String, Module)> = Vec::new();
    // a section may stand in two places, and of a value the last one counts, as with git
    for section in file.sections_by_name("submodule").into_iter().flatten() {
        let name = section.header().subsection_name();
        let name = name.map(ToString::to_string).unwrap_or_default();
        let at = modules.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            modules.push((name, Module::default()));
            modules.len() - 1
        });
        let value = |key: &str| section.value(key).map(|value| value.to_string());
        let (_, module) = &mut modules[at];
        module.path = value("path").unwrap_or_else(|| std::mem::take(&mut module.path));
        module.url = value("url").or(module.url.take());
    }
    Ok(modules.into_iter().map(|(_, module)| module).collect())
}

/// The URL that is meant: relative to the parent's, in its short form, or as it stands.
fn absolute(parent: &str, url: &str) -> Result<String, SubmoduleUrlError> {
    if url.starts_with("./") || url.starts_with("../") {
        return relative(parent, url);
    }
    if url.contains("://") {
        return Ok(url.to_owned());
    }
    if url.contains("::") {
        return Err(SubmoduleUrlError::Helper);
    }
    // git@host:path; a single letter before the colon is a drive
    if let Some((host, path)) = url.split_once(':')
        && host.len() > 1
        && !host.contains('/')
        && !path.is_empty()
    {
        return Ok(format!("ssh://{host}/{}", path.trim_start_matches('/')));
    }
    Err(SubmoduleUrlError::Local)
}

/// `../other` beside the parent, as git counts: each `..` takes one name of the parent's path.
fn relative(parent: &str, url: &str) -> Result<String, SubmoduleUrlError> {
    let mut base = Url::parse(parent.trim()).map_err(|_| SubmoduleUrlError::Parent)?;
    let mut names: Vec<String> = base
        .path()
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    for name in url.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop().ok_or(SubmoduleUrlError::Leaves)?),
            name => names.push(name.to_owned()),
        }
    }
    base.set_path(&names.join("/"));
    base.set_query(None);
    base.set_fragment(None);
    // what opens the parent is not part of another address
    let user = match base.scheme() {
        "ssh" => base.username().to_owned(),
        _ => String::new(),
    };
    base.set_username(&user)
        .and_then(|()| base.set_password(None))
        .map_err(|()| SubmoduleUrlError::Leaves)?;
    Ok(base.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Walk, absolute, relative};
    use crate::{Credentials, Limits, Mirrors, Remote};

    #[test]
    fn credentials_stay_with_the_host() {
        let folder = tempfile::tempdir().unwrap();
        let stand_in = "https://h/local";
        let mirrors = Mirrors::new(folder.path(), Limits::default()).instead_of(stand_in, folder.path());
        let walk = Walk {
            mirrors: &mirrors,
            deadline: Instant::now(),
            timeout: Duration::ZERO,
            found: &mut Vec::new(),
        };
        let basic = Credentials::Basic {
            username: "me".to_owned(),
            password: "s3cret".into(),
        };
        let key = Credentials::Ssh {
            identity: "I".into(),
            known_hosts: b"H".to_vec(),
            passphrase: None,
        };
        let check = |parent: &str, given: &Credentials, url: &str, want: &Credentials| {
            let parent = Remote {
                client_certificate: Some("C".into()),
                principal: Some("P".into()),
                ..Remote::new(parent).with_credentials(given.clone())
            };
            let opened = walk.remote(&parent, url).unwrap();
            assert_eq!(&opened.credentials, want, "{url}");
            let certificate = opened.client_certificate.is_some();
            assert_eq!(certificate, *want != Credentials::None, "{url}");
            // what keeps an app's mirror its own goes with its token
            let principal = opened.principal.is_some();
            assert_eq!(principal, *want != Credentials::None, "{url}");
        };
        let none = Credentials::None;
        check("https://h/a", &basic, "https://h/b", &basic);
        check("https://H/a", &basic, "https://h/b", &basic);
        check("https://me:s3cret@h/a", &none, "https://h/b", &basic);
        check("https://h/a", &basic, "https://else/b", &none);
        check("https://h/a", &basic, "http://h/b", &none);
        check("https://h/a", &basic, "https://h:8443/b", &none);
        check("https://h/a", &basic, "ssh://git@h/b", &none);
        check("https://h/a", &basic, stand_in, &none);
        check("ssh://git@h/a", &key, "ssh://git@else/b", &key);
        check("ssh://git@h/a", &key, "https://h/b", &none);
    }

    #[test]
    fn urls_of_submodules() {
        let check = |parent: &str, url: &str, want: &str| {
            let got = absolute(parent, url).unwrap_or_else(|problem| format!("error: {problem}"));
            assert!(
                got == want || (want.ends_with('*') && got.starts_with(want.trim_end_matches('*'))),
                "{url}: {got}"
            );
        };
        let https = "https://me:secret@h:8443/org/fleet.git";
        check(https, "../other.git", "https://h:8443/org/other.git");
        check(https, "../../a/b", "https://h:8443/a/b");
        check(https, "./inner.git", "https://h:8443/org/fleet.git/inner.git");
        check(https, "../../../x", "error: it leaves the parent's host");
        check("ssh://git@h/org/fleet", "../other", "ssh://git@h/org/other");
        check(https, "https://else/x", "https://else/x");
        check(https, "git@else:org/x.git", "ssh://git@else/org/x.git");
        check(https, "ext::sh -c id", "error: remote helpers are not supported");
        check(https, "/etc", "error: a local path is not followed*");
        check(https, "C:/x", "error: a local path is not followed*");
        check(https, "other", "error: a local path is not followed*");
        assert!(relative("not a url", "../x").is_err());
    }
}
