//! The chart of a release: the HelmChart that it owns, the source that it names, and the chart in its
//! artifact. Texts are upstream's.

use std::io::Read as _;
use std::sync::Arc;

use equate_api::meta::{Condition, ConditionType, condition, is_true};
use equate_api::source::{HelmChart, HelmChartSpec, OciRepository};
use equate_helm::{Chart, File, Limits};
use equate_manifest::go::version::Version;
use equate_source::{Entry, Publisher, Tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};

use crate::helm_release::decide::seen::{Chart as ChartSeen, OwnChart, Source, UnnamedChart};
use crate::helm_release::declared::Declared;
use crate::helm_release::{HELM_RELEASE, HelmReleases, Run, object_ref};
use crate::key::Key;
use crate::kit::mirror::{Mirror, WatchState};
use crate::kit::read::chain;
use crate::sources::artifacts::{ArtifactRequest, ArtifactState};
use crate::sources::{Named, SourceArtifact};

/// The characters of a digest in a version.
const DIGEST_CHARACTERS: usize = 12;

/// Why a policy forbids the source.
pub(super) fn denied(cx: &HelmReleases, declared: &Declared) -> Option<String> {
    let (policy, source) = (&cx.kit.settings.policy, &declared.source);
    if policy.no_cross_namespace_refs && source.namespace != declared.key.namespace {
        return Some(format!(
            "cross-namespace references are not allowed: cannot access {} {}/{}",
            source.kind, source.namespace, source.name
        ));
    }
    if source.kind == "ExternalArtifact" && !policy.external_artifacts {
        return Some(format!(
            "can't access '{}/{}/{}', ExternalArtifact feature gate is disabled",
            source.kind, source.namespace, source.name
        ));
    }
    None
}

/// The HelmChart that a template describes.
pub(in crate::helm_release) fn template(declared: &Declared) -> Option<HelmChart> {
    let template = declared.spec.chart.as_ref()?;
    let spec = &template.spec;
    let metadata = template.metadata.clone().unwrap_or_default();
    Some(HelmChart {
        metadata: ObjectMeta {
            name: Some(declared.source.name.clone()),
            namespace: Some(declared.source.namespace.clone()),
            labels: Some(metadata.labels),
            annotations: Some(metadata.annotations),
            ..ObjectMeta::default()
        },
        spec: HelmChartSpec {
            chart: spec.chart.clone(),
            ignore_missing_values_files: spec.ignore_missing_values_files,
            interval: spec.interval.unwrap_or(declared.spec.interval),
            reconcile_strategy: Some(spec.reconcile_strategy.unwrap_or_default()),
            source_ref: equate_api::source::ChartSource {
                api_version: None,
                kind: spec.source_ref.kind,
                name: spec.source_ref.name.clone(),
            },
            suspend: false,
            values_files: spec.values_files.clone(),
            verify: spec
                .verify
                .as_ref()
                .map(|verify| equate_api::source::ChartVerification {
                    provider: verify.provider,
                    secret_ref: verify.secret_ref.clone(),
                    match_oidc_identity: Vec::new(),
                }),
            version: Some(spec.version.clone().unwrap_or_else(|| "*".to_owned())),
        },
        status: None,
    })
}

/// Whether the HelmChart of the template exists as it describes.
pub(super) fn own(cx: &HelmReleases, _run: &Run<'_>, declared: &Declared) -> OwnChart {
    let found = cx.charts.get(&declared.source.key());
    match compared(declared, found.as_deref()) {
        OwnChart::Differs if found.is_none() && !cx.charts.is_ready() => OwnChart::Unlisted,
        own => own,
    }
}

