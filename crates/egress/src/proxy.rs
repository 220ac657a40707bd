//! Proxies that tenants name. Their address is checked as that of every other host.

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{Egress, HttpRefusal};

/// A proxy: `http`, `https` or `socks5`.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The URL, without credentials.
    pub address: String,
    /// The credentials.
    pub credentials: Option<(String, SecretString)>,
}

/// A proxy cannot be used. The text quotes no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Its address is not a URL of a proxy.
    #[error("the proxy's address is invalid")]
    Address,
    /// Its address is refused.
    #[error("the proxy may not be dialled")]
    Refused(#[from] HttpRefusal),
}

impl Egress {
    /// A proxy for [`Egress::http`].
    ///
    /// # Errors
    /// Its address is malformed, or may not be dialled.
    pub fn through(&self, proxy: &Proxy) -> Result<reqwest::Proxy, ProxyError> {
        let mut address = Url::parse(&proxy.address).map_err(|_| ProxyError::Address)?;
        if !matches!(address.scheme(), "http" | "https" | "socks5" | "socks5h") || !address.has_host() {
            return Err(ProxyError::Address);
        }
        self.check(&address)?;
        let mut header = None;
        if let Some((name, password)) = &proxy.credentials {
            match address.scheme() {
                // SOCKS has no headers: the client takes credentials from the address
                "socks5" | "socks5h" => address
                    .set_username(name)
                    .and_then(|()| address.set_password(Some(password.expose_secret())))
                    .map_err(|()| ProxyError::Address)?,
                _ => header = Some((name, password.expose_secret())),
            }
        }
        let proxy = reqwest::Proxy::all(address).map_err(|_| ProxyError::Address)?;
        Ok(match header {
            Some((name, password)) => proxy.basic_auth(name, password),
            None => proxy,
        })
    }
}
