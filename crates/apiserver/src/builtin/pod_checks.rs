//! What is wrong with a pod, or with the template of one.
//!
//! The checks that manifests trip over, in the order of
//! `core/validation/validation.go` (1.36). Resource claims, Windows options and
//! AppArmor annotations are not looked at.

use super::meta::{strings, validate_annotations, validate_labels};
use super::names;
use super::quantity;
use super::selector;
use super::tree::{entries, flag, get, has, int, is_empty, items, text};
use super::volume_checks::{self, Volumes};
use crate::field::{FieldError, FieldErrorKind, go_quote, go_struct};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A container's security context as Go declares it.
const CONTEXT: &[(&str, &str)] = &[
    ("Capabilities", "capabilities"),
    ("Privileged", "privileged"),
    ("SELinuxOptions", "seLinuxOptions"),
    ("WindowsOptions", "windowsOptions"),
    ("RunAsUser", "runAsUser"),
    ("RunAsGroup", "runAsGroup"),
    ("RunAsNonRoot", "runAsNonRoot"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    ("ProcMount", "procMount"),
    ("SeccompProfile", "seccompProfile"),
    ("AppArmorProfile", "appArmorProfile"),
];

const RESOURCES: &[&str] = &["cpu", "ephemeral-storage", "memory"];

/// A Pod, metadata aside.
pub(super) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let mut out = validate_spec(get(pod, "spec"), "spec");
    if text(pod, "spec.serviceAccountName").is_empty() {
        for (i, volume) in items(pod, "spec.volumes").iter().enumerate() {
            for (j, source) in items(volume, "projected.sources").iter().enumerate() {
                if has(source, "serviceAccountToken") {
                    out.push(FieldError::forbidden(
                        format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    ));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(pod, &format!("spec.{list}")).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                out.push(FieldError::invalid(
                    format!("spec.{list}[{i}].image"),
                    &image.into(),
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
    out
}

/// What only a new Pod must not say.
pub(super) fn validate_pod_create(pod: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    if !items(pod, "spec.ephemeralContainers").is_empty() {
        out.push(FieldError::forbidden(
            "spec.ephemeralContainers",
            "cannot be set on create",
        ));
    }
    if !text(pod, "spec.nodeName").is_empty() && !items(pod, "spec.schedulingGates").is_empty() {
        out.push(FieldError::forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    out
}

/// A pod template.
pub(super) fn validate_template(template: &Value, path: &str) -> Vec<FieldError> {
    let mut out = validate_labels(get(template, "metadata.labels"), &format!("{path}.labels"));
    out.extend(validate_annotations(
        get(template, "metadata.annotations"),
        &format!("{path}.annotations"),
    ));
    out.extend(validate_spec(get(template, "spec"), &format!("{path}.spec")));
    if !items(template, "spec.ephemeralContainers").is_empty() {
        out.push(FieldError::forbidden(
            format!("{path}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
    out
}

fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let at = |field: &str| format!("{path}.{field}");
    let mut out = Vec::new();
    let (volumes, problems) = volume_checks::validate(items(spec, "volumes"), &at("volumes"));
    out.extend(problems);
    out.extend(containers(spec, &volumes, path));
    out.extend(host_network_ports(spec, path));
    one_of(
        &mut out,
        spec,
        "restartPolicy",
        path,
        &["Always", "OnFailure", "Never"],
    );
    one_of(
        &mut out,
        spec,
        "dnsPolicy",
        path,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    out.extend(validate_labels(get(spec, "nodeSelector"), &at("nodeSelector")));
    out.extend(pod_security(get(spec, "securityContext"), &at("securityContext")));
    out.extend(affinity(get(spec, "affinity"), &at("affinity")));
    if text(spec, "dnsPolicy") == "None" && items(spec, "dnsConfig.nameservers").is_empty() {
        if has(spec, "dnsConfig") {
            out.push(FieldError::required(
                at("dnsConfig.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ));
        } else {
            out.push(FieldError::required(
                at("dnsConfig"),
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
        }
    }
    for (i, server) in items(spec, "dnsConfig.nameservers").iter().enumerate() {
        out.extend(super::service::check_ip(
            &at(&format!("dnsConfig.nameservers[{i}]")),
            server,
        ));
    }
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        for message in names::qualified_name(kind) {
            out.push(FieldError::invalid(
                at(&format!("readinessGates[{i}].conditionType")),
                &kind.into(),
                message,
            ));
        }
    }
    out.extend(scheduling_gates(
        items(spec, "schedulingGates"),
        &at("schedulingGates"),
    ));
    out.extend(spread(
        items(spec, "topologySpreadConstraints"),
        &at("topologySpreadConstraints"),
    ));
    named(&mut out, spec, "serviceAccountName", path, names::dns_subdomain);
    named(&mut out, spec, "nodeName", path, names::dns_subdomain);
    if let Some(seconds) =
        int(spec, "activeDeadlineSeconds").filter(|n| !(1..=i64::from(i32::MAX)).contains(n))
    {
        out.push(FieldError::invalid(
            at("activeDeadlineSeconds"),
            &seconds.into(),
            names::range(1, i32::MAX.into()),
        ));
    }
    named(&mut out, spec, "hostname", path, names::dns_label);
    named(&mut out, spec, "subdomain", path, names::dns_label);
    for (i, toleration) in items(spec, "tolerations").iter().enumerate() {
        out.extend(validate_toleration(toleration, &at(&format!("tolerations[{i}]"))));
    }
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let path = at(&format!("hostAliases[{i}]"));
        out.extend(super::service::check_ip(&format!("{path}.ip"), get(alias, "ip")));
        for (j, host) in strings(alias, "hostnames").enumerate() {
            for message in names::dns_subdomain(host) {
                out.push(FieldError::invalid(
                    format!("{path}.hostnames[{j}]"),
                    &host.into(),
                    message,
                ));
            }
        }
    }
    named(&mut out, spec, "priorityClassName", path, names::dns_subdomain);
    named(&mut out, spec, "runtimeClassName", path, names::dns_subdomain);
    let preemption = get(spec, "preemptionPolicy");
    if preemption
        .as_str()
        .is_some_and(|p| !matches!(p, "PreemptLowerPriority" | "Never"))
    {
        out.push(FieldError::not_supported(
            at("preemptionPolicy"),
            preemption,
            &["PreemptLowerPriority", "Never"],
        ));
    }
    out
}

/// On the host's network a container's port is the host's.
fn host_network_ports(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    if !flag(spec, "hostNetwork") {
        return out;
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            for (j, port) in items(container, "ports").iter().enumerate() {
                let (host, own) = (
                    int(port, "hostPort").unwrap_or(0),
                    int(port, "containerPort").unwrap_or(0),
                );
                if host != own && (host != 0 || path == "spec") {
                    out.push(FieldError::invalid(
                        format!("{path}.{list}[{i}].ports[{j}].hostPort"),
                        &host.into(),
                        "must match `containerPort` when `hostNetwork` is true",
                    ));
                }
            }
        }
    }
    out
}

fn one_of(out: &mut Vec<FieldError>, object: &Value, field: &str, path: &str, allowed: &[&str]) {
    let value = get(object, field);
    let path = format!("{path}.{field}");
    match value.as_str() {
        None | Some("") => out.push(FieldError::required(path, "")),
        Some(v) if allowed.contains(&v) => {}
        Some(_) => out.push(FieldError::not_supported(path, value, allowed)),
    }
}

fn named(out: &mut Vec<FieldError>, spec: &Value, field: &str, path: &str, check: fn(&str) -> Vec<String>) {
    let name = text(spec, field);
    if name.is_empty() {
        return;
    }
    for message in check(name) {
        out.push(FieldError::invalid(
            format!("{path}.{field}"),
            &name.into(),
            message,
        ));
    }
}

/// What the containers need to know of the pod.
struct Pod<'a> {
    volumes: &'a Volumes<'a>,
    grace: i64,
}

fn containers(spec: &Value, volumes: &Volumes<'_>, path: &str) -> Vec<FieldError> {
    let pod = Pod {
        volumes,
        grace: int(spec, "terminationGracePeriodSeconds").unwrap_or(30),
    };
    let mut out = Vec::new();
    let main = items(spec, "containers");
    if main.is_empty() {
        out.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, container) in main.iter().enumerate() {
        let path = format!("{path}.containers[{i}]");
        out.extend(container_common(container, &pod, &path));
        let name = text(container, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        } else {
            seen.push(name);
        }
        out.extend(running(container, &pod, &path));
    }
    out.extend(host_ports(main, &format!("{path}.containers")));
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let list = format!("{path}.initContainers");
        let path = format!("{list}[{i}]");
        out.extend(container_common(container, &pod, &path));
        let restart = get(container, "restartPolicy");
        let sidecar = restart == "Always";
        let name = text(container, "name");
        if seen.contains(&name) {
            out.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        } else if !name.is_empty() {
            seen.push(name);
        }
        out.extend(host_ports(std::slice::from_ref(container), &list));
        if sidecar {
            out.extend(running(container, &pod, &path));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, field) {
                out.push(FieldError::forbidden(
                    format!("{path}.{field}"),
                    "may not be set for init containers without restartPolicy=Always",
                ));
            }
        }
    }
    out
}

fn container_common(container: &Value, pod: &Pod<'_>, path: &str) -> Vec<FieldError> {
    let at = |field: &str| format!("{path}.{field}");
    let mut out = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        out.push(FieldError::required(at("name"), ""));
    } else {
        for message in names::dns_label(name) {
            out.push(FieldError::invalid(at("name"), &name.into(), message));
        }
    }
    if text(container, "image").is_empty() {
        out.push(FieldError::required(at("image"), ""));
    }
    one_of(
        &mut out,
        container,
        "terminationMessagePolicy",
        path,
        &["File", "FallbackToLogsOnError"],
    );
    out.extend(ports(items(container, "ports"), &at("ports")));
    out.extend(environment(container, path));
    out.extend(volume_checks::validate_mounts(container, pod.volumes, path));
    one_of(
        &mut out,
        container,
        "imagePullPolicy",
        path,
        &["Always", "IfNotPresent", "Never"],
    );
    out.extend(resources(get(container, "resources"), &at("resources")));
    out.extend(security(
        get(container, "securityContext"),
        &at("securityContext"),
    ));
    out
}

fn ports(ports: &[Value], path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let at = |field: &str| format!("{path}[{i}].{field}");
        let name = text(port, "name");
        if !name.is_empty() {
            let problems = names::port_name(name);
            if problems.is_empty() && seen.contains(&name) {
                out.push(FieldError::duplicate(at("name"), &name.into()));
            }
            seen.push(name);
            for message in problems {
                out.push(FieldError::invalid(at("name"), &name.into(), message));
            }
        }
        match int(port, "containerPort").unwrap_or(0) {
            0 => out.push(FieldError::required(at("containerPort"), "")),
            n => out.extend(
                names::port_number(n).map(|m| FieldError::invalid(at("containerPort"), &n.into(), m)),
            ),
        }
        if let Some(n) = int(port, "hostPort").filter(|n| *n != 0) {
            out.extend(names::port_number(n).map(|m| FieldError::invalid(at("hostPort"), &n.into(), m)));
        }
        let protocol = get(port, "protocol");
        if !matches!(protocol.as_str(), Some("TCP" | "UDP" | "SCTP")) {
            out.push(FieldError::not_supported(
                at("protocol"),
                protocol,
                &["SCTP", "TCP", "UDP"],
            ));
        }
    }
    out
}

/// A host port can be taken once per protocol and address.
fn host_ports(containers: &[Value], path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let number = int(port, "hostPort").unwrap_or(0);
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if seen.contains(&key) {
                out.push(FieldError::duplicate(
                    format!("{path}[{i}].ports[{j}].hostPort"),
                    &key.as_str().into(),
                ));
            }
            seen.push(key);
        }
    }
    out
}

fn environment(container: &Value, path: &str) -> Vec<FieldError> {
    let nothing = Value::from("");
    let mut out = Vec::new();
    for (i, variable) in items(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        let name = text(variable, "name");
        if name.is_empty() {
            out.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            for message in names::env_name(name) {
                out.push(FieldError::invalid(format!("{path}.name"), &name.into(), message));
            }
        }
        let from = get(variable, "valueFrom");
        if from.is_null() {
            continue;
        }
        let path = format!("{path}.valueFrom");
        for field in ["configMapKeyRef", "secretKeyRef"] {
            if has(from, field) {
                out.extend(key_ref(get(from, field), &format!("{path}.{field}")));
            }
        }
        if has(from, "fieldRef") && text(from, "fieldRef.fieldPath").is_empty() {
            out.push(FieldError::required(format!("{path}.fieldRef.fieldPath"), ""));
        } else if has(from, "fieldRef") {
            out.extend(downward_field(
                text(from, "fieldRef.fieldPath"),
                &format!("{path}.fieldRef"),
            ));
        }
        const RESOURCE_FIELDS: &[&str] = &[
            "limits.cpu",
            "limits.ephemeral-storage",
            "limits.memory",
            "requests.cpu",
            "requests.ephemeral-storage",
            "requests.memory",
        ];
        let resource = get(from, "resourceFieldRef.resource");
        if has(from, "resourceFieldRef")
            && !resource
                .as_str()
                .is_some_and(|r| RESOURCE_FIELDS.contains(&r) || r.contains(".hugepages-"))
        {
            out.push(FieldError::not_supported(
                format!("{path}.resourceFieldRef.resource"),
                resource,
                RESOURCE_FIELDS,
            ));
        }
        let count = entries(from, "").filter(|(_, v)| !v.is_null()).count();
        let why = match count {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        out.push(FieldError::invalid(path, &nothing, why));
    }
    for (i, source) in items(container, "envFrom").iter().enumerate() {
        let list = format!("{path}.envFrom");
        let path = format!("{list}[{i}]");
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            for message in names::env_name(prefix) {
                out.push(FieldError::invalid(
                    format!("{path}.prefix"),
                    &prefix.into(),
                    message,
                ));
            }
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            if !has(source, field) {
                continue;
            }
            count += 1;
            let name = text(source, &format!("{field}.name"));
            if name.is_empty() {
                out.push(FieldError::required(format!("{path}.{field}.name"), ""));
            } else {
                for message in names::dns_subdomain(name) {
                    out.push(FieldError::invalid(
                        format!("{path}.{field}.name"),
                        &name.into(),
                        message,
                    ));
                }
            }
        }
        match count {
            0 => out.push(FieldError::invalid(
                list,
                &nothing,
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            1 => {}
            _ => out.push(FieldError::invalid(
                list,
                &nothing,
                "may not have more than one field specified at a time",
            )),
        }
    }
    out
}

fn key_ref(reference: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    for message in names::dns_subdomain(name) {
        out.push(FieldError::invalid(format!("{path}.name"), &name.into(), message));
    }
    if key.is_empty() {
        out.push(FieldError::required(format!("{path}.key"), ""));
    } else {
        for message in names::config_key(key) {
            out.push(FieldError::invalid(format!("{path}.key"), &key.into(), message));
        }
    }
    out
}

/// What of its own pod a container may ask for.
fn downward_field(field: &str, path: &str) -> Vec<FieldError> {
    const FIELDS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let value = Value::from(field);
    if let Some((base, rest)) = field.split_once("['") {
        let subscript = rest.strip_suffix("']").unwrap_or(rest);
        let problems = match base {
            "metadata.annotations" => names::qualified_name(&subscript.to_lowercase()),
            "metadata.labels" => names::qualified_name(subscript),
            _ => {
                return vec![FieldError::invalid(
                    format!("{path}.fieldPath"),
                    &value,
                    format!("error converting fieldPath: field label does not support subscript: {base}"),
                )];
            }
        };
        return problems
            .into_iter()
            .map(|message| FieldError::invalid(path, &subscript.into(), message))
            .collect();
    }
    if FIELDS.contains(&field) {
        return Vec::new();
    }
    let known_elsewhere = [
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    ];
    if known_elsewhere.contains(&field) {
        return vec![FieldError::not_supported(
            format!("{path}.fieldPath"),
            &value,
            FIELDS,
        )];
    }
    vec![FieldError::invalid(
        format!("{path}.fieldPath"),
        &value,
        format!("error converting fieldPath: field label not supported: {field}"),
    )]
}

fn resources(requirements: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for list in ["limits", "requests"] {
        for (name, value) in entries(requirements, list) {
            let path = format!("{path}.{list}[{name}]");
            out.extend(resource_name(name, &path));
            let amount = value.as_str().unwrap_or("");
            if quantity::is_negative(amount) {
                out.push(FieldError::invalid(
                    path.clone(),
                    value,
                    "must be greater than or equal to 0",
                ));
            }
            if list == "limits" {
                continue;
            }
            let limit = get(requirements, "limits").get(name).and_then(Value::as_str);
            let overcommit =
                !name.starts_with("hugepages-") && (!name.contains('/') || name.contains("kubernetes.io/"));
            let requests = path_of(&path);
            match limit.map(|limit| (limit, quantity::compare(amount, limit))) {
                Some((limit, Some(order))) if order != Ordering::Equal && !overcommit => {
                    out.push(FieldError::invalid(
                        requests,
                        value,
                        format!("must be equal to {name} limit of {limit}"),
                    ))
                }
                Some((limit, Some(Ordering::Greater))) => out.push(FieldError::invalid(
                    requests,
                    value,
                    format!("must be less than or equal to {name} limit of {limit}"),
                )),
                None if !overcommit => out.push(FieldError::required(
                    requests.replace(".requests", ".limits"),
                    "Limit must be set for non overcommitable resources",
                )),
                _ => {}
            }
        }
    }
    out
}

/// The list an entry's path belongs to.
fn path_of(entry: &str) -> String {
    entry
        .split_once(".requests[")
        .map_or_else(|| entry.to_owned(), |(head, _)| format!("{head}.requests"))
}

fn resource_name(name: &str, path: &str) -> Vec<FieldError> {
    let value = Value::from(name);
    let problems = names::qualified_name(name);
    if !problems.is_empty() {
        return problems
            .into_iter()
            .map(|message| FieldError::invalid(path, &value, message))
            .collect();
    }
    if name.contains('/') || RESOURCES.contains(&name) || name.starts_with("hugepages-") {
        return Vec::new();
    }
    let mut out = Vec::new();
    if !matches!(name, "pods" | "storage" | "services" | "secrets" | "configmaps") {
        out.push(FieldError::invalid(
            path,
            &value,
            "must be a standard resource type or fully qualified",
        ));
    }
    out.push(FieldError::invalid(
        path,
        &value,
        "must be a standard resource for containers",
    ));
    out
}

/// What applies to a container that keeps running: hooks and probes.
fn running(container: &Value, pod: &Pod<'_>, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for hook in ["postStart", "preStop"] {
        let handler = get(container, "lifecycle").get(hook).filter(|h| !h.is_null());
        if let Some(handler) = handler {
            out.extend(validate_handler(
                handler,
                pod.grace,
                &format!("{path}.lifecycle.{hook}"),
            ));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = get(container, kind);
        if probe.is_null() {
            continue;
        }
        let path = format!("{path}.{kind}");
        out.extend(validate_handler(probe, pod.grace, &path));
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            if let Some(n) = int(probe, field).filter(|n| *n < 0) {
                out.push(FieldError::invalid(
                    format!("{path}.{field}"),
                    &n.into(),
                    "must be greater than or equal to 0",
                ));
            }
        }
        let grace = get(probe, "terminationGracePeriodSeconds");
        if grace.as_i64().is_some_and(|n| n <= 0) {
            out.push(FieldError::invalid(
                format!("{path}.terminationGracePeriodSeconds"),
                grace,
                "must be greater than 0",
            ));
        }
        if kind == "readinessProbe" {
            if !grace.is_null() {
                out.push(FieldError::invalid(
                    format!("{path}.terminationGracePeriodSeconds"),
                    grace,
                    "must not be set for readinessProbes",
                ));
            }
        } else if let Some(n) = int(probe, "successThreshold").filter(|n| *n != 1) {
            out.push(FieldError::invalid(
                format!("{path}.successThreshold"),
                &n.into(),
                "must be 1",
            ));
        }
    }
    out
}

fn validate_handler(handler: &Value, grace: i64, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut count = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = get(handler, kind);
        if action.is_null() {
            continue;
        }
        let path = format!("{path}.{kind}");
        count += 1;
        if count > 1 {
            out.push(FieldError::forbidden(
                path,
                "may not specify more than 1 handler type",
            ));
            continue;
        }
        match kind {
            "exec" if items(action, "command").is_empty() => {
                out.push(FieldError::required(format!("{path}.command"), ""));
            }
            "httpGet" => {
                out.extend(port_name_or_number(get(action, "port"), &format!("{path}.port")));
                let scheme = get(action, "scheme");
                if !matches!(scheme.as_str(), Some("HTTP" | "HTTPS")) {
                    out.push(FieldError::not_supported(
                        format!("{path}.scheme"),
                        scheme,
                        &["HTTP", "HTTPS"],
                    ));
                }
                for header in items(action, "httpHeaders") {
                    out.extend(names::header_name(text(header, "name")).map(|message| {
                        FieldError::invalid(format!("{path}.httpHeaders"), get(header, "name"), message)
                    }));
                }
            }
            "tcpSocket" | "grpc" => {
                out.extend(port_name_or_number(get(action, "port"), &format!("{path}.port")));
            }
            "sleep" => {
                let seconds = int(action, "seconds").unwrap_or(0);
                if seconds < 0 || seconds > grace {
                    out.push(FieldError::invalid(
                        path,
                        &seconds.into(),
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
                    ));
                }
            }
            _ => {}
        }
    }
    if count == 0 {
        out.push(FieldError::required(path, "must specify a handler type"));
    }
    out
}

/// A port by number or by name.
pub(super) fn port_name_or_number(port: &Value, path: &str) -> Vec<FieldError> {
    match port {
        Value::String(name) => names::port_name(name)
            .into_iter()
            .map(|message| FieldError::invalid(path, port, message))
            .collect(),
        other => {
            let n = other.as_i64().unwrap_or(0);
            names::port_number(n)
                .map(|message| FieldError::invalid(path, &n.into(), message))
                .into_iter()
                .collect()
        }
    }
}

/// `25%`, or an integer that is not negative.
pub(super) fn int_or_percent(value: &Value, path: &str) -> Option<FieldError> {
    match value {
        Value::String(s) => {
            let digits = s.strip_suffix('%').unwrap_or("");
            let valid = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
            (!valid).then(|| {
                FieldError::invalid(
                    path,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                )
            })
        }
        other => other
            .as_i64()
            .filter(|n| *n < 0)
            .map(|n| FieldError::invalid(path, &n.into(), "must be greater than or equal to 0")),
    }
}

/// A percentage of pods is at most all of them.
pub(super) fn at_most_all(value: &Value, path: &str) -> Option<FieldError> {
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    (percent > 100).then(|| FieldError::invalid(path, value, "must not be greater than 100%"))
}

fn user_ids(context: &Value, path: &str) -> Vec<FieldError> {
    ["runAsUser", "runAsGroup", "fsGroup"]
        .iter()
        .filter_map(|field| {
            let n = int(context, field).filter(|n| !(0..=i64::from(i32::MAX)).contains(n))?;
            Some(FieldError::invalid(
                format!("{path}.{field}"),
                &n.into(),
                names::range(0, i32::MAX.into()),
            ))
        })
        .collect()
}

fn seccomp(profile: &Value, path: &str) -> Option<FieldError> {
    if profile.is_null() {
        return None;
    }
    let kind = get(profile, "type");
    let local = has(profile, "localhostProfile");
    match kind.as_str() {
        Some("Localhost") if !local => Some(FieldError::required(
            format!("{path}.localhostProfile"),
            "must be set when seccomp type is Localhost",
        )),
        Some("Localhost") => None,
        Some("RuntimeDefault" | "Unconfined") if local => Some(FieldError::invalid(
            format!("{path}.localhostProfile"),
            get(profile, "localhostProfile"),
            "can only be set when seccomp type is Localhost",
        )),
        Some("RuntimeDefault" | "Unconfined") => None,
        None | Some("") => Some(FieldError::required(
            format!("{path}.type"),
            "type is required when seccompProfile is set",
        )),
        Some(_) => Some(FieldError::not_supported(
            format!("{path}.type"),
            kind,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        )),
    }
}

fn pod_security(context: &Value, path: &str) -> Vec<FieldError> {
    let mut out = user_ids(context, path);
    out.extend(seccomp(
        get(context, "seccompProfile"),
        &format!("{path}.seccompProfile"),
    ));
    let policy = get(context, "fsGroupChangePolicy");
    if policy
        .as_str()
        .is_some_and(|p| !matches!(p, "OnRootMismatch" | "Always"))
    {
        out.push(FieldError::not_supported(
            format!("{path}.fsGroupChangePolicy"),
            policy,
            &["Always", "OnRootMismatch"],
        ));
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        if group
            .as_i64()
            .is_some_and(|n| !(0..=i64::from(i32::MAX)).contains(&n))
        {
            out.push(FieldError::invalid(
                format!("{path}.supplementalGroups[{i}]"),
                group,
                names::range(0, i32::MAX.into()),
            ));
        }
    }
    out
}

fn security(context: &Value, path: &str) -> Vec<FieldError> {
    let mut out = user_ids(context, path);
    out.extend(seccomp(
        get(context, "seccompProfile"),
        &format!("{path}.seccompProfile"),
    ));
    if get(context, "allowPrivilegeEscalation") == &Value::Bool(false) {
        if flag(context, "privileged") {
            out.push(FieldError::with_value(
                FieldErrorKind::Invalid,
                path,
                Some(go_struct(context, CONTEXT)),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        if strings(context, "capabilities.add").any(|c| c == "CAP_SYS_ADMIN") {
            out.push(FieldError::with_value(
                FieldErrorKind::Invalid,
                path,
                Some(go_struct(context, CONTEXT)),
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
    out
}

fn validate_toleration(toleration: &Value, path: &str) -> Vec<FieldError> {
    let at = |field: &str| format!("{path}.{field}");
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    let (operator, effect) = (get(toleration, "operator"), get(toleration, "effect"));
    let mut out = Vec::new();
    if key.is_empty() {
        if operator != "Exists" {
            out.push(FieldError::invalid(
                at("operator"),
                &operator.as_str().unwrap_or("").into(),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
    } else {
        for message in names::qualified_name(key) {
            out.push(FieldError::invalid(at("key"), &key.into(), message));
        }
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        out.push(FieldError::invalid(
            at("effect"),
            &effect.as_str().unwrap_or("").into(),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ));
    }
    match operator.as_str() {
        None | Some("Equal" | "") => {
            let problems = names::label_value(value);
            if !problems.is_empty() {
                out.push(FieldError::invalid(
                    at("operator"),
                    &value.into(),
                    problems.join(";"),
                ));
            }
        }
        Some("Exists") if !value.is_empty() => out.push(FieldError::invalid(
            at("operator"),
            &value.into(),
            "value must be empty when `operator` is 'Exists'",
        )),
        Some("Exists") => {}
        Some("Lt" | "Gt") => out.push(FieldError::not_supported(
            at("operator"),
            operator,
            &["Equal", "Exists", "Lt", "Gt"],
        )),
        Some(_) => out.push(FieldError::not_supported(
            at("operator"),
            operator,
            &["Equal", "Exists"],
        )),
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if effect
        .as_str()
        .is_some_and(|e| !e.is_empty() && !effects.contains(&e))
    {
        out.push(FieldError::not_supported(at("effect"), effect, &effects));
    }
    out
}

fn scheduling_gates(gates: &[Value], path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, gate) in gates.iter().enumerate() {
        let (name, path) = (get(gate, "name"), format!("{path}[{i}]"));
        for message in names::qualified_name(name.as_str().unwrap_or("")) {
            out.push(FieldError::invalid(path.clone(), name, message));
        }
        if gates.iter().take(i).any(|other| get(other, "name") == name) {
            out.push(FieldError::duplicate(path, name));
        }
    }
    out
}

fn spread(constraints: &[Value], path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            out.push(FieldError::invalid(
                format!("{path}.maxSkew"),
                &skew.into(),
                "must be greater than zero",
            ));
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            out.push(FieldError::required(
                format!("{path}.topologyKey"),
                "can not be empty",
            ));
        }
        let when = get(constraint, "whenUnsatisfiable");
        if !matches!(when.as_str(), Some("DoNotSchedule" | "ScheduleAnyway")) {
            out.push(FieldError::not_supported(
                format!("{path}.whenUnsatisfiable"),
                when,
                &["DoNotSchedule", "ScheduleAnyway"],
            ));
        }
        if let Some(n) = int(constraint, "minDomains").filter(|_| when != "DoNotSchedule") {
            out.push(FieldError::invalid(
                format!("{path}.minDomains"),
                &n.into(),
                format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    when.as_str().unwrap_or("")
                ),
            ));
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = get(constraint, field);
            if policy.as_str().is_some_and(|p| !matches!(p, "Honor" | "Ignore")) {
                out.push(FieldError::not_supported(
                    format!("{path}.{field}"),
                    policy,
                    &["Honor", "Ignore"],
                ));
            }
        }
        let same = |c: &&Value| text(c, "topologyKey") == key && get(c, "whenUnsatisfiable") == when;
        if constraints.iter().skip(i + 1).any(|c| same(&c)) {
            out.push(FieldError::duplicate(
                format!("{path}.{{topologyKey, whenUnsatisfiable}}"),
                &format!("{{{key}, {}}}", when.as_str().unwrap_or("")).into(),
            ));
        }
        out.extend(selector::validate(
            get(constraint, "labelSelector"),
            &format!("{path}.labelSelector"),
        ));
    }
    out
}

fn affinity(affinity: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = get(affinity, "nodeAffinity");
    let node_path = format!("{path}.nodeAffinity");
    if has(node, required) {
        let path = format!("{node_path}.{required}.nodeSelectorTerms");
        let terms = items(node, &format!("{required}.nodeSelectorTerms"));
        if terms.is_empty() {
            out.push(FieldError::required(
                path.clone(),
                "must have at least one node selector term",
            ));
        }
        for (i, term) in terms.iter().enumerate() {
            out.extend(node_term(term, &format!("{path}[{i}]")));
        }
    }
    for (i, term) in items(node, preferred).iter().enumerate() {
        let path = format!("{node_path}.{preferred}[{i}]");
        out.extend(weight(term, &path));
        out.extend(node_term(get(term, "preference"), &format!("{path}.preference")));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in items(affinity, &format!("{kind}.{required}")).iter().enumerate() {
            out.extend(pod_term(term, &format!("{path}.{kind}.{required}[{i}]")));
        }
        for (i, term) in items(affinity, &format!("{kind}.{preferred}")).iter().enumerate() {
            let path = format!("{path}.{kind}.{preferred}[{i}]");
            out.extend(weight(term, &path));
            out.extend(pod_term(
                get(term, "podAffinityTerm"),
                &format!("{path}.podAffinityTerm"),
            ));
        }
    }
    out
}

fn weight(term: &Value, path: &str) -> Option<FieldError> {
    let n = int(term, "weight").unwrap_or(0);
    (!(1..=100).contains(&n))
        .then(|| FieldError::invalid(format!("{path}.weight"), &n.into(), "must be in the range 1-100"))
}

fn node_term(term: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, expression) in items(term, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let (operator, values) = (get(expression, "operator"), items(expression, "values"));
        match operator.as_str().unwrap_or("") {
            "In" | "NotIn" if values.is_empty() => out.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => out.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values.len() != 1 => out.push(FieldError::required(
                format!("{path}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => out.push(FieldError::invalid(
                format!("{path}.operator"),
                &other.into(),
                "not a valid selector operator",
            )),
        }
        let key = text(expression, "key");
        for message in names::qualified_name(key) {
            out.push(FieldError::invalid(format!("{path}.key"), &key.into(), message));
        }
    }
    out
}

fn pod_term(term: &Value, path: &str) -> Vec<FieldError> {
    let mut out = selector::validate(get(term, "labelSelector"), &format!("{path}.labelSelector"));
    out.extend(selector::validate(
        get(term, "namespaceSelector"),
        &format!("{path}.namespaceSelector"),
    ));
    let key = text(term, "topologyKey");
    if key.is_empty() {
        out.push(FieldError::required(
            format!("{path}.topologyKey"),
            "can not be empty",
        ));
    }
    for message in names::qualified_name(key) {
        out.push(FieldError::invalid(
            format!("{path}.topologyKey"),
            &key.into(),
            message,
        ));
    }
    out
}

/// What a client should hear about the pod whose spec stands at `path`.
pub(super) fn pod_warnings(object: &Value, path: &str) -> Vec<String> {
    let spec = get(object, path);
    let parent = path.strip_suffix(".spec").unwrap_or("");
    let meta = if parent.is_empty() {
        "metadata".to_owned()
    } else {
        format!("{parent}.metadata")
    };
    let mut out = Vec::new();
    for (key, _) in entries(spec, "nodeSelector") {
        out.extend(old_node_label(key).map(|why| format!("{path}.nodeSelector[{key}]: {why}")));
    }
    for (i, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let key = text(constraint, "topologyKey");
        let path = format!("{path}.topologySpreadConstraints[{i}]");
        out.extend(old_node_label(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
        if !has(constraint, "labelSelector") {
            out.push(format!(
                "{path}.labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    let annotations = get(object, &format!("{meta}.annotations"));
    for (key, why) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "non-functional in v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
    ] {
        if annotations.get(key).is_some() {
            out.push(format!("{meta}.annotations[{key}]: {why}"));
        }
    }
    out.extend(volume_checks::warnings(items(spec, "volumes"), path));
    for (list, field, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let all = items(spec, list);
        for (i, item) in all.iter().enumerate() {
            let value = text(item, field);
            if all.iter().take(i).any(|other| text(other, field) == value) {
                out.push(format!(
                    "{path}.{list}[{i}].{field}: duplicate {what} {}",
                    go_quote(value)
                ));
            }
        }
    }
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            out.push(format!(
                "{path}.imagePullSecrets[{i}].name: invalid empty name \"\""
            ));
        }
    }
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if annotations.get(key).is_some() && !has(spec, "securityContext.seccompProfile") {
        out.push(format!(
            "{meta}.annotations[{key}]: non-functional in v1.27+; use the \"seccompProfile\" field instead"
        ));
    }
    out.extend(container_warnings(spec, path));
    out
}

fn old_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        _ => return None,
    })
}

fn container_warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut ports: BTreeMap<String, Vec<(String, &Value)>> = BTreeMap::new();
    let mut port_warnings = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{i}]");
            for name in ["memory", "ephemeral-storage"] {
                for kind in ["limits", "requests"] {
                    let amount = get(container, &format!("resources.{kind}"))
                        .get(name)
                        .and_then(Value::as_str);
                    if let Some(amount) =
                        amount.filter(|a| quantity::nano(a).is_some_and(|n| n % 1_000_000_000 != 0))
                    {
                        out.push(format!(
                            "{path}.resources.{kind}[{name}]: fractional byte value {} is invalid, must be an integer",
                            go_quote(amount)
                        ));
                    }
                }
            }
            let env = items(container, "env");
            for (j, variable) in env.iter().enumerate() {
                let name = text(variable, "name");
                let reference = format!("$({name})");
                let value = text(variable, "value");
                let extends = !has(variable, "valueFrom") && value != reference && value.contains(&reference);
                if !extends && env.iter().take(j).any(|other| text(other, "name") == name) {
                    out.push(format!(
                        "{path}.env[{j}]: hides previous definition of {}, which may be dropped when using apply",
                        go_quote(name)
                    ));
                }
            }
            for (j, port) in items(container, "ports").iter().enumerate() {
                let here = format!("{path}.ports[{j}]");
                let key = format!("{}/{}", get(port, "containerPort"), text(port, "protocol"));
                let others = ports.entry(key).or_default();
                for (other, before) in others.iter() {
                    let host = |p: &Value| int(p, "hostPort").unwrap_or(0);
                    let ip = |p: &Value| text(p, "hostIP").to_owned();
                    if ip(port) == ip(before) && host(port) == host(before) {
                        port_warnings.push(format!("{here}: duplicate port definition with {other}"));
                    } else if host(port) == 0 || host(before) == 0 {
                        port_warnings.push(format!("{here}: overlapping port definition with {other}"));
                    } else if host(port) == host(before) && (ip(port).is_empty() != ip(before).is_empty()) {
                        port_warnings.push(format!(
                            "{here}: dangerously ambiguous port definition with {other}"
                        ));
                    }
                }
                others.push((here, port));
            }
        }
    }
    out.extend(port_warnings);
    if !is_empty(get(spec, "terminationGracePeriodSeconds"))
        && int(spec, "terminationGracePeriodSeconds").is_some_and(|n| n < 0)
    {
        out.push(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    out
}
