//! Acceptance of a definition's names, then its establishment.
//!
//! Pure: the names of other definitions are an argument. The order is that of upstream's naming and
//! establishing controllers, in one step.

use serde_json::{Map, Value, json};

/// The accepted names of the other definitions of a group.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClaimedNames {
    /// Plurals, singulars and short names.
    pub(crate) resources: Vec<String>,
    /// Kinds and list kinds.
    pub(crate) kinds: Vec<String>,
}

impl ClaimedNames {
    pub(crate) fn of_group<'a>(
        group: &str,
        own_name: &str,
        definitions: impl Iterator<Item = &'a Value>,
    ) -> Self {
        let mut out = Self::default();
        for crd in definitions {
            let is_own = crd.pointer("/metadata/name").and_then(Value::as_str) == Some(own_name);
            if is_own || crd.pointer("/spec/group").and_then(Value::as_str) != Some(group) {
                continue;
            }
            let Some(names) = crd.pointer("/status/acceptedNames") else {
                continue;
            };
            let mut claim = |field: &str, to_kinds: bool| {
                if let Some(name) = names.get(field).and_then(Value::as_str).filter(|n| !n.is_empty()) {
                    let list = if to_kinds {
                        &mut out.kinds
                    } else {
                        &mut out.resources
                    };
                    list.push(name.to_owned());
                }
            };
            claim("plural", false);
            claim("singular", false);
            claim("kind", true);
            claim("listKind", true);
            let short = names
                .get("shortNames")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            out.resources
                .extend(short.filter_map(Value::as_str).map(str::to_owned));
        }
        out
    }
}

pub(crate) fn condition_is_true(crd: &Value, kind: &str) -> bool {
    crd.pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|c| c.get("type") == Some(&json!(kind)) && c.get("status") == Some(&json!("True")))
}

/// The new status: accepted names, NamesAccepted, Established. `now` is RFC 3339.
///
/// Equal to the stored status when nothing changes.
pub(crate) fn establish(crd: &Value, claimed: &ClaimedNames, now: &str) -> Value {
    let mut status = crd.get("status").cloned().unwrap_or_else(|| json!({}));
    let empty = Value::Object(Map::new());
    let wanted = crd.pointer("/spec/names").unwrap_or(&empty);
    let accepted = status.get("acceptedNames").cloned().unwrap_or_else(|| json!({}));
    if *wanted == accepted && condition_is_true(crd, "NamesAccepted") && condition_is_true(crd, "Established")
    {
        return status;
    }
    let mut granted = accepted.clone();
    let mut conflict: Option<(&str, String)> = None;
    let mut claim = |field: &str, used: &[String], reason: &'static str| {
        let name = wanted.get(field);
        let is_free = name == accepted.get(field)
            || !name
                .and_then(Value::as_str)
                .is_some_and(|n| used.iter().any(|u| u == n));
        if is_free {
            set(&mut granted, field, name);
        } else {
            conflict = Some((reason, in_use(name)));
        }
    };
    claim("plural", &claimed.resources, "PluralConflict");
    claim("singular", &claimed.resources, "SingularConflict");
    // A conflict of short names overrides the two before it, and those after override it.
    let owned: Vec<&Value> = accepted
        .get("shortNames")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let taken: Vec<String> = wanted
        .get("shortNames")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|name| !owned.contains(name))
        .filter(|name| {
            name.as_str()
                .is_some_and(|n| claimed.resources.iter().any(|u| u == n))
        })
        .map(|name| in_use(Some(name)))
        .collect();
    if taken.is_empty() {
        set(&mut granted, "shortNames", wanted.get("shortNames"));
    } else {
        let message = if taken.len() == 1 {
            taken.concat()
        } else {
            format!("[{}]", taken.join(", "))
        };
        conflict = Some(("ShortNamesConflict", message));
    }
    let mut claim = |field: &str, reason: &'static str| {
        let name = wanted.get(field);
        let is_free = name == accepted.get(field)
            || !name
                .and_then(Value::as_str)
                .is_some_and(|n| claimed.kinds.iter().any(|u| u == n));
        if is_free {
            set(&mut granted, field, name);
        } else {
            conflict = Some((reason, in_use(name)));
        }
    };
    claim("kind", "KindConflict");
    claim("listKind", "ListKindConflict");
    set(&mut granted, "categories", wanted.get("categories"));

    let established = condition_is_true(crd, "Established");
    let is_accepted = conflict.is_none();
    let (names_status, reason, message) = match conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", reason, message),
    };
    if let Value::Object(map) = &mut status {
        map.insert("acceptedNames".to_owned(), granted);
    }
    set_condition(&mut status, "NamesAccepted", names_status, reason, &message, now);
    if is_accepted && !established {
        let message = "the initial names have been accepted";
        set_condition(
            &mut status,
            "Established",
            "True",
            "InitialNamesAccepted",
            message,
            now,
        );
    } else if !is_accepted && find(&status, "Established").is_none() {
        let message = "not all names are accepted";
        set_condition(&mut status, "Established", "False", "NotAccepted", message, now);
    }
    status
}

pub(crate) fn deletion_pending(crd: &Value, now: &str) -> Value {
    let mut status = crd.get("status").cloned().unwrap_or_else(|| json!({}));
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        &mut status,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        message,
        now,
    );
    status
}

pub(crate) fn terminating(crd: &Value, now: &str) -> Value {
    let mut status = crd.get("status").cloned().unwrap_or_else(|| json!({}));
    set_condition(
        &mut status,
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
        now,
    );
    status
}

fn in_use(name: Option<&Value>) -> String {
    let name = name.and_then(Value::as_str).unwrap_or_default();
    format!("{} is already in use", crate::field::go_quote(name))
}

fn set(names: &mut Value, field: &str, value: Option<&Value>) {
    if let Value::Object(map) = names {
        match value {
            Some(value) => {
                map.insert(field.to_owned(), value.clone());
            }
            None => {
                map.remove(field);
            }
        }
    }
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status
        .get("conditions")?
        .as_array()?
        .iter()
        .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

fn set_condition(status: &mut Value, kind: &str, value: &str, reason: &str, message: &str, now: &str) {
    let since = find(status, kind)
        .filter(|c| c.get("status").and_then(Value::as_str) == Some(value))
        .and_then(|c| c.get("lastTransitionTime").and_then(Value::as_str))
        .unwrap_or(now)
        .to_owned();
    let condition = json!({
        "type": kind, "status": value, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let Value::Object(map) = status else { return };
    let conditions = map.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Value::Array(list) = conditions {
        match list
            .iter_mut()
            .find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
        {
            Some(existing) => *existing = condition,
            None => list.push(condition),
        }
    }
}
