//! A compiled version of a custom resource.

use super::node::{Node, TooDeep};
use super::scale::{self, ScalePaths};
use super::{embedded, lists, prune, rules, values};
use crate::field::{FieldError, FieldErrorKind};
use equate_manifest::object::GroupVersionKind;
use equate_manifest::schema::{Additional, Schema, SchemaType};
use serde::Deserialize;
use serde_json::Value;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A served version of a custom resource: patterns, formats and rules are compiled once for all objects.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    schema: Schema,
    root: Node,
    api_version: String,
    kind: String,
    has_status: bool,
    scale: Option<ScalePaths>,
    columns: Vec<PrinterColumn>,
    selectable_fields: Vec<String>,
}

/// A column of `kubectl get`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub format: String,
    /// May be empty.
    #[serde(default)]
    pub description: String,
    /// Columns above 0 are shown in wide output only.
    #[serde(default)]
    pub priority: i32,
    pub json_path: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("the definition has no version \"{0}\"")]
    NoVersion(String),
    #[error("version \"{version}\": {part} cannot be read")]
    Malformed {
        version: String,
        part: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("version \"{version}\": {why}")]
    TooDeep { version: String, why: String },
}

impl CustomVersion {
    pub(crate) fn compile(crd: &Value, version: &str) -> Result<Self, CompileError> {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let found = versions
            .into_iter()
            .flatten()
            .find(|v| v.get("name").and_then(Value::as_str) == Some(version))
            .ok_or_else(|| CompileError::NoVersion(version.to_owned()))?;
        let malformed = |part: &'static str| {
            move |source| CompileError::Malformed {
                version: version.to_owned(),
                part,
                source,
            }
        };
        let raw = found.pointer("/schema/openAPIV3Schema");
        let mut schema = match raw {
            Some(raw) => Schema::deserialize(raw).map_err(malformed("schema"))?,
            None => Schema {
                kind: Some(SchemaType::Object),
                preserve_unknown_fields: Some(true),
                ..Schema::default()
            },
        };
        if crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
            schema.preserve_unknown_fields = Some(true);
        }
        let too_deep = |e: TooDeep| CompileError::TooDeep {
            version: version.to_owned(),
            why: e.to_string(),
        };
        let mut root = Node::new(&schema).map_err(too_deep)?;
        rules::attach(&mut root, &schema);
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
        publish(&mut schema, true);
        schema.group_version_kinds = vec![GroupVersionKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }];
        let columns = match found.get("additionalPrinterColumns").filter(|c| c.is_array()) {
            Some(columns) => Vec::deserialize(columns).map_err(malformed("additionalPrinterColumns"))?,
            None => Vec::new(),
        };
        let fields = found.get("selectableFields").and_then(Value::as_array);
        Ok(Self {
            has_status: found
                .pointer("/subresources/status")
                .is_some_and(Value::is_object),
            scale: found
                .pointer("/subresources/scale")
                .filter(|s| s.is_object())
                .map(scale_paths),
            selectable_fields: fields
                .into_iter()
                .flatten()
                .filter_map(|f| f.get("jsonPath")?.as_str())
                .map(|path| path.strip_prefix('.').unwrap_or(path).to_owned())
                .collect(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            schema,
            root,
            columns,
        })
    }

    /// The structural schema with `apiVersion`, `kind` and `metadata`, here and in embedded objects.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Drops undeclared fields and returns their paths, sorted: `spec.unknown`. The root's metadata is
    /// untouched.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, &self.root)
    }

    /// Drops nulls that are not allowed and fills in defaults. Idempotent.
    pub(crate) fn default(&self, object: &mut Value) {
        prune::default(object, &self.root);
    }

    /// Validates an object, except its metadata; on update `old` is the stored one.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.type_errors(new);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(values::validate(new, &self.root, "", old));
        if let Some(paths) = &self.scale {
            errors.extend(scale::validate_fields(new, paths, false));
        }
        errors.extend(embedded::validate(new, &self.root, "", false));
        self.finish(new, old, errors)
    }

    pub(crate) fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.type_errors(new);
        if !errors.is_empty() {
            return errors;
        }
        if let (Some(status), Some(schema)) = (new.get("status"), self.root.properties.get("status")) {
            let found = values::validate(status, schema, "", old.get("status"));
            errors.extend(found.into_iter().map(|mut e| {
                e.field = if e.field == "<nil>" {
                    "status".to_owned()
                } else {
                    format!("status.{}", e.field)
                };
                e
            }));
        }
        if let Some(paths) = &self.scale {
            errors.extend(scale::validate_fields(new, paths, true));
        }
        self.finish(new, Some(old), errors)
    }

    /// Checks lists for duplicates, then the rules; rules do not run on objects of the wrong shape.
    fn finish(&self, new: &Value, old: Option<&Value>, mut errors: Vec<FieldError>) -> Vec<FieldError> {
        // Lists that already had duplicates are tolerated.
        if old.is_none_or(|old| lists::validate(old, &self.root, "").is_empty()) {
            errors.extend(lists::validate(new, &self.root, ""));
        }
        if !self.root.has_rules {
            return errors;
        }
        let blocking = errors.iter().any(|e| {
            matches!(
                e.kind,
                FieldErrorKind::NotSupported
                    | FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
            )
        });
        if blocking {
            errors.push(FieldError::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing \
                 errors to complete validation",
            ));
        } else {
            errors.extend(rules::evaluate(new, old, &self.root, "", true));
        }
        errors
    }

    fn type_errors(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (field, wanted) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let found = object.get(field).and_then(Value::as_str).unwrap_or_default();
            if found != wanted {
                let found = Value::from(found);
                errors.push(FieldError::invalid(field, &found, format!("must be {wanted}")));
            }
        }
        errors
    }

    pub(crate) fn has_status(&self) -> bool {
        self.has_status
    }

    pub(crate) fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    /// The columns besides the name. If none are declared, the caller shows the age.
    pub(crate) fn printer_columns(&self) -> &[PrinterColumn] {
        &self.columns
    }

    /// The paths that field selectors may use besides metadata, without the leading dot: `spec.mode`.
    pub(crate) fn selectable_fields(&self) -> &[String] {
        &self.selectable_fields
    }

    /// The value a field selector compares with: text unchanged, other scalars printed, absent empty.
    pub(crate) fn selectable_value(object: &Value, field: &str) -> String {
        let mut current = object;
        for part in field.split('.') {
            match current.get(part) {
                Some(next) => current = next,
                None => return String::new(),
            }
        }
        match current {
            Value::Null => String::new(),
            other => super::go::plain(other),
        }
    }
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let text = |field: &str| {
        scale
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    ScalePaths {
        spec_replicas: text("specReplicasPath"),
        status_replicas: text("statusReplicasPath"),
        label_selector: Some(text("labelSelectorPath")).filter(|p| !p.is_empty()),
    }
}

