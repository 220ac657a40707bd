//! Every rule of this folder through one `check` each, and the recordings of a real server.

use super::service::{self, Claim};
use super::tree::{get, has, remove, set, text};
use super::{admission, bootstrap, deletion_grace, meta, selectable, strategy};
use crate::field::FieldError;
use crate::registry::Strategy;
use equate_manifest::schema::{decode, kubernetes, kubernetes_resources};
use serde_json::{Value, json};
use std::path::PathBuf;

struct Created {
    strategy: &'static Strategy,
    namespaced: bool,
    object: Value,
}

fn group_of(object: &Value) -> (String, String) {
    let api_version = text(object, "apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    (group.to_owned(), version.to_owned())
}

/// Decodes, defaults and prepares an object as a POST into namespace `n` would.
fn create(object: Value) -> Created {
    let (group, version) = group_of(&object);
    let kind = text(&object, "kind").to_owned();
    let resource = kubernetes_resources()
        .iter()
        .find(|r| r.group == group && r.version == version && r.kind == kind)
        .unwrap_or_else(|| panic!("{group}/{version} {kind} is not served"));
    let strategy = strategy(&group, &kind);
    let normal = |object| decode(kubernetes(), &resource.definition, object).unwrap().value;
    let mut object = normal(object);
    set(
        &mut object,
        "apiVersion",
        if group.is_empty() {
            version
        } else {
            format!("{group}/{version}")
        },
    );
    set(&mut object, "kind", kind.as_str());
    (strategy.default)(&mut object);
    if resource.namespaced && text(&object, "metadata.namespace").is_empty() {
        set(&mut object, "metadata.namespace", "n");
    }
    set(&mut object, "metadata.uid", "u-1");
    set(&mut object, "metadata.creationTimestamp", "2026-01-01T00:00:00Z");
    if strategy.has_status && !strategy.create_keeps_status {
        remove(&mut object, "status");
    }
    (strategy.prepare_create)(&mut object);
    if kind == "Service" {
        // what cannot be allocated is reported by `errors`
        let mut allocated = object.clone();
        if service::allocate(&mut allocated, None, |_| false).is_ok() {
            object = allocated;
        }
    }
    let again = normal(object.clone());
    assert_eq!(again, object, "{kind} leaves the strategy in normal form");
    let mut twice = object.clone();
    (strategy.default)(&mut twice);
    assert_eq!(twice, object, "defaults of {kind} are idempotent");
    Created {
        strategy,
        namespaced: resource.namespaced,
        object,
    }
}

fn print(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// What is wrong with a new object.
fn errors(created: &Created) -> Vec<FieldError> {
    let Created {
        strategy,
        namespaced,
        object,
    } = created;
    let mut out = meta::validate_object_meta(object, strategy.name, *namespaced);
    out.extend((strategy.validate)(object));
    out.extend((strategy.validate_create)(object));
    if text(object, "kind") == "Service"
        && let Err(refused) = service::allocate(&mut object.clone(), None, |_| false)
    {
        return refused;
    }
    out
}

/// The steps of a recorded scenario; none where the recordings are absent.
fn recorded(scenario: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-http.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no recordings at {}", path.display());
        return Vec::new();
    };
    let line = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["scenario"] == scenario)
        .unwrap();
    line["steps"].as_array().unwrap().clone()
}

/// What differs between servers: names given by the store, times, addresses.
fn comparable(object: &Value) -> Value {
    let mut out = object.clone();
    let uid = text(object, "metadata.uid").to_owned();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
        "namespace",
    ] {
        remove(&mut out, &format!("metadata.{field}"));
    }
    for field in ["clusterIP", "clusterIPs"] {
        if has(&out, &format!("spec.{field}"))
            && !get(&out, "spec.clusterIP")
                .as_str()
                .is_some_and(|ip| ip == "None")
        {
            set(&mut out, &format!("spec.{field}"), "given");
        }
    }
    super::tree::each(&mut out, "spec.ports", |port| {
        if has(port, "nodePort") {
            set(port, "nodePort", "given");
        }
    });
    if has(&out, "spec.renewTime") {
        set(&mut out, "spec.renewTime", "<ts>");
    }
    if uid.is_empty() {
        return out;
    }
    serde_json::from_str(&out.to_string().replace(&uid, "<uid>")).unwrap()
}

#[test]
fn recorded_objects_get_the_defaults_of_the_real_server() {
    for step in recorded("defaulting") {
        let mut body = step["body"].clone();
        set(&mut body, "metadata.namespace", "g-defaulting");
        let mut created = create(body);
        match text(&created.object, "kind") {
            "Pod" => {
                admission::default_tolerations(&mut created.object);
                admission::priority(&mut created.object, |_| None, None).unwrap();
            }
            "PersistentVolumeClaim" => admission::claim_protection(&mut created.object),
            _ => {}
        }
        assert_eq!(print(&errors(&created)), Vec::<String>::new(), "{}", step["desc"]);
        let (ours, theirs) = (comparable(&created.object), comparable(&step["response"]["body"]));
        assert_eq!(
            serde_json::to_string_pretty(&ours).unwrap(),
            serde_json::to_string_pretty(&theirs).unwrap(),
            "{}",
            step["desc"]
        );
    }
}

#[test]
fn recorded_mistakes_get_the_errors_of_the_real_server() {
    for step in recorded("validation") {
        let response = &step["response"];
        if response["status"] != 422 {
            continue; // refused by the decoder
        }
        let ours: Vec<Value> = errors(&create(step["body"].clone()))
            .iter()
            .map(|e| json!({"reason": e.kind.reason(), "message": e.body(), "field": e.field}))
            .collect();
        assert_eq!(
            Value::Array(ours),
            response["body"]["details"]["causes"],
            "{}",
            step["desc"]
        );
    }
}
