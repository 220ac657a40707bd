//! Reads the credentials of a repository from a Secret: the keys that Flux reads for the URL's protocol.
//!
//! They are read when needed and not kept. Errors have the names of keys only.

use std::collections::BTreeMap;

use equate_api::meta::Reason;
use equate_git::{Credentials, GithubApp, Installation, Proxy, ProxyError, Remote, Secret};
use k8s_openapi::ByteString;
use thiserror::Error;

use super::declared::Declared;
use crate::kit::read::ReadError;
use crate::sources::secrets::value;

#[derive(Debug, Error)]
pub(crate) enum SecretError {
    #[error("failed to get secret '{namespace}/{name}'")]
    Read {
        namespace: String,
        name: String,
        #[source]
        source: ReadError,
    },
    #[error("failed to get secret '{namespace}/{name}': secrets \"{name}\" not found")]
    Absent { namespace: String, name: String },
    #[error(
        "failed to configure authentication options: invalid '{protocol}' auth option: '{key}' is required \
         in secret '{namespace}/{name}'"
    )]
    Key {
        protocol: &'static str,
        key: &'static str,
        namespace: String,
        name: String,
    },
    #[error(
        "failed to configure authentication options: invalid 'ssh' auth option: 'identity' is required: \
         name a Secret with identity and known_hosts in spec.secretRef"
    )]
    NoSecret,
    #[error(
        "failed to configure authentication options: '{key}' in secret '{namespace}/{name}' is not UTF-8"
    )]
    Text {
        key: &'static str,
        namespace: String,
        name: String,
    },
    #[error("secretRef '{namespace}/{name}' has github app data but provider is not set to github")]
    GithubApp { namespace: String, name: String },
    #[error("secretRef with github app data must be specified when provider is set to github")]
    NoGithubApp {
        /// Whether the spec names a Secret, which may be changed.
        named: bool,
    },
    #[error("provider github needs an https URL, not {scheme:?}")]
    GithubScheme { scheme: String },
    #[error("failed to configure authentication options: {problem}: see secret '{namespace}/{name}'")]
    GithubKey {
        problem: &'static str,
        namespace: String,
        name: String,
    },
    #[error("failed to configure proxy options")]
    ProxySecret(#[source] Box<SecretError>),
    #[error("failed to configure proxy options: secret '{namespace}/{name}': {problem}")]
    Proxy {
        problem: String,
        namespace: String,
        name: String,
    },
}

impl SecretError {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::GithubApp { .. } | Self::NoGithubApp { .. } | Self::GithubScheme { .. } => {
                Reason::InvalidProviderConfiguration
            }
            Self::GithubKey { .. }
            | Self::ProxySecret(_)
            | Self::Proxy { .. }
            | Self::Read { .. }
            | Self::Absent { .. }
            | Self::Key { .. }
            | Self::NoSecret
            | Self::Text { .. } => Reason::AuthenticationFailed,
        }
    }
}

impl SecretError {
    /// Whether only another spec helps.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::NoGithubApp { named: false }
            | Self::GithubScheme { .. }
            | Self::Read {
                source: ReadError::Name(_),
                ..
            } => true,
            Self::ProxySecret(error) => error.is_final(),
            _ => false,
        }
    }
}

pub(crate) fn proxy(
    namespace: &str,
    name: &str,
    data: &BTreeMap<String, ByteString>,
) -> Result<Proxy, SecretError> {
    let wrong = |problem: String| SecretError::Proxy {
        problem,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let text = |key: &str| {
        let value = data
            .get(key)
            .map(|value| &*value.0)
            .filter(|value| !value.is_empty());
        let text = value.map(|value| std::str::from_utf8(value).map(str::to_owned));
        text.transpose()
            .map_err(|_| wrong(format!("'{key}' is not UTF-8")))
    };
    let Some(address) = text("address")? else {
        return Err(wrong("proxy address is empty: 'address' is required".to_owned()));
    };
    let password = data.get("password").map(|value| Secret::new(value.0.clone()));
    Proxy::new(&address, text("username")?, password).map_err(|error: ProxyError| wrong(error.to_string()))
}

/// The GitHub App of a repository with `provider: github`.
pub(crate) fn github_app(
    declared: &Declared,
    secret: Option<&BTreeMap<String, ByteString>>,
) -> Result<Option<GithubApp>, SecretError> {
    if !declared.github {
        return Ok(None);
    }
    let scheme = declared.url.split(':').next().unwrap_or_default();
    if !equate_git::accepts_token(&declared.url) {
        return Err(SecretError::GithubScheme {
            scheme: scheme.to_owned(),
        });
    }
    let Some(data) = secret else {
        return Err(SecretError::NoGithubApp { named: false });
    };
    let keys = Keys { declared, data };
    let wrong = |problem| {
        let (namespace, name) = keys.place();
        SecretError::GithubKey {
            problem,
            namespace,
            name,
        }
    };
    let text = |key: &str, problem| {
        let text = keys.get(key).map(std::str::from_utf8).transpose();
        text.map_err(|_| wrong(problem))
    };
    let number = |key: &str, problem| {
        let number = text(key, problem)?.map(|text| text.trim().parse::<u64>());
        number.transpose().map_err(|_| wrong(problem))
    };
    if keys.get("githubAppID").is_none() {
        return Err(SecretError::NoGithubApp { named: true });
    }
    let id = number("githubAppID", "githubAppID is not a number")?;
    let owner = text(
        "githubAppInstallationOwner",
        "githubAppInstallationOwner is not UTF-8",
    )?;
    let installation = number(
        "githubAppInstallationID",
        "githubAppInstallationID is not a number",
    )?;
    let installation = match (owner, installation) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                "only one of app installation owner or ID must be provided to use github app authentication",
            ));
        }
        (None, None) => {
            return Err(wrong(
                "app installation owner or ID must be provided to use github app authentication",
            ));
        }
        (Some(owner), None) => Installation::Owner(owner.trim().to_owned()),
        (None, Some(id)) => Installation::Id(id),
    };
    let private_key = keys
        .get("githubAppPrivateKey")
        .ok_or_else(|| wrong("private key must be provided to use github app authentication"))?;
    let base_url = text("githubAppBaseURL", "githubAppBaseURL is not UTF-8")?;
    Ok(Some(GithubApp {
        id: id.unwrap_or_default(),
        installation,
        private_key: Secret::new(private_key),
        base_url: base_url.map(|url| url.trim().to_owned()),
    }))
}

