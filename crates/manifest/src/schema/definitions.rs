//! The generated table of built-in definitions and resources.
//!
//! `cargo xtask gen` writes it as one JSON document with one definition or resource per line. Start-up only
//! splits lines; a definition is parsed on first use, because a process needs few of several hundred.

use super::Schema;
use super::protobuf::{self, Slot};
use crate::object::GroupVersion;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::sync::{LazyLock, OnceLock};

static DESCRIPTIONS: &[u8] = include_bytes!("../../data/kubernetes-1.36-descriptions.json.gz");
static TABLE: &[u8] = include_bytes!("../../data/kubernetes-1.36.json.gz");

/// Named schemas that refer to each other.
#[derive(Debug)]
pub struct Definitions {
    by_name: HashMap<&'static str, Definition>,
}

#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) codec: Codec,
    raw: &'static str,
    schema: OnceLock<Schema>,
    slots: OnceLock<Vec<Slot>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Struct,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// Any JSON, kept as it is.
    Raw,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStringArray,
}

impl Codec {
    fn of(name: &str) -> Self {
        const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
        match name {
            "io.k8s.apimachinery.pkg.api.resource.Quantity" => Self::Quantity,
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Self::Time,
            "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Self::MicroTime,
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Self::IntOrString,
            "io.k8s.apimachinery.pkg.runtime.RawExtension"
            | "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" => Self::Raw,
            _ => match name.strip_prefix(EXTENSIONS) {
                Some("JSON") => Self::Raw,
                Some("JSONSchemaPropsOrArray") => Self::SchemaOrArray,
                Some("JSONSchemaPropsOrBool") => Self::SchemaOrBool,
                Some("JSONSchemaPropsOrStringArray") => Self::SchemaOrStringArray,
                _ => Self::Struct,
            },
        }
    }
}

impl Definition {
    pub(super) fn schema(&self) -> &Schema {
        // a test parses every generated line, so this cannot fail
        self.schema.get_or_init(|| self.parse().unwrap_or_default())
    }

    /// The fields by protobuf number.
    pub(super) fn slots(&self) -> &[Slot] {
        self.slots.get_or_init(|| protobuf::slots(self.schema()))
    }

    pub(super) fn parse(&self) -> Result<Schema, serde_json::Error> {
        serde_json::from_str(self.raw)
    }

    pub(super) fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Definitions {
    /// A definition by its full name, `io.k8s.api.core.v1.Pod`.
    pub fn get(&self, name: &str) -> Option<&Schema> {
        self.by_name.get(name).map(Definition::schema)
    }

    /// Follows `$ref`; returns the node itself if it has none or an unknown one.
    pub fn resolve<'a>(&'a self, schema: &'a Schema) -> &'a Schema {
        match schema.reference.as_deref().and_then(|name| self.get(name)) {
            Some(target) => target,
            None => schema,
        }
    }

    /// The names of all definitions, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }

    /// The definition of a kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Definition> {
        // they come with the version of the deleted object
        if kind == "DeleteOptions" {
            return self.definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        }
        let wanted = GroupVersion::parse(api_version)?;
        let end = format!(".{}.{kind}", wanted.version);
        let named = self
            .by_name
            .values()
            .filter(|definition| definition.name.ends_with(&end));
        named.into_iter().find(|definition| {
            let kinds = &definition.schema().group_version_kinds;
            kinds
                .iter()
                .any(|known| known.kind == kind && known.group_version() == wanted)
        })
    }

    pub(super) fn definition(&self, name: &str) -> Option<&Definition> {
        self.by_name.get(name)
    }
}

/// A built-in resource, as in discovery.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `Deployment`.
    pub kind: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: Vec<String>,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// The name of its schema in [`kubernetes`].
    pub definition: String,
    /// `status`, `scale`, ...
    pub subresources: Vec<ApiSubresource>,
}

/// A subresource of a built-in resource.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ApiSubresource {
    /// `status`.
    pub name: String,
    /// The group of its body's kind.
    pub group: String,
    /// The version of its body's kind.
    pub version: String,
    /// Its body's kind.
    pub kind: String,
    /// The supported verbs.
    pub verbs: Vec<String>,
}

#[derive(Debug)]
struct Table {
    definitions: Definitions,
    resources: &'static str,
}

static KUBERNETES: LazyLock<Table> = LazyLock::new(|| split(unpack(TABLE)));

/// Only clients that ask for the published schemas need these.
static TEXTS: LazyLock<HashMap<&'static str, &'static str>> =
    LazyLock::new(|| unpack(DESCRIPTIONS).lines().filter_map(entry).collect());

fn unpack(packed: &[u8]) -> &'static str {
    let mut text = String::with_capacity(512 * 1024);
    // the bytes are part of the program; a test reads them to the end
    if flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut text)
        .is_err()
    {
        text.clear();
    }
    // lives as long as the process, like the statics that point into it
    Box::leak(text.into_boxed_str())
}

/// A line `"name":{...},`.
fn entry(line: &'static str) -> Option<(&'static str, &'static str)> {
    let (name, _) = line.strip_prefix('"')?.split_once("\":")?;
    let raw = &line[name.len() + "\"\":".len()..];
    Some((name, raw.strip_suffix(',').unwrap_or(raw)))
}

/// The texts of a built-in definition: its own under the empty name, then those of its properties.
pub fn kubernetes_descriptions(definition: &str) -> BTreeMap<String, String> {
    let texts = TEXTS.get(definition).map(|raw| serde_json::from_str(raw));
    texts.and_then(Result::ok).unwrap_or_default()
}

static RESOURCES: LazyLock<Vec<ApiResource>> =
    LazyLock::new(|| serde_json::from_str(KUBERNETES.resources).unwrap_or_default());

/// Splits the document at its lines: `"name":{...},` until the line that opens the resources.
fn split(text: &'static str) -> Table {
    let (definitions, resources) = text.split_once("\n},\"resources\":").unwrap_or((text, "[]"));
    let by_name = definitions
        .lines()
        .filter_map(|line| {
            let (name, raw) = entry(line)?;
            let definition = Definition {
                name,
                codec: Codec::of(name),
                raw,
                schema: OnceLock::new(),
                slots: OnceLock::new(),
            };
            Some((name, definition))
        })
        .collect();
    Table {
        definitions: Definitions { by_name },
        resources: resources.trim_end().strip_suffix('}').unwrap_or(resources),
    }
}

/// The definitions of the built-in kinds, as Kubernetes 1.36 serves them, without descriptions.
pub fn kubernetes() -> &'static Definitions {
    &KUBERNETES.definitions
}

/// The built-in resources, in the order of discovery: the core group first, then by group and version.
pub fn kubernetes_resources() -> &'static [ApiResource] {
    &RESOURCES
}
