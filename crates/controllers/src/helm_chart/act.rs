//! Makes a chart and publishes it.

use std::io::{BufReader, Cursor};
use std::sync::Arc;

use bytes::Bytes;
use equate_api::meta::{ConditionType, Reason};
use equate_api::source::Artifact;
use equate_helm::package::{Package, merge_values};
use equate_helm::repository::catalog::{Catalog, Offer};
use equate_helm::repository::index::resolve_url;
use equate_helm::{Values, values};
use equate_source::{Blob, Entry, Pauses, Storage, Stored, Tree};
use sha2::{Digest as _, Sha256};

use super::HelmCharts;
use super::build::{Build, Step, unauthenticated};
use super::decide::{Failed, Observed};
use super::declared::{Declared, clean};
use super::dependencies::add_missing;
use super::origin::{LocalChart, Origin, Repository, too_large};
use super::registry::{RegistryChart, Tagged};
use crate::kit::processors::JobError;
use crate::kit::read::chain;
use crate::sources::charts::{HelmSettings, index_too_large, index_url};
use crate::sources::failure::Failure;
use crate::sources::http::{Access, Answer, Get, HttpError};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    /// The artifact is up to date; its URLs, which may have changed.
    Kept {
        urls: Option<Urls>,
        build: Build,
        source: Option<String>,
    },
    Published(Box<Published>),
    Failed(Failed),
    /// The artifacts of a deleted object could not be removed.
    NotRemoved(String),
}

/// The URLs of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Urls {
    pub(crate) artifact: String,
    /// That of the newest one.
    pub(crate) newest: String,
}

/// An artifact in the store. Only [`publish`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) stored: Stored,
    pub(crate) newest: String,
    pub(crate) build: Build,
    pub(crate) source: Option<String>,
    /// The number of charts that were added.
    pub(crate) added: usize,
}

/// Makes the chart that was found. On failure the earlier artifact stays.
pub(super) async fn publish(
    cx: &HelmCharts,
    declared: &Declared,
    observed: Observed,
    build: Build,
    lost: bool,
) -> Done {
    let source = observed.source;
    let failed = |failure: Failure, build: Build| {
        Done::Failed(Failed {
            failure,
            waits: false,
            build: Some(build),
            source: source.clone(),
            lost,
        })
    };
    let origin = match observed.found {
        Ok((_, origin)) => origin,
        Err(found) => return Done::Failed(found),
    };
    let is_remote = !matches!(origin, Origin::Files(_));
    let made = match origin {
        Origin::Repository(repository, offer) => {
            from_repository(cx, declared, &build, &repository, &offer).await
        }
        Origin::Registry(chart, tagged) => from_registry(cx, declared, &build, &chart, &tagged).await,
        Origin::Files(chart) => from_files(cx, declared, &build, chart).await,
    };
    let made = match made {
        Ok(made) => made,
        Err(failure) => {
            // without the chart, Flux does not know yet that the artifact is outdated
            let is_unknown = is_remote && failure.reason == Reason::ChartPullError;
            return Done::Failed(Failed {
                failure,
                waits: false,
                build: (!is_unknown).then_some(build),
                source,
                lost,
            });
        }
    };
    let build = Build {
        values_files: made.values_files,
        ..build
    };
    let (storage, publisher) = (cx.kit.storage.clone(), declared.publisher.clone());
    let (own, bytes_max) = (build.clone(), cx.kit.charts.settings.chart_bytes_max);
    let store = move |go_on: &dyn Fn() -> bool| {
        let blob = Blob {
            file: &format!("{}-{}.tgz", own.file_name(), own.version),
            revision: &own.version,
            bytes_max,
        };
        storage.publish_blob_pausing(&publisher, &blob, Cursor::new(&made.bytes), &Pauses::new(go_on))
    };
    let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
    match processors.paced(&declared.key.namespace, limit, store).await {
        Ok(Ok(stored)) => Done::Published(Box::new(Published {
            stored,
            newest: newest(&cx.kit.storage, declared),
            build,
            source,
            added: made.added,
        })),
        Ok(Err(error)) => {
            let failure = Failure {
                message: format!("unable to copy Helm chart to storage: {}", chain(&error)),
                ..Failure::storage(&error)
            };
            failed(failure, build)
        }
        Err(error) => {
            let doing = "unable to copy Helm chart to storage";
            failed(
                unfinished(&error, declared, Reason::ChartPackageError, doing),
                build,
            )
        }
    }
}

