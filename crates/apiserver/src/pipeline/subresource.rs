//! Subresources: `scale` and binding.

use super::update::{Attempt, RACE_ATTEMPTS, check_preconditions};
use super::{Api, Body, Cx, PatchKind, Target, Written, body, patch};
use crate::crd::{self, ScalePaths};
use crate::managed_fields;
use crate::registry::Resource;
use crate::status::{ApiError, GroupResource};
use serde_json::{Value, json};
use std::sync::Arc;

impl Api {
    pub(crate) async fn scale(&self, target: &Target) -> Result<Value, ApiError> {
        let view = self.view();
        let entry = view
            .snapshot
            .get(&target.key())
            .ok_or_else(|| target.not_found())?;
        let entry = self.entry_as(&target.resource, entry).await?;
        scale_of(target, entry.object())
    }

    pub(crate) async fn write_scale(
        &self,
        target: &Target,
        body: &Body,
        how: Option<(PatchKind, bool)>,
        cx: &mut Cx<'_>,
    ) -> Result<Written, ApiError> {
        let view_target = scale_target(target);
        let change = match how {
            None => None,
            Some((kind, force)) => Some(patch::read(&view_target, body, kind, force, cx)?),
        };
        let replacement = match &change {
            None => Some(body::read_object(&view_target, body, cx)?),
            Some(_) => None,
        };
        let paths = scale_paths(target)?;
        let replicas: Vec<&str> = paths.spec_replicas.split('.').filter(|p| !p.is_empty()).collect();
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let current = view
                .snapshot
                .get(&target.key())
                .cloned()
                .ok_or_else(|| target.not_found())?;
            let stored = self.in_version(target, &current).await?;
            // This write adds the replicas to a custom resource without any.
            let (mut scale, _) =
                crd::to_scale(&stored, &paths).map_err(|e| ApiError::internal(e.to_string()))?;
            let owners =
                managed_fields::scale::to_scale(owners_of(&stored), &replicas).map_err(unreadable_owners)?;
            super::put(&mut scale, &["metadata", "managedFields"], owners);
            let (wanted, apply) = match (&replacement, &change) {
                (Some(object), _) => (object.clone(), None),
                (None, Some(patch::Change::Apply(config, force))) => (config.clone(), Some(*force)),
                (None, Some(rewrite)) => (patch::patched(&view_target, &scale, rewrite, cx)?, None),
                (None, None) => return Err(ApiError::internal("a write of scale needs a body")),
            };
            let pinned = check_preconditions(&view_target, &wanted, &scale)?;
            let now = self.now();
            let manager = self.manager(&view_target, cx, &now);
            let scale = match apply {
                None => managed_fields::update(Some(&scale), wanted, &manager),
                Some(force) => managed_fields::apply(Some(&scale), &wanted, force, &manager)?.object,
            };
            let errors = crd::validate_scale(&scale);
            if !errors.is_empty() {
                return Err(ApiError::invalid("autoscaling", "Scale", &target.name, &errors));
            }
            let mut new = stored.clone();
            crd::from_scale(&mut new, &scale, &paths);
            let owners = managed_fields::scale::to_parent(
                owners_of(&stored),
                owners_of(&scale),
                &target.resource.types().api_version,
                &replicas,
            )
            .map_err(unreadable_owners)?;
            super::put(&mut new, &["metadata", "managedFields"], owners);
            match self.change(target, &view, &current, &stored, new, cx).await? {
                Attempt::Done(written) => {
                    let object = self.object_as(&target.resource, written.object).await?;
                    return Ok(Written::built(scale_of(target, object.value())?, false));
                }
                Attempt::Raced if pinned => return Err(target.modified()),
                Attempt::Raced => {}
            }
        }
        Err(target.modified())
    }

    pub(crate) async fn bind(
        &self,
        target: &Target,
        binding: &Value,
        cx: &mut Cx<'_>,
    ) -> Result<(), ApiError> {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        let refuse = |why: String| {
            Err(ApiError::conflict(
                &GroupResource::new("", "pods/binding"),
                &target.name,
                why,
            ))
        };
        if node.is_empty() {
            let error = crate::field::FieldError::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", &target.name, &[error]));
        }
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let current = view
                .snapshot
                .get(&target.key())
                .cloned()
                .ok_or_else(|| target.not_found())?;
            let stored = current.object().clone();
            if super::meta::deleting(&stored) {
                return refuse(format!(
                    "pod {} is being deleted, cannot be assigned to a host",
                    target.name
                ));
            }
            let bound = stored["spec"]["nodeName"].as_str().unwrap_or_default();
            if !bound.is_empty() {
                return refuse(format!(
                    "pod {} is already assigned to node \"{bound}\"",
                    target.name
                ));
            }
            let mut new = stored.clone();
            new["spec"]["nodeName"] = json!(node);
            scheduled(&mut new, &self.now());
            if let Attempt::Done(_) = self.change(target, &view, &current, &stored, new, cx).await? {
                return Ok(());
            }
        }
        Err(target.modified())
    }
}

pub(super) fn scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    set_condition(pod, condition);
}

pub(super) fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    match conditions.as_array_mut() {
        Some(list) => {
            list.retain(|c| c["type"] != condition["type"]);
            list.push(condition);
        }
        None => *conditions = json!([condition]),
    }
}

fn owners_of(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}

fn unreadable_owners(error: impl std::fmt::Display) -> ApiError {
    ApiError::internal(format!("failed to decode managed fields: {error}"))
}

fn scale_paths(target: &Target) -> Result<ScalePaths, ApiError> {
    target
        .resource
        .scale_paths()
        .ok_or_else(ApiError::no_such_resource)
}

fn scale_of(target: &Target, object: &Value) -> Result<Value, ApiError> {
    let paths = scale_paths(target)?;
    let (scale, replicas) = crd::to_scale(object, &paths).map_err(|e| ApiError::internal(e.to_string()))?;
    if replicas.is_none() && target.resource.is_custom() {
        return Err(ApiError::internal(crd::missing_text(&paths)));
    }
    Ok(scale)
}

/// The endpoint as one of kind Scale, for reading bodies.
fn scale_target(target: &Target) -> Target {
    let resource = Resource::scale_view(&target.resource);
    Target {
        resource: Arc::new(resource),
        ..target.clone()
    }
}
