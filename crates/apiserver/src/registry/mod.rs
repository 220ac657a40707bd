//! The resources and their behaviour.
//!
//! A [`Resource`] is one group, version and plural. Kinds differ only in data: a schema, and a [`Strategy`]
//! of plain values and pure functions. Built-in strategies are a table in `builtin`; custom resources share
//! one.

mod behaviour;
mod versions;

use crate::conversion::Conversion;
use crate::field::FieldError;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

use crate::status::GroupResource;
use crate::store::ResourceId;
use behaviour::Types;

#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `Deployment`.
    pub kind: String,
    /// `DeploymentList`.
    pub list_kind: String,
    pub namespaced: bool,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    pub verbs: Vec<String>,
    pub schema: SchemaSource,
    /// `status`, `scale`, ... as discovery lists them.
    pub subresources: Vec<Subresource>,
    pub strategy: &'static Strategy,
    pub derived: Derived,
}

/// Values that follow from the other fields, computed on first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Derived {
    storage: OnceLock<ResourceId>,
    types: OnceLock<Types>,
    /// Whether objects stored under an older schema are converted to this one on reading.
    pub(crate) reshapes: bool,
    pub(crate) conversion: Option<Arc<Conversion>>,
}

impl Derived {
    /// A webhook reshapes by itself.
    pub(crate) fn converting(reshapes: bool, conversion: Option<Arc<Conversion>>) -> Self {
        Self {
            reshapes: reshapes && conversion.is_none(),
            conversion,
            ..Self::default()
        }
    }
}

impl Resource {
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum SchemaSource {
    Builtin(&'static str),
    Custom(Arc<crate::crd::CustomVersion>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subresource {
    pub name: String,
    /// The group, version and kind of its body where they differ from the parent's.
    pub kind: (String, String, String),
    pub verbs: Vec<String>,
}

/// When `metadata.generation` increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    None,
    /// 1 on create, +1 when `spec` changes.
    Spec,
    /// 1 on create, +1 when `spec` or the annotations change (Deployment).
    SpecAndAnnotations,
    /// 1 on create, +1 when anything outside `metadata` and, with a status subresource, `status` changes.
    AllButMetadata,
}

/// The behaviour of a kind. All functions are pure.
///
/// Objects arrive in normal form (decoded by the schema). The pipeline validates `metadata` by
/// [`Strategy::name`]; the functions here do not.
#[derive(Debug, Clone)]
pub(crate) struct Strategy {
    pub unconditional_update: bool,
    /// Whether a PUT to an absent name creates it (Lease does; most kinds answer 404).
    pub create_on_update: bool,
    pub generation: Generation,
    /// Whether the main endpoint keeps the stored `status` and drops a created one (before
    /// `prepare_create`, which may set a first one).
    pub has_status: bool,
    /// Exception to `has_status` (Node: the kubelet registers with a status).
    pub create_keeps_status: bool,
    /// Top-level and metadata fields that the `status` endpoint keeps as stored (`spec`, `metadata.labels`,
    /// ...).
    pub status_keeps: &'static [&'static [&'static str]],
    /// Field paths whose ownership the main endpoint does not record.
    pub reset_fields: &'static [&'static [&'static str]],
    /// The same for the `status` endpoint.
    pub status_reset_fields: &'static [&'static [&'static str]],
    pub delete_returns_object: bool,
    pub name: NameRule,
    /// Idempotent. Runs on the decoded object, before names are generated.
    pub default: fn(&mut Value),
    /// Resets fields that a create must not set, and derives others.
    /// `metadata.{name,uid,creationTimestamp}` are set.
    pub prepare_create: fn(&mut Value),
    /// The same for an update: new, stored. `status` is the stored one already.
    pub prepare_update: fn(&mut Value, &Value),
    /// The same for an update through the `status` endpoint: new, stored.
    pub prepare_status: fn(&mut Value, &Value),
    /// Checks an object beyond its schema and its metadata. Runs on create and on update.
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// Checks only new objects.
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// Checks only updates: new, stored. `validate` has run on the new object.
    pub validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    pub warnings: fn(&Value) -> Vec<String>,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [&'static str],
}

impl Strategy {
    /// No status, no generation, no defaults, no validation.
    pub(crate) const GENERIC: Self = Self {
        unconditional_update: true,
        create_on_update: false,
        generation: Generation::None,
        has_status: false,
        create_keeps_status: false,
        status_keeps: &[],
        reset_fields: &[],
        status_reset_fields: &[],
        delete_returns_object: false,
        name: NameRule::DnsSubdomain,
        default: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status: |_, _| {},
        validate: |_| Vec::new(),
        validate_create: |_| Vec::new(),
        validate_update: |_, _| Vec::new(),
        warnings: |_| Vec::new(),
        selectable: &[],
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// RFC 1123 subdomain, at most 253 bytes. The rule for most kinds.
    DnsSubdomain,
    /// RFC 1123 label, at most 63 bytes (Namespace, Service).
    DnsLabel,
    /// A path segment: not `.`, not `..`, no `/`, no `%` (RBAC kinds).
    PathSegment,
}
