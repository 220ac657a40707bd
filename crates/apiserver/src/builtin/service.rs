//! Services: defaults, checks, and the addresses and ports a cluster gives them.
//!
//! Upstream hands out a random free address. Here it follows from the name, so
//! that the same manifests give the same cluster: a hash of `namespace/name`
//! picks a place in the range and probing from there finds a free one.
//! One IPv4 range; a Service that demands IPv6 or two stacks is refused, as by
//! any single-stack cluster.

use super::SPEC_AND_STATUS;
use super::container_checks::port_name_or_number;
use super::meta::{strings, validate_labels};
use super::names;
use super::networking::check_cidr;
use super::tree::{
    annotation, default, each, entries, flag, get, has, int, is_empty, items, remove, restore, set, text,
};
use crate::field::{FieldError, FieldErrorKind};
use crate::registry::{NameRule, Strategy};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr};

/// The first address of the Service range, `10.96.0.0/16`.
const CLUSTER_IP_FIRST: u32 = 0x0a60_0000;
/// How many addresses the range has; the first and the last are not given out.
const CLUSTER_IPS: u32 = 1 << 16;
/// The node port range of every cluster that does not say otherwise.
const NODE_PORT_FIRST: u32 = 30000;
const NODE_PORTS: u32 = 2768;

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

