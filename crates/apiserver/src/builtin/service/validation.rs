//! Validation of Services and their updates.

use super::{has_cluster_ip, has_health_check, is_external, is_headless};
use crate::builtin::addresses::{check_endpoint_ip, check_ip};
use crate::builtin::container_checks::port_name_or_number;
use crate::builtin::meta::validate_labels;
use crate::builtin::names;
use crate::builtin::networking::check_cidr;
use crate::builtin::tree::{annotation, get, has, int, is_empty, items, text};
use crate::field::{FieldError, FieldErrorKind};
use serde_json::{Value, json};
use std::net::IpAddr;

pub(super) fn validate_service(service: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let kind = text(service, "spec.type");
    let headless = is_headless(service);
    let ports = items(service, "spec.ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        out.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => out.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &"None".into(),
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !is_empty(get(service, &format!("spec.{field}"))) {
                    out.push(FieldError::forbidden(
                        format!("spec.{field}"),
                        "may not be set for ExternalName services",
                    ));
                }
            }
            let name = text(service, "spec.externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                out.push(FieldError::required("spec.externalName", ""));
            } else {
                for message in names::dns_subdomain(name) {
                    out.push(FieldError::invalid("spec.externalName", &name.into(), message));
                }
            }
        }
        _ => {}
    }
    let mut port_names = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        out.extend(validate_port(
            port,
            &format!("spec.ports[{i}]"),
            ports.len() > 1,
            &mut port_names,
        ));
    }
    out.extend(validate_labels(get(service, "spec.selector"), "spec.selector"));
    let affinity = text(service, "spec.sessionAffinity");
    if !matches!(affinity, "ClientIP" | "None") {
        out.push(FieldError::not_supported(
            "spec.sessionAffinity",
            &affinity.into(),
            &["ClientIP", "None"],
        ));
    }
    if affinity == "ClientIP"
        && let Some(seconds) = int(service, "spec.sessionAffinityConfig.clientIP.timeoutSeconds")
        && !(1..=86400).contains(&seconds)
    {
        out.push(FieldError::invalid(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            &seconds.into(),
            "must be greater than 0 and less than 86400",
        ));
    }
    out.extend(validate_addresses(service));
    for (i, ip) in items(service, "spec.externalIPs").iter().enumerate() {
        let path = format!("spec.externalIPs[{i}]");
        match check_ip(&path, ip) {
            Some(error) => out.push(error),
            None => out.extend(check_endpoint_ip(&path, ip)),
        }
    }
    if !matches!(kind, "ClusterIP" | "ExternalName" | "LoadBalancer" | "NodePort") {
        out.push(FieldError::not_supported(
            "spec.type",
            &kind.into(),
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ));
    }
    out.extend(validate_port_numbers(service));
    let balanced = kind == "LoadBalancer";
    if !balanced && !items(service, "spec.loadBalancerSourceRanges").is_empty() {
        out.push(FieldError::forbidden(
            "spec.LoadBalancerSourceRanges",
            "may only be used when `type` is 'LoadBalancer'",
        ));
    }
    for (i, range) in items(service, "spec.loadBalancerSourceRanges").iter().enumerate() {
        out.extend(check_cidr(range, &format!("spec.LoadBalancerSourceRanges[{i}]")));
    }
    const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    if !balanced
        && items(service, "spec.loadBalancerSourceRanges").is_empty()
        && annotation(service, RANGES).is_some()
    {
        out.push(FieldError::forbidden(
            format!("metadata.annotations[{RANGES}]"),
            "may only be used when `type` is 'LoadBalancer'",
        ));
    }
    if !balanced && has(service, "spec.allocateLoadBalancerNodePorts") {
        out.push(FieldError::forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "may only be used when `type` is 'LoadBalancer'",
        ));
    }
    let class = text(service, "spec.loadBalancerClass");
    if !class.is_empty() {
        if balanced {
            for message in names::qualified_name(class) {
                out.push(FieldError::invalid(
                    "spec.loadBalancerClass",
                    &class.into(),
                    message,
                ));
            }
        } else {
            out.push(FieldError::forbidden(
                "spec.loadBalancerClass",
                "may only be used when `type` is 'LoadBalancer'",
            ));
        }
    }
    out.extend(validate_traffic(service));
    out
}

