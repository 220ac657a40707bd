//! Observes the artifact in the store, and the chart that the source offers.

use equate_api::meta::{ConditionType, Reason};
use equate_api::source::{ChartSourceKind, HelmChartStatus, HelmRepositoryType};

use super::build::{Build, Step, with_metadata};
use super::decide::{Artifact, Failed, Observed};
use super::declared::Declared;
use super::origin::{LocalChart, Origin, Repository};
use super::registry::{RegistryChart, RegistrySpec, Tagged};
use super::{ABOUT, HelmCharts};
use crate::ObjectRef;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::charts::{home, repository_publisher, timeout};
use crate::sources::failure::Failure;
use crate::sources::store::{Form, is_stored};
use crate::sources::{Named, store};

/// The length of a revision in a version. A label with the version has at most 63 characters.
const REVISION_CHARACTERS: usize = 12;

/// Observes the store, then the source.
pub(super) async fn observe(cx: &HelmCharts, declared: &Declared, status: HelmChartStatus) -> Observed {
    let artifact = match status.artifact.clone() {
        None => Artifact::None,
        Some(artifact) => match is_stored(&cx.kit.storage, &declared.publisher, artifact, Form::Blob).await {
            true => Artifact::Stored,
            false => Artifact::Lost,
        },
    };
    let mut source = None;
    let found = match declared.source_kind {
        ChartSourceKind::HelmRepository => in_repository(cx, declared, &mut source).await,
        ChartSourceKind::GitRepository | ChartSourceKind::Bucket => in_files(cx, declared, &mut source).await,
    };
    let found = found.map(|(build, origin)| (observed_values(declared, &status, build), origin));
    Observed {
        status,
        artifact,
        source,
        found,
    }
}

/// If missing files are ignored, only the status knows those in the present artifact. Flux names all files of
/// the spec if none of them exists.
fn observed_values(declared: &Declared, status: &HelmChartStatus, build: Build) -> Build {
    let known = &status.observed_values_files;
    match declared.ignore_missing {
        true => Build {
            values_files: known.clone(),
            ..build
        },
        false => build,
    }
}

async fn in_repository(
    cx: &HelmCharts,
    declared: &Declared,
    source: &mut Option<String>,
) -> Result<(Build, Origin), Failed> {
    let Some(object) = cx.repositories.get(&declared.source.key()) else {
        return Err(absent(declared));
    };
    if object.spec.kind == Some(HelmRepositoryType::Oci) {
        return in_registry(cx, declared, &(&object.spec).into()).await;
    }
    check_unsigned(declared)?;
    let artifact = object.status.as_ref().and_then(|status| status.artifact.as_ref());
    let (Some(artifact), Some(publisher)) = (artifact, repository_publisher(&object)) else {
        return Err(no_artifact(declared));
    };
    *source = Some(artifact.revision.clone());
    let home = home(&object.spec.url).map_err(|why| {
        let message = format!("invalid Helm repository URL: {why}");
        Failure::stalling(ConditionType::FetchFailed, Reason::UrlInvalid, message)
    })?;
    check_name(&declared.chart)?;
    let catalog = cx.kit.charts.catalog(&publisher, &artifact.digest).await;
    let catalog = catalog.map_err(|error| match error {
        crate::sources::charts::CatalogError::Absent(_) => no_artifact(declared),
        error => Step::Pull.failed(remote(&chain(&error))).into(),
    })?;
    let (name, range) = (declared.chart.clone(), declared.version.clone());
    let select = move || catalog.select(&name, &range).cloned();
    // it may be one of 150,000
    let offer = cx
        .kit
        .processors
        .run(&declared.key.namespace, select)
        .done()
        .await;
    let offer = offer.map_err(|_| Failure::broken(Reason::ChartPullError, &declared.key))?;
    let offer = offer.map_err(|error| Step::Reference.failed(remote(&chain(&error))))?;
    let metadata = match cx.kit.charts.substitute(&home) {
        Some(_) => marked(&offer.version, metadata(declared, None)),
        None => metadata(declared, None),
    };
    let build = Build {
        name: offer.name.to_string(),
        version: with_metadata(&offer.version, metadata.as_deref())?,
        packaged: metadata.is_some(),
        values_files: declared.values_files.clone(),
        verified: false,
    };
    let repository = Repository {
        home,
        access: (&object.spec).into(),
        limit: TimeLimit::of(timeout(&object.spec), cx.kit.settings.timeout_max),
    };
    Ok((build, Origin::Repository(repository, Box::new(offer))))
}

async fn in_registry(
    cx: &HelmCharts,
    declared: &Declared,
    spec: &RegistrySpec,
) -> Result<(Build, Origin), Failed> {
    check_name(&declared.chart)?;
    let chart = RegistryChart::open(cx, &declared.key.namespace, spec, &declared.chart).await?;
    // the HelmRepository is static: nothing else wakes this chart
    let object = ObjectRef::of(ABOUT.kind, &declared.key);
    cx.kit.watches.follow_files(object, chart.substitute(cx)).await;
    let selected = chart.select(cx, &declared.version).await;
    let version = selected.map_err(|error| error.is(Step::Pull.failed(remote(&error.why))))?;
    let mut tagged = Tagged {
        version,
        digest: None,
    };
    let mut verified = false;
    if let Some(required) = &declared.required {
        let resolved = chart.resolve(cx, &tagged.version).await;
        let url = chart.at(&tagged.version);
        let unverified = |why: &str| Step::Verification.failed(format!("failed to verify {url}: {why}"));
        let digest = resolved.map_err(|error| error.is(unverified(&error.why)))?;
        let checked = chart.verify(cx, required, &digest).await;
        verified = checked.map_err(|error| match error.is_setup {
            true => error.failure(),
            false => unverified(&error.why),
        })?;
        // what was verified is pulled, whatever becomes of the tag
        tagged.digest = Some(digest);
    }
    let metadata = match chart.substitute(cx) {
        Some(_) => marked(&tagged.version, metadata(declared, None)),
        None => metadata(declared, None),
    };
    let build = Build {
        name: declared.chart.clone(),
        version: with_metadata(&tagged.version, metadata.as_deref())?,
        packaged: metadata.is_some(),
        values_files: declared.values_files.clone(),
        verified,
    };
    Ok((build, Origin::Registry(Box::new(chart), tagged)))
}

