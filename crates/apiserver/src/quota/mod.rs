//! ResourceQuota and LimitRange: usage, admission, defaults.
//!
//! Pure functions over objects. The pipeline commits a charged quota together with the object; the
//! controller `quotas` measures again after deletions. Behaviour: `k8s.io/kubernetes/pkg/quota/v1` and the
//! plugins `ResourceQuota` and `LimitRanger` of 1.36.

mod charge;
mod limits;
mod pod;
#[cfg(test)]
mod tests;

pub(crate) use charge::{Charge, charge};
pub(crate) use limits::{apply_defaults, check_limits};

use crate::builtin::tree::{annotation, get, has, items, text};
use crate::store::{ResourceId, Snapshot};
use equate_manifest::schema::quantity::{Format, Quantity};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Quantities by resource name.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const CLAIM_RESOURCES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const SERVICE_RESOURCES: [&str; 3] = ["services", "services.loadbalancers", "services.nodeports"];
/// Counted under their plural too, from before `count/`.
const COUNTED_BY_PLURAL: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// How a resource uses a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Pods,
    Services,
    Claims,
    Count,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    resource: ResourceId,
    measure: Measure,
}

impl Measured {
    pub(crate) fn new(resource: ResourceId) -> Self {
        let measure = match (resource.group(), resource.plural()) {
            ("", "pods") => Measure::Pods,
            ("", "services") => Measure::Services,
            ("", "persistentvolumeclaims") => Measure::Claims,
            _ => Measure::Count,
        };
        Self { resource, measure }
    }

    fn count_name(&self) -> String {
        match self.resource.group() {
            "" => format!("count/{}", self.resource.plural()),
            group => format!("count/{}.{group}", self.resource.plural()),
        }
    }

    /// Whether a name of `spec.hard` limits this resource.
    fn tracks(&self, name: &str) -> bool {
        if name == self.count_name() {
            return true;
        }
        match self.measure {
            Measure::Pods => pod::tracks(name),
            Measure::Services => SERVICE_RESOURCES.contains(&name),
            Measure::Claims => {
                let by_class = |suffix| name.ends_with(&format!("{BY_STORAGE_CLASS}{suffix}"));
                CLAIM_RESOURCES.contains(&name) || CLAIM_RESOURCES.iter().any(by_class)
            }
            Measure::Count => {
                self.resource.group().is_empty()
                    && self.resource.plural() == name
                    && COUNTED_BY_PLURAL.contains(&name)
            }
        }
    }

    fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut used = Amounts::from([(self.count_name(), units(1))]);
        match self.measure {
            Measure::Pods => used.extend(pod::usage(object, now)),
            Measure::Services => used.extend(service_usage(object)),
            Measure::Claims => used.extend(claim_usage(object)),
            Measure::Count => {
                if COUNTED_BY_PLURAL.iter().any(|name| self.tracks(name)) {
                    used.insert(self.resource.plural().to_owned(), units(1));
                }
            }
        }
        used
    }

    fn in_scope(&self, quota: &Value, object: &Value) -> bool {
        scopes(quota).iter().all(|scope| match self.measure {
            Measure::Pods => pod::in_scope(scope, object),
            Measure::Claims => claim_in_scope(scope, object),
            Measure::Services | Measure::Count => false,
        })
    }
}

/// A requirement of a quota's scopes.
struct Scope<'a> {
    name: &'a str,
    operator: &'a str,
    values: &'a [Value],
}

impl Scope<'_> {
    /// Whether a value, empty if there is none, meets the requirement.
    fn admits(&self, value: &str) -> bool {
        let listed = self.values.iter().any(|one| one == value);
        match self.operator {
            "Exists" => !value.is_empty(),
            "DoesNotExist" => value.is_empty(),
            "In" => !value.is_empty() && listed,
            "NotIn" => value.is_empty() || !listed,
            _ => false,
        }
    }
}

fn scopes(quota: &Value) -> Vec<Scope<'_>> {
    let plain = items(quota, "spec.scopes").iter().map(|name| Scope {
        name: name.as_str().unwrap_or_default(),
        operator: "Exists",
        values: &[],
    });
    let selected = items(quota, "spec.scopeSelector.matchExpressions").iter();
    plain
        .chain(selected.map(|one| Scope {
            name: text(one, "scopeName"),
            operator: text(one, "operator"),
            values: items(one, "values"),
        }))
        .collect()
}