fn validate_port(port: &Value, path: &str, name_required: bool, seen: &mut Vec<String>) -> Vec<FieldError> {
    let mut out = Vec::new();
    let name = text(port, "name");
    if name.is_empty() {
        if name_required {
            out.push(FieldError::required(format!("{path}.name"), ""));
        }
    } else {
        for message in names::dns_label(name) {
            out.push(FieldError::invalid(format!("{path}.name"), &name.into(), message));
        }
        if seen.iter().any(|s| s == name) {
            out.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
        seen.push(name.to_owned());
    }
    let number = int(port, "port").unwrap_or(0);
    if let Some(message) = names::port_number(number) {
        out.push(FieldError::invalid(
            format!("{path}.port"),
            &number.into(),
            message,
        ));
    }
    let protocol = get(port, "protocol");
    if !matches!(text(port, "protocol"), "TCP" | "UDP" | "SCTP") {
        out.push(FieldError::not_supported(
            format!("{path}.protocol"),
            protocol,
            &["SCTP", "TCP", "UDP"],
        ));
    }
    out.extend(port_name_or_number(
        get(port, "targetPort"),
        &format!("{path}.targetPort"),
    ));
    let app = text(port, "appProtocol");
    if !app.is_empty() {
        for message in names::qualified_name(app) {
            out.push(FieldError::invalid(
                format!("{path}.appProtocol"),
                &app.into(),
                message,
            ));
        }
    }
    out
}

pub(super) fn validate_addresses(service: &Value) -> Vec<FieldError> {
    if !has_cluster_ip(service) {
        return Vec::new();
    }
    let mut out = Vec::new();
    let (ip, ips) = (get(service, "spec.clusterIP"), get(service, "spec.clusterIPs"));
    let list = items(service, "spec.clusterIPs");
    if is_empty(ip) {
        if !list.is_empty() {
            out.push(FieldError::invalid(
                "spec.clusterIPs",
                ips,
                "must be empty when `clusterIP` is not specified",
            ));
        }
    } else if list.is_empty() {
        out.push(FieldError::required("spec.clusterIPs", ""));
    } else if list.first() != Some(ip) {
        out.push(FieldError::invalid(
            "spec.clusterIPs",
            ips,
            "first value must match `clusterIP`",
        ));
    }
    let families = items(service, "spec.ipFamilies");
    for (i, family) in families.iter().enumerate() {
        if family != "IPv4" && family != "IPv6" {
            out.push(FieldError::not_supported(
                format!("spec.ipFamilies[{i}]"),
                family,
                &["IPv4", "IPv6"],
            ));
        }
        if families.iter().take(i).any(|f| f == family) {
            out.push(FieldError::duplicate(format!("spec.ipFamilies[{i}]"), family));
        }
    }
    let policy = get(service, "spec.ipFamilyPolicy");
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if policy.as_str().is_some_and(|p| !policies.contains(&p)) {
        out.push(FieldError::not_supported(
            "spec.ipFamilyPolicy",
            policy,
            &policies,
        ));
    }
    for (i, ip) in list.iter().enumerate() {
        if i == 0 && ip == "None" {
            if list.len() > 1 {
                out.push(FieldError::invalid(
                    "spec.clusterIPs",
                    ips,
                    "'None' must be the first and only value",
                ));
            }
            continue;
        }
        out.extend(check_ip(&format!("spec.clusterIPs[{i}]"), ip));
    }
    let families: Vec<bool> = list
        .iter()
        .filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok().map(|ip| ip.is_ipv4()))
        .collect();
    if families.len() == list.len() && matches!(families[..], [a, b] if a == b) {
        out.push(FieldError::invalid(
            "spec.clusterIPs",
            ips,
            "may specify no more than one IP for each IP family",
        ));
    }
    if list.len() > 2 {
        out.push(FieldError::invalid(
            "spec.clusterIPs",
            ips,
            "may only hold up to 2 values",
        ));
    }
    out
}

