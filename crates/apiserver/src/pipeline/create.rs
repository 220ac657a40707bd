//! Creating an object.

use super::meta::{meta_mut, meta_text, set_generation, set_text};
use super::update::RACE_ATTEMPTS;
use super::{Api, Body, Cx, Endpoint, Object, Target, Written, admission, body};
use crate::builtin::parts;
use crate::field::FieldError;
use crate::managed_fields;
use crate::random::{self, NoRandomNumbers};
use crate::registry::Generation;
use crate::status::{ApiError, Details};
use crate::store::{Change, CommitError, Expect};
use serde_json::{Value, json};

/// Retries after a clash of generated names (apiserver `registry/rest`, 8).
const NAME_ATTEMPTS: usize = 8;
const SUFFIX_LENGTH: usize = 5;
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const GENERATE_NAME_MAX: usize = 63 - SUFFIX_LENGTH;

impl Api {
    pub(crate) async fn create(
        &self,
        target: &Target,
        body: &Body,
        cx: &mut Cx<'_>,
    ) -> Result<Written, ApiError> {
        let object = body::read_object(target, body, cx)?;
        self.create_object(target, object, cx, true).await
    }

    /// `track` is false for an apply, which has already written its managed fields.
    pub(crate) async fn create_object(
        &self,
        target: &Target,
        mut object: Value,
        cx: &mut Cx<'_>,
        track: bool,
    ) -> Result<Written, ApiError> {
        let resource = &*target.resource;
        let revision = meta_text(&object, "resourceVersion").parse::<u64>();
        if revision.is_ok_and(|revision| revision != 0) {
            return Err(ApiError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
                None,
            ));
        }
        check_namespace(target, &mut object)?;
        for owned_by_server in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
        ] {
            meta_mut(&mut object).remove(owned_by_server);
        }
        let generated =
            meta_text(&object, "name").is_empty() && !meta_text(&object, "generateName").is_empty();
        let now = self.now();
        let mut attempt = 0;
        let mut races = 0;
        loop {
            let mut new = object.clone();
            if generated {
                let prefix: String = meta_text(&new, "generateName")
                    .chars()
                    .take(GENERATE_NAME_MAX)
                    .collect();
                set_text(&mut new, "name", &format!("{prefix}{}", random_suffix()?));
            }
            if track {
                new = managed_fields::update(None, new, &self.manager(target, cx, &now));
            }
            let view = self.view();
            admission::create(self, &view, target, &mut new, cx)?;
            self.mutate(&view, target, &mut new, None, cx).await?;
            let lock = self.lock_addresses(target).await;
            // free addresses must be read while the lock is held
            let view = if lock.is_some() { self.view() } else { view };
            self.prepare_create((target, &view), &mut new, &now, cx.dry_run())?;
            if (resource.group.as_str(), resource.kind.as_str())
                == ("certificates.k8s.io", "CertificateSigningRequest")
            {
                parts::stamp_requester(&mut new, cx.identity);
            }
            let name = meta_text(&new, "name").to_owned();
            let errors = create_errors(target, &new);
            if !errors.is_empty() {
                return Err(target.invalid(&name, &errors));
            }
            for warning in (resource.strategy.warnings)(&new) {
                cx.warn(warning);
            }
            self.review(&view, target, (Some(&new), None), cx).await?;
            let charges = self.charges(&view, target, &new, None)?;
            let key = target.key_of(&name);
            let existing = view.snapshot.get(&key);
            if existing.is_none() && cx.dry_run() {
                return Ok(Written::built(self.to_storage(resource, new).await?, true));
            }
            let deleting = existing.is_some_and(|e| super::meta::deleting(e.object()));
            let result = if existing.is_some() {
                Err(CommitError::Exists { key: key.clone() })
            } else {
                let mut changes = vec![Change::Put {
                    key,
                    object: self.to_storage(resource, new).await?,
                    expect: Expect::Absent,
                }];
                changes.extend(charges);
                self.store.commit(changes).await
            };
            match result {
                Ok(entries) => {
                    let entry = entries
                        .into_iter()
                        .next()
                        .ok_or_else(|| ApiError::internal("the commit returned no object"))?;
                    return Ok(Written {
                        object: Object::Stored(entry),
                        created: true,
                    });
                }
                Err(CommitError::Exists { .. }) if generated && attempt + 1 < NAME_ATTEMPTS => attempt += 1,
                // a quota changed meanwhile
                Err(CommitError::Conflict { .. } | CommitError::Missing { .. }) if races < RACE_ATTEMPTS => {
                    races += 1;
                }
                Err(CommitError::Exists { .. }) => return Err(exists(target, &name, deleting, generated)),
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
    }

    pub(super) fn prepare_create(
        &self,
        (target, view): (&Target, &super::View),
        object: &mut Value,
        now: &str,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        let resource = &*target.resource;
        let map = meta_mut(object);
        map.insert("uid".to_owned(), json!(uuid::Uuid::new_v4().to_string()));
        map.insert("creationTimestamp".to_owned(), json!(now));
        if resource.has_status() {
            resource.reset_status(object);
        }
        set_generation(
            object,
            if resource.generation() == Generation::None {
                0
            } else {
                1
            },
        );
        (resource.strategy.prepare_create)(object);
        admission::allocate(view, target, object, None, dry_run)
    }

    pub(super) fn manager<'a>(
        &self,
        target: &'a Target,
        cx: &'a Cx<'_>,
        now: &'a str,
    ) -> managed_fields::Manager<'a> {
        let resource = &target.resource;
        let reset_fields = match target.endpoint {
            Endpoint::Status => resource.status_reset_fields(),
            _ => resource.reset_fields(),
        };
        managed_fields::Manager {
            name: &cx.manager,
            api_version: &resource.types().api_version,
            kind: &resource.kind,
            subresource: target.endpoint.subresource(),
            time: now,
            types: &resource.types().merge,
            empty: &resource.types().empty,
            reset_fields,
        }
    }
}

fn check_namespace(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let given = meta_text(object, "namespace").to_owned();
    if target.resource.namespaced {
        if !given.is_empty() && given != target.namespace {
            return Err(namespace_mismatch());
        }
        set_text(object, "namespace", &target.namespace);
    } else if !given.is_empty() {
        return Err(namespace_mismatch());
    }
    Ok(())
}

pub(super) fn namespace_mismatch() -> ApiError {
    ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    )
}

fn create_errors(target: &Target, object: &Value) -> Vec<FieldError> {
    let resource = &*target.resource;
    if meta_text(object, "name").is_empty() {
        return vec![FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )];
    }
    let mut errors =
        crate::builtin::validate_object_meta(object, resource.strategy.name, resource.namespaced);
    errors.extend(resource.validate(object, None));
    errors
}

fn exists(target: &Target, name: &str, deleting: bool, generated: bool) -> ApiError {
    let mut error = ApiError::already_exists(&target.group_resource(), name);
    if deleting {
        error.message = format!("object is being deleted: {}", error.message);
    }
    if generated {
        error.message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            target.group_resource()
        );
        error
            .details
            .get_or_insert_with(|| Box::new(Details::default()))
            .retry_after_seconds = Some(1);
    }
    error
}

/// Five characters of upstream's alphabet, which spells no words.
fn random_suffix() -> Result<String, NoRandomNumbers> {
    let random: [u8; SUFFIX_LENGTH] = random::bytes()?;
    Ok(random
        .iter()
        .map(|b| char::from(SUFFIX_ALPHABET[usize::from(*b) % SUFFIX_ALPHABET.len()]))
        .collect())
}
