//! PATCH: three rewriting patches, and server-side apply.

use super::meta::{meta, meta_text, set_text};
use super::update::{Attempt, RACE_ATTEMPTS, check_preconditions, name_mismatch};
use super::{Api, Body, Cx, Endpoint, PatchKind, Target, Written, body, conversion_text};
use crate::field::{FieldError, go_quote};
use crate::managed_fields;
use crate::registry::SchemaSource;
use crate::status::ApiError;
use equate_manifest::object::Object as Manifest;
use equate_manifest::{json, patch, schema};
use serde_json::Value;

pub(super) enum Change {
    Json(patch::json::Patch),
    Merge(Value),
    Strategic(Value),
    /// The configuration, and whether conflicts are overridden.
    Apply(Value, bool),
}

impl Api {
    pub(crate) async fn patch(
        &self,
        target: &Target,
        bytes: &Body,
        kind: PatchKind,
        force: bool,
        cx: &mut Cx<'_>,
    ) -> Result<Written, ApiError> {
        let change = read(target, bytes, kind, force, cx)?;
        for _ in 0..RACE_ATTEMPTS {
            let view = self.view();
            let current = view.snapshot.get(&target.key()).cloned();
            let now = self.now();
            let Some(current) = current else {
                let Change::Apply(config, force) = change else {
                    return Err(target.not_found());
                };
                return self.apply_new(target, config, force, cx, &now).await;
            };
            let stored = self.in_version(target, &current).await?;
            let (new, pinned) = match &change {
                Change::Apply(config, force) => {
                    let pinned = check_preconditions(target, config, &stored)?;
                    (
                        self.applied(target, Some(&stored), config, *force, cx, &now)?,
                        pinned,
                    )
                }
                rewrite => {
                    let new = patched(target, &stored, rewrite, cx)?;
                    let pinned = names_other_revision(&new, &stored);
                    if pinned {
                        return Err(target.modified());
                    }
                    check_identity(target, &new)?;
                    let mut new = new;
                    set_text(&mut new, "resourceVersion", meta_text(&stored, "resourceVersion"));
                    // A patch with a `resourceVersion`, even the right one, is not retried after a race.
                    let pinned = writes_revision(rewrite);
                    (
                        managed_fields::update(Some(&stored), new, &self.manager(target, cx, &now)),
                        pinned,
                    )
                }
            };
            match self.change(target, &view, &current, &stored, new, cx).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Raced if pinned => return Err(target.modified()),
                Attempt::Raced => {}
            }
        }
        Err(target.modified())
    }

    async fn apply_new(
        &self,
        target: &Target,
        config: Value,
        force: bool,
        cx: &mut Cx<'_>,
        now: &str,
    ) -> Result<Written, ApiError> {
        if target.endpoint != Endpoint::Main {
            return Err(target.not_found());
        }
        let uid = meta_text(&config, "uid");
        if !uid.is_empty() {
            return Err(ApiError::conflict(
                &target.group_resource(),
                &target.name,
                format_args!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        let mut new = self.applied(target, None, &config, force, cx, now)?;
        set_text(&mut new, "resourceVersion", "");
        self.create_object(target, new, cx, false).await
    }

    fn applied(
        &self,
        target: &Target,
        stored: Option<&Value>,
        config: &Value,
        force: bool,
        cx: &mut Cx<'_>,
        now: &str,
    ) -> Result<Value, ApiError> {
        let resource = &*target.resource;
        let manager = self.manager(target, cx, now);
        let applied = managed_fields::apply(stored, config, force, &manager)?;
        let decoded = body::decode(resource, applied.object, &[]).map_err(|why| {
            ApiError::new(
                500,
                "",
                format!("failed to convert merged object to last applied version: {why}"),
                None,
            )
        })?;
        let mut object = decoded.value;
        if resource.namespaced {
            set_text(&mut object, "namespace", &target.namespace);
        }
        if let Some(stored) = stored {
            set_text(
                &mut object,
                "resourceVersion",
                meta_text(stored, "resourceVersion"),
            );
        }
        Ok(object)
    }
}

pub(super) fn read(
    target: &Target,
    body: &Body,
    kind: PatchKind,
    force: bool,
    cx: &mut Cx<'_>,
) -> Result<Change, ApiError> {
    match kind {
        PatchKind::Apply => read_apply(target, body, force, cx),
        PatchKind::Json => {
            let document = json::decode(&body.bytes)
                .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?
                .value;
            let patch = patch::json::Patch::parse(&document).map_err(|e| json_patch_error(&e))?;
            let problems: Vec<String> = patch
                .unknown_fields
                .iter()
                .map(|p| format!("unknown field {}", go_quote(p)))
                .collect();
            cx.strict(problems).map_err(|problems| {
                ApiError::bad_request(format!(
                    "error decoding patch: strict decoding error: {}",
                    problems.join(", ")
                ))
            })?;
            Ok(Change::Json(patch))
        }
        PatchKind::Merge | PatchKind::Strategic => {
            let decoded = json::decode(&body.bytes).map_err(|error| {
                ApiError::bad_request(match kind {
                    PatchKind::Strategic => error.to_string(),
                    _ => format!("error decoding patch: {error}"),
                })
            })?;
            let problems: Vec<String> = decoded
                .duplicates
                .iter()
                .map(|p| format!("duplicate field {}", go_quote(p)))
                .collect();
            cx.strict(problems).map_err(|problems| {
                ApiError::bad_request(format!("strict decoding error: {}", problems.join(", ")))
            })?;
            let document = decoded.value;
            Ok(if kind == PatchKind::Merge {
                Change::Merge(document)
            } else {
                Change::Strategic(document)
            })
        }
    }
}

/// An invalid JSON patch is a bad request; one with too many operations is too large.
fn json_patch_error(error: &patch::json::PatchError) -> ApiError {
    match error {
        patch::json::PatchError::TooMany { .. } => ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {error}"),
            None,
        ),
        _ => ApiError::bad_request(format!("error decoding patch: {error}")),
    }
}

fn read_apply(target: &Target, body: &Body, force: bool, cx: &mut Cx<'_>) -> Result<Change, ApiError> {
    let text = std::str::from_utf8(&body.bytes).map_err(|e| ApiError::bad_request(e.to_string()))?;
    let (config, repeated) =
        body::apply_value(text).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    let repeated = repeated.map(|problem| format!("error converting YAML to JSON: {problem}"));
    cx.strict(repeated.into_iter().collect()).map_err(|problems| {
        ApiError::bad_request(format!("error strict decoding YAML: {}", problems.join(", ")))
    })?;
    let Some(config) = Manifest::from_value(config) else {
        return Err(ApiError::bad_request(
            "error decoding YAML: the configuration is not an object",
        ));
    };
    let resource = &target.resource;
    let expected = (resource.api_version(), resource.kind.as_str());
    if (config.api_version(), config.kind()) != (expected.0.as_str(), expected.1) {
        let given = config.gvk().map(|gvk| gvk.to_string()).unwrap_or_default();
        return Err(ApiError::bad_request(format!("invalid object type: {given}")));
    }
    let config = config.into_value();
    if meta(&config, "managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let name = meta_text(&config, "name");
    if name != target.name && !name.is_empty() {
        return Err(name_mismatch(target, name));
    }
    let namespace = meta_text(&config, "namespace");
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(super::create::namespace_mismatch());
    }
    let mut config = config;
    if meta(&config, "name").is_none() {
        set_text(&mut config, "name", &target.name);
    }
    Ok(Change::Apply(config, force))
}

/// Upstream's generic answer to a patch that does not apply; it omits the cause.
fn unprocessable() -> ApiError {
    ApiError::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        Some(crate::status::Details::default()),
    )
}

