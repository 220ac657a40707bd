//! The core group's plain kinds: ConfigMap, Secret, Namespace, ServiceAccount, ...

use super::addresses::{check_endpoint_ip, check_ip};
use super::meta::{immutable, unqualified_finalizer};
use super::pod::default_entry;
use super::tree::{
    annotation, at, default, each, entries, flag, get, has, items, remove, restore, set, text,
};
use super::{SPEC_AND_STATUS, names, quantity};
use crate::field::FieldError;
use crate::registry::{NameRule, Strategy};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const DATA_BYTES_MAX: usize = 1024 * 1024;

const QUOTAS: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

pub(super) static CONFIG_MAP: Strategy = Strategy {
    validate: validate_config_map,
    validate_update: |new, stored| frozen(new, stored, &["data", "binaryData"]),
    ..Strategy::GENERIC
};

pub(super) static SECRET: Strategy = Strategy {
    default: default_secret,
    validate: validate_secret,
    validate_update: |new, stored| {
        let mut out: Vec<FieldError> = immutable(new, stored, "type").into_iter().collect();
        out.extend(frozen(new, stored, &["data"]));
        out
    },
    warnings: |secret| {
        if text(secret, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let pem = |key: &str| {
            let encoded = get(secret, "data").get(key).and_then(Value::as_str).unwrap_or("");
            STANDARD
                .decode(encoded)
                .is_ok_and(|bytes| bytes.windows(11).any(|w| w == b"-----BEGIN "))
        };
        // whether the pair matches is not checked
        for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
            if !pem(key) {
                return vec![format!("tls: failed to find any PEM data in {what} input")];
            }
        }
        Vec::new()
    },
    selectable: &["type"],
    ..Strategy::GENERIC
};

pub(super) static NAMESPACE: Strategy = Strategy {
    name: NameRule::DnsLabel,
    delete_returns_object: true,
    default: |namespace| {
        let name = text(namespace, "metadata.name").to_owned();
        if !name.is_empty() {
            default(namespace, "metadata.labels", json!({}));
            if let Some(labels) = at(namespace, "metadata.labels").and_then(Value::as_object_mut) {
                labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
            }
        }
        default(namespace, "status.phase", "Active");
    },
    prepare_create: |namespace| {
        set(namespace, "status", json!({"phase": "Active"}));
        (NAMESPACE.default)(namespace);
        let mut finalizers = items(namespace, "spec.finalizers").to_vec();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            finalizers.push("kubernetes".into());
        }
        set(namespace, "spec.finalizers", finalizers);
    },
    prepare_update: |new, stored| {
        restore(new, stored, "spec.finalizers");
        default(new, "spec", json!({}));
        (NAMESPACE.default)(new);
    },
    validate: |namespace| {
        items(namespace, "spec.finalizers")
            .iter()
            .flat_map(|finalizer| {
                let name = finalizer.as_str().unwrap_or("");
                let mut out: Vec<FieldError> = names::qualified_name(name)
                    .into_iter()
                    .map(|message| FieldError::invalid("spec.finalizers", finalizer, message))
                    .collect();
                out.extend(unqualified_finalizer(finalizer, "spec.finalizers"));
                out
            })
            .collect()
    },
    selectable: &["status.phase"],
    ..SPEC_AND_STATUS
};

pub(super) static SERVICE_ACCOUNT: Strategy = Strategy {
    delete_returns_object: true,
    warnings: |account| {
        if annotation(account, "kubernetes.io/enforce-mountable-secrets").is_none() {
            return Vec::new();
        }
        vec!["metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets".to_owned()]
    },
    ..Strategy::GENERIC
};

pub(super) static ENDPOINTS: Strategy = Strategy {
    create_on_update: true,
    default: |endpoints| {
        each(endpoints, "subsets", |subset| {
            each(subset, "ports", |port| default(port, "protocol", "TCP"));
        });
    },
    validate: validate_endpoints,
    warnings: |_| {
        vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()]
    },
    ..Strategy::GENERIC
};

