//! Ginkgo's report, and the list of tests that pass.

use std::error::Error;
use std::path::Path;

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// With the first line of the reason.
    Failed(String),
}

pub(super) fn read(path: &Path) -> Result<Vec<Spec>, Box<dyn Error>> {
    let report: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    Ok(specs(&report))
}

/// The tests that ran; a failed preparation of the suite counts as a test.
fn specs(report: &Value) -> Vec<Spec> {
    let reports = report[0]["SpecReports"].as_array().into_iter().flatten();
    reports
        .filter(|spec| spec["State"] != "skipped" && spec["State"] != "pending")
        .filter(|spec| spec["LeafNodeType"] == "It" || spec["State"] != "passed")
        .map(|spec| {
            let texts = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
            let mut parts: Vec<&str> = texts.filter_map(Value::as_str).collect();
            parts.extend(spec["LeafNodeText"].as_str().filter(|text| !text.is_empty()));
            if parts.is_empty() {
                parts.extend(spec["LeafNodeType"].as_str());
            }
            let outcome = match spec["State"].as_str() {
                Some("passed") => Outcome::Passed,
                state => Outcome::Failed(reason(spec, state.unwrap_or("unknown"))),
            };
            Spec {
                name: parts.join(" "),
                outcome,
            }
        })
        .collect()
}

fn reason(spec: &Value, state: &str) -> String {
    let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
    let line: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(2)
        .collect();
    match line.as_slice() {
        [] => state.to_owned(),
        line => line.join(" "),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) new: Vec<String>,
    pub(super) lost: Vec<String>,
    /// The list with the new names.
    pub(super) text: String,
}

pub(super) fn compare(listed: &str, passed: &[&str]) -> Comparison {
    let listed: Vec<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    let missing = |from: &[&str], of: &[&str]| -> Vec<String> {
        let kept = of.iter().filter(|name| !from.contains(name));
        kept.map(|name| (*name).to_owned()).collect()
    };
    let new = missing(&listed, passed);
    let lost = missing(passed, &listed);
    let mut all: Vec<&str> = listed.clone();
    all.extend(new.iter().map(String::as_str));
    all.sort_unstable();
    let text = all.iter().map(|name| format!("{name}\n")).collect();
    Comparison { new, lost, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lost_test_is_named_and_stays_listed() {
        let comparison = compare("a\nb\n", &["c", "a"]);
        assert_eq!(comparison.new, ["c"]);
        assert_eq!(comparison.lost, ["b"]);
        assert_eq!(comparison.text, "a\nb\nc\n");
    }

    #[test]
    fn report_has_one_entry_for_each_test_that_ran() {
        let report = json!([{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-x] Watch"], "LeafNodeText": "works", "State": "passed"},
            {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-x] Watch"], "LeafNodeText": "waits", "State": "skipped"},
            {"LeafNodeType": "It", "LeafNodeText": "ends", "State": "failed", "Failure": {"Message": "no pod\n  after 5 s\n  at all"}},
            {"LeafNodeType": "SynchronizedAfterSuite", "State": "failed"},
        ]}]);
        let spec = |name: &str, outcome| Spec {
            name: name.to_owned(),
            outcome,
        };
        assert_eq!(
            specs(&report),
            [
                spec("[sig-x] Watch works", Outcome::Passed),
                spec("ends", Outcome::Failed("no pod after 5 s".to_owned())),
                spec("SynchronizedAfterSuite", Outcome::Failed("failed".to_owned())),
            ]
        );
    }
}
