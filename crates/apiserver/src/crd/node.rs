//! A compiled schema: patterns and formats resolved once, children by name.

use super::formats::Format;
use super::rules::Rule;
use equate_manifest::schema::{Additional, ListType, Schema, SchemaType};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// Keeps recursion over schemas and objects within the stack.
pub(super) const SCHEMA_DEPTH_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Option<SchemaType>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<AdditionalNode>,
    pub(super) items: Option<Box<Node>>,
    pub(super) list_type: Option<ListType>,
    pub(super) list_map_keys: Vec<String>,
    pub(super) checks: Checks,
    pub(super) rules: Vec<Rule>,
    /// Whether this node or one below has rules; CEL skips subtrees without any.
    pub(super) has_rules: bool,
}

/// `additionalProperties`.
#[derive(Debug)]
pub(super) enum AdditionalNode {
    Allowed(bool),
    Schema(Box<Node>),
}

#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) format: Option<Format>,
    pub(super) pattern: Option<(String, Option<Regex>)>,
    pub(super) enumeration: Vec<Value>,
    pub(super) required: Vec<String>,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

impl Checks {
    pub(super) fn has_combinators(&self) -> bool {
        !(self.all_of.is_empty() && self.any_of.is_empty() && self.one_of.is_empty() && self.not.is_none())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the schema nests more than {SCHEMA_DEPTH_MAX} levels")]
pub(super) struct TooDeep;

impl Node {
    /// Compiles everything but the rules. An invalid pattern is kept and reported per value.
    pub(super) fn new(schema: &Schema) -> Result<Self, TooDeep> {
        Self::at(schema, 0)
    }

    fn at(s: &Schema, depth: usize) -> Result<Self, TooDeep> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(TooDeep);
        }
        let list = |from: &[Schema]| {
            from.iter()
                .map(|x| Self::at(x, depth + 1))
                .collect::<Result<Vec<_>, _>>()
        };
        let boxed = |from: &Option<Box<Schema>>| {
            from.as_ref()
                .map(|x| Self::at(x, depth + 1).map(Box::new))
                .transpose()
        };
        let mut properties = BTreeMap::new();
        for (name, property) in &s.properties {
            properties.insert(name.clone(), Self::at(property, depth + 1)?);
        }
        let number = |n: &Option<serde_json::Number>| n.as_ref().and_then(serde_json::Number::as_f64);
        Ok(Self {
            kind: s.kind,
            nullable: s.nullable,
            int_or_string: s.int_or_string,
            preserve_unknown: s.preserve_unknown_fields == Some(true),
            embedded: s.embedded_resource,
            default: s.default.clone().filter(|v| !v.is_null()),
            additional: match &s.additional_properties {
                None => None,
                Some(Additional::Allowed(allowed)) => Some(AdditionalNode::Allowed(*allowed)),
                Some(Additional::Schema(inner)) => {
                    Some(AdditionalNode::Schema(Box::new(Self::at(inner, depth + 1)?)))
                }
            },
            properties,
            items: boxed(&s.items)?,
            list_type: s.list_type,
            list_map_keys: s.list_map_keys.clone(),
            checks: Checks {
                format: s
                    .format
                    .as_deref()
                    .and_then(|f| Format::for_type(f, s.kind, s.int_or_string)),
                pattern: s
                    .pattern
                    .as_ref()
                    .filter(|p| !p.is_empty())
                    .map(|p| (p.clone(), Regex::new(p).ok())),
                enumeration: s.enumeration.clone(),
                required: s.required.clone(),
                minimum: number(&s.minimum),
                maximum: number(&s.maximum),
                exclusive_minimum: s.exclusive_minimum,
                exclusive_maximum: s.exclusive_maximum,
                multiple_of: number(&s.multiple_of),
                min_length: s.min_length,
                max_length: s.max_length,
                min_items: s.min_items,
                max_items: s.max_items,
                min_properties: s.min_properties,
                max_properties: s.max_properties,
                all_of: list(&s.all_of)?,
                any_of: list(&s.any_of)?,
                one_of: list(&s.one_of)?,
                not: boxed(&s.not)?,
            },
            rules: Vec::new(),
            has_rules: false,
        })
    }

    pub(super) fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(AdditionalNode::Schema(node)) => Some(node),
            _ => None,
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    /// CEL rules cannot see values without a type.
    pub(super) fn visible_to_rules(&self) -> bool {
        if self.int_or_string {
            return true;
        }
        match self.kind {
            None => false,
            Some(SchemaType::Array) => self.items.as_ref().is_some_and(|items| items.visible_to_rules()),
            Some(SchemaType::Object) => self.additional_schema().is_none_or(Node::visible_to_rules),
            Some(_) => true,
        }
    }
}