struct Made {
    bytes: Bytes,
    values_files: Vec<String>,
    added: usize,
}

/// Work with the chart did not end. The same work may end later, so the chart never stalls.
fn unfinished(error: &JobError, declared: &Declared, reason: Reason, doing: &str) -> Failure {
    Failure {
        condition: Some(ConditionType::BuildFailed),
        ..Failure::unfinished(error, reason, &declared.key, doing)
    }
}

/// The failure of a download.
fn not_pulled(error: &PullError) -> Failure {
    let why = format!("failed to download chart for remote reference: {}", error.why);
    error.is(Step::Pull.failed(why))
}

async fn from_registry(
    cx: &HelmCharts,
    declared: &Declared,
    build: &Build,
    chart: &RegistryChart,
    tagged: &Tagged,
) -> Result<Made, Failure> {
    let bytes = chart.pull(cx, tagged).await;
    let bytes = bytes.map_err(|error| not_pulled(&error))?;
    from_archive(cx, declared, build, bytes).await
}

async fn from_repository(
    cx: &HelmCharts,
    declared: &Declared,
    build: &Build,
    repository: &Repository,
    offer: &Offer,
) -> Result<Made, Failure> {
    let failed = |why: String| not_pulled(&PullError::plain(why));
    let Some(reference) = &offer.url else {
        return Err(failed(format!("chart '{}' has no downloadable URLs", offer.name)));
    };
    let url = resolve_url(repository.home.as_str(), reference).map_err(|error| failed(error.to_string()))?;
    let pulled = pull(cx, declared, repository, &url, &offer.digest).await;
    from_archive(cx, declared, build, pulled.map_err(|error| not_pulled(&error))?).await
}

/// A chart as it was fetched, or with other values.
async fn from_archive(
    cx: &HelmCharts,
    declared: &Declared,
    build: &Build,
    bytes: Bytes,
) -> Result<Made, Failure> {
    let (settings, own, declared_files) = (
        cx.kit.charts.settings.clone(),
        build.clone(),
        declared.values_files.clone(),
    );
    let ignore_missing = declared.ignore_missing;
    let work = move |go_on: &dyn Fn() -> bool| {
        let pauses = Pauses::new(go_on);
        let limits = settings.chart();
        let loaded = Package::from_archive(&bytes, &limits);
        if !own.packaged {
            // it is kept byte for byte, if it is a chart
            loaded.map_err(|error| {
                let why = chain(&error);
                Step::Pull.failed(format!("failed to load chart metadata from written chart: {why}"))
            })?;
            return Ok(Made {
                bytes,
                values_files: Vec::new(),
                added: 0,
            });
        }
        let mut package = loaded.map_err(|error| {
            let why = chain(&error);
            Step::Package.failed(format!("failed to load downloaded chart: {why}"))
        })?;
        package.set_version(&own.version);
        let (merged, values_files) =
            chart_values(&package, (&declared_files, ignore_missing), &limits, &pauses)?;
        package
            .set_values(&merged)
            .map_err(|error| Step::Values.failed(error))?;
        Ok(Made {
            bytes: packed(&package, &settings)?,
            values_files,
            added: 0,
        })
    };
    paced(cx, declared, work).await
}

/// Does work whose time grows with a list of the spec.
async fn paced<T: Send + 'static>(
    cx: &HelmCharts,
    declared: &Declared,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (processors, limit) = (&cx.kit.processors, cx.kit.settings.timeout_max);
    let done = processors.paced(&declared.key.namespace, limit, work).await;
    done.unwrap_or_else(|error| Err(unmade(&error, declared)))
}

/// The chart was not loaded, or its values were not merged.
pub(super) fn unmade(error: &JobError, declared: &Declared) -> Failure {
    let step = match declared.values_files.is_empty() {
        true => Step::Package.failed("failed to load chart"),
        false => Step::Values.failed("failed to merge chart values"),
    };
    unfinished(error, declared, step.reason, &step.message)
}

