//! The steps from a decoded request to the store.
//!
//! The order is upstream's, because messages and managed fields depend on it: decode, default, managed
//! fields, admission, prepare, validate, commit. Nothing here depends on HTTP: a [`Target`], a decoded
//! object and the caller in, an object or an [`ApiError`] out.

mod admission;
mod body;
mod bootstrap;
mod controlled;
mod conversion_text;
mod create;
mod delete;
mod eviction;
mod meta;
mod patch;
mod subresource;
mod update;

pub(crate) use body::{Body, BodyKind, PatchKind, normal_form};
pub(crate) use delete::Deleted;
pub(crate) use meta::put;

use crate::auth::Identity;
use crate::catalog::{Catalog, Registry};
use crate::http::options::{FieldValidation, WriteOptions};
use crate::registry::Resource;
use crate::status::{ApiError, GroupResource};
use crate::store::{Entry, Key, Snapshot, Store};
use serde_json::Value;
use std::sync::Arc;

/// Replaceable, so that tests and previews are repeatable.
pub(crate) type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub service_account_admission: bool,
    /// The node of new pods, if pods are simulated.
    pub node: Option<&'static str>,
}

pub(crate) struct Api {
    pub store: Store,
    pub catalog: Catalog,
    pub settings: Settings,
    pub clock: Clock,
    pub auth: crate::auth::Authority,
    pub webhooks: crate::webhooks::Webhooks,
    /// Held while a Service is written, from the choice of addresses to the commit.
    pub addresses: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct View {
    pub snapshot: Snapshot,
    pub registry: Arc<Registry>,
}

impl Api {
    /// Costs a pointer copy unless a CRD changed.
    pub(crate) fn view(&self) -> View {
        let snapshot = self.store.snapshot();
        let registry = self.catalog.at(&snapshot);
        View { snapshot, registry }
    }

    /// The current time in whole seconds, as objects carry it.
    pub(crate) fn now(&self) -> String {
        seconds((self.clock)())
    }
}

pub(crate) fn seconds(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub resource: Arc<Resource>,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Empty for a create, where the object may carry it.
    pub name: String,
    pub endpoint: Endpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Main,
    Status,
    Scale,
    Finalize,
    /// `pods/NAME/{ephemeralcontainers,resize}` and others that update the object like the main endpoint.
    Other(&'static str),
}

impl Endpoint {
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Other(name) => name,
        }
    }
}

impl Target {
    pub(crate) fn key(&self) -> Key {
        self.key_of(&self.name)
    }

    pub(crate) fn key_of(&self, name: &str) -> Key {
        Key {
            resource: self.resource.storage(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.group_resource(), &self.name)
    }

    pub(crate) fn invalid(&self, name: &str, errors: &[crate::field::FieldError]) -> ApiError {
        ApiError::invalid(&self.resource.group, &self.resource.kind, name, errors)
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::conflict(
            &self.group_resource(),
            &self.name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }
}

#[derive(Debug)]
pub(crate) struct Cx<'a> {
    pub identity: &'a Identity,
    /// Resolved from `fieldManager` or the user agent.
    pub manager: String,
    pub options: WriteOptions,
    pub warnings: Vec<String>,
}

impl Cx<'_> {
    pub(crate) fn dry_run(&self) -> bool {
        self.options.dry_run
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Handles decoding problems as `fieldValidation` asks; each is a message of Go's strict decoder.
    pub(crate) fn strict(&mut self, problems: Vec<String>) -> Result<(), Vec<String>> {
        match self.options.field_validation {
            _ if problems.is_empty() => Ok(()),
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                for problem in problems {
                    self.warn(problem);
                }
                Ok(())
            }
            FieldValidation::Strict => Err(problems),
        }
    }
}

/// An object to return: stored, or only built (dry run, deleted, subresource).
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Stored(Arc<Entry>),
    Built(Box<Value>),
}

impl Object {
    pub(crate) fn value(&self) -> &Value {
        match self {
            Self::Stored(entry) => entry.object(),
            Self::Built(value) => value,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub object: Object,
    /// Created: 201 instead of 200.
    pub created: bool,
}

impl Written {
    fn built(value: Value, created: bool) -> Self {
        Self {
            object: Object::Built(Box::new(value)),
            created,
        }
    }
}
