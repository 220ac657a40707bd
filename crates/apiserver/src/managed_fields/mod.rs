//! Field ownership: `metadata.managedFields`.
//!
//! Structured merge ([`equate_manifest::merge`]) decides ownership. This layer names the managers, excludes
//! metadata that nobody owns, records and bounds write times, and formats conflicts. The rules are those of
//! apimachinery's `util/managedfields` (1.36). Pure functions: the time is an argument, nothing is stored.
//!
//! Nothing is decoded or defaulted here: objects arrive in normal form, and the caller normalizes the
//! result of an apply.

mod cap;
mod conflict;
mod entries;
mod last_applied;
pub(crate) mod scale;

#[cfg(test)]
mod tests;

use crate::status::ApiError;
use entries::{Identity, Managed, Operation};
use equate_manifest::fieldpath::{Path, Set, UNOWNED_METADATA};
use equate_manifest::merge::{self, Request};
use equate_manifest::typed::{Duplicates, Type};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The owner of the fields from before the first apply to an untracked object.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// metav1 validation.
const NAME_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Manager<'a> {
    /// The manager's name; see [`manager_name`].
    pub(crate) name: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// `status`, ...; empty for the main endpoint.
    pub(crate) subresource: &'a str,
    pub(crate) time: &'a str,
    pub(crate) types: &'a Type,
    /// The base of comparison if nothing is stored: the normal form of an object with only apiVersion and
    /// kind.
    pub(crate) empty: &'a Value,
    pub(crate) reset_fields: &'a [&'a [&'a str]],
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Applied {
    pub(crate) object: Value,
    /// Whether it differs from the stored one in more than `managedFields`.
    pub(crate) changed: bool,
}

/// The `fieldManager` parameter, else the user agent up to its first `/`, else `unknown`.
pub(crate) fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in product
        .chars()
        .filter(|c| *c == ' ' || !(c.is_control() || c.is_whitespace()))
    {
        if name.len() + c.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        name.push(c);
    }
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// Records a create, PUT or patch: returns `new` with its `managedFields`.
///
/// `live` is the stored object, `None` on create. On the main endpoint, `[]` and `[{}]` in the
/// `managedFields` of `new` remove all managers; unreadable or absent entries keep the stored ones. So the
/// caller must not drop an empty `managedFields` before. A stored object without managers stays untracked.
pub(crate) fn update(live: Option<&Value>, mut new: Value, manager: &Manager<'_>) -> Value {
    let said = take_managed_fields(&mut new);
    let live_fields = live.and_then(managed_fields);
    let stored = || Managed::decode(live_fields).unwrap_or_default();
    let managed = match &said {
        _ if !manager.subresource.is_empty() => stored(),
        Some(said) if resets(said) => Managed::default(),
        said => match Managed::decode(said.as_ref()) {
            Ok(managed) if !managed.is_empty() => managed,
            _ => stored(),
        },
    };
    let tracked = live
        .and_then(|live| live.pointer("/metadata/uid"))
        .is_none_or(is_blank);
    if managed.is_empty() && !tracked {
        return new;
    }
    let live = live.map_or_else(|| manager.empty.clone(), without_managed_fields);
    // An object that its own schema refuses cannot be tracked; upstream drops the managers as well.
    if let Ok(managed) = track(&live, &new, managed, manager, manager.name) {
        managed.encode(&mut new);
    }
    new
}

/// Merges a configuration into the stored object (`None`: not created yet) and records ownership.
///
/// Fails with 409 if it would change other managers' fields, unless forced; with 400 for an object of
/// another kind or with `managedFields`; with 500, as upstream does, for one that the schema refuses.
///
/// The entry's time changes only if the merged object differs from the stored one. [`settle_times`] reverts
/// it if defaulting removes the difference.
pub(crate) fn apply(
    live: Option<&Value>,
    patch: &Value,
    force: bool,
    manager: &Manager<'_>,
) -> Result<Applied, ApiError> {
    if text(patch, "/apiVersion") != manager.api_version || text(patch, "/kind") != manager.kind {
        let found = group_version_kind(patch);
        return Err(ApiError::bad_request(format!("invalid object type: {found}")));
    }
    let managed = Managed::decode(live.and_then(managed_fields))
        .map_err(|error| failed(format!("failed to decode managed fields: {error}")))?;
    let live = live.map_or_else(|| manager.empty.clone(), without_managed_fields);
    let managed = if managed.is_empty() {
        track(manager.empty, &live, managed, manager, BEFORE_FIRST_APPLY)
            .map_err(|error| failed(format!("failed to create manager for existing fields: {error}")))?
    } else {
        managed
    };
    if managed_fields(patch).is_some() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    for (what, object, duplicates) in [
        ("patch", patch, Duplicates::Refuse),
        ("live", &live, Duplicates::Allow),
    ] {
        manager.types.validate(object, duplicates).map_err(|errors| {
            let about = describe(object);
            failed(format!(
                "failed to create typed {what} object ({about}): {errors}"
            ))
        })?;
    }

    let again = (manager.name == last_applied::MANAGER).then(|| managed.owners.clone());
    let outcome = merge_applied(&live, patch, managed.owners, force, manager);
    let outcome = match (outcome, again) {
        (Err(merge::ApplyError::Conflicts(conflicts)), Some(owners)) => {
            match last_applied::unresolved(conflicts, &live, manager) {
                conflicts if conflicts.is_empty() => merge_applied(&live, patch, owners, true, manager),
                conflicts => Err(merge::ApplyError::Conflicts(conflicts)),
            }
        }
        (outcome, _) => outcome,
    };
    let (new, owners) = outcome.map_err(|error| match error {
        merge::ApplyError::Conflicts(conflicts) => conflict::error(&conflicts),
        merge::ApplyError::Invalid(errors) => failed(format!("failed to merge config: {errors}")),
    })?;

    let identity = Identity::of(manager, Operation::Apply, manager.name);
    let mut managed = Managed {
        owners,
        times: managed.times,
    };
    strip(&mut managed, &identity);
    let changed = new.is_some();
    if changed {
        managed.times.insert(identity, manager.time.to_owned());
    }
    let mut object = new.unwrap_or(live);
    if manager.name == last_applied::MANAGER {
        last_applied::refresh(&mut object, patch);
    }
    managed.encode(&mut object);
    Ok(Applied { object, changed })
}

/// If `new` equals `live` apart from write times, restores those and returns true: nothing needs to be
/// stored.
pub(crate) fn settle_times(live: &Value, new: &mut Value) -> bool {
    let (Some(before), Some(after)) = (managed_fields(live), managed_fields(new)) else {
        return live == new;
    };
    let same = same_without(live, new, "metadata", |a, b| {
        same_without(a, b, "managedFields", |_, _| true)
    }) && same_but_times(before, after);
    if same {
        set_managed_fields(new, before.clone());
    }
    same
}

/// Compares two objects except for one field, which `field` compares. Copies nothing: every write compares
/// whole objects.
fn same_without(a: &Value, b: &Value, name: &str, field: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return a == b;
    };
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|((key, a), (other, b))| key == other && if key == name { field(a, b) } else { a == b })
}