/// The HelmChart of a deleted release whose status names none. The status is lost if the process ends just after it
/// created the HelmChart; then the spec may have changed, too, so that only the labels tell.
pub(super) fn unnamed(cx: &HelmReleases, declared: &Declared) -> UnnamedChart {
    let release = &declared.key;
    let is_here = |chart: &HelmChart| chart.metadata.namespace.as_ref() == Some(&release.namespace);
    // labels of another namespace may be another tenant's
    let everywhere = !cx.kit.settings.policy.no_cross_namespace_refs;
    let charts = cx.charts.all();
    let own = charts
        .iter()
        .find(|chart| is_own(chart, release) && (everywhere || is_here(chart)));
    match own {
        Some(chart) => UnnamedChart::Exists(Key::of(&chart.metadata).to_string()),
        None if declared.owns_chart && !is_listed(&cx.charts) => UnnamedChart::Unlisted,
        None => UnnamedChart::None,
    }
}

/// Whether a HelmChart has the labels of this release, and is not being deleted.
fn is_own(chart: &HelmChart, release: &Key) -> bool {
    let labels = chart.metadata.labels.as_ref();
    let has = |label: &str, value: &String| labels.and_then(|labels| labels.get(label)) == Some(value);
    has(HELM_RELEASE.name_label, &release.name)
        && has(HELM_RELEASE.namespace_label, &release.namespace)
        && chart.metadata.deletion_timestamp.is_none()
}

/// Compares the HelmChart of the template with the one that exists.
pub(in crate::helm_release) fn compared(declared: &Declared, found: Option<&HelmChart>) -> OwnChart {
    let Some(wanted) = template(declared).filter(|_| declared.owns_chart) else {
        return OwnChart::None;
    };
    let Some(found) = found else {
        return OwnChart::Differs;
    };
    let has = |found: &Option<std::collections::BTreeMap<String, String>>,
               wanted: &Option<std::collections::BTreeMap<String, String>>| {
        let wanted = wanted.iter().flatten();
        wanted
            .into_iter()
            .all(|(key, value)| found.as_ref().is_some_and(|found| found.get(key) == Some(value)))
    };
    // a suspended chart stays so
    let same = HelmChartSpec {
        suspend: false,
        ..found.spec.clone()
    } == wanted.spec;
    let deleting = found.metadata.deletion_timestamp.is_some();
    match same
        && !deleting
        && has(&found.metadata.labels, &wanted.metadata.labels)
        && has(&found.metadata.annotations, &wanted.metadata.annotations)
    {
        true => OwnChart::AsDeclared,
        false => OwnChart::Differs,
    }
}

/// Observes the source, and its chart.
pub(super) async fn source(cx: &HelmReleases, run: &mut Run<'_>, declared: &Declared) -> Source {
    if let Err(source) = is_ready(cx, declared) {
        return source;
    }
    let published = match cx.kit.sources.named(&declared.source) {
        Named::Artifact(found) => *found,
        Named::Nothing => return not_ready(declared, "does not have an artifact"),
        Named::Absent | Named::Unserved => return absent(declared),
        Named::Unlisted(None) => return Source::NotLooked,
        Named::Unlisted(Some(why)) => return Source::Absent(why),
    };
    let digest = published.artifact.digest.clone();
    if let Some(known) = run.memory.chart.as_ref().filter(|known| known.artifact == digest) {
        return Source::Ready(known.clone());
    }
    let loaded = match load(cx, run, declared, &published).await {
        Ok(chart) => chart,
        Err(source) => return source,
    };
    match released(&loaded, declared, &published) {
        Ok((chart, seen)) => {
            run.memory.loaded = Some(Arc::new(chart));
            run.memory.chart = Some(seen.clone());
            Source::Ready(seen)
        }
        Err(why) => Source::Mismatch(why),
    }
}

