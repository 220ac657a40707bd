//! Built-in admission plugins: additions to a write, and refusals.
//!
//! Pure functions over the object; closures supply cluster state. The pipeline chooses which run, so that a
//! cluster can behave like a bare API server. Module `quota` has quotas and limit ranges.

use super::quantity;
use super::tree::{annotation, at, default, flag, get, has, int, items, set, text};
use serde_json::{Value, json};
use std::cmp::Ordering;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const LEGACY_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Completes the message `pods "p" is forbidden: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PriorityError {
    #[error("no PriorityClass with name {0} was found")]
    NoClass(String),
    #[error(
        "the integer value of priority ({asked}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    Value { asked: i64, computed: i64 },
    #[error(
        "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    Policy { asked: String, computed: String },
}

pub(crate) fn service_account(pod: &mut Value) {
    default(pod, "spec.serviceAccountName", "default");
    let name = get(pod, "spec.serviceAccountName").clone();
    set(pod, "spec.serviceAccount", name);
}

/// Pods leave a broken node after five minutes, unless they declare otherwise.
pub(crate) fn default_tolerations(pod: &mut Value) {
    for taint in [NOT_READY, UNREACHABLE] {
        let tolerated = items(pod, "spec.tolerations").iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if tolerated {
            continue;
        }
        default(pod, "spec.tolerations", json!([]));
        if let Some(list) = at(pod, "spec.tolerations").and_then(Value::as_array_mut) {
            list.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
}

/// Assigns the pod to the only node, unless it names one or has scheduling gates.
pub(crate) fn bind(pod: &mut Value, node: &str) {
    if items(pod, "spec.schedulingGates").is_empty() && text(pod, "spec.nodeName").is_empty() {
        set(pod, "spec.nodeName", node);
    }
}

/// Resolves a new pod's priority: from its class, else the default class, else 0.
///
/// `class` finds a PriorityClass by name; `default_class` is the one marked `globalDefault`.
pub(crate) fn priority(
    pod: &mut Value,
    class: impl Fn(&str) -> Option<Value>,
    default_class: Option<&Value>,
) -> Result<(), PriorityError> {
    let name = text(pod, "spec.priorityClassName").to_owned();
    let found = if name.is_empty() {
        default_class.cloned()
    } else {
        Some(class(&name).ok_or(PriorityError::NoClass(name))?)
    };
    let (value, policy) = match &found {
        Some(class) => (
            int(class, "value").unwrap_or(0),
            Some(text(class, "preemptionPolicy")).filter(|p| !p.is_empty()),
        ),
        None => (0, None),
    };
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(class) = &found {
        set(pod, "spec.priorityClassName", text(class, "metadata.name"));
    }
    if let Some(asked) = int(pod, "spec.priority").filter(|asked| *asked != value) {
        return Err(PriorityError::Value {
            asked,
            computed: value,
        });
    }
    set(pod, "spec.priority", value);
    let asked = text(pod, "spec.preemptionPolicy");
    if !asked.is_empty() && asked != policy {
        return Err(PriorityError::Policy {
            asked: asked.to_owned(),
            computed: policy,
        });
    }
    set(pod, "spec.preemptionPolicy", policy);
    Ok(())
}

/// A claim in use must not vanish: a controller removes the finalizer.
pub(crate) fn claim_protection(claim: &mut Value) {
    add_finalizer(claim, PVC_PROTECTION);
}

pub(crate) fn volume_protection(volume: &mut Value) {
    add_finalizer(volume, PV_PROTECTION);
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    if items(object, "metadata.finalizers")
        .iter()
        .any(|f| f == finalizer)
    {
        return;
    }
    default(object, "metadata.finalizers", json!([]));
    if let Some(list) = at(object, "metadata.finalizers").and_then(Value::as_array_mut) {
        list.push(finalizer.into());
    }
}

/// The StorageClass of a claim or a volume; the old annotation precedes the field.
pub(crate) fn storage_class(object: &Value) -> &str {
    annotation(object, "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| text(object, "spec.storageClassName"))
}

/// Refuses a larger request than the stored one, unless the claim's class allows it.
pub(crate) fn claim_size<'a>(
    claim: &Value,
    stored: &Value,
    mut classes: impl Iterator<Item = &'a Value>,
) -> Result<(), &'static str> {
    let size = |claim| text(claim, "spec.resources.requests.storage");
    if quantity::compare(size(claim), size(stored)) != Some(Ordering::Greater) {
        return Ok(());
    }
    if text(stored, "status.phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = storage_class(claim);
    let allows = |known: &Value| text(known, "metadata.name") == class && flag(known, "allowVolumeExpansion");
    if class == storage_class(stored) && classes.any(allows) {
        return Ok(());
    }
    Err(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

/// Gives a claim without a class the default one: the newest of `classes` marked so, then the first by
/// name.
pub(crate) fn default_storage_class<'a>(claim: &mut Value, classes: impl Iterator<Item = &'a Value>) {
    if has(claim, "spec.storageClassName")
        || annotation(claim, "volume.beta.kubernetes.io/storage-class").is_some()
    {
        return;
    }
    let marked = |class: &&Value| {
        [DEFAULT_CLASS, LEGACY_DEFAULT_CLASS]
            .iter()
            .any(|key| annotation(class, key) == Some("true"))
    };
    let key = |class: &Value| {
        (
            std::cmp::Reverse(text(class, "metadata.creationTimestamp").to_owned()),
            text(class, "metadata.name").to_owned(),
        )
    };
    if let Some(class) = classes.filter(marked).min_by_key(|class| key(class)) {
        set(claim, "spec.storageClassName", text(class, "metadata.name"));
    }
}

/// Gives an Ingress without a class the default one, if exactly one is newest.
pub(crate) fn default_ingress_class<'a>(ingress: &mut Value, classes: impl Iterator<Item = &'a Value>) {
    if has(ingress, "spec.ingressClassName") || annotation(ingress, "kubernetes.io/ingress.class").is_some() {
        return;
    }
    let marked =
        |class: &&Value| annotation(class, "ingressclass.kubernetes.io/is-default-class") == Some("true");
    let key = |class: &Value| {
        (
            std::cmp::Reverse(text(class, "metadata.creationTimestamp").to_owned()),
            text(class, "metadata.name").to_owned(),
        )
    };
    if let Some(class) = classes.filter(marked).min_by_key(|class| key(class)) {
        set(ingress, "spec.ingressClassName", text(class, "metadata.name"));
    }
}

pub(crate) fn deduplicate_owners(object: &mut Value) -> Option<String> {
    const PATH: &str = "metadata.ownerReferences";
    let mut seen: Vec<Value> = Vec::new();
    let mut twice: Vec<String> = Vec::new();
    for reference in items(object, PATH) {
        if seen.contains(reference) {
            let uid = text(reference, "uid").to_owned();
            if !twice.contains(&uid) {
                twice.push(uid);
            }
        } else {
            seen.push(reference.clone());
        }
    }
    if twice.is_empty() {
        return None;
    }
    set(object, PATH, seen);
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

pub(crate) fn node_taint(node: &mut Value) {
    let tainted = |taint: &Value| text(taint, "key") == NOT_READY && text(taint, "effect") == "NoSchedule";
    if items(node, "spec.taints").iter().any(tainted) {
        return;
    }
    default(node, "spec.taints", json!([]));
    if let Some(list) = at(node, "spec.taints").and_then(Value::as_array_mut) {
        list.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
