//! Structured merge against the vectors of structured-merge-diff v6.4.2.
//!
//! Not run: `typed-extract-with-keys` and `typed-reversible-extract` (nothing extracts with keys added),
//! `merge-converter` (one schema serves all versions).

use equate_manifest::fieldpath::{PathElement, Set};
use equate_manifest::merge::{self, ApplyError, Managers, Ownership, Request};
use equate_manifest::typed::{self, Duplicates, Type};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/structured-merge-diff");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no conformance vectors at {}", folder.display());
    None
}

/// Runs every line of a file through `case`, which returns a difference; exactly `artefacts` may differ.
fn check(file: &str, artefacts: &[&str], mut case: impl FnMut(&Value) -> Result<(), String>) {
    let Some(folder) = folder() else { return };
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let mut failed = Vec::new();
    let mut report = String::new();
    let mut lines = 0;
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let name = vector["name"]
            .as_str()
            .or(vector["in"].as_str())
            .map_or_else(|| vector["id"].to_string(), str::to_owned);
        lines += 1;
        if let Err(difference) = case(&vector) {
            report.push_str(&format!("{name}: {difference}\n"));
            failed.push(name);
        }
    }
    assert!(lines > 0, "{file} is empty");
    assert_eq!(failed, artefacts, "of {lines} in {file}:\n{report}");
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("{what}\n  ours   {ours:?}\n  theirs {theirs:?}"))
    }
}

fn kind(reference: &Value) -> Type {
    let path = folder()
        .unwrap()
        .join(format!("schemas/{}.json", reference["schema"].as_str().unwrap()));
    let document = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    typed::from_json(&document, &reference["typeRef"]).unwrap()
}

fn set(fields: &Value) -> Set {
    Set::from_fields_v1(fields).unwrap()
}

#[test]
fn path_elements() {
    check("fieldpath-pe.jsonl", &[], |v| {
        match (PathElement::parse(v["in"].as_str().unwrap()), &v["ok"]) {
            (Ok(element), Value::Bool(true)) => {
                differ(
                    "wire",
                    &element.to_wire().as_str(),
                    &v["normalized"].as_str().unwrap(),
                )?;
                differ(
                    "text",
                    &element.to_string().as_str(),
                    &v["string"].as_str().unwrap(),
                )
            }
            (Err(_), Value::Bool(false)) => Ok(()),
            (ours, _) => Err(format!("{ours:?}")),
        }
    });
}

#[test]
fn sets_as_json() {
    check("fieldpath-setjson.jsonl", &[], |v| {
        let parsed = serde_json::from_str::<Set>(v["in"].as_str().unwrap());
        match (parsed, &v["ok"]) {
            (Ok(set), Value::Bool(true)) => {
                let theirs = serde_json::from_str(v["normalized"].as_str().unwrap()).unwrap();
                differ("normalised", &set.to_fields_v1(), &theirs)
            }
            (Err(_), Value::Bool(false)) => Ok(()),
            (ours, _) => Err(format!("{ours:?}")),
        }
    });
}

#[test]
fn set_algebra() {
    check("fieldpath-sets.jsonl", &[], |v| {
        let (a, b) = (set(&v["a"]), set(&v["b"]));
        differ("size", &json!(a.len()), &v["aSize"])?;
        differ("empty", &json!(a.is_empty()), &v["aEmpty"])?;
        let paths: Vec<String> = a.paths().iter().map(ToString::to_string).collect();
        differ("paths", &json!(paths), &v["aPaths"])?;
        for (name, ours) in [
            ("union", a.union(&b)),
            ("intersection", a.intersection(&b)),
            ("difference", a.difference(&b)),
            ("recursiveDifference", a.recursive_difference(&b)),
            ("leaves", a.leaves()),
        ] {
            differ(name, &ours, &set(&v[name]))?;
        }
        Ok(())
    });
}

#[test]
fn typed_validate() {
    // of two undeclared fields upstream names the one that Go's random map order brings first
    let artefacts = ["TestSchemaValidation/associative_list/associative_list-invalid-0"];
    check("typed-validate.jsonl", &artefacts, |v| {
        let kind = kind(&v["type"]);
        let object: Value = serde_json::from_str(v["objectYAML"].as_str().unwrap()).unwrap();
        let allowed = kind.validate(&object, Duplicates::Allow).is_ok();
        match kind.validate(&object, Duplicates::Refuse) {
            Ok(()) => differ("valid", &v["valid"], &json!(true)),
            Err(errors) => {
                differ("valid", &v["valid"], &json!(false))?;
                differ("with duplicates", &json!(allowed), &v["validWithAllowDuplicates"])?;
                // the vectors were read from YAML, where Go's maps have another type than from JSON
                let theirs = v["error"]
                    .as_str()
                    .unwrap()
                    .replace("map[interface {}]", "map[string]");
                differ("error", &errors.to_string(), &theirs)
            }
        }
    });
}

#[test]
fn typed_field_set() {
    check("typed-toset.jsonl", &[], |v| {
        let ours = kind(&v["type"])
            .field_set(&v["object"])
            .map_err(|e| e.to_string())?;
        differ("set", &ours, &set(&v["set"]))
    });
}

#[test]
fn typed_merge() {
    check("typed-merge.jsonl", &[], |v| {
        let ours = kind(&v["type"])
            .merge(&v["lhs"], &v["rhs"])
            .map_err(|e| e.to_string())?;
        differ("merged", &ours, &v["out"])
    });
}

