//! Chart repositories: how they are addressed, and their parsed indexes.
//!
//! One parsed index serves all charts of a repository. It is kept as the charts need it, while it is used
//! and within a limit of memory; the store has the text.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use equate_api::source::{HelmRepository, HelmRepositorySpec};
use equate_egress::Substitute;
use equate_helm::repository::catalog::Catalog;
use equate_helm::repository::index::{IndexError, IndexLimits};
use equate_source::{Publisher, Storage};
use kube::{Client, Resource as _};
use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::http::{Access, Answer, Certificates, Get, Http, HttpError, Login, Validators, address};
use super::local;
use super::publisher;
use super::secrets::{SecretData, SecretReadError, read_secret, value};
use crate::kit::processors::Processors;
use crate::kit::queue;
use crate::kit::read::chain;

/// The timeout of a HelmRepository without one, as in Flux.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Memory of all parsed indexes.
const INDEXES_BYTES_MAX: usize = 96 << 20;

/// The limits of charts and their indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelmSettings {
    /// Bytes of an index, Flux's `--helm-index-max-size`.
    pub index_bytes_max: u64,
    /// Bytes of a packed chart, Flux's `--helm-chart-max-size`.
    pub chart_bytes_max: u64,
    /// Bytes of one file of a chart, Flux's `--helm-chart-file-max-size`.
    pub chart_file_bytes_max: u64,
    /// How long an unused index stays in memory, Flux's `--helm-cache-ttl`.
    pub index_ttl: Duration,
}

impl Default for HelmSettings {
    fn default() -> Self {
        Self {
            index_bytes_max: 50 << 20,
            chart_bytes_max: 10 << 20,
            chart_file_bytes_max: 5 << 20,
            index_ttl: Duration::from_secs(15 * 60),
        }
    }
}

impl HelmSettings {
    pub(crate) fn chart(&self) -> equate_helm::Limits {
        equate_helm::Limits {
            file_bytes_max: self.chart_file_bytes_max,
            ..equate_helm::Limits::default()
        }
    }

    pub(crate) fn index(&self) -> IndexLimits {
        IndexLimits {
            bytes_max: usize::try_from(self.index_bytes_max).unwrap_or(usize::MAX),
            ..IndexLimits::default()
        }
    }
}

/// Why an index is not available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CatalogError {
    #[error("the store has no index {0}; reconcile the HelmRepository")]
    Absent(String),
    #[error("failed to load index")]
    Index(#[from] IndexError),
    #[error("internal error; see the controller's log")]
    Aborted,
}

/// The services for chart repositories that the controllers of a process share.
pub(crate) struct ChartRepositories {
    http: Http,
    pub(crate) settings: HelmSettings,
    storage: Storage,
    processors: Processors,
    // a few map operations
    indexes: Mutex<HashMap<Publisher, Slot>>,
}

impl fmt::Debug for ChartRepositories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChartRepositories")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A file of the store's disk without a name.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) file: File,
    pub(crate) digest: String,
}

struct Saving {
    file: File,
    hash: Sha256,
}

impl Write for Saving {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

struct Slot {
    /// Locked while the index is parsed: the others wait for it.
    parsed: Arc<tokio::sync::Mutex<Option<Parsed>>>,
    used: Instant,
    weight: usize,
}

struct Parsed {
    digest: String,
    catalog: Arc<Catalog>,
}

impl ChartRepositories {
    pub(crate) fn new(http: Http, settings: HelmSettings, storage: Storage, processors: Processors) -> Self {
        Self {
            http,
            settings,
            storage,
            processors,
            indexes: Mutex::default(),
        }
    }

    /// The directory that stands for a repository, which then needs no credentials.
    pub(crate) fn substitute(&self, home: &Url) -> Option<Substitute> {
        self.http.egress().substitutes().find(home.as_str())
    }

    /// Gets a file of a repository: from the directory that stands for it, or from a host.
    pub(crate) async fn get(&self, get: Get<'_>) -> Result<Answer<Vec<u8>>, HttpError> {
        let Some(place) = self.substitute(&get.access.home) else {
            return self.http.get(get).await;
        };
        Ok(Answer::Body {
            body: self.read(place, get).await?,
            validators: Validators::default(),
        })
    }

