//! The address of a repository, and its credentials.
//!
//! Only `http`, `https` and `ssh` are supported: `git://` has no authentication and `ext::` runs a command
//! line. For `file://`, see [`crate::Mirrors::instead_of`]. A URL never displays its password.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::Url;

use crate::secret::Secret;

/// The default timeout of one operation, as in the API.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A remote repository: its URL, credentials and timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// `https://host/path`, `http://host/path` or `ssh://user@host:port/path`.
    pub url: String,
    /// The credentials for the host.
    pub credentials: Credentials,
    /// The limit for one whole operation: `resolve`, `fetch`, or both in one.
    pub timeout: Duration,
    /// PEM certificates that are trusted for this remote in addition to the built-in ones.
    pub ca: Option<Vec<u8>>,
    /// A client certificate and its key, both PEM, in one text.
    pub client_certificate: Option<Secret>,
    /// The proxy for all connections; without one, the environment's.
    pub proxy: Option<Proxy>,
    /// A byte budget for all fetches of this remote. Without one, each fetch has its own limit.
    pub byte_budget: Option<ByteBudget>,
    /// The tenant that fetches. Each has mirrors of its own, so that none waits for the fetches of another.
    pub tenant: Option<String>,
    /// A stable identity for credentials that renew themselves, so that renewed credentials reuse the same
    /// mirror.
    pub principal: Option<Secret>,
}

/// The host of a URL and its port, if it is not the default; none if the URL is not that of a remote.
pub fn host(url: &str) -> Option<String> {
    Endpoint::parse(url).ok().map(|endpoint| endpoint.authority())
}

/// A number of bytes that several fetches share. It does not distinguish remotes.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<AtomicU64>);

impl ByteBudget {
    pub(crate) fn of(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.0.store(self.left().saturating_sub(bytes), Ordering::Relaxed);
    }
}

impl PartialEq for ByteBudget {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ByteBudget {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ProxyProtocol {
    Http,
    Https,
    Socks5,
}

/// A proxy. `Debug` masks its credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    protocol: ProxyProtocol,
    /// Without credentials.
    address: String,
    host: String,
    port: u16,
    username: Option<String>,
    password: Option<Secret>,
}

impl Proxy {
    pub(crate) fn fields(&self) -> [&[u8]; 4] {
        let username = self.username.as_deref().unwrap_or_default();
        let password = self.password.as_ref().map(Secret::expose);
        [
            b"proxy",
            self.address.as_bytes(),
            username.as_bytes(),
            password.unwrap_or_default(),
        ]
    }

    /// Creates a proxy from its address and credentials. Without credentials, those in the address apply.
    ///
    /// # Errors
    /// The address is not that of an HTTP or SOCKS version 5 proxy.
    pub fn new(
        address: &str,
        username: Option<String>,
        password: Option<Secret>,
    ) -> Result<Self, ProxyError> {
        let mut url = Url::parse(address.trim()).map_err(|_| ProxyError::Malformed)?;
        let (protocol, usual) = match url.scheme() {
            "http" => (ProxyProtocol::Http, 80),
            "https" => (ProxyProtocol::Https, 443),
            // in both cases the proxy resolves names, as for Flux
            "socks5" | "socks5h" => (ProxyProtocol::Socks5, 1080),
            other => {
                return Err(ProxyError::Scheme {
                    scheme: other.to_owned(),
                });
            }
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host
            .ok_or(ProxyError::Malformed)?
            .trim_matches(['[', ']'])
            .to_owned();
        let port = url.port().unwrap_or(usual);
        let own = Some(url.username()).filter(|user| !user.is_empty());
        let (username, password) = match (username, own) {
            (Some(username), _) => (Some(username), password),
            (None, Some(own)) => (
                Some(percent_decoded(own)),
                url.password()
                    .map(|password| Secret::new(percent_decoded(password))),
            ),
            (None, None) => (None, None),
        };
        if url
            .set_username("")
            .and_then(|()| url.set_password(None))
            .is_err()
        {
            return Err(ProxyError::Malformed);
        }
        let address = match protocol {
            ProxyProtocol::Http | ProxyProtocol::Https => url.to_string(),
            ProxyProtocol::Socks5 if host.contains(':') => format!("socks5h://[{host}]:{port}"),
            ProxyProtocol::Socks5 => format!("socks5h://{host}:{port}"),
        };
        Ok(Self {
            protocol,
            address,
            host,
            port,
            username,
            password,
        })
    }

    pub(crate) fn protocol(&self) -> ProxyProtocol {
        self.protocol
    }

    pub(crate) fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn credentials(&self) -> Option<(&str, &[u8])> {
        let username = self.username.as_deref()?;
        Some((username, self.password.as_ref().map_or(&[], Secret::expose)))
    }
}

/// An invalid proxy address. It is not displayed, because it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Not a URL.
    #[error("the proxy's address is malformed: write http://HOST:PORT or socks5://HOST:PORT")]
    Malformed,
    /// A scheme that is not supported.
    #[error("a proxy of scheme {scheme:?} is not supported: use http, https or socks5")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
}

impl Remote {
    /// Creates a remote without credentials and with the default timeout.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            credentials: Credentials::None,
            timeout: TIMEOUT,
            ca: None,
            client_certificate: None,
            proxy: None,
            byte_budget: None,
            tenant: None,
            principal: None,
        }
    }

    /// Sets the credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Sets the timeout.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Trusts these PEM certificates in addition.
    #[must_use]
    pub fn with_ca(self, pem: impl Into<Vec<u8>>) -> Self {
        Self {
            ca: Some(pem.into()),
            ..self
        }
    }
}

