//! The user's own credentials, for repositories that the user named. Only `equate up` has them.
//!
//! The caller finds them; this module decides which repository gets which. Every repository is asked without
//! credentials first, and none gets them over plain http, except on this machine. Accepted credentials are
//! kept in memory.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    kind::Kind,
    remote::{self, Credentials, Endpoint, Remote, Scheme, UrlError},
};

type Find = dyn Fn(&OwnRemote) -> Option<Credentials> + Send + Sync;

/// A place where the user keeps credentials.
#[derive(Clone)]
pub struct CredentialSource {
    /// Its name in messages.
    pub name: String,
    find: Arc<Find>,
}

impl CredentialSource {
    /// A place that has credentials for some remotes. `find` may block and run programs.
    pub fn new(
        name: impl Into<String>,
        find: impl Fn(&OwnRemote) -> Option<Credentials> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            find: Arc::new(find),
        }
    }

    /// The credentials for a remote.
    pub fn find(&self, remote: &OwnRemote) -> Option<Credentials> {
        (self.find)(remote)
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialSource").field(&self.name).finish()
    }
}

/// A remote that needs credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnRemote {
    /// `https`, `http` or `ssh`.
    pub scheme: &'static str,
    /// The host, and its port if it is not the default.
    pub host: String,
    /// The path without its leading slash.
    pub path: String,
    /// The user in the URL.
    pub user: Option<String>,
}

impl OwnRemote {
    fn of(endpoint: &Endpoint) -> Self {
        Self {
            scheme: endpoint.scheme.text(),
            host: endpoint.authority(),
            path: endpoint.decoded_path().trim_start_matches('/').to_owned(),
            user: endpoint.user.clone(),
        }
    }
}

/// The repositories that may have the user's credentials, and the places to look for them.
#[derive(Debug, Default)]
pub struct OwnCredentials {
    repository: Option<String>,
    hosts: BTreeSet<String>,
    sources: Vec<CredentialSource>,
    accepted: Mutex<HashMap<String, Credentials>>,
}

impl OwnCredentials {
    /// Looks in these places, in order.
    pub fn new(sources: Vec<CredentialSource>) -> Self {
        Self {
            sources,
            ..Self::default()
        }
    }

    /// Allows them for the repository at a URL.
    #[must_use]
    pub fn for_repository(mut self, url: &str) -> Self {
        self.repository = Some(remote::normal(url));
        self
    }

    /// Allows them for all repositories of a host, such as `github.com` or `git.example.org:8443`.
    #[must_use]
    pub fn for_host(mut self, host: &str) -> Self {
        self.hosts.insert(host.to_ascii_lowercase());
        self
    }

    /// Whether a URL may have them.
    pub(crate) fn covers(&self, url: &str) -> bool {
        let Ok(endpoint) = Endpoint::parse(url) else {
            return false;
        };
        self.repository.as_deref() == Some(&endpoint.normal()) || self.hosts.contains(&endpoint.authority())
    }

    /// The remote with the credentials that its host accepted.
    pub(crate) fn known(&self, remote: &Remote) -> Remote {
        let place = remote::normal(&remote.url);
        match self.accepted().get(&place) {
            Some(known) if remote.credentials == Credentials::None => Remote {
                credentials: known.clone(),
                ..remote.clone()
            },
            _ => remote.clone(),
        }
    }

    /// The ways to read a repository that may not have them.
    pub(crate) fn advice_to_allow(&self, url: &str) -> Option<String> {
        let endpoint = Endpoint::parse(url).ok()?;
        let host = endpoint.authority();
        Some(format!(
            "use your own credentials with --credentials-for {host}, add the Secret of spec.secretRef, or read a clone \
             with --instead-of {endpoint}=DIRECTORY"
        ))
    }

    /// Runs an operation without credentials, then with those of each place, until the host accepts.
    pub(crate) fn attempt<T, E>(
        &self,
        remote: &Remote,
        operation: impl Fn(&Remote) -> Result<T, E>,
        kind: impl Fn(&E) -> Kind,
        advise: impl Fn(E, &str) -> E,
    ) -> Result<T, E> {
        let plain = remote.credentials == Credentials::None && remote.principal.is_none();
        let Ok(endpoint) = Endpoint::parse(&remote.url) else {
            return operation(remote);
        };
        if !plain || endpoint.password.is_some() {
            return operation(remote);
        }
        let refused = |error: &E| matches!(kind(error), Kind::Authentication | Kind::RepositoryNotFound);
        let missing =
            |error: &E| refused(error) || kind(error) == Kind::UrlInvalid && endpoint.scheme == Scheme::Ssh;
        if !self.covers(&remote.url) {
            let advice = self.advice_to_allow(&remote.url).unwrap_or_default();
            let result = operation(remote);
            return result.map_err(|error| {
                if missing(&error) {
                    advise(error, &advice)
                } else {
                    error
                }
            });
        }
        let with = |credentials: Credentials| Remote {
            credentials,
            ..remote.clone()
        };
        let place = endpoint.normal();
        let known = self.accepted().get(&place).cloned();
        if let Some(known) = known {
            match operation(&with(known)) {
                Err(error) if refused(&error) => {
                    self.accepted().remove(&place);
                }
                result => return result,
            }
        }
        let mut last = match operation(remote) {
            Err(error) if missing(&error) => error,
            result => return result,
        };
        let mut tried = Vec::new();
        let sources: &[CredentialSource] = match is_private(&endpoint) {
            true => &self.sources,
            false => &[],
        };
        for source in sources {
            let Some(credentials) = source.find(&OwnRemote::of(&endpoint)) else {
                continue;
            };
            tried.push(source.name.as_str());
            match operation(&with(credentials.clone())) {
                Err(error) if refused(&error) => last = error,
                Ok(done) => {
                    self.accepted().insert(place, credentials);
                    return Ok(done);
                }
                result => return result,
            }
        }
        Err(advise(last, &advice(&endpoint, &tried)))
    }