fn rewritten(target: &Target, stored: &Value, change: &Change) -> Result<Value, ApiError> {
    match change {
        Change::Json(operations) => operations.apply(stored.clone()).map_err(|_| unprocessable()),
        Change::Merge(document) => {
            patch::merge::apply(stored.clone(), document).map_err(|e| ApiError::bad_request(e.to_string()))
        }
        Change::Strategic(document) => {
            let SchemaSource::Builtin(definition) = &target.resource.schema else {
                return Err(ApiError::internal("strategic merge patch of a custom resource"));
            };
            let definitions = schema::kubernetes();
            let root = definitions
                .get(definition)
                .ok_or_else(|| ApiError::internal(format!("no schema {definition}")))?;
            let mut new =
                patch::strategic::apply(stored.clone(), document, root, |name| definitions.get(name))
                    .map_err(|error| match error.fault() {
                        patch::strategic::Fault::BadRequest => ApiError::bad_request(error.to_string()),
                        patch::strategic::Fault::Unprocessable => unprocessable(),
                        patch::strategic::Fault::Internal => ApiError::new(500, "", error.to_string(), None),
                    })?;
            // Upstream merges into the Go type, which cannot hold another kind.
            for key in ["kind", "apiVersion"] {
                super::put(&mut new, &[key], stored.get(key).cloned());
            }
            Ok(new)
        }
        Change::Apply(..) => Err(ApiError::internal("an apply does not rewrite")),
    }
}

