//! The objects of a release: read from its manifests, marked, and compared. Pure.
//!
//! Client-side changes are Helm's three-way merges, as a patch that the API server merges: all declared
//! values, and a deletion of each value that only the old declaration has.

use equate_api::meta::{MADE_DEFINITION, merge_patch};
use equate_apply::cluster::PatchKind;
use equate_apply::id::ObjectId;
use equate_helm::hooks::RESOURCE_POLICY;
use equate_helm::manifests::split;
use equate_manifest::object::Object;
use equate_manifest::yaml::{self, Duplicates};
use serde_json::{Map, Value, json};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const HELM: &str = "Helm";
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const KEEP: &str = "keep";
const DEFINITION: &str = "CustomResourceDefinition";

/// An object of a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) id: ObjectId,
    pub(crate) object: Object,
}

impl Target {
    pub(crate) fn of(object: Object) -> Self {
        Self {
            id: ObjectId::of(&object),
            object,
        }
    }

    pub(crate) fn api_version(&self) -> &str {
        self.object.api_version()
    }

    /// The group and the kind that it defines, if it is a CustomResourceDefinition.
    pub(crate) fn defines(&self) -> Option<(&str, &str)> {
        let spec = self.object.0.get("spec")?;
        let kind = spec.get("names")?.get("kind")?.as_str()?;
        (&*self.id.kind == DEFINITION).then_some((spec.get("group")?.as_str()?, kind))
    }

    /// The entry of Flux's inventory, and the version.
    pub(crate) fn entry(&self) -> (String, String) {
        let version = self.api_version();
        let version = version.rsplit_once('/').map_or(version, |(_, version)| version);
        (self.id.to_inventory(), version.to_owned())
    }
}

/// The objects of a manifest, those of lists one by one.
pub(crate) fn read(manifest: &str) -> Result<Vec<Object>, String> {
    let options = yaml::Options {
        duplicates: Duplicates::Collect,
        ..yaml::Options::default()
    };
    let mut objects = Vec::new();
    for document in split(manifest) {
        let loaded = yaml::load(document, &options).map_err(|error| error.to_string())?;
        for document in loaded {
            flatten(document.value, &mut objects)?;
        }
    }
    Ok(objects)
}

fn flatten(value: Value, objects: &mut Vec<Object>) -> Result<(), String> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.ends_with("List")
        && let Some(Value::Array(items)) = value.get("items")
    {
        for item in items.clone() {
            flatten(item, objects)?;
        }
        return Ok(());
    }
    match value {
        // only comments
        Value::Null => Ok(()),
        value => {
            let object = Object::from_value(value).ok_or("a document is not an object")?;
            if object.kind().is_empty() || object.api_version().is_empty() {
                return Err("Object 'Kind' is missing in a document of the manifest".to_owned());
            }
            objects.push(object);
            Ok(())
        }
    }
}

/// One document per object, as a release's record has them.
pub(crate) fn document(object: &Object) -> String {
    yaml::to_string(&Value::Object(object.0.clone()))
}

fn metadata_map<'o>(object: &'o mut Object, key: &str) -> Option<&'o mut Map<String, Value>> {
    let metadata = object.0.entry("metadata").or_insert_with(|| json!({}));
    let map = metadata.as_object_mut()?.entry(key).or_insert_with(|| json!({}));
    if map.is_null() {
        *map = json!({});
    }
    map.as_object_mut()
}

/// Sets labels.
pub(crate) fn label<'l>(object: &mut Object, labels: impl IntoIterator<Item = (&'l str, &'l str)>) {
    if let Some(map) = metadata_map(object, "labels") {
        map.extend(
            labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value))),
        );
    }
}

/// Sets annotations.
pub(crate) fn annotate<'l>(object: &mut Object, annotations: impl IntoIterator<Item = (&'l str, &'l str)>) {
    if let Some(map) = metadata_map(object, "annotations") {
        map.extend(
            annotations
                .into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value))),
        );
    }
}