fn same_but_times(before: &Value, after: &Value) -> bool {
    let (Value::Array(before), Value::Array(after)) = (before, after) else {
        return before == after;
    };
    fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
        entry
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "time")
    }
    before.len() == after.len() && before.iter().zip(after).all(|(a, b)| timeless(a).eq(timeless(b)))
}

/// Records an update of `live` to `new` under a name: only changed fields, and the time only if there are
/// any.
fn track(
    live: &Value,
    new: &Value,
    managed: Managed,
    manager: &Manager<'_>,
    name: &str,
) -> Result<Managed, equate_manifest::typed::Errors> {
    for object in [new, live] {
        manager.types.validate(object, Duplicates::Allow)?;
    }
    let reset = reset_set(manager);
    // Under an identity of its own, to separate its changes from fields it owned before.
    let current = Identity::of(manager, Operation::Current, name);
    let request = Request {
        kind: manager.types,
        manager: current.clone(),
        api_version: manager.api_version,
        ignored: &reset,
    };
    let owners = merge::update(&request, live, new, managed.owners)?;
    let mut managed = Managed {
        owners,
        times: managed.times,
    };
    strip(&mut managed, &current);
    if let Some(mut changed) = managed.owners.remove(&current) {
        let identity = Identity::of(manager, Operation::Update, name);
        if let Some(before) = managed.owners.get(&identity) {
            changed.fields = changed.fields.union(&before.fields);
        }
        managed.times.insert(identity.clone(), manager.time.to_owned());
        managed.owners.insert(identity, changed);
    }
    cap::cap_updaters(&mut managed);
    Ok(managed)
}

