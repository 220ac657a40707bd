//! The rules of this folder, each through one `check`, and the recordings of a real server.

use super::service::{self, Claim};
use super::tree::{entries, get, has, remove, set, text};
use super::{admission, bootstrap, deletion_grace, meta, selectable, strategy};
use crate::field::FieldError;
use crate::registry::{Generation, Strategy};
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
        let mut allocated = object.clone();
        if service::allocate(&mut allocated, None, true, |_| false).is_ok() {
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
        && let Err(refused) = service::allocate(&mut object.clone(), None, true, |_| false)
    {
        return refused;
    }
    out
}

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

/// Removes names given by the store, times and addresses, which differ between servers.
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
        if has(&out, &format!("spec.{field}")) && get(&out, "spec.clusterIP").as_str() != Some("None") {
            set(&mut out, &format!("spec.{field}"), "given");
        }
    }
    super::tree::each(&mut out, "spec.ports", |port| {
        if has(port, "nodePort") {
            set(port, "nodePort", "given");
        }
    });
    for time in ["spec.renewTime", "status.lastPhaseTransitionTime"] {
        if has(&out, time) {
            set(&mut out, time, "<ts>");
        }
    }
    super::tree::each(&mut out, "status.conditions", |condition| {
        set(condition, "lastTransitionTime", "<ts>");
    });
    if has(&out, "spec.healthCheckNodePort") {
        set(&mut out, "spec.healthCheckNodePort", "given");
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

/// Answers of a real kube-apiserver 1.36.3 to creates and updates with `dryRun=All` in the namespace
/// `eq-builtin`, ServiceAccount admission off; a line is a request and its response.
const BASELINE: &str = include_str!("baseline.jsonl");

/// Causes without order (Go walks maps in random order), without duplicates (upstream validates an update
/// twice), and without the diff of Go structs at the end of some texts.
fn as_set(causes: impl Iterator<Item = String>) -> Vec<String> {
    let mut out: Vec<String> = causes
        .map(|c| c.lines().next().unwrap_or_default().to_owned())
        .collect();
    out.sort();
    out.dedup();
    out
}

fn causes(errors: &[FieldError]) -> Vec<String> {
    as_set(
        errors
            .iter()
            .map(|e| format!("{} {}: {}", e.kind.reason(), e.field, e.body())),
    )
}

fn recorded_causes(response: &Value) -> Vec<String> {
    let cause = |c: &Value| {
        format!(
            "{} {}: {}",
            text(c, "reason"),
            text(c, "field"),
            text(c, "message")
        )
    };
    let uid = regex::Regex::new("[0-9a-f]{8}-[0-9a-f-]{27}").unwrap();
    as_set(
        response["causes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| uid.replace_all(&cause(c), "u-1").into_owned()),
    )
}

fn admit(object: &mut Value) {
    match text(object, "kind") {
        "Pod" => {
            admission::default_tolerations(object);
            let class = |name: &str| {
                bootstrap()
                    .into_iter()
                    .find(|o| text(o, "kind") == "PriorityClass" && text(o, "metadata.name") == name)
            };
            admission::priority(object, class, None).unwrap();
        }
        "PersistentVolumeClaim" => admission::claim_protection(object),
        "PersistentVolume" => admission::volume_protection(object),
        "Node" => admission::node_taint(object),
        _ => {}
    }
}

#[test]
fn creates_are_answered_as_the_real_server_answers() {
    let mut wrong = Vec::new();
    for line in BASELINE.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let response = &line["response"];
        if line.get("create").is_none() || !matches!(response["status"].as_u64(), Some(201 | 422)) {
            continue;
        }
        let mut body = line["create"].clone();
        let resource = kubernetes_resources()
            .iter()
            .find(|r| r.kind == text(&body, "kind"))
            .unwrap();
        if resource.namespaced {
            set(&mut body, "metadata.namespace", "eq-builtin");
        }
        let dedup = admission::deduplicate_owners(&mut body);
        let mut created = create(body);
        admit(&mut created.object);
        // upstream keeps the client's generation for kinds that have none of their own
        if response["status"] == 201 && !has(&line["create"], "metadata.generation") {
            assert_eq!(
                created.strategy.generation != Generation::None,
                has(&response["object"], "metadata.generation"),
                "generation of {}",
                text(&created.object, "kind")
            );
        }
        let (ours, theirs) = if response["status"] == 422 {
            (causes(&errors(&created)), recorded_causes(response))
        } else {
            let ours = causes(&errors(&created));
            if ours.is_empty() {
                let mut warnings: Vec<String> = dedup.into_iter().collect();
                warnings.extend((created.strategy.warnings)(&created.object));
                // the real server does not warn of this server's limitations
                warnings.retain(|w| !w.contains("this server"));
                let show = |object: &Value, warnings: Vec<String>| {
                    let mut out = warnings;
                    let text = serde_json::to_string_pretty(&comparable(object)).unwrap();
                    out.extend(text.lines().map(str::to_owned));
                    out
                };
                let recorded: Vec<String> = serde_json::from_value(response["warnings"].clone()).unwrap();
                (
                    show(&created.object, warnings),
                    show(&response["object"], recorded),
                )
            } else {
                (ours, vec!["created".to_owned()])
            }
        };
        if ours != theirs {
            let only = |a: &[String], b: &[String]| {
                a.iter()
                    .filter(|l| !b.contains(l))
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n    ")
            };
            wrong.push(format!(
                "{}\n  ours only:\n    {}\n  theirs only:\n    {}\n",
                line["create"],
                only(&ours, &theirs),
                only(&theirs, &ours)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn updates_are_answered_as_the_real_server_answers() {
    let mut wrong = Vec::new();
    for line in BASELINE.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let response = &line["response"];
        if line.get("update").is_none() || !matches!(response["status"].as_u64(), Some(200 | 422)) {
            continue;
        }
        let (stored, mut new) = (&line["stored"], line["update"].clone());
        let (group, _) = group_of(stored);
        let kind = text(stored, "kind");
        let resource = kubernetes_resources()
            .iter()
            .find(|r| r.group == group && r.kind == kind)
            .unwrap();
        let strategy = strategy(&group, kind);
        new = decode(kubernetes(), &resource.definition, new).unwrap().value;
        (strategy.default)(&mut new);
        if strategy.has_status {
            super::tree::restore(&mut new, stored, "status");
        }
        if kind == "Pod" {
            admission::default_tolerations(&mut new);
        }
        (strategy.prepare_update)(&mut new, stored);
        let mut found = Vec::new();
        if kind == "Service"
            && let Err(refused) = service::allocate(&mut new, Some(stored), true, |_| false)
        {
            found.extend(refused);
        } else {
            found.extend(meta::validate_object_meta(
                &new,
                strategy.name,
                resource.namespaced,
            ));
            found.extend(meta::validate_object_meta_update(
                &new,
                stored,
                !strategy.unconditional_update,
            ));
            found.extend((strategy.validate)(&new));
            found.extend((strategy.validate_update)(&new, stored));
        }
        let (ours, theirs) = if response["status"] == 422 {
            (causes(&found), recorded_causes(response))
        } else if found.is_empty() {
            let show = |object: &Value| {
                serde_json::to_string_pretty(&comparable(object))
                    .unwrap()
                    .lines()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            (show(&new), show(&response["object"]))
        } else {
            (causes(&found), vec!["updated".to_owned()])
        };
        if ours != theirs {
            let only = |a: &[String], b: &[String]| {
                a.iter()
                    .filter(|l| !b.contains(l))
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("\n    ")
            };
            wrong.push(format!(
                "{kind} {}\n  ours only:\n    {}\n  theirs only:\n    {}\n",
                text(stored, "metadata.name"),
                only(&ours, &theirs),
                only(&theirs, &ours)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn allocations_follow_from_the_name_and_skip_taken_ones() {
    let service = |name: &str| {
        create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "a"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 80, "protocol": "UDP", "name": "u"}]}}))
        .object
    };
    let fresh = |taken: &dyn Fn(Claim<'_>) -> bool| {
        let mut object = service("web");
        for path in ["spec.clusterIP", "spec.clusterIPs"] {
            remove(&mut object, path);
        }
        super::tree::each(&mut object, "spec.ports", |port| {
            remove(port, "nodePort");
        });
        service::allocate(&mut object, None, true, taken).unwrap();
        object
    };
    let first = fresh(&|_| false);
    assert_eq!(first, service("web"), "the same name gets the same place");
    assert_ne!(
        get(&first, "spec.clusterIP"),
        get(&service("api"), "spec.clusterIP"),
        "another name gets another"
    );
    let held: Vec<String> = service::claims(&first).iter().map(|c| format!("{c:?}")).collect();
    assert_eq!(held.len(), 3, "{held:?}");
    let second = fresh(&|claim| held.contains(&format!("{claim:?}")));
    for claim in service::claims(&second) {
        assert!(!held.contains(&format!("{claim:?}")), "{claim:?} was taken");
    }
    let mut asks = service("web");
    let refused = service::allocate(&mut asks, None, true, |_| true).unwrap_err();
    assert_eq!(
        print(&refused),
        [format!(
            "spec.clusterIPs: Invalid value: [{0}]: failed to allocate IP {1}: provided IP is already allocated",
            get(&first, "spec.clusterIP"),
            text(&first, "spec.clusterIP")
        )]
    );
    let mut outside = json!({"spec": {"clusterIP": "11.0.0.1", "ports": [{"port": 80}]}});
    let refused = service::allocate(&mut outside, None, false, |_| false).unwrap_err();
    assert_eq!(
        print(&refused),
        [
            "spec.clusterIPs: Invalid value: [\"11.0.0.1\"]: failed to allocate IP 11.0.0.1: \
             the provided network does not match the current range"
        ]
    );
}

#[test]
fn pods_end_after_their_grace() {
    let check = |spec: Value, phase: &str, requested, expected| {
        let pod = json!({"spec": spec, "status": {"phase": phase}});
        assert_eq!(deletion_grace(&pod, requested), expected, "{pod} {requested:?}");
    };
    check(json!({}), "Pending", Some(60), 0);
    check(json!({"nodeName": "n"}), "Running", None, 30);
    check(
        json!({"nodeName": "n", "terminationGracePeriodSeconds": 5}),
        "Running",
        None,
        5,
    );
    check(
        json!({"nodeName": "n", "terminationGracePeriodSeconds": 5}),
        "Running",
        Some(9),
        9,
    );
    check(json!({"nodeName": "n"}), "Running", Some(0), 0);
    check(json!({"nodeName": "n"}), "Running", Some(-1), 1);
    check(json!({"nodeName": "n"}), "Succeeded", Some(60), 0);
    check(json!({"nodeName": "n"}), "Failed", None, 0);
}

#[test]
fn fields_select_and_refuse_by_kind() {
    let check = |group: &str, kind: &str, field: &str, object: Value, expected: &str| {
        let found = selectable(group, kind, field, &object).unwrap_or_else(|e| e.to_string());
        assert_eq!(found, expected, "{kind} {field}");
    };
    check(
        "",
        "ConfigMap",
        "metadata.name",
        json!({"metadata": {"name": "a"}}),
        "a",
    );
    check(
        "",
        "Pod",
        "spec.nodeName",
        json!({"spec": {"nodeName": "n"}}),
        "n",
    );
    check("", "Pod", "spec.hostNetwork", json!({}), "false");
    check(
        "",
        "Node",
        "spec.unschedulable",
        json!({"spec": {"unschedulable": true}}),
        "true",
    );
    check(
        "apps",
        "ReplicaSet",
        "status.replicas",
        json!({"status": {"replicas": 2}}),
        "2",
    );
    check(
        "batch",
        "Job",
        "status.successful",
        json!({"status": {"succeeded": 1}}),
        "1",
    );
    check(
        "",
        "Event",
        "source",
        json!({"source": {"component": "kubelet"}}),
        "kubelet",
    );
    check(
        "",
        "Event",
        "involvedObject.name",
        json!({"involvedObject": {"name": "p"}}),
        "p",
    );
    check(
        "events.k8s.io",
        "Event",
        "involvedObject.name",
        json!({"regarding": {"name": "p"}}),
        "p",
    );
    check("", "Secret", "type", json!({"type": "Opaque"}), "Opaque");
    check(
        "",
        "ConfigMap",
        "data.x",
        json!({}),
        "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    check(
        "",
        "Pod",
        "spec.foo",
        json!({}),
        "field label not supported: spec.foo",
    );
}

#[test]
fn bootstrap_objects_are_valid() {
    for object in bootstrap() {
        let created = create(object.clone());
        assert_eq!(print(&errors(&created)), Vec::<String>::new(), "{object}");
        assert_eq!(get(&created.object, "value"), get(&object, "value"), "{object}");
        for part in ["spec", "status"] {
            for (field, given) in entries(&object, part) {
                assert_eq!(get(&created.object, part).get(field), Some(given), "{object}");
            }
        }
        if object["kind"] == "Namespace" {
            assert_eq!(created.object["spec"]["finalizers"], json!(["kubernetes"]));
            assert_eq!(created.object["status"]["phase"], "Active");
        }
    }
}

#[test]
fn every_served_kind_has_a_strategy_that_takes_an_empty_object() {
    let mut abnormal = Vec::new();
    for resource in kubernetes_resources() {
        let strategy = strategy(&resource.group, &resource.kind);
        let mut object = decode(kubernetes(), &resource.definition, json!({}))
            .unwrap()
            .value;
        (strategy.default)(&mut object);
        (strategy.prepare_create)(&mut object);
        let again = decode(kubernetes(), &resource.definition, object.clone())
            .unwrap()
            .value;
        if object != again {
            abnormal.push(format!(
                "{} {} {} {again}",
                resource.group, resource.version, resource.kind
            ));
        }
        (strategy.validate)(&object);
        (strategy.validate_create)(&object);
        (strategy.validate_update)(&object, &object);
        (strategy.warnings)(&object);
        let has_status = resource.subresources.iter().any(|s| s.name == "status");
        assert_eq!(
            strategy.has_status, has_status,
            "{} {}",
            resource.group, resource.kind
        );
    }
}
