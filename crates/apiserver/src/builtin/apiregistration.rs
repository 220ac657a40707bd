//! APIService. It is stored, and nothing is aggregated: the groups of other API servers are not served here. Its
//! status and a warning say so.

use super::SPEC_AND_STATUS;
use super::names;
use super::tree::{default, flag, get, has, int, set, text, with};
use crate::field::FieldError;
use crate::registry::Strategy;
use serde_json::{Value, json};

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;

pub(super) static API_SERVICE: Strategy = Strategy {
    unconditional_update: false,
    default: |service| with(service, "spec.service", |service| default(service, "port", 443)),
    prepare_create: |service| {
        let status = status(service);
        set(service, "status", status);
    },
    validate,
    warnings: |service| {
        let name = text(service, "metadata.name");
        match is_local(service) {
            true => Vec::new(),
            false => vec![format!("APIService {name} has no effect: {NOT_AGGREGATED}")],
        }
    },
    ..SPEC_AND_STATUS
};

const NOT_AGGREGATED: &str = "this server does not aggregate other API servers";

fn is_local(service: &Value) -> bool {
    get(service, "spec.service").is_null()
}

/// The reason of a local one is upstream's.
fn status(service: &Value) -> Value {
    let (is, reason, message) = match is_local(service) {
        true => ("True", "Local", "Local APIServices are always available"),
        false => ("False", "NotAggregated", NOT_AGGREGATED),
    };
    json!({ "conditions": [{
        "type": "Available", "status": is, "reason": reason, "message": message,
        "lastTransitionTime": get(service, "metadata.creationTimestamp"),
    }] })
}

fn validate(service: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let (group, version) = (text(service, "spec.group"), text(service, "spec.version"));
    let name = text(service, "metadata.name");
    let wanted = format!("{version}.{group}");
    if name != wanted {
        out.push(FieldError::invalid(
            "metadata.name",
            &name.into(),
            format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"),
        ));
    }
    if group.is_empty() {
        if version != "v1" {
            let why = "only v1 may have an empty group and it better be legacy kube";
            out.push(FieldError::required("spec.group", why));
        }
    } else {
        let problems = names::dns_subdomain(group).into_iter();
        out.extend(problems.map(|why| FieldError::invalid("spec.group", &group.into(), why)));
    }
    let problems = names::dns_label(version).into_iter();
    out.extend(problems.map(|why| FieldError::invalid("spec.version", &version.into(), why)));
    for (field, max) in [
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ] {
        let path = format!("spec.{field}");
        let value = int(service, &path).unwrap_or_default();
        if value <= 0 || value > max {
            let why = format!("must be positive and less than {max}");
            out.push(FieldError::invalid(path, &value.into(), why));
        }
    }
    let bundled = has(service, "spec.caBundle");
    let insecure = flag(service, "spec.insecureSkipTLSVerify");
    if is_local(service) {
        if bundled {
            let why = "local APIServices may not have a caBundle";
            out.push(FieldError::invalid(
                "spec.caBundle",
                get(service, "spec.caBundle"),
                why,
            ));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            out.push(FieldError::invalid(
                "spec.insecureSkipTLSVerify",
                &true.into(),
                why,
            ));
        }
        return out;
    }
    for field in ["namespace", "name"] {
        let path = format!("spec.service.{field}");
        if text(service, &path).is_empty() {
            out.push(FieldError::required(path, ""));
        }
    }
    if let Some(why) = int(service, "spec.service.port").and_then(names::port_number) {
        let port = get(service, "spec.service.port");
        out.push(FieldError::invalid(
            "spec.service.port",
            port,
            format!("port is not valid: {why}"),
        ));
    }
    if insecure && bundled {
        let why = "may not be true if caBundle is present";
        out.push(FieldError::invalid(
            "spec.insecureSkipTLSVerify",
            &true.into(),
            why,
        ));
    }
    out
}
