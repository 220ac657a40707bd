//! `equate.yaml`: environments in order, services by path, rules.
//!
//! Every error has the file, line and column, and a hint. Without the file, [`crate::layout`] finds
//! environments by convention.

mod error;
mod pattern;
mod reader;
mod time;

pub use error::ConfigError;
pub(crate) use error::nearest;
pub(crate) use pattern::{PLACES_MAX, children, is_directory, join};
pub use pattern::{Pattern, Place};
pub(crate) use reader::{Reader, document};
pub use time::{Freeze, Window, parse_duration};

use crate::field::escaped;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use time::freeze;

/// The name of the file, at the root of a repository.
pub const FILE: &str = "equate.yaml";

/// The most bytes of the file.
pub const BYTES_MAX: usize = 1 << 20;

/// The JSON schema of the file.
pub const SCHEMA: &str = include_str!("schema.json");

/// The content of `equate.yaml`.
#[derive(Debug, Clone)]
pub struct Config {
    /// The environments from left to right.
    pub stages: Vec<Stage>,
    /// The directories of environments and services.
    pub services: Services,
    /// Values that are versions.
    pub values: Vec<ValuePath>,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Clusters by environment.
    pub clusters: BTreeMap<String, Cluster>,
    /// The committer of all commits, `Name <address>`.
    pub committer: Option<String>,
    /// Whether the file exists, or convention stands in for it.
    pub is_written: bool,
}

/// An environment, or a group of environments that have the same predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The name of the group, or of the only environment.
    pub name: String,
    /// The environments.
    pub members: Vec<String>,
}

/// The directories of services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Services {
    /// Files that set versions.
    Versions(Pattern),
    /// Directories that are copied from one environment to the next, except the files that `keep` names.
    Copies {
        /// The directory of a service in an environment.
        pattern: Pattern,
        /// Names and globs of files that each environment keeps.
        keep: Vec<String>,
    },
}

impl Services {
    /// The directories.
    pub fn pattern(&self) -> &Pattern {
        match self {
            Self::Versions(pattern) | Self::Copies { pattern, .. } => pattern,
        }
    }
}

/// A value of objects that is a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePath {
    /// The kind of the objects; any if empty.
    pub kind: String,
    /// The path, `spec.values.image.tag`.
    pub path: Vec<String>,
    /// The name of the version; the object's name if absent.
    pub name: Option<String>,
    /// Whether the value is a whole image reference.
    pub image: bool,
}

impl ValuePath {
    pub(crate) fn matches(&self, kind: &str) -> bool {
        self.kind.is_empty() || self.kind == kind
    }

    pub(crate) fn pointer(&self) -> String {
        self.path.iter().fold(String::new(), |mut pointer, segment| {
            pointer.push('/');
            pointer.push_str(&escaped(segment));
            pointer
        })
    }
}

/// A rule. It applies where `to` and `services` match.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Environments and groups; all if empty.
    pub to: Vec<String>,
    /// Services; all if empty.
    pub services: Vec<String>,
    /// The time that a version must have been in the previous environment.
    pub soak: Option<(Duration, usize)>,
    /// Whether the version must be healthy in the previous environment.
    pub healthy: Option<(bool, usize)>,
    /// The times without changes.
    pub freeze: Vec<Freeze>,
    /// The line in the file.
    pub line: usize,
}

/// A cluster that shows whether a version runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// The context of the kubeconfig; the current one if absent.
    pub context: Option<String>,
    /// The kubeconfig; the user's if absent.
    pub kubeconfig: Option<String>,
}

impl Config {
    /// The environments from left to right.
    pub fn environments(&self) -> impl Iterator<Item = &str> {
        self.stages
            .iter()
            .flat_map(|stage| stage.members.iter().map(String::as_str))
    }

    /// Whether a name is that of an environment.
    pub fn is_environment(&self, name: &str) -> bool {
        self.environments().any(|environment| environment == name)
    }

