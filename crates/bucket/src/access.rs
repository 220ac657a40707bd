//! How a store is reached: the namespace that asks, credentials, certificates, proxy, time.

use std::time::Duration;

use equate_egress::{Egress, Proxy};
use secrecy::{ExposeSecret as _, SecretString};

use crate::azure::AzureCredentials;
use crate::error::{Problem, Reason};
use crate::google::ServiceAccount;
use crate::identity::Identity;
use crate::place::Kind;
use crate::tokens;

const AGENT: &str = concat!("equate/", env!("CARGO_PKG_VERSION"));
/// A host that sends nothing for this long is unreachable.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(90);

/// How a store is reached. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Access {
    /// The namespace whose share of connections is used.
    pub namespace: String,
    /// The API of the store, with credentials.
    pub api: Api,
    /// The region of the bucket; found out if none.
    pub region: Option<String>,
    /// Certificates, PEM, trusted in addition to the machine's.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate and its key, PEM.
    pub identity: Option<SecretString>,
    /// The proxy.
    pub proxy: Option<Proxy>,
    /// Plain HTTP.
    pub insecure: bool,
    /// The time for all operations together.
    pub timeout: Duration,
}

/// The API of a store, with credentials for it.
#[derive(Debug, Clone)]
pub enum Api {
    /// That of S3; anonymous without keys.
    S3(Option<Credentials>),
    /// That of S3, with temporary keys.
    S3As(Identity),
    /// That of Google Cloud Storage.
    Google(ServiceAccount),
    /// That of Azure Blob Storage.
    Azure(AzureCredentials),
}

impl Api {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::S3(_) | Self::S3As(_) => Kind::S3,
            Self::Google(_) => Kind::Google,
            Self::Azure(_) => Kind::Azure,
        }
    }

    pub(crate) fn has_credentials(&self) -> bool {
        !matches!(self, Self::S3(None))
    }
}

/// A pair of keys.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: SecretString,
}

impl Access {
    /// Anonymous access of a namespace to an S3-compatible store.
    #[must_use]
    pub fn new(namespace: &str, timeout: Duration) -> Self {
        Self {
            namespace: namespace.to_owned(),
            api: Api::S3(None),
            region: None,
            ca: None,
            identity: None,
            proxy: None,
            insecure: false,
            timeout,
        }
    }

    /// The same namespace, proxy and time, with other certificates.
    pub(crate) fn trusting(&self, ca: Option<Vec<u8>>, identity: Option<SecretString>) -> Self {
        Self {
            ca,
            identity,
            proxy: self.proxy.clone(),
            ..Self::new(&self.namespace, self.timeout)
        }
    }

    /// A hash of what makes a client.
    pub(crate) fn key(&self, trusts_hosts: bool) -> [u8; 32] {
        let proxy = self.proxy.as_ref();
        let login = proxy.and_then(|proxy| proxy.credentials.as_ref());
        let fields = [
            self.ca.as_deref().unwrap_or_default(),
            self.identity
                .as_ref()
                .map_or(&[], |pem| pem.expose_secret().as_bytes()),
            proxy.map_or(&[], |proxy| proxy.address.as_bytes()),
            login.map_or(&[], |(name, _)| name.as_bytes()),
            login.map_or(&[], |(_, password)| password.expose_secret().as_bytes()),
            &[u8::from(trusts_hosts)],
        ];
        tokens::hash(fields)
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
        if egress.trusts_hosts() {
            // as AWS's SDKs: a proxy of the environment is not for services of the platform
            builder = builder.no_proxy();
        }
        if let Some(proxy) = &self.proxy {
            let through = egress.through(proxy);
            builder = builder.proxy(through.map_err(|error| wrong("the proxy is unusable").because(error))?);
        }
        builder
            .build()
            .map_err(|error| wrong("cannot build an http client").because(error))
    }
}
