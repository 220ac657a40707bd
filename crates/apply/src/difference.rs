//! The fields in which two states of one object differ.

use crate::desired::Desired;
use crate::{owned, pointer};
use equate_manifest::object::Object;
use serde_json::Value;
use std::fmt;

/// One differing field. A secret value is [`Shown::Masked`].
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The path: `.spec.template.spec.containers[0].image`, `.metadata.labels["a.b/c"]`.
    pub path: String,
    /// The old value, if any.
    pub before: Option<Shown>,
    /// The new value, if any.
    pub after: Option<Shown>,
}

/// A value for display.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// A plain value.
    Value(Value),
    /// A secret value.
    Masked,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Masked => f.write_str("***"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {}: {before} -> {after}", self.path),
            (Some(before), None) => write!(f, "- {}: {before}", self.path),
            (None, Some(after)) => write!(f, "+ {}: {after}", self.path),
            (None, None) => write!(f, "  {}", self.path),
        }
    }
}

/// Metadata that changes by itself.
const UNSTABLE: [&str; 5] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
];

/// The differing fields of two states of one object, sorted by path; without status and metadata of the
/// API server.
///
/// Lists are compared by position, items with a `name` by name. The values of a Secret's `data` are
/// masked.
pub fn differences(before: &Object, after: &Object) -> Vec<Difference> {
    let mut walk = Walk {
        secret: before.kind() == "Secret" || after.kind() == "Secret",
        found: Vec::new(),
    };
    let keys = |object: &Object| -> Vec<String> { object.0.keys().cloned().collect() };
    let mut all = keys(before);
    all.extend(keys(after));
    all.sort();
    all.dedup();
    for key in all.iter().filter(|key| *key != "status") {
        let path = step(key);
        walk.values(&path, key, before.0.get(key), after.0.get(key));
    }
    walk.found
}