fn remote(why: &str) -> String {
    format!("failed to get chart version for remote reference: {why}")
}

/// Upstream's `^([-a-z0-9]+/?\.?)+$`.
fn check_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Step::Reference.failed("no name set for remote chart reference"));
    }
    let is_word = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut words = name.split(['/', '.']);
    let is_sound = name.bytes().all(|byte| is_word(byte) || b"/.".contains(&byte))
        && words.next().is_some_and(|first| !first.is_empty())
        && !name.contains("//")
        && !name.contains("..")
        && !name.contains("./");
    match is_sound {
        true => Ok(()),
        false => Err(Step::Reference.failed(format!(
            "invalid chart name '{name}': a valid name must be lower case letters and numbers and MAY be separated \
             with dashes (-), slashes (/) or periods (.)"
        ))),
    }
}

/// Upstream fails for chart repositories, too, and admits no other source.
fn check_unsigned(declared: &Declared) -> Result<(), Failure> {
    match declared.required {
        None => Ok(()),
        Some(_) => {
            let why = "only charts of a HelmRepository of type oci have signatures; remove spec.verify";
            Err(Step::Verification.failed(why))
        }
    }
}

async fn in_files(
    cx: &HelmCharts,
    declared: &Declared,
    source: &mut Option<String>,
) -> Result<(Build, Origin), Failed> {
    check_unsigned(declared)?;
    let (artifact, publisher) = match cx.kit.sources.named(&declared.source) {
        Named::Artifact(found) => (found.artifact, found.publisher),
        Named::Nothing => return Err(no_artifact(declared)),
        Named::Absent | Named::Unserved => return Err(absent(declared)),
        Named::Unlisted(why) => {
            let why = why.unwrap_or_else(|| "sources of its kind are not listed yet".to_owned());
            return Err(unavailable(&why));
        }
    };
    let namespace = &declared.key.namespace;
    let tree = store::tree(&cx.kit, namespace, &publisher, &artifact.digest).await;
    let Some(tree) = tree.map_err(|why| unavailable(&why))? else {
        return Err(no_artifact(declared));
    };
    *source = Some(artifact.revision.clone());
    let (settings, reference) = (cx.kit.charts.settings.clone(), declared.chart.clone());
    let finding = cx.kit.processors.run(&declared.key.namespace, move || {
        LocalChart::find(&tree, &reference, &settings)
    });
    let found = finding.done().await;
    let (chart, name, version) =
        found.unwrap_or_else(|_| Err(Failure::broken(Reason::ChartPullError, &declared.key)))?;
    let metadata = metadata(declared, Some(&artifact.revision));
    let build = Build {
        name,
        version: with_metadata(&version, metadata.as_deref())?,
        packaged: chart.is_directory || metadata.is_some(),
        values_files: declared.values_files.clone(),
        verified: false,
    };
    Ok((build, Origin::Files(chart)))
}

/// The build metadata of the version: the source's revision, and the generation that selects values.
fn metadata(declared: &Declared, revision: Option<&str>) -> Option<String> {
    let revision = revision.filter(|_| declared.by_revision).map(|revision| {
        let hash = revision.rsplit(':').next().unwrap_or_default();
        hash.chars().take(REVISION_CHARACTERS).collect::<String>()
    });
    let generation = (!declared.values_files.is_empty()).then(|| declared.generation.to_string());
    match (revision, generation) {
        (Some(revision), Some(generation)) => Some(format!("{revision}.{generation}")),
        (revision, generation) => revision.or(generation),
    }
}

/// The build metadata of a chart in a directory of this machine. Its version has the digest of the files, so
/// that a change of them is a new version: the digest stays.
fn marked(version: &str, metadata: Option<String>) -> Option<String> {
    let added = metadata?;
    Some(match version.split_once('+') {
        Some((_, digest)) => format!("{digest}.{added}"),
        None => added,
    })
}

fn absent(declared: &Declared) -> Failed {
    let (kind, name) = (declared.source.kind, &declared.source.name);
    unavailable(&format!("{kind}.source.toolkit.fluxcd.io \"{name}\" not found"))
}

fn unavailable(why: &str) -> Failed {
    let message = format!("failed to get source: {why}");
    Failure::passing(ConditionType::FetchFailed, Reason::SourceUnavailable, message).into()
}

fn no_artifact(declared: &Declared) -> Failed {
    let (kind, name) = (declared.source.kind, &declared.source.name);
    let message = format!("no artifact available for {kind} source '{name}'");
    Failed {
        waits: true,
        ..Failure::passing(ConditionType::FetchFailed, Reason::NoSourceArtifact, message).into()
    }
}
