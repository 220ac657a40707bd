//! Groups failing sources by the host that gives no answer.
//!
//! The reason is read from the message of a status. A custom resource has no field for it, and another
//! process may have written the status.

use super::bootstrap;
use super::dashboard::state_and_message;
use super::summary::NAMED;
use super::view::State;
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_api::source::{Bucket, ChartSourceKind, GitRepository, HelmChart, HelmRepository, OciRepository};
use equate_controllers::kit::Listed;
use equate_controllers::{Engine, ObjectRef};
use equate_egress::Silence;
use kube::Resource;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A source whose host does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The URL that a directory could stand for, without passwords.
    url: String,
    why: Silence,
}

impl Unanswered {
    fn of(url: &str, why: Silence) -> Self {
        let url = equate_egress::without_secrets(url);
        Self { url, why }
    }
}

/// The failing sources whose host did not answer. The URL of a chart is that of its repository.
pub(crate) fn unanswered(engine: &Engine) -> BTreeMap<ObjectRef, Unanswered> {
    let repositories = engine.objects::<HelmRepository>();
    let place = |chart: &HelmChart| {
        let reference = &chart.spec.source_ref;
        let own = chart.metadata.namespace.as_deref();
        let repository = repositories.iter().find(|repository| {
            let meta = &repository.metadata;
            meta.namespace.as_deref() == own && meta.name.as_deref() == Some(reference.name.as_str())
        });
        repository
            .filter(|_| reference.kind == ChartSourceKind::HelmRepository)
            .map(|repository| repository.spec.url.clone())
    };
    let mut all = failing("GitRepository", &engine.objects::<GitRepository>(), |source| {
        Some(source.spec.url.clone())
    });
    all.extend(failing(
        "OCIRepository",
        &engine.objects::<OciRepository>(),
        |source| Some(source.spec.url.clone()),
    ));
    all.extend(failing("HelmRepository", &repositories, |source| {
        Some(source.spec.url.clone())
    }));
    all.extend(failing("HelmChart", &engine.objects::<HelmChart>(), place));
    all.extend(failing("Bucket", &engine.objects::<Bucket>(), |bucket| {
        Some(bucket_url(&bucket.spec.endpoint, &bucket.spec.bucket_name))
    }));
    all
}

fn failing<K: Listed + Resource>(
    kind: &'static str,
    objects: &[Arc<K>],
    url: impl Fn(&K) -> Option<String>,
) -> BTreeMap<ObjectRef, Unanswered> {
    let failing = objects.iter().filter_map(|object| {
        let (conditions, generation) = object.observed();
        let (meta, suspended) = (Listed::metadata(&**object), object.is_suspended());
        let (state, message) = state_and_message(meta, suspended, conditions, generation);
        let why = Silence::in_message(&message).filter(|_| state == State::Failed)?;
        let (namespace, name) = (meta.namespace.clone()?, meta.name.clone()?);
        let one = Unanswered::of(&url(object)?, why);
        Some((ObjectRef::new(kind, namespace, name), one))
    });
    failing.collect()
}

/// The URL of a bucket for `--instead-of`.
fn bucket_url(endpoint: &str, bucket: &str) -> String {
    let scheme = if endpoint.contains("://") { "" } else { "https://" };
    format!("{scheme}{}/{bucket}", endpoint.trim_end_matches('/'))
}