/// The chart of the present artifact, for an operation.
pub(in crate::helm_release) async fn chart(
    cx: &HelmReleases,
    run: &mut Run<'_>,
    declared: &Declared,
) -> Result<Arc<Chart>, String> {
    if let Some(loaded) = &run.memory.loaded {
        return Ok(Arc::clone(loaded));
    }
    run.memory.chart = None;
    match source(cx, run, declared).await {
        Source::Ready(_) => {}
        Source::Failed(why) | Source::Absent(why) | Source::NotReady(why) | Source::Mismatch(why) => {
            return Err(why);
        }
        Source::NotLooked | Source::Denied(_) | Source::Loading(_) => {
            return Err("the chart is not available now".to_owned());
        }
    }
    run.memory
        .loaded
        .clone()
        .ok_or_else(|| "the chart is not available now".to_owned())
}

pub(in crate::helm_release) fn absent(declared: &Declared) -> Source {
    let source = &declared.source;
    Source::Absent(format!(
        "{}.source.toolkit.fluxcd.io {:?} not found",
        source.kind, source.name
    ))
}

pub(in crate::helm_release) fn not_ready(declared: &Declared, why: &str) -> Source {
    let source = &declared.source;
    Source::NotReady(format!(
        "{} '{}/{}' is not ready: {why}",
        source.kind, source.namespace, source.name
    ))
}

/// Whether the source has reconciled its spec.
fn is_ready(cx: &HelmReleases, declared: &Declared) -> Result<(), Source> {
    let key = declared.source.key();
    let (generation, observed, conditions) = match declared.source.kind {
        "HelmChart" => {
            let Some(object) = cx.charts.get(&key) else {
                return Err(missing(&cx.charts, declared));
            };
            let status = object.status.clone().unwrap_or_default();
            (
                object.metadata.generation,
                status.observed_generation,
                status.conditions,
            )
        }
        "OCIRepository" => {
            let mirror = cx.oci_repositories();
            let Some(object) = mirror.get(&key) else {
                return Err(missing(mirror, declared));
            };
            let object: Arc<OciRepository> = object;
            let status = object.status.clone().unwrap_or_default();
            (
                object.metadata.generation,
                status.observed_generation,
                status.conditions,
            )
        }
        _ => return Ok(()),
    };
    match unready(declared, (generation, observed), &conditions) {
        Some(source) => Err(source),
        None => Ok(()),
    }
}

/// Why a source with these generations, declared and observed, and conditions is not ready.
pub(in crate::helm_release) fn unready(
    declared: &Declared,
    (generation, observed): (Option<i64>, Option<i64>),
    conditions: &[Condition],
) -> Option<Source> {
    if generation != observed {
        let ready = condition(conditions, ConditionType::Ready).filter(|ready| ready.status == "False");
        let why = ready.map_or("latest generation of object has not been reconciled", message);
        return Some(not_ready(declared, why));
    }
    if is_true(conditions, ConditionType::Stalled) {
        let why = condition(conditions, ConditionType::Stalled).map_or("", message);
        return Some(not_ready(declared, why));
    }
    None
}

fn message(condition: &Condition) -> &str {
    &condition.message
}

fn missing<K>(mirror: &Mirror<K>, declared: &Declared) -> Source
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    match is_listed(mirror) {
        true => absent(declared),
        false => Source::NotLooked,
    }
}

/// Whether all objects of the kind are known; none if it is not served.
fn is_listed<K>(mirror: &Mirror<K>) -> bool
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    mirror.is_ready() || matches!(*mirror.watch_state().borrow(), WatchState::Unserved)
}