fn publish(schema: &mut Schema, is_root: bool) {
    for property in schema.properties.values_mut() {
        publish(property, false);
    }
    if let Some(items) = &mut schema.items {
        publish(items, false);
    }
    if let Some(Additional::Schema(inner)) = &mut schema.additional_properties {
        publish(inner, false);
    }
    if !is_root && !schema.embedded_resource {
        return;
    }
    let described = |description: &str| Schema {
        kind: Some(SchemaType::String),
        description: Some(description.to_owned()),
        ..Schema::default()
    };
    schema.properties.insert(
        "apiVersion".to_owned(),
        described(
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
             recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        ),
    );
    schema.properties.insert(
        "kind".to_owned(),
        described(
            "Kind is a string value representing the REST resource this object represents. Servers may infer this \
             from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
             https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        ),
    );
    schema.properties.insert(
        "metadata".to_owned(),
        Schema {
            reference: Some(OBJECT_META.to_owned()),
            description: Some(
                "Standard object's metadata. More info: \
                 https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
                    .to_owned(),
            ),
            ..Schema::default()
        },
    );
    if !is_root {
        for field in ["kind", "apiVersion"] {
            if !schema.required.iter().any(|r| r == field) {
                schema.required.push(field.to_owned());
            }
        }
    }
}
