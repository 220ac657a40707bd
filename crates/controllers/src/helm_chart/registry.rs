//! Charts in registries: HelmRepositories of type `oci`.
//!
//! A version is a tag. A range is compared with all tags. Upstream is Flux's
//! `internal/helm/repository/oci_chart_repository.go` (v1.9).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use equate_api::meta::{ConditionType, Reason};
use equate_api::source::{HelmRepositorySpec, OciProvider};
use equate_egress::Substitute;
use equate_registry::oci_spec::image::Digest;
use equate_registry::{
    Access, Credentials, DockerConfig, Reason as Class, Remote, Repository, SecretString, Version,
};

use super::HelmCharts;
use super::act::PullError;
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::chart_tags::{is_complete, newest, packed, tag};
use crate::sources::charts::{AccessSpec, access, normalized, timeout};
use crate::sources::failure::Failure;
use crate::sources::secrets::{secret, value};
use crate::sources::selection::{Unselected, among_tags};
use crate::sources::signatures::{Means, Required, Unverified};

const SCHEME: &str = "oci://";
const DOCKER_CONFIG: &str = "kubernetes.io/dockerconfigjson";

/// The fields of a HelmRepository that address a registry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RegistrySpec {
    /// Without a slash at its end.
    pub(crate) url: String,
    pub(crate) access: AccessSpec,
    pub(crate) insecure: bool,
    /// The cloud whose credentials are needed.
    pub(crate) cloud: Option<&'static str>,
    pub(crate) timeout: Duration,
}

impl From<&HelmRepositorySpec> for RegistrySpec {
    fn from(spec: &HelmRepositorySpec) -> Self {
        let cloud = spec.provider.and_then(|provider| match provider {
            OciProvider::Generic => None,
            OciProvider::Aws => Some("spec.provider aws of the HelmRepository"),
            OciProvider::Azure => Some("spec.provider azure of the HelmRepository"),
            OciProvider::Gcp => Some("spec.provider gcp of the HelmRepository"),
        });
        Self {
            url: normalized(&spec.url),
            access: spec.into(),
            insecure: spec.insecure,
            // upstream asks the cloud only without a Secret
            cloud: cloud.filter(|_| spec.secret_ref.is_none()),
            timeout: timeout(spec),
        }
    }
}

/// The repository of one chart, and how it is reached.
#[derive(Clone)]
pub(crate) struct RegistryChart {
    repository: Repository,
    access: Access,
    /// `oci://host/path/chart`.
    url: String,
    limit: TimeLimit,
}

impl fmt::Debug for RegistryChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// A version of a chart, and its manifest where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) version: String,
    pub(crate) digest: Option<Digest>,
}

impl RegistryChart {
    /// Reads the credentials of a chart's repository.
    pub(crate) async fn open(
        cx: &HelmCharts,
        namespace: &str,
        spec: &RegistrySpec,
        chart: &str,
    ) -> Result<Self, Failure> {
        let invalid = |why: String| {
            let message = format!("failed to construct Helm client: {why}");
            Failure::stalling(ConditionType::FetchFailed, Reason::Failed, message)
        };
        let Some(base) = spec.url.strip_prefix(SCHEME) else {
            return Err(invalid(format!("invalid OCI registry URL: {}", spec.url)));
        };
        let repository = Repository::parse(&format!("{base}/{chart}"));
        let repository = repository.map_err(|error| invalid(chain(&error)))?;
        let is_local = cx.kit.registries.substitute(&repository).is_some();
        if let Some(field) = spec.cloud.filter(|_| !is_local) {
            return Err(Failure::unsupported(field, "chart"));
        }
        let limit = TimeLimit::of(spec.timeout, cx.kit.settings.timeout_max);
        let mut own = Access::new(namespace, limit.time);
        own.insecure = spec.insecure;
        if !is_local {
            credentials(cx, namespace, spec, &repository, &mut own).await?;
        }
        Ok(Self {
            url: format!("{}/{chart}", spec.url),
            repository,
            access: own,
            limit,
        })
    }

    /// The directory that stands for it.
    pub(crate) fn substitute(&self, cx: &HelmCharts) -> Option<Substitute> {
        cx.kit.registries.substitute(&self.repository)
    }

    fn remote(&self, cx: &HelmCharts) -> Result<Remote, PullError> {
        let opened = cx
            .kit
            .registries
            .open(self.repository.clone(), self.access.clone());
        opened.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &equate_registry::Error) -> PullError {
        let reason = error.reason();
        PullError {
            why: match reason {
                Class::Timeout => format!("{}{}", chain(error), self.limit.operators()),
                _ => chain(error),
            },
            is_about_trust: matches!(reason, Class::Authentication | Class::Tls | Class::Configuration),
        }
    }

    /// The URL of a version.
    pub(crate) fn at(&self, version: &str) -> String {
        format!("{}:{version}", self.url)
    }

