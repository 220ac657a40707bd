//! Secrets that a source names, in its own namespace. They are read when needed and not kept.

use std::collections::BTreeMap;

use equate_registry::{Proxy, SecretString};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use crate::kit::read::{ReadError, chain, read};

/// As in Flux.
const PROXY_BYTES_MAX: usize = 2048;
const PROXY_SCHEMES: [&str; 3] = ["http", "https", "socks5"];

pub(crate) type SecretData = BTreeMap<String, ByteString>;

/// Why a Secret cannot be read. Callers name it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretReadError {
    #[error("secrets \"{0}\" not found")]
    Absent(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl SecretReadError {
    /// Whether only another spec helps.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Read(ReadError::Name(_)))
    }
}

pub(crate) async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<SecretData, SecretReadError> {
    let found = read::<Secret>(client, namespace, name).await?;
    let found = found.ok_or_else(|| SecretReadError::Absent(name.to_owned()))?;
    Ok(found.data.unwrap_or_default())
}

/// The value of a key. An empty value counts as absent, as in Flux.
pub(crate) fn value<'a>(data: &'a SecretData, key: &str) -> Option<&'a [u8]> {
    let value = data.get(key).map(|value| &*value.0);
    value.filter(|value| !value.is_empty())
}

/// A Secret, or the problem and whether only another spec helps.
pub(crate) async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Secret, (String, bool)> {
    match read::<Secret>(client, namespace, name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err((format!("secret '{namespace}/{name}' not found"), false)),
        Err(error) => {
            let problem = format!("failed to get secret '{namespace}/{name}': {}", chain(&error));
            Err((problem, matches!(error, ReadError::Name(_))))
        }
    }
}

/// The proxy of a Secret.
pub(crate) fn proxy(namespace: &str, name: &str, data: &SecretData) -> Result<Proxy, String> {
    let place = format!("secret '{namespace}/{name}'");
    let text = |key: &str| {
        let value = data.get(key).map(|value| std::str::from_utf8(&value.0));
        let value = value
            .transpose()
            .map_err(|_| format!("{place}: '{key}' is not UTF-8"))?;
        Ok::<_, String>(value.map(str::to_owned))
    };
    let address = text("address")?.ok_or_else(|| format!("{place}: key 'address' not found"))?;
    if address.is_empty() {
        return Err(format!("{place}: proxy address is empty"));
    }
    if address.len() > PROXY_BYTES_MAX {
        return Err(format!(
            "{place}: proxy URL exceeds maximum length of {PROXY_BYTES_MAX} characters"
        ));
    }
    let scheme = address.split(':').next().unwrap_or_default();
    if !PROXY_SCHEMES.contains(&scheme) {
        return Err(format!(
            "{place}: proxy URL must use one of the supported schemes ({}), got '{scheme}'",
            PROXY_SCHEMES.join(", ")
        ));
    }
    let credentials = text("username")?.map(|username| {
        let password = text("password").map(Option::unwrap_or_default);
        password.map(|password| (username, SecretString::from(password)))
    });
    Ok(Proxy {
        address,
        credentials: credentials.transpose()?,
    })
}

/// Certificates, in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pem {
    /// Trusted beside the system's.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificate and its key.
    pub(crate) identity: Option<SecretString>,
}

/// The certificates of a Secret: the keys of Flux, and its older names for them.
pub(crate) fn certificates(namespace: &str, name: &str, data: &SecretData) -> Result<Pem, String> {
    let value = |key: &str, older: &str| {
        let found = data.get(key).or_else(|| data.get(older));
        found.map(|value| &*value.0).filter(|value| !value.is_empty())
    };
    let place = format!("secret '{namespace}/{name}'");
    let ca = value("ca.crt", "caFile");
    let pair = match (value("tls.crt", "certFile"), value("tls.key", "keyFile")) {
        (Some(certificate), Some(key)) => {
            let pem = [certificate, b"\n", key].concat();
            let pem =
                String::from_utf8(pem).map_err(|_| format!("{place}: 'tls.crt' or 'tls.key' is not PEM"))?;
            Some(SecretString::from(pem))
        }
        (Some(_), None) => return Err(format!("{place} contains 'tls.crt' but missing 'tls.key'")),
        (None, Some(_)) => return Err(format!("{place} contains 'tls.key' but missing 'tls.crt'")),
        (None, None) if ca.is_none() => {
            return Err(format!(
                "{place} must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'"
            ));
        }
        (None, None) => None,
    };
    Ok(Pem {
        ca: ca.map(<[u8]>::to_vec),
        identity: pair,
    })
}
