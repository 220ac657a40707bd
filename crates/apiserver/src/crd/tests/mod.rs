//! Answers of a real kube-apiserver 1.36.3, replayed.
//!
//! `definitions.json`: definitions and their errors. `objects.json`: objects (and their stored
//! counterparts) per schema, with errors or the stored result. `rules.json`: single rules on one object.

use super::{CustomVersion, default_crd, validate_crd};
use crate::field::FieldError;
use serde_json::{Value, json};

fn causes(errors: &[FieldError]) -> Vec<[String; 3]> {
    let mut out: Vec<[String; 3]> = errors
        .iter()
        .map(|e| [e.field.clone(), e.kind.reason().to_owned(), e.body()])
        .collect();
    out.sort();
    out.dedup();
    out
}

fn recorded(errors: &Value) -> Vec<[String; 3]> {
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    let mut out: Vec<[String; 3]> = errors
        .as_array()
        .expect("errors")
        .iter()
        .map(|e| [text(&e[0]), text(&e[1]), text(&e[2])])
        .collect();
    out.sort();
    out.dedup();
    out
}

struct Report(Vec<String>);

impl Report {
    fn compare(&mut self, what: &str, found: &[[String; 3]], wanted: &[[String; 3]]) {
        if found != wanted {
            let lines = |list: &[[String; 3]]| {
                list.iter()
                    .map(|c| format!("\n      {}: {}: {}", c[0], c[1], c[2]))
                    .collect::<String>()
            };
            self.0.push(format!(
                "{what}\n    found:{}\n    wanted:{}",
                lines(found),
                lines(wanted)
            ));
        }
    }

    fn finish(self, cases: usize) {
        assert!(
            self.0.is_empty(),
            "{} of {cases} differ:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

fn definition(name: &str, kind: &str, version: &Value, schema: &Value) -> Value {
    let mut v1 = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    for (key, value) in version.as_object().into_iter().flatten() {
        v1[key] = value.clone();
    }
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{name}.crd-rec.example.com") },
        "spec": {
            "group": "crd-rec.example.com", "scope": "Cluster",
            "names": { "plural": name, "kind": kind }, "versions": [v1],
        },
    });
    default_crd(&mut crd);
    crd
}

#[test]
fn definitions_are_validated_as_by_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("definitions.json")).expect("cases");
    let mut report = Report(Vec::new());
    for case in &cases {
        let mut crd = case["crd"].clone();
        default_crd(&mut crd);
        let found = causes(&validate_crd(&crd));
        report.compare(
            case["name"].as_str().expect("name"),
            &found,
            &recorded(&case["errors"]),
        );
    }
    report.finish(cases.len());
}

fn whole(object: &Value, kind: &str) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = json!("crd-rec.example.com/v1");
    out["kind"] = json!(kind);
    out["metadata"] = json!({ "name": "obj", "uid": "u", "resourceVersion": "1" });
    out
}

#[test]
fn objects_are_validated_as_by_a_real_server() {
    let groups: Vec<Value> = serde_json::from_str(include_str!("objects.json")).expect("cases");
    let mut report = Report(Vec::new());
    let mut count = 0;
    for group in &groups {
        let kind = group["kind"].as_str().expect("kind");
        let crd = definition("things", kind, &group["version"], &group["schema"]);
        let wrong = causes(&validate_crd(&crd));
        report.compare(&format!("{}: the definition", group["name"]), &wrong, &[]);
        let version = CustomVersion::compile(&crd, "v1").expect("compiles");
        for case in group["cases"].as_array().expect("cases") {
            count += 1;
            let ready = |object: &Value| {
                let mut object = whole(object, kind);
                version.prune(&mut object);
                version.default(&mut object);
                object
            };
            let new = ready(&case["new"]);
            // Objects stored before the schema became strict were neither pruned nor validated by it.
            let old = Some(&case["old"])
                .filter(|o| !o.is_null())
                .map(|o| whole(o, kind));
            let found = causes(&version.validate(&new, old.as_ref()));
            let what = format!("{}: {} over {}", group["name"], case["new"], case["old"]);
            report.compare(&what, &found, &recorded(&case["errors"]));
            if found.is_empty() && case["result"].is_object() {
                let mut kept = new;
                for field in ["apiVersion", "kind", "metadata"] {
                    kept.as_object_mut().expect("object").remove(field);
                }
                if kept != case["result"] {
                    report.0.push(format!(
                        "{what}\n    stored: {kept}\n    wanted: {}",
                        case["result"]
                    ));
                }
            }
        }
    }
    report.finish(count);
}

#[test]
fn rules_run_as_on_a_real_server() {
    let file: Value = serde_json::from_str(include_str!("rules.json")).expect("cases");
    let mut report = Report(Vec::new());
    let mut count = 0;
    for (list, runs) in [("rules", true), ("refused", false)] {
        for case in file[list].as_array().expect("rules") {
            count += 1;
            let mut schema = file["schema"].clone();
            schema["x-kubernetes-validations"] = json!([{ "rule": case[0] }]);
            let root = json!({ "type": "object", "properties": { "spec": schema } });
            let crd = definition("things", "Thing", &Value::Null, &root);
            let rule = case[0].as_str().expect("rule");
            let wrong = causes(&validate_crd(&crd));
            if !runs {
                report.compare(rule, &wrong, &recorded(&case[1]));
                continue;
            }
            if !wrong.is_empty() {
                report.compare(rule, &wrong, &[]);
                continue;
            }
            let version = CustomVersion::compile(&crd, "v1").expect("compiles");
            let object = whole(&json!({ "spec": file["spec"] }), "Thing");
            report.compare(
                rule,
                &causes(&version.validate(&object, None)),
                &recorded(&case[1]),
            );
        }
    }
    report.finish(count);
}

mod corpus;
mod status;
