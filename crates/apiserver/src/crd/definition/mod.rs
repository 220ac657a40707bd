//! Validation of CustomResourceDefinitions, except of their schemas.
//!
//! Texts and order are apiextensions-apiserver's (1.36). It validates an internal form that hoists what all
//! versions share to the top: the schema of a single version is reported under `spec.validation`, not
//! `spec.versions[0].schema`.

mod version_rules;

use super::names::{dns1035_label, dns1123_subdomain};
use super::schema_rules;
use crate::field::{FieldError, FieldErrorKind};
use serde_json::{Map, Value, json};
use version_rules::{column_errors, deprecation_errors, selectable_errors, subresource_errors};

pub(crate) fn default_crd(crd: &mut Value) {
    let Value::Object(root) = crd else { return };
    let storage = storage_version(root.get("spec").unwrap_or(&Value::Null));
    if let Some(Value::Object(spec)) = root.get_mut("spec") {
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = names
                .get("kind")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let empty = |names: &Map<String, Value>, field: &str| {
                names
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .is_empty()
            };
            if !kind.is_empty() && empty(names, "singular") {
                names.insert("singular".to_owned(), json!(kind.to_lowercase()));
            }
            if !kind.is_empty() && empty(names, "listKind") {
                names.insert("listKind".to_owned(), json!(format!("{kind}List")));
            }
        }
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".to_owned(), json!({ "strategy": "None" }));
        }
    }
    let status = root.entry("status").or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        status.entry("conditions").or_insert(Value::Null);
        status
            .entry("acceptedNames")
            .or_insert_with(|| json!({ "plural": "", "kind": "" }));
        let stored = status.entry("storedVersions").or_insert(Value::Null);
        if stored.as_array().is_none_or(Vec::is_empty)
            && let Some(storage) = storage
        {
            *stored = json!([storage]);
        }
    }
}

/// The status starts empty, with the storage version as stored.
pub(crate) fn prepare_create(crd: &mut Value) {
    if let Value::Object(root) = crd {
        root.remove("status");
    }
    default_crd(crd);
}

/// The main endpoint keeps the stored status; a new storage version joins `storedVersions`.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    let storage = new.get("spec").and_then(storage_version);
    if let Value::Object(root) = new {
        root.insert(
            "status".to_owned(),
            old.get("status").cloned().unwrap_or_else(|| json!({})),
        );
    }
    if let Some(storage) = storage
        && let Some(Value::Array(stored)) = new.pointer_mut("/status/storedVersions")
        && !stored.iter().any(|v| v.as_str() == Some(&storage))
    {
        stored.push(json!(storage));
    }
}

fn storage_version(spec: &Value) -> Option<String> {
    let versions = spec.get("versions")?.as_array()?;
    let storage = versions
        .iter()
        .find(|v| v.get("storage") == Some(&Value::Bool(true)))?;
    Some(storage.get("name")?.as_str()?.to_owned())
}

/// Checks a new definition. The pipeline checks its metadata, except that the name is `<plural>.<group>`.
pub(crate) fn validate_crd(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(new.pointer("/metadata/name"));
    let wanted = format!(
        "{}.{}",
        text(new.pointer("/spec/names/plural")),
        text(new.pointer("/spec/group"))
    );
    if name != wanted {
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    common(new, &mut errors);
    approval(new, None, &mut errors);
    preserve_unknown(new, None, &mut errors);
    errors
}

/// Checks a changed definition completely: `validate_crd` is not needed in addition.
pub(crate) fn validate_crd_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    common(new, &mut errors);
    let mut immutable = |pointer: &str, field: &str| {
        let value = new.pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old.pointer(pointer) {
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    };
    if super::establish::condition_is_true(old, "Established") {
        immutable("/spec/scope", "spec.scope");
        immutable("/spec/names/kind", "spec.names.kind");
    }
    immutable("/spec/group", "spec.group");
    immutable("/spec/names/plural", "spec.names.plural");
    approval(new, Some(old), &mut errors);
    preserve_unknown(new, Some(old), &mut errors);
    errors
}

/// Formats in the schemas that the server does not know: `unrecognized format "foo"`.
pub(crate) fn format_warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let formats_of = |crd: &Value| {
        let mut found = Vec::new();
        for version in crd
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
                schema_rules::unrecognized_formats(schema, &mut found);
            }
        }
        found
    };
    let before = old.map(formats_of).unwrap_or_default();
    formats_of(crd)
        .into_iter()
        .filter(|f| !before.contains(f))
        .map(|f| format!("unrecognized format {}", crate::field::go_quote(&f)))
        .collect()
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

