//! Validation of a pod's containers: ports, environment, resources, probes, security.

use super::meta::strings;
use super::names;
use super::pod_checks::one_of;
use super::quantity;
use super::tree::{entries, flag, get, has, int, items, text};
use super::volume_checks::{self, Volumes};
use crate::field::{FieldError, FieldErrorKind, go_struct};
use serde_json::Value;
use std::cmp::Ordering;

pub(super) struct Pod<'a> {
    pub(super) volumes: &'a Volumes<'a>,
    /// `terminationGracePeriodSeconds`.
    pub(super) grace: i64,
}

const RESOURCES: &[&str] = &["cpu", "ephemeral-storage", "memory"];

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

pub(super) fn container_common(container: &Value, pod: &Pod<'_>, path: &str) -> Vec<FieldError> {
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

pub(super) fn host_ports(containers: &[Value], path: &str) -> Vec<FieldError> {
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
                    ));
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

pub(super) fn running(container: &Value, pod: &Pod<'_>, path: &str) -> Vec<FieldError> {
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

pub(super) fn at_most_all(value: &Value, path: &str) -> Option<FieldError> {
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    (percent > 100).then(|| FieldError::invalid(path, value, "must not be greater than 100%"))
}

pub(super) fn user_ids(context: &Value, path: &str) -> Vec<FieldError> {
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

pub(super) fn seccomp(profile: &Value, path: &str) -> Option<FieldError> {
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
