//! `pods/NAME/eviction`: a deletion that respects disruption budgets.

use super::meta::{deleting, generation};
use super::subresource::set_condition;
use super::update::RACE_ATTEMPTS;
use super::{Api, Target};
use crate::auth::Identity;
use crate::builtin::selector;
use crate::builtin::tree::{get, int, items, text};
use crate::controllers;
use crate::http::options::DeleteOptions;
use crate::status::{ApiError, Cause, Details, GroupResource};
use crate::store::{Change, CommitError, Entry, Expect, Key, ResourceId};
use serde_json::{Value, json};
use std::sync::Arc;

/// The most evictions that a budget has not confirmed (registry/core/pod/storage, 2,000).
const UNCONFIRMED_MAX: usize = 2000;

/// The permission of the budgets to evict a pod.
enum Permission {
    Given,
    /// Only as long as the pod does not change: it is not ready.
    WhileUnready,
}

impl Api {
    pub(crate) async fn evict(
        &self,
        target: &Target,
        options: &DeleteOptions,
        identity: &Identity,
    ) -> Result<(), ApiError> {
        let mut options = options.clone();
        let pod = self.pod(target)?;
        let name = match protected(pod.object()) {
            false => None,
            true => self.budget(target, pod.object())?,
        };
        if let Some(name) = &name {
            let permission = self.ask(target, name, options.dry_run).await?;
            if matches!(permission, Permission::WhileUnready) && options.resource_version.is_none() {
                let present = self.pod(target)?;
                if present.revision != pod.revision {
                    return Err(in_progress(&name.name));
                }
            }
        }
        self.mark_disrupted(target, &mut options).await?;
        self.delete(target, &options, identity, &mut Vec::new())
            .await
            .map(|_| ())
    }

    fn pod(&self, target: &Target) -> Result<Arc<Entry>, ApiError> {
        let view = self.view();
        let pod = view.snapshot.get(&target.key()).cloned();
        pod.ok_or_else(|| target.not_found())
    }

    /// The budget that selects a pod.
    fn budget(&self, target: &Target, pod: &Value) -> Result<Option<Key>, ApiError> {
        let view = self.view();
        let budgets = ResourceId::new("policy", "poddisruptionbudgets");
        let labels = &pod["metadata"]["labels"];
        let mut selecting = view
            .snapshot
            .list(&budgets, Some(&target.namespace))
            .filter(|(_, budget)| selector::matches(&budget.object()["spec"]["selector"], labels))
            .map(|(path, _)| Key::new(&budgets, path.namespace(), path.name()));
        let first = selecting.next();
        if selecting.next().is_some() {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "", why, None));
        }
        Ok(first)
    }

    /// Takes one disruption from a budget, or refuses.
    async fn ask(&self, target: &Target, name: &Key, dry_run: bool) -> Result<Permission, ApiError> {
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let Some(entry) = view.snapshot.get(name) else {
                return Ok(Permission::Given);
            };
            let pod = self.pod(target)?;
            if may_go_unready(entry.object(), pod.object()) {
                return Ok(Permission::WhileUnready);
            }
            check(entry.object())?;
            if dry_run {
                return Ok(Permission::Given);
            }
            let mut budget = entry.object().clone();
            let now = self.now();
            let allowed = int(&budget, "status.disruptionsAllowed").unwrap_or(0);
            budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
            budget["status"]["disruptedPods"][&target.name] = json!(now);
            if allowed == 1 {
                controllers::allow(&mut budget["status"], json!(now));
            }
            let change = Change::Put {
                key: name.clone(),
                object: budget,
                expect: Expect::Revision(entry.revision),
            };
            match self.store.commit(vec![change]).await {
                Ok(_) => return Ok(Permission::Given),
                Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => {}
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        let name = &name.name;
        let why = format!("couldn't update PodDisruptionBudget {name:?} due to conflicts");
        Err(ApiError::new(504, "Timeout", why, Some(Details::default())))
    }

    /// Records the reason of the deletion in the pod's status, as upstream does first.
    async fn mark_disrupted(&self, target: &Target, options: &mut DeleteOptions) -> Result<(), ApiError> {
        for _ in 0..RACE_ATTEMPTS {
            let current = self.pod(target)?;
            let waits = deleting(current.object())
                || crate::builtin::deletion_grace(current.object(), options.grace_period_seconds) == 0;
            if waits || options.dry_run {
                return Ok(());
            }
            super::delete::check_preconditions(target, options, current.object())?;
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
                Ok(entries) => {
                    // This write changed the version that the caller knows.
                    if let (Some(known), Some(entry)) = (&mut options.resource_version, entries.first()) {
                        *known = entry.revision.to_string();
                    }
                    return Ok(());
                }
                Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) => {}
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        Err(target.modified())
    }
}

/// Whether budgets protect a pod: it runs and is not being deleted.
fn protected(pod: &Value) -> bool {
    let waits = matches!(text(pod, "status.phase"), "Pending" | "Succeeded" | "Failed");
    !waits && !deleting(pod)
}

fn may_go_unready(budget: &Value, pod: &Value) -> bool {
    let ready = items(pod, "status.conditions")
        .iter()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    let count = |path: &str| int(budget, path).unwrap_or(0);
    let (healthy, desired) = (count("status.currentHealthy"), count("status.desiredHealthy"));
    let always = text(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow";
    !ready && (always || (healthy >= desired && desired > 0))
}

/// Refuses an eviction, with upstream's texts, if the budget does not allow one.
fn check(budget: &Value) -> Result<(), ApiError> {
    let name = text(budget, "metadata.name");
    let status = get(budget, "status");
    let count = |field: &str| int(status, field).unwrap_or(0);
    let forbidden = |why: &str| {
        let resource = GroupResource::new("policy", "poddisruptionbudget");
        Err(ApiError::forbidden(&resource, name, why))
    };
    if count("observedGeneration") < generation(budget) {
        return Err(in_progress(name));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let unconfirmed = get(status, "disruptedPods").as_object();
    if unconfirmed.is_some_and(|pods| pods.len() > UNCONFIRMED_MAX) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed > 0 {
        return Ok(());
    }
    let condition = items(status, "conditions")
        .iter()
        .find(|c| c["type"] == "DisruptionAllowed" && c["status"] == "False");
    let (reason, why) = condition.map_or(("", ""), |c| (text(c, "reason"), text(c, "message")));
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    let message = if reason == "SyncFailed" && !why.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        )
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if !why.is_empty() {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Err(blocked(message, None))
}

fn in_progress(name: &str) -> ApiError {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    blocked(why, Some(10))
}

fn blocked(why: String, retry_after_seconds: Option<u32>) -> ApiError {
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
            retry_after_seconds,
            ..Details::default()
        }),
    )
}
