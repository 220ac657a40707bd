//! Services: defaults and updates. [`allocation`] assigns addresses and ports, [`validation`] refuses.

mod allocation;
mod validation;

use super::SPEC_AND_STATUS;
use super::meta::strings;
use super::tree::{default, each, get, has, int, is_empty, items, remove, restore, set, text};
use crate::registry::{NameRule, Strategy};
use serde_json::{Value, json};
use validation::{service_warnings, validate_service, validate_service_update};

pub(crate) use allocation::{Claim, allocate, claims};

pub(super) static SERVICE: Strategy = Strategy {
    create_on_update: true,
    delete_returns_object: true,
    name: NameRule::DnsLabel,
    default: default_service,
    prepare_create: |service| set(service, "status", json!({"loadBalancer": {}})),
    prepare_update,
    validate: validate_service,
    validate_update: validate_service_update,
    warnings: service_warnings,
    selectable: &["spec.clusterIP", "spec.type"],
    ..SPEC_AND_STATUS
};

fn has_cluster_ip(service: &Value) -> bool {
    text(service, "spec.type") != "ExternalName"
}

fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

fn has_health_check(service: &Value) -> bool {
    text(service, "spec.type") == "LoadBalancer" && text(service, "spec.externalTrafficPolicy") == "Local"
}

fn is_headless(service: &Value) -> bool {
    strings(service, "spec.clusterIPs").eq(["None"])
}

fn is_external(service: &Value) -> bool {
    has_node_ports(service)
        || (text(service, "spec.type") == "ClusterIP" && !items(service, "spec.externalIPs").is_empty())
}

fn default_service(service: &mut Value) {
    default(service, "spec.sessionAffinity", "None");
    match text(service, "spec.sessionAffinity") {
        "None" => {
            remove(service, "spec.sessionAffinityConfig");
        }
        "ClientIP" if !has(service, "spec.sessionAffinityConfig.clientIP.timeoutSeconds") => {
            set(
                service,
                "spec.sessionAffinityConfig",
                json!({"clientIP": {"timeoutSeconds": 10800}}),
            );
        }
        _ => {}
    }
    default(service, "spec.type", "ClusterIP");
    each(service, "spec.ports", |port| {
        default(port, "protocol", "TCP");
        let target = get(port, "targetPort");
        if is_empty(target) || target.as_i64() == Some(0) {
            let same = get(port, "port").clone();
            set(port, "targetPort", same);
        }
    });
    if is_external(service) {
        default(service, "spec.externalTrafficPolicy", "Cluster");
    }
    let kind = text(service, "spec.type").to_owned();
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default(service, "spec.internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(service, "spec.allocateLoadBalancerNodePorts", true);
        each(service, "status.loadBalancer.ingress", |ingress| {
            if !text(ingress, "ip").is_empty() {
                default(ingress, "ipMode", "VIP");
            }
        });
    }
}

/// A change of type removes the fields of the old type, unless the request changed them too.
fn prepare_update(new: &mut Value, old: &Value) {
    normalize_addresses(new, old);
    drop_old_type(new, old);
    keep_allocations(new, old);
}

/// `clusterIP` mirrors the first of `clusterIPs`; a request that changes only the former means both.
fn normalize_addresses(new: &mut Value, old: &Value) {
    let (ip, old_ip) = (
        text(new, "spec.clusterIP").to_owned(),
        text(old, "spec.clusterIP").to_owned(),
    );
    if is_empty(get(new, "spec.clusterIPs")) && ip == old_ip {
        restore(new, old, "spec.clusterIPs");
    }
    if ip != old_ip && get(new, "spec.clusterIPs") == get(old, "spec.clusterIPs") {
        if ip.is_empty() {
            remove(new, "spec.clusterIPs");
        } else {
            set(new, "spec.clusterIPs", json!([ip]));
        }
    }
}

fn drop_old_type(new: &mut Value, old: &Value) {
    let same = |new: &Value, path: &str| get(new, path) == get(old, path);
    if has_cluster_ip(old) && !has_cluster_ip(new) {
        if same(new, "spec.clusterIP") && same(new, "spec.clusterIPs") {
            remove(new, "spec.clusterIP");
            remove(new, "spec.clusterIPs");
        }
        for path in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(new) {
        let ports = |service: &Value| -> Vec<Value> {
            items(service, "spec.ports")
                .iter()
                .map(|p| get(p, "nodePort").clone())
                .collect()
        };
        if ports(old) == ports(new) {
            each(new, "spec.ports", |port| {
                remove(port, "nodePort");
            });
        }
    }
    if has_health_check(old) && !has_health_check(new) && same(new, "spec.healthCheckNodePort") {
        remove(new, "spec.healthCheckNodePort");
    }
    let balanced = |service: &Value| text(service, "spec.type") == "LoadBalancer";
    if balanced(old) && !balanced(new) {
        for path in ["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"] {
            if same(new, path) {
                remove(new, path);
            }
        }
    }
    if is_external(old) && !is_external(new) && same(new, "spec.externalTrafficPolicy") {
        remove(new, "spec.externalTrafficPolicy");
    }
    if !balanced(new) {
        set(new, "status.loadBalancer", json!({}));
    }
}

fn keep_allocations(new: &mut Value, old: &Value) {
    if has_cluster_ip(old) && has_cluster_ip(new) {
        for path in ["spec.clusterIP", "spec.clusterIPs"] {
            if is_empty(get(new, path)) {
                restore(new, old, path);
            }
        }
    }
    if has_node_ports(old) && has_node_ports(new) {
        let numbers = |service: &Value| -> Vec<i64> {
            items(service, "spec.ports")
                .iter()
                .filter_map(|p| int(p, "nodePort").filter(|n| *n != 0))
                .collect()
        };
        let mut used = numbers(new);
        used.retain(|n| numbers(old).contains(n));
        each(new, "spec.ports", |port| {
            if int(port, "nodePort").unwrap_or(0) != 0 {
                return;
            }
            let before = items(old, "spec.ports")
                .iter()
                .find(|p| text(p, "name") == text(port, "name"))
                .and_then(|p| int(p, "nodePort"));
            if let Some(number) = before.filter(|n| *n != 0 && !used.contains(n)) {
                set(port, "nodePort", number);
            }
        });
    }
    if has_health_check(old)
        && has_health_check(new)
        && int(new, "spec.healthCheckNodePort").unwrap_or(0) == 0
    {
        restore(new, old, "spec.healthCheckNodePort");
    }
}
