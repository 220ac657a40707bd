//! Deletion: preconditions, finalizers, grace, propagation.

use super::meta::{deleting, finalizers, generation, meta, meta_mut, meta_text, set_generation};
use super::update::RACE_ATTEMPTS;
use super::{Api, Object, Target, seconds};
use crate::auth::Identity;
use crate::http::options::DeleteOptions;
use crate::policies;
use crate::status::ApiError;
use crate::store::{Change, CommitError, Entry, Expect};
use crate::webhooks;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) enum Deleted {
    /// Removed; the last state.
    Gone(Object),
    Marked(Object),
}

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const NAMESPACES_KEPT: [&str; 3] = ["default", "kube-system", "kube-public"];
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Api {
    pub(crate) async fn delete(
        &self,
        target: &Target,
        options: &DeleteOptions,
        identity: &Identity,
        warnings: &mut Vec<String>,
    ) -> Result<Deleted, ApiError> {
        if target.resource.is_namespace() && NAMESPACES_KEPT.contains(&target.name.as_str()) {
            return Err(ApiError::forbidden(
                &target.group_resource(),
                &target.name,
                "this namespace may not be deleted",
            ));
        }
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let Some(current) = view.snapshot.get(&target.key()).cloned() else {
                return Err(target.not_found());
            };
            check_preconditions(target, options, current.object())?;
            let shown = self.entry_as(&target.resource, &current).await?;
            let request = policies::Request {
                target,
                identity,
                name: &target.name,
                object: None,
                old: Some(shown.object()),
                dry_run: options.dry_run,
            };
            let mut found = policies::review(&view, &request)?;
            webhooks::review_deletion(&self.webhooks, &view, &request, &mut found).await?;
            let marked = self.marked(target, options, current.object());
            if let Some(done) = self.commit_delete(target, options, &current, marked).await? {
                for warning in found {
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
                return Ok(done);
            }
        }
        Err(target.modified())
    }

    /// `None` if another write came first.
    async fn commit_delete(
        &self,
        target: &Target,
        options: &DeleteOptions,
        current: &Arc<Entry>,
        marked: Option<Value>,
    ) -> Result<Option<Deleted>, ApiError> {
        let expect = Expect::Revision(current.revision);
        let key = target.key();
        let (change, gone) = match marked {
            Some(state) if state == *current.object() && !is_final(target, &state) => {
                return Ok(Some(Deleted::Marked(Object::Stored(Arc::clone(current)))));
            }
            Some(state) if is_final(target, &state) => {
                if options.dry_run {
                    return Ok(Some(Deleted::Gone(Object::Built(Box::new(state)))));
                }
                (
                    Change::Delete {
                        key,
                        expect,
                        last: Some(state),
                    },
                    true,
                )
            }
            Some(state) => {
                if options.dry_run {
                    return Ok(Some(Deleted::Marked(Object::Built(Box::new(state)))));
                }
                (
                    Change::Put {
                        key,
                        object: state,
                        expect,
                    },
                    false,
                )
            }
            None => {
                if options.dry_run {
                    return Ok(Some(Deleted::Gone(Object::Stored(Arc::clone(current)))));
                }
                (
                    Change::Delete {
                        key,
                        expect,
                        last: None,
                    },
                    true,
                )
            }
        };
        match self.store.commit(vec![change]).await {
            Ok(entries) => {
                let entry = entries
                    .into_iter()
                    .next()
                    .ok_or_else(|| ApiError::internal("the commit returned no object"))?;
                let object = Object::Stored(entry);
                Ok(Some(if gone {
                    Deleted::Gone(object)
                } else {
                    Deleted::Marked(object)
                }))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(CommitError::Missing { .. }) => Err(target.not_found()),
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }

    fn marked(&self, target: &Target, options: &DeleteOptions, stored: &Value) -> Option<Value> {
        let resource = &*target.resource;
        let mut state = stored.clone();
        set_finalizers(&mut state, &wanted_finalizers(target, options, stored));
        let grace = resource.grace(stored, options.grace_period_seconds);
        let begun = deleting(stored);
        let must_mark =
            !finalizers(&state).is_empty() || grace.is_some() || waits_for_content(target, &state);
        if !must_mark {
            return None;
        }
        let at = (self.clock)();
        match grace {
            // A grace period may be shortened, never lengthened.
            Some(grace) if begun => {
                let before = meta(stored, "deletionGracePeriodSeconds")
                    .and_then(Value::as_i64)
                    .unwrap_or_default();
                if grace < before {
                    stamp(&mut state, &seconds(later(at, grace)), grace);
                }
            }
            _ if begun => {}
            Some(grace) => {
                stamp(&mut state, &seconds(later(at, grace)), grace);
                raise_generation(&mut state);
            }
            None if resource.is_namespace() && finalizers(&state).is_empty() => {
                meta_mut(&mut state).insert("deletionTimestamp".to_owned(), json!(seconds(at)));
            }
            None if resource.is_crd() => {
                meta_mut(&mut state).insert("deletionTimestamp".to_owned(), json!(seconds(at)));
            }
            None => {
                stamp(&mut state, &seconds(at), 0);
                raise_generation(&mut state);
            }
        }
        if resource.is_namespace() {
            state["status"]["phase"] = json!("Terminating");
        }
        if resource.is_crd() && !begun {
            state["status"] = crate::crd::deletion_pending(&state, &seconds(at));
        }
        Some(state)
    }
}

fn later(at: jiff::Timestamp, grace: i64) -> jiff::Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(at)
}

fn stamp(state: &mut Value, at: &str, grace: i64) {
    let map = meta_mut(state);
    map.insert("deletionTimestamp".to_owned(), json!(at));
    map.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
}

fn raise_generation(state: &mut Value) {
    let now = generation(state);
    if now > 0 {
        set_generation(state, now + 1);
    }
}

/// Namespaces wait for their content, CRDs for their objects.
fn waits_for_content(target: &Target, state: &Value) -> bool {
    target.resource.is_namespace() && has_namespace_finalizers(state)
}

pub(super) fn has_namespace_finalizers(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}

fn is_final(target: &Target, state: &Value) -> bool {
    finalizers(state).is_empty()
        && !waits_for_content(target, state)
        && meta(state, "deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
}

fn wanted_finalizers(target: &Target, options: &DeleteOptions, stored: &Value) -> Vec<String> {
    let mut list: Vec<String> = finalizers(stored).into_iter().map(str::to_owned).collect();
    let (foreground, orphan) = match (options.propagation.as_deref(), options.orphan_dependents) {
        (Some("Foreground"), _) => (true, false),
        (Some("Orphan"), _) | (None, Some(true)) => (false, true),
        (Some(_), _) | (None, Some(false)) => (false, false),
        // Without a propagation policy the present finalizers stay.
        (None, None) => (
            list.iter().any(|f| f == FOREGROUND),
            list.iter().any(|f| f == ORPHAN),
        ),
    };
    for (wanted, name) in [(orphan, ORPHAN), (foreground, FOREGROUND)] {
        let present = list.iter().any(|f| f == name);
        if wanted && !present {
            list.push(name.to_owned());
        } else if !wanted && present {
            list.retain(|f| f != name);
        }
    }
    if target.resource.is_crd() && !deleting(stored) && !list.iter().any(|f| f == CRD_CLEANUP) {
        list.push(CRD_CLEANUP.to_owned());
    }
    list
}

fn set_finalizers(state: &mut Value, list: &[String]) {
    let map = meta_mut(state);
    if list.is_empty() {
        map.remove("finalizers");
    } else {
        map.insert("finalizers".to_owned(), json!(list));
    }
}

pub(super) fn check_preconditions(
    target: &Target,
    options: &DeleteOptions,
    stored: &Value,
) -> Result<(), ApiError> {
    let conflict = |why: String| {
        let resource = &target.resource;
        let kind = crate::status::GroupResource::new(&resource.group, &resource.kind);
        Err(ApiError::conflict(&kind, &target.name, why))
    };
    let uid = meta_text(stored, "uid");
    if let Some(wanted) = &options.uid
        && wanted != uid
    {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        ));
    }
    let revision = meta_text(stored, "resourceVersion");
    if let Some(wanted) = &options.resource_version
        && wanted != revision
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        ));
    }
    Ok(())
}