#[test]
fn typed_compare() {
    check("typed-compare.jsonl", &[], |v| {
        let ours = kind(&v["type"])
            .compare(&v["lhs"], &v["rhs"])
            .map_err(|e| e.to_string())?;
        differ("removed", &ours.removed, &set(&v["removed"]))?;
        differ("modified", &ours.modified, &set(&v["modified"]))?;
        differ("added", &ours.added, &set(&v["added"]))
    });
}

#[test]
fn typed_remove_and_extract() {
    check("typed-remove-extract.jsonl", &[], |v| {
        let kind = kind(&v["type"]);
        let fields = set(&v["set"]);
        for (name, ours) in [
            ("removeOutput", kind.remove(&v["object"], &fields)),
            ("extractOutput", kind.extract(&v["object"], &fields)),
        ] {
            if v[name].get("$unparseable").is_none() && v[name] != json!("unparseable") {
                differ(name, &ours, &v[name])?;
            }
        }
        Ok(())
    });
}

#[test]
fn typed_reconcile() {
    check("typed-reconcile-schema.jsonl", &[], |v| {
        let ours = kind(&v["type"])
            .reconcile(&set(&v["oldFields"]))
            .map_err(|e| e.to_string())?;
        differ("changed", &json!(ours.is_some()), &v["changed"])?;
        match ours {
            Some(ours) => differ("fields", &ours, &set(&v["fixedFields"])),
            None => Ok(()),
        }
    });
}

struct State {
    kinds: BTreeMap<String, Type>,
    ignored: BTreeMap<String, Set>,
    live: Value,
    managers: Managers<String>,
}

#[test]
fn merge_sequences() {
    check("merge-identity.jsonl", &[], |v| {
        let types = v["types"].as_object().unwrap();
        let ignored = v["ignoredFields"].as_object();
        let mut state = State {
            kinds: types
                .iter()
                .map(|(version, t)| (version.clone(), kind(t)))
                .collect(),
            ignored: ignored
                .into_iter()
                .flatten()
                .map(|(version, s)| (version.clone(), set(s)))
                .collect(),
            live: Value::Null,
            managers: Managers::new(),
        };
        for (i, step) in v["steps"].as_array().unwrap().iter().enumerate() {
            let ended = state
                .step(step, types)
                .map_err(|difference| format!("step {i}: {difference}"))?;
            if ended {
                break;
            }
        }
        Ok(())
    });
}

impl State {
    /// Runs one step and compares its result; true if the vector ends here.
    fn step(&mut self, step: &Value, types: &serde_json::Map<String, Value>) -> Result<bool, String> {
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        if text("op") == "changeSchema" {
            for (version, t) in types {
                let changed = json!({ "schema": step["schema"], "typeRef": t["typeRef"] });
                self.kinds.insert(version.clone(), kind(&changed));
            }
            return Ok(false);
        }
        let version = text("apiVersion");
        let ignored = self.ignored.get(version).cloned().unwrap_or_default();
        let kind = self.kinds.get(version).unwrap().clone();
        let request = Request {
            kind: &kind,
            manager: text("manager").to_owned(),
            api_version: version,
            ignored: &ignored,
        };
        let mut conflicts = Vec::new();
        let mut error = None;
        if let Err(e) = self.act(&request, text("op"), &step["object"]) {
            match e {
                ApplyError::Conflicts(found) => conflicts = found,
                ApplyError::Invalid(e) => error = Some(e.to_string()),
            }
        }
        differ("error", &error.as_deref(), &step["error"].as_str())?;
        if error.is_some() {
            return Ok(true);
        }
        let conflicts: Vec<Value> = conflicts
            .iter()
            .map(|c| json!({ "manager": c.manager, "path": c.path.to_string() }))
            .collect();
        differ(
            "conflicts",
            &json!(conflicts),
            step.get("conflicts").unwrap_or(&json!([])),
        )?;
        differ("live", &self.live, &step["live"])?;
        let managers: Managers<String> = step["managers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, m)| {
                let owned = Ownership {
                    fields: set(&m["fieldsV1"]),
                    api_version: m["apiVersion"].as_str().unwrap().to_owned(),
                    applied: m["applied"].as_bool().unwrap(),
                };
                (name.clone(), owned)
            })
            .collect();
        differ("managers", &self.managers, &managers)?;
        Ok(false)
    }

    fn act(
        &mut self,
        request: &Request<'_, String>,
        op: &str,
        object: &Value,
    ) -> Result<(), ApplyError<String>> {
        if op == "update" {
            request.kind.validate(object, Duplicates::Allow)?;
            self.managers = merge::update(request, &self.live, object, self.managers.clone())?;
            self.live = object.clone();
            return Ok(());
        }
        let mut object = object.clone();
        if op == "extractApply" {
            // a client reads its own fields and applies them with changes
            if let Some(owned) = self.managers.get(&request.manager) {
                let owned = request.kind.extract(&self.live, &owned.fields);
                object = request.kind.merge(&owned, &object)?;
            }
        }
        request.kind.validate(&object, Duplicates::Refuse)?;
        let force = op == "forceApply";
        let (new, managers) = merge::apply(request, &self.live, &object, self.managers.clone(), force)?;
        self.managers = managers;
        self.live = new.unwrap_or_else(|| self.live.take());
        Ok(())
    }
}
