//! Endpoints and EndpointSlices of Services with a selector. Nothing answers at the addresses.

use super::Kind;
use super::context::{Context, digest, is_ready};
use crate::builtin::tree::{entries, flag, get, int, items, text};
use crate::controllers::Action;
use crate::controllers::object::{deleting, meta, uid};
use crate::store::Key;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// `maxEndpointsPerSlice` of kube-controller-manager.
const SLICE_MAX: usize = 100;
/// The most addresses in an Endpoints object.
const ENDPOINTS_MAX: usize = 1000;
const SLICE_MANAGER: &str = "endpointslice-controller.k8s.io";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const RESERVED: [&str; 3] = [
    "kubernetes.io/service-name",
    "endpointslice.kubernetes.io/managed-by",
    HEADLESS,
];
const CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The selector of a Service whose endpoints are its pods.
pub(super) fn selector(service: &Value) -> Option<Value> {
    let labels = get(service, "spec.selector");
    let selects = text(service, "spec.type") != "ExternalName" && !labels.is_null();
    selects.then(|| json!({ "matchLabels": labels }))
}

pub(super) fn reconcile(cx: &mut Context<'_>, service: &Value) {
    if selector(service).is_none() {
        return;
    }
    let mut pods: Vec<&Value> = cx.selected_pods();
    pods.retain(|pod| {
        let ended = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
        !ended && !text(pod, "status.podIP").is_empty()
    });
    slices(cx, service, &pods);
    legacy(cx, service, &pods);
}

/// Deletes the Endpoints of a deleted Service. Slices have an owner reference instead.
pub(super) fn remove(cx: &mut Context<'_>) {
    let name = &cx.key.name;
    let Some(endpoints) = cx.get(Kind::Endpoints, &cx.key.namespace, name) else {
        return;
    };
    if endpoints["metadata"]["labels"][MANAGED_BY] == MANAGER {
        let key = Key::new(&Kind::Endpoints.resource(), &*cx.key.namespace, &**name);
        let kill = cx.kill(&key, endpoints);
        cx.step(vec![kill]);
    }
}

fn is_headless(service: &Value) -> bool {
    matches!(text(service, "spec.clusterIP"), "" | "None")
}

fn labels_of(service: &Value, reserved: &[&str]) -> Map<String, Value> {
    let mut labels: Map<String, Value> = entries(service, "metadata.labels")
        .filter(|(name, _)| !reserved.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels
}

/// The ports of a Service as one pod serves them.
fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let port = |port: &Value| {
        let target = get(port, "targetPort");
        let number = match target.as_str() {
            Some(name) => named_port(pod, name, text(port, "protocol"))?,
            None => int(port, "targetPort")
                .filter(|n| *n != 0)
                .or(int(port, "port"))?,
        };
        let mut out = json!({
            "name": text(port, "name"), "port": number, "protocol": text(port, "protocol"),
        });
        if !get(port, "appProtocol").is_null() {
            out["appProtocol"] = port["appProtocol"].clone();
        }
        Some(out)
    };
    items(service, "spec.ports").iter().filter_map(port).collect()
}

fn named_port(pod: &Value, name: &str, protocol: &str) -> Option<i64> {
    items(pod, "spec.containers")
        .iter()
        .flat_map(|container| items(container, "ports"))
        .find(|port| text(port, "name") == name && text(port, "protocol") == protocol)
        .and_then(|port| int(port, "containerPort"))
}

fn hostname<'v>(service: &Value, pod: &'v Value) -> Option<&'v Value> {
    let named = !text(pod, "spec.hostname").is_empty()
        && text(pod, "spec.subdomain") == meta(service, "name")
        && meta(pod, "namespace") == meta(service, "namespace");
    named.then(|| get(pod, "spec.hostname"))
}

fn reference(pod: &Value) -> Value {
    json!({
        "kind": "Pod", "namespace": meta(pod, "namespace"), "name": meta(pod, "name"), "uid": uid(pod),
    })
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let (serving, terminating) = (is_ready(pod), deleting(pod));
    let ready = flag(service, "spec.publishNotReadyAddresses") || (serving && !terminating);
    let mut out = json!({
        "addresses": [text(pod, "status.podIP")],
        "conditions": { "ready": ready, "serving": serving, "terminating": terminating },
        "targetRef": reference(pod),
        "nodeName": text(pod, "spec.nodeName"),
    });
    if let Some(hostname) = hostname(service, pod) {
        out["hostname"] = hostname.clone();
    }
    out
}