pub(super) static NODE: Strategy = Strategy {
    create_keeps_status: true,
    prepare_create: |_| {},
    default: |node| {
        if !has(node, "status.allocatable") && has(node, "status.capacity") {
            let capacity = get(node, "status.capacity").clone();
            set(node, "status.allocatable", capacity);
        }
    },
    selectable: &["spec.unschedulable"],
    ..SPEC_AND_STATUS
};

pub(super) static LIMIT_RANGE: Strategy = Strategy {
    create_on_update: true,
    default: default_limit_range,
    validate: validate_limit_range,
    ..Strategy::GENERIC
};

pub(super) static RESOURCE_QUOTA: Strategy = Strategy {
    delete_returns_object: true,
    prepare_create: |quota| set(quota, "status", json!({})),
    validate: validate_resource_quota,
    validate_update: |new, stored| {
        let (new, old) = (get(new, "spec.scopes"), get(stored, "spec.scopes"));
        if new == old {
            return Vec::new();
        }
        vec![FieldError::invalid("spec.scopes", new, "field is immutable")]
    },
    ..SPEC_AND_STATUS
};

fn decoded_len(value: &Value) -> usize {
    value
        .as_str()
        .map_or(0, |s| s.trim_end_matches('=').len() * 3 / 4)
}

fn bad_keys(object: &Value, field: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (key, _) in entries(object, field) {
        for message in names::config_key(key) {
            out.push(FieldError::invalid(
                format!("{field}[{key}]"),
                &key.as_str().into(),
                message,
            ));
        }
    }
    out
}