fn validate_port_numbers(service: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let ports = items(service, "spec.ports");
    let node_port = |p: &Value| int(p, "nodePort").unwrap_or(0);
    if text(service, "spec.type") == "ClusterIP" {
        for (i, port) in ports.iter().enumerate() {
            if node_port(port) != 0 {
                out.push(FieldError::forbidden(
                    format!("spec.ports[{i}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                ));
            }
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let same =
            |p: &&Value| node_port(p) == node_port(port) && get(p, "protocol") == get(port, "protocol");
        if node_port(port) != 0 && ports.iter().take(i).any(|p| same(&p)) {
            out.push(FieldError::duplicate(
                format!("spec.ports[{i}].nodePort"),
                get(port, "nodePort"),
            ));
        }
    }
    for (i, port) in ports.iter().enumerate() {
        let key = |p: &Value| (get(p, "protocol").clone(), get(p, "port").clone());
        if ports.iter().take(i).any(|p| key(p) == key(port)) {
            // Go prints the internal type, whose fields have no JSON names
            let (protocol, number) = key(port);
            out.push(FieldError::with_value(
                FieldErrorKind::Duplicate,
                format!("spec.ports[{i}]"),
                Some(format!(
                    "{{\"Name\":\"\",\"Protocol\":{protocol},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
                )),
                "",
            ));
        }
    }
    out
}

fn validate_traffic(service: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let external = get(service, "spec.externalTrafficPolicy");
    if is_external(service) {
        if is_empty(external) {
            out.push(FieldError::required("spec.externalTrafficPolicy", ""));
        } else if external != "Cluster" && external != "Local" {
            out.push(FieldError::not_supported(
                "spec.externalTrafficPolicy",
                external,
                &["Cluster", "Local"],
            ));
        }
    } else if !is_empty(external) {
        out.push(FieldError::invalid(
            "spec.externalTrafficPolicy",
            external,
            "may only be set for externally-accessible services",
        ));
    }
    let health = int(service, "spec.healthCheckNodePort").unwrap_or(0);
    if health != 0 && !has_health_check(service) {
        out.push(FieldError::invalid(
            "spec.healthCheckNodePort",
            &health.into(),
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    let internal = get(service, "spec.internalTrafficPolicy");
    if internal.as_str().is_some_and(|p| p != "Cluster" && p != "Local") {
        out.push(FieldError::not_supported(
            "spec.internalTrafficPolicy",
            internal,
            &["Cluster", "Local"],
        ));
    }
    let distribution = get(service, "spec.trafficDistribution");
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if distribution.as_str().is_some_and(|d| !known.contains(&d)) {
        out.push(FieldError::not_supported(
            "spec.trafficDistribution",
            distribution,
            &known,
        ));
    }
    out
}

pub(super) fn validate_service_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let types = [text(new, "spec.type"), text(old, "spec.type")];
    let (ips, old_ips) = (items(new, "spec.clusterIPs"), items(old, "spec.clusterIPs"));
    if !(types.contains(&"ExternalName") || is_headless(new) && is_headless(old)) {
        let value = get(new, "spec.clusterIPs");
        if ips.is_empty() && !old_ips.is_empty() {
            out.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                &json!([]),
                "primary clusterIP can not be unset",
            ));
        }
        for (i, (ip, old_ip)) in ips.iter().zip(old_ips).enumerate() {
            if ip != old_ip {
                out.push(FieldError::invalid(
                    format!("spec.clusterIPs[{i}]"),
                    value,
                    "may not change once set",
                ));
            }
        }
    }
    if types == ["LoadBalancer", "LoadBalancer"]
        && get(new, "spec.loadBalancerClass") != get(old, "spec.loadBalancerClass")
    {
        out.push(FieldError::invalid(
            "spec.loadBalancerClass",
            get(new, "spec.loadBalancerClass"),
            "may not change once set",
        ));
    }
    let health = |s: &Value| get(s, "spec.healthCheckNodePort").clone();
    if has_health_check(new) && has_health_check(old) && health(new) != health(old) {
        out.push(FieldError::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }
    out
}

pub(super) fn service_warnings(service: &Value) -> Vec<String> {
    let mut out = Vec::new();
    if annotation(service, "service.kubernetes.io/topology-aware-hints").is_some() {
        out.push("annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead".to_owned());
    }
    if is_headless(service) {
        if !text(service, "spec.loadBalancerIP").is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !items(service, "spec.externalIPs").is_empty() {
            out.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(service, "spec.sessionAffinity") != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    let external = text(service, "spec.type") == "ExternalName";
    if !items(service, "spec.externalIPs").is_empty() {
        if external {
            out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
        } else if !is_headless(service) {
            out.push(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
            );
        }
    }
    if !external && !text(service, "spec.externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(service, "spec.trafficDistribution") == "PreferClose" {
        out.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    out
}
