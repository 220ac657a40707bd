//! Admission that is built in: what upstream's default plugins do that clients see.

use super::meta::{deleting, meta_text};
use super::{Api, Cx, Target, View};
use crate::status::{ApiError, Cause, GroupResource};
use crate::store::{Key, ResourceId};
use serde_json::Value;

/// Before a create: its namespace must exist and live; then what the kind demands.
pub(super) fn create(
    api: &Api,
    view: &View,
    target: &Target,
    object: &mut Value,
    cx: &mut Cx<'_>,
) -> Result<(), ApiError> {
    if target.resource.namespaced {
        namespace_lives(view, target, object)?;
    }
    escalation(api, view, target, object, None, cx)?;
    kind_admission(api, view, target, object, None)
}

/// Before an update.
pub(super) fn update(
    api: &Api,
    view: &View,
    target: &Target,
    object: &mut Value,
    stored: &Value,
    cx: &mut Cx<'_>,
) -> Result<(), ApiError> {
    escalation(api, view, target, object, Some(stored), cx)?;
    kind_admission(api, view, target, object, Some(stored))
}

fn escalation(
    api: &Api,
    view: &View,
    target: &Target,
    object: &Value,
    stored: Option<&Value>,
    cx: &Cx<'_>,
) -> Result<(), ApiError> {
    let resource = target.group_resource();
    api.auth.check_escalation(
        &view.snapshot,
        cx.identity,
        (&resource, &target.namespace, &target.name),
        object,
        stored,
    )
}

fn namespace_lives(view: &View, target: &Target, object: &Value) -> Result<(), ApiError> {
    let namespace = &target.namespace;
    let key = Key { resource: ResourceId::new("", "namespaces"), namespace: String::new(), name: namespace.clone() };
    let Some(entry) = view.snapshot.get(&key) else {
        return Err(ApiError::not_found(&GroupResource::new("", "namespaces"), namespace));
    };
    if !deleting(entry.object()) {
        return Ok(());
    }
    let mut error = ApiError::forbidden(
        &target.group_resource(),
        meta_text(object, "name"),
        format_args!("unable to create new content in namespace {namespace} because it is being terminated"),
    );
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    Err(error)
}

fn kind_admission(
    _api: &Api,
    _view: &View,
    _target: &Target,
    _object: &mut Value,
    _stored: Option<&Value>,
) -> Result<(), ApiError> {
    Ok(())
}

/// Hands out what must not be handed out twice (cluster IPs, node ports).
pub(super) fn allocate(_view: &View, _target: &Target, _object: &mut Value, _stored: Option<&Value>) {}
