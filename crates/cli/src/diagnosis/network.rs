//! Judges Services and Ingresses by their pods and backends: pure.

use super::pod::is_ready;
use super::read::labels_text;
use super::{Node, NodeHealth};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::networking::v1::{Ingress, IngressServiceBackend, ServiceBackendPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::{BTreeMap, BTreeSet};

/// The labels of a Service's pods; none if it has no selector.
pub(super) fn selector(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref()?;
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    (spec.type_.as_deref() != Some("ExternalName")).then(|| labels_text(selector))
}

pub(super) fn service(mut node: Node, service: &Service, selector: &str, pods: &[Pod]) -> Node {
    let failed = |mut node: Node, reason: &str, message: String| {
        node.health = NodeHealth::Failed;
        node.because(reason, message)
    };
    let ready: Vec<&Pod> = pods.iter().filter(|pod| is_ready(pod)).collect();
    if pods.is_empty() {
        return failed(node, "NoEndpoints", format!("no pod has the labels {selector}"));
    }
    if ready.is_empty() {
        let message = match pods.len() {
            1 => "its pod is not ready".to_owned(),
            pods => format!("none of its {pods} pods is ready"),
        };
        return failed(node, "NoEndpoints", message);
    }
    if let Some(port) = unknown_port(service, &ready) {
        let message = format!("no container of its pods has a port named {port}");
        return failed(node, "NoEndpoints", message);
    }
    if node.is_healthy() {
        node.message = match ready.len() {
            1 => "1 pod is ready".to_owned(),
            ready => format!("{ready} pods are ready"),
        };
    }
    node
}

/// A named target port that no pod declares.
fn unknown_port(service: &Service, pods: &[&Pod]) -> Option<String> {
    let declared: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref())
        .flat_map(|spec| {
            let sidecars = spec.init_containers.iter().flatten();
            spec.containers.iter().chain(sidecars)
        })
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| port.name.as_deref())
        .collect();
    let ports = service.spec.as_ref()?.ports.iter().flatten();
    let mut named = ports.filter_map(|port| match &port.target_port {
        Some(IntOrString::String(name)) => Some(name),
        _ => None,
    });
    named.find(|name| !declared.contains(name.as_str())).cloned()
}

/// The Services of an Ingress, each with the ports that it uses.
pub(super) fn backends(ingress: &Ingress) -> BTreeMap<String, Vec<ServiceBackendPort>> {
    let mut found: BTreeMap<String, Vec<ServiceBackendPort>> = BTreeMap::new();
    let Some(spec) = &ingress.spec else { return found };
    let mut add = |backend: &IngressServiceBackend| {
        let ports = found.entry(backend.name.clone()).or_default();
        ports.extend(backend.port.clone());
    };
    let default = spec.default_backend.iter();
    let rules = spec.rules.iter().flatten();
    let paths = rules
        .filter_map(|rule| rule.http.as_ref())
        .flat_map(|http| &http.paths);
    for backend in default.chain(paths.map(|path| &path.backend)) {
        backend.service.iter().for_each(&mut add);
    }
    found
}

pub(super) fn missing_port(service: &Service, ports: &[ServiceBackendPort]) -> Option<String> {
    let declared: Vec<_> = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten())
        .collect();
    let missing = ports.iter().find(|port| {
        !declared.iter().any(|one| match (&port.name, port.number) {
            (Some(name), _) => one.name.as_ref() == Some(name),
            (None, Some(number)) => one.port == number,
            (None, None) => true,
        })
    })?;
    let number = missing.number.map(|number| number.to_string());
    missing.name.clone().or(number)
}

/// The Secrets with an Ingress's certificates.
pub(super) fn certificates(ingress: &Ingress) -> BTreeSet<String> {
    let tls = ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten());
    tls.filter_map(|tls| tls.secret_name.clone()).collect()
}
