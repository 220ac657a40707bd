//! Credentials of a registry, and the choice among the entries of a dockerconfigjson.
//!
//! The choice is that of Kubernetes' keyring, as go-containerregistry has it: an entry counts for a host
//! (with wildcards for its labels) and the paths that begin with its own; the last entry in the order of
//! names counts, which is the longest one of a host.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::name::Repository;

/// The proof of an identity. `Debug` shows a mask.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: SecretString,
    },
    /// A refresh token, which the token server exchanges.
    Identity(SecretString),
    /// A token for the registry itself.
    Bearer(SecretString),
}

impl Credentials {
    /// The fields, for a hash.
    pub(crate) fn fields(&self) -> [&str; 3] {
        match self {
            Self::Basic { username, password } => ["basic", username, password.expose_secret()],
            Self::Identity(token) => ["identity", "", token.expose_secret()],
            Self::Bearer(token) => ["bearer", "", token.expose_secret()],
        }
    }
}

/// A dockerconfigjson cannot be read. The text quotes none of its values.
#[derive(Debug, thiserror::Error)]
pub enum DockerConfigError {
    /// It is not the JSON of a docker configuration.
    #[error("it is not the JSON of a docker configuration (line {line}, column {column})")]
    Json {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// The `auth` of an entry is not base64 of a name, a colon and a password.
    #[error("the auth of entry {0:?} is not base64 of name:password")]
    Auth(String),
    /// The name of an entry is not a host with an optional path.
    #[error("entry {0:?} is not a host with an optional path")]
    Entry(String),
}

/// The entries of one or more docker configurations.
#[derive(Clone, Default)]
pub struct DockerConfig {
    /// By host and path; of one name, the first given counts.
    entries: BTreeMap<String, Option<Credentials>>,
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    auths: BTreeMap<String, WireEntry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl DockerConfig {
    /// Adds the entries of a `.dockerconfigjson`.
    ///
    /// # Errors
    /// It is malformed.
    pub fn add(&mut self, json: &[u8]) -> Result<(), DockerConfigError> {
        let wire: Wire = serde_json::from_slice(json).map_err(|error| malformed(&error))?;
        self.take(wire.auths)
    }

    /// Adds the entries of a `.dockercfg`, the older format.
    ///
    /// # Errors
    /// It is malformed.
    pub fn add_legacy(&mut self, json: &[u8]) -> Result<(), DockerConfigError> {
        let auths = serde_json::from_slice(json).map_err(|error| malformed(&error))?;
        self.take(auths)
    }

    fn take(&mut self, auths: BTreeMap<String, WireEntry>) -> Result<(), DockerConfigError> {
        for (name, entry) in auths {
            let key = key(&name).ok_or_else(|| DockerConfigError::Entry(name.chars().take(200).collect()))?;
            let credentials = credentials(&name, entry)?;
            self.entries.entry(key).or_insert(credentials);
        }
        Ok(())
    }

    /// Whether there are entries at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The credentials for a repository.
    #[must_use]
    pub fn find(&self, repository: &Repository) -> Option<&Credentials> {
        let (host, path) = (repository.registry(), format!("/{}", repository.path()));
        let mut longest_first = self.entries.iter().rev();
        let found = longest_first.find(|(key, _)| counts(key, host, &path));
        found.and_then(|(_, credentials)| credentials.as_ref())
    }
}

/// serde_json's own text may quote values.
fn malformed(error: &serde_json::Error) -> DockerConfigError {
    DockerConfigError::Json {
        line: error.line(),
        column: error.column(),
    }
}

fn credentials(name: &str, entry: WireEntry) -> Result<Option<Credentials>, DockerConfigError> {
    let WireEntry {
        auth,
        username,
        password,
        identitytoken,
        registrytoken,
    } = entry;
    let filled = |token: Option<String>| token.filter(|token| !token.is_empty()).map(SecretString::from);
    if let Some(token) = filled(registrytoken) {
        return Ok(Some(Credentials::Bearer(token)));
    }
    if let Some(token) = filled(identitytoken) {
        return Ok(Some(Credentials::Identity(token)));
    }
    if let Some(auth) = auth.filter(|auth| !auth.is_empty()) {
        let wrong = || DockerConfigError::Auth(name.chars().take(200).collect());
        let pair = STANDARD.decode(auth.trim()).map_err(|_| wrong())?;
        let pair = String::from_utf8(pair).map_err(|_| wrong())?;
        let (username, password) = pair.split_once(':').ok_or_else(wrong)?;
        return Ok(Some(Credentials::Basic {
            username: username.to_owned(),
            password: password.trim_matches('\0').into(),
        }));
    }
    let username = username.unwrap_or_default();
    let password = password.unwrap_or_default();
    let is_anonymous = username.is_empty() && password.is_empty();
    Ok((!is_anonymous).then(|| Credentials::Basic {
        username,
        password: password.into(),
    }))
}

/// `https://index.docker.io/v1/` is `index.docker.io`.
fn key(name: &str) -> Option<String> {
    let bare = name
        .strip_prefix("https://")
        .or_else(|| name.strip_prefix("http://"))
        .unwrap_or(name);
    let (host, path) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
    // wildcards are no characters of URLs' hosts
    let plain = host.replace(['*', '?'], "x");
    let valid = Url::parse(&format!("https://{plain}/")).is_ok_and(|url| url.username().is_empty());
    let is_version = path.starts_with("/v1/") || path.starts_with("/v2/");
    let path = if is_version { &path[3..] } else { path };
    let path = if path == "/" { "" } else { path };
    (valid && !host.is_empty()).then(|| format!("{host}{path}"))
}

fn counts(key: &str, host: &str, path: &str) -> bool {
    let (own_host, own_path) = key.split_at(key.find('/').unwrap_or(key.len()));
    let split = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name.to_owned(), port.to_owned()),
        _ => (host.to_owned(), String::new()),
    };
    let ((own_name, own_port), (name, port)) = (split(own_host), split(host));
    let (own_labels, labels): (Vec<_>, Vec<_>) = (own_name.split('.').collect(), name.split('.').collect());
    own_port == port
        && own_labels.len() == labels.len()
        && path.starts_with(own_path)
        && own_labels
            .iter()
            .zip(&labels)
            .all(|(own, label)| glob(own.as_bytes(), label.as_bytes()))
}

