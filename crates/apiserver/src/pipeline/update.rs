//! PUT, and the final steps that all changes of an object share.

use super::meta::{self, copy, deleting, finalizers, generation, meta_text, set_generation, set_text};
use super::{Api, Body, Cx, Endpoint, Object, Target, View, Written, admission, body, create};
use crate::builtin;
use crate::field::FieldError;
use crate::managed_fields;
use crate::registry::{Generation, SchemaSource};
use crate::status::ApiError;
use crate::store::{Change, CommitError, Entry, Expect};
use serde_json::{Value, json};
use std::sync::Arc;

/// Retries of a write without a `resourceVersion` that loses a race.
pub(super) const RACE_ATTEMPTS: usize = 64;

pub(super) enum Attempt {
    Done(Written),
    Raced,
}

impl Api {
    pub(crate) async fn update(
        &self,
        target: &Target,
        body: &Body,
        cx: &mut Cx<'_>,
    ) -> Result<Written, ApiError> {
        let object = body::read_object(target, body, cx)?;
        let name = meta_text(&object, "name");
        if name != target.name {
            return Err(name_mismatch(target, name));
        }
        let mut object = object;
        let namespace = meta_text(&object, "namespace").to_owned();
        if !namespace.is_empty() && namespace != target.namespace {
            return Err(create::namespace_mismatch());
        }
        if target.resource.namespaced {
            set_text(&mut object, "namespace", &target.namespace);
        }
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let Some(current) = view.snapshot.get(&target.key()).cloned() else {
                if target.resource.strategy.create_on_update && target.endpoint == Endpoint::Main {
                    return self.create_object(target, object, cx, true).await;
                }
                return Err(target.not_found());
            };
            let pinned = check_preconditions(target, &object, current.object())?;
            if !pinned && !target.resource.strategy.unconditional_update {
                return Err(revision_required(target));
            }
            let stored = self.in_version(target, &current).await?;
            let now = self.now();
            let mut new = object.clone();
            set_text(&mut new, "resourceVersion", meta_text(&stored, "resourceVersion"));
            let new = managed_fields::update(Some(&stored), new, &self.manager(target, cx, &now));
            match self.change(target, &view, &current, &stored, new, cx).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Raced if pinned => return Err(target.modified()),
                Attempt::Raced => {}
            }
        }
        Err(target.modified())
    }

    pub(super) async fn in_version(&self, target: &Target, entry: &Arc<Entry>) -> Result<Value, ApiError> {
        let entry = self.entry_as(&target.resource, entry).await?;
        target
            .resource
            .to_version(entry.object())
            .map(std::borrow::Cow::into_owned)
    }

    pub(super) async fn change(
        &self,
        target: &Target,
        view: &View,
        current: &Arc<Entry>,
        stored: &Value,
        mut new: Value,
        cx: &mut Cx<'_>,
    ) -> Result<Attempt, ApiError> {
        let resource = &*target.resource;
        prepare(target, &mut new, stored);
        if target.endpoint == Endpoint::Other("approval") {
            builtin::parts::stamp_approval(&mut new, &self.now());
        }
        admission::update(self, view, target, &mut new, stored, cx)?;
        self.mutate(view, target, &mut new, Some(stored), cx).await?;
        let lock = self.lock_addresses(target).await;
        // Free addresses must be read while the lock is held.
        let newest = lock.is_some().then(|| self.view());
        admission::allocate(
            newest.as_ref().unwrap_or(view),
            target,
            &mut new,
            Some(stored),
            cx.dry_run(),
        )?;
        let errors = update_errors(target, &new, stored);
        if !errors.is_empty() {
            return Err(target.invalid(&target.name, &errors));
        }
        for warning in (resource.strategy.warnings)(&new) {
            cx.warn(warning);
        }
        self.review(
            newest.as_ref().unwrap_or(view),
            target,
            (Some(&new), Some(stored)),
            cx,
        )
        .await?;
        let last_finalizer_gone = removable(target, &new);
        let same = managed_fields::settle_times(stored, &mut new) && !resource.moves(current);
        if !last_finalizer_gone && same {
            return Ok(Attempt::Done(Written {
                object: Object::Stored(Arc::clone(current)),
                created: false,
            }));
        }
        if cx.dry_run() {
            let object = self.to_storage(resource, new).await?;
            return Ok(Attempt::Done(Written::built(object, false)));
        }
        let charges = if last_finalizer_gone {
            Vec::new()
        } else {
            self.charges(newest.as_ref().unwrap_or(view), target, &new, Some(stored))?
        };
        let expect = Expect::Revision(current.revision);
        let key = target.key();
        let object = self.to_storage(resource, new.clone()).await?;
        let change = if last_finalizer_gone {
            Change::Delete {
                key,
                expect,
                last: Some(object),
            }
        } else {
            Change::Put { key, object, expect }
        };
        let changes = std::iter::once(change).chain(charges).collect();
        match self.store.commit(changes).await {
            // The answer shows the requested state at the revision it replaced.
            Ok(_) if last_finalizer_gone => Ok(Attempt::Done(Written::built(new, false))),
            Ok(entries) => {
                let entry = entries
                    .into_iter()
                    .next()
                    .ok_or_else(|| ApiError::internal("the commit returned no object"))?;
                Ok(Attempt::Done(Written {
                    object: Object::Stored(entry),
                    created: false,
                }))
            }
            Err(CommitError::Conflict { .. }) => Ok(Attempt::Raced),
            Err(CommitError::Missing { .. }) => Ok(Attempt::Raced),
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }
}

