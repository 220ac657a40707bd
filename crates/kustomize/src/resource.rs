//! A resource during a build: the object, its origin, its former names.

use crate::Origin;
use crate::error::Place;
use crate::notes::Note;
use crate::schema::Schema;
use crate::sharing::Sharing;
use crate::spelling::Spelling;
use equate_manifest::object::Object;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// kustomize's namespace for cluster-scoped objects.
pub(crate) const CLUSTER: &str = "_non_namespaceable_";
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// A resource during a build.
///
/// Its former names decide, at the end of the build, which references mean it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resource {
    pub(crate) object: Object,
    pub(crate) origin: Origin,
    /// The column of its document or entry, from 1; 0 if unknown.
    pub(crate) column: usize,
    /// Former names, oldest first.
    pub(crate) history: Vec<Former>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) suffixes: Vec<String>,
    pub(crate) behavior: Behavior,
    pub(crate) needs_hash: bool,
    /// For a patch: whether it may change name or kind.
    pub(crate) may_rename: bool,
    pub(crate) may_retype: bool,
    pub(crate) spelling: Spelling,
    pub(crate) sharing: Sharing,
    pub(crate) variables: Vec<String>,
    pub(crate) note: Option<Note>,
    pub(crate) changes: Vec<Note>,
    /// Whether a chart created it, which fixed its namespace.
    pub(crate) from_chart: bool,
    /// Whether it exists only during the build; set at the end.
    pub(crate) is_local: bool,
}

/// A former name. Group and version never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The effective one.
    pub(crate) namespace: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behavior {
    #[default]
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "create" => Self::Create,
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Unspecified,
        }
    }
}

impl fmt::Display for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Merge => "merge",
        })
    }
}

/// A resource id. Prints as `Deployment.v1.apps/name.namespace`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// As written.
    pub(crate) namespace: String,
}

impl Id {
    /// `Deployment.v1.apps/name`
    pub(crate) fn without_namespace(&self) -> String {
        let group = if self.group.is_empty() {
            "[noGrp]"
        } else {
            &self.group
        };
        format!("{}.{}.{group}/{}", self.kind, self.version, self.name)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &str, other: &'static str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.to_owned()
            }
        };
        write!(
            f,
            "{}.{}.{}/{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]"),
            or(&self.name, "[noName]"),
            or(&self.namespace, "[noNs]"),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Called<'a> {
    group: &'a str,
    version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// The effective one.
    pub(crate) namespace: &'a str,
}

/// Splits an `apiVersion`. Everything after the first slash is the version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl Resource {
    pub(crate) fn new(object: Map<String, Value>, origin: Origin) -> Self {
        Self {
            object: Object(object),
            origin,
            ..Self::default()
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            path: self.origin.path.clone(),
            line: self.origin.line,
            column: self.column,
        }
    }

    pub(crate) fn group_version(&self) -> (&str, &str) {
        split_api_version(self.object.api_version())
    }

    pub(crate) fn kind(&self) -> &str {
        self.object.kind()
    }

    pub(crate) fn name(&self) -> &str {
        self.object.name()
    }

    /// The namespace, `default` if unset, or a constant for cluster-scoped kinds.
    pub(crate) fn effective_namespace(&self, schema: &Schema) -> &str {
        if schema.is_cluster_scoped(self.object.api_version(), self.kind()) {
            CLUSTER
        } else {
            match self.object.namespace() {
                "" => DEFAULT_NAMESPACE,
                namespace => namespace,
            }
        }
    }

    pub(crate) fn is_cluster_scoped(&self, schema: &Schema) -> bool {
        schema.is_cluster_scoped(self.object.api_version(), self.kind())
    }

    pub(crate) fn id(&self) -> Id {
        let (group, version) = self.group_version();
        Id {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
            namespace: self.object.namespace().to_owned(),
        }
    }

    pub(crate) fn original_id(&self) -> Id {
        let mut id = self.id();
        if let Some(first) = self.history.first() {
            id.kind.clone_from(&first.kind);
            id.name.clone_from(&first.name);
            id.namespace.clone_from(&first.namespace);
        }
        id
    }

    pub(crate) fn original_kind(&self) -> &str {
        self.history
            .first()
            .map_or_else(|| self.kind(), |former| &former.kind)
    }

    pub(crate) fn original_name(&self) -> &str {
        self.history
            .first()
            .map_or_else(|| self.name(), |former| &former.name)
    }

    pub(crate) fn original_namespace(&self, schema: &Schema) -> &str {
        match self.history.first() {
            Some(former) => &former.namespace,
            None => self.effective_namespace(schema),
        }
    }

    pub(crate) fn called(&self, schema: &Schema) -> Called<'_> {
        let (group, version) = self.group_version();
        Called {
            group,
            version,
            kind: self.kind(),
            name: self.name(),
            namespace: self.effective_namespace(schema),
        }
    }

    pub(crate) fn first_called(&self, schema: &Schema) -> Called<'_> {
        match self.history.first() {
            Some(former) => self.formerly(former),
            None => self.called(schema),
        }
    }

    pub(crate) fn all_called(&self, schema: &Schema) -> impl Iterator<Item = Called<'_>> {
        std::iter::once(self.called(schema)).chain(self.all_formerly())
    }

    pub(crate) fn all_formerly(&self) -> impl Iterator<Item = Called<'_>> {
        self.history.iter().map(|former| self.formerly(former))
    }

    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name()).chain(self.history.iter().map(|former| former.name.as_str()))
    }

    pub(crate) fn all_kinds(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.kind()).chain(self.history.iter().map(|former| former.kind.as_str()))
    }

    /// The steps to compare its names with another's.
    pub(crate) fn steps(&self) -> usize {
        1 + self.history.len()
    }

    fn formerly<'a>(&'a self, former: &'a Former) -> Called<'a> {
        let (group, version) = self.group_version();
        Called {
            group,
            version,
            kind: &former.kind,
            name: &former.name,
            namespace: &former.namespace,
        }
    }

    pub(crate) fn remember(&mut self, schema: &Schema) {
        let former = Former {
            kind: self.kind().to_owned(),
            name: self.name().to_owned(),
            namespace: self.effective_namespace(schema).to_owned(),
        };
        // the original name and the set of names matter; repeats do not
        if !self.history.contains(&former) {
            self.history.push(former);
        }
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.metadata_mut().insert("name".to_owned(), name.into());
    }

    /// Sets `metadata.namespace`, or removes it if empty.
    pub(crate) fn set_namespace(&mut self, namespace: &str) {
        if namespace.is_empty() {
            self.metadata_mut().remove("namespace");
        } else {
            self.metadata_mut()
                .insert("namespace".to_owned(), namespace.into());
        }
    }

    pub(crate) fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        map_in(&mut self.object.0, "metadata")
    }

    pub(crate) fn texts(&self, field: &str) -> Option<&Map<String, Value>> {
        self.object.metadata()?.get(field)?.as_object()
    }
}

/// The map under `field`; replaces anything else there.
pub(crate) fn map_in<'m>(map: &'m mut Map<String, Value>, field: &str) -> &'m mut Map<String, Value> {
    let value = map
        .entry(field.to_owned())
        .or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// A scalar as YAML text; `None` for maps and lists.
pub(crate) fn scalar_str(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Null => Some(Cow::Borrowed("")),
        Value::Bool(_) | Value::Number(_) => Some(equate_manifest::json::to_go_string(value).into()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// [`scalar_str`] as a text of its own.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    scalar_str(value).map(Cow::into_owned)
}
