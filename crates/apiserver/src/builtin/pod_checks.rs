//! Validation of pods and pod templates.
//!
//! The checks that manifests commonly fail, in the order of `core/validation/validation.go` (1.36).
//! Resource claims, Windows options and AppArmor annotations are not checked.

use super::container_checks::{Pod, container_common, host_ports, running, seccomp, user_ids};
use super::meta::{strings, validate_annotations, validate_labels};
use super::names;
use super::quantity;
use super::selector;
use super::tree::{entries, flag, get, has, int, is_empty, items, text};
use super::volume_checks::{self, Volumes};
use crate::field::{FieldError, go_quote};
use serde_json::Value;
use std::collections::BTreeMap;

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
        out.extend(super::addresses::check_ip(
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
        out.extend(super::addresses::check_ip(
            &format!("{path}.ip"),
            get(alias, "ip"),
        ));
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

pub(super) fn one_of(out: &mut Vec<FieldError>, object: &Value, field: &str, path: &str, allowed: &[&str]) {
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
