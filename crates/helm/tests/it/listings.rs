//! Rendered texts to objects, hooks and listings: `golden/listings.jsonl`, with answers of helm 4.3.

use equate_helm::chart::{Chart, File};
use equate_helm::listing::{self, Choices, WriteMode};
use equate_helm::manifests::{self, Sorted};
use equate_helm::metadata::Metadata;
use equate_helm::order::Order;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

struct Arguments {
    choices: Choices,
    include_crds: bool,
    release_name: bool,
    output_dir: Option<String>,
}

fn arguments(case: &Value) -> Arguments {
    let mut found = Arguments {
        choices: Choices::default(),
        include_crds: false,
        release_name: false,
        output_dir: None,
    };
    let mut rest = case["args"].as_array().into_iter().flatten();
    while let Some(argument) = rest.next() {
        match argument.as_str().unwrap() {
            "--no-hooks" => found.choices.no_hooks = true,
            "--skip-tests" => found.choices.skip_tests = true,
            "--include-crds" => found.include_crds = true,
            "--release-name" => found.release_name = true,
            name @ ("-s" | "--output-dir") => {
                let value = rest.next().unwrap().as_str().unwrap().to_owned();
                match name {
                    "-s" => found.choices.show_only.push(value),
                    _ => found.output_dir = Some(value),
                }
            }
            other => panic!("{other}"),
        }
    }
    found
}

fn chart(name: &str, files: &BTreeMap<String, String>) -> Chart {
    let mut own = Vec::new();
    let mut subcharts: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (path, text) in files {
        if let Some((subchart, path)) = path.strip_prefix("charts/").and_then(|path| path.split_once('/')) {
            let files = subcharts.entry(subchart.to_owned()).or_default();
            files.insert(path.to_owned(), text.clone());
        } else {
            own.push(File {
                name: path.as_str().into(),
                data: text.as_bytes().into(),
            });
        }
    }
    Chart {
        metadata: Arc::new(Metadata {
            name: name.to_owned(),
            ..Metadata::default()
        }),
        files: own.into(),
        dependencies: subcharts
            .iter()
            .map(|(name, files)| Arc::new(chart(name, files)))
            .collect(),
        ..Chart::default()
    }
}

fn sorted(files: &BTreeMap<String, String>) -> Result<Sorted, manifests::ManifestError> {
    let rendered: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.contains("templates/"))
        .map(|(path, text)| (format!("c/{path}"), text))
        .collect();
    manifests::sort(
        rendered.iter().map(|(path, text)| (path.as_str(), text.as_str())),
        Order::Install,
    )
}

fn told(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", told(source)),
        None => error.to_string(),
    }
}

fn answer(case: &Value) -> Result<Value, Box<dyn Error>> {
    let files: BTreeMap<String, String> = serde_json::from_value(case["files"].clone())?;
    let arguments = arguments(case);
    let sorted = sorted(&files)?;
    let chart = chart("c", &files);
    let crds = match arguments.include_crds {
        true => listing::crds(&chart),
        false => Vec::new(),
    };
    let mut answer = json!({});
    match &arguments.output_dir {
        None => answer["output"] = listing::text(&crds, &sorted, &arguments.choices)?.into(),
        Some(directory) => {
            let release = arguments.release_name.then_some("r");
            let mut there: BTreeMap<String, String> =
                serde_json::from_value(case["there"].clone()).unwrap_or_default();
            let mut output = String::new();
            for write in listing::files(directory, release, &crds, &sorted, &arguments.choices) {
                let path = write
                    .path
                    .split('/')
                    .filter(|part| !matches!(*part, "" | "."))
                    .collect::<Vec<_>>();
                let file = there.entry(path.join("/")).or_default();
                if write.mode == WriteMode::Replace {
                    file.clear();
                }
                file.push_str(&write.text);
                output.push_str(&format!("wrote {}\n", write.path));
            }
            output.push_str(&listing::text(&[], &Sorted::default(), &arguments.choices)?);
            answer["output"] = output.into();
            answer["written"] = json!(there);
        }
    }
    Ok(answer)
}

/// Our YAML errors have their own texts; where helm gives a line, it is the document's line.
fn is_alike(got: &str, wanted: &str) -> bool {
    let words = "error converting YAML to JSON: yaml: ";
    match (
        got.split_once(words),
        wanted.split_once("error converting YAML to JSON: "),
    ) {
        (Some((file, _)), Some((wanted, _))) => file == wanted,
        _ => got == wanted,
    }
}

#[test]
fn lists_as_helm_does() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("../golden/listings.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let about = &case["about"];
        match answer(&case) {
            Ok(answer) => {
                for part in ["output", "written"] {
                    if answer.get(part) != case.get(part) {
                        failures.push(format!(
                            "{about} {part}\n got {}\nwant {}",
                            answer[part], case[part]
                        ));
                    }
                }
            }
            Err(error) => {
                let got = told(error.as_ref());
                let wanted = case["error"].as_str().unwrap_or("no error");
                if !is_alike(&got, wanted) {
                    failures.push(format!("{about}\n got {got}\nwant {wanted}"));
                }
            }
        }
        let files = serde_json::from_value(case["files"].clone()).unwrap();
        if let Ok(sorted) = sorted(&files) {
            let got = serde_json::to_value(&sorted.hooks).unwrap();
            let wanted = case.get("hooks").cloned().unwrap_or(json!([]));
            if got != wanted {
                failures.push(format!("{about} hooks\n got {got}\nwant {wanted}"));
            }
        }
    }
    assert!(count >= 110, "{count}");
    assert!(
        failures.is_empty(),
        "{} fail\n{}",
        failures.len(),
        failures.join("\n")
    );
}
