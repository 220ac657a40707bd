//! Policies that select the newest tag of an image.

use crate::meta::{Condition, Duration, NamespacedReference};
use crate::schema::{conditions, unobserved};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A policy that selects a tag of an image.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "image.toolkit.fluxcd.io",
    version = "v1",
    kind = "ImagePolicy",
    plural = "imagepolicies",
    singular = "imagepolicy",
    shortname = "imgpol",
    shortname = "imagepol",
    namespaced,
    status = "ImagePolicyStatus",
    derive = "PartialEq",
    doc = "Which tag of an image is the newest.",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".status.latestRef.name"}"#,
    printcolumn = r#"{"name":"Tag","type":"string","jsonPath":".status.latestRef.tag"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.interval) || (has(self.digestReflectionPolicy) && self.digestReflectionPolicy == 'Always')",
        "message": "spec.interval is only accepted when spec.digestReflectionPolicy is set to 'Always'",
    },
    {
        "rule": "has(self.interval) || !has(self.digestReflectionPolicy) || self.digestReflectionPolicy != 'Always'",
        "message": "spec.interval must be set when spec.digestReflectionPolicy is set to 'Always'",
    },
]))]
pub struct ImagePolicySpec {
    /// When the tag's digest is resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Never"))]
    pub digest_reflection_policy: Option<DigestReflectionPolicy>,
    /// A filter of tags; default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_tags: Option<FilterTags>,
    /// The ImageRepository.
    pub image_repository_ref: NamespacedReference,
    /// The interval to resolve the digest, with the policy Always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// The order of tags: exactly one of the three.
    pub policy: PolicyChoice,
    /// Suspend reconciliation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

string_enum! {
    /// When the tag's digest is resolved.
    pub enum DigestReflectionPolicy {
        /// At every interval.
        Always = "Always",
        /// When the tag is new.
        IfNotPresent = "IfNotPresent",
        /// Never.
        #[default]
        Never = "Never",
    }
}

/// A filter of tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterTags {
    /// The part of the match to compare, with `$1` and similar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// A regular expression that tags must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// The order of tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChoice {
    /// Alphabetical order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabetical: Option<Ordering>,
    /// Numerical order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numerical: Option<Ordering>,
    /// Order of semantic versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semver: Option<SemverPolicy>,
}

/// The order of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ordering {
    /// The sort order; the last tag is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "asc"))]
    pub order: Option<Order>,
}

string_enum! {
    /// The orders of a policy.
    pub enum Order {
        /// Ascending.
        #[default]
        Ascending = "asc",
        /// Descending.
        Descending = "desc",
    }
}

/// A range of semantic versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SemverPolicy {
    /// The range; its greatest version is selected.
    pub range: String,
}

/// The status of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("default" = unobserved()))]
pub struct ImagePolicyStatus {
    /// The policy's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// The token of the last requested reconciliation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// The selected tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_ref: Option<ImageReference>,
    /// The last observed generation of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The previously selected tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_previous_ref: Option<ImageReference>,
}

/// A tag of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageReference {
    /// The digest, if resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The image.
    pub name: String,
    /// The tag.
    pub tag: String,
}