    /// The environments that a name means: itself, or the members of a group.
    pub fn resolve(&self, name: &str) -> Option<Vec<&str>> {
        if let Some(found) = self.environments().find(|environment| *environment == name) {
            return Some(vec![found]);
        }
        let stage = self.stages.iter().find(|stage| stage.name == name)?;
        Some(stage.members.iter().map(String::as_str).collect())
    }

    /// The group of an environment, and the environments before it.
    pub fn before(&self, environment: &str) -> Vec<&str> {
        let at = self
            .stages
            .iter()
            .position(|stage| stage.members.iter().any(|member| member == environment));
        let previous = at.and_then(|at| at.checked_sub(1)).map(|at| &self.stages[at]);
        previous
            .map(|stage| stage.members.iter().map(String::as_str).collect())
            .unwrap_or_default()
    }

    /// The environments before an environment, nearest first.
    pub fn all_before(&self, environment: &str) -> Vec<&str> {
        let mut at = self
            .stages
            .iter()
            .position(|stage| stage.members.iter().any(|member| member == environment));
        let mut found = Vec::new();
        while let Some(previous) = at.and_then(|at| at.checked_sub(1)) {
            found.extend(self.stages[previous].members.iter().map(String::as_str));
            at = Some(previous);
        }
        found
    }

    /// The name that is nearest to an unknown environment.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let names = self
            .environments()
            .chain(self.stages.iter().map(|stage| stage.name.as_str()));
        nearest(name, names)
    }

    pub(crate) fn rules_for<'c>(
        &'c self,
        environment: &'c str,
        service: &'c str,
    ) -> impl Iterator<Item = &'c Rule> {
        let group = self
            .stages
            .iter()
            .find(|stage| stage.members.iter().any(|member| member == environment))
            .map(|stage| stage.name.as_str());
        self.rules.iter().filter(move |rule| {
            let to = |name: &String| name == environment || Some(name.as_str()) == group;
            (rule.to.is_empty() || rule.to.iter().any(to))
                && (rule.services.is_empty() || rule.services.iter().any(|name| name == service))
        })
    }

    /// Reads the text of `equate.yaml`.
    ///
    /// # Errors
    /// The first fault, with its place and a hint.
    pub fn parse(path: &str, text: &str) -> Result<Self, ConfigError> {
        let document = document(path, text)?;
        let reader = Reader::new(path, &document);
        let keys = [
            "version",
            "environments",
            "services",
            "values",
            "rules",
            "clusters",
            "committer",
        ];
        let map = reader.map("", &document.value, &keys)?;
        match map.get("version") {
            Some(Value::Number(number)) if number.as_u64() == Some(1) => {}
            Some(other) => {
                let hint = "this equate reads version 1";
                return Err(reader.error("/version", format!("unknown version {other}"), hint));
            }
            None => return Err(reader.missing("", "version", "add `version: 1`")),
        }
        let stages = match map.get("environments") {
            Some(value) => stages(&reader, value)?,
            None => {
                let hint = "list them from left to right: `environments: [dev, prod]`";
                return Err(reader.missing("", "environments", hint));
            }
        };
        let services = match map.get("services") {
            Some(value) => services(&reader, value)?,
            None => {
                let hint = "give their directories: `services: apps/{environment}/{service}`";
                return Err(reader.missing("", "services", hint));
            }
        };
        let mut config = Self {
            stages,
            services,
            values: Vec::new(),
            rules: Vec::new(),
            clusters: BTreeMap::new(),
            committer: None,
            is_written: true,
        };
        if let Some(value) = map.get("values") {
            for (at, item) in reader.list("/values", value)?.iter().enumerate() {
                config.values.push(value_path(&reader, at, item)?);
            }
        }
        if let Some(value) = map.get("rules") {
            for (at, item) in reader.list("/rules", value)?.iter().enumerate() {
                let rule = rule(&reader, &config, at, item)?;
                config.rules.push(rule);
            }
        }
        if let Some(value) = map.get("clusters") {
            config.clusters = clusters(&reader, &config, value)?;
        }
        if let Some(value) = map.get("committer") {
            let text = reader.text("/committer", value)?;
            if !(text.contains('<') && text.trim_end().ends_with('>')) {
                let hint = "write it as `Name <address>`";
                return Err(reader.error("/committer", format!("{text:?} has no address"), hint));
            }
            config.committer = Some(text);
        }
        Ok(config)
    }
}