    fn accepted(&self) -> MutexGuard<'_, HashMap<String, Credentials>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether others on the way cannot read what is sent.
fn is_private(endpoint: &Endpoint) -> bool {
    let loopback = || {
        let host = endpoint.bare_host();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    endpoint.scheme != Scheme::Http || loopback()
}

fn advice(endpoint: &Endpoint, tried: &[&str]) -> String {
    let tried = match (tried, is_private(endpoint)) {
        (_, false) => "your credentials are not sent over plain http; ".to_owned(),
        ([], true) => "no credentials were found; ".to_owned(),
        (tried, true) => format!("tried {}; ", tried.join(", ")),
    };
    match endpoint.scheme {
        Scheme::Ssh => format!(
            "{tried}add a key to the ssh agent or to ~/.ssh and the host to ~/.ssh/known_hosts, use the https url, or \
             clone it and give the directory"
        ),
        Scheme::Http | Scheme::Https => format!(
            "{tried}sign in with git or set a token (git credential, ~/.netrc, GITHUB_TOKEN), give --username and \
             --password-file, or clone it and give the directory"
        ),
    }
}

impl UrlError {
    pub(crate) fn advised(self, advice: &str) -> Self {
        match self {
            Self::SshCredentials => Self::NoSshKey {
                advice: advice.to_owned(),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    fn password(name: &'static str) -> CredentialSource {
        CredentialSource::new(name, move |_| {
            Some(Credentials::Basic {
                username: name.to_owned(),
                password: Secret::new(name),
            })
        })
    }

    fn attempt(own: &OwnCredentials, url: &str, accepts: &str) -> (Vec<String>, Result<(), String>) {
        let asked = Mutex::new(Vec::new());
        let operation = |remote: &Remote| {
            let user = match &remote.credentials {
                Credentials::Basic { username, .. } => username.clone(),
                _ => "-".to_owned(),
            };
            asked.lock().unwrap().push(user.clone());
            if user == accepts {
                Ok(())
            } else {
                Err(String::new())
            }
        };
        let advise = |_, advice: &str| advice.to_owned();
        let done = own.attempt(&Remote::new(url), operation, |_| Kind::Authentication, advise);
        (asked.into_inner().unwrap(), done)
    }

    #[test]
    fn each_place_is_tried_until_the_host_accepts() {
        let absent = CredentialSource::new("absent", |_| None);
        let sources = vec![absent, password("a"), password("b"), password("c")];
        let own = OwnCredentials::new(sources).for_repository("https://h/x.git");
        assert_eq!(attempt(&own, "https://h/x", "-").0, ["-"]);
        assert_eq!(
            attempt(&own, "https://h/x", "b"),
            (vec!["-".into(), "a".into(), "b".into()], Ok(()))
        );
        // what was accepted is used again, and dropped when it is refused
        assert_eq!(attempt(&own, "https://H:443/x/", "b").0, ["b"]);
        assert_eq!(attempt(&own, "https://h/x", "c").0, ["b", "-", "a", "b", "c"]);
        let (asked, done) = attempt(&own, "https://h/x", "nobody");
        assert_eq!(asked, ["c", "-", "a", "b", "c"]);
        let advice = done.unwrap_err();
        assert!(advice.starts_with("tried a, b, c; sign in with git"), "{advice}");
    }

    #[test]
    fn credentials_go_only_to_named_repositories_and_hosts() {
        let own = OwnCredentials::new(vec![password("a")])
            .for_repository("https://h/x")
            .for_host("Other:8443");
        let check = |url: &str, expected: &[&str], says: &str| {
            let (asked, done) = attempt(&own, url, "nobody");
            assert_eq!(asked, expected, "{url}");
            let advice = done.unwrap_err();
            assert!(advice.contains(says), "{url}: {advice}");
        };
        check("https://h/x", &["-", "a"], "--password-file");
        check("https://h/y", &["-"], "--credentials-for h,");
        check("https://h.evil.org/x", &["-"], "--credentials-for h.evil.org,");
        check("https://other:8443/y", &["-", "a"], "--password-file");
        check("https://other/y", &["-"], "--credentials-for other,");
        let own = OwnCredentials::new(vec![password("a")]).for_repository("http://h/x");
        assert_eq!(attempt(&own, "http://h/x", "a").0, ["-"]);
        let advice = attempt(&own, "http://h/x", "a").1.unwrap_err();
        assert!(
            advice.starts_with("your credentials are not sent over plain http"),
            "{advice}"
        );
    }
}
