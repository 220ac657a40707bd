//! MutatingAdmissionPolicy: an expression makes a partial object or a JSON patch.

use super::expressions::{Inputs, MUTATION, change, compile_in, conditions_hold};
use super::{GROUP, Request, bound, namespace_of, params};
use crate::builtin::tree::{get, items, text};
use crate::pipeline::{View, normal_form};
use crate::status::{ApiError, Cause};
use crate::store::ResourceId;
use equate_cel::{List, Map, Val};
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
        match one(view, request, policy, binding, object) {
            Err(problem) if text(policy, "spec.failurePolicy") != "Ignore" => {
                return Err(refusal(&request, policy, binding, &problem));
            }
            _ => {}
        }
    }
    Ok(())
}

struct Problem {
    message: String,
    reason: &'static str,
}

/// The first problem of a policy. Mutations after it still change the object, as `Ignore` asks.
fn one(
    view: &View,
    request: Request<'_>,
    policy: &Value,
    binding: &Value,
    object: &mut Value,
) -> Result<(), Problem> {
    let params = params::collect(policy, binding, &request, view).map_err(|why| Problem {
        message: format!("failed to configure binding: {why}"),
        reason: "Forbidden",
    })?;
    let namespace = namespace_of(&request, view);
    let described = request.describe();
    let mut failed = None;
    for param in params {
        let inputs = Inputs {
            object: None,
            old: request.old,
            request: &described,
            params: param,
            namespace: namespace.as_ref(),
        };
        let seen = Inputs {
            object: Some(object),
            ..inputs
        };
        match conditions_hold(get(policy, "spec"), &seen) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                failed.get_or_insert(why);
                continue;
            }
        }
        // each mutation sees those before it
        for mutation in items(policy, "spec.mutations") {
            let seen = Inputs {
                object: Some(object),
                ..inputs
            };
            match mutated(&request, policy, mutation, &seen) {
                Ok(changed) => *object = changed,
                Err(why) => {
                    failed.get_or_insert(why);
                }
            }
        }
    }
    match failed {
        None => Ok(()),
        Some(message) => Err(Problem {
            message,
            reason: "Invalid",
        }),
    }
}

fn mutated(
    request: &Request<'_>,
    policy: &Value,
    mutation: &Value,
    inputs: &Inputs<'_>,
) -> Result<Value, String> {
    let object = inputs.object.unwrap_or(&Value::Null);
    let changed = match text(mutation, "patchType") {
        "JSONPatch" => patched(object, &change(policy, get(mutation, "jsonPatch"), inputs)?)?,
        _ => {
            let configuration = change(policy, get(mutation, "applyConfiguration"), inputs)?;
            merged(request, object, configuration)?
        }
    };
    normal_form(&request.target.resource, changed)
}

/// 403, also with the reason `Invalid`.
fn refusal(request: &Request<'_>, policy: &Value, binding: &Value, problem: &Problem) -> ApiError {
    let mut error = ApiError::forbidden(&request.target.group_resource(), request.name, "");
    error.reason = problem.reason;
    error.message = format!(
        "policy '{}' with binding '{}' denied request: {}",
        text(policy, "metadata.name"),
        text(binding, "metadata.name"),
        problem.message
    );
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: String::new(),
            message: error.message.clone(),
            field: String::new(),
        });
    }
    error
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
