//! Admission webhooks that are called by a URL on this machine.
//!
//! A webhook behind a Service is skipped, because no container serves it here, and so is one on another
//! machine: objects, also Secrets, do not leave this one. Each write of such a configuration is answered with
//! a warning. Order and texts are those of `k8s.io/apiserver` 1.36, `admission/plugin/webhook`.

mod call;
mod review;

pub(crate) use call::{Webhooks, is_local};

use crate::builtin::tree::{get, int, items, text};
use crate::conversion;
use crate::pipeline::{View, normal_form};
use crate::policies::{self, Request};
use crate::status::ApiError;
use crate::store::ResourceId;
use review::Answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const GROUP: &str = "admissionregistration.k8s.io";
/// The default limit of a call.
const SECONDS: i64 = 10;

static MUTATING: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new(GROUP, "mutatingwebhookconfigurations"));
static VALIDATING: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new(GROUP, "validatingwebhookconfigurations"));
static DEFINITIONS: LazyLock<ResourceId> =
    LazyLock::new(|| ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions"));

/// Why a webhook of a configuration is not called; `None` for one that is.
pub(crate) fn skipped(webhook: &Value) -> Option<String> {
    let name = text(webhook, "name");
    let url = text(webhook, "clientConfig.url");
    if url.is_empty() {
        let service = get(webhook, "clientConfig.service");
        return Some(format!(
            "webhook {name} is skipped: this server runs no container for the Service {}/{}",
            text(service, "namespace"),
            text(service, "name")
        ));
    }
    (!is_local(url)).then(|| format!("webhook {name} is skipped: {url} is not on the machine of this server"))
}

/// The objects with webhooks that are not called, as `KIND/NAME`, with the number of these webhooks.
pub(crate) fn all_skipped(view: &View) -> BTreeMap<String, usize> {
    let named = |kind: &str, object: &Value| format!("{kind}/{}", text(object, "metadata.name"));
    let objects = |id: &ResourceId| view.snapshot.list(id, None).map(|(_, entry)| entry.object());
    let mut found = BTreeMap::new();
    for (id, kind) in [
        (&*MUTATING, "MutatingWebhookConfiguration"),
        (&*VALIDATING, "ValidatingWebhookConfiguration"),
    ] {
        for configuration in objects(id) {
            let webhooks = items(configuration, "webhooks").iter();
            let count = webhooks.filter(|webhook| skipped(webhook).is_some()).count();
            found.insert(named(kind, configuration), count);
        }
    }
    for definition in objects(&DEFINITIONS) {
        let count = usize::from(conversion::skipped(definition).is_some());
        found.insert(named("CustomResourceDefinition", definition), count);
    }
    found.retain(|_, count| *count > 0);
    found
}

/// Lets the mutating webhooks change an object, in order of their configurations' names.
pub(crate) async fn mutate(
    hooks: &Webhooks,
    view: &View,
    request: Request<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let original = object.clone();
    let first = Request {
        object: Some(&original),
        ..request
    };
    for webhook in called(&MUTATING, &first, view) {
        let current = object.clone();
        let request = Request {
            object: Some(&current),
            ..request
        };
        let Some(answer) = ask(hooks, view, &request, webhook, warnings).await? else {
            continue;
        };
        if let Some(patch) = answer.patch {
            let name = text(webhook, "name");
            let changed = patch
                .apply(current.clone())
                .map_err(|error| error.to_string())
                .and_then(|changed| normal_form(&request.target.resource, changed));
            match changed {
                Ok(changed) => *object = changed,
                Err(_) if may_fail(webhook) => {}
                Err(why) => {
                    let why = format!("failed calling webhook {name:?}: cannot apply its patch: {why}");
                    return Err(ApiError::internal(why));
                }
            }
        }
    }
    Ok(())
}

/// Refuses a write that a validating webhook denies.
pub(crate) async fn review(
    hooks: &Webhooks,
    view: &View,
    request: &Request<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    for webhook in called(&VALIDATING, request, view) {
        ask(hooks, view, request, webhook, warnings).await?;
    }
    Ok(())
}

/// A deletion meets both kinds of webhooks; nothing can be changed.
pub(crate) async fn review_deletion(
    hooks: &Webhooks,
    view: &View,
    request: &Request<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    for webhook in called(&MUTATING, request, view) {
        ask(hooks, view, request, webhook, warnings).await?;
    }
    review(hooks, view, request, warnings).await
}

/// The webhooks that a request meets and that can be called.
fn called<'a>(kind: &ResourceId, request: &Request<'_>, view: &'a View) -> Vec<&'a Value> {
    let snapshot = &view.snapshot;
    // a webhook must not lock its own removal
    if snapshot.count(kind, None) == 0 || request.target.resource.group == GROUP {
        return Vec::new();
    }
    let configurations = snapshot.list(kind, None).map(|(_, entry)| entry.object());
    configurations
        .flat_map(|configuration| items(configuration, "webhooks"))
        .filter(|webhook| skipped(webhook).is_none())
        .filter(|webhook| {
            let constraints = json!({
                "namespaceSelector": get(webhook, "namespaceSelector"),
                "objectSelector": get(webhook, "objectSelector"),
                "matchPolicy": get(webhook, "matchPolicy"),
                "resourceRules": get(webhook, "rules"),
            });
            !items(webhook, "rules").is_empty() && policies::matches(&constraints, request, view)
        })
        .collect()
}

fn may_fail(webhook: &Value) -> bool {
    text(webhook, "failurePolicy") == "Ignore"
}

/// The answer of a webhook that allows the request; `None` if its conditions do not hold, or if it failed and
/// may fail.
async fn ask(
    hooks: &Webhooks,
    view: &View,
    request: &Request<'_>,
    webhook: &Value,
    warnings: &mut Vec<String>,
) -> Result<Option<Answer>, ApiError> {
    let name = text(webhook, "name");
    match policies::conditions_hold(webhook, request, view) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(_) if may_fail(webhook) => return Ok(None),
        Err(why) => {
            let why = format!("webhook {name:?}: match conditions failed: {why}");
            let resource = request.target.group_resource();
            return Err(ApiError::forbidden(&resource, request.name, why));
        }
    }
    let (id, body) = review::question(webhook, request);
    let (url, bundle) = (
        text(webhook, "clientConfig.url"),
        text(webhook, "clientConfig.caBundle"),
    );
    let seconds = int(webhook, "timeoutSeconds").unwrap_or(SECONDS);
    let answered = match hooks.post(url, bundle, seconds, body).await {
        Ok(bytes) => review::answer(&bytes, &id),
        Err(why) => Err(format!("failed to call webhook: {why}")),
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(why) if may_fail(webhook) => {
            tracing::warn!(webhook = name, error = why, "a webhook failed and is ignored");
            return Ok(None);
        }
        Err(why) => {
            return Err(ApiError::internal(format!(
                "failed calling webhook {name:?}: {why}"
            )));
        }
    };
    warnings.extend(answer.warnings.iter().cloned());
    match &answer.denied {
        Some(status) => Err(review::refusal(name, status)),
        None => Ok(Some(answer)),
    }
}
