//! Subresources: `scale`, binding and eviction.

use super::update::{Attempt, RACE_ATTEMPTS, check_preconditions};
use super::{Api, Body, Cx, PatchKind, Target, Written, body, patch};
use crate::auth::Identity;
use crate::crd::{self, ScalePaths};
use crate::http::options::DeleteOptions;
use crate::managed_fields;
use crate::registry::Resource;
use crate::status::{ApiError, Cause, Details, GroupResource};
use crate::store::{Change, CommitError, Expect, ResourceId};
use serde_json::{Value, json};
use std::sync::Arc;

impl Api {
    pub(crate) fn scale(&self, target: &Target) -> Result<Value, ApiError> {
        let view = self.view();
        let entry = view
            .snapshot
            .get(&target.key())
            .ok_or_else(|| target.not_found())?;
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
            let stored = self.in_version(target, &current)?;
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
                    return Ok(Written::built(scale_of(target, written.object.value())?, false));
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

    /// POST of `pods/NAME/eviction`: a deletion, after a check of disruption budgets.
    pub(crate) async fn evict(
        &self,
        target: &Target,
        options: &DeleteOptions,
        identity: &Identity,
    ) -> Result<(), ApiError> {
        self.check_budgets(target)?;
        self.mark_disrupted(target, options).await?;
        self.delete(target, options, identity).await.map(|_| ())
    }

    /// 429 if a disruption budget protects the pod. No disruption controller runs: a budget without status
    /// counts as still being processed, with upstream's message.
    fn check_budgets(&self, target: &Target) -> Result<(), ApiError> {
        let view = self.view();
        let pod = view
            .snapshot
            .get(&target.key())
            .ok_or_else(|| target.not_found())?
            .object();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if super::meta::deleting(pod) || matches!(phase, "Pending" | "Succeeded" | "Failed") {
            return Ok(());
        }
        let budgets = ResourceId::new("policy", "poddisruptionbudgets");
        let labels = &pod["metadata"]["labels"];
        for (path, entry) in view.snapshot.list(&budgets, Some(&target.namespace)) {
            let budget = entry.object();
            if !crate::builtin::selector::matches(&budget["spec"]["selector"], labels) {
                continue;
            }
            let status = &budget["status"];
            let observed = status["observedGeneration"].as_i64().unwrap_or_default();
            if observed < super::meta::generation(budget) {
                let name = path.name();
                return Err(disruption_blocked(format!(
                    "The disruption budget {name} is still being processed by the server."
                )));
            }
            if status["disruptionsAllowed"].as_i64().unwrap_or_default() <= 0 {
                return Err(disruption_blocked(format!(
                    "The disruption budget {} needs {} healthy pods and has {} currently",
                    path.name(),
                    status["desiredHealthy"].as_i64().unwrap_or_default(),
                    status["currentHealthy"].as_i64().unwrap_or_default(),
                )));
            }
        }
        Ok(())
    }

    /// Records the reason of the deletion in the pod's status, as upstream does first.
    async fn mark_disrupted(&self, target: &Target, options: &DeleteOptions) -> Result<(), ApiError> {
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let current = view
                .snapshot
                .get(&target.key())
                .cloned()
                .ok_or_else(|| target.not_found())?;
            let waits = super::meta::deleting(current.object())
                || crate::builtin::deletion_grace(current.object(), options.grace_period_seconds) == 0;
            if waits || options.dry_run {
                return Ok(());
            }
            let mut pod = current.object().clone();
            set_condition(
                &mut pod,
                json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.now(),
                }),
            );
            let change = Change::Put {
                key: target.key(),
                object: pod,
                expect: Expect::Revision(current.revision),
            };
            match self.store.commit(vec![change]).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => {}
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        Err(target.modified())
    }
}

fn disruption_blocked(why: String) -> ApiError {
    ApiError::new(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        Some(Details {
            causes: vec![Cause {
                reason: "DisruptionBudget".to_owned(),
                message: why,
                field: String::new(),
            }],
            retry_after_seconds: Some(10),
            ..Details::default()
        }),
    )
}

fn scheduled(pod: &mut Value, now: &str) {
    let condition = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    set_condition(pod, condition);
}

fn set_condition(object: &mut Value, condition: Value) {
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
