//! Charts that a chart needs and does not have: from the files of its source, and from chart repositories.
//!
//! A repository's credentials are those of a HelmRepository with its address in the chart's namespace. As in
//! Flux, a repository without one is read without credentials.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use equate_api::source::{HelmRepository, HelmRepositoryType};
use equate_helm::metadata::Dependency;
use equate_helm::package::Package;
use equate_helm::repository::catalog::Catalog;
use equate_helm::repository::index::resolve_url;
use equate_source::Entry;

use super::HelmCharts;
use super::act::{pull, pulled_index};
use super::build::{Step, accepts};
use super::declared::{Declared, clean};
use super::origin::{LocalChart, Repository, below};
use super::registry::{RegistryChart, RegistrySpec, Tagged};
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::charts::{AccessSpec, home, normalized, repository_publisher, timeout};
use crate::sources::failure::Failure;

/// Charts that are added in one build: each may be a request.
const ADDED_MAX: usize = 100;
/// The timeout of a repository without a HelmRepository, as in Flux.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);

type Opened = HashMap<String, (Repository, Arc<Catalog>)>;

/// Adds the missing charts. Returns their number as well.
pub(super) async fn add_missing(
    cx: &HelmCharts,
    declared: &Declared,
    mut package: Package,
    chart: &LocalChart,
) -> Result<(Package, usize), Failure> {
    let missing = package.missing();
    if missing.len() > ADDED_MAX {
        let count = missing.len();
        return Err(Step::Dependencies.failed(format!(
            "{count} charts are missing in charts/, and at most {ADDED_MAX} are added"
        )));
    }
    let mut opened = Opened::new();
    for dependency in &missing {
        let name = dependency.known_as();
        let is_local = dependency.repository.is_empty() || dependency.repository.starts_with("file://");
        let added = match is_local {
            true => local(cx, declared, chart, dependency)
                .await
                .map_err(|why| format!("failed to add local dependency '{name}': {why}")),
            false => remote(cx, declared, &mut opened, dependency)
                .await
                .map_err(|why| format!("failed to add remote dependency '{name}': {why}")),
        };
        package.add(added.map_err(|why| Step::Dependencies.failed(why))?);
    }
    Ok((package, missing.len()))
}

async fn local(
    cx: &HelmCharts,
    declared: &Declared,
    chart: &LocalChart,
    dependency: &Dependency,
) -> Result<Package, String> {
    let reference = dependency.repository.clone();
    let place = match reference.strip_prefix("file://") {
        Some(path) => path.to_owned(),
        None => below("charts", &dependency.name),
    };
    let path = clean(&below(&chart.path, &place));
    let entry = chart.tree.entry(&path);
    let is_directory = match entry {
        None => return Err(format!("no chart found at '/{path}' (reference '{reference}')")),
        Some(entry) => matches!(entry, Entry::Directory { .. }),
    };
    let own = LocalChart {
        tree: chart.tree.clone(),
        path: path.clone(),
        is_directory,
    };
    let settings = cx.kit.charts.settings.clone();
    let loading = cx
        .kit
        .processors
        .run(&declared.key.namespace, move || own.load(&settings));
    let loaded = loading.done().await.map_err(|_| aborted())?;
    let package = loaded
        .map_err(|why| format!("failed to load chart from '/{path}' (reference '{reference}'): {why}"))?;
    match accepts(&dependency.version, &package.chart().metadata.version) {
        true => Ok(package),
        false => Err(format!(
            "can't get a valid version for constraint '{}'",
            dependency.version
        )),
    }
}

async fn remote(
    cx: &HelmCharts,
    declared: &Declared,
    opened: &mut Opened,
    dependency: &Dependency,
) -> Result<Package, String> {
    let Dependency {
        name,
        version,
        repository: address,
        ..
    } = dependency;
    let url = normalized(address);
    if url.starts_with("oci://") {
        return in_registry(cx, declared, dependency, &url).await;
    }
    if !opened.contains_key(&url) {
        let found = open(cx, declared, &url).await?;
        opened.insert(url.clone(), found);
    }
    let Some((repository, catalog)) = opened.get(&url) else {
        return Err(aborted());
    };
    let offer = catalog.select(name, version).map_err(|error| {
        format!("failed to get chart '{name}' version '{version}' from '{address}': {error}")
    })?;
    let failed = |why: String| format!("chart download of version '{}' failed: {why}", offer.version);
    let reference = offer.url.as_deref();
    let reference = reference.ok_or_else(|| failed(format!("chart '{name}' has no downloadable URLs")))?;
    let resolved =
        resolve_url(repository.home.as_str(), reference).map_err(|error| failed(error.to_string()))?;
    let bytes = pull(cx, declared, repository, &resolved, &offer.digest).await;
    let bytes = bytes.map_err(|error| failed(error.why))?;
    loaded(cx, declared, bytes, &offer.version).await
}

