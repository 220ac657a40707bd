//! The status of an object as every command shows it: the reason and message of its condition.
//!
//! kstatus's words are for machines; `generation is 1, but latest observed generation is -1` tells a reader
//! nothing.

use equate_apply::health::{self, Status};
use equate_manifest::object::Object;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) const NOT_RECONCILED: &str = "waiting to be reconciled";
pub(crate) const UNSUPPORTED: &str = "unsupported: Equate has no controller for it yet";
const LAGS: &str = "its last change is not reconciled yet";
/// kstatus's words about an object whose controller has not seen it, before the observed generation.
const UNOBSERVED: &str = ", but latest observed generation is ";

/// A message of kstatus as every command shows it.
pub(crate) fn in_words(message: &str) -> &str {
    match message.split_once(UNOBSERVED) {
        Some((_, "-1")) => NOT_RECONCILED,
        Some(_) => LAGS,
        None => message,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatusText {
    pub(crate) status: Status,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
}

impl StatusText {
    pub(crate) fn of(object: &Object) -> Self {
        let health = health::compute_at(object, Timestamp::now());
        let ready = condition(object, "Ready");
        let since = ready.and_then(|ready| text(ready, "lastTransitionTime").parse().ok());
        let made = |reason: &str, message: &str| Self {
            status: health.status,
            reason: reason.to_owned(),
            message: message.to_owned(),
            since,
        };
        let observed = object
            .0
            .get("status")
            .and_then(|status| status.get("observedGeneration"));
        let observed = observed.and_then(Value::as_i64);
        let generation = object
            .metadata()
            .and_then(|meta| meta.get("generation")?.as_i64());
        // pods have a Ready condition, too, which tells less than their phase
        let ready = ready.filter(|_| !is_workload(object));
        match ready {
            Some(ready) if health.status == Status::Current => made("", text(ready, "message")),
            Some(ready) if !text(ready, "message").is_empty() => {
                made(text(ready, "reason"), text(ready, "message"))
            }
            Some(ready) => made(text(ready, "reason"), &health.message),
            None if health.status != Status::InProgress => made("", &health.message),
            None => match (generation, observed) {
                (Some(_), Some(-1)) => made("", NOT_RECONCILED),
                (Some(generation), Some(observed)) if generation != observed => made("", LAGS),
                _ => made("", &health.message),
            },
        }
    }

    /// The reason and the message, or the message alone where all is well.
    pub(crate) fn line(&self) -> String {
        line(&self.reason, &self.message)
    }
}

pub(crate) fn line(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn is_workload(object: &Object) -> bool {
    object.kind() == "Pod" && object.api_version() == "v1"
}

fn condition<'o>(object: &'o Object, kind: &str) -> Option<&'o Value> {
    let conditions = object.0.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn text<'v>(condition: &'v Value, field: &str) -> &'v str {
    condition[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_is_that_of_the_ready_condition() {
        let check = |status: Value, expected: &str| {
            let object = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": { "name": "apps", "generation": 2 }, "status": status,
            });
            assert_eq!(
                StatusText::of(&Object::from_value(object).unwrap()).line(),
                expected
            );
        };
        let ready = |status: &str| json!([{ "type": "Ready", "status": status, "reason": "BuildFailed", "message": "no such file" }]);
        check(json!({ "observedGeneration": -1 }), NOT_RECONCILED);
        check(
            json!({ "observedGeneration": 1 }),
            "its last change is not reconciled yet",
        );
        check(
            json!({ "observedGeneration": -1, "conditions": ready("False") }),
            "BuildFailed: no such file",
        );
        check(
            json!({ "observedGeneration": 2, "conditions": ready("True") }),
            "no such file",
        );
    }

    #[test]
    fn generations_are_said_in_words() {
        let message = |observed: i64| {
            format!("Kustomization generation is 1, but latest observed generation is {observed}")
        };
        assert_eq!(in_words(&message(-1)), NOT_RECONCILED);
        assert_eq!(in_words(&message(2)), LAGS);
        assert_eq!(in_words("Replicas: 1/2"), "Replicas: 1/2");
    }

    #[test]
    fn other_kinds_keep_their_message() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "replicas": 2 }, "status": { "replicas": 1 },
        });
        let status = StatusText::of(&Object::from_value(object).unwrap());
        assert_eq!(status.line(), "Replicas: 1/2");
    }
}