/// Loads the chart of an artifact: from this process's store, or as its publisher serves it.
async fn load(
    cx: &HelmReleases,
    run: &Run<'_>,
    declared: &Declared,
    published: &SourceArtifact,
) -> Result<Arc<Chart>, Source> {
    let SourceArtifact { artifact, publisher } = published;
    if let Some(known) = cx.loaded(&artifact.digest) {
        return Ok(known);
    }
    let limits = cx.kit.charts.settings.chart();
    let namespace = &declared.key.namespace;
    // also one that another controller of this process made
    let loaded = match stored(cx, namespace, publisher, &artifact.digest, &limits).await {
        Some(loaded) => {
            cx.kit.artifacts.release(&object_ref(&declared.key));
            loaded
        }
        // its controller publishes it here shortly
        None if cx.kit.sources.serves(&declared.source) => {
            return Err(not_ready(declared, "its artifact is not in the store yet"));
        }
        None => {
            let servers = &cx.kit.settings.policy.artifact_servers;
            if let Err(error) = servers.check(publisher, &artifact.url) {
                return Err(Source::Failed(error.to_string()));
            }
            let ask = ArtifactRequest {
                publisher,
                digest: &artifact.digest,
                url: &artifact.url,
                retry: declared.spec.interval.get(),
                token: run.request(),
            };
            match cx.kit.artifacts.get(&object_ref(&declared.key), ask) {
                ArtifactState::Coming(trouble) => {
                    return Err(Source::Loading(trouble.as_deref().map(str::to_owned)));
                }
                ArtifactState::Failed(_, why) => return Err(Source::Failed(why.as_ref().to_owned())),
                ArtifactState::Here(tree) => {
                    let loading = cx.kit.processors.run(namespace, move || of_tree(&tree, &limits));
                    let loaded = loading.done().await;
                    loaded.unwrap_or_else(|error| Err(error.to_string()))
                }
            }
        }
    };
    let chart = loaded.map(Arc::new).map_err(Source::Failed)?;
    cx.keep_loaded(&artifact.digest, &chart);
    Ok(chart)
}

/// The chart of an artifact in the store; `None` if it has none.
async fn stored(
    cx: &HelmReleases,
    namespace: &str,
    publisher: &Publisher,
    digest: &str,
    limits: &Limits,
) -> Option<Result<Chart, String>> {
    let (storage, publisher, digest) = (cx.kit.storage.clone(), publisher.clone(), digest.to_owned());
    let limits = *limits;
    let loading = cx.kit.processors.run(namespace, move || {
        let stored = storage.open_blob(&publisher, &digest)?;
        let mut bytes = Vec::new();
        let read = stored
            .take(limits.archive_bytes_max.saturating_add(1))
            .read_to_end(&mut bytes);
        Some(match read {
            Err(error) => Err(error.to_string()),
            Ok(_) => Chart::from_archive(&bytes, &limits).map_err(|error| chain(&error)),
        })
    });
    loading
        .done()
        .await
        .unwrap_or_else(|error| Some(Err(error.to_string())))
}

/// The chart of an unpacked archive: all files are below one directory.
fn of_tree(tree: &Tree, limits: &Limits) -> Result<Chart, String> {
    let mut files = Vec::new();
    let mut left = limits.total_bytes_max;
    collect(tree, "", &mut files, &mut left, limits)?;
    for file in &mut files {
        if let Some((_, below)) = file.name.split_once('/') {
            file.name = below.into();
        }
    }
    Chart::from_files(files, limits).map_err(|error| chain(&error))
}

fn collect(
    tree: &Tree,
    directory: &str,
    files: &mut Vec<File>,
    left: &mut u64,
    limits: &Limits,
) -> Result<(), String> {
    for (name, entry) in tree.list(directory).unwrap_or_default() {
        let path = match directory {
            "" => name,
            directory => format!("{directory}/{name}"),
        };
        match entry {
            Entry::Directory { .. } => collect(tree, &path, files, left, limits)?,
            Entry::File { .. } => {
                let bytes = tree.read(&path).map_err(|error| chain(&error))?;
                let rest = left.checked_sub(bytes.len() as u64);
                *left = rest.ok_or_else(|| {
                    equate_helm::LimitExceeded::TotalBytes(limits.total_bytes_max).to_string()
                })?;
                if files.len() >= limits.files_max {
                    return Err(equate_helm::LimitExceeded::Files(limits.files_max).to_string());
                }
                files.push(File {
                    name: path.as_str().into(),
                    data: bytes[..].into(),
                });
            }
        }
    }
    Ok(())
}