/// Marks an object as of a release, as Helm does when it applies.
pub(crate) fn mark(object: &mut Object, release: &str, namespace: &str) {
    label(object, [(MANAGED_BY, HELM)]);
    annotate(object, [(RELEASE_NAME, release), (RELEASE_NAMESPACE, namespace)]);
}

fn text<'o>(object: &'o Object, map: &str, key: &str) -> Option<&'o str> {
    object.metadata()?.get(map)?.get(key)?.as_str()
}

/// Whether it is a definition that `equate up` made for a kind without one.
pub(crate) fn is_made(live: &Object) -> bool {
    live.kind() == DEFINITION && text(live, "annotations", MADE_DEFINITION).is_some()
}

/// Why a live object is not of this release; Helm's text.
pub(crate) fn foreign(live: &Object, release: &str, namespace: &str) -> Option<String> {
    let check = |what: &str, map: &str, key: &str, wanted: &str| {
        let why = match text(live, map, key) {
            Some(found) if found == wanted => return None,
            Some(found) => format!("key {key:?} must equal {wanted:?}: current value is {found:?}"),
            None => format!("missing key {key:?}: must be set to {wanted:?}"),
        };
        Some(format!("{what} validation error: {why}"))
    };
    let found: Vec<String> = [
        check("label", "labels", MANAGED_BY, HELM),
        check("annotation", "annotations", RELEASE_NAME, release),
        check("annotation", "annotations", RELEASE_NAMESPACE, namespace),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!found.is_empty()).then(|| format!("invalid ownership metadata; {}", found.join("; ")))
}

/// Whether Helm never deletes it.
pub(crate) fn is_kept(object: &Object) -> bool {
    text(object, "annotations", RESOURCE_POLICY)
        .is_some_and(|policy| policy.trim().eq_ignore_ascii_case(KEEP))
}

/// `Deployment "web" in namespace "shop"`, as Helm names it.
pub(crate) fn described(id: &ObjectId) -> String {
    format!("{} {:?} in namespace {:?}", id.kind, &*id.name, &*id.namespace)
}

/// `Deployment/shop/web`, as upstream's events name it.
pub(crate) fn named(id: &ObjectId) -> String {
    id.to_string()
}

/// The client-side change from an old to a new declaration. Custom resources get the difference, other
/// kinds the whole new declaration with the deletions.
pub(crate) fn change(old: &Object, new: &Object, is_custom: bool) -> Option<(PatchKind, Value)> {
    if is_custom {
        let (old, new) = (Value::Object(old.0.clone()), Value::Object(new.0.clone()));
        return Some((PatchKind::Merge, merge_patch(&old, &new).ok()??));
    }
    let mut patch = Value::Object(new.0.clone());
    delete_missing(
        &Value::Object(old.0.clone()),
        &Value::Object(new.0.clone()),
        &mut patch,
        "",
    );
    Some((PatchKind::Strategic, patch))
}

/// The merge keys of lists by the names of their fields (`patchMergeKey` in k8s.io/api).
const MERGE_KEYS: [(&str, &str); 18] = [
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("managedFields", "manager"),
    ("ownerReferences", "uid"),
    ("resourceClaims", "name"),
    ("schedulingGates", "name"),
    ("secrets", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("webhooks", "name"),
    ("validations", "expression"),
];

fn merge_key(field: &str, items: &[Value]) -> Option<&'static str> {
    if field == "ports" {
        let container = items.iter().any(|item| item.get("containerPort").is_some());
        return Some(if container { "containerPort" } else { "port" });
    }
    let known = MERGE_KEYS.iter().find(|(known, _)| *known == field);
    known.map(|(_, key)| *key)
}