struct Internal<'a> {
    versions: Vec<&'a Value>,
    schema: Option<Option<&'a Value>>,
    subresources: Option<Option<&'a Value>>,
    columns: Option<&'a [Value]>,
    selectable: Option<&'a [Value]>,
}

fn list<'a>(version: &'a Value, field: &str) -> &'a [Value] {
    version
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

impl<'a> Internal<'a> {
    fn new(spec: &'a Value) -> Self {
        let versions: Vec<&Value> = list(spec, "versions").iter().collect();
        let Some(first) = versions.first().copied() else {
            return Self {
                versions,
                schema: None,
                subresources: None,
                columns: None,
                selectable: None,
            };
        };
        let shared = |field: &str| versions.iter().all(|v| v.get(field) == first.get(field));
        Self {
            schema: shared("schema").then(|| first.get("schema")),
            subresources: shared("subresources").then(|| first.get("subresources")),
            columns: shared("additionalPrinterColumns").then(|| list(first, "additionalPrinterColumns")),
            selectable: shared("selectableFields").then(|| list(first, "selectableFields")),
            versions,
        }
    }

    /// The versions as an error shows them: the internal type has Go's field names.
    fn shown(&self) -> String {
        let member = |hoisted: bool, version: &Value, field: &str| {
            if hoisted {
                Value::Null
            } else {
                version.get(field).cloned().unwrap_or(Value::Null)
            }
        };
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|v| {
                let pairs = [
                    ("Name", json!(text(v.get("name")))),
                    ("Served", json!(v.get("served") == Some(&Value::Bool(true)))),
                    ("Storage", json!(v.get("storage") == Some(&Value::Bool(true)))),
                    (
                        "Deprecated",
                        json!(v.get("deprecated") == Some(&Value::Bool(true))),
                    ),
                    (
                        "DeprecationWarning",
                        v.get("deprecationWarning").cloned().unwrap_or(Value::Null),
                    ),
                    ("Schema", member(self.schema.is_some(), v, "schema")),
                    (
                        "Subresources",
                        member(self.subresources.is_some(), v, "subresources"),
                    ),
                    (
                        "AdditionalPrinterColumns",
                        member(self.columns.is_some(), v, "additionalPrinterColumns"),
                    ),
                    (
                        "SelectableFields",
                        member(self.selectable.is_some(), v, "selectableFields"),
                    ),
                ];
                let members: Vec<String> = pairs.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", members.join(","))
            })
            .collect();
        format!("[{}]", versions.join(","))
    }

    fn versions_error(&self, detail: &str) -> FieldError {
        FieldError::with_value(
            FieldErrorKind::Invalid,
            "spec.versions",
            Some(self.shown()),
            detail,
        )
    }
}

fn common(crd: &Value, errors: &mut Vec<FieldError>) {
    let null = Value::Null;
    let spec = crd.get("spec").unwrap_or(&null);
    spec_errors(spec, errors);
    if let Some(names) = crd.pointer("/status/acceptedNames") {
        names_errors(names, "status.acceptedNames", errors);
    }
    stored_versions(crd, spec, errors);
}

