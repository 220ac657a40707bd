//! The submodules of a commit: reads `.gitmodules` and fetches the commits.
//!
//! `.gitmodules` is untrusted. Names and `update` commands are ignored, and a path counts only where the
//! commit has a submodule. A URL must be `https`, `http`, `ssh` (also `git@host:path`), or relative to its
//! parent's. Local paths are refused unless a substitution exists.
//!
//! The parent's credentials are sent to the same host by the same protocol, and to any ssh host that
//! `known_hosts` lists. Other http hosts get none: a repository's content must not decide who receives a
//! password. (Flux sends them to any host.)

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use reqwest::Url;

use crate::{
    commit::Commit,
    fetch::FetchError,
    kind::Kind,
    mirrors::Mirrors,
    reference::Revision,
    remote::{ByteBudget, Credentials, Endpoint, Remote, Scheme, UrlError},
    tree::{Mode, Tree, TreeError},
};

const FILE: &str = ".gitmodules";
const SUBMODULES_MAX: usize = 100;
/// As deep as Flux.
const DEPTH_MAX: usize = 10;
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The sections of a `.gitmodules`, also those of other names.
const SECTIONS_MAX: usize = 1_000;

/// A fetched submodule.
#[derive(Debug, Clone)]
pub struct Submodule {
    /// The path from the outermost commit.
    pub path: String,
    /// Its content.
    pub tree: Tree,
}

/// The reason why a commit's submodules cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum SubmoduleError {
    /// `.gitmodules` is invalid.
    #[error("{path:?} cannot be read")]
    File {
        /// The path of the file.
        path: String,
        /// The reason.
        source: ModulesError,
    },
    /// The URL is refused.
    #[error("the url of submodule {path:?} is refused")]
    Url {
        /// The path of the submodule.
        path: String,
        /// The reason.
        source: SubmoduleUrlError,
    },
    /// There are too many submodules.
    #[error("more than {max} submodules")]
    Count {
        /// The limit.
        max: usize,
    },
    /// Submodules are nested too deeply.
    #[error("submodule {path:?} is nested deeper than {max} submodules")]
    Depth {
        /// The path of the submodule.
        path: String,
        /// The limit.
        max: usize,
    },
    /// The timeout for all submodules has passed.
    #[error("its submodules took longer than {seconds}s in total, up to {path:?}")]
    Timeout {
        /// The next submodule.
        path: String,
        /// The timeout.
        seconds: f64,
    },
    /// The commit cannot be fetched.
    #[error("cannot fetch submodule {path:?}")]
    Fetch {
        /// The path of the submodule.
        path: String,
        /// The reason.
        source: Box<FetchError>,
    },
    /// The tree of a commit cannot be read.
    #[error("cannot look for submodules in {path:?}")]
    Tree {
        /// The path.
        path: String,
        /// The reason.
        source: TreeError,
    },
}

/// The reason why a `.gitmodules` is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// It cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It is a directory or a link.
    #[error("it is not a file")]
    Kind,
    /// It is too large.
    #[error("it has more than {max} bytes")]
    Bytes {
        /// The limit.
        max: u64,
    },
    /// It has too many sections.
    #[error("it has more than {max} sections; remove some")]
    Sections {
        /// The limit.
        max: usize,
    },
    /// It is not text.
    #[error("it is not UTF-8")]
    Text,
    /// It is not a git configuration file.
    #[error(transparent)]
    Syntax(#[from] gix::config::parse::Error),
    /// It contains a path outside the repository.
    #[error("the path {0:?} is invalid")]
    Path(String),
}

/// The reason why the URL of a submodule is refused.
#[derive(Debug, thiserror::Error)]
pub enum SubmoduleUrlError {
    /// It is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// It looks like something other than a URL.
    #[error("it looks like an option or contains control characters")]
    Hostile,
    /// It contains a password, which every reader of the repository sees.
    #[error("it contains a password")]
    Password,
    /// It names a remote helper program.
    #[error("remote helpers are not supported")]
    Helper,
    /// It is a path on this machine.
    #[error(
        "a local path is not followed: use https://HOST/PATH, ssh://git@HOST/PATH or one that is relative to \
         the repository's url"
    )]
    Local,
    /// Its base is not a URL.
    #[error("its parent's url is malformed")]
    Parent,
    /// It has more `..` than its parent's path has names.
    #[error("it leaves the parent's host")]
    Leaves,
}