    /// The version that a range selects: a complete version without a request, otherwise the newest tag. A
    /// version of a directory changes with its content, so there it is always looked up.
    pub(crate) async fn select(&self, cx: &HelmCharts, range: &str) -> Result<String, PullError> {
        let remote = self.remote(cx)?;
        if is_complete(range) && !remote.is_local() {
            return Ok(range.to_owned());
        }
        let range = range.to_owned();
        let select = move |tags: &[String], go_on: &dyn Fn() -> bool| newest(tags, &range, go_on);
        let (processors, namespace) = (&cx.kit.processors, &self.access.namespace);
        let newest = among_tags(processors, &remote, namespace, self.limit, select).await;
        let newest = newest.map_err(|why| match why {
            Unselected::Tags(error) => self.unlisted(&error),
            Unselected::Selection(why) => PullError::plain(why),
        })?;
        newest.map_err(PullError::plain)
    }

    fn unlisted(&self, error: &equate_registry::Error) -> PullError {
        let name = self.repository.path();
        let name = name.rsplit('/').next().unwrap_or_default();
        let error = self.failed(error);
        PullError {
            why: format!(
                "could not get tags for \"{name}\": could not fetch tags for \"{}\": {}",
                self.url, error.why
            ),
            ..error
        }
    }

    /// The manifest of a version.
    pub(crate) async fn resolve(&self, cx: &HelmCharts, version: &str) -> Result<Digest, PullError> {
        let remote = self.remote(cx)?;
        let resolved = without_worker(remote.resolve(&tagged_as(version)?)).await;
        resolved.map_err(|error| self.failed(&error))
    }

    /// Whether a manifest has a signature; false if a policy lets an unsigned one pass.
    pub(crate) async fn verify(
        &self,
        cx: &HelmCharts,
        required: &Required,
        manifest: &Digest,
    ) -> Result<bool, Unverified> {
        let remote = self.remote(cx);
        let remote = remote.map_err(|error| Unverified::registry(error.why))?;
        let means = Means {
            client: &cx.kit.client,
            processors: &cx.kit.processors,
            namespace: &self.access.namespace,
            limit: self.limit,
        };
        required.verify(means, &remote, manifest).await
    }

    /// The packed chart of a manifest.
    pub(crate) async fn pull(&self, cx: &HelmCharts, tagged: &Tagged) -> Result<Bytes, PullError> {
        let url = self.at(&tagged.version);
        let pulled = self.layer(cx, tagged).await;
        pulled.map_err(|error| PullError {
            why: format!("failed to get '{url}': {}", error.why),
            ..error
        })
    }

    async fn layer(&self, cx: &HelmCharts, tagged: &Tagged) -> Result<Bytes, PullError> {
        let remote = self.remote(cx)?;
        let manifest = match &tagged.digest {
            Some(digest) => Version::Digest(digest.clone()),
            None => tagged_as(&tagged.version)?,
        };
        let bytes_max = cx.kit.charts.settings.chart_bytes_max;
        let pulled = without_worker(packed(&remote, &manifest, bytes_max)).await;
        let pulled = pulled.map_err(|error| self.failed(&error))?;
        pulled.map(Bytes::from).map_err(PullError::plain)
    }
}

async fn credentials(
    cx: &HelmCharts,
    namespace: &str,
    spec: &RegistrySpec,
    repository: &Repository,
    own: &mut Access,
) -> Result<(), Failure> {
    let failed = |message: String, is_final| {
        let failure = Failure::passing(ConditionType::FetchFailed, Reason::AuthenticationFailed, message);
        match is_final {
            true => Failure {
                retry: crate::kit::controller::Retry::Never,
                ..failure
            },
            false => failure,
        }
    };
    let found = access(&cx.kit.client, namespace, &spec.access).await;
    let found = found.map_err(|error| failed(error.message(), error.is_final()))?;
    own.ca = found.certificates.ca;
    if let Some(pem) = found.certificates.client {
        let pem = String::from_utf8(pem.to_vec());
        let pem =
            pem.map_err(|_| failed("the client certificate or its key is not PEM".to_owned(), false))?;
        own.identity = Some(SecretString::from(pem));
    }
    own.credentials = found.login.map(|login| Credentials::Basic {
        username: login.username,
        password: SecretString::from(login.password.as_str().to_owned()),
    });
    let Some(name) = &spec.access.secret else {
        return Ok(());
    };
    let unusable = |why: String| {
        failed(
            format!("failed to configure OCI registry authentication: {why}"),
            false,
        )
    };
    let found = secret(&cx.kit.client, namespace, name).await;
    let found = found.map_err(|(why, _)| unusable(why))?;
    if found.type_.as_deref() == Some(DOCKER_CONFIG) {
        let data = found.data.unwrap_or_default();
        let mut config = DockerConfig::default();
        let json = value(&data, ".dockerconfigjson").unwrap_or_default();
        config.add(json).map_err(|error| {
            unusable(format!(
                "unable to load Docker config from Secret '{name}': {error}"
            ))
        })?;
        let entry = config.find(repository).cloned();
        own.credentials = Some(entry.ok_or_else(|| {
            let host = repository.registry();
            unusable(format!(
                "no auth config for '{host}' in the docker-registry Secret '{name}'"
            ))
        })?);
    }
    Ok(())
}

fn tagged_as(version: &str) -> Result<Version, PullError> {
    tag(version).map_err(|error| PullError::plain(chain(&error)))
}
