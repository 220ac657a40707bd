//! Compares each definition with Flux's, except descriptions: every field, default, pattern, limit,
//! enumeration, rule, column, name and subresource.

use equate_manifest::yaml::{self, Options};
use serde_json::{Map, Value};
use std::path::Path;

/// Known differences with their reasons. An unlisted difference fails, and so does one that is gone.
const DIFFERENCES: [(&str, &str); 1] = [(
    "/metadata/annotations/controller-gen.kubebuilder.io~1version",
    "names the generator, which is another one",
)];

#[test]
fn every_definition_is_fluxs() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/flux-crds");
    if !folder.is_dir() {
        println!("skipped: {} is not here", folder.display());
        return Ok(());
    }
    let mut theirs_only: Vec<String> = std::fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".yaml")?.to_owned()))
        .collect();
    let mut complaints = Vec::new();
    for definition in equate_api::definitions() {
        theirs_only.retain(|name| name != definition.name);
        let theirs = std::fs::read_to_string(folder.join(format!("{}.yaml", definition.name)))?;
        let (mut ours, mut theirs) = (document(definition.yaml)?, document(&theirs)?);
        for definition in [&mut ours, &mut theirs] {
            without_descriptions(definition);
            if definition["metadata"]["annotations"].is_null() {
                definition["metadata"]["annotations"] = Value::Object(Map::new());
            }
        }
        let mut found = Vec::new();
        differences(&theirs, &ours, String::new(), &mut found);
        for (listed, _) in DIFFERENCES {
            if !found.iter().any(|(pointer, _)| pointer == listed) {
                complaints.push(format!("{}: {listed} no longer differs", definition.name));
            }
        }
        found.retain(|(pointer, _)| DIFFERENCES.iter().all(|(listed, _)| pointer != listed));
        complaints.extend(
            found
                .into_iter()
                .map(|(pointer, what)| format!("{}: {pointer}: {what}", definition.name)),
        );
    }
    assert_eq!(theirs_only, Vec::<String>::new(), "kinds that are not ours");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

fn document(text: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let mut documents = yaml::load(text, &Options::default())?;
    Ok(documents.pop().ok_or("no document")?.value)
}

/// A description that is a schema is a field of that name, and stays.
fn without_descriptions(node: &mut Value) {
    fn strip(node: &mut Map<String, Value>) {
        if node.get("description").is_some_and(Value::is_string) {
            node.remove("description");
        }
        node.values_mut().for_each(without_descriptions);
    }
    match node {
        Value::Object(node) => strip(node),
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn differences(theirs: &Value, ours: &Value, pointer: String, found: &mut Vec<(String, String)>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let only_ours = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_ours) {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (a.get(key), b.get(key)) {
                    (Some(theirs), Some(ours)) => differences(theirs, ours, pointer, found),
                    (Some(theirs), None) => found.push((pointer, format!("missing: {theirs}"))),
                    (None, ours) => {
                        let ours = ours.map(ToString::to_string).unwrap_or_default();
                        found.push((pointer, format!("not in Flux's: {ours}")));
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (theirs, ours)) in a.iter().zip(b).enumerate() {
                differences(theirs, ours, format!("{pointer}/{index}"), found);
            }
        }
        _ if theirs == ours => {}
        _ => found.push((pointer, format!("{theirs} there, {ours} here"))),
    }
}