    /// Gets an index to a file of the store, and its digest: as [`ChartRepositories::get`] does.
    pub(crate) async fn index(&self, get: Get<'_>) -> Result<Answer<Saved>, HttpError> {
        let scratch = self.storage.scratch();
        let file = scratch.map_err(|error| HttpError::Save(io::Error::other(error)))?;
        let mut saving = Saving {
            file,
            hash: Sha256::new(),
        };
        let validators = match self.substitute(&get.access.home) {
            Some(place) => {
                let bytes = self.read(place, get).await?;
                saving.write_all(&bytes).map_err(HttpError::Save)?;
                Validators::default()
            }
            None => match self.http.save(get, &mut saving).await? {
                Answer::NotModified => return Ok(Answer::NotModified),
                Answer::Body { validators, .. } => validators,
            },
        };
        let body = Saved {
            file: saving.file,
            digest: format!("sha256:{:x}", saving.hash.finalize()),
        };
        Ok(Answer::Body { body, validators })
    }

    async fn read(&self, place: Substitute, get: Get<'_>) -> Result<Vec<u8>, HttpError> {
        let (home, url, settings) = (get.access.home.clone(), get.url.to_owned(), self.settings.clone());
        let bytes_max = get.bytes_max;
        let reading = self.processors.run(get.namespace, move || {
            local::get(&place, &home, &url, bytes_max, &settings)
        });
        reading.done().await.map_err(|_| HttpError::Aborted)?
    }

    /// How the files of a repository are got, with the credentials of its Secrets.
    pub(crate) async fn access(
        &self,
        client: &Client,
        namespace: &str,
        home: Url,
        spec: &AccessSpec,
    ) -> Result<Access, AccessError> {
        let proof = match self.substitute(&home) {
            Some(_) => Proof::default(),
            None => access(client, namespace, spec).await?,
        };
        Ok(Access {
            home,
            login: proof.login,
            passes_login: spec.passes_login,
            certificates: proof.certificates,
        })
    }

    /// The parsed index of a repository's artifact, from memory or from the store.
    pub(crate) async fn catalog(
        &self,
        publisher: &Publisher,
        digest: &str,
    ) -> Result<Arc<Catalog>, CatalogError> {
        let slot = self.slot(publisher);
        // without a worker: the one that parses it waits for one before it lets go
        let mut parsed = queue::computing(slot.lock()).await;
        if let Some(Parsed { catalog, .. }) = parsed.as_ref().filter(|parsed| parsed.digest == digest) {
            return Ok(Arc::clone(catalog));
        }
        let (storage, own, wanted) = (self.storage.clone(), publisher.clone(), digest.to_owned());
        let limits = self.settings.index();
        let reading = self.processors.run(publisher.place().namespace(), move || {
            let stored = storage.open_blob(&own, &wanted);
            let file = stored.ok_or(CatalogError::Absent(wanted))?;
            Ok::<_, CatalogError>(Catalog::read(&mut BufReader::new(file), &limits)?)
        });
        let catalog = Arc::new(reading.done().await.map_err(|_| CatalogError::Aborted)??);
        *parsed = Some(Parsed {
            digest: digest.to_owned(),
            catalog: Arc::clone(&catalog),
        });
        drop(parsed);
        self.weigh(publisher, catalog.weight());
        Ok(catalog)
    }

    /// Keeps an index that was just published.
    pub(crate) async fn keep(&self, publisher: &Publisher, digest: &str, catalog: Arc<Catalog>) {
        let weight = catalog.weight();
        let slot = self.slot(publisher);
        let mut parsed = queue::computing(slot.lock()).await;
        *parsed = Some(Parsed {
            digest: digest.to_owned(),
            catalog,
        });
        drop(parsed);
        self.weigh(publisher, weight);
    }

    pub(crate) fn forget(&self, publisher: &Publisher) {
        self.indexes().remove(publisher);
    }

    fn slot(&self, publisher: &Publisher) -> Arc<tokio::sync::Mutex<Option<Parsed>>> {
        let (mut indexes, now, ttl) = (self.indexes(), Instant::now(), self.settings.index_ttl);
        indexes.retain(|own, slot| own == publisher || slot.used + ttl > now);
        let slot = indexes.entry(publisher.clone()).or_insert_with(|| Slot {
            parsed: Arc::default(),
            used: now,
            weight: 0,
        });
        slot.used = now;
        Arc::clone(&slot.parsed)
    }