/// The chart as it is released: an OCI artifact's digest is part of the version, so that a tag that moves
/// makes another release.
fn released(
    chart: &Chart,
    declared: &Declared,
    published: &SourceArtifact,
) -> Result<(Chart, ChartSeen), String> {
    let artifact = &published.artifact;
    let revision = artifact.revision.as_str();
    let mut chart = chart.clone();
    let has_digest = match declared.source.kind {
        "OCIRepository" => true,
        "ExternalArtifact" => revision.contains(':'),
        _ => false,
    };
    let oci_digest = match has_digest {
        false => None,
        true => {
            let (version, digest) = with_digest(&chart.metadata.version, revision)?;
            let mut metadata = (*chart.metadata).clone();
            metadata.version = version;
            // parsed templates are cached by the digest, with the metadata
            chart.digest = Sha256::new()
                .chain_update(chart.digest)
                .chain_update(metadata.version.as_bytes())
                .finalize()
                .into();
            chart.metadata = Arc::new(metadata);
            Some(digest)
        }
    };
    let seen = ChartSeen {
        name: chart.metadata.name.clone(),
        version: chart.metadata.version.clone(),
        app_version: chart.metadata.app_version.clone(),
        oci_digest,
        artifact: artifact.digest.clone(),
    };
    Ok((chart, seen))
}

/// A chart's version with the digest of a revision, and that digest.
pub(in crate::helm_release) fn with_digest(
    version: &str,
    revision: &str,
) -> Result<(String, String), String> {
    let parsed = Version::parse(version).map_err(|_| format!("invalid chart version {version}"))?;
    let invalid = || format!("invalid artifact revision {revision}");
    let (tag, digest) = match revision.split_once('@') {
        Some((tag, digest)) => (Some(tag.replace('_', "+")), digest),
        None => (None, revision),
    };
    let tagged = tag.as_deref().and_then(|tag| Version::parse(tag).ok());
    let digest = match (&tag, tagged) {
        (Some(tag), Some(tagged)) => {
            if tagged.to_string() != parsed.to_string() {
                return Err(format!(
                    "artifact revision {tag} does not match chart version {version}"
                ));
            }
            digest
        }
        // a tag that is no version: upstream takes the whole revision
        (Some(_), None) => revision,
        (None, _) => digest,
    };
    let (_, hash) = digest
        .split_once(':')
        .filter(|(_, hash)| !hash.contains(':'))
        .ok_or_else(invalid)?;
    let short = hash.get(..DIGEST_CHARACTERS).ok_or_else(invalid)?;
    let version = parsed.with_metadata(short).map_err(|error| error.to_string())?;
    Ok((version.to_string(), digest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_digest_of_the_artifact() {
        let check = |version: &str, revision: &str, expected: Result<(&str, &str), &str>| {
            let found = with_digest(version, revision);
            let found = found
                .as_ref()
                .map(|(version, digest)| (version.as_str(), digest.as_str()));
            assert_eq!(found.map_err(String::as_str), expected, "{version} {revision}");
        };
        let digest = "sha256:0123456789abcdef";
        check(
            "6.9.0",
            "6.9.0@sha256:0123456789abcdef",
            Ok(("6.9.0+0123456789ab", digest)),
        );
        check("6.9.0", digest, Ok(("6.9.0+0123456789ab", digest)));
        check(
            "6.9.0",
            "latest@sha256:0123456789abcdef",
            Ok(("6.9.0+0123456789ab", "latest@sha256:0123456789abcdef")),
        );
        check(
            "6.9.0",
            "6.9.1@sha256:0123456789abcdef",
            Err("artifact revision 6.9.1 does not match chart version 6.9.0"),
        );
        check(
            "6.9.0",
            "6.9.0@sha256:0123",
            Err("invalid artifact revision 6.9.0@sha256:0123"),
        );
        check("x", digest, Err("invalid chart version x"));
    }
}
