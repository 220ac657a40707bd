//! Schema parts that cannot be derived: shared patterns, and Kubernetes' own types as Flux publishes them.
//! [`conditions`] is public for the kinds of other programs.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

/// For `timeout` of sources and providers: no hours.
pub(crate) const TIMEOUT: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$";
/// For all other durations.
pub(crate) const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
/// `sha256:<hex>` and its like.
pub(crate) const DIGEST: &str = r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$";

/// Go's `int`, whose width the definitions omit.
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Kubernetes' `Time`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Kubernetes' `[]Condition`, with the limits of its Go type: for `#[schemars(schema_with)]`.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "The details, for people.",
                    "type": "string",
                    "maxLength": super::meta::MESSAGE_CHARACTERS_MAX,
                },
                "observedGeneration": {
                    "description": "The generation of the object the condition was set for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "Why the condition last changed, in one word, for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Which aspect.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements on labels, all of which hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "description": "One requirement.",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's key.", "type": "string" },
                        "operator": {
                            "description": "In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                        },
                        "values": {
                            "description": "The values of In and NotIn.",
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels with exactly these values.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
        },
    })
}

/// The initial status of most kinds: nothing observed yet.
pub(crate) fn unobserved() -> serde_json::Value {
    json!({ "observedGeneration": -1 })
}
