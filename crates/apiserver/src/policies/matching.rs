//! `matchConstraints` and `matchResources`: the requests that a policy is about.

use super::Request;
use crate::builtin::selector;
use crate::builtin::tree::{get, items, text};
use crate::pipeline::View;
use crate::registry::Resource;
use crate::store::{Key, ResourceId};
use serde_json::Value;

pub(crate) fn matches(constraints: &Value, request: &Request<'_>, view: &View) -> bool {
    namespace_selected(get(constraints, "namespaceSelector"), request, view)
        && object_selected(get(constraints, "objectSelector"), request)
        && !any_rule(constraints, "excludeResourceRules", request, view)
        && (items(constraints, "resourceRules").is_empty()
            || any_rule(constraints, "resourceRules", request, view))
}

fn namespace_selected(selected: &Value, request: &Request<'_>, view: &View) -> bool {
    if selected.is_null() || selector::is_empty(selected) {
        return true;
    }
    let target = request.target;
    if target.resource.is_namespace() {
        let namespace = request.object.or(request.old).unwrap_or(&Value::Null);
        return selector::matches(selected, get(namespace, "metadata.labels"));
    }
    if target.namespace.is_empty() {
        return true;
    }
    let key = Key::new(&ResourceId::new("", "namespaces"), "", target.namespace.as_str());
    view.snapshot
        .get(&key)
        .is_some_and(|entry| selector::matches(selected, get(entry.object(), "metadata.labels")))
}

fn object_selected(selected: &Value, request: &Request<'_>) -> bool {
    selected.is_null()
        || selector::is_empty(selected)
        || [request.object, request.old]
            .into_iter()
            .flatten()
            .any(|object| selector::matches(selected, get(object, "metadata.labels")))
}

fn any_rule(constraints: &Value, list: &str, request: &Request<'_>, view: &View) -> bool {
    let resource = &request.target.resource;
    // with `Equivalent` a rule about another version of the resource counts too
    let others =
        view.registry.resources().iter().filter(|other| {
            text(constraints, "matchPolicy") != "Exact" && other.storage() == resource.storage()
        });
    let equivalent: Vec<&Resource> = std::iter::once(&**resource)
        .chain(others.map(|other| &**other))
        .collect();
    items(constraints, list).iter().any(|rule| {
        equivalent
            .iter()
            .any(|resource| rule_matches(rule, resource, request))
    })
}

fn rule_matches(rule: &Value, resource: &Resource, request: &Request<'_>) -> bool {
    let listed = |list: &str, value: &str| items(rule, list).iter().any(|one| one == "*" || one == value);
    let subresource = request.target.endpoint.subresource();
    let names_resource = items(rule, "resources")
        .iter()
        .filter_map(Value::as_str)
        .any(|pattern| {
            let (wanted, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
            (wanted == "*" || wanted == resource.plural) && (sub == "*" || sub == subresource)
        });
    let is_cluster_wide = request.target.namespace.is_empty() || request.target.resource.is_namespace();
    let in_scope = match text(rule, "scope") {
        "Cluster" => is_cluster_wide,
        "Namespaced" => !is_cluster_wide,
        _ => true,
    };
    let names = items(rule, "resourceNames");
    in_scope
        && names_resource
        && listed("operations", request.operation())
        && listed("apiGroups", &resource.group)
        && listed("apiVersions", &resource.version)
        && (names.is_empty() || names.iter().any(|name| name == request.name))
}