/// The credentials for a host. `Debug` masks them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// HTTP basic authentication.
    Basic {
        /// The username.
        username: String,
        /// The password or token.
        password: Secret,
    },
    /// `Authorization: Bearer`.
    Bearer(Secret),
    /// An ssh key.
    Ssh {
        /// The private key in OpenSSH's format or PEM.
        identity: Secret,
        /// Lines of a `known_hosts` file. Hosts that are not listed are refused.
        known_hosts: Vec<u8>,
        /// The passphrase of the private key.
        passphrase: Option<Secret>,
    },
    /// The keys of an ssh agent.
    SshAgent {
        /// Its socket.
        socket: PathBuf,
        /// Lines of a `known_hosts` file. Hosts that are not listed are refused.
        known_hosts: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    Ssh,
}

impl Scheme {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ssh => 22,
        }
    }
}

/// A parsed URL. `Display` leaves out the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) scheme: Scheme,
    /// In lower case; an IPv6 address is in brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// Percent-encoded, with its leading slash.
    pub(crate) path: String,
}

/// The reason why a URL is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL. It is not displayed, because it may contain a password.
    #[error("the url is malformed ({problem}): write https://HOST/PATH or ssh://git@HOST/PATH")]
    Malformed {
        /// The parser's message.
        problem: String,
    },
    /// The protocol is not supported.
    #[error("the url's scheme {scheme:?} is not supported: use https, http or ssh")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The host is missing.
    #[error("the url has no host: write https://HOST/PATH")]
    Host,
    /// A host or user that looks like an option, or a path with a line break.
    #[error("the url's {part} is invalid")]
    Part {
        /// The name of the part.
        part: &'static str,
    },
    /// The credentials do not fit the protocol.
    #[error("{credentials} credentials cannot open a url of scheme {scheme:?}")]
    Credentials {
        /// The kind of the credentials.
        credentials: &'static str,
        /// The URL's scheme.
        scheme: &'static str,
    },
    /// ssh requires both.
    #[error("a url of scheme \"ssh\" needs credentials with identity and known_hosts")]
    SshCredentials,
    /// The same, where the user's own credentials are allowed.
    #[error("the host needs an ssh key ({advice})")]
    NoSshKey {
        /// The ways to give one.
        advice: String,
    },
}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let url = Url::parse(url.trim()).map_err(|error| UrlError::Malformed {
            problem: error.to_string(),
        })?;
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "ssh" => Scheme::Ssh,
            other => {
                return Err(UrlError::Scheme {
                    scheme: other.to_owned(),
                });
            }
        };
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(UrlError::Host)?
            .to_ascii_lowercase();
        let decoded = |text: &str| percent_decoded(text);
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(decoded);
        let password = url.password().map(|password| Secret::new(decoded(password)));
        let endpoint = Self {
            scheme,
            host,
            port: url.port(),
            user,
            password,
            path: url.path().to_owned(),
        };
        endpoint.safe()?;
        Ok(endpoint)
    }

    /// Rejects options and control characters in parts that reach a remote command line.
    fn safe(&self) -> Result<(), UrlError> {
        let bad = |text: &str| text.starts_with('-') || text.chars().any(char::is_control);
        let part = |part| Err(UrlError::Part { part });
        if bad(&self.host) || self.host.contains(['%', ' ']) {
            return part("host");
        }
        if self
            .user
            .as_deref()
            .is_some_and(|user| bad(user) || user.contains(['@', ' ']))
        {
            return part("user");
        }
        let path = percent_decoded(&self.path);
        if bad(&path) || path.trim_matches('/').is_empty() {
            return part("path");
        }
        Ok(())
    }

    pub(crate) fn bare_host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    pub(crate) fn ssh_port(&self) -> u16 {
        self.port.unwrap_or_else(|| Scheme::Ssh.port())
    }

    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    pub(crate) fn decoded_path(&self) -> String {
        percent_decoded(&self.path)
    }

    /// Equal for URLs of the same repository: ignores the host's case, a default port, a trailing slash and
    /// `.git`.
    pub(crate) fn normal(&self) -> String {
        let port = self.port.unwrap_or_else(|| self.scheme.port());
        let user = match self.scheme {
            Scheme::Ssh => self.user.as_deref().unwrap_or_default(),
            Scheme::Http | Scheme::Https => "",
        };
        let path = self.path.trim_end_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        format!("{}://{user}@{}:{port}{path}", self.scheme.text(), self.host)
    }

    pub(crate) fn credentials(&self, given: &Credentials) -> Result<Credentials, UrlError> {
        let kind = match given {
            Credentials::None => None,
            Credentials::Basic { .. } => Some(("basic", false)),
            Credentials::Bearer(_) => Some(("bearer", false)),
            Credentials::Ssh { .. } | Credentials::SshAgent { .. } => Some(("ssh", true)),
        };
        match (self.scheme, kind) {
            (Scheme::Ssh, None) => Err(UrlError::SshCredentials),
            (Scheme::Ssh, Some((_, true))) | (Scheme::Http | Scheme::Https, Some((_, false))) => {
                Ok(given.clone())
            }
            (scheme, Some((credentials, _))) => Err(UrlError::Credentials {
                credentials,
                scheme: scheme.text(),
            }),
            (Scheme::Http | Scheme::Https, None) => Ok(match (&self.user, &self.password) {
                (None, None) => Credentials::None,
                (user, password) => Credentials::Basic {
                    username: user.clone().unwrap_or_default(),
                    password: password.clone().unwrap_or_else(|| Secret::new("")),
                },
            }),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.text())?;
        if let (Scheme::Ssh, Some(user)) = (self.scheme, &self.user) {
            write!(f, "{user}@")?;
        }
        write!(f, "{}{}", self.authority(), self.path)
    }
}

