//! Our own cases, one rule each: `tests/cases/TOPIC/RULE.txt` in the format of [`format`](self::format).
//!
//! `cargo xtask baseline kustomize` records kustomize's answers there. Where ours differ, the case gives the
//! reason.

mod format;
mod spec;

use crate::memory::Memory;
use equate_kustomize::{LoadRestriction, Options, Order, build, kustomize};
use format::{Case, Content};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

struct Outcome {
    result: Result<String, String>,
    warnings: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn tree(case: &Case) -> Memory {
    let mut tree = Memory::default();
    for file in case.files.iter().filter(|file| !file.for_the_judge) {
        match &file.content {
            Content::Bytes(bytes) => tree.put(&file.path, bytes),
            Content::Link(target) => tree.link(&file.path, target),
        }
    }
    tree
}

fn run(case: &Case) -> Outcome {
    let tree = tree(case);
    let given = case.files.iter().find(|file| file.path == format::SPEC);
    let built = match given.map(|file| &file.content) {
        Some(Content::Bytes(text)) => {
            let spec = spec::read(&case.build, std::str::from_utf8(text).unwrap());
            build(&tree, &spec)
        }
        _ => {
            let options = Options {
                restriction: if case.any_file {
                    LoadRestriction::Tree
                } else {
                    LoadRestriction::Root
                },
                order: if case.legacy_order {
                    Order::Legacy
                } else {
                    Order::Input
                },
                ..Options::default()
            };
            kustomize(&tree, &case.build, &options)
        }
    };
    match built {
        Ok(built) => Outcome {
            result: Ok(built
                .objects
                .into_iter()
                .map(|resource| equate_manifest::yaml::to_string(&resource.object.into_value()))
                .collect::<Vec<_>>()
                .join("---\n")),
            warnings: built.deprecations.iter().fold(String::new(), |mut text, told| {
                let _ = writeln!(text, "{told}");
                text
            }),
        },
        Err(error) => {
            let mut text = format!("{error}\n");
            let mut cause = error.source();
            while let Some(error) = cause {
                let _ = writeln!(text, "  caused by: {error}");
                cause = error.source();
            }
            Outcome {
                result: Err(text),
                warnings: String::new(),
            }
        }
    }
}

fn complaint(case: &Case) -> Option<String> {
    let Outcome { result, warnings } = run(case);
    let differs = case.answer("difference").is_some() || !case.judged;
    let ours = case
        .answer("our output")
        .map(Ok)
        .or(case.answer("our error").map(Err));
    let expected = match (case.answer("output"), case.answer("error")) {
        _ if differs => ours,
        (Some(output), None) => Some(Ok(output)),
        (None, Some(_)) => case.answer("our error").map(Err),
        _ => None,
    };
    let Some(expected) = expected else {
        return Some(format!("nothing is expected of it; found {}", text_of(&result)));
    };
    let found = match &result {
        Ok(output) => Ok(output.as_str()),
        Err(error) => Err(error.as_str()),
    };
    if found != expected {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        return Some(format!(
            "expected {}\nfound {}",
            text_of(&expected),
            text_of(&result)
        ));
    }
    let known = case.answer("warnings").unwrap_or_default();
    (result.is_ok() && warnings != known).then(|| format!("expected warnings\n{known}found\n{warnings}"))
}

fn text_of(result: &Result<String, String>) -> String {
    match result {
        Ok(output) => format!("output\n{output}"),
        Err(error) => format!("error\n{error}"),
    }
}

fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Replays the cases of one topic. `CASE` in the environment selects by substring of the name.
fn check(topic: &str) {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let folder = folder().join(topic);
    let mut wrong = Vec::new();
    let names = listing(&folder);
    assert!(!names.is_empty(), "{topic} has no cases");
    for name in names.iter().filter(|name| name.contains(&wanted)) {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let complaint = match Case::parse(&text) {
            Ok(case) => complaint(&case),
            Err(problem) => Some(problem),
        };
        if let Some(complaint) = complaint {
            wrong.push(format!("== {topic}/{name}\n{complaint}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! topics {
    ($($name:ident),* $(,)?) => {
        const TOPICS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

topics!(
    build_metadata,
    components,
    configurations,
    flux,
    generators,
    hashing,
    images,
    kustomization_file,
    labels_and_annotations,
    load_restrictions,
    name_references,
    names,
    namespace,
    openapi,
    ordering,
    output,
    patches_json,
    patches_strategic,
    plugins,
    reading,
    replacements,
    replicas,
    resources,
    substitution,
    vars,
);

/// A topic that the command line's tests replay, with charts rendered.
const ELSEWHERE: &str = "charts";

#[test]
fn every_topic_is_replayed() {
    let folders: BTreeSet<String> = listing(&folder())
        .into_iter()
        .filter(|name| !name.ends_with(".md"))
        .collect();
    let known = TOPICS.iter().chain([&ELSEWHERE]).map(|&name| name.to_owned());
    let known: BTreeSet<String> = known.collect();
    assert_eq!(folders, known);
}

#[test]
fn answer_names_are_valid() {
    for topic in TOPICS.iter().chain([&ELSEWHERE]) {
        for name in listing(&folder().join(topic)) {
            let text = std::fs::read_to_string(folder().join(topic).join(&name)).unwrap();
            let case = Case::parse(&text).unwrap();
            let found: Vec<&str> = case.answer_names().filter(|name| *name != "warnings").collect();
            let shapes: [&[&str]; 7] = [
                &["output"],
                &["error", "our error"],
                &["output", "difference", "our output"],
                &["output", "difference", "our error"],
                &["error", "difference", "our output"],
                &["our output"],
                &["our error"],
            ];
            assert!(shapes.contains(&&found[..]), "{topic}/{name}: {found:?}");
            let judged = found.contains(&"output") || found.contains(&"error");
            assert_eq!(case.judged, judged, "{topic}/{name}");
            assert_eq!(case.enable_helm, *topic == ELSEWHERE, "{topic}/{name}");
            // a rewrite by the baseline changes no other byte
            let recorded: Vec<(&str, String)> = ["output", "error", "warnings"]
                .into_iter()
                .filter_map(|name| Some((name, case.answer(name)?.to_owned())))
                .collect();
            assert_eq!(case.with_answers(&recorded), text, "{topic}/{name}");
        }
    }
}

/// Every error of a case is in its text, which the replay compares.
#[test]
fn errors_do_not_speak_of_go_and_system_calls() {
    for topic in TOPICS.iter().chain([&ELSEWHERE]) {
        for name in listing(&folder().join(topic)) {
            let text = std::fs::read_to_string(folder().join(topic).join(&name)).unwrap();
            let case = Case::parse(&text).unwrap();
            let ours = case.answer("our error").unwrap_or_default();
            for word in ["evalsymlink", "lstat", "Go struct field"] {
                assert!(!ours.contains(word), "{topic}/{name}: {ours}");
            }
        }
    }
}
