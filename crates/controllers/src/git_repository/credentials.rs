//! What a Secret says about opening a repository: the keys Flux reads, for the URL's protocol.
//!
//! Read when it is needed and kept nowhere. Nothing of it is in an error but the names of keys.

use std::collections::BTreeMap;

use equate_api::meta::Reason;
use equate_git::{Credentials, Remote, Secret};
use k8s_openapi::ByteString;
use thiserror::Error;

use super::declared::Declared;

/// Why there are no usable credentials.
#[derive(Debug, Error)]
pub(crate) enum SecretError {
    #[error("failed to get secret '{namespace}/{name}'")]
    Read {
        namespace: String,
        name: String,
        #[source]
        source: kube::Error,
    },
    #[error("failed to get secret '{namespace}/{name}': it does not exist")]
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
}

impl SecretError {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::GithubApp { .. } => Reason::InvalidProviderConfiguration,
            Self::Read { .. }
            | Self::Absent { .. }
            | Self::Key { .. }
            | Self::NoSecret
            | Self::Text { .. } => Reason::AuthenticationFailed,
        }
    }
}

/// The remote of a repository, opened by what is in its Secret.
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
    if keys.get("githubAppID").is_some() {
        let (namespace, name) = keys.place();
        return Err(SecretError::GithubApp { namespace, name });
    }
    let remote = plain.with_credentials(if ssh { keys.ssh()? } else { keys.http()? });
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

    /// An empty value is no value, as with Flux.
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.data
            .get(key)
            .map(|value| &*value.0)
            .filter(|value| !value.is_empty())
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
