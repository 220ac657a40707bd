//! Every function of Helm's engine exists here and has a recorded result.

use equate_template::{Library, TemplateSet};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;

/// The words of a template that may be functions.
fn words(template: &str) -> impl Iterator<Item = &str> {
    template.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_function_has_a_recorded_result() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let inventory = std::fs::read_to_string(tests.join("golden/functions.jsonl")).unwrap();
    let inventory: Json = serde_json::from_str(&inventory).unwrap();
    let names = inventory["output"].as_str().unwrap();
    let mut answered = BTreeSet::new();
    for entry in std::fs::read_dir(tests.join("golden")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            let case: Json = serde_json::from_str(line).unwrap();
            let template = case.get("template").and_then(Json::as_str).unwrap_or_default();
            if case.get("error").is_none() {
                answered.extend(words(template).map(str::to_owned));
            }
        }
    }
    let mut missing = Vec::new();
    for name in names.lines() {
        let mut set = TemplateSet::new(Library::Helm);
        let template = format!("{{{{ range . }}}}{{{{ {name} }}}}{{{{ end }}}}");
        if let Err(error) = set.parse("t", &template) {
            missing.push(error.to_string());
        }
        // these two always fail: no value is a function
        if !["call", "fail"].contains(&name) && !answered.contains(name) {
            missing.push(format!("no recorded answer of {name}"));
        }
    }
    assert!(names.lines().count() > 200, "the inventory is whole");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