fn validate_config_map(object: &Value) -> Vec<FieldError> {
    let mut out = bad_keys(object, "data");
    let binary = get(object, "binaryData");
    let mut bytes = 0;
    for (key, value) in entries(object, "data") {
        if binary.get(key).is_some() {
            out.push(FieldError::invalid(
                format!("data[{key}]"),
                &key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    out.extend(bad_keys(object, "binaryData"));
    bytes += entries(object, "binaryData")
        .map(|(_, v)| decoded_len(v))
        .sum::<usize>();
    if bytes > DATA_BYTES_MAX {
        out.push(FieldError::too_long("[]", DATA_BYTES_MAX));
    }
    out
}

fn frozen(new: &Value, stored: &Value, fields: &[&str]) -> Vec<FieldError> {
    const WHY: &str = "field is immutable when `immutable` is set";
    let mut out = Vec::new();
    if !flag(stored, "immutable") {
        return out;
    }
    if !flag(new, "immutable") {
        out.push(FieldError::forbidden("immutable", WHY));
    }
    for field in fields {
        if get(new, field) != get(stored, field) {
            out.push(FieldError::forbidden(*field, WHY));
        }
    }
    out
}

/// `stringData` is merged into `data` on write and never returned.
fn default_secret(secret: &mut Value) {
    let plain: Vec<(String, String)> = entries(secret, "stringData")
        .map(|(k, v)| (k.clone(), STANDARD.encode(v.as_str().unwrap_or(""))))
        .collect();
    if !plain.is_empty() {
        default(secret, "data", json!({}));
        if let Some(data) = at(secret, "data").and_then(Value::as_object_mut) {
            for (key, value) in plain {
                data.insert(key, value.into());
            }
        }
    }
    remove(secret, "stringData");
    default(secret, "type", "Opaque");
}

fn validate_secret(object: &Value) -> Vec<FieldError> {
    let mut out = bad_keys(object, "data");
    let bytes: usize = entries(object, "data").map(|(_, v)| decoded_len(v)).sum();
    if bytes > DATA_BYTES_MAX {
        out.push(FieldError::too_long("data", DATA_BYTES_MAX));
    }
    let data = get(object, "data");
    let missing = |key: &str| data.get(key).is_none();
    let required = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match text(object, "type") {
        "kubernetes.io/service-account-token"
            if annotation(object, "kubernetes.io/service-account.name")
                .unwrap_or("")
                .is_empty() =>
        {
            out.push(FieldError::required(
                "metadata.annotations[kubernetes.io/service-account.name]",
                "",
            ));
        }
        "kubernetes.io/dockercfg" => out.extend(json_object(data, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => out.extend(json_object(data, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => {
            out.push(required("username"));
            out.push(required("password"));
        }
        "kubernetes.io/ssh-auth" if get(data, "ssh-privatekey").as_str().unwrap_or("").is_empty() => {
            out.push(required("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if missing(key) {
                    out.push(required(key));
                }
            }
        }
        _ => {}
    }
    out
}

fn json_object(data: &Value, key: &str) -> Option<FieldError> {
    let path = format!("data[{key}]");
    let Some(encoded) = data.get(key).and_then(Value::as_str) else {
        return Some(FieldError::required(path, ""));
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            match other {
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Bool(_) => "bool",
                _ => "number",
            }
        ),
        Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => "unexpected end of JSON input".to_owned(),
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => bad_character(&bytes, error.column()),
    };
    Some(FieldError::invalid(
        path,
        &"<secret contents redacted>".into(),
        why,
    ))
}

fn bad_character(bytes: &[u8], column: usize) -> String {
    for literal in ["null", "true", "false"] {
        let same = bytes
            .iter()
            .zip(literal.bytes())
            .take_while(|(a, b)| *a == b)
            .count();
        if same > 0
            && let (Some(bad), Some(expected)) = (bytes.get(same), literal.chars().nth(same))
        {
            let bad = char::from(*bad);
            return format!("invalid character '{bad}' in literal {literal} (expecting '{expected}')");
        }
    }
    let shown = bytes
        .get(column.saturating_sub(1))
        .map_or('?', |b| char::from(*b));
    format!("invalid character '{shown}' looking for beginning of value")
}

fn validate_endpoints(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, subset) in items(object, "subsets").iter().enumerate() {
        let path = format!("subsets[{i}]");
        if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
            out.push(FieldError::required(
                path.clone(),
                "must specify `addresses` or `notReadyAddresses`",
            ));
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (j, address) in items(subset, list).iter().enumerate() {
                let (ip, path) = (get(address, "ip"), format!("{path}.{list}[{j}].ip"));
                out.extend(check_ip(&path, ip));
                out.extend(check_endpoint_ip(&path, ip));
            }
        }
        let ports = items(subset, "ports");
        for (j, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{j}]");
            let name = text(port, "name");
            if ports.len() > 1 && name.is_empty() {
                out.push(FieldError::required(format!("{path}.name"), ""));
            } else if !name.is_empty() {
                for message in names::dns_label(name) {
                    out.push(FieldError::invalid(format!("{path}.name"), &name.into(), message));
                }
            }
            let number = get(port, "port");
            if let Some(message) = names::port_number(number.as_i64().unwrap_or(0)) {
                out.push(FieldError::invalid(format!("{path}.port"), number, message));
            }
        }
    }
    out
}

/// A container limit implies a default limit, which implies a default request.
fn default_limit_range(object: &mut Value) {
    each(object, "spec.limits", |limit| {
        if text(limit, "type") != "Container" {
            return;
        }
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let values: Vec<(String, Value)> = entries(limit, from)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            for (name, value) in values {
                default_entry(limit, to, &name, value);
            }
        }
    });
}

fn validate_limit_range(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut seen = Vec::new();
    for (i, limit) in items(object, "spec.limits").iter().enumerate() {
        let path = format!("spec.limits[{i}]");
        let kind = get(limit, "type");
        if seen.contains(&kind) {
            out.push(FieldError::duplicate(format!("{path}.type"), kind));
        }
        seen.push(kind);
        let pod = kind == "Pod";
        for field in ["default", "defaultRequest"] {
            if pod && entries(limit, field).next().is_some() {
                out.push(FieldError::forbidden(
                    format!("{path}.{field}"),
                    "may not be specified when `type` is 'Pod'",
                ));
            }
        }
        if kind == "PersistentVolumeClaim" {
            let storage = |bound: &str| get(limit, bound).get("storage").is_some();
            if !storage("min") && !storage("max") {
                out.push(FieldError::required(
                    format!("{path}.limits"),
                    "either minimum or maximum storage value is required, but neither was provided",
                ));
            }
        }
        let value = |list: &str, name: &str| {
            get(limit, list)
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let mut resources: Vec<&String> = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
            .iter()
            .flat_map(|list| entries(limit, list).map(|(k, _)| k))
            .collect();
        resources.sort();
        resources.dedup();
        for name in resources {
            for (low, high, at, what) in [
                ("min", "max", "min", "min value {} is greater than max value {}"),
                (
                    "min",
                    "defaultRequest",
                    "defaultRequest",
                    "min value {} is greater than default request value {}",
                ),
                (
                    "defaultRequest",
                    "max",
                    "defaultRequest",
                    "default request value {} is greater than max value {}",
                ),
                (
                    "defaultRequest",
                    "default",
                    "defaultRequest",
                    "default request value {} is greater than default limit value {}",
                ),
                (
                    "min",
                    "default",
                    "default",
                    "min value {} is greater than default value {}",
                ),
                (
                    "default",
                    "max",
                    "default",
                    "default value {} is greater than max value {}",
                ),
            ] {
                let (Some(low_value), Some(high_value)) = (value(low, name), value(high, name)) else {
                    continue;
                };
                if quantity::compare(&low_value, &high_value) != Some(std::cmp::Ordering::Greater) {
                    continue;
                }
                // upstream is inconsistent about which of the two it shows
                let shown = match (low, high) {
                    ("min", "defaultRequest") | ("default", "max") => &high_value,
                    _ => &low_value,
                };
                out.push(FieldError::invalid(
                    format!("{path}.{at}[{name}]"),
                    &shown.as_str().into(),
                    what.replacen("{}", &low_value, 1).replacen("{}", &high_value, 1),
                ));
            }
        }
    }
    out
}

fn validate_resource_quota(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    const SCOPES: &[&str] = &[
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    ];
    let scopes = get(object, "spec.scopes");
    let unknown = |scope: &Value| !scope.as_str().is_some_and(|s| SCOPES.contains(&s));
    if items(object, "spec.scopes").iter().any(unknown) {
        out.push(FieldError::invalid("spec.scopes", scopes, "unsupported scope"));
    }
    for (name, value) in entries(object, "spec.hard") {
        let path = format!("spec.hard[{name}]");
        let shown = Value::from(name.as_str());
        for message in names::qualified_name(name) {
            out.push(FieldError::invalid(path.clone(), &shown, message));
        }
        if !name.contains('/') && !QUOTAS.contains(&name.as_str()) && !name.contains("hugepages-") {
            if name != "storage" {
                out.push(FieldError::invalid(
                    path.clone(),
                    &shown,
                    "must be a standard resource type or fully qualified",
                ));
            }
            out.push(FieldError::invalid(
                path.clone(),
                &shown,
                "must be a standard resource for quota",
            ));
        }
        let counted = !matches!(
            name.as_str(),
            "cpu" | "memory" | "ephemeral-storage" | "requests.storage"
        ) && !name.contains(".cpu")
            && !name.contains(".memory")
            && !name.contains("ephemeral");
        let whole = value
            .as_str()
            .and_then(quantity::nano)
            .is_some_and(|n| n % 1_000_000_000 == 0);
        if counted && !whole && !name.contains('/') {
            out.push(FieldError::invalid(path.clone(), value, "must be an integer"));
        }
        if value.as_str().is_some_and(quantity::is_negative) {
            out.push(FieldError::invalid(
                path,
                value,
                "must be greater than or equal to 0",
            ));
        }
    }
    out
}