/// The object after a rewriting patch, in normal form. As upstream, a refusal shows the object.
pub(super) fn patched(
    target: &Target,
    stored: &Value,
    change: &Change,
    cx: &mut Cx<'_>,
) -> Result<Value, ApiError> {
    let refuse = |shown: String, why: String| {
        let error = FieldError::invalid("patch", &Value::String(shown), why);
        ApiError::invalid("", "", "", &[error])
    };
    // Built again only for a refusal: the text of every patched object would cost more than the patch.
    let whole = || {
        rewritten(target, stored, change)
            .map(|object| json::to_go_string(&object))
            .unwrap_or_default()
    };
    let mut object = rewritten(target, stored, change)?;
    check_type(target, &mut object, whole)?.map_err(|why| refuse(whole(), why))?;
    let decoded = body::decode(&target.resource, object, &[]).map_err(|error| match change {
        Change::Strategic(document) => refuse(
            conversion_text::go_map(document),
            conversion_text::of_conversion(&error),
        ),
        Change::Json(_) | Change::Merge(_) | Change::Apply(..) => refuse(whole(), error.to_string()),
    })?;
    cx.strict(decoded.problems)
        .map_err(|problems| refuse(whole(), format!("strict decoding error: {}", problems.join(", "))))?;
    Ok(decoded.value)
}

/// A patch must not change the kind. The inner error is about the patch, the outer about the object.
fn check_type(
    target: &Target,
    patched: &mut Value,
    text: impl Fn() -> String,
) -> Result<Result<(), String>, ApiError> {
    let resource = &*target.resource;
    let Value::Object(map) = patched else {
        return Ok(Ok(()));
    };
    for (key, label, expected) in [
        ("kind", "Kind", resource.kind.clone()),
        ("apiVersion", "apiVersion", resource.api_version()),
    ] {
        let given = match map.get(key) {
            Some(Value::String(given)) if !given.is_empty() => given,
            Some(Value::String(_) | Value::Null) | None if resource.is_custom() => {
                return Ok(Err(format!("Object '{label}' is missing in '{}'", text())));
            }
            Some(Value::String(_) | Value::Null) | None => {
                map.insert(key.to_owned(), Value::String(expected));
                continue;
            }
            Some(_) => return Ok(Ok(())),
        };
        if *given == expected {
            continue;
        }
        if resource.is_custom() {
            let why = format!("must be {expected}");
            let error = FieldError::invalid(key, &Value::String(given.clone()), why);
            let kind = if key == "kind" { given } else { &resource.kind };
            return Err(ApiError::invalid(&resource.group, kind, &target.name, &[error]));
        }
        return Ok(Err(if key == "kind" {
            body::unknown_conversion(resource, given)
        } else {
            let kind = go_quote(&resource.kind);
            format!("no kind {kind} is registered for version {}", go_quote(given))
        }));
    }
    Ok(Ok(()))
}

fn names_other_revision(new: &Value, stored: &Value) -> bool {
    let revision = meta_text(new, "resourceVersion");
    !revision.is_empty() && revision != meta_text(stored, "resourceVersion")
}

fn writes_revision(change: &Change) -> bool {
    match change {
        Change::Merge(document) | Change::Strategic(document) => {
            !meta_text(document, "resourceVersion").is_empty()
        }
        Change::Json(_) | Change::Apply(..) => false,
    }
}

fn check_identity(target: &Target, new: &Value) -> Result<(), ApiError> {
    let name = meta_text(new, "name");
    if name != target.name {
        return Err(name_mismatch(target, name));
    }
    if target.resource.namespaced && meta_text(new, "namespace") != target.namespace {
        return Err(super::create::namespace_mismatch());
    }
    Ok(())
}
