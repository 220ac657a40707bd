//! The schema node and its wire form.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A node of an OpenAPI v3 schema with Kubernetes' extensions.
///
/// Wire form: the JSON of an OpenAPI v3 schema. Descriptions are kept for custom resources (`kubectl explain`
/// prints them); the built-in table has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Schema {
    /// The definition this node refers to: its full name, without `#/components/schemas/`.
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The JSON type; absent means any.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<SchemaType>,
    /// `int32`, `date-time`, `byte`, `int-or-string`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A short description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Declared fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Schema>,
    /// The schema of undeclared fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Additional>,
    /// The schema of list items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Schema>>,
    /// Fields that must be present.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    /// The permitted values.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub enumeration: Vec<Value>,
    /// The default of an absent field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// An example value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// A link to further documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_docs: Option<Value>,
    /// Whether null is valid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,
    /// Lower bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<serde_json::Number>,
    /// Upper bound of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<serde_json::Number>,
    /// Whether `minimum` itself is excluded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive_minimum: bool,
    /// Whether `maximum` itself is excluded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive_maximum: bool,
    /// A number must be a multiple of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<serde_json::Number>,
    /// Shortest string, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<i64>,
    /// Longest string, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<i64>,
    /// A regular expression (RE2) that must match part of the string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Fewest items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<i64>,
    /// Most items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<i64>,
    /// Whether items must differ.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unique_items: bool,
    /// Fewest fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_properties: Option<i64>,
    /// Most fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_properties: Option<i64>,
    /// All of these must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<Schema>,
    /// At least one of these must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Schema>,
    /// Exactly one of these must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Schema>,
    /// This must not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Schema>>,

    /// How a list is merged.
    #[serde(rename = "x-kubernetes-list-type", skip_serializing_if = "Option::is_none")]
    pub list_type: Option<ListType>,
    /// The fields that identify an item of a `map` list.
    #[serde(rename = "x-kubernetes-list-map-keys", skip_serializing_if = "Vec::is_empty")]
    pub list_map_keys: Vec<String>,
    /// How an object is merged.
    #[serde(rename = "x-kubernetes-map-type", skip_serializing_if = "Option::is_none")]
    pub map_type: Option<MapType>,
    /// Strategic merge patch: `merge`, `replace`, `retainKeys`, comma-separated combinations.
    #[serde(
        rename = "x-kubernetes-patch-strategy",
        skip_serializing_if = "Option::is_none"
    )]
    pub patch_strategy: Option<String>,
    /// Strategic merge patch: the field that identifies an item.
    #[serde(
        rename = "x-kubernetes-patch-merge-key",
        skip_serializing_if = "Option::is_none"
    )]
    pub patch_merge_key: Option<String>,
    /// Unknown fields below this node are kept.
    #[serde(
        rename = "x-kubernetes-preserve-unknown-fields",
        skip_serializing_if = "Option::is_none"
    )]
    pub preserve_unknown_fields: Option<bool>,
    /// The node is a whole Kubernetes object.
    #[serde(
        rename = "x-kubernetes-embedded-resource",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub embedded_resource: bool,
    /// The node is an integer or a string.
    #[serde(
        rename = "x-kubernetes-int-or-string",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub int_or_string: bool,
    /// CEL rules.
    #[serde(rename = "x-kubernetes-validations", skip_serializing_if = "Vec::is_empty")]
    pub validations: Vec<ValidationRule>,
    /// The kinds with this definition as schema, as published.
    #[serde(
        rename = "x-kubernetes-group-version-kind",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub group_version_kinds: Vec<crate::object::GroupVersionKind>,
    /// Discriminated unions, as published.
    #[serde(rename = "x-kubernetes-unions", skip_serializing_if = "Option::is_none")]
    pub unions: Option<Value>,

    /// Built-in kinds: when the Go encoder omits this field. Not published.
    #[serde(rename = "x-omit", skip_serializing_if = "Option::is_none")]
    pub omit: Option<Omit>,
    /// Built-in kinds, on a definition: the encoding of an empty value. Not published.
    #[serde(rename = "x-zero", skip_serializing_if = "serde_json::Map::is_empty")]
    pub zero: serde_json::Map<String, Value>,
    /// Built-in kinds: the Go type, where type and format do not imply it (see [`Schema::go_type`]). A
    /// leading `*` on an item means a list of pointers. Not published.
    #[serde(rename = "x-go", skip_serializing_if = "Option::is_none")]
    pub go: Option<String>,
    /// Built-in kinds: the embedded Go structs with this field, outermost first, dotted. Not published.
    #[serde(rename = "x-inline", skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Built-in kinds: the protobuf field numbers of the embedded structs, outermost first, and of this
    /// field. Not published.
    #[serde(rename = "x-pb", skip_serializing_if = "Vec::is_empty")]
    pub protobuf: Vec<u32>,
    /// Built-in kinds: the field is a pointer that is always written. Not published.
    #[serde(rename = "x-pointer", skip_serializing_if = "std::ops::Not::not")]
    pub pointer: bool,
}

impl Schema {
    /// The Go type of a value of this node, as Go's errors print it: `[]v1.Container`.
    pub fn go_type(&self) -> String {
        if let Some(go) = &self.go {
            return go.trim_start_matches('*').to_owned();
        }
        if let Some(reference) = &self.reference {
            let start = reference.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
            return reference[start..].to_owned();
        }
        let element = |node: &Schema| match &node.go {
            Some(go) => go.clone(),
            None => node.go_type(),
        };
        match (self.kind, self.format.as_deref()) {
            (Some(SchemaType::String), Some("byte")) => "[]uint8".to_owned(),
            (Some(SchemaType::String), _) => "string".to_owned(),
            (Some(SchemaType::Integer), Some("int32")) => "int32".to_owned(),
            (Some(SchemaType::Integer), _) => "int64".to_owned(),
            (Some(SchemaType::Number), _) => "float64".to_owned(),
            (Some(SchemaType::Boolean), _) => "bool".to_owned(),
            (Some(SchemaType::Array), _) => match &self.items {
                Some(items) => format!("[]{}", element(items)),
                None => "[]interface {}".to_owned(),
            },
            (Some(SchemaType::Object), _) => match &self.additional_properties {
                Some(Additional::Schema(value)) => format!("map[string]{}", element(value)),
                _ => "map[string]interface {}".to_owned(),
            },
            (None, _) => "interface {}".to_owned(),
        }
    }
}

/// The JSON types of OpenAPI v3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of JSON Schema")]
pub enum SchemaType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// `additionalProperties`: a schema, or whether any are allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// Whether undeclared fields are allowed.
    Allowed(bool),
    /// The schema of undeclared fields.
    Schema(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects identified by `x-kubernetes-list-map-keys`.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapType {
    /// Replaced as a whole.
    Atomic,
    /// Merged field by field.
    Granular,
}

/// When a Go encoder omits a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Omit {
    /// No `omitempty`: an absent value is written as the type's zero value.
    Never,
    /// `omitempty` on a plain value: omits zero, "" and empty lists and maps, but writes structs as `{}`.
    Empty,
    /// `omitempty` on a pointer: omits only null.
    Nil,
    /// `omitzero`: also omits an empty struct.
    Zero,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValidationRule {
    /// The CEL expression; true means valid.
    pub rule: String,
    /// The message for an invalid value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A CEL expression for the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
    /// `FieldValueInvalid` (default), `FieldValueForbidden`, `FieldValueRequired`, `FieldValueDuplicate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field of the error, relative to the rule's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
    /// Whether `oldSelf` is optional, so that the rule also runs on create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional_old_self: Option<bool>,
}