fn slices(cx: &mut Context<'_>, service: &Value, pods: &[&Value]) {
    let mut by_ports: BTreeMap<String, (Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for pod in pods {
        let ports = ports(service, pod);
        let group = by_ports
            .entry(json!(ports).to_string())
            .or_insert_with(|| (ports, Vec::new()));
        group.1.push(endpoint(service, pod));
    }
    // A Service without pods has one slice without endpoints.
    if by_ports.is_empty() {
        by_ports.insert(String::new(), (Vec::new(), Vec::new()));
    }
    let mut labels = labels_of(service, &RESERVED);
    labels.insert(RESERVED[0].to_owned(), json!(meta(service, "name")));
    labels.insert(RESERVED[1].to_owned(), json!(SLICE_MANAGER));
    let mut wanted: Vec<(&[Value], &[Value])> = Vec::new();
    for (ports, endpoints) in by_ports.values() {
        match endpoints.is_empty() {
            true => wanted.push((ports, &[])),
            false => wanted.extend(endpoints.chunks(SLICE_MAX).map(|chunk| (&ports[..], chunk))),
        }
    }
    let present: Vec<(&Key, &Value)> = cx
        .children_of(service, Kind::Slice)
        .into_iter()
        .filter(|(_, slice)| slice["metadata"]["labels"][RESERVED[1]] == SLICE_MANAGER)
        .collect();
    let mut names = free_names(cx, meta(service, "name"));
    let mut actions = Vec::new();
    for (nth, (ports, endpoints)) in wanted.iter().enumerate() {
        let desired = json!({ "endpoints": endpoints, "ports": ports });
        actions.extend(match present.get(nth) {
            Some((key, slice)) => update(cx, key, slice, &labels, &desired),
            None => names
                .next()
                .map(|name| create(cx, service, &name, &labels, &desired)),
        });
    }
    for (key, slice) in present.iter().skip(wanted.len()) {
        actions.push(cx.kill(key, slice));
    }
    drop(names);
    cx.step(actions);
}

fn free_names<'c>(cx: &'c Context<'_>, service: &'c str) -> impl Iterator<Item = String> + use<'c> {
    let (snapshot, namespace) = (cx.seen.snapshot, &*cx.key.namespace);
    (0..1000)
        .map(move |nth: usize| {
            let suffix = digest(&["slice", namespace, service, &nth.to_string()], 5);
            format!("{service}-{suffix}")
        })
        .filter(move |name| {
            snapshot
                .get(&Key::new(&Kind::Slice.resource(), namespace, name.as_str()))
                .is_none()
        })
}

fn create(
    cx: &Context<'_>,
    service: &Value,
    name: &str,
    labels: &Map<String, Value>,
    desired: &Value,
) -> Action {
    let object = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "generateName": format!("{}-", meta(service, "name")),
            "namespace": cx.key.namespace, "labels": labels,
            "annotations": { CHANGED: cx.now() },
            "ownerReferences": super::context::controller_reference(service),
        },
        "addressType": "IPv4",
        "endpoints": desired["endpoints"], "ports": desired["ports"],
    });
    cx.create(Kind::Slice, object)
}

fn update(
    cx: &Context<'_>,
    key: &Key,
    slice: &Value,
    labels: &Map<String, Value>,
    desired: &Value,
) -> Option<Action> {
    let known = json!({
        "endpoints": items(slice, "endpoints"), "ports": items(slice, "ports"),
        "labels": get(slice, "metadata.labels"),
    });
    let wanted = json!({
        "endpoints": desired["endpoints"], "ports": desired["ports"], "labels": labels,
    });
    let mut patch = super::context::difference(&known, &wanted)?;
    let labels = patch.as_object_mut().and_then(|fields| fields.remove("labels"));
    patch["metadata"] = json!({ "annotations": { CHANGED: cx.now() } });
    if let Some(labels) = labels {
        patch["metadata"]["labels"] = labels;
    }
    Some(cx.change(key, slice, patch))
}

fn address(service: &Value, pod: &Value) -> Value {
    let mut out = json!({
        "ip": text(pod, "status.podIP"), "nodeName": text(pod, "spec.nodeName"), "targetRef": reference(pod),
    });
    if let Some(hostname) = hostname(service, pod) {
        out["hostname"] = hostname.clone();
    }
    out
}

/// The Endpoints object, which has the name of its Service.
fn legacy(cx: &mut Context<'_>, service: &Value, pods: &[&Value]) {
    let mut groups: BTreeMap<String, Value> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !deleting(pod)).take(ENDPOINTS_MAX) {
        let ports = ports(service, pod);
        if ports.is_empty() && !items(service, "spec.ports").is_empty() {
            continue;
        }
        let ready = is_ready(pod) || flag(service, "spec.publishNotReadyAddresses");
        let list = if ready { "addresses" } else { "notReadyAddresses" };
        let group = groups.entry(json!(ports).to_string()).or_insert_with(|| {
            let mut ports = json!(ports);
            // Here an unnamed port has no name.
            for port in ports.as_array_mut().into_iter().flatten() {
                if port["name"] == ""
                    && let Some(fields) = port.as_object_mut()
                {
                    fields.remove("name");
                }
            }
            match ports.as_array().is_some_and(Vec::is_empty) {
                true => json!({}),
                false => json!({ "ports": ports }),
            }
        });
        match group[list].as_array_mut() {
            Some(known) => known.push(address(service, pod)),
            None => group[list] = json!([address(service, pod)]),
        }
    }
    let mut labels = labels_of(service, &[HEADLESS]);
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    let subsets: Vec<Value> = groups.into_values().collect();
    let Some(known) = cx.get(Kind::Endpoints, &cx.key.namespace, &cx.key.name) else {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": cx.key.name, "namespace": cx.key.namespace, "labels": labels,
                "annotations": { CHANGED: cx.now() },
            },
        });
        if !subsets.is_empty() {
            object["subsets"] = json!(subsets);
        }
        let create = cx.create(Kind::Endpoints, object);
        return cx.step(vec![create]);
    };
    let present = json!({
        "subsets": items(known, "subsets"), "labels": get(known, "metadata.labels"),
    });
    let wanted = json!({ "subsets": subsets, "labels": labels });
    let Some(mut patch) = super::context::difference(&present, &wanted) else {
        return;
    };
    let labels = patch.as_object_mut().and_then(|fields| fields.remove("labels"));
    patch["metadata"] = json!({ "annotations": { CHANGED: cx.now() } });
    if let Some(labels) = labels {
        patch["metadata"]["labels"] = labels;
    }
    let key = Key::new(&Kind::Endpoints.resource(), &*cx.key.namespace, &*cx.key.name);
    let change = cx.change(&key, known, patch);
    cx.step(vec![change]);
}
