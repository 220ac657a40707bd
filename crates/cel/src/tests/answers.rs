//! Recorded answers of cel-go 0.26 with the environments of Flux 2.9 and Kubernetes 1.36, replayed.

use super::{FORMATS, environment, run};
use crate::{CompileError, Library, List, Map, Program, Schema as _, UNTYPED, Val};
use serde_json::Value;

/// A value as the recorder shows it.
fn shown(value: &Val<'_>) -> String {
    match value {
        Val::UInt(u) => format!("{u}u"),
        Val::Double(_) => format!("double {}", crate::functions::show(value)),
        Val::Text(text) => Value::from(text.as_str()).to_string(),
        Val::Bytes(bytes) => {
            let hex = bytes.as_slice().iter().map(|byte| format!("{byte:02x}"));
            format!("bytes {}", hex.collect::<String>())
        }
        Val::Duration(nanos) => format!("duration {nanos}"),
        Val::Time(time) => format!("timestamp {}", time.as_nanosecond()),
        Val::Type(name) => format!("type {name}"),
        Val::Optional(None) => "optional.none".to_owned(),
        Val::Optional(Some(inner)) => format!("optional {}", shown(inner)),
        Val::List(list) => format!("[{}]", items(list).join(", ")),
        Val::Map(map) => format!("{{{}}}", entries(map).join(", ")),
        other => crate::functions::show(other),
    }
}

fn items(list: &List<'_>) -> Vec<String> {
    list.items().map(|item| shown(&item.unwrap())).collect()
}

fn entries(map: &Map<'_>) -> Vec<String> {
    let value = |key: &Val<'_>| map.get(key, &mut super::budget()).unwrap().unwrap();
    let keys = map.keys();
    let mut all: Vec<String> = keys
        .iter()
        .map(|key| format!("{}: {}", shown(key), shown(&value(key))))
        .collect();
    all.sort();
    all
}

/// The answer in the recorder's words: the field that it fills, and the text.
fn answer(library: Library, text: &str, variable: &Value) -> (&'static str, String) {
    let program = match Program::compile(text, &environment(library)) {
        Ok(program) => program,
        Err(CompileError::Invalid(why)) => return ("parse", why),
        Err(other) => return ("refused", other.to_string()),
    };
    if let Err(error) = program.check_names(text) {
        return ("check", error.to_string());
    }
    let answer = run(&program, &[UNTYPED.read(variable), Ok(Val::Null)]);
    match answer {
        Ok(value) => ("value", shown(&value)),
        Err(fail) => ("error", fail.to_string()),
    }
}

/// Known differences: nobody decides by them.
const DIFFERENT: [(&str, &str); 10] = [
    ("in", "after a mismatch, the rest is not read"),
    ("a.in", "as above"),
    ("a.?", "as above"),
    ("has(a?.b)", "as above"),
    (
        "a.optMap(x, x)",
        "an error is shown once, though the macro repeats its target",
    ),
    (".a", "the name is shown without its dot"),
    (".a.b", "as above"),
    ("[?a]", "upstream does not find the name before the run"),
    ("f(,)", "after an extraneous token, an operand is expected"),
    ("cidr('1.2.3/8')", "why an address is none is not said"),
];

#[test]
fn answers_are_those_of_cel_go() {
    let mut different = Vec::new();
    let mut count = 0;
    for line in include_str!("../../tests/golden/answers.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let text = recorded["expr"].as_str().unwrap();
        let library = match recorded["env"].as_str() {
            Some("flux") => Library::Flux,
            _ => Library::Kubernetes(FORMATS),
        };
        count += 1;
        let (field, found) = answer(library, text, &recorded["v"]);
        let expected = recorded[field].as_str().unwrap_or("<another kind>");
        let is_known = DIFFERENT.iter().any(|(known, _)| *known == text);
        if (expected != found) != is_known {
            different.push(format!("{line}\n  found {field}: {found}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {count} differ:\n{}",
        different.len(),
        different.join("\n")
    );
}