fn spec_errors(spec: &Value, errors: &mut Vec<FieldError>) {
    let internal = Internal::new(spec);
    let group = text(spec.get("group"));
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        let wrong = dns1123_subdomain(group);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.group", &json!(group), wrong.join(",")));
        } else if !group.contains('.') {
            errors.push(FieldError::invalid(
                "spec.group",
                &json!(group),
                "should be a domain with at least one dot",
            ));
        }
    }
    enumeration(
        text(spec.get("scope")),
        "spec.scope",
        &["Cluster", "Namespaced"],
        errors,
    );

    let has_schema = |v: &Value| v.pointer("/schema/openAPIV3Schema").is_some_and(Value::is_object);
    for (index, version) in internal.versions.iter().enumerate() {
        if !has_schema(version) {
            errors.push(FieldError::required(
                format!("spec.versions[{index}].schema.openAPIV3Schema"),
                "",
            ));
        }
    }
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true))
        && internal.versions.iter().any(|v| {
            v.pointer("/schema/openAPIV3Schema")
                .is_some_and(schema_rules::has_defaults)
        })
    {
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "must be false in order to use defaults in the schema",
        ));
    }
    versions_errors(&internal, errors);

    // The internal form repeats the first version's name.
    if let Some(first) = internal.versions.first() {
        let name = text(first.get("name"));
        let wrong = dns1035_label(name);
        if !name.is_empty() && !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.version", &json!(name), wrong.join(",")));
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(spec.pointer(&format!("/names/{field}"))).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    if let Some(names) = spec.get("names") {
        names_errors(names, "spec.names", errors);
    }
    let any_status = internal
        .versions
        .iter()
        .any(|v| v.pointer("/subresources/status").is_some());
    if let Some(Some(schema)) = internal.schema {
        schema_errors(schema, any_status, "spec.validation", errors);
    }
    if let Some(Some(subresources)) = internal.subresources {
        subresource_errors(subresources, "spec.subresources", errors);
    }
    if let Some(columns) = internal.columns {
        column_errors(columns, "spec.additionalPrinterColumns", errors);
    }
    if let Some(fields) = internal.selectable.filter(|f| !f.is_empty()) {
        if let Some(schema) = internal.schema {
            let why = "may only be set when validations.schema is included";
            selectable_errors(fields, schema, "spec.selectableFields", why, errors);
        } else {
            errors.push(FieldError::invalid(
                "spec.selectableFields",
                &json!(""),
                "may only be set when validations.schema is included",
            ));
        }
    }
    conversion_errors(spec.get("conversion"), errors);
}

fn versions_errors(internal: &Internal<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    let mut unique = true;
    let mut storage = 0;
    for (index, version) in internal.versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version.get("name"));
        if version.get("storage") == Some(&Value::Bool(true)) {
            storage += 1;
        }
        unique &= !seen.contains(&name);
        seen.push(name);
        let wrong = dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.name"),
                &json!(name),
                wrong.join(","),
            ));
        }
        deprecation_errors(version, &path, errors);
        if internal.schema.is_none()
            && let Some(schema) = version.get("schema")
        {
            let has_status = version.pointer("/subresources/status").is_some();
            schema_errors(schema, has_status, &format!("{path}.schema"), errors);
        }
        if internal.subresources.is_none()
            && let Some(subresources) = version.get("subresources")
        {
            subresource_errors(subresources, &format!("{path}.subresources"), errors);
        }
        if internal.columns.is_none() {
            let columns = list(version, "additionalPrinterColumns");
            column_errors(columns, &format!("{path}.additionalPrinterColumns"), errors);
        }
        let fields = list(version, "selectableFields");
        if internal.selectable.is_none() && !fields.is_empty() {
            let schema = if internal.schema.is_some() {
                None
            } else {
                version.get("schema")
            };
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            selectable_errors(fields, schema, &format!("{path}.selectableFields"), why, errors);
        }
    }
    if !unique {
        errors.push(internal.versions_error("must contain unique version names"));
    }
    if storage != 1 {
        errors.push(internal.versions_error("must have exactly one version marked as storage version"));
    }
}

fn schema_errors(validation: &Value, has_status: bool, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(schema) = validation.get("openAPIV3Schema").filter(|s| s.is_object()) {
        errors.extend(schema_rules::validate(
            schema,
            has_status,
            &format!("{path}.openAPIV3Schema"),
        ));
    }
}

fn enumeration(value: &str, path: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, &json!(value), accepted));
    }
}

fn names_errors(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut label = |value: &str, field: String, mixed_case: bool| {
        let wrong = if mixed_case {
            dns1035_label(&value.to_lowercase())
        } else {
            dns1035_label(value)
        };
        if !wrong.is_empty() {
            let intro = if mixed_case {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            errors.push(FieldError::invalid(
                field,
                &json!(value),
                format!("{intro}{}", wrong.join(",")),
            ));
        }
    };
    for (field, mixed_case) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let value = text(names.get(field));
        if !value.is_empty() {
            label(value, format!("{path}.{field}"), mixed_case);
        }
    }
    for (index, name) in list(names, "shortNames").iter().enumerate() {
        label(text(Some(name)), format!("{path}.shortNames[{index}]"), false);
    }
    let (kind, list_kind) = (text(names.get("kind")), text(names.get("listKind")));
    if !kind.is_empty() && kind == list_kind {
        errors.push(FieldError::invalid(
            format!("{path}.listKind"),
            &json!(list_kind),
            "kind and listKind may not be the same",
        ));
    }
    for (index, name) in list(names, "categories").iter().enumerate() {
        let name = text(Some(name));
        let wrong = dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.categories[{index}]"),
                &json!(name),
                wrong.join(","),
            ));
        }
    }
}

