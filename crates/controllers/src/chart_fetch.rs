//! Fetches one chart of a chart repository or a registry, for a program of one user: as
//! `helm template CHART --repo URL` and `helm template oci://...`.

use std::sync::Arc;
use std::time::Duration;

use equate_egress::Egress;
use equate_helm::repository::index::{Index, IndexError, resolve_url};
use equate_registry::{ReadImages, Registries, Remote, Version};
use zeroize::Zeroizing;

use crate::kit::time_limit::TimeLimit;
use crate::sources::chart_tags;
use crate::sources::charts::{HelmSettings, index_url, normalized};
use crate::sources::http::{Access, Answer, Certificates, Get, Http, HttpError, Login, address};
use crate::sources::local;

/// The time of one request. Helm's own is 2 minutes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A chart repository, and how it is addressed.
#[derive(Debug, Clone, Default)]
pub struct ChartRepository {
    url: String,
    login: Option<Login>,
    passes_login: bool,
    certificates: Certificates,
    egress: Egress,
}

/// Why a chart could not be fetched; in Helm's words.
#[derive(Debug, thiserror::Error)]
pub enum ChartFetchError {
    /// The repository has no readable index.
    #[error("looks like {0:?} is not a valid chart repository or cannot be reached")]
    Repository(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// It has no such chart.
    #[error("{0} not found in {1} repository")]
    NotFound(String, String),
    /// The chart has no archive.
    #[error("{0} has no downloadable URLs")]
    NoUrl(String),
    /// The archive cannot be fetched.
    #[error("could not fetch {0}")]
    Archive(String, #[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a chart of a registry could not be fetched; in Helm's words.
#[derive(Debug, thiserror::Error)]
pub enum RegistryChartError {
    /// The registry fails.
    #[error(transparent)]
    Registry(#[from] equate_registry::Error),
    /// No tag is a version of the range.
    #[error("unable to locate any tags in provided repository: {0}: {1}")]
    Version(String, String),
    /// The version is no tag.
    #[error(transparent)]
    Tag(#[from] equate_registry::NameError),
    /// The manifest has no chart.
    #[error("could not fetch {0}: {1}")]
    Chart(String, String),
}

/// The registries behind this way out. A directory that stands for a place of one is read as in a cluster.
#[must_use]
pub fn registries(egress: Egress) -> Registries {
    let settings = HelmSettings::default();
    let images: ReadImages = Arc::new(move |place| Ok(local::images(place, &settings)?));
    Registries::reading(egress, equate_registry::Limits::default(), images)
}

/// Fetches the archive of a chart of an open repository: the exact version, else the newest in the range.
/// A `tag` of the reference comes first.
///
/// # Errors
/// The registry has no such chart, or fails.
pub async fn fetch_from_registry(
    remote: &Remote,
    tag: Option<Version>,
    version: &str,
) -> Result<Vec<u8>, RegistryChartError> {
    let named = match tag {
        Some(tag) => tag,
        None if chart_tags::is_complete(version) => chart_tags::tag(version)?,
        None => {
            let tags = remote.tags().await?;
            let newest = chart_tags::newest(&tags, version, &|| true);
            let name = remote.repository().to_string();
            chart_tags::tag(&newest.map_err(|why| RegistryChartError::Version(name, why))?)?
        }
    };
    let bytes_max = HelmSettings::default().chart_bytes_max;
    let packed = chart_tags::packed(remote, &named, bytes_max).await?;
    packed.map_err(|why| RegistryChartError::Chart(remote.repository().at(&named), why))
}

impl ChartRepository {
    /// A repository without credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Adds a login. `pass` sends it to other hosts that the index names, too.
    #[must_use]
    pub fn with_login(mut self, username: String, password: String, pass: bool) -> Self {
        let password = Zeroizing::new(password);
        self.login = Some(Login { username, password });
        self.passes_login = pass;
        self
    }

    /// Adds certificates in PEM: trusted ones, and the client's with its key.
    #[must_use]
    pub fn with_certificates(mut self, ca: Option<Vec<u8>>, client: Option<Vec<u8>>) -> Self {
        self.certificates = Certificates {
            ca,
            client: client.map(Zeroizing::new),
        };
        self
    }

    /// Uses this way out. A directory that stands for the repository is read as in a cluster.
    #[must_use]
    pub fn with_egress(mut self, egress: Egress) -> Self {
        self.egress = egress;
        self
    }

    /// Fetches the archive of a chart: the exact version, else the newest in the range.
    ///
    /// # Errors
    /// The index or the archive cannot be fetched, or has no such chart.
    pub async fn fetch(&self, name: &str, version: &str) -> Result<Vec<u8>, ChartFetchError> {
        let unreachable = |error: HttpError| ChartFetchError::Repository(self.url.clone(), error.into());
        let (http, settings) = (Http::new(self.egress.clone()), HelmSettings::default());
        let home = address(&normalized(&self.url)).map_err(unreachable)?;
        let index = index_url(&home);
        let access = Access {
            home,
            login: self.login.clone(),
            passes_login: self.passes_login,
            certificates: self.certificates.clone(),
        };
        let directory = self.egress.substitutes().find(access.home.as_str());
        let get = async |url: &str, bytes_max: u64| {
            if let Some(place) = &directory {
                return local::get(place, &access.home, url, bytes_max, &settings);
            }
            let get = Get {
                namespace: "",
                url,
                access: &access,
                known: None,
                bytes_max,
                limit: TimeLimit::of(TIMEOUT, Duration::MAX),
            };
            Ok::<_, HttpError>(match http.get(get).await? {
                Answer::Body { body, .. } => body,
                // no version was named
                Answer::NotModified => Vec::new(),
            })
        };
        let bytes = get(index.as_str(), settings.index_bytes_max)
            .await
            .map_err(unreachable)?;
        let invalid = |error: IndexError| ChartFetchError::Repository(self.url.clone(), error.into());
        let index = Index::parse(&bytes, &settings.index()).map_err(invalid)?;
        let told = match version {
            "" => format!("chart {name:?}"),
            version => format!("chart {name:?} version {version:?}"),
        };
        let entry = index.get(name, version);
        let entry = entry.map_err(|_| ChartFetchError::NotFound(told.clone(), self.url.clone()))?;
        let reference = entry.urls.first();
        let reference = reference.ok_or_else(|| ChartFetchError::NoUrl(told.clone()))?;
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            ChartFetchError::Archive(reference.clone(), error)
        };
        let url = resolve_url(access.home.as_str(), reference).map_err(|error| failed(error.into()))?;
        let archive = get(&url, settings.chart_bytes_max).await;
        archive.map_err(|error| failed(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{Host, chart, index};

    #[tokio::test]
    async fn a_chart_is_fetched_like_helm_does() {
        let host = Host::start().await;
        let app = chart("app", "1.0.0", &[]);
        host.put("/x/app-1.0.0.tgz", app.clone());
        let entries = [
            ("app", "1.0.0", "app-1.0.0.tgz", ""),
            ("app", "2.0.0-a", "app-2.0.0.tgz", ""),
        ];
        host.put("/x/index.yaml", index(&entries));
        host.require("dXNlcjpwYXNz");
        let url = format!("{}/x", host.address);
        let fetch = async |repository: ChartRepository, name: &str, version: &str| {
            let fetched = repository.fetch(name, version).await;
            fetched.map_err(|error| error.to_string())
        };
        let login = || ChartRepository::new(&url).with_login("user".to_owned(), "pass".to_owned(), false);
        assert_eq!(fetch(login(), "app", "").await, Ok(app.clone()));
        assert_eq!(fetch(login(), "app", "^1").await, Ok(app));
        let missing = format!("chart \"app\" version \"3\" not found in {url} repository");
        assert_eq!(fetch(login(), "app", "3").await, Err(missing));
        let refused = format!("looks like {url:?} is not a valid chart repository or cannot be reached");
        assert_eq!(fetch(ChartRepository::new(&url), "app", "").await, Err(refused));
        let failed = "could not fetch app-2.0.0.tgz".to_owned();
        assert_eq!(fetch(login(), "app", "2.0.0-a").await, Err(failed));
    }
}