/// The declared fields that a live object has lost to another writer, from their live to their declared
/// values. Fields whose drift is ignored are left out.
///
/// A writer that changes a value takes its ownership, so a field that the manager still owns has not
/// drifted, in whatever form the API server stores it.
pub fn drifted(live: &Object, desired: &Desired, manager: &str) -> Vec<Difference> {
    let declared = Object(pointer::without_in(
        &desired.object.0,
        &pointer::left(&desired.ignored),
    ));
    let Some(kept) = Object::from_value(owned::owned_fields(live, manager)) else {
        return Vec::new();
    };
    let kept = Object(
        [
            ("kind", declared.0.get("kind")),
            ("apiVersion", declared.0.get("apiVersion")),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.clone())))
        .chain(kept.0)
        .collect(),
    );
    let lost: Vec<String> = differences(&kept, &declared)
        .into_iter()
        .filter(|lost| lost.before.is_none())
        .map(|lost| lost.path)
        .collect();
    let is_lost = |path: &str| {
        lost.iter().any(|lost| {
            let rest = path.strip_prefix(lost.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let mut found = differences(live, &declared);
    found.retain(|one| one.after.is_some() && is_lost(&one.path));
    found
}

struct Walk {
    secret: bool,
    found: Vec<Difference>,
}

impl Walk {
    fn values(&mut self, path: &str, root: &str, before: Option<&Value>, after: Option<&Value>) {
        let present = |value: Option<&'_ Value>| value.is_some_and(|value| !value.is_null());
        match (before, after) {
            (Some(Value::Object(b)), Some(Value::Object(a))) => {
                let mut keys: Vec<_> = b.keys().chain(a.keys()).collect();
                keys.sort();
                keys.dedup();
                for key in keys {
                    if path == ".metadata" && UNSTABLE.contains(&key.as_str()) {
                        continue;
                    }
                    let inner = format!("{path}{}", step(key));
                    self.values(&inner, root, b.get(key), a.get(key));
                }
            }
            (Some(Value::Array(b)), Some(Value::Array(a))) => self.lists(path, root, b, a),
            (b, a) if b == a || (!present(b) && !present(a)) => {}
            (b, a) => {
                // kubectl stores a copy of the whole object in an annotation
                let masked = self.secret && matches!(root, "data" | "stringData")
                    || path.contains("last-applied-configuration");
                let show = |value: Option<&Value>| {
                    let value = value.filter(|value| !value.is_null())?;
                    Some(if masked {
                        Shown::Masked
                    } else {
                        Shown::Value(value.clone())
                    })
                };
                self.found.push(Difference {
                    path: path.to_owned(),
                    before: show(b),
                    after: show(a),
                });
            }
        }
    }

    fn lists(&mut self, path: &str, root: &str, before: &[Value], after: &[Value]) {
        if let (Some(b), Some(a)) = (names(before), names(after)) {
            for (name, item) in b.iter() {
                let other = a.iter().find(|(n, _)| n == name).map(|(_, item)| *item);
                self.values(&format!("{path}[name={name}]"), root, Some(item), other);
            }
            for (name, item) in a.iter().filter(|(name, _)| !b.iter().any(|(n, _)| n == name)) {
                self.values(&format!("{path}[name={name}]"), root, None, Some(item));
            }
            return;
        }
        for at in 0..before.len().max(after.len()) {
            self.values(&format!("{path}[{at}]"), root, before.get(at), after.get(at));
        }
    }
}

fn names(items: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let mut named: Vec<(&str, &Value)> = Vec::with_capacity(items.len());
    for item in items {
        let name = item.get("name")?.as_str()?;
        if named.iter().any(|(n, _)| *n == name) {
            return None;
        }
        named.push((name, item));
    }
    Some(named)
}

fn step(key: &str) -> String {
    let plain = key
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain {
        format!(".{key}")
    } else {
        format!("[{key:?}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &str) {
        let object = |value| Object::from_value(value).unwrap();
        let found = differences(&object(before), &object(after));
        let shown: Vec<_> = found.iter().map(Difference::to_string).collect();
        assert_eq!(shown.join("\n"), expected);
    }

    #[test]
    fn fields_that_differ() {
        check(json!({ "a": 1 }), json!({ "a": 1 }), "");
        check(
            json!({ "a": 1, "b": null }),
            json!({ "a": 2, "c": "x" }),
            "~ .a: 1 -> 2\n+ .c: \"x\"",
        );
        check(
            json!({ "metadata": { "labels": { "a.b/c": "1" }, "resourceVersion": "1" }, "status": 1 }),
            json!({ "metadata": { "labels": {}, "resourceVersion": "2" }, "status": 2 }),
            "- .metadata.labels[\"a.b/c\"]: \"1\"",
        );
        check(
            json!({ "l": [{ "name": "a", "v": 1 }, { "name": "b" }], "p": [1, 2] }),
            json!({ "l": [{ "name": "c" }, { "name": "a", "v": 2 }], "p": [1] }),
            "~ .l[name=a].v: 1 -> 2\n- .l[name=b]: {\"name\":\"b\"}\n+ .l[name=c]: {\"name\":\"c\"}\n- .p[1]: 2",
        );
    }

    #[test]
    fn drifted_fields_are_those_that_another_writer_took() {
        static OWNER: crate::owner::OwnerKind = crate::owner::OwnerKind {
            kind: "Kustomization",
            field_manager: "kustomize-controller",
            name_label: "name",
            namespace_label: "namespace",
        };
        let declared = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "replicas": 2, "paused": true, "template": { "spec": { "containers": [
                { "name": "web", "image": "one", "resources": { "requests": { "cpu": "1000m" } } }] } } },
        });
        let live = |owned: Value| {
            let mut live = declared.clone();
            live["spec"]["replicas"] = 7.into();
            live["spec"]["template"]["spec"]["containers"][0]["image"] = "two".into();
            live["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
            live["metadata"]["labels"] = json!({ "name": "a", "namespace": "b" });
            live["metadata"]["managedFields"] = json!([{
                "manager": "kustomize-controller", "operation": "Apply", "fieldsV1": owned,
            }]);
            Object::from_value(live).unwrap()
        };
        let labels = json!({ "f:labels": { "f:name": {}, "f:namespace": {} } });
        let container = |image: bool| {
            let mut fields =
                json!({ ".": {}, "f:name": {}, "f:resources": { "f:requests": { "f:cpu": {} } } });
            if image {
                fields["f:image"] = json!({});
            }
            json!({ "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": fields } } })
        };
        let check = |owned: Value, expected: &str| {
            let owner = crate::owner::Owner::new(&OWNER, "b", "a");
            let object = Object::from_value(declared.clone()).unwrap();
            let desired = Desired::new(object, &owner, None);
            let found = drifted(&live(owned), &desired, "kustomize-controller");
            let shown: Vec<_> = found.iter().map(Difference::to_string).collect();
            assert_eq!(shown.join("\n"), expected);
        };
        let all = json!({ "f:metadata": labels, "f:spec": {
            "f:replicas": {}, "f:paused": {}, "f:template": container(true) } });
        check(all, "");
        let scaled =
            json!({ "f:metadata": labels, "f:spec": { "f:paused": {}, "f:template": container(false) } });
        check(
            scaled,
            "~ .spec.replicas: 7 -> 2\n~ .spec.template.spec.containers[name=web].image: \"two\" -> \"one\"",
        );
    }

    #[test]
    fn secrets_stay_secret() {
        check(
            json!({ "kind": "Secret", "data": { "password": "b2xk" }, "type": "a" }),
            json!({ "kind": "Secret", "data": { "password": "bmV3", "more": "eA==" }, "type": "b" }),
            "+ .data.more: ***\n~ .data.password: *** -> ***\n~ .type: \"a\" -> \"b\"",
        );
    }
}
