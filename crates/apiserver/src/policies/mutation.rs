//! MutatingAdmissionPolicy: an expression makes a partial object or a JSON patch.

use super::expressions::{Inputs, MUTATION, changes, compile_in};
use super::{Denial, GROUP, Request, bound, namespace_of, params, refusal};
use crate::builtin::tree::{items, text};
use crate::pipeline::{View, normal_form};
use crate::status::ApiError;
use crate::store::ResourceId;
use equate_cel::{List, Map, Program, Val};
use equate_manifest::patch::json::Patch;
use serde_json::{Value, json};
use std::sync::LazyLock;

static MUTATING: LazyLock<ResourceId> = LazyLock::new(|| ResourceId::new(GROUP, "mutatingadmissionpolicies"));
static MUTATING_BINDINGS: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new(GROUP, "mutatingadmissionpolicybindings"));

/// Why the expression of a mutation does not compile.
pub(crate) fn mutation_problem(expression: &str) -> Option<String> {
    compile_in(expression, &MUTATION).err()
}

/// Applies the policies that a write meets, in order of their names; each sees the changes before it.
pub(crate) fn mutate(view: &View, request: Request<'_>, object: &mut Value) -> Result<(), ApiError> {
    if view.snapshot.count(&MUTATING_BINDINGS, None) == 0 {
        return Ok(());
    }
    let original = object.clone();
    let request = Request {
        object: Some(&original),
        ..request
    };
    for (policy, binding) in bound(&MUTATING, &MUTATING_BINDINGS, &request, view) {
        let changed = one(view, request, policy, binding, object);
        match changed {
            Ok(changed) => *object = changed,
            Err(_) if text(policy, "spec.failurePolicy") == "Ignore" => {}
            Err(message) => {
                let denial = Denial {
                    message,
                    reason: String::new(),
                };
                return Err(refusal(&request, policy, binding, &denial));
            }
        }
    }
    Ok(())
}

fn one(
    view: &View,
    request: Request<'_>,
    policy: &Value,
    binding: &Value,
    object: &Value,
) -> Result<Value, String> {
    let namespace = namespace_of(&request, view);
    let described = request.describe();
    let mutations: Vec<Result<Program, String>> = items(policy, "spec.mutations")
        .iter()
        .map(|mutation| compile_in(expression(mutation).1, &MUTATION))
        .collect();
    let mut object = object.clone();
    for param in params::collect(policy, binding, &request, view)? {
        // each mutation sees those before it
        for (at, mutation) in items(policy, "spec.mutations").iter().enumerate() {
            let inputs = Inputs {
                object: Some(&object),
                old: request.old,
                request: &described,
                params: param,
                namespace: namespace.as_ref(),
            };
            let made = changes(policy, &mutations[at..=at], &inputs)?;
            let Some(change) = made.into_iter().next() else {
                continue;
            };
            let (kind, _) = expression(mutation);
            let changed = match kind {
                "JSONPatch" => patched(&object, &change)?,
                _ => merged(&request, &object, change)?,
            };
            object = normal_form(&request.target.resource, changed)?;
        }
    }
    Ok(object)
}

fn expression(mutation: &Value) -> (&str, &str) {
    match text(mutation, "patchType") {
        "JSONPatch" => ("JSONPatch", text(mutation, "jsonPatch.expression")),
        kind => (kind, text(mutation, "applyConfiguration.expression")),
    }
}

fn patched(object: &Value, operations: &Value) -> Result<Value, String> {
    let patch = Patch::parse(operations).map_err(|error| format!("invalid JSON patch: {error}"))?;
    patch
        .apply(object.clone())
        .map_err(|error| format!("JSON Patch: {error}"))
}

/// Merged as server-side apply merges, without an owner.
fn merged(request: &Request<'_>, object: &Value, mut change: Value) -> Result<Value, String> {
    let types = request.target.resource.types();
    if let Some(change) = change.as_object_mut() {
        change.insert("apiVersion".to_owned(), json!(types.api_version));
        change.insert("kind".to_owned(), json!(request.target.resource.kind));
    }
    let merged = types.merge.merge(object, &change);
    merged.map_err(|errors| format!("error applying patch: {errors}"))
}

pub(super) fn to_json(value: &Val<'_>) -> Result<Value, String> {
    let entry = |(key, value): &(Val<'_>, Val<'_>)| match (key, value) {
        (_, Val::Optional(None)) => None,
        (Val::Text(key), value) => Some(to_json(value).map(|value| (key.as_str().to_owned(), value))),
        _ => Some(Err("a key of a map is not a string".to_owned())),
    };
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => json!(value),
        Val::Int(value) => json!(value),
        Val::UInt(value) => json!(value),
        Val::Double(value) => json!(value),
        Val::Text(text) => json!(text.as_str()),
        Val::List(List::Json(items, _)) => Value::Array((*items).clone()),
        Val::List(List::Own(items)) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Val::Map(Map::Json(fields, _)) => Value::Object((*fields).clone()),
        Val::Map(Map::Own(entries)) => {
            Value::Object(entries.iter().filter_map(entry).collect::<Result<_, _>>()?)
        }
        Val::Optional(Some(value)) => to_json(value)?,
        Val::Unknown(value) => (*value).clone(),
        other => return Err(format!("{} has no JSON form", other.type_name())),
    })
}