fn removable(target: &Target, new: &Value) -> bool {
    deleting(new)
        && finalizers(new).is_empty()
        && meta::meta(new, "deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
        && (!target.resource.is_namespace() || !super::delete::has_namespace_finalizers(new))
}

/// Checks `uid` and `resourceVersion` of a PUT's body; true if it has a revision.
pub(super) fn check_preconditions(target: &Target, new: &Value, stored: &Value) -> Result<bool, ApiError> {
    let uid = meta_text(new, "uid");
    let stored_uid = meta_text(stored, "uid");
    if !uid.is_empty() && uid != stored_uid {
        return Err(ApiError::conflict(
            &target.group_resource(),
            &target.name,
            format_args!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}",
                registry_key(target)
            ),
        ));
    }
    let revision = meta_text(new, "resourceVersion");
    if revision.is_empty() || revision == "0" {
        return Ok(false);
    }
    if revision != meta_text(stored, "resourceVersion") {
        if revision.parse::<u64>().is_err() {
            let error = FieldError::invalid(
                "metadata.resourceVersion",
                &json!(revision),
                format!("strconv.ParseUint: parsing \"{revision}\": invalid syntax"),
            );
            return Err(ApiError::invalid(
                &target.resource.group,
                &target.resource.kind,
                &target.name,
                &[error],
            ));
        }
        return Err(target.modified());
    }
    Ok(true)
}

/// The key upstream's storage would use; it appears in one message.
fn registry_key(target: &Target) -> String {
    let resource = &target.resource;
    let prefix = match resource.schema {
        SchemaSource::Custom(_) => format!("/registry/{}/{}", resource.group, resource.plural),
        SchemaSource::Builtin(_) => format!("/registry/{}", resource.plural),
    };
    if target.namespace.is_empty() {
        format!("{prefix}/{}", target.name)
    } else {
        format!("{prefix}/{}/{}", target.namespace, target.name)
    }
}

/// Kinds without unconditional update require a revision; the message names the resource, not the kind.
fn revision_required(target: &Target) -> ApiError {
    let error = FieldError::with_value(
        crate::field::FieldErrorKind::Invalid,
        "metadata.resourceVersion",
        Some("0".to_owned()),
        "must be specified for an update",
    );
    let resource = &target.resource;
    let mut out = ApiError::invalid(&resource.group, &resource.plural, &target.name, &[error]);
    if let Some(details) = &mut out.details {
        details.kind.clone_from(&resource.plural);
    }
    out
}

pub(super) fn name_mismatch(target: &Target, name: &str) -> ApiError {
    if name.is_empty() {
        return ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        ));
    }
    ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        target.name
    ))
}

/// Restores fields that only the server writes, and those that this endpoint must not change.
fn prepare(target: &Target, new: &mut Value, stored: &Value) {
    let resource = &*target.resource;
    // These may be omitted; validation refuses a change.
    for optional in ["uid", "creationTimestamp"] {
        if meta_text(new, optional).is_empty() {
            copy(new, stored, optional);
        }
    }
    for server in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        copy(new, stored, server);
    }
    match target.endpoint {
        Endpoint::Status => {
            resource.keep_for_status(new, stored);
            (resource.strategy.prepare_status)(new, stored);
        }
        Endpoint::Finalize => {}
        Endpoint::Other(name) => {
            *new = builtin::parts::only(name, new, stored);
        }
        Endpoint::Main | Endpoint::Scale => {
            if resource.has_status() {
                resource.restore_status(new, stored);
            }
            (resource.strategy.prepare_update)(new, stored);
        }
    }
    set_generation(
        new,
        generation(stored) + i64::from(generation_rises(target, new, stored)),
    );
}

fn generation_rises(target: &Target, new: &Value, stored: &Value) -> bool {
    if target.endpoint == Endpoint::Status {
        return false;
    }
    let differs = |path: &[&str]| meta::at(new, path) != meta::at(stored, path);
    match target.resource.generation() {
        Generation::None => false,
        Generation::Spec => differs(&["spec"]),
        Generation::SpecAndAnnotations => differs(&["spec"]) || differs(&["metadata", "annotations"]),
        Generation::AllButMetadata => {
            let (Some(new), Some(stored)) = (new.as_object(), stored.as_object()) else {
                return false;
            };
            let counts = |key: &String| {
                key != "metadata" && !(key == "status" && target.resource.has_status()) && key != "apiVersion"
            };
            new.iter()
                .filter(|(k, _)| counts(k))
                .ne(stored.iter().filter(|(k, _)| counts(k)))
        }
    }
}

fn update_errors(target: &Target, new: &Value, stored: &Value) -> Vec<FieldError> {
    let resource = &*target.resource;
    let mut errors = builtin::validate_object_meta(new, resource.strategy.name, resource.namespaced);
    // Twice, as upstream: once for all kinds and once by each kind's own rules.
    let metadata = builtin::validate_object_meta_update(new, stored, false);
    errors.extend(metadata.iter().cloned());
    errors.extend(metadata);
    if let Endpoint::Other(name) = target.endpoint {
        errors.extend(builtin::parts::validate(name, new, stored));
        // the part that changes is checked above
        let before = builtin::parts::only(name, new, stored);
        errors.extend(resource.validate(new, Some(&before)));
    } else if target.endpoint != Endpoint::Status {
        errors.extend(resource.validate(new, Some(stored)));
    } else if let SchemaSource::Custom(version) = &resource.schema {
        errors.extend(version.validate_status(new, stored));
    }
    errors
}