/// The remote of a repository, with the credentials of its Secret.
pub(crate) fn remote(
    declared: &Declared,
    secret: Option<&BTreeMap<String, ByteString>>,
) -> Result<Remote, SecretError> {
    let plain = Remote::new(&declared.url).with_timeout(declared.timeout);
    let ssh = declared.url.starts_with("ssh://");
    let Some(data) = secret else {
        return if ssh {
            Err(SecretError::NoSecret)
        } else {
            Ok(plain)
        };
    };
    let keys = Keys { declared, data };
    if keys.get("githubAppID").is_some() && !declared.github {
        let (namespace, name) = keys.place();
        return Err(SecretError::GithubApp { namespace, name });
    }
    let remote = match (ssh, declared.github) {
        (true, _) => plain.with_credentials(keys.ssh()?),
        // the app's token replaces all other credentials
        (false, true) => plain,
        (false, false) => plain.with_credentials(keys.http()?),
    };
    if ssh {
        return Ok(remote);
    }
    let ca = keys.get("ca.crt").or_else(|| keys.get("caFile"));
    let client_certificate = match (keys.get("tls.crt"), keys.get("tls.key")) {
        (Some(certificate), Some(key)) => Some(Secret::new([certificate, b"\n", key].concat())),
        (None, None) => None,
        (Some(_), None) => return Err(keys.required("https", "tls.key")),
        (None, Some(_)) => return Err(keys.required("https", "tls.crt")),
    };
    Ok(Remote {
        client_certificate,
        ca: ca.map(<[u8]>::to_vec),
        ..remote
    })
}

struct Keys<'a> {
    declared: &'a Declared,
    data: &'a BTreeMap<String, ByteString>,
}

impl Keys<'_> {
    fn ssh(&self) -> Result<Credentials, SecretError> {
        let identity = self
            .get("identity")
            .ok_or_else(|| self.required("ssh", "identity"))?;
        let known_hosts = self
            .get("known_hosts")
            .ok_or_else(|| self.required("ssh", "known_hosts"))?;
        Ok(Credentials::Ssh {
            identity: Secret::new(identity),
            known_hosts: known_hosts.to_vec(),
            passphrase: self.get("password").map(Secret::new),
        })
    }

    fn http(&self) -> Result<Credentials, SecretError> {
        if let Some(token) = self.get("bearerToken") {
            return Ok(Credentials::Bearer(Secret::new(token)));
        }
        let password = self.get("password");
        let Some(username) = self.get("username") else {
            return match password {
                Some(_) => Err(self.required("https", "username")),
                None => Ok(Credentials::None),
            };
        };
        let username = std::str::from_utf8(username).map_err(|_| {
            let (namespace, name) = self.place();
            SecretError::Text {
                key: "username",
                namespace,
                name,
            }
        })?;
        Ok(Credentials::Basic {
            username: username.to_owned(),
            password: Secret::new(password.unwrap_or_default()),
        })
    }

    fn get(&self, key: &str) -> Option<&[u8]> {
        value(self.data, key)
    }

    fn required(&self, protocol: &'static str, key: &'static str) -> SecretError {
        let (namespace, name) = self.place();
        SecretError::Key {
            protocol,
            key,
            namespace,
            name,
        }
    }

    fn place(&self) -> (String, String) {
        (
            self.declared.key.namespace.clone(),
            self.declared.secret.clone().unwrap_or_default(),
        )
    }
}