/// Merges values files of a chart itself.
pub(super) fn chart_values(
    package: &Package,
    (paths, ignore_missing): (&[String], bool),
    limits: &equate_helm::Limits,
    pauses: &Pauses<'_>,
) -> Result<(Values, Vec<String>), Failure> {
    let failed = |why: String| Step::Values.failed(format!("failed to merge chart values: {why}"));
    let (mut merged, mut used) = (Values::new(), Vec::new());
    for path in paths {
        pauses.here().map_err(|stopped| failed(stopped.to_string()))?;
        let name = clean(path);
        let read = match name.as_str() {
            "values.yaml" => (*package.chart().values).clone(),
            name => match package.file(name) {
                Some(data) => read_values(data, limits).map_err(|why| failed(unmarshaling(path, &why)))?,
                None if ignore_missing => continue,
                None => return Err(failed(format!("no values file found at path '{path}'"))),
            },
        };
        merged = values::merge(merged, read);
        used.push(path.clone());
    }
    Ok((merged, used))
}

fn unmarshaling(path: &str, why: &str) -> String {
    format!("unmarshaling values from '{path}' failed: {why}")
}

fn read_values(data: &[u8], limits: &equate_helm::Limits) -> Result<Values, String> {
    let text = std::str::from_utf8(data).map_err(|error| error.to_string())?;
    merge_values([text], limits).map_err(|error| chain(&error))
}

async fn from_files(
    cx: &HelmCharts,
    declared: &Declared,
    build: &Build,
    chart: LocalChart,
) -> Result<Made, Failure> {
    let settings = Arc::new(cx.kit.charts.settings.clone());
    let namespace = &declared.key.namespace;
    let (own, limits, loading) = (chart.clone(), Arc::clone(&settings), build.clone());
    let (paths, ignore_missing) = (declared.values_files.clone(), declared.ignore_missing);
    let load = move |go_on: &dyn Fn() -> bool| {
        if !loading.packaged {
            let bytes = own.bytes(&limits).map_err(|why| Step::Pull.failed(why))?;
            return Ok((Err(bytes), Vec::new()));
        }
        let (merged, used) = tree_values(
            &own.tree,
            (&paths, ignore_missing),
            &limits.chart(),
            &Pauses::new(go_on),
        )?;
        let mut package = own.load(&limits).map_err(|why| Step::Package.failed(why))?;
        package.set_version(&loading.version);
        if let Some(merged) = merged {
            package
                .set_values(&merged)
                .map_err(|error| Step::Values.failed(error))?;
        }
        Ok((Ok(package), used))
    };
    let (package, values_files) = match paced(cx, declared, load).await? {
        (Ok(package), used) => (package, used),
        (Err(bytes), values_files) => {
            return Ok(Made {
                bytes,
                values_files,
                added: 0,
            });
        }
    };
    let (package, added) = match chart.is_directory {
        true => add_missing(cx, declared, package, &chart).await?,
        false => (package, 0),
    };
    let packing = cx
        .kit
        .processors
        .run(namespace, move || packed(&package, &settings));
    let packed = packing.done().await;
    let bytes = packed.map_err(|error| {
        let step = Step::Package.failed("failed to package chart");
        unfinished(&error, declared, step.reason, &step.message)
    })??;
    Ok(Made {
        bytes,
        values_files,
        added,
    })
}

/// Merges values files of a source; none if the spec names none.
pub(super) fn tree_values(
    tree: &Tree,
    (paths, ignore_missing): (&[String], bool),
    limits: &equate_helm::Limits,
    pauses: &Pauses<'_>,
) -> Result<(Option<Values>, Vec<String>), Failure> {
    if paths.is_empty() {
        return Ok((None, Vec::new()));
    }
    let (mut merged, mut used) = (Values::new(), Vec::new());
    for path in paths {
        pauses
            .here()
            .map_err(|stopped| Step::Values.failed(stopped.to_string()))?;
        let place = clean(path);
        match tree.entry(&place) {
            Some(Entry::File { .. }) => {}
            None if ignore_missing => continue,
            _ => {
                return Err(Step::Values.failed(format!(
                    "no values file found at path '/{place}' (reference '{path}')"
                )));
            }
        }
        let data = tree.read(&place).map_err(|error| {
            let why = chain(&error);
            Step::Values.failed(format!("could not read values from file '{path}': {why}"))
        })?;
        let read = read_values(&data, limits).map_err(|why| Step::Values.failed(unmarshaling(path, &why)))?;
        merged = values::merge(merged, read);
        used.push(path.clone());
    }
    Ok((Some(merged), used))
}

fn packed(package: &Package, settings: &HelmSettings) -> Result<Bytes, Failure> {
    let failed = |why: String| Step::Package.failed(format!("failed to package chart: {why}"));
    let bytes = package.write().map_err(|error| failed(chain(&error)))?;
    if bytes.len() as u64 > settings.chart_bytes_max {
        return Err(failed(too_large(package.chart().name(), settings)));
    }
    Ok(bytes.into())
}

