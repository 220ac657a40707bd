//! Replays upstream's own cases byte for byte.
//!
//! The cases are read in place and not committed; without them the tests report that and pass. `ratchet.txt`
//! lists the failing cases: a case must pass exactly if it is not listed.

use crate::memory::Memory;
use base64::Engine as _;
use equate_kustomize::{BuildError, Built, LoadRestriction, Options, Order, kustomize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) const FILES: [&str; 3] = ["krusty.jsonl", "plugin.jsonl", "filters.jsonl"];

const RATCHET: &str = include_str!("ratchet.txt");

fn conformance() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/conformance/kustomize"
    ))
}

pub(crate) fn cases(file: &str) -> Option<Vec<Value>> {
    let path = conformance().join(file);
    if !path.exists() {
        return None;
    }
    let text = std::fs::read_to_string(path).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn tree(case: &Value) -> Memory {
    let mut tree = Memory::default();
    for (path, content) in case["files"].as_object().unwrap() {
        match content {
            Value::String(text) => tree.put(path, text.as_bytes()),
            other => {
                let packed = other["b64"].as_str().unwrap();
                tree.put(
                    path,
                    &base64::engine::general_purpose::STANDARD.decode(packed).unwrap(),
                );
            }
        }
    }
    tree
}

pub(crate) fn built(case: &Value) -> Result<Built, BuildError> {
    let options = Options {
        restriction: match case["options"]["loadRestrictions"].as_str() {
            Some("none") => LoadRestriction::Tree,
            _ => LoadRestriction::Root,
        },
        order: match case["options"]["reorder"].as_str() {
            Some("none") => Order::Input,
            _ => Order::Legacy,
        },
        ..Options::default()
    };
    let path = case["path"].as_str().unwrap_or(".").trim_start_matches('/');
    kustomize(&tree(case), path, &options)
}

fn run(case: &Value) -> Result<String, String> {
    match built(case) {
        Ok(built) => Ok(built
            .objects
            .into_iter()
            .map(|resource| equate_manifest::yaml::to_string(&resource.object.into_value()))
            .collect::<Vec<_>>()
            .join("---\n")),
        Err(error) => Err(error.to_string()),
    }
}

fn passes(case: &Value) -> bool {
    match (case["expect"].as_str().unwrap(), run(case)) {
        ("ok", Ok(found)) => found == case["expected"].as_str().unwrap(),
        ("error", Err(_)) => true,
        _ => false,
    }
}

fn check(file: &str) {
    let Some(cases) = cases(file) else {
        println!("{file} is not here: nothing compared");
        return;
    };
    if let Ok(wanted) = std::env::var("VECTOR") {
        show(&cases, &wanted);
        return;
    }
    let failing: BTreeSet<&str> = cases
        .iter()
        .filter(|case| !passes(case))
        .map(|case| case["id"].as_str().unwrap())
        .collect();
    println!("{file}: {} of {} pass", cases.len() - failing.len(), cases.len());
    let prefix = file.trim_end_matches(".jsonl").trim_end_matches('s');
    let listed: BTreeSet<&str> = RATCHET
        .lines()
        .filter(|line| line.starts_with(prefix))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let new: Vec<_> = failing.difference(&listed).collect();
    let healed: Vec<_> = listed.difference(&failing).collect();
    assert!(
        new.is_empty() && healed.is_empty(),
        "fail and are not listed: {new:?}\npass and are listed: {healed:?}"
    );
}

fn show(cases: &[Value], wanted: &str) {
    for case in cases.iter().filter(|case| case["id"] == wanted) {
        for (path, content) in case["files"].as_object().unwrap() {
            println!("=== {path}\n{}", content.as_str().unwrap_or("(binary)"));
        }
        let expected = case["expected"].as_str().or(case["oracle_error"].as_str());
        println!("=== expected\n{}", expected.unwrap_or_default());
        match run(case) {
            Ok(found) | Err(found) => println!("=== found\n{found}"),
        }
    }
}

#[test]
fn krusty() {
    check("krusty.jsonl");
}

#[test]
fn plugin() {
    check("plugin.jsonl");
}

#[test]
fn filters() {
    check("filters.jsonl");
}

/// With `VECTORS=1`: prints where each failing case first differs.
#[test]
fn differences() {
    if std::env::var("VECTORS").is_err() {
        return;
    }
    for file in FILES {
        for case in cases(file)
            .unwrap_or_default()
            .iter()
            .filter(|case| !passes(case))
        {
            let (id, test) = (&case["id"], &case["test"]);
            match run(case) {
                Err(error) => println!("{id} {test}: {error}"),
                Ok(_) if case["expect"] == "error" => {
                    println!("{id} {test}: passes, but: {}", case["oracle_error"]);
                }
                Ok(found) => {
                    let expected = case["expected"].as_str().unwrap();
                    let differ = expected
                        .lines()
                        .zip(found.lines())
                        .find(|(expected, found)| expected != found);
                    let (expected, found) = differ.unwrap_or(("(longer or shorter)", ""));
                    println!("{id} {test}:\n    - {expected}\n    + {found}");
                }
            }
        }
    }
}
