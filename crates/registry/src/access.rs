//! How a registry is reached: the namespace that asks, credentials, certificates, proxy, time.

use std::time::Duration;

use equate_egress::{Egress, Proxy, ProxyError};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::credentials::Credentials;
use crate::error::{Problem, Reason};

const AGENT: &str = concat!("equate/", env!("CARGO_PKG_VERSION"));
/// A host that sends nothing for this long is unreachable.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(90);

/// How a registry is reached. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Access {
    /// The namespace whose share of connections and tokens is used.
    pub namespace: String,
    /// The credentials; anonymous if none.
    pub credentials: Option<Credentials>,
    /// Certificates, PEM, trusted in addition to the machine's.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate and its key, PEM.
    pub identity: Option<SecretString>,
    /// The proxy.
    pub proxy: Option<Proxy>,
    /// Plain HTTP is allowed, and certificates are not checked unless `ca` or `identity` is given.
    pub insecure: bool,
    /// The time for all operations together.
    pub timeout: Duration,
}

impl Access {
    /// Anonymous access of a namespace.
    #[must_use]
    pub fn new(namespace: &str, timeout: Duration) -> Self {
        Self {
            namespace: namespace.to_owned(),
            credentials: None,
            ca: None,
            identity: None,
            proxy: None,
            insecure: false,
            timeout,
        }
    }
}

/// A hash of what makes a client, or of who asks. The secrets are in the client alone.
pub(crate) type Key = [u8; 32];

fn key<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Key {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

impl Access {
    /// One HTTP client is for one combination of these.
    pub(crate) fn client_key(&self) -> Key {
        let proxy = self.proxy.as_ref();
        let login = proxy.and_then(|proxy| proxy.credentials.as_ref());
        key([
            self.ca.as_deref().unwrap_or_default(),
            self.identity
                .as_ref()
                .map_or(&[], |pem| pem.expose_secret().as_bytes()),
            proxy.map_or(&[], |proxy| proxy.address.as_bytes()),
            login.map_or(&[], |(name, _)| name.as_bytes()),
            login.map_or(&[], |(_, password)| password.expose_secret().as_bytes()),
            &[u8::from(self.checks_no_certificates())],
        ])
    }

    /// One token is for one asker, registry and scope.
    pub(crate) fn token_key(&self, origin: &str, scope: &str) -> Key {
        let fields = self.credentials.as_ref().map_or([""; 3], Credentials::fields);
        let fields = fields.map(str::as_bytes);
        let namespace = self.namespace.as_bytes();
        key(fields
            .into_iter()
            .chain([namespace, origin.as_bytes(), scope.as_bytes()]))
    }

    fn checks_no_certificates(&self) -> bool {
        self.insecure && self.ca.is_none() && self.identity.is_none()
    }

    pub(crate) fn client(&self, egress: &Egress) -> Result<reqwest::Client, Problem> {
        // reqwest panics in a process without a default provider. If there is one, this changes nothing.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let wrong = |text: &str| Problem::new(Reason::Configuration, text);
        let mut builder = egress
            .http()
            .pool_idle_timeout(IDLE)
            .read_timeout(SILENCE_MAX)
            .user_agent(AGENT);
        if let Some(pem) = &self.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .map_err(|error| wrong("the given ca is not a PEM certificate").because(error))?;
            builder = builder.tls_certs_merge(certificates);
        }
        if let Some(pem) = &self.identity {
            // the error may quote the key
            let identity = reqwest::Identity::from_pem(pem.expose_secret().as_bytes())
                .map_err(|_| wrong("the client certificate and its key are not valid PEM"))?;
            builder = builder.identity(identity);
        }
        if self.checks_no_certificates() {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(egress.through(proxy).map_err(unusable)?);
        }
        builder
            .build()
            .map_err(|error| wrong("cannot build an http client").because(error))
    }
}

fn unusable(error: ProxyError) -> Problem {
    match error {
        ProxyError::Address => Problem::new(Reason::Configuration, error.to_string()),
        ProxyError::Refused(source) => {
            Problem::new(Reason::Refused, "the proxy may not be dialled").because(source)
        }
    }
}
