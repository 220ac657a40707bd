//! Admission policies: expressions that change a write, and those that it must satisfy.
//!
//! Each binding of a policy that matches the request runs the policy's expressions, for each parameter if it
//! names some. Texts, order and limits are those of `k8s.io/apiserver` 1.36,
//! `admission/plugin/policy`. Expressions with `authorizer` fail: nothing here answers for it.

mod expressions;
mod matching;
mod mutation;
mod params;
#[cfg(test)]
mod tests;

pub(crate) use expressions::problem;
pub(crate) use matching::matches;
pub(crate) use mutation::{mutate, mutation_problem};

use crate::auth::Identity;
use crate::builtin::tree::{get, has, items, text};
use crate::pipeline::{Target, View};
use crate::status::{ApiError, Cause};
use crate::store::{Key, ResourceId};
use expressions::{Inputs, Outcome};
use serde_json::{Value, json};
use std::sync::LazyLock;

const GROUP: &str = "admissionregistration.k8s.io";

static VALIDATING: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new(GROUP, "validatingadmissionpolicies"));
static VALIDATING_BINDINGS: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new(GROUP, "validatingadmissionpolicybindings"));

/// A write to review.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub target: &'a Target,
    pub identity: &'a Identity,
    pub name: &'a str,
    /// Absent for a deletion.
    pub object: Option<&'a Value>,
    /// Absent for a creation.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl Request<'_> {
    fn operation(&self) -> &'static str {
        match (self.object, self.old) {
            (_, None) => "CREATE",
            (None, _) => "DELETE",
            (Some(_), Some(_)) => "UPDATE",
        }
    }

    /// The variable `request`.
    pub(crate) fn describe(&self) -> Value {
        let resource = &self.target.resource;
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let plural =
            json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let mut user = json!({"username": self.identity.name, "groups": self.identity.groups});
        if !self.identity.uid.is_empty() {
            user["uid"] = json!(self.identity.uid);
        }
        if !self.identity.extra.is_empty() {
            user["extra"] = json!(self.identity.extra);
        }
        json!({
            "kind": kind, "resource": plural, "subResource": self.target.endpoint.subresource(),
            "requestKind": kind, "requestResource": plural,
            "requestSubResource": self.target.endpoint.subresource(),
            "name": self.name, "namespace": self.target.namespace, "operation": self.operation(),
            "userInfo": user, "dryRun": self.dry_run,
        })
    }
}

/// Refuses a write that a policy denies; otherwise the warnings of the policies that only warn.
pub(crate) fn review(view: &View, request: &Request<'_>) -> Result<Vec<String>, ApiError> {
    let mut warnings = Vec::new();
    for (policy, binding) in bound(&VALIDATING, &VALIDATING_BINDINGS, request, view) {
        let denials = denials(policy, binding, request, view)
            .map_err(|denial| refusal(request, policy, binding, &denial))?;
        for denial in denials {
            for action in items(binding, "spec.validationActions") {
                match action.as_str() {
                    Some("Deny") => return Err(refusal(request, policy, binding, &denial)),
                    Some("Warn") => warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        text(policy, "metadata.name"),
                        text(binding, "metadata.name"),
                        denial.message
                    )),
                    _ => {}
                }
            }
        }
    }
    Ok(warnings)
}

/// Whether the `matchConditions` of a webhook hold for a request.
pub(crate) fn conditions_hold(webhook: &Value, request: &Request<'_>, view: &View) -> Result<bool, String> {
    if items(webhook, "matchConditions").is_empty() {
        return Ok(true);
    }
    let namespace = namespace_of(request, view);
    let inputs = Inputs {
        object: request.object,
        old: request.old,
        request: &request.describe(),
        params: None,
        namespace: namespace.as_ref(),
    };
    expressions::conditions_hold(webhook, &inputs)
}

/// The policies that a request meets, with each binding, in order of their names.
fn bound<'a>(
    policies: &ResourceId,
    bindings: &ResourceId,
    request: &Request<'_>,
    view: &'a View,
) -> Vec<(&'a Value, &'a Value)> {
    let snapshot = &view.snapshot;
    let mut out = Vec::new();
    if snapshot.count(bindings, None) == 0 || is_exempt(request.target) {
        return out;
    }
    for (_, policy) in snapshot.list(policies, None) {
        let policy = policy.object();
        if !matches(get(policy, "spec.matchConstraints"), request, view) {
            continue;
        }
        for (_, binding) in snapshot.list(bindings, None) {
            let binding = binding.object();
            let limits = get(binding, "spec.matchResources");
            if text(binding, "spec.policyName") == text(policy, "metadata.name")
                && (limits.is_null() || matches(limits, request, view))
            {
                out.push((policy, binding));
            }
        }
    }
    out
}

/// A policy must not lock its own removal.
fn is_exempt(target: &Target) -> bool {
    target.resource.group == GROUP && target.resource.plural.contains("admissionpolic")
}

struct Denial {
    message: String,
    reason: String,
}

/// The denials that the binding's actions answer, or one that refuses the write whatever the actions.
fn denials(
    policy: &Value,
    binding: &Value,
    request: &Request<'_>,
    view: &View,
) -> Result<Vec<Denial>, Denial> {
    let fails = text(policy, "spec.failurePolicy") != "Ignore";
    let failed = |message: String| Denial {
        message,
        reason: String::new(),
    };
    let params = match params::collect(policy, binding, request, view) {
        Ok(params) => params,
        Err(why) if fails => return Err(failed(format!("failed to configure binding: {why}"))),
        Err(_) => return Ok(Vec::new()),
    };
    let namespace = namespace_of(request, view);
    let described = request.describe();
    let mut out = Vec::new();
    for param in params {
        let inputs = Inputs {
            object: request.object,
            old: request.old,
            request: &described,
            params: param,
            namespace: namespace.as_ref(),
        };
        for outcome in expressions::validate(policy, &inputs) {
            match outcome {
                Outcome::Denied { message, reason } => out.push(Denial { message, reason }),
                Outcome::Failed(message) if fails => out.push(failed(message)),
                Outcome::Failed(_) => {}
            }
        }
    }
    Ok(out)
}

/// The namespace's metadata, spec and status, as expressions see them.
fn namespace_of(request: &Request<'_>, view: &View) -> Option<Value> {
    if request.target.namespace.is_empty() || request.target.resource.is_namespace() {
        return None;
    }
    let key = Key::new(
        &ResourceId::new("", "namespaces"),
        "",
        request.target.namespace.as_str(),
    );
    let mut namespace = view.snapshot.get(&key)?.object().clone();
    if has(&namespace, "metadata.managedFields")
        && let Some(metadata) = namespace["metadata"].as_object_mut()
    {
        metadata.remove("managedFields");
    }
    Some(namespace)
}

fn refusal(request: &Request<'_>, policy: &Value, binding: &Value, denial: &Denial) -> ApiError {
    let message = format!(
        "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
        text(policy, "metadata.name"),
        text(binding, "metadata.name"),
        denial.message
    );
    let mut error = ApiError::forbidden(&request.target.group_resource(), request.name, &message);
    (error.code, error.reason) = match denial.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: String::new(),
            message,
            field: String::new(),
        });
    }
    error
}