fn stages(reader: &Reader<'_>, value: &Value) -> Result<Vec<Stage>, ConfigError> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut add = |at: &str, stage: Stage| {
        let mut names = vec![&stage.name];
        names.extend(stage.members.iter().filter(|member| **member != stage.name));
        for name in names {
            if !is_name(name) {
                let hint = "use letters, digits, `-`, `_` and `.`";
                return Err(reader.error(at, format!("{name:?} cannot name an environment"), hint));
            }
            let taken = |stage: &Stage| stage.name == *name || stage.members.contains(name);
            if stages.iter().any(taken) {
                let hint = "give each environment and group its own name";
                return Err(reader.error(at, format!("{name:?} is listed twice"), hint));
            }
        }
        stages.push(stage);
        Ok(())
    };
    for (at, item) in reader.list("/environments", value)?.iter().enumerate() {
        let at = format!("/environments/{at}");
        match item {
            Value::Object(map) => {
                for (name, members) in map {
                    let place = format!("{at}/{}", escaped(name));
                    let members = reader.texts(&place, members)?;
                    if members.is_empty() {
                        let hint = "list its environments: `prod: [prod-eu, prod-us]`";
                        return Err(reader.error(&place, format!("group {name:?} is empty"), hint));
                    }
                    let stage = Stage {
                        name: name.clone(),
                        members,
                    };
                    add(&place, stage)?;
                }
            }
            other => {
                let name = reader.text(&at, other)?;
                let stage = Stage {
                    members: vec![name.clone()],
                    name,
                };
                add(&at, stage)?;
            }
        }
    }
    if stages.is_empty() {
        let hint = "list them from left to right: `environments: [dev, prod]`";
        return Err(reader.error("/environments", "there is no environment".to_owned(), hint));
    }
    Ok(stages)
}

/// Whether a text can name an environment or a service: one path segment that cannot leave its directory.
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 253 && name.chars().all(allowed) && !name.starts_with(['.', '-'])
}

fn services(reader: &Reader<'_>, value: &Value) -> Result<Services, ConfigError> {
    let pattern = |at: &str, text: &str| {
        Pattern::parse(text).map_err(|problem| {
            let hint = "write it as `apps/{environment}/{service}`";
            reader.error(at, problem, hint)
        })
    };
    if let Value::Object(_) = value {
        let map = reader.map("/services", value, &["copy", "keep"])?;
        let Some(copy) = map.get("copy") else {
            let hint = "give the directories to copy: `copy: envs/{environment}/{service}`";
            return Err(reader.missing("/services", "copy", hint));
        };
        let pattern = pattern("/services/copy", &reader.text("/services/copy", copy)?)?;
        if !pattern.has_service() {
            let hint = "only whole services are copied";
            let problem = "the pattern has no {service}".to_owned();
            return Err(reader.error("/services/copy", problem, hint));
        }
        let keep = match map.get("keep") {
            Some(keep) => reader.texts("/services/keep", keep)?,
            None => Vec::new(),
        };
        return Ok(Services::Copies { pattern, keep });
    }
    let text = reader.text("/services", value)?;
    Ok(Services::Versions(pattern("/services", &text)?))
}

