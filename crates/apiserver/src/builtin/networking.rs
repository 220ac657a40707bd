//! Ingress, IngressClass, NetworkPolicy, EndpointSlice.

use super::SPEC_AND_STATUS;
use super::addresses::{check_endpoint_ip, check_ip};
use super::meta::immutable;
use super::names;
use super::selector;
use super::tree::{annotation, default, each, get, has, int, is_empty, items, set, text};
use crate::field::FieldError;
use crate::registry::{Generation, Strategy};
use serde_json::{Value, json};
use std::net::IpAddr;

const LEGACY_CLASS: &str = "kubernetes.io/ingress.class";

pub(super) static INGRESS: Strategy = Strategy {
    generation: Generation::Spec,
    prepare_create: |ingress| set(ingress, "status", json!({"loadBalancer": {}})),
    validate: validate_ingress,
    validate_create: |ingress| {
        let Some(legacy) = annotation(ingress, LEGACY_CLASS) else {
            return Vec::new();
        };
        let class = get(ingress, "spec.ingressClassName");
        if class.is_null() || class == legacy {
            return Vec::new();
        }
        vec![FieldError::invalid(
            format!("annotations.{LEGACY_CLASS}"),
            &legacy.into(),
            "must match `ingressClassName` when both are specified",
        )]
    },
    warnings: |ingress| {
        if annotation(ingress, LEGACY_CLASS).is_none() || has(ingress, "spec.ingressClassName") {
            return Vec::new();
        }
        vec![format!(
            "annotation \"{LEGACY_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
        )]
    },
    ..SPEC_AND_STATUS
};

pub(super) static INGRESS_CLASS: Strategy = Strategy {
    generation: Generation::Spec,
    default: |class| {
        if has(class, "spec.parameters") {
            default(class, "spec.parameters.scope", "Cluster");
        }
    },
    validate: |class| {
        let mut out = Vec::new();
        let controller = text(class, "spec.controller");
        if controller.len() > 250 {
            out.push(FieldError::too_long("spec.controller", 250));
        }
        out.extend(domain_prefixed_path(controller, "spec.controller"));
        out
    },
    validate_update: |new, stored| immutable(new, stored, "spec.controller").into_iter().collect(),
    ..Strategy::GENERIC
};

pub(super) static NETWORK_POLICY: Strategy = Strategy {
    generation: Generation::Spec,
    default: |policy| {
        for list in ["ingress", "egress"] {
            each(policy, &format!("spec.{list}"), |rule| {
                each(rule, "ports", |port| default(port, "protocol", "TCP"));
            });
        }
        if is_empty(get(policy, "spec.policyTypes")) {
            let types = if items(policy, "spec.egress").is_empty() {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            set(policy, "spec.policyTypes", types);
        }
    },
    validate: validate_network_policy,
    ..Strategy::GENERIC
};

pub(super) static ENDPOINT_SLICE: Strategy = Strategy {
    generation: Generation::AllButMetadata,
    default: |slice| {
        each(slice, "ports", |port| {
            if !has(port, "name") {
                set(port, "name", "");
            }
            default(port, "protocol", "TCP");
        });
    },
    validate: validate_endpoint_slice,
    validate_update: |new, stored| immutable(new, stored, "addressType").into_iter().collect(),
    ..Strategy::GENERIC
};

fn domain_prefixed_path(value: &str, path: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut out = Vec::new();
    let shown = Value::from(value);
    match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            for message in names::dns_subdomain(host) {
                out.push(FieldError::invalid(path, &shown, message));
            }
            let allowed = |c: char| c.is_ascii_alphanumeric() || "/%:._~!$&'()*+,;=@-".contains(c);
            if !rest.chars().all(allowed) {
                out.push(FieldError::invalid(
                    path,
                    &shown,
                    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                ));
            }
        }
        _ => out.push(FieldError::invalid(
            path,
            &shown,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )),
    }
    out
}

