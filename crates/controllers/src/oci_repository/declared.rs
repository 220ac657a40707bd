//! An OCIRepository as this controller reads it: parsed once. A field that Equate does not support is
//! reported by name; none is ignored.

use std::time::Duration;

use equate_api::source::{LayerOperation, LayerSelector, OciProvider, OciRepository, OciRepositorySpec};
use equate_registry::{NameError, Repository, Version};
use equate_source::{PlaceError, Publisher};

use super::ABOUT;
use super::failure;
use crate::Key;
use crate::sources::failure::Failure;
use crate::sources::signatures::Required;

const SCHEME: &str = "oci://";
/// As upstream's default in Go; the CRD has the same.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) publisher: Publisher,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) url: String,
    pub(crate) repository: Result<Repository, UrlError>,
    pub(crate) wanted: Result<Wanted, NameError>,
    pub(crate) ignore: Option<String>,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    /// The Secret with the credentials, in its own namespace.
    pub(crate) secret: Option<String>,
    /// The ServiceAccount with the pull secrets.
    pub(crate) service_account: Option<String>,
    /// The Secret with the certificates.
    pub(crate) certificates: Option<String>,
    /// The Secret with the proxy.
    pub(crate) proxy: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) selector: Option<LayerSelector>,
    pub(crate) verify: Option<Required>,
    /// The provider, if it is a cloud whose credentials are needed when no Secret has any.
    pub(crate) cloud: Option<&'static str>,
}

/// The manifest to pull: digest before semver and tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Exactly(Version),
    Newest { range: String, filter: Option<String> },
}

/// The URL names no repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("URL must be in format 'oci://<domain>/<org>/<repo>'")]
    Scheme,
    #[error("{name}; remove {rest:?} and use spec.ref")]
    Version { name: NameError, rest: String },
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Declared {
    pub(crate) fn copies(&self) -> bool {
        copies(self.selector.as_ref())
    }

    /// The failure of the spec itself.
    pub(crate) fn refused(&self) -> Option<Failure> {
        match &self.repository {
            Ok(_) => None,
            Err(error) => Some(failure::url(&self.url, error)),
        }
    }
}

/// Whether a layer is stored unchanged.
pub(crate) fn copies(selector: Option<&LayerSelector>) -> bool {
    selector.and_then(|selector| selector.operation) == Some(LayerOperation::Copy)
}

impl TryFrom<&OciRepository> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &OciRepository) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        let place = equate_source::Place::new(ABOUT.kind, &key.namespace, &key.name)?;
        let name = |reference: &Option<equate_api::meta::LocalReference>| {
            let name = reference.as_ref().map(|reference| reference.name.clone());
            name.filter(|name| !name.is_empty())
        };
        // every field, so that a new one does not compile without a decision
        let OciRepositorySpec {
            cert_secret_ref,
            ignore,
            insecure,
            interval,
            layer_selector,
            provider: _,
            proxy_secret_ref,
            reference: _,
            secret_ref,
            service_account_name,
            suspend: _,
            timeout,
            url,
            verify,
        } = spec;
        Ok(Self {
            publisher: Publisher::new(place, meta.uid.clone().unwrap_or_default()),
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            url: url.clone(),
            repository: repository(url),
            wanted: wanted(spec),
            ignore: ignore.clone(),
            interval: interval.get(),
            timeout: timeout.as_ref().map_or(TIMEOUT, |timeout| timeout.get()),
            secret: name(secret_ref),
            service_account: service_account_name.clone().filter(|name| !name.is_empty()),
            certificates: name(cert_secret_ref),
            proxy: name(proxy_secret_ref),
            insecure: *insecure,
            selector: layer_selector.clone(),
            verify: verify.as_ref().map(Required::from),
            cloud: cloud(spec),
        })
    }
}

fn repository(url: &str) -> Result<Repository, UrlError> {
    let name = url.strip_prefix(SCHEME).ok_or(UrlError::Scheme)?;
    Repository::parse(name).map_err(|error| {
        let path_at = name.find('/').unwrap_or_default();
        match name[path_at..].find(['@', ':']) {
            Some(at) => UrlError::Version {
                name: error,
                rest: name[path_at + at..].chars().take(200).collect(),
            },
            None => UrlError::Name(error),
        }
    })
}

fn wanted(spec: &OciRepositorySpec) -> Result<Wanted, NameError> {
    let given = spec.reference.clone().unwrap_or_default();
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    if let Some(digest) = filled(given.digest) {
        return Version::digest(&digest).map(Wanted::Exactly);
    }
    if let Some(range) = filled(given.semver) {
        let filter = filled(given.semver_filter);
        return Ok(Wanted::Newest { range, filter });
    }
    let tag = filled(given.tag).unwrap_or_else(|| "latest".to_owned());
    Version::tag(&tag).map(Wanted::Exactly)
}

fn cloud(spec: &OciRepositorySpec) -> Option<&'static str> {
    spec.provider.and_then(|provider| match provider {
        OciProvider::Generic => None,
        OciProvider::Aws => Some("spec.provider aws"),
        OciProvider::Azure => Some("spec.provider azure"),
        OciProvider::Gcp => Some("spec.provider gcp"),
    })
}