type Outcome = Result<(Option<Value>, merge::Managers<Identity>), merge::ApplyError<Identity>>;

fn merge_applied(
    live: &Value,
    patch: &Value,
    owners: merge::Managers<Identity>,
    force: bool,
    manager: &Manager<'_>,
) -> Outcome {
    let reset = reset_set(manager);
    let request = Request {
        kind: manager.types,
        manager: Identity::of(manager, Operation::Apply, manager.name),
        api_version: manager.api_version,
        ignored: &reset,
    };
    merge::apply(&request, live, patch, owners, force)
}

fn reset_set(manager: &Manager<'_>) -> Set {
    let paths: Vec<Path> = manager
        .reset_fields
        .iter()
        .map(|names| Path::fields(names))
        .collect();
    Set::of(&paths)
}

/// Removes fields that the server writes and nobody owns.
fn strip(managed: &mut Managed, identity: &Identity) {
    static NOBODYS: LazyLock<Set> = LazyLock::new(|| {
        let roots = ["apiVersion", "kind", "metadata"].map(|name| Path::fields(&[name]));
        let inner = UNOWNED_METADATA.map(|name| Path::fields(&["metadata", name]));
        Set::of(roots.iter().chain(&inner))
    });
    if let Some(owned) = managed.owners.get_mut(identity) {
        owned.fields = owned.fields.difference(&NOBODYS);
        if owned.fields.is_empty() {
            managed.owners.remove(identity);
        }
    }
}

/// Upstream answers these with 500 and no reason.
fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message, None)
}

/// `namespace/name; group/version, Kind=kind`.
fn describe(object: &Value) -> String {
    format!(
        "{}/{}; {}",
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
        group_version_kind(object)
    )
}

/// Go's text of a group, version and kind: the core group leaves the slash.
fn group_version_kind(object: &Value) -> String {
    let api_version = text(object, "/apiVersion");
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", text(object, "/kind"))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value == ""
}

fn resets(said: &Value) -> bool {
    match said.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(is_blank),
        _ => false,
    }
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object
        .pointer("/metadata/managedFields")
        .filter(|fields| !fields.is_null())
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata
        .remove("managedFields")
        .filter(|fields| !fields.is_null())
}

fn set_managed_fields(object: &mut Value, fields: Value) {
    if let Some(object) = object.as_object_mut() {
        let metadata = object
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".to_owned(), fields);
        }
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(object) = object else {
        return object.clone();
    };
    let copy = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Object(metadata) if key == "metadata" => {
                let kept = metadata.iter().filter(|(key, _)| *key != "managedFields");
                Value::Object(kept.map(|(k, v)| (k.clone(), v.clone())).collect())
            }
            value => value.clone(),
        };
        (key.clone(), value)
    };
    Value::Object(object.iter().map(copy).collect())
}