/// `*` stands for any characters, `?` for one. Iterative: the pattern is a tenant's.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while pos < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, pos));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[pos] => {
                at += 1;
                pos += 1;
            }
            _ => match star {
                Some((star_at, star_pos)) => {
                    star = Some((star_at, star_pos + 1));
                    (at, pos) = (star_at + 1, star_pos + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> DockerConfig {
        let mut config = DockerConfig::default();
        config.add(json.as_bytes()).unwrap();
        config
    }

    #[test]
    fn the_entry_of_host_and_path_counts() {
        let all = config(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"username": "hub", "password": "p"},
                "ghcr.io": {"username": "host", "password": "p"},
                "ghcr.io/org": {"username": "org", "password": "p"},
                "*.example.com": {"username": "wild", "password": "p"},
                "localhost:5000": {"auth": "bWU6cGE6c3M="},
                "empty.io": {}
            }}"#,
        );
        #[track_caller]
        fn check(all: &DockerConfig, name: &str, want: Option<&str>) {
            let repository = Repository::parse(name).unwrap();
            let got = all.find(&repository).map(Credentials::fields);
            assert_eq!(got.map(|[_, username, _]| username), want, "{name}");
        }
        check(&all, "app", Some("hub"));
        check(&all, "ghcr.io/other/app", Some("host"));
        check(&all, "ghcr.io/org/app", Some("org"));
        check(&all, "a.example.com/x", Some("wild"));
        check(&all, "a.b.example.com/x", None);
        check(&all, "localhost:5000/x", Some("me"));
        check(&all, "localhost:5001/x", None);
        check(&all, "empty.io/x", None);
        let own = all.find(&Repository::parse("localhost:5000/x").unwrap()).unwrap();
        assert_eq!(own.fields(), ["basic", "me", "pa:ss"]);
        assert!(!format!("{all:?}{own:?}").contains("pa:ss"));
    }

    #[test]
    fn tokens_come_before_passwords_and_malformed_entries_are_named() {
        let all = config(r#"{"auths": {"a.io": {"auth": "eDp5", "identitytoken": "t"}}}"#);
        let found = all.find(&Repository::parse("a.io/x").unwrap()).unwrap();
        assert_eq!(found.fields(), ["identity", "", "t"]);
        let mut legacy = DockerConfig::default();
        legacy
            .add_legacy(br#"{"a.io": {"username": "u", "password": "p"}}"#)
            .unwrap();
        assert!(legacy.find(&Repository::parse("a.io/x").unwrap()).is_some());
        #[track_caller]
        fn check(json: &str, want: &str) {
            let error = DockerConfig::default().add(json.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
        check(
            "{",
            "it is not the JSON of a docker configuration (line 1, column 1)",
        );
        check(
            r#"{"auths": {"a.io": {"auth": "%"}}}"#,
            r#"the auth of entry "a.io" is not base64 of name:password"#,
        );
        check(
            r#"{"auths": {"": {}}}"#,
            r#"entry "" is not a host with an optional path"#,
        );
    }
}
