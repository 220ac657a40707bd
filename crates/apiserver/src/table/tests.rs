use super::{Column, IncludeObject, Rendering, cells, columns, custom, jsonpath::JsonPath, render};
use crate::registry::{Resource, SchemaSource, Strategy};
use jiff::Timestamp;
use serde_json::{Value, json};

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines()
        .map(|line| equate_manifest::json::decode(line.as_bytes()).unwrap().value)
}

fn now(case: &Value) -> Timestamp {
    case["now"]
        .as_str()
        .map_or(Timestamp::UNIX_EPOCH, |now| now.parse().unwrap())
}

/// `goldens/README.md` has the source of the expected cells.
#[test]
fn cells_equal_those_of_the_real_printers() {
    let (mut failures, mut count) = (Vec::new(), 0);
    for case in lines(include_str!("goldens/cells.jsonl")) {
        let (group, kind) = (case["group"].as_str().unwrap(), case["kind"].as_str().unwrap());
        let got = cells::cells_of(group, kind, &case["object"], now(&case));
        count += 1;
        if Value::from(got.clone()) != case["cells"] {
            failures.push(format!(
                "{}\n  want {}\n  got  {}",
                case["object"],
                case["cells"],
                Value::from(got)
            ));
        }
    }
    assert!(count >= 170);
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn printer_columns_equal_those_of_the_real_server() {
    let mut failures = Vec::new();
    for case in lines(include_str!("goldens/printer-columns.jsonl")) {
        let (path, kind) = (case["path"].as_str().unwrap(), case["type"].as_str().unwrap());
        let got = match JsonPath::parse(path) {
            Err(error) => json!({"error": error.to_string()}),
            Ok(_) => json!({"cell": custom::cell(path, kind, &case["object"], now(&case))}),
        };
        let (key, value) = got.as_object().unwrap().iter().next().unwrap();
        if case.get(key) != Some(value) {
            let want = case.get("error").unwrap_or(&case["cell"]);
            failures.push(format!("{path} {kind}: want {want} got {got}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Compares with the recordings of a real server, if present.
#[test]
fn columns_equal_the_recorded_ones() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-http.jsonl"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: no recordings");
        return;
    };
    let kinds = [
        ("pods", "", "Pod"),
        ("deployments", "apps", "Deployment"),
        ("services", "", "Service"),
        ("secrets", "", "Secret"),
        ("namespaces", "", "Namespace"),
        ("nodes", "", "Node"),
        ("events", "", "Event"),
        ("jobs", "batch", "Job"),
        ("crds", "apiextensions.k8s.io", "CustomResourceDefinition"),
        ("statefulsets", "apps", "StatefulSet"),
        ("daemonsets", "apps", "DaemonSet"),
        ("replicasets", "apps", "ReplicaSet"),
        ("pvc", "", "PersistentVolumeClaim"),
        ("ingresses", "networking.k8s.io", "Ingress"),
        ("hpa", "autoscaling", "HorizontalPodAutoscaler"),
        ("cronjobs", "batch", "CronJob"),
        ("serviceaccounts", "", "ServiceAccount"),
        ("roles", "rbac.authorization.k8s.io", "Role"),
        ("rolebindings", "rbac.authorization.k8s.io", "RoleBinding"),
        ("clusterroles", "rbac.authorization.k8s.io", "ClusterRole"),
        ("leases", "coordination.k8s.io", "Lease"),
        ("endpointslices", "discovery.k8s.io", "EndpointSlice"),
        ("pdb", "policy", "PodDisruptionBudget"),
        ("networkpolicies", "networking.k8s.io", "NetworkPolicy"),
        ("pv", "", "PersistentVolume"),
        ("storageclasses", "storage.k8s.io", "StorageClass"),
        ("resourcequotas", "", "ResourceQuota"),
    ];
    let mut seen = 0;
    for scenario in lines(&text) {
        for step in scenario["steps"].as_array().unwrap() {
            let Some(name) = step["desc"].as_str().unwrap().strip_prefix("table columns ") else {
                continue;
            };
            let (_, group, kind) = kinds.iter().find(|(of, ..)| *of == name).unwrap();
            let got: Vec<Value> = columns::of_builtin(group, kind)
                .iter()
                .map(Column::to_value)
                .collect();
            assert_eq!(
                Value::from(got),
                step["response"]["body"]["columnDefinitions"],
                "{name}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, kinds.len());
}

fn resource(kind: &str, plural: &str) -> Resource {
    static STRATEGY: Strategy = Strategy::GENERIC;
    Resource {
        group: String::new(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        singular: String::new(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Vec::new(),
        schema: SchemaSource::Builtin(""),
        subresources: Vec::new(),
        strategy: &STRATEGY,
        derived: crate::registry::Derived::default(),
    }
}

#[test]
fn tables_have_the_recorded_form() {
    let metadata = json!({"name": "c1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}});
    let check = |include, headers, expected: Value| {
        let now = "2026-01-01T00:00:05Z".parse().unwrap();
        let table = render(
            &resource("ConfigMap", "configmaps"),
            [&object].into_iter(),
            Rendering {
                include,
                headers,
                now,
            },
        );
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(table["metadata"], json!({}));
        assert_eq!(
            table["columnDefinitions"].as_array().map(Vec::len),
            headers.then_some(3)
        );
        assert_eq!(
            table["rows"],
            json!([{"cells": ["c1", 1, "5s"], "object": expected}])
        );
    };
    check(IncludeObject::None, true, Value::Null);
    check(
        IncludeObject::Metadata,
        true,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}),
    );
    check(IncludeObject::Object, false, object.clone());
}

#[test]
fn rows_of_ended_pods_carry_a_condition() {
    let condition = |phase: &str| {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": phase}});
        let rendering = Rendering {
            include: IncludeObject::None,
            headers: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let table = render(&resource("Pod", "pods"), [&pod].into_iter(), rendering);
        table["rows"][0].get("conditions").cloned()
    };
    for case in lines(include_str!("goldens/cells.jsonl")).filter(|case| case["kind"] == "Pod") {
        let phase = case["object"]["status"]["phase"].as_str().unwrap_or_default();
        assert_eq!(condition(phase), case.get("conditions").cloned(), "{phase}");
    }
}