/// A line for each host that did not answer.
pub(super) fn silent(unanswered: &BTreeMap<ObjectRef, Unanswered>) -> Vec<String> {
    let root = ObjectRef::new("GitRepository", bootstrap::NAME, bootstrap::NAME);
    let why = |host: &str| {
        let of_host = unanswered.values().filter(|one| self::host(&one.url) == host);
        // the most telling one comes first
        match of_host.map(|one| one.why).min() {
            Some(Silence::Unresolved) => " (its name cannot be resolved)",
            Some(Silence::Refused) => " (it refuses connections)",
            Some(Silence::Late) => " (it does not answer in time)",
            Some(Silence::Broken) => " (the connection breaks)",
            Some(Silence::Unconnected) | None => "",
        }
    };
    let mut hosts: BTreeMap<&str, Vec<(&ObjectRef, &str)>> = BTreeMap::new();
    for (owner, one) in unanswered.iter().filter(|(owner, _)| **owner != root) {
        hosts.entry(host(&one.url)).or_default().push((owner, &one.url));
    }
    let mut by_number: Vec<_> = hosts.into_iter().collect();
    by_number.sort_by_key(|(_, sources)| std::cmp::Reverse(sources.len()));
    let more = by_number.len().saturating_sub(NAMED);
    let of_root = unanswered.get(&root).map(|one| {
        let host = host(&one.url);
        format!(
            "{host} cannot be reached{}: {}, the repository of this command; give the directory of a clone \
             instead of the URL",
            why(host),
            called(&root)
        )
    });
    let named = by_number.iter().take(NAMED).map(|(host, sources)| {
        let why = why(host);
        match sources.as_slice() {
            [(only, url)] => format!(
                "{host} cannot be reached{why}: {}; use its content on this machine with --instead-of {url}=DIR",
                called(only)
            ),
            all => {
                let urls: BTreeSet<&str> = all.iter().map(|(_, url)| *url).collect();
                let number = all.len();
                match urls.first() {
                    Some(only) if urls.len() == 1 => format!(
                        "{host} cannot be reached{why}: {number} sources; use their content on this machine with \
                         --instead-of {only}=DIR"
                    ),
                    first => format!(
                        "{host} cannot be reached{why}: {number} sources with {} URLs; use their content on this \
                         machine with --instead-of {}=DIR for each",
                        urls.len(),
                        first.copied().unwrap_or_default()
                    ),
                }
            }
        }
    });
    let mut lines: Vec<String> = of_root.into_iter().chain(named).collect();
    if more > 0 {
        lines.push(format!("{more} more hosts cannot be reached"));
    }
    lines
}

fn called(owner: &ObjectRef) -> String {
    match &*owner.namespace {
        DEFAULT_NAMESPACE => format!("{}/{}", owner.kind, owner.name),
        namespace => format!("{}/{namespace}/{}", owner.kind, owner.name),
    }
}

/// The host and port of a URL, also of `git@host:path`.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if url.contains("://") {
        return host;
    }
    host.split(':').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[(&'static str, &str, &str, Silence)], expected: &[&str]) {
        let sources = sources.iter().map(|(kind, name, url, why)| {
            (
                ObjectRef::new(kind, "flux-system", *name),
                Unanswered::of(url, *why),
            )
        });
        assert_eq!(silent(&sources.collect()), expected);
    }

    #[test]
    fn silent_hosts_are_named_once() {
        let oci = "OCIRepository";
        check(
            &[
                (oci, "a", "oci://ghcr.io/charts/web", Silence::Unconnected),
                (oci, "b", "oci://ghcr.io/charts/web", Silence::Unresolved),
                ("HelmChart", "c", "oci://ghcr.io/charts/db", Silence::Broken),
                (
                    oci,
                    "d",
                    "https://bob:hunter2@charts.example.org:8443/x",
                    Silence::Refused,
                ),
                (
                    "GitRepository",
                    "e",
                    "git@git.example.org:a/b",
                    Silence::Unconnected,
                ),
            ],
            &[
                "ghcr.io cannot be reached (its name cannot be resolved): 3 sources with 2 URLs; use their content on \
                 this machine with --instead-of oci://ghcr.io/charts/db=DIR for each",
                "charts.example.org:8443 cannot be reached (it refuses connections): OCIRepository/d; use its content \
                 on this machine with --instead-of https://charts.example.org:8443/x=DIR",
                "git.example.org cannot be reached: GitRepository/e; use its content on this machine with \
                 --instead-of git@git.example.org:a/b=DIR",
            ],
        );
        let charts = "https://charts.example.org";
        check(
            &[
                ("HelmChart", "a", charts, Silence::Late),
                ("HelmRepository", "a", charts, Silence::Late),
            ],
            &[
                "charts.example.org cannot be reached (it does not answer in time): 2 sources; use their content on \
                 this machine with --instead-of https://charts.example.org=DIR",
            ],
        );
    }

    #[test]
    fn the_repository_of_the_command_is_replaced_by_a_directory() {
        check(
            &[(
                "GitRepository",
                "flux-system",
                "https://git.example.org/fleet",
                Silence::Unresolved,
            )],
            &[
                "git.example.org cannot be reached (its name cannot be resolved): GitRepository/flux-system, the \
                 repository of this command; give the directory of a clone instead of the URL",
            ],
        );
    }

    #[test]
    fn a_bucket_has_the_url_that_a_directory_stands_for() {
        assert_eq!(
            bucket_url("minio.example.org:9000", "apps"),
            "https://minio.example.org:9000/apps"
        );
        assert_eq!(
            bucket_url("https://a.example.org/", "apps"),
            "https://a.example.org/apps"
        );
        assert_eq!(
            host(&bucket_url("minio.example.org:9000", "apps")),
            "minio.example.org:9000"
        );
    }
}