    /// Drops the indexes that were used longest ago, if all together are too large.
    fn weigh(&self, publisher: &Publisher, weight: usize) {
        let mut indexes = self.indexes();
        if let Some(slot) = indexes.get_mut(publisher) {
            slot.weight = weight;
        }
        while indexes.values().map(|slot| slot.weight).sum::<usize>() > INDEXES_BYTES_MAX {
            let others = indexes.iter().filter(|(own, _)| *own != publisher);
            let oldest = others.min_by_key(|(_, slot)| slot.used);
            let Some(oldest) = oldest.map(|(own, _)| own.clone()) else {
                return;
            };
            indexes.remove(&oldest);
        }
    }

    fn indexes(&self) -> MutexGuard<'_, HashMap<Publisher, Slot>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Secrets of a chart repository, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AccessSpec {
    pub(crate) secret: Option<String>,
    pub(crate) certificates: Option<String>,
    pub(crate) passes_login: bool,
}

impl From<&HelmRepositorySpec> for AccessSpec {
    fn from(spec: &HelmRepositorySpec) -> Self {
        let name = |reference: &Option<equate_api::meta::LocalReference>| {
            reference.as_ref().map(|reference| reference.name.clone())
        };
        Self {
            secret: name(&spec.secret_ref),
            certificates: name(&spec.cert_secret_ref),
            passes_login: spec.pass_credentials,
        }
    }
}

/// Why a repository's credentials cannot be used; in Flux's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("failed to get {what} '{namespace}/{name}'")]
    Secret {
        what: &'static str,
        namespace: String,
        name: String,
        #[source]
        source: SecretReadError,
    },
    #[error(
        "failed to construct Helm client's TLS config: secret '{namespace}/{name}' must contain either 'ca.crt' or \
         both 'tls.crt' and 'tls.key'"
    )]
    Certificates { namespace: String, name: String },
    #[error(
        "failed to detect authentication methods: secret '{namespace}/{name}': malformed basic auth - has \
         '{present}' but missing '{missing}'"
    )]
    Login {
        present: &'static str,
        missing: &'static str,
        namespace: String,
        name: String,
    },
    #[error("failed to detect authentication methods: '{key}' in secret '{namespace}/{name}' is not UTF-8")]
    Text {
        key: &'static str,
        namespace: String,
        name: String,
    },
}

impl AccessError {
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Secret { source, .. } if source.is_final())
    }

    pub(crate) fn message(&self) -> String {
        chain(self)
    }
}

/// A login and certificates.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(crate) login: Option<Login>,
    pub(crate) certificates: Certificates,
}

/// Reads the credentials of a repository from its Secrets.
pub(crate) async fn access(
    client: &Client,
    namespace: &str,
    spec: &AccessSpec,
) -> Result<Proof, AccessError> {
    let read = async |what, name: &str| {
        let data = read_secret(client, namespace, name).await;
        data.map_err(|source| AccessError::Secret {
            what,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source,
        })
    };
    let mut certificates = match &spec.certificates {
        Some(name) => {
            let data = read("TLS authentication secret", name).await?;
            let found = certificates_of(&data);
            let place = || (namespace.to_owned(), name.clone());
            Some(found.ok_or_else(|| {
                let (namespace, name) = place();
                AccessError::Certificates { namespace, name }
            })?)
        }
        None => None,
    };
    let mut login = None;
    if let Some(name) = &spec.secret {
        let data = read("authentication secret", name).await?;
        login = login_of(&data, namespace, name)?;
        // deprecated in Flux, and still used
        certificates = certificates.or_else(|| certificates_of(&data));
    }
    Ok(Proof {
        login,
        certificates: certificates.unwrap_or_default(),
    })
}

/// `None` if they are missing or incomplete.
fn certificates_of(data: &SecretData) -> Option<Certificates> {
    let either = |key, legacy| value(data, key).or_else(|| value(data, legacy));
    let (certificate, key) = (either("tls.crt", "certFile"), either("tls.key", "keyFile"));
    let ca = either("ca.crt", "caFile").map(<[u8]>::to_vec);
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Zeroizing::new([certificate, b"\n", key].concat())),
        (None, None) => None,
        _ => return None,
    };
    (ca.is_some() || client.is_some()).then_some(Certificates { ca, client })
}