async fn loaded(
    cx: &HelmCharts,
    declared: &Declared,
    bytes: Bytes,
    version: &str,
) -> Result<Package, String> {
    let limits = cx.kit.charts.settings.chart();
    let loading = cx.kit.processors.run(&declared.key.namespace, move || {
        Package::from_archive(&bytes, &limits)
    });
    let loaded = loading.done().await.map_err(|_| aborted())?;
    loaded.map_err(|error| {
        format!(
            "failed to load downloaded archive of version '{version}': {}",
            chain(&error)
        )
    })
}

async fn in_registry(
    cx: &HelmCharts,
    declared: &Declared,
    dependency: &Dependency,
    url: &str,
) -> Result<Package, String> {
    let Dependency {
        name,
        version,
        repository: address,
        ..
    } = dependency;
    let object = repository_at(cx, declared, url, true);
    let spec = match &object {
        Some(object) => RegistrySpec::from(&object.spec),
        None => RegistrySpec {
            url: url.to_owned(),
            access: AccessSpec::default(),
            insecure: false,
            cloud: None,
            timeout: TIMEOUT,
        },
    };
    let chart = RegistryChart::open(cx, &declared.key.namespace, &spec, name).await;
    let chart = chart.map_err(|failure| {
        format!(
            "failed to get chart repository for URL '{url}': {}",
            failure.message
        )
    })?;
    let selected = chart.select(cx, version).await;
    let version = selected.map_err(|error| {
        format!(
            "failed to get chart '{name}' version '{version}' from '{address}': {}",
            error.why
        )
    })?;
    let tagged = Tagged {
        version,
        digest: None,
    };
    let bytes = chart.pull(cx, &tagged).await;
    let bytes = bytes.map_err(|error| {
        format!(
            "chart download of version '{}' failed: {}",
            tagged.version, error.why
        )
    })?;
    loaded(cx, declared, bytes, &tagged.version).await
}

/// The HelmRepository with this address.
fn repository_at(
    cx: &HelmCharts,
    declared: &Declared,
    url: &str,
    is_registry: bool,
) -> Option<Arc<HelmRepository>> {
    let namespace = &declared.key.namespace;
    cx.repositories.all().into_iter().find(|object| {
        object.metadata.namespace.as_deref() == Some(namespace)
            && (object.spec.kind == Some(HelmRepositoryType::Oci)) == is_registry
            && normalized(&object.spec.url) == url
    })
}

async fn open(cx: &HelmCharts, declared: &Declared, url: &str) -> Result<(Repository, Arc<Catalog>), String> {
    if url.starts_with('@') || url.starts_with("alias:") {
        return Err(format!("aliased repository dependency is not supported: {url}"));
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(format!("invalid dependency repository URL: {url}"));
    }
    let failed = |why: String| format!("failed to get chart repository for URL '{url}': {why}");
    let object = repository_at(cx, declared, url, false);
    let max = cx.kit.settings.timeout_max;
    let (access, limit) = match &object {
        Some(object) => (
            AccessSpec::from(&object.spec),
            TimeLimit::of(timeout(&object.spec), max),
        ),
        None => (AccessSpec::default(), TimeLimit::of(TIMEOUT, max)),
    };
    let repository = Repository {
        home: home(url).map_err(failed)?,
        access,
        limit,
    };
    let status = object.as_ref().and_then(|object| object.status.as_ref());
    let artifact = status.and_then(|status| status.artifact.as_ref());
    let publisher = object.as_ref().and_then(|object| repository_publisher(object));
    if let (Some(artifact), Some(publisher)) = (artifact, publisher)
        && let Ok(catalog) = cx.kit.charts.catalog(&publisher, &artifact.digest).await
    {
        return Ok((repository, catalog));
    }
    let catalog = pulled_index(cx, declared, &repository).await.map_err(failed)?;
    Ok((repository, Arc::new(catalog)))
}

fn aborted() -> String {
    "internal error; see the controller's log".to_owned()
}