fn delete_missing(old: &Value, new: &Value, patch: &mut Value, field: &str) {
    match (old, new, patch) {
        (Value::Object(old), Value::Object(new), Value::Object(patch)) => {
            for (key, was) in old {
                match (new.get(key), patch.get_mut(key)) {
                    (Some(is), Some(patch)) => delete_missing(was, is, patch, key),
                    _ => {
                        patch.insert(key.clone(), Value::Null);
                    }
                }
            }
        }
        (Value::Array(old), Value::Array(new), Value::Array(patch)) => {
            let Some(merge_key) = merge_key(field, old) else {
                return;
            };
            let find = |items: &[Value], of: &Value| {
                let wanted = of.get(merge_key);
                wanted.and_then(|_| items.iter().position(|item| item.get(merge_key) == wanted))
            };
            for was in old {
                match find(new, was) {
                    Some(at) => {
                        if let (Some(is), Some(patch)) = (new.get(at), patch.get_mut(at)) {
                            delete_missing(was, is, patch, "");
                        }
                    }
                    None => {
                        if let Some(value) = was.get(merge_key) {
                            patch.push(json!({ "$patch": "delete", merge_key: value }));
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

/// The patch that makes client-side fields of a manager server-side ones, so that a later apply removes
/// what is no longer declared. `None` if there is nothing to do.
pub(crate) fn upgraded_manager(live: &Object, manager: &str) -> Option<Value> {
    let entries = live.metadata()?.get("managedFields")?.as_array()?;
    let is = |entry: &Value, operation: &str| {
        entry.get("manager").and_then(Value::as_str) == Some(manager)
            && entry.get("operation").and_then(Value::as_str) == Some(operation)
            && entry
                .get("subresource")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
    };
    let at = entries.iter().position(|entry| is(entry, "Update"))?;
    if entries.iter().any(|entry| is(entry, "Apply")) {
        return None;
    }
    Some(json!([
        { "op": "test", "path": format!("/metadata/managedFields/{at}/manager"), "value": manager },
        { "op": "replace", "path": format!("/metadata/managedFields/{at}/operation"), "value": "Apply" },
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": live.metadata()?.get("resourceVersion")?,
        },
    ]))
}

/// The operations of a JSON patch from one object to another, without fields of the API server.
pub(crate) fn operations(from: &Object, to: &Object) -> Vec<Value> {
    let mut found = Vec::new();
    let (from, to) = (comparable(from), comparable(to));
    differ("", &from, &to, &mut found);
    found
}

const UNSTABLE: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

fn comparable(object: &Object) -> Value {
    let mut map = object.0.clone();
    map.remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.retain(|key, _| !UNSTABLE.contains(&key.as_str()));
    }
    Value::Object(map)
}

fn differ(path: &str, from: &Value, to: &Value, found: &mut Vec<Value>) {
    if from == to {
        return;
    }
    let below = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                found.push(json!({ "op": "remove", "path": below(key) }));
            }
            for (key, value) in to {
                match from.get(key) {
                    Some(was) => differ(&below(key), was, value, found),
                    None => found.push(json!({ "op": "add", "path": below(key), "value": value })),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            let common = from.len().min(to.len());
            for (at, (was, is)) in from.iter().zip(to).enumerate() {
                differ(&format!("{path}/{at}"), was, is, found);
            }
            for value in &to[common..] {
                found.push(json!({ "op": "add", "path": format!("{path}/-"), "value": value }));
            }
            for at in (common..from.len()).rev() {
                found.push(json!({ "op": "remove", "path": format!("{path}/{at}") }));
            }
        }
        _ => found.push(json!({ "op": "replace", "path": path, "value": to })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn manifests_have_objects() {
        let read = |text: &str| {
            read(text).map(|objects| {
                let named: Vec<String> = objects
                    .iter()
                    .map(|object| ObjectId::of(object).to_string())
                    .collect();
                named.join(" ")
            })
        };
        let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        assert_eq!(
            read(&format!("---\n# Source: a\n{}---\n{}", map("a"), map("b"))).unwrap(),
            "ConfigMap/a ConfigMap/b"
        );
        assert_eq!(read("# nothing\n").unwrap(), "");
        let list =
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n";
        assert_eq!(read(list).unwrap(), "Secret/s");
        assert!(read("a: 1\n").unwrap_err().contains("Kind"));
    }

    #[test]
    fn marks_are_those_of_helm() {
        let mut one = object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "labels": { "app.kubernetes.io/managed-by": "x" } },
        }));
        assert_eq!(
            foreign(&one, "app", "team").unwrap(),
            "invalid ownership metadata; label validation error: key \"app.kubernetes.io/managed-by\" must equal \
             \"Helm\": current value is \"x\"; annotation validation error: missing key \"meta.helm.sh/release-name\": \
             must be set to \"app\"; annotation validation error: missing key \"meta.helm.sh/release-namespace\": must \
             be set to \"team\""
        );
        mark(&mut one, "app", "team");
        assert_eq!(foreign(&one, "app", "team"), None);
        assert!(foreign(&one, "other", "team").is_some());
        assert!(!is_kept(&one));
        annotate(&mut one, [("helm.sh/resource-policy", "keep")]);
        assert!(is_kept(&one));
    }

    #[test]
    fn client_side_changes_delete_what_is_no_longer_declared() {
        let deployment = |containers: Value, labels: Value| {
            object(json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a", "labels": labels },
                "spec": { "template": { "spec": { "containers": containers } } },
            }))
        };
        let old = deployment(
            json!([{ "name": "a", "image": "a:1", "command": ["x"] }, { "name": "b", "image": "b:1" }]),
            json!({ "one": "1", "two": "2" }),
        );
        let new = deployment(json!([{ "name": "a", "image": "a:2" }]), json!({ "one": "1" }));
        let (kind, patch) = change(&old, &new, false).unwrap();
        assert_eq!(kind, PatchKind::Strategic);
        assert_eq!(
            patch["spec"]["template"]["spec"]["containers"],
            json!([
                { "name": "a", "image": "a:2", "command": null },
                { "$patch": "delete", "name": "b" },
            ])
        );
        assert_eq!(patch["metadata"]["labels"], json!({ "one": "1", "two": null }));
        let custom = |spec: Value| {
            object(json!({ "apiVersion": "x.io/v1", "kind": "X", "metadata": { "name": "a" }, "spec": spec }))
        };
        let (old, new) = (custom(json!({ "a": 1, "b": 2 })), custom(json!({ "b": 3 })));
        let changed = change(&old, &new, true).unwrap();
        assert_eq!(
            changed,
            (PatchKind::Merge, json!({ "spec": { "a": null, "b": 3 } }))
        );
        assert_eq!(change(&new, &new, true), None);
    }

    #[test]
    fn differences_are_operations() {
        let check = |from: Value, to: Value, expected: Value| {
            let of = |spec: Value| {
                object(json!({ "kind": "X", "metadata": { "uid": spec.to_string() }, "spec": spec }))
            };
            assert_eq!(Value::Array(operations(&of(from), &of(to))), expected);
        };
        check(json!({ "a": 1 }), json!({ "a": 1 }), json!([]));
        check(
            json!({ "a": 1, "b": [1, 2, 3] }),
            json!({ "b": [1, 4], "c/d": {} }),
            json!([
                { "op": "remove", "path": "/spec/a" },
                { "op": "replace", "path": "/spec/b/1", "value": 4 },
                { "op": "remove", "path": "/spec/b/2" },
                { "op": "add", "path": "/spec/c~1d", "value": {} },
            ]),
        );
    }

    #[test]
    fn client_side_fields_become_server_side_ones() {
        let live = |entries: Value| {
            object(json!({ "kind": "X", "metadata": { "resourceVersion": "7", "managedFields": entries } }))
        };
        let entry = |operation: &str| json!({ "manager": "helm-controller", "operation": operation });
        let patch = upgraded_manager(&live(json!([entry("Update")])), "helm-controller").unwrap();
        assert_eq!(patch[1]["value"], "Apply");
        for entries in [
            json!([entry("Apply")]),
            json!([entry("Update"), entry("Apply")]),
            json!([{ "manager": "other", "operation": "Update" }]),
        ] {
            assert_eq!(upgraded_manager(&live(entries), "helm-controller"), None);
        }
    }
}