fn value_path(reader: &Reader<'_>, at: usize, item: &Value) -> Result<ValuePath, ConfigError> {
    let at = format!("/values/{at}");
    let map = reader.map(&at, item, &["kind", "path", "name", "image"])?;
    let Some(path) = map.get("path") else {
        let hint = "give the path of the value: `path: spec.values.image.tag`";
        return Err(reader.missing(&at, "path", hint));
    };
    let text = reader.text(&format!("{at}/path"), path)?;
    let path: Vec<String> = text.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        let hint = "separate the keys by single dots";
        return Err(reader.error(&format!("{at}/path"), format!("{text:?} has an empty key"), hint));
    }
    let kind = match map.get("kind") {
        Some(kind) => reader.text(&format!("{at}/kind"), kind)?,
        None => String::new(),
    };
    let name = map
        .get("name")
        .map(|name| reader.text(&format!("{at}/name"), name))
        .transpose()?;
    let image = match map.get("image") {
        Some(image) => reader.boolean(&format!("{at}/image"), image)?,
        None => false,
    };
    Ok(ValuePath {
        kind,
        path,
        name,
        image,
    })
}

fn rule(reader: &Reader<'_>, config: &Config, at: usize, item: &Value) -> Result<Rule, ConfigError> {
    let at = format!("/rules/{at}");
    let map = reader.map(&at, item, &["to", "services", "soak", "healthy", "freeze"])?;
    let to = match map.get("to") {
        Some(to) => reader.texts(&format!("{at}/to"), to)?,
        None => Vec::new(),
    };
    for name in &to {
        if config.resolve(name).is_none() {
            let problem = format!("unknown environment {name:?}");
            let hint = match config.nearest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "list it under `environments`".to_owned(),
            };
            return Err(reader.error(&format!("{at}/to"), problem, hint));
        }
    }
    let services = match map.get("services") {
        Some(services) => reader.texts(&format!("{at}/services"), services)?,
        None => Vec::new(),
    };
    let soak = match map.get("soak") {
        None => None,
        Some(soak) => {
            let at = format!("{at}/soak");
            let text = reader.text(&at, soak)?;
            let soak = parse_duration(&text).ok_or_else(|| {
                let hint = "write it as 30m, 4h or 2d";
                reader.error(&at, format!("{text:?} is not a duration"), hint)
            })?;
            Some((soak, reader.line(&at)))
        }
    };
    let healthy = match map.get("healthy") {
        None => None,
        Some(healthy) => {
            let at = format!("{at}/healthy");
            Some((reader.boolean(&at, healthy)?, reader.line(&at)))
        }
    };
    let mut windows = Vec::new();
    if let Some(value) = map.get("freeze") {
        let at = format!("{at}/freeze");
        for (number, item) in reader.list(&at, value)?.iter().enumerate() {
            windows.push(freeze(reader, &format!("{at}/{number}"), item)?);
        }
    }
    Ok(Rule {
        to,
        services,
        soak,
        healthy,
        freeze: windows,
        line: reader.line(&at),
    })
}

fn clusters(
    reader: &Reader<'_>,
    config: &Config,
    value: &Value,
) -> Result<BTreeMap<String, Cluster>, ConfigError> {
    let mut clusters = BTreeMap::new();
    for (name, item) in reader.object("/clusters", value)? {
        let at = format!("/clusters/{}", escaped(name));
        if !config.is_environment(name) {
            let hint = "list it under `environments`";
            return Err(reader.error(&at, format!("unknown environment {name:?}"), hint));
        }
        let map = reader.map(&at, item, &["context", "kubeconfig"])?;
        let text = |key: &str| {
            map.get(key)
                .map(|value| reader.text(&format!("{at}/{key}"), value))
                .transpose()
        };
        let cluster = Cluster {
            context: text("context")?,
            kubeconfig: text("kubeconfig")?,
        };
        clusters.insert(name.clone(), cluster);
    }
    Ok(clusters)
}

#[cfg(test)]
mod tests;