/// Why a file of a repository could not be fetched.
#[derive(Debug)]
pub(crate) struct PullError {
    pub(crate) why: String,
    /// Whether the repository refuses the credentials, or is not trusted.
    pub(crate) is_about_trust: bool,
}

impl PullError {
    /// The failure of a step for this reason.
    pub(super) fn is(&self, failure: Failure) -> Failure {
        match self.is_about_trust {
            true => unauthenticated(&failure),
            false => failure,
        }
    }

    pub(super) fn plain(why: String) -> Self {
        Self {
            why,
            is_about_trust: false,
        }
    }
}

async fn access(cx: &HelmCharts, declared: &Declared, repository: &Repository) -> Result<Access, PullError> {
    let (namespace, home) = (&declared.key.namespace, repository.home.clone());
    let charts = &cx.kit.charts;
    let access = charts
        .access(&cx.kit.client, namespace, home, &repository.access)
        .await;
    access.map_err(|error| PullError {
        why: error.message(),
        is_about_trust: true,
    })
}

fn body<B>(answer: Result<Answer<B>, HttpError>, too_large: fn(u64) -> String) -> Result<B, PullError> {
    match answer {
        Ok(Answer::Body { body, .. }) => Ok(body),
        Ok(Answer::NotModified) => Err(PullError::plain("the host sent no content".to_owned())),
        Err(error) => Err(PullError {
            is_about_trust: error.is_about_trust(),
            why: match &error {
                HttpError::TooLarge { bytes_max, .. } => too_large(*bytes_max),
                error => chain(error),
            },
        }),
    }
}

/// Fetches a packed chart, and compares its digest if the index has one.
pub(super) async fn pull(
    cx: &HelmCharts,
    declared: &Declared,
    repository: &Repository,
    url: &str,
    digest: &str,
) -> Result<Bytes, PullError> {
    let charts = &cx.kit.charts;
    let get = Get {
        namespace: &declared.key.namespace,
        url,
        access: &access(cx, declared, repository).await?,
        known: None,
        bytes_max: charts.settings.chart_bytes_max,
        limit: repository.limit,
    };
    let large =
        |bytes_max| format!("size of chart exceeds '{bytes_max}' bytes limit (--helm-chart-max-size)");
    let bytes = body(charts.get(get).await, large)?;
    let wanted = digest.strip_prefix("sha256:").unwrap_or(digest).to_lowercase();
    let found = format!("{:x}", Sha256::digest(&bytes));
    match wanted.is_empty() || wanted == found {
        true => Ok(bytes.into()),
        false => Err(PullError::plain(format!(
            "the chart has the digest sha256:{found}, and the index says sha256:{wanted}; \
             repair the index of the repository"
        ))),
    }
}

/// Fetches and parses the index of a repository that has no artifact.
pub(super) async fn pulled_index(
    cx: &HelmCharts,
    declared: &Declared,
    repository: &Repository,
) -> Result<Catalog, String> {
    let failed = |error: PullError| format!("failed to cache index: {}", error.why);
    let (charts, url) = (&cx.kit.charts, index_url(&repository.home));
    let get = Get {
        namespace: &declared.key.namespace,
        url: url.as_str(),
        access: &access(cx, declared, repository).await.map_err(failed)?,
        known: None,
        bytes_max: charts.settings.index_bytes_max,
        limit: repository.limit,
    };
    let saved = body(charts.index(get).await, index_too_large).map_err(failed)?;
    let limits = charts.settings.index();
    let parsing = cx.kit.processors.run(&declared.key.namespace, move || {
        Catalog::read(&mut BufReader::new(saved.file), &limits)
    });
    let parsed = parsing.done().await.map_err(|_| "internal error".to_owned())?;
    parsed.map_err(|error| format!("failed to load index: {}", chain(&error)))
}

/// The URLs of the present artifact.
pub(super) fn urls(storage: &Storage, declared: &Declared, artifact: Option<&Artifact>) -> Option<Urls> {
    Some(Urls {
        artifact: storage.url(&artifact?.path),
        newest: newest(storage, declared),
    })
}

fn newest(storage: &Storage, declared: &Declared) -> String {
    storage.url(&format!("{}/latest.tar.gz", declared.publisher.place().path()))
}
