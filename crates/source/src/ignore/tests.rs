//! Compares with decisions of Flux's matcher: `baseline/flux-0.18.jsonl`, recorded by `baseline/record.go`.

use std::collections::BTreeMap;

use super::glob::Glob;
use super::{Ignore, IgnoreDecision, IgnoreFile, Rules};
use crate::pauses::Pauses;

/// Decides `path` as a walk from the root would. Also returns whether the walk would reach it, skipping
/// directories below which nothing can be included again.
fn decide(rules: &Rules, path: &str) -> (bool, bool) {
    let names: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let mut decision = IgnoreDecision::default();
    let (mut reached, pauses) = (true, Pauses::none());
    for length in 1..=names.len() {
        let is_directory = length < names.len() || path.ends_with('/');
        decision = rules
            .decide(decision, &names[..length], is_directory, &pauses)
            .unwrap();
        if length < names.len() && decision.is_excluded() {
            reached &= rules
                .may_include_below(decision, &names[..length], &pauses)
                .unwrap();
        }
    }
    (decision.is_excluded(), reached)
}

fn files(found: &BTreeMap<String, String>) -> Vec<IgnoreFile> {
    let mut files: Vec<IgnoreFile> = found
        .iter()
        .map(|(directory, text)| IgnoreFile {
            directory: directory.clone(),
            text: text.clone(),
        })
        .collect();
    files.sort_by(|one, other| one.directory.split('/').cmp(other.directory.split('/')));
    files
}

#[test]
fn decisions_match_flux() {
    let strings = |value: &serde_json::Value| -> Vec<String> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in include_str!("baseline/flux-0.18.jsonl").lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let spec = record["spec"].as_str();
        let found: BTreeMap<String, String> = record["files"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(directory, text)| (directory.clone(), text.as_str().unwrap().to_owned()))
            .collect();
        let rules = Ignore::new(spec).rules(&files(&found));
        for (paths, left_out) in [(strings(&record["out"]), true), (strings(&record["kept"]), false)] {
            for path in paths {
                compared += 1;
                let (excluded, reached) = decide(&rules, &path);
                if excluded != left_out || (!left_out && !reached) {
                    wrong.push(format!("{path} left out: {left_out}, here {excluded} (reached: {reached}); {spec:?} {found:?}"));
                }
            }
        }
    }
    assert!(compared > 8000, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn names_match_like_gos_filepath_match() {
    let check = |pattern: &str, names: &[(&str, bool)]| {
        let glob = Glob::parse(pattern);
        for (name, matches) in names {
            let own = glob.as_ref().is_some_and(|glob| glob.matches(name));
            assert_eq!(own, *matches, "{pattern:?} against {name:?}");
        }
    };
    check("abc", &[("abc", true), ("ab", false), ("abcd", false)]);
    check("*", &[("", true), ("abc", true)]);
    check("*c", &[("abc", true), ("abcb", false), ("c", true), ("cc", true)]);
    check(
        "a*b*c",
        &[("abc", true), ("aXbYc", true), ("abcb", false), ("abbbcc", true)],
    );
    check("a?c", &[("abc", true), ("aäc", true), ("ac", false)]);
    check("[a-c]x", &[("bx", true), ("dx", false)]);
    check("[^a-c]x", &[("bx", false), ("dx", true)]);
    check("[!a]", &[("!", true), ("a", true), ("b", false)]);
    check("[\\-x]", &[("-", true), ("x", true)]);
    check("\\*", &[("*", true), ("a", false)]);
    for malformed in [
        "[", "[]", "[]a]", "[-]", "[x-]", "[a-b-c]", "[a", "\\", "a[", "[^",
    ] {
        assert_eq!(Glob::parse(malformed), None, "{malformed:?}");
    }
}

/// Exponential in other matchers: here only the last `*` is retried.
#[test]
fn many_stars_match_in_bounded_time() {
    let glob = Glob::parse(&"a*".repeat(60)).unwrap();
    assert!(!glob.matches(&format!("{}b", "ab".repeat(30))[1..]));
    assert!(glob.matches(&"a".repeat(200)));
}
