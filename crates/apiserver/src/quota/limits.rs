//! LimitRange: defaults of a new pod's containers, then the checks.

use super::{Amounts, amounts, pod};
use crate::builtin::tree::{default, each, get, items, set, text};
use equate_manifest::schema::quantity::Quantity;
use serde_json::{Value, json};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The largest amount with an exact number of thousandths.
const MILLI_MAX: i128 = (i64::MAX / 1000) as i128;

/// Completes a pod's containers and records each addition in an annotation.
pub(crate) fn apply_defaults(range: &Value, pod: &mut Value) {
    let mut added = Vec::new();
    for (list, title) in [("containers", "container"), ("initContainers", "init container")] {
        each(pod, &format!("spec.{list}"), |container| {
            for (field, source, word) in [
                ("requests", "defaultRequest", "request"),
                ("limits", "default", "limit"),
            ] {
                let names = fill(range, container, field, source);
                if !names.is_empty() {
                    let name = text(container, "name");
                    added.push(format!("{} {word} for {title} {name}", names.join(", ")));
                }
            }
        });
    }
    if !added.is_empty() {
        default(pod, "metadata.annotations", json!({}));
        let text = format!("LimitRanger plugin set: {}", added.join("; "));
        pod["metadata"]["annotations"][ANNOTATION] = json!(text);
    }
}

fn fill(range: &Value, container: &mut Value, field: &str, source: &str) -> Vec<String> {
    let path = format!("resources.{field}");
    let mut names = Vec::new();
    let limits = items(range, "spec.limits").iter();
    for limit in limits.filter(|limit| text(limit, "type") == "Container") {
        for (name, amount) in get(limit, source).as_object().into_iter().flatten() {
            if get(container, &path).get(name).is_some() {
                continue;
            }
            if get(container, &path).is_null() {
                set(container, &path, json!({}));
            }
            container["resources"][field][name.as_str()] = amount.clone();
            names.push(name.clone());
        }
    }
    names.sort_unstable();
    names
}

/// The end of the message `pods "p" is forbidden: `, of a pod or a claim outside a range.
pub(crate) fn check_limits(range: &Value, plural: &str, object: &Value) -> Result<(), String> {
    let mut errors = Vec::new();
    for limit in items(range, "spec.limits") {
        match (text(limit, "type"), plural) {
            ("Container", "pods") => {
                for list in ["spec.containers", "spec.initContainers"] {
                    for container in items(object, list) {
                        let requests = amounts(get(container, "resources.requests"));
                        let limits = amounts(get(container, "resources.limits"));
                        check(limit, &requests, &limits, &mut errors);
                    }
                }
            }
            ("Pod", "pods") => {
                let requests = pod::without_overhead(object, "requests");
                let limits = pod::without_overhead(object, "limits");
                check(limit, &requests, &limits, &mut errors);
            }
            ("PersistentVolumeClaim", "persistentvolumeclaims") => {
                let requests = amounts(get(object, "spec.resources.requests"));
                let no_limits = Amounts::new();
                for (name, min) in amounts(get(limit, "min")) {
                    let usage = Usage::new(limit, &name, &min, &requests, &no_limits);
                    errors.extend(usage.below_min());
                }
                for (name, max) in amounts(get(limit, "max")) {
                    let usage = Usage::new(limit, &name, &max, &requests, &no_limits);
                    errors.extend(usage.request_above_max());
                }
            }
            _ => {}
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        _ => {
            errors.dedup();
            Err(format!("[{}]", errors.join(", ")))
        }
    }
}

fn check(limit: &Value, requests: &Amounts, limits: &Amounts, errors: &mut Vec<String>) {
    for (name, min) in amounts(get(limit, "min")) {
        errors.extend(Usage::new(limit, &name, &min, requests, limits).below_min());
    }
    for (name, max) in amounts(get(limit, "max")) {
        errors.extend(Usage::new(limit, &name, &max, requests, limits).above_max());
    }
    for (name, ratio) in amounts(get(limit, "maxLimitRequestRatio")) {
        errors.extend(Usage::new(limit, &name, &ratio, requests, limits).above_ratio());
    }
}

struct Usage<'a> {
    kind: &'a str,
    name: &'a str,
    bound: &'a Quantity,
    request: Option<&'a Quantity>,
    limit: Option<&'a Quantity>,
}

impl<'a> Usage<'a> {
    fn new(
        limit: &'a Value,
        name: &'a str,
        bound: &'a Quantity,
        requests: &'a Amounts,
        limits: &'a Amounts,
    ) -> Self {
        Self {
            kind: text(limit, "type"),
            name,
            bound,
            request: requests.get(name),
            limit: limits.get(name),
        }
    }

    /// Thousandths if all amounts have them, else units.
    fn comparable(&self, amount: &Quantity) -> i128 {
        let all = [Some(self.bound), self.request, self.limit];
        if all.into_iter().flatten().all(|one| one.value() <= MILLI_MAX) {
            amount.millis()
        } else {
            amount.value()
        }
    }

    fn below(&self, amount: &Quantity) -> bool {
        self.comparable(amount) < self.comparable(self.bound)
    }

    fn above(&self, amount: &Quantity) -> bool {
        self.comparable(amount) > self.comparable(self.bound)
    }

    fn start(&self, word: &str) -> String {
        format!("{word} {} usage per {} is {}", self.name, self.kind, self.bound)
    }

    fn below_min(&self) -> Option<String> {
        let start = self.start("minimum");
        match (self.request, self.limit) {
            (None, _) => Some(format!("{start}.  No request is specified")),
            (Some(request), _) if self.below(request) => Some(format!("{start}, but request is {request}")),
            (_, Some(limit)) if self.below(limit) => Some(format!("{start}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above_max(&self) -> Option<String> {
        let start = self.start("maximum");
        match (self.limit, self.request) {
            (None, _) => Some(format!("{start}.  No limit is specified")),
            (Some(limit), _) if self.above(limit) => Some(format!("{start}, but limit is {limit}")),
            (_, Some(request)) if self.above(request) => Some(format!("{start}, but request is {request}")),
            _ => None,
        }
    }

    fn request_above_max(&self) -> Option<String> {
        let start = self.start("maximum");
        match self.request {
            None => Some(format!("{start}.  No request is specified")),
            Some(request) if self.above(request) => Some(format!("{start}, but request is {request}")),
            Some(_) => None,
        }
    }

    fn above_ratio(&self) -> Option<String> {
        let start = format!(
            "{} max limit to request ratio per {} is {}",
            self.name, self.kind, self.bound
        );
        let positive = |amount: Option<&'a Quantity>| amount.filter(|one| self.comparable(one) != 0);
        let Some(request) = positive(self.request) else {
            return Some(format!("{start}, but no request is specified or request is 0"));
        };
        let Some(limit) = positive(self.limit) else {
            return Some(format!("{start}, but no limit is specified or limit is 0"));
        };
        let ratio = self.comparable(limit) as f64 / self.comparable(request) as f64;
        let allowed = self.bound.millis() as f64 / 1000.0;
        (ratio > allowed).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
    }
}
