//! The fields of `Chart.yaml` and `Chart.lock`.

use equate_manifest::go::version::Version;
use equate_manifest::go::{is_printable, quote};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// `Chart.yaml` is invalid; in Helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct ValidationError(String);

/// `Chart.yaml`. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// The chart's name: one path element.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The project's page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// URLs of the source code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The chart's version, a semantic version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// A one-sentence description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Search keywords.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// The maintainers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// The URL of an icon.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// The version of the chart format: `v1` or `v2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The path of a value that enables the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// The version of the packaged application.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Whether the chart is deprecated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Free-form annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The supported Kubernetes versions, a constraint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// The charts it needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// `application`, `library`, or empty.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl Metadata {
    /// Removes unprintable characters and validates. The arguments tell of a null among the maintainers,
    /// or before the dependency with that index.
    pub(crate) fn sanitize_and_validate(
        &mut self,
        null_maintainer: bool,
        null_dependency: Option<usize>,
    ) -> Result<(), ValidationError> {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            sanitize(text);
        }
        self.sources.iter_mut().for_each(sanitize);
        self.keywords.iter_mut().for_each(sanitize);
        self.validate_itself()?;
        if null_maintainer {
            return Err(invalid("maintainers must not contain empty or null nodes"));
        }
        for maintainer in &mut self.maintainers {
            for text in [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url] {
                sanitize(text);
            }
        }
        let null = || invalid("dependencies must not contain empty or null nodes");
        let mut keys = BTreeSet::new();
        for (index, dependency) in self.dependencies.iter_mut().enumerate() {
            if null_dependency == Some(index) {
                return Err(null());
            }
            dependency.sanitize_and_validate()?;
            let key = dependency.known_as();
            if !keys.insert(key) {
                let key = quote(key);
                return Err(invalid(format!(
                    "more than one dependency with name or alias {key}"
                )));
            }
        }
        match null_dependency {
            Some(_) => Err(null()),
            None => Ok(()),
        }
    }

    fn validate_itself(&self) -> Result<(), ValidationError> {
        let name = &self.name;
        if self.api_version.is_empty() {
            return Err(invalid("chart.metadata.apiVersion is required"));
        }
        if name.is_empty() {
            return Err(invalid("chart.metadata.name is required"));
        }
        if matches!(name.as_str(), "." | "..") {
            let name = quote(name);
            return Err(invalid(format!("chart.metadata.name {name} is not allowed")));
        }
        // the base of `/` is a slash
        if name.contains('/') && name != "/" {
            return Err(invalid(format!("chart.metadata.name {} is invalid", quote(name))));
        }
        if self.version.is_empty() {
            return Err(invalid("chart.metadata.version is required"));
        }
        if Version::parse(&self.version).is_err() {
            let version = quote(&self.version);
            return Err(invalid(format!("chart.metadata.version {version} is invalid")));
        }
        match self.kind.as_str() {
            "" | "application" | "library" => Ok(()),
            _ => Err(invalid("chart.metadata.type must be application or library")),
        }
    }
}

fn invalid(what: impl Into<String>) -> ValidationError {
    ValidationError(what.into())
}

fn sanitize(text: &mut String) {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c => is_printable(c).then_some(c),
        })
        .collect();
}

/// A maintainer of a chart.
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
    /// The accepted versions, a constraint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its repository.
    pub repository: String,
    /// Paths of values, separated by commas; the first boolean decides whether it is enabled.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags that enable or disable it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it is enabled. Decided for each render.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Values that the parent imports: a text, or a map with `child` and `parent`.
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<serde_json::Value>,
    /// Its name in the parent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

impl Dependency {
    /// Its alias, or its name.
    pub fn known_as(&self) -> &str {
        match self.alias.as_str() {
            "" => &self.name,
            alias => alias,
        }
    }

    fn sanitize_and_validate(&mut self) -> Result<(), ValidationError> {
        for text in [
            &mut self.name,
            &mut self.version,
            &mut self.repository,
            &mut self.condition,
        ] {
            sanitize(text);
        }
        self.tags.iter_mut().for_each(sanitize);
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !self.alias.bytes().all(fits) {
            let name = quote(&self.name);
            return Err(invalid(format!(
                "dependency {name} has disallowed characters in the alias"
            )));
        }
        Ok(())
    }
}

/// `Chart.lock`: the resolved versions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lock {
    /// Its time, RFC 3339.
    pub generated: String,
    /// A digest of the requested dependencies.
    pub digest: String,
    /// The resolved dependencies.
    pub dependencies: Vec<Dependency>,
}