/// The status that a quota should have: its limits, and the use of its namespace.
pub(crate) fn measured_status(quota: &Value, namespace: &str, snapshot: &Snapshot, now: Timestamp) -> Value {
    let hard = amounts(get(quota, "spec.hard"));
    let mut used: Amounts = Amounts::new();
    for measured in resources_of(&hard) {
        let names: Vec<&String> = hard.keys().filter(|name| measured.tracks(name)).collect();
        let mut sum: Amounts = names.iter().map(|name| ((*name).clone(), units(0))).collect();
        for (_, entry) in snapshot.list(&measured.resource, Some(namespace)) {
            if measured.in_scope(quota, entry.object()) {
                let mut one = measured.usage(entry.object(), now);
                one.retain(|name, _| names.contains(&name));
                add(&mut sum, &one);
            }
        }
        used.extend(sum);
    }
    let mut status = Map::new();
    status.insert("hard".to_owned(), get(quota, "spec.hard").clone());
    status.insert("used".to_owned(), to_value(&used));
    Value::Object(status)
}

/// The resources that names of `spec.hard` limit.
fn resources_of(hard: &Amounts) -> Vec<Measured> {
    let mut found: BTreeSet<(String, String)> = ["pods", "services", "persistentvolumeclaims"]
        .iter()
        .chain(&COUNTED_BY_PLURAL)
        .map(|plural| (String::new(), (*plural).to_owned()))
        .collect();
    for name in hard.keys() {
        if let Some(counted) = name.strip_prefix("count/") {
            let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
            found.insert((group.to_owned(), plural.to_owned()));
        }
    }
    found
        .into_iter()
        .map(|(group, plural)| Measured::new(ResourceId::new(group, plural)))
        .filter(|measured| hard.keys().any(|name| measured.tracks(name)))
        .collect()
}

fn service_usage(service: &Value) -> Amounts {
    let ports = items(service, "spec.ports");
    let (balancers, node_ports) = match text(service, "spec.type") {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if get(service, "spec.allocateLoadBalancerNodePorts") == &Value::Bool(false) => {
            (1, ports.iter().filter(|port| has(port, "nodePort")).count())
        }
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    Amounts::from([
        ("services".to_owned(), units(1)),
        ("services.loadbalancers".to_owned(), units(balancers)),
        ("services.nodeports".to_owned(), units(node_ports)),
    ])
}

fn claim_usage(claim: &Value) -> Amounts {
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), units(1))]);
    let requested = [
        "spec.resources.requests.storage",
        "status.allocatedResources.storage",
    ]
    .iter()
    .filter_map(|path| Quantity::parse(text(claim, path)).ok())
    .max();
    if let Some(requested) = requested.filter(|_| has(claim, "spec.resources.requests.storage")) {
        let whole = i64::try_from(requested.value()).unwrap_or(i64::MAX);
        let storage = Quantity::from_units(whole, requested.format());
        used.insert("requests.storage".to_owned(), storage);
    }
    let class = annotation(claim, STORAGE_CLASS).unwrap_or_else(|| text(claim, "spec.storageClassName"));
    if !class.is_empty() {
        for name in CLAIM_RESOURCES {
            if let Some(amount) = used.get(name).cloned() {
                used.insert(format!("{class}{BY_STORAGE_CLASS}{name}"), amount);
            }
        }
    }
    used
}

fn claim_in_scope(scope: &Scope<'_>, claim: &Value) -> bool {
    scope.name == "VolumeAttributesClass"
        && [
            "spec.volumeAttributesClassName",
            "status.currentVolumeAttributesClassName",
            "status.modifyVolumeStatus.targetVolumeAttributesClassName",
        ]
        .iter()
        .any(|path| scope.admits(text(claim, path)))
}

fn units(count: impl TryInto<i64>) -> Quantity {
    Quantity::from_units(count.try_into().unwrap_or(i64::MAX), Format::DecimalSi)
}

fn amounts(list: &Value) -> Amounts {
    list.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?)))
        .collect()
}

fn to_value(amounts: &Amounts) -> Value {
    let texts = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())));
    Value::Object(texts.collect())
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => *sum = sum.plus(amount),
            None => drop(to.insert(name.clone(), amount.clone())),
        }
    }
}
