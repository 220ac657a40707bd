//! Cluster IPs and node ports of Services.
//!
//! Upstream picks a random free address. Here a hash of `namespace/name` picks the start and probing finds
//! a free one, so that the same manifests give the same cluster. There is one IPv4 range; a Service that
//! requires IPv6 or dual stack is refused, as by any single-stack cluster.

use super::validation::validate_addresses;
use super::{has_health_check, has_node_ports, is_headless};
use crate::builtin::meta::strings;
use crate::builtin::tree::{default, entries, flag, get, has, int, is_empty, items, set, text};
use crate::field::{FieldError, FieldErrorKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr};

/// The first address of the Service range, `10.96.0.0/16`.
const CLUSTER_IP_FIRST: u32 = 0x0a60_0000;
/// The size of the range; the first and the last address are not allocated.
const CLUSTER_IPS: u32 = 1 << 16;
const NODE_PORT_FIRST: u32 = 30000;
const NODE_PORTS: u32 = 2768;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Claim<'a> {
    ClusterIp(&'a str),
    /// A port on every node, per protocol (`TCP`).
    NodePort(u16, &'a str),
}

/// Allocates the addresses and ports that a Service asks for; `stored` is its previous state.
///
/// `taken` tells whether another Service has an allocation. Call it after the prepare step and before
/// validation, also for a dry run.
pub(crate) fn allocate(
    service: &mut Value,
    stored: Option<&Value>,
    dry_run: bool,
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
    cluster_ip(service, stored, dry_run, &taken)?;
    node_ports(service, stored, &taken)
}

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
        // nothing is allocated, so the cluster's own families do not matter
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
    dry_run: bool,
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
    // validation reports a change of address
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
    if offset >= CLUSTER_IPS && !dry_run {
        return refused("the provided network does not match the current range".to_owned());
    }
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
        // one port number may serve several protocols
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