fn validate_ingress(ingress: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = get(ingress, "spec");
    let rules = items(spec, "rules");
    if rules.is_empty() && !has(spec, "defaultBackend") {
        out.push(FieldError::invalid(
            "spec",
            get(spec, "rules"),
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if has(spec, "defaultBackend") {
        out.extend(validate_backend(
            get(spec, "defaultBackend"),
            "spec.defaultBackend",
        ));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{i}]");
        let host = text(rule, "host");
        if !host.is_empty() {
            if host.parse::<IpAddr>().is_ok() {
                out.push(FieldError::invalid(
                    format!("{path}.host"),
                    &host.into(),
                    "must be a DNS name, not an IP address",
                ));
            }
            for message in host_problems(host) {
                out.push(FieldError::invalid(format!("{path}.host"), &host.into(), message));
            }
        }
        if has(rule, "http") {
            let paths = items(rule, "http.paths");
            if paths.is_empty() {
                out.push(FieldError::required(format!("{path}.http.paths"), ""));
            }
            for (j, item) in paths.iter().enumerate() {
                out.extend(validate_path(item, &format!("{path}.http.paths[{j}]")));
            }
        }
    }
    for (i, tls) in items(spec, "tls").iter().enumerate() {
        for (j, host) in items(tls, "hosts").iter().enumerate() {
            for message in host_problems(host.as_str().unwrap_or("")) {
                out.push(FieldError::invalid(
                    format!("spec.tls[{i}].hosts[{j}]"),
                    host,
                    message,
                ));
            }
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            for message in names::dns_subdomain(secret) {
                out.push(FieldError::invalid(
                    format!("spec.tls[{i}].secretName"),
                    &secret.into(),
                    message,
                ));
            }
        }
    }
    let class = get(spec, "ingressClassName");
    if let Some(name) = class.as_str() {
        for message in names::dns_subdomain(name) {
            out.push(FieldError::invalid("spec.ingressClassName", class, message));
        }
    }
    out
}

fn host_problems(host: &str) -> Vec<String> {
    if host.contains('*') {
        names::wildcard_subdomain(host)
    } else {
        names::dns_subdomain(host)
    }
}

fn validate_path(item: &Value, at: &str) -> Vec<FieldError> {
    let kind = get(item, "pathType");
    let Some(kind_text) = kind.as_str() else {
        return vec![FieldError::required(
            format!("{at}.pathType"),
            "pathType must be specified",
        )];
    };
    let mut out = Vec::new();
    let path = text(item, "path");
    let mut bad = |why: String| out.push(FieldError::invalid(format!("{at}.path"), &path.into(), why));
    match kind_text {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                bad("must be an absolute path".to_owned());
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(sequence) {
                    bad(format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if path.ends_with(suffix) {
                    bad(format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                bad("must be an absolute path".to_owned());
            }
        }
        _ => out.push(FieldError::not_supported(
            format!("{at}.pathType"),
            kind,
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    out.extend(validate_backend(get(item, "backend"), &format!("{at}.backend")));
    out
}

fn validate_backend(backend: &Value, path: &str) -> Vec<FieldError> {
    let nothing = Value::from("");
    let service = get(backend, "service");
    let mut out = Vec::new();
    match (has(backend, "resource"), !service.is_null()) {
        (true, true) => out.push(FieldError::invalid(
            path,
            &nothing,
            "cannot set both resource and service backends",
        )),
        (true, false) => {
            for field in ["kind", "name"] {
                if text(backend, &format!("resource.{field}")).is_empty() {
                    out.push(FieldError::required(format!("{path}.resource.{field}"), ""));
                }
            }
        }
        (false, true) => {
            let name = text(service, "name");
            if name.is_empty() {
                out.push(FieldError::required(format!("{path}.service.name"), ""));
            } else {
                for message in names::dns_label(name) {
                    out.push(FieldError::invalid(
                        format!("{path}.service.name"),
                        &name.into(),
                        message,
                    ));
                }
            }
            let (port, number) = (
                text(service, "port.name"),
                int(service, "port.number").unwrap_or(0),
            );
            match (!port.is_empty(), number != 0) {
                (true, true) => out.push(FieldError::invalid(
                    path,
                    &nothing,
                    "cannot set both port name & port number",
                )),
                (true, false) => {
                    for message in names::port_name(port) {
                        out.push(FieldError::invalid(
                            format!("{path}.service.port.name"),
                            &port.into(),
                            message,
                        ));
                    }
                }
                (false, true) => {
                    if let Some(message) = names::port_number(number) {
                        out.push(FieldError::invalid(
                            format!("{path}.service.port.number"),
                            &number.into(),
                            message,
                        ));
                    }
                }
                (false, false) => {
                    out.push(FieldError::required(path, "port name or number is required"));
                }
            }
        }
        (false, false) => out.push(FieldError::invalid(
            path,
            &nothing,
            "resource or service backend is required",
        )),
    }
    out
}

fn validate_network_policy(policy: &Value) -> Vec<FieldError> {
    let mut out = selector::validate(get(policy, "spec.podSelector"), "spec.podSelector");
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in items(policy, &format!("spec.{list}")).iter().enumerate() {
            let path = format!("spec.{list}[{i}]");
            for (j, port) in items(rule, "ports").iter().enumerate() {
                out.extend(validate_policy_port(port, &format!("{path}.ports[{j}]")));
            }
            for (j, peer) in items(rule, peers).iter().enumerate() {
                out.extend(validate_peer(peer, &format!("{path}.{peers}[{j}]")));
            }
        }
    }
    let types = items(policy, "spec.policyTypes");
    if types.len() > 2 {
        out.push(FieldError::invalid(
            "spec.policyTypes",
            get(policy, "spec.policyTypes"),
            "may not specify more than two policyTypes",
        ));
        return out;
    }
    for (i, kind) in types.iter().enumerate() {
        if kind != "Ingress" && kind != "Egress" {
            out.push(FieldError::not_supported(
                format!("spec.policyTypes[{i}]"),
                kind,
                &["Ingress", "Egress"],
            ));
        }
    }
    out
}

fn validate_policy_port(port: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let protocol = get(port, "protocol");
    if protocol
        .as_str()
        .is_some_and(|p| !matches!(p, "TCP" | "UDP" | "SCTP"))
    {
        out.push(FieldError::not_supported(
            format!("{path}.protocol"),
            protocol,
            &["TCP", "UDP", "SCTP"],
        ));
    }
    let (number, end) = (get(port, "port"), get(port, "endPort"));
    let end_path = format!("{path}.endPort");
    if let Some(n) = number.as_i64() {
        if let Some(message) = names::port_number(n) {
            out.push(FieldError::invalid(format!("{path}.port"), number, message));
        }
        if let Some(last) = end.as_i64() {
            if last < n {
                out.push(FieldError::invalid(
                    end_path.clone(),
                    number,
                    "must be greater than or equal to `port`",
                ));
            }
            if let Some(message) = names::port_number(last) {
                out.push(FieldError::invalid(end_path, end, message));
            }
        }
    } else if let Some(name) = number.as_str() {
        if !end.is_null() {
            out.push(FieldError::invalid(
                end_path,
                end,
                "may not be specified when `port` is non-numeric",
            ));
        }
        for message in names::port_name(name) {
            out.push(FieldError::invalid(format!("{path}.port"), number, message));
        }
    } else if !end.is_null() {
        out.push(FieldError::invalid(
            end_path,
            end,
            "may not be specified when `port` is not specified",
        ));
    }
    out
}

fn validate_peer(peer: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if has(peer, field) {
            count += 1;
            out.extend(selector::validate(get(peer, field), &format!("{path}.{field}")));
        }
    }
    let block = get(peer, "ipBlock");
    if !block.is_null() {
        count += 1;
        if text(block, "cidr").is_empty() {
            out.push(FieldError::required(format!("{path}.ipBlock.cidr"), ""));
        } else {
            out.extend(check_cidr(get(block, "cidr"), &format!("{path}.ipBlock.cidr")));
            for (i, except) in items(block, "except").iter().enumerate() {
                let path = format!("{path}.ipBlock.except[{i}]");
                out.extend(check_cidr(except, &path));
                if let (Some(outer), Some(inner)) = (network(get(block, "cidr")), network(except))
                    && !is_strictly_within(inner, outer)
                {
                    out.push(FieldError::invalid(
                        path,
                        except,
                        "must be a strict subset of `cidr`",
                    ));
                }
            }
        }
    }
    if count == 0 {
        out.push(FieldError::required(path, "must specify a peer"));
    } else if count > 1 && !block.is_null() {
        out.push(FieldError::forbidden(
            path,
            "may not specify both ipBlock and another peer",
        ));
    }
    out
}

fn network(value: &Value) -> Option<(IpAddr, u32)> {
    let (ip, bits) = value.as_str()?.split_once('/')?;
    let (ip, bits) = (ip.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
    let most = if ip.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((ip, bits))
}

fn is_strictly_within(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let ((a, a_width), (b, b_width)) = (bits(inner.0), bits(outer.0));
    let mask = u128::MAX.checked_shl(128 - outer.1).unwrap_or(0);
    a_width == b_width && a & mask == b & mask && inner.1 > outer.1
}

pub(super) fn check_cidr(value: &Value, path: &str) -> Option<FieldError> {
    network(value).is_none().then(|| {
        FieldError::invalid(
            path,
            value,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        )
    })
}

fn validate_endpoint_slice(slice: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let kind = get(slice, "addressType");
    match kind.as_str() {
        None | Some("") => out.push(FieldError::required("addressType", "")),
        Some("IPv4" | "IPv6" | "FQDN") => {}
        Some(_) => out.push(FieldError::not_supported(
            "addressType",
            kind,
            &["FQDN", "IPv4", "IPv6"],
        )),
    }
    for (i, endpoint) in items(slice, "endpoints").iter().enumerate() {
        let path = format!("endpoints[{i}].addresses");
        let addresses = items(endpoint, "addresses");
        if addresses.is_empty() {
            out.push(FieldError::required(
                path.clone(),
                "must contain at least 1 address",
            ));
        }
        for (j, address) in addresses.iter().enumerate() {
            let parsed = address.as_str().unwrap_or("").parse::<IpAddr>();
            let at = format!("{path}[{j}]");
            match kind.as_str() {
                Some("IPv4" | "IPv6") => {}
                _ => continue,
            }
            out.extend(check_ip(&at, address));
            if let Ok(ip) = parsed {
                let wrong = match kind.as_str() {
                    Some("IPv4") if ip.is_ipv6() => Some("must be an IPv4 address"),
                    Some("IPv6") if ip.is_ipv4() => Some("must be an IPv6 address"),
                    _ => None,
                };
                // upstream names the list here, not the item
                out.extend(wrong.map(|why| FieldError::invalid(path.clone(), address, why)));
                out.extend(check_endpoint_ip(&at, address));
            }
        }
    }
    let ports = items(slice, "ports");
    for (i, port) in ports.iter().enumerate() {
        let name = get(port, "name");
        if ports.iter().take(i).any(|p| get(p, "name") == name) {
            out.push(FieldError::duplicate(format!("ports[{i}].name"), name));
        }
        if !is_empty(name) {
            for message in names::dns_label(name.as_str().unwrap_or("")) {
                out.push(FieldError::invalid(format!("ports[{i}].name"), name, message));
            }
        }
    }
    out
}
