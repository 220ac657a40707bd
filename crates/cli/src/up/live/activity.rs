//! Derives the lines of the activity pane from Events. Pure.

use crate::events;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use std::collections::VecDeque;

/// Lines that are kept.
const KEPT: usize = 200;
/// Objects that are named in one line.
const NAMED: usize = 3;
/// The words for applied objects in the controllers' events.
const VERBS: [&str; 4] = ["created", "configured", "recreated", "deleted"];
/// Reasons of events about a run that went as usual.
const QUIET: [&str; 3] = [
    "ReconciliationSucceeded",
    "DependencyNotReady",
    "GitOperationSucceeded",
];
const HEALTHY: &str = "Health check passed";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    uid: String,
    pub(super) when: Option<Timestamp>,
    pub(super) object: String,
    pub(super) text: String,
    pub(super) warning: bool,
}

/// The latest activity, oldest first.
#[derive(Debug, Default)]
pub(super) struct Activity(VecDeque<Said>);

impl Activity {
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Said> {
        self.0.iter()
    }

    /// Adds the events in their order; a repeated one moves to the end.
    pub(super) fn add(&mut self, mut found: Vec<Event>) {
        found.sort_by_key(events::order);
        for event in found.into_iter().filter(tells) {
            let said = said(&event);
            self.0.retain(|other| other.uid != said.uid);
            self.0.push_back(said);
            if self.0.len() > KEPT {
                self.0.pop_front();
            }
        }
    }

    /// Adds a line about the program itself.
    pub(super) fn note(&mut self, when: Timestamp, text: String) {
        self.0.push_back(Said {
            uid: String::new(),
            when: Some(when),
            object: "equate".to_owned(),
            text,
            warning: true,
        });
    }
}

/// Whether an event tells something that the rows do not.
fn tells(event: &Event) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let quiet = QUIET.contains(&text(&event.reason).as_str()) || text(&event.message).starts_with(HEALTHY);
    !quiet || text(&event.type_) == "Warning"
}

fn said(event: &Event) -> Said {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let object = &event.involved_object;
    let place = match object.namespace.as_deref() {
        None | Some("" | equate_api::meta::DEFAULT_NAMESPACE) => String::new(),
        Some(namespace) => format!("{namespace}/"),
    };
    let message = digest(event.message.as_deref().unwrap_or_default());
    let warning = event.type_.as_deref() == Some("Warning");
    Said {
        uid: text(&event.metadata.uid),
        when: events::last_seen(event),
        object: format!("{}/{place}{}", text(&object.kind), text(&object.name)),
        text: match warning {
            true => format!("{}: {message}", text(&event.reason)),
            false => message,
        },
        warning,
    }
}

/// A list of applied objects by their number, with the names of those that were deleted; another message
/// as one line.
fn digest(message: &str) -> String {
    let mut counts: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut others = Vec::new();
    let mut left_out = 0;
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.rsplit_once(' ') {
            Some((object, verb)) if VERBS.contains(&verb) && !object.contains(' ') => {
                match counts.iter_mut().find(|(known, _)| *known == verb) {
                    Some((_, objects)) => objects.push(object),
                    None => counts.push((verb, vec![object])),
                }
            }
            _ if !counts.is_empty() && number_left_out(line).is_some() => {
                left_out = number_left_out(line).unwrap_or_default();
            }
            _ => others.push(line.to_owned()),
        }
    }
    let last = counts.len();
    let counts = counts.into_iter().enumerate().map(|(at, (verb, objects))| {
        let named: Vec<&str> = objects.iter().take(NAMED).copied().collect();
        // a long list ends in its last objects
        let left_out = if at + 1 == last { left_out } else { 0 };
        let more = objects.len() - named.len() + left_out;
        let named = named.join(", ");
        match more {
            0 => format!("{verb} {named}"),
            more => format!("{verb} {named} and {more} more"),
        }
    });
    others.extend(counts);
    others.join("; ")
}

/// The number in the last line of a shortened list.
fn number_left_out(line: &str) -> Option<usize> {
    let number = line.strip_prefix("and ")?;
    let number = number
        .strip_suffix(" more lines")
        .or_else(|| number.strip_suffix(" more line"));
    number?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn lists_of_objects_are_counted() {
        let check = |message: &str, expected: &str| assert_eq!(digest(message), expected);
        check(
            "stored artifact for commit 'Add web'",
            "stored artifact for commit 'Add web'",
        );
        check(
            "Namespace/web created\nService/web/web created\nConfigMap/web/a configured\n",
            "created Namespace/web, Service/web/web; configured ConfigMap/web/a",
        );
        check(
            "A/a created\nA/b created\nA/c created\nA/d created\nA/e created",
            "created A/a, A/b, A/c and 2 more",
        );
        check(
            "A/a created\nA/b created\nA/c created\nA/d created\nand 396 more lines",
            "created A/a, A/b, A/c and 397 more",
        );
        check("A/a created\nand 1 more line", "created A/a and 1 more");
        check("and 3 more lines", "and 3 more lines");
        check(
            "Deployment/web/web corrected .spec.replicas 7 -> 2, written by kubectl",
            "Deployment/web/web corrected .spec.replicas 7 -> 2, written by kubectl",
        );
    }

    #[test]
    fn repeated_event_moves_to_the_end() {
        let event = |uid: &str, version: u32, kind: &str| -> Event {
            let value: Value = json!({
                "metadata": { "uid": uid, "resourceVersion": version.to_string(), "namespace": "flux-system" },
                "involvedObject": { "kind": "Kustomization", "namespace": "flux-system", "name": "apps" },
                "reason": "BuildFailed", "message": uid, "type": kind,
                "lastTimestamp": "2026-01-01T00:00:00Z",
            });
            serde_json::from_value(value).unwrap()
        };
        let mut activity = Activity::default();
        activity.add(vec![event("b", 2, "Normal"), event("a", 1, "Warning")]);
        activity.add(vec![event("a", 3, "Warning")]);
        let lines: Vec<String> = activity
            .iter()
            .map(|said| format!("{} {}", said.object, said.text))
            .collect();
        assert_eq!(
            lines,
            ["Kustomization/apps b", "Kustomization/apps BuildFailed: a"]
        );
    }
}