fn login_of(data: &SecretData, namespace: &str, name: &str) -> Result<Option<Login>, AccessError> {
    let (present, missing) = match (data.get("username"), data.get("password")) {
        (None, None) => return Ok(None),
        (Some(_), None) => ("username", "password"),
        (None, Some(_)) => ("password", "username"),
        (Some(username), Some(password)) => {
            let text = |key, bytes: &[u8]| {
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                text.map_err(|_| AccessError::Text {
                    key,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            };
            let username = text("username", &username.0)?;
            let password = Zeroizing::new(text("password", &password.0)?);
            // as in Helm, both are needed
            let is_whole = !username.is_empty() && !password.is_empty();
            return Ok(is_whole.then_some(Login { username, password }));
        }
    };
    Err(AccessError::Login {
        present,
        missing,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The URL of a repository. Upstream ignores `provider` and `insecure` here, too.
pub(crate) fn home(url: &str) -> Result<Url, String> {
    if url.starts_with("oci://") {
        return Err("'oci' URL scheme cannot be used with 'default' HelmRepository type".to_owned());
    }
    address(&normalized(url)).map_err(|error| error.to_string())
}

pub(crate) fn timeout(spec: &HelmRepositorySpec) -> Duration {
    spec.timeout.map_or(TIMEOUT, equate_api::meta::Duration::get)
}

/// The publisher of a repository's artifacts; none for names that no API server accepts.
pub(crate) fn repository_publisher(object: &HelmRepository) -> Option<Publisher> {
    publisher(&HelmRepository::kind(&()), &object.metadata)
}

/// The address of a repository with one slash at its end, or none for a registry; as Flux compares them.
pub(crate) fn normalized(url: &str) -> String {
    let (path, query) = match url.find(['?', '#']) {
        Some(at) => url.split_at(at),
        None => (url, ""),
    };
    let bare = path.trim_end_matches('/');
    match url.starts_with("oci://") {
        true => format!("{bare}{query}"),
        false => format!("{bare}/{query}"),
    }
}

pub(crate) fn index_too_large(bytes_max: u64) -> String {
    format!("index exceeds the maximum index file size of {bytes_max} bytes (--helm-index-max-size)")
}

/// The address of a repository's index.
pub(crate) fn index_url(repository: &Url) -> Url {
    let mut url = repository.clone();
    let path = format!("{}/index.yaml", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

/// Go's `units.HumanSize`.
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    // four significant digits, without zeros at the end
    let digits = match size {
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{}", UNITS.get(unit).unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn addresses_and_sizes_are_those_of_flux() {
        for (url, expected) in [
            ("https://a.example/charts", "https://a.example/charts/"),
            ("https://a.example/charts//", "https://a.example/charts/"),
            ("https://a.example", "https://a.example/"),
            ("https://a.example/x?token=1", "https://a.example/x/?token=1"),
            ("oci://a.example/x/", "oci://a.example/x"),
        ] {
            assert_eq!(normalized(url), expected);
        }
        let index = |url: &str| index_url(&Url::parse(url).unwrap()).to_string();
        assert_eq!(index("https://a.example/"), "https://a.example/index.yaml");
        assert_eq!(
            index("https://a.example/x/?t=1"),
            "https://a.example/x/index.yaml?t=1"
        );
        for (bytes, expected) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1kB"),
            (1234, "1.234kB"),
            (35330, "35.33kB"),
            (52_428_800, "52.43MB"),
        ] {
            assert_eq!(human_size(bytes), expected);
        }
    }

    #[test]
    fn incomplete_credentials_are_refused() {
        let data = |keys: &[&str]| -> SecretData {
            let entry = |key: &&str| ((*key).to_owned(), ByteString(b"x".to_vec()));
            keys.iter().map(entry).collect()
        };
        let login = |keys: &[&str]| login_of(&data(keys), "a", "b").map_err(|error| error.to_string());
        assert_eq!(login(&["ca.crt"]), Ok(None));
        assert!(login(&["username", "password"]).unwrap().is_some());
        assert_eq!(
            login(&["username"]).unwrap_err(),
            "failed to detect authentication methods: secret 'a/b': malformed basic auth - has 'username' but missing \
             'password'"
        );
        assert!(
            login(&["password"])
                .unwrap_err()
                .ends_with("has 'password' but missing 'username'")
        );
        let certificates = |keys: &[&str]| certificates_of(&data(keys));
        assert!(certificates(&["username"]).is_none());
        assert!(certificates(&["tls.crt"]).is_none());
        assert!(certificates(&["ca.crt"]).is_some_and(|found| found.client.is_none()));
        assert!(certificates(&["certFile", "keyFile"]).is_some_and(|found| found.client.is_some()));
    }
}
