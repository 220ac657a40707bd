//! `tests/golden`: templates with Helm's results, recorded by `cargo xtask baseline template`.

use base64::Engine as _;
use equate_template::{
    Entries, Library, Map as Values, MissingKey, Options, Seeded, Session, TemplateSet, Value,
};
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;
use std::path::Path;

/// The known differences by file and template, with reasons. Each must still differ.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("language", "{{1+2i}}", COMPLEX),
    ("language", "{{1i}}", COMPLEX),
    ("encode", "{{ toJson (trunc 1 \"é\") }}", REPLACED),
    ("documents", "{{ fromJson \"{\\\"a\\\":1e400}\" }}", TEXT),
    ("documents", "{{ fromJsonArray \"{\\\"a\\\":1e400}\" }}", TEXT),
    ("documents", "{{ fromYaml \"a: {b\" }}", TEXT),
    ("documents", "{{ fromYaml \"a:\\n\\t- b\" }}", TEXT),
    ("documents", "{{ fromYamlArray \"a: {b\" }}", TEXT),
    ("documents", "{{ fromYamlArray \"a:\\n\\t- b\" }}", TEXT),
    ("toml", "{{ (fromToml .t).Error }}", TEXT),
];
const REPLACED: &str = "invalid UTF-8 is replaced before encoding, so not as an escape";
const TEXT: &str = "the text of an error is our reader's";
const COMPLEX: &str = "complex numbers are refused: no function takes one";

/// Renders a chart's files in Helm's order: deeper ones first, then by name backwards.
fn render_files(files: &Map<String, Json>, values: &Json) -> Result<Json, String> {
    let mut names: Vec<String> = files.keys().map(|name| format!("c/{name}")).collect();
    names.sort_by_key(|name| std::cmp::Reverse((name.matches('/').count(), name.clone())));
    let mut set = TemplateSet::new(Library::Helm);
    for name in &names {
        let text = files[&name["c/".len()..]].as_str().unwrap();
        set.parse(name, text).map_err(|error| error.helm_text())?;
    }
    let chart = serde_json::json!({"Name": "c"});
    let data = Entries::Named("common.Values");
    let data = Values::of(data, std::collections::BTreeMap::new());
    data.insert("Values".into(), Value::from_json(values));
    data.insert("Chart".into(), Value::from_json(&chart));
    let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"golden", 0)));
    let mut rendered = Map::new();
    for name in names.iter().filter(|name| !name.contains("/_")) {
        let template = Values::of(
            Entries::Named("common.Values"),
            [
                ("Name".into(), name.as_str().into()),
                ("BasePath".into(), "c/templates".into()),
            ]
            .into(),
        );
        data.insert("Template".into(), template.into());
        let text = session.render(&set, name, data.clone().into());
        let text = text.map_err(|error| error.helm_text())?;
        rendered.insert(name.clone(), text.lossy().into());
    }
    Ok(rendered.into())
}

fn render(case: &Json) -> Result<Vec<u8>, String> {
    if let Some(files) = case.get("files").and_then(Json::as_object) {
        let rendered = render_files(files, &case["data"])?;
        return Ok(rendered.to_string().into_bytes());
    }
    let text = |name: &str| case.get(name).and_then(Json::as_str).unwrap_or_default();
    let (library, options) = match text("mode") {
        "go" => (Library::Go, Options::default()),
        "strict" => (
            Library::Helm,
            Options {
                missing_key: MissingKey::Error,
                ..Options::helm()
            },
        ),
        _ => (Library::Helm, Options::helm()),
    };
    let mut set = TemplateSet::new(library);
    set.parse("t", text("template"))
        .map_err(|error| error.to_string())?;
    let mut session = Session::new(
        options,
        Box::new(Seeded::new(b"golden", 1_700_000_000_000_000_000)),
    );
    let data = case.get("data").map_or(Value::Nil, Value::from_json);
    let output = session
        .execute(&set, "t", data)
        .map_err(|error| error.to_string())?;
    Ok(output.as_bytes().to_vec())
}

fn expected(case: &Json) -> Result<Vec<u8>, String> {
    if let Some(error) = case.get("error").and_then(Json::as_str) {
        return Err(error.to_owned());
    }
    if let Some(rendered) = case.get("rendered") {
        return Ok(rendered.to_string().into_bytes());
    }
    if let Some(bytes) = case.get("bytes").and_then(Json::as_str) {
        return Ok(base64::engine::general_purpose::STANDARD.decode(bytes).unwrap());
    }
    Ok(case["output"].as_str().unwrap().as_bytes().to_vec())
}

#[test]
fn output_equals_helm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let (mut count, mut report, mut differ) = (0, String::new(), 0);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.contains(&only) {
            continue;
        }
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let case: Json = serde_json::from_str(line).unwrap();
            if case["mode"] == "functions" {
                // the inventory, which has its own test
                continue;
            }
            let files = case.get("files").map(Json::to_string).unwrap_or_default();
            let template = case.get("template").and_then(Json::as_str).unwrap_or(&files);
            let (wanted, got) = (expected(&case), render(&case));
            let known = DIFFERENCES
                .iter()
                .any(|(file, text, _)| *file == name && *text == template);
            count += 1;
            if (wanted == got) == known {
                differ += 1;
                let shown = |result: &Result<Vec<u8>, String>| match result {
                    Ok(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
                    Err(error) => format!("error: {error}"),
                };
                let (wanted, got) = (shown(&wanted), shown(&got));
                let _ = writeln!(report, "{name}: {template}\n  wanted {wanted}\n  got    {got}");
            }
        }
    }
    assert!(count > 0, "no cases");
    assert!(report.is_empty(), "{differ} of {count} differ:\n{report}");
}