/// Something a Service may hold that no other may hold at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Claim<'a> {
    /// An address of the Service range.
    ClusterIp(&'a str),
    /// A port on every node, per protocol (`TCP`).
    NodePort(u16, &'a str),
}

/// Gives a Service the addresses and ports it asks for; `stored` is what it was before, if it was.
///
/// `taken` says whether another Service holds something. Fails with what cannot be
/// given. Call it after the prepare step and before validation, also for a dry run.
pub(crate) fn allocate(
    service: &mut Value,
    stored: Option<&Value>,
    taken: impl Fn(Claim<'_>) -> bool,
) -> Result<(), Vec<FieldError>> {
    if stored.is_none()
        && is_empty(get(service, "spec.clusterIPs"))
        && !text(service, "spec.clusterIP").is_empty()
    {
        let ip = get(service, "spec.clusterIP").clone();
        set(service, "spec.clusterIPs", json!([ip]));
    }
    if text(service, "spec.type") == "ExternalName" {
        return Ok(());
    }
    families(service, stored)?;
    cluster_ip(service, stored, &taken)?;
    node_ports(service, stored, &taken)
}

/// The allocations a Service holds, for the `taken` of others.
pub(crate) fn claims(service: &Value) -> Vec<Claim<'_>> {
    let mut out: Vec<Claim<'_>> = strings(service, "spec.clusterIPs")
        .filter(|ip| *ip != "None" && !ip.is_empty())
        .map(Claim::ClusterIp)
        .collect();
    for port in items(service, "spec.ports") {
        if let Some(number) = int(port, "nodePort")
            .and_then(|n| u16::try_from(n).ok())
            .filter(|n| *n != 0)
        {
            out.push(Claim::NodePort(number, text(port, "protocol")));
        }
    }
    if let Some(number) = int(service, "spec.healthCheckNodePort").and_then(|n| u16::try_from(n).ok()) {
        out.push(Claim::NodePort(number, "TCP"));
    }
    out
}

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

/// What belonged to the old type goes with it, unless the request touched it.
fn prepare_update(new: &mut Value, old: &Value) {
    normalize_addresses(new, old);
    drop_old_type(new, old);
    keep_allocations(new, old);
}

/// `clusterIP` and the first of `clusterIPs` are one; who changes the former alone means both.
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

/// A request that leaves allocations out keeps them.
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

fn families(service: &mut Value, stored: Option<&Value>) -> Result<(), Vec<FieldError>> {
    const POLICY: &str = "spec.ipFamilyPolicy";
    let selectorless = is_headless(service) && entries(service, "spec.selector").next().is_none();
    if !has(service, POLICY) {
        let kept = stored.map_or(&Value::Null, |s| get(s, POLICY)).clone();
        let policy = match kept {
            Value::Null if selectorless => "RequireDualStack".into(),
            Value::Null => "SingleStack".into(),
            kept => kept,
        };
        set(service, POLICY, policy);
    }
    let mut out = validate_addresses(service);
    if !out.is_empty() {
        return Err(out);
    }
    let policy = get(service, POLICY).clone();
    if policy == "SingleStack" {
        for (list, what) in [
            ("spec.clusterIPs", "cluster IPs"),
            ("spec.ipFamilies", "IP families"),
        ] {
            if items(service, list).len() == 2 {
                out.push(FieldError::invalid(
                    POLICY,
                    &policy,
                    format!(
                        "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    ),
                ));
            }
        }
    }
    if !out.is_empty() {
        return Err(out);
    }
    if selectorless {
        // nothing is allocated, so what the cluster has does not matter
        default(service, "spec.ipFamilies", json!(["IPv4"]));
        if items(service, "spec.ipFamilies").len() < 2 && policy != "SingleStack" {
            let other = if get(service, "spec.ipFamilies") == &json!(["IPv4"]) {
                "IPv6"
            } else {
                "IPv4"
            };
            let first = items(service, "spec.ipFamilies")
                .first()
                .cloned()
                .unwrap_or_default();
            set(service, "spec.ipFamilies", json!([first, other]));
        }
        return Ok(());
    }
    if policy == "RequireDualStack" {
        out.push(FieldError::invalid(
            POLICY,
            &policy,
            "this cluster is not configured for dual-stack services",
        ));
    }
    for (i, family) in items(service, "spec.ipFamilies").iter().enumerate() {
        if family == "IPv6" {
            out.push(FieldError::invalid(
                format!("spec.ipFamilies[{i}]"),
                family,
                "not configured on this cluster",
            ));
        }
    }
    if !out.is_empty() {
        return Err(out);
    }
    if is_empty(get(service, "spec.ipFamilies")) {
        set(service, "spec.ipFamilies", json!(["IPv4"]));
    }
    Ok(())
}

fn cluster_ip(
    service: &mut Value,
    stored: Option<&Value>,
    taken: &impl Fn(Claim<'_>) -> bool,
) -> Result<(), Vec<FieldError>> {
    let asked = text(service, "spec.clusterIP").to_owned();
    if asked == "None" {
        return Ok(());
    }
    if asked.is_empty() {
        let start = place(service, "clusterIP", CLUSTER_IPS - 2);
        let free = (0..CLUSTER_IPS - 2)
            .map(|i| Ipv4Addr::from(CLUSTER_IP_FIRST + 1 + (start + i) % (CLUSTER_IPS - 2)).to_string())
            .find(|ip| !taken(Claim::ClusterIp(ip)));
        let Some(ip) = free else {
            return Err(vec![FieldError::with_value(
                FieldErrorKind::Internal,
                "spec.clusterIP",
                None,
                "failed to allocate a serviceIP: range is full",
            )]);
        };
        set(service, "spec.clusterIP", ip.as_str());
        set(service, "spec.clusterIPs", json!([ip]));
        return Ok(());
    }
    // of a change of address, validation speaks
    if stored.is_some_and(|s| !text(s, "spec.clusterIP").is_empty()) {
        return Ok(());
    }
    let Ok(IpAddr::V4(ip)) = asked.parse::<IpAddr>() else {
        return Ok(()); // validation says so better
    };
    let refused = |why: String| {
        Err(vec![FieldError::invalid(
            "spec.clusterIPs",
            &json!([asked]),
            format!("failed to allocate IP {asked}: {why}"),
        )])
    };
    let offset = u32::from(ip).wrapping_sub(CLUSTER_IP_FIRST);
    if offset == 0 || offset >= CLUSTER_IPS - 1 {
        return refused(format!(
            "the provided IP ({asked}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
        ));
    }
    if taken(Claim::ClusterIp(&asked)) {
        return refused("provided IP is already allocated".to_owned());
    }
    Ok(())
}

fn node_ports(
    service: &mut Value,
    stored: Option<&Value>,
    taken: &impl Fn(Claim<'_>) -> bool,
) -> Result<(), Vec<FieldError>> {
    let kept: Vec<i64> = stored.map_or_else(Vec::new, |s| {
        items(s, "spec.ports")
            .iter()
            .filter_map(|p| int(p, "nodePort"))
            .collect()
    });
    let wanted = has_node_ports(service)
        && (text(service, "spec.type") != "LoadBalancer"
            || flag(service, "spec.allocateLoadBalancerNodePorts"));
    let mut out = Vec::new();
    let mut given: Vec<(u16, String)> = Vec::new();
    let mut ports = items(service, "spec.ports").to_vec();
    for (i, port) in ports.iter_mut().enumerate() {
        let path = format!("spec.ports[{i}].nodePort");
        let protocol = text(port, "protocol").to_owned();
        let number = int(port, "nodePort").unwrap_or(0);
        if number != 0 {
            let valid = u16::try_from(number)
                .ok()
                .filter(|n| (NODE_PORT_FIRST..NODE_PORT_FIRST + NODE_PORTS).contains(&u32::from(*n)));
            match valid {
                _ if kept.contains(&number) || !has_node_ports(service) => {}
                None => out.push(FieldError::invalid(
                    path,
                    &number.into(),
                    "provided port is not in the valid range. The range of valid ports is 30000-32767",
                )),
                Some(n) if taken(Claim::NodePort(n, &protocol)) || given.contains(&(n, protocol.clone())) => {
                    out.push(FieldError::invalid(
                        path,
                        &number.into(),
                        "provided port is already allocated",
                    ));
                }
                Some(_) => {}
            }
            if let Ok(n) = u16::try_from(number) {
                given.push((n, protocol));
            }
            continue;
        }
        if !wanted {
            continue;
        }
        // one number serves the same port over several protocols
        let port_number = get(port, "port").clone();
        let what = format!("nodePort {port_number}");
        match free_node_port(service, &what, &protocol, &given, taken) {
            Some(n) => {
                set(port, "nodePort", n);
                given.push((n, protocol));
            }
            None => out.push(FieldError::with_value(
                FieldErrorKind::Internal,
                path,
                None,
                "failed to allocate a nodePort: range is full",
            )),
        }
    }
    if !ports.is_empty() {
        set(service, "spec.ports", ports);
    }
    if has_health_check(service)
        && int(service, "spec.healthCheckNodePort").unwrap_or(0) == 0
        && let Some(n) = free_node_port(service, "healthCheckNodePort", "TCP", &given, taken)
    {
        set(service, "spec.healthCheckNodePort", n);
    }
    if out.is_empty() { Ok(()) } else { Err(out) }
}

fn free_node_port(
    service: &Value,
    what: &str,
    protocol: &str,
    given: &[(u16, String)],
    taken: &impl Fn(Claim<'_>) -> bool,
) -> Option<u16> {
    let start = place(service, what, NODE_PORTS);
    (0..NODE_PORTS)
        .filter_map(|i| u16::try_from(NODE_PORT_FIRST + (start + i) % NODE_PORTS).ok())
        .find(|n| {
            !given.iter().any(|(m, p)| m == n && p == protocol) && !taken(Claim::NodePort(*n, protocol))
        })
}

/// A number below `bound` that follows from the Service's name.
fn place(service: &Value, what: &str, bound: u32) -> u32 {
    let digest = Sha256::digest(format!(
        "{}/{} {what}",
        text(service, "metadata.namespace"),
        text(service, "metadata.name")
    ));
    let head = digest
        .iter()
        .take(4)
        .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    head % bound
}

/// Whether a text is an address in its one canonical form.
pub(super) fn check_ip(path: &str, value: &Value) -> Option<FieldError> {
    let text = value.as_str().unwrap_or("");
    match text.parse::<IpAddr>() {
        Err(_) => Some(FieldError::invalid(
            path,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )),
        Ok(_) => None,
    }
}

/// What an endpoint's address may not be.
pub(super) fn check_endpoint_ip(path: &str, value: &Value) -> Vec<FieldError> {
    let shown = value.as_str().unwrap_or("");
    let Ok(ip) = shown.parse::<IpAddr>() else {
        return vec![FieldError::invalid(path, value, "must be a valid IP address")];
    };
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let link_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let mut out = Vec::new();
    for (bad, why) in [
        (ip.is_unspecified(), format!("may not be unspecified ({shown})")),
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        ),
        (
            link_local,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        ),
        (
            link_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ] {
        if bad {
            out.push(FieldError::invalid(path, value, why));
        }
    }
    out
}

fn validate_service(service: &Value) -> Vec<FieldError> {
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

fn validate_addresses(service: &Value) -> Vec<FieldError> {
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

fn validate_service_update(new: &Value, old: &Value) -> Vec<FieldError> {
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

fn service_warnings(service: &Value) -> Vec<String> {
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
