//! What `Chart.yaml` and `Chart.lock` say.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `Chart.yaml`. Fields that Helm does not know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The chart's name: one path element.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The project's page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// Where the source is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The chart's version, a semantic version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Who looks after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// The URL of a picture.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// The version of the format: `v1` or `v2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The path of a value that says whether the chart takes part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// The version of what is in the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Whether one should choose another.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Anything else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The versions of Kubernetes it is for, a constraint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// The charts it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// `application`, `library`, or nothing.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Who looks after a chart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    /// A name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// An address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// A page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A chart that another needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Which versions will do, a constraint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where it is found.
    pub repository: String,
    /// Paths of values, separated by commas; the first that is a boolean decides whether it takes part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags that may be turned on and off together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it takes part. Decided anew for each render.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Values of it that the parent takes over: a text, or a map with `child` and `parent`.
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<serde_json::Value>,
    /// The name under which it takes part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

/// `Chart.lock`: which versions were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lock {
    /// When, RFC 3339.
    pub generated: String,
    /// A digest of the dependencies that were asked for.
    pub digest: String,
    /// What was chosen.
    pub dependencies: Vec<Dependency>,
}