fn conversion_errors(conversion: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = conversion.filter(|c| c.is_object()) else {
        return;
    };
    let strategy = text(conversion.get("strategy"));
    if strategy == "Webhook" {
        let path = "spec.conversion.webhookClientConfig";
        let client = conversion
            .get("webhook")
            .and_then(|webhook| webhook.get("clientConfig"));
        match client.filter(|client| !client.is_null()) {
            None => errors.push(FieldError::required(
                path,
                "required when strategy is set to Webhook",
            )),
            Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
                errors.push(FieldError::required(
                    path,
                    "exactly one of url or service is required",
                ));
            }
            Some(_) => {}
        }
        review_versions(conversion.get("webhook"), errors);
        return;
    }
    enumeration(strategy, "spec.conversion.strategy", &["None", "Webhook"], errors);
    let webhook = conversion.get("webhook");
    if webhook.is_some_and(|w| w.get("clientConfig").is_some()) {
        errors.push(FieldError::forbidden(
            "spec.conversion.webhookClientConfig",
            "should not be set when strategy is not set to Webhook",
        ));
    }
    if webhook.is_some_and(|w| !list(w, "conversionReviewVersions").is_empty()) {
        errors.push(FieldError::forbidden(
            "spec.conversion.conversionReviewVersions",
            "should not be set when strategy is not set to Webhook",
        ));
    }
}

fn review_versions(webhook: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.conversionReviewVersions";
    let versions = webhook
        .map(|webhook| list(webhook, "conversionReviewVersions"))
        .unwrap_or_default();
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let at = || format!("{path}[{index}]");
        if versions.iter().take(index).any(|other| other == version) {
            errors.push(FieldError::invalid(at(), version, "duplicate version"));
            continue;
        }
        for why in dns1035_label(text(Some(version))) {
            errors.push(FieldError::invalid(at(), version, why));
        }
    }
    if !versions
        .iter()
        .any(|version| version == "v1" || version == "v1beta1")
    {
        let why = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, &json!(versions), why));
    }
}

fn stored_versions(crd: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    let null = Value::Null;
    let stored = crd.pointer("/status/storedVersions").unwrap_or(&null);
    let names: Vec<&str> = stored
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if names.is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid(path, stored, why));
        return;
    }
    let versions = list(spec, "versions");
    for version in versions {
        let name = text(version.get("name"));
        if version.get("storage") == Some(&Value::Bool(true)) && !names.contains(&name) {
            errors.push(FieldError::invalid(
                path,
                stored,
                format!("must have the storage version {name}"),
            ));
        }
    }
    for (index, name) in names.iter().enumerate() {
        if !versions.iter().any(|v| text(v.get("name")) == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{path}[{index}]"), &json!(name), why));
        }
    }
}

/// Groups of the Kubernetes community need an annotation with the API's approval.
fn approval(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(new.pointer("/spec/group"));
    let community = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|g| group == *g || group.ends_with(&format!(".{g}")));
    if !community {
        return;
    }
    #[derive(PartialEq)]
    enum Approval {
        Missing,
        Bypassed,
        Approved,
        Invalid,
    }
    let annotation = |crd: &Value| {
        let value = crd
            .get("metadata")
            .and_then(|m| m.get("annotations"))
            .and_then(|a| a.get(ANNOTATION));
        text(value).to_owned()
    };
    let state = |text: &str| {
        let is_url = text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.split('/').next().unwrap_or("").is_empty()
        });
        match text {
            "" => Approval::Missing,
            t if t.starts_with("unapproved") => Approval::Bypassed,
            _ if is_url => Approval::Approved,
            _ => Approval::Invalid,
        }
    };
    let value = annotation(new);
    let current = state(&value);
    if old.is_some_and(|old| state(&annotation(old)) == current) {
        return;
    }
    let path = format!("metadata.annotations[{ANNOTATION}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match current {
        Approval::Missing => errors.push(FieldError::required(
            path,
            format!("protected groups must have approval annotation \"{ANNOTATION}\", {see}"),
        )),
        Approval::Invalid => errors.push(FieldError::invalid(
            path,
            &json!(value),
            format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason \
                 starting with \"unapproved\", {see}"
            ),
        )),
        Approval::Bypassed | Approval::Approved => {}
    }
}

fn preserve_unknown(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let set = |crd: &Value| crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    if set(new) && !old.is_some_and(set) {
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
             instead",
        ));
    }
}
