//! Discovery documents: `/api`, `/apis` and below, in the unaggregated and the aggregated form, `/` and
//! `/version`.
//!
//! Pure functions of the list of resources. Groups have the order of the list, which for built-in resources
//! is upstream's; versions have Kubernetes' order. Freshness is always current, because nothing is proxied.

#[cfg(test)]
pub(crate) mod tests;

use crate::registry::{Resource, SchemaSource, Subresource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use std::sync::Arc;

/// Resources that upstream stores under another version: group, version, plural, then the stored group and
/// version.
const STORED_ELSEWHERE: &[(&str, &str, &str, &str, &str)] = &[
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "admissionregistration.k8s.io",
        "v1beta1",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
        "admissionregistration.k8s.io",
        "v1beta1",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "v1beta1",
    ),
    (
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "autoscaling",
        "v2",
    ),
    ("events.k8s.io", "v1", "events", "", "v1"),
];

pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

pub(crate) fn root_paths(resources: &[Arc<Resource>]) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/readyz/ping",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in groups(resources) {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions(resources, group)
                .into_iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    paths.sort_unstable();
    json!({ "paths": paths })
}

/// The document of `/api`; `host` is the address the client used.
pub(crate) fn api_versions(host: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
    })
}

pub(crate) fn group_list(resources: &[Arc<Resource>]) -> Value {
    let groups: Vec<Value> = groups(resources)
        .into_iter()
        .map(|group| Value::Object(group_entry(resources, group)))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(crate) fn group(resources: &[Arc<Resource>], group: &str) -> Option<Value> {
    if group.is_empty() || !resources.iter().any(|resource| resource.group == group) {
        return None;
    }
    let mut entry = group_entry(resources, group);
    entry.insert("kind".to_owned(), "APIGroup".into());
    entry.insert("apiVersion".to_owned(), "v1".into());
    Some(Value::Object(entry))
}

fn group_entry(resources: &[Arc<Resource>], group: &str) -> Map<String, Value> {
    let versions: Vec<Value> = versions(resources, group)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let mut entry = Map::new();
    entry.insert("name".to_owned(), group.into());
    entry.insert(
        "preferredVersion".to_owned(),
        versions.first().cloned().unwrap_or_default(),
    );
    entry.insert("versions".to_owned(), versions.into());
    entry
}

pub(crate) fn resource_list(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for resource in of(resources, group, version) {
        entries.push(resource_entry(resources, resource));
        entries.extend(
            resource
                .subresources
                .iter()
                .map(|sub| subresource_entry(resource, sub)),
        );
    }
    if entries.is_empty() {
        return None;
    }
    let mut list = json!({"kind": "APIResourceList", "resources": entries});
    if group.is_empty() {
        // The core group's list predates its own apiVersion.
        list["groupVersion"] = version.into();
    } else {
        list["apiVersion"] = "v1".into();
        list["groupVersion"] = format!("{group}/{version}").into();
    }
    Some(list)
}

fn resource_entry(resources: &[Arc<Resource>], resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    names(resource, &mut entry);
    if let Some(hash) = storage_version_hash(resources, resource) {
        entry["storageVersionHash"] = hash.into();
    }
    entry
}

fn subresource_entry(resource: &Resource, sub: &Subresource) -> Value {
    let (group, version, kind) = &sub.kind;
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": sub.verbs,
    });
    if !is_own(resource, sub) {
        entry["group"] = group.as_str().into();
        entry["version"] = version.as_str().into();
    }
    entry
}

fn is_own(resource: &Resource, sub: &Subresource) -> bool {
    let (group, version, _) = &sub.kind;
    version.is_empty() || (*group == resource.group && *version == resource.version)
}

fn names(resource: &Resource, entry: &mut Value) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
}

/// Lets clients see that the stored version changed. Absent for custom resources with several versions: the
/// registry does not know which one is stored, and the field is optional.
fn storage_version_hash(resources: &[Arc<Resource>], resource: &Resource) -> Option<String> {
    if !resource.verbs.iter().any(|verb| verb == "watch") {
        return None;
    }
    let custom = matches!(resource.schema, SchemaSource::Custom(_));
    let served_as = resources
        .iter()
        .filter(|other| other.group == resource.group && other.plural == resource.plural);
    if custom && served_as.count() > 1 {
        return None;
    }
    let (group, version) = STORED_ELSEWHERE
        .iter()
        .find(|(group, version, plural, ..)| {
            resource.group == *group && resource.version == *version && resource.plural == *plural
        })
        .map_or(
            (resource.group.as_str(), resource.version.as_str()),
            |(.., group, version)| (*group, *version),
        );
    let digest = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    Some(STANDARD.encode(&digest[..8]))
}

/// The aggregated document of `/api` if `core`, else of `/apis`. `version` is `v2` or `v2beta1`, which
/// differ only in this name.
pub(crate) fn aggregated(resources: &[Arc<Resource>], core: bool, version: &str) -> Value {
    let groups = if core { vec![""] } else { groups(resources) };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|group| {
            let versions: Vec<Value> = versions(resources, group)
                .into_iter()
                .map(|version| {
                    let entries: Vec<Value> =
                        of(resources, group, version).map(aggregated_resource).collect();
                    json!({"version": version, "resources": entries, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({})
            } else {
                json!({ "name": group })
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(resource: &Arc<Resource>) -> Value {
    // Built-in resources leave the group and version of their own kind empty, custom ones do not.
    let own = |kind: &str| match resource.schema {
        SchemaSource::Builtin(_) => json!({"group": "", "version": "", "kind": kind}),
        SchemaSource::Custom(_) => {
            json!({"group": resource.group, "version": resource.version, "kind": kind})
        }
    };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    names(resource, &mut entry);
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|sub| {
            let (group, version, kind) = &sub.kind;
            let response = match is_own(resource, sub) {
                true => own(kind),
                false => json!({"group": group, "version": version, "kind": kind}),
            };
            json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
        });
        entry["subresources"] = subresources.collect();
    }
    entry
}

fn of<'a>(
    resources: &'a [Arc<Resource>],
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    resources
        .iter()
        .filter(move |resource| resource.group == group && resource.version == version)
}

fn groups(resources: &[Arc<Resource>]) -> Vec<&str> {
    let mut builtin: Vec<&str> = Vec::new();
    let mut custom: Vec<&str> = Vec::new();
    for resource in resources.iter().filter(|resource| !resource.group.is_empty()) {
        let list = match resource.schema {
            SchemaSource::Builtin(_) => &mut builtin,
            SchemaSource::Custom(_) => &mut custom,
        };
        if !list.contains(&resource.group.as_str()) {
            list.push(&resource.group);
        }
    }
    custom.retain(|group| !builtin.contains(group));
    custom.sort_unstable();
    builtin.extend(custom);
    builtin
}

fn versions<'a>(resources: &'a [Arc<Resource>], group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = resources
        .iter()
        .filter(|resource| resource.group == group)
        .map(|resource| resource.version.as_str())
        .collect();
    versions.sort_unstable_by(|a, b| compare_versions(b, a));
    versions.dedup();
    versions
}

/// Kubernetes' order of versions: stable, beta, alpha, then any other text; higher numbers are greater.
fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // Other texts come last, in alphabetical order.
        (None, None) => b.cmp(a),
    }
}

fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, major.parse().ok()?, minor.parse().ok()?));
        }
    }
    Some((2, rest.parse().ok()?, 0))
}
