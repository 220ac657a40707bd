//! The policies of Jobs: which failed pods count, and when an indexed Job succeeds early. Pure.

use crate::builtin::tree::{annotation, get, int, items, text};
use crate::controllers::object::meta;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The effect of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Count,
    Ignore,
    FailIndex,
    FailJob(String),
}

pub(super) fn index_of(pod: &Value) -> Option<usize> {
    annotation(pod, INDEX)?.parse().ok()
}

pub(super) fn count_of(pod: &Value, name: &str) -> i64 {
    annotation(pod, name)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// The first rule of `podFailurePolicy` that matches a failed pod.
pub(super) fn verdict(job: &Value, pod: &Value) -> Verdict {
    for (nth, rule) in items(job, "spec.podFailurePolicy.rules").iter().enumerate() {
        let action = text(rule, "action");
        let Some(cause) = cause(rule, pod) else {
            continue;
        };
        match action {
            "Ignore" => return Verdict::Ignore,
            "FailIndex" => return Verdict::FailIndex,
            "FailJob" => return Verdict::FailJob(format!("{cause} matching {action} rule at index {nth}")),
            _ => return Verdict::Count,
        }
    }
    Verdict::Count
}

fn cause(rule: &Value, pod: &Value) -> Option<String> {
    let (namespace, name) = (meta(pod, "namespace"), meta(pod, "name"));
    let exits = get(rule, "onExitCodes");
    if !exits.is_null() {
        let lists = ["status.containerStatuses", "status.initContainerStatuses"];
        let mut statuses = lists.into_iter().flat_map(|list| items(pod, list));
        let status = statuses.find(|status| matches_exit(exits, status))?;
        let code = int(status, "state.terminated.exitCode")?;
        let container = text(status, "name");
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let mut conditions = items(pod, "status.conditions").iter();
    let condition = conditions.find(|condition| {
        let mut patterns = items(rule, "onPodConditions").iter();
        patterns.any(|p| p["type"] == condition["type"] && p["status"] == condition["status"])
    })?;
    let kind = text(condition, "type");
    Some(format!("Pod {namespace}/{name} has condition {kind}"))
}

fn matches_exit(exits: &Value, status: &Value) -> bool {
    let container = text(exits, "containerName");
    let code = get(status, "state.terminated.exitCode");
    let is_other = !container.is_empty() && text(status, "name") != container;
    if is_other || code.as_i64().is_none_or(|code| code == 0) {
        return false;
    }
    let listed = items(exits, "values").contains(code);
    match text(exits, "operator") {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Whether this failed pod fails its index.
pub(super) fn fails_index(job: &Value, pod: &Value) -> bool {
    let limit = int(job, "spec.backoffLimitPerIndex").unwrap_or(i64::MAX);
    match verdict(job, pod) {
        Verdict::FailIndex => true,
        Verdict::Ignore => false,
        Verdict::Count | Verdict::FailJob(_) => count_of(pod, FAILURES) >= limit,
    }
}

/// The message of the first rule of `successPolicy` that the succeeded indexes meet.
pub(super) fn success(job: &Value, succeeded: &BTreeSet<usize>) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rules = items(job, "spec.successPolicy.rules");
    let met = |rule: &Value| {
        let count = int(rule, "succeededCount").and_then(|count| usize::try_from(count).ok());
        match text(rule, "succeededIndexes") {
            "" => count.is_some_and(|count| succeeded.len() >= count),
            listed => {
                let listed = parse_indexes(listed);
                let there = listed.intersection(succeeded).count();
                !listed.is_empty() && (there == listed.len() || count.is_some_and(|count| there >= count))
            }
        }
    };
    let nth = rules.iter().position(met)?;
    Some(format!("Matched rules at index {nth}"))
}

pub(super) fn parse_indexes(text: &str) -> BTreeSet<usize> {
    let mut out = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            out.extend(first..=last);
        }
    }
    out
}

pub(super) fn show_indexes(indexes: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn first_matching_rule_decides() {
        let rules = json!([
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
            { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } },
            { "action": "FailIndex", "onExitCodes": { "containerName": "c", "operator": "NotIn", "values": [1, 42] } },
        ]);
        let job = json!({ "spec": { "podFailurePolicy": { "rules": rules } } });
        let check = |container: &str, code: i64, disrupted: &str, expected: Verdict| {
            let pod = json!({
                "metadata": { "name": "p", "namespace": "n" },
                "status": {
                    "conditions": [{ "type": "DisruptionTarget", "status": disrupted }],
                    "containerStatuses": [{ "name": container, "state": { "terminated": { "exitCode": code } } }],
                },
            });
            assert_eq!(verdict(&job, &pod), expected, "{container} {code}");
        };
        check("c", 42, "True", Verdict::Ignore);
        let message = "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        check("c", 42, "False", Verdict::FailJob(message.to_owned()));
        check("c", 3, "False", Verdict::FailIndex);
        check("d", 3, "False", Verdict::Count);
        check("c", 1, "False", Verdict::Count);
    }

    #[test]
    fn success_rules_take_indexes_and_counts() {
        let check = |rule: Value, succeeded: &str, met: bool| {
            let job = json!({ "spec": { "successPolicy": { "rules": [rule] } } });
            let found = success(&job, &parse_indexes(succeeded));
            assert_eq!(found.is_some(), met, "{job} {succeeded}");
        };
        check(json!({ "succeededIndexes": "0,2-3" }), "0-3", true);
        check(json!({ "succeededIndexes": "0,2-3" }), "0-2", false);
        check(
            json!({ "succeededIndexes": "0-4", "succeededCount": 2 }),
            "1,3",
            true,
        );
        check(
            json!({ "succeededIndexes": "0-1", "succeededCount": 2 }),
            "1,3",
            false,
        );
        check(json!({ "succeededCount": 2 }), "1", false);
        check(json!({ "succeededCount": 1 }), "1", true);
        check(json!({ "succeededCount": 0 }), "", false);
    }
}