impl SubmoduleError {
    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        match self {
            // a later commit may fix it
            Self::File { .. } | Self::Url { .. } => Kind::Protocol,
            Self::Count { .. } | Self::Depth { .. } => Kind::Limit,
            Self::Timeout { .. } => Kind::Timeout,
            Self::Fetch { source, .. } => source.kind(),
            Self::Tree { .. } => Kind::Storage,
        }
    }
}

impl Mirrors {
    /// Fetches the submodules of a commit, outer ones first. They share the remote's timeout and one byte
    /// limit.
    ///
    /// # Errors
    /// One of them cannot be fetched; there is no partial result.
    pub fn submodules(&self, remote: &Remote, commit: &Commit) -> Result<Vec<Submodule>, SubmoduleError> {
        let mut found = Vec::new();
        let mut walk = Walk {
            mirrors: self,
            deadline: Instant::now() + remote.timeout,
            timeout: remote.timeout,
            found: &mut found,
        };
        let remote = Remote {
            byte_budget: Some(ByteBudget::of(self.limits().pack_bytes_max)),
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
            // ignore paths outside the repository and paths without a committed submodule
            let names = own.split('/');
            if own.is_empty() || names.clone().any(|name| matches!(name, "" | "." | "..")) {
                continue;
            }
            // a large tree takes a while to search, also without any submodule
            let timeout = self.deadline.saturating_duration_since(Instant::now());
            if timeout.is_zero() {
                return Err(SubmoduleError::Timeout {
                    path,
                    seconds: self.timeout.as_secs_f64(),
                });
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

#[derive(Debug, Default)]
struct Module {
    path: String,
    url: Option<String>,
}

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
    parsed(text).map_err(unreadable)
}

/// In the order of their first sections.
fn parsed(text: &str) -> Result<Vec<Module>, ModulesError> {
    let file = gix::config::File::try_from(text)?;
    let mut modules: Vec<Module> = Vec::new();
    let mut places = HashMap::new();
    // as in git, sections may repeat and the last value counts; gix finds sections by name in quadratic time
    for (number, section) in file.sections().enumerate() {
        if number == SECTIONS_MAX {
            return Err(ModulesError::Sections { max: SECTIONS_MAX });
        }
        let header = section.header();
        if !header.name().eq_ignore_ascii_case(b"submodule") {
            continue;
        }
        let name = header.subsection_name();
        let name = name.map(ToString::to_string).unwrap_or_default();
        let place = *places.entry(name).or_insert(modules.len());
        if place == modules.len() {
            modules.push(Module::default());
        }
        let Some(module) = modules.get_mut(place) else {
            continue;
        };
        let value = |key: &str| section.value(key).map(|value| value.to_string());
        module.path = value("path").unwrap_or_else(|| std::mem::take(&mut module.path));
        module.url = value("url").or(module.url.take());
    }
    Ok(modules)
}

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

/// As in git, each `..` removes one name of the parent's path.
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
    // credentials of the parent's URL do not apply to another address
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

    use super::{Module, ModulesError, SECTIONS_MAX, SubmoduleUrlError, Walk, absolute, parsed, relative};
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
            // an app's mirror identity is dropped with its token
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
    fn sections_are_merged_by_name_and_limited() {
        let modules = parsed(
            "[submodule \"b\"]\n\tpath = b\n[core]\n\tpath = x\n[SubModule \"a\"]\n\tpath = a\n\turl = u\n\
             [submodule \"b\"]\n\turl = v\n[submodule \"B\"]\n",
        );
        let shown = |module: &Module| format!("{} {:?}", module.path, module.url);
        let modules: Vec<String> = modules.unwrap().iter().map(shown).collect();
        assert_eq!(modules, [r#"b Some("v")"#, r#"a Some("u")"#, " None"]);
        let sections = |count: usize| -> String {
            let section = |number| format!("[submodule \"{number}\"]\n\tpath = p{number}\n");
            (0..count).map(section).collect()
        };
        assert_eq!(parsed(&sections(SECTIONS_MAX)).unwrap().len(), SECTIONS_MAX);
        let refused = parsed(&sections(SECTIONS_MAX + 1));
        assert!(
            matches!(refused, Err(ModulesError::Sections { max: SECTIONS_MAX })),
            "{refused:?}"
        );
        // other sections take time, too
        let others = "[a]\n".repeat(SECTIONS_MAX + 1);
        let refused = parsed(&others);
        assert!(
            matches!(refused, Err(ModulesError::Sections { max: SECTIONS_MAX })),
            "{refused:?}"
        );
    }

    #[test]
    fn submodule_urls_are_resolved_or_refused() {
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
        let refused = relative("not a url", "../x");
        assert!(matches!(refused, Err(SubmoduleUrlError::Parent)), "{refused:?}");
    }
}