pub(crate) fn normal(url: &str) -> String {
    match Endpoint::parse(url) {
        Ok(endpoint) => endpoint.normal(),
        Err(_) => url.trim().trim_end_matches('/').to_owned(),
    }
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Credentials, Endpoint, Secret, normal};

    #[test]
    fn spellings_of_a_url_are_equal() {
        fn check(url: &str, want: &str) {
            assert_eq!(normal(url), want, "{url}");
        }
        check("https://Example.org/fleet.git", "https://@example.org:443/fleet");
        check("https://example.org:443/fleet/", "https://@example.org:443/fleet");
        check(
            "https://me:secret@example.org/fleet",
            "https://@example.org:443/fleet",
        );
        check("http://example.org/Fleet", "http://@example.org:80/Fleet");
        check(
            "ssh://git@Example.org/fleet.git",
            "ssh://git@example.org:22/fleet",
        );
        check(
            "ssh://git@example.org:2222/fleet",
            "ssh://git@example.org:2222/fleet",
        );
        check("not a url/", "not a url");
    }

    #[test]
    fn urls_hide_passwords_and_unsafe_parts_are_refused() {
        fn check(url: &str, want: &str) {
            let got = match Endpoint::parse(url) {
                Ok(endpoint) => endpoint.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(got, want, "{url}");
        }
        check("https://me:hunter2@h/x", "https://h/x");
        check("ssh://git:hunter2@h:22/x", "ssh://git@h:22/x");
        check(
            "git://h/x",
            "the url's scheme \"git\" is not supported: use https, http or ssh",
        );
        check(
            "file:///etc",
            "the url's scheme \"file\" is not supported: use https, http or ssh",
        );
        check(
            "ext::sh -c id",
            "the url's scheme \"ext\" is not supported: use https, http or ssh",
        );
        check("ssh://-oProxyCommand=id/x", "the url's host is invalid");
        check("ssh://-l@h/x", "the url's user is invalid");
        check("ssh://h/x%0ay", "the url's path is invalid");
        check("https://h/", "the url's path is invalid");
        check(
            "git@github.com:org/repo",
            "the url is malformed (relative URL without a base): write https://HOST/PATH or ssh://git@HOST/PATH",
        );
    }

    #[test]
    fn credentials_fit_the_scheme() {
        fn check(url: &str, given: &Credentials, want: &str) {
            let got = match Endpoint::parse(url).unwrap().credentials(given) {
                Ok(credentials) => format!("{credentials:?}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(got, want, "{url}");
        }
        let basic = Credentials::Basic {
            username: "me".to_owned(),
            password: Secret::from("hunter2"),
        };
        check("https://h/x", &Credentials::None, "None");
        check(
            "https://h/x",
            &basic,
            "Basic { username: \"me\", password: [masked] }",
        );
        check(
            "https://you:pa%24s@h/x",
            &Credentials::None,
            "Basic { username: \"you\", password: [masked] }",
        );
        check(
            "ssh://h/x",
            &basic,
            "basic credentials cannot open a url of scheme \"ssh\"",
        );
        check(
            "ssh://h/x",
            &Credentials::None,
            "a url of scheme \"ssh\" needs credentials with identity and known_hosts",
        );
    }
}
