//! The labels of a namespace.

use crate::builtin::tree::get;
use crate::field::FieldError;
use serde_json::Value;
use std::fmt;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// From the least to the most strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level as of a minor version of Kubernetes; `None` is the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Option<u32>,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        })?;
        match self.version {
            None => f.write_str(":latest"),
            Some(minor) => write!(f, ":v1.{minor}"),
        }
    }
}

const PRIVILEGED: LevelVersion = LevelVersion {
    level: Level::Privileged,
    version: None,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// The policy of a namespace, and the errors of its labels. A wrong level of `enforce` is the strictest
    /// one, a wrong level of `warn` the least strict.
    pub(super) fn of(namespace: &Value) -> (Self, Vec<FieldError>) {
        let mut labels = Labels {
            labels: get(namespace, "metadata.labels"),
            errors: Vec::new(),
        };
        let mut policy = Self {
            enforce: PRIVILEGED,
            warn: PRIVILEGED,
        };
        let enforce = labels.level("enforce");
        policy.enforce.level = match enforce {
            None => Level::Privileged,
            Some(level) => level.unwrap_or(Level::Restricted),
        };
        policy.enforce.version = labels.version("enforce").flatten();
        labels.level("audit");
        labels.version("audit");
        let warn = labels.level("warn");
        let warn_version = labels.version("warn");
        policy.warn = LevelVersion {
            level: warn.flatten().unwrap_or(Level::Privileged),
            version: warn_version.flatten(),
        };
        // without a label, `warn` follows `enforce`
        if warn.is_none()
            && let Some(Some(level)) = enforce
            && level > policy.warn.level
        {
            policy.warn.level = level;
            if warn_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, labels.errors)
    }

    pub(super) fn is_privileged(self) -> bool {
        self.enforce.level == Level::Privileged && self.warn.level == Level::Privileged
    }
}

struct Labels<'a> {
    labels: &'a Value,
    errors: Vec<FieldError>,
}

impl Labels<'_> {
    /// The level of a mode: `None` without a label, `Some(None)` if the label is wrong.
    fn level(&mut self, mode: &str) -> Option<Option<Level>> {
        let level = match self.label(mode)? {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        };
        if level.is_none() {
            self.wrong(mode, "must be one of privileged, baseline, restricted");
        }
        Some(level)
    }

    /// The minor version of a mode: `None` without a label, `Some(None)` for the latest.
    fn version(&mut self, mode: &str) -> Option<Option<u32>> {
        let label = format!("{mode}-version");
        let version = self.label(&label)?;
        if version == "latest" {
            return Some(None);
        }
        let minor = version.strip_prefix("v1.").filter(|minor| is_number(minor));
        let minor = minor.and_then(|minor| minor.parse().ok());
        if minor.is_none() {
            self.wrong(&label, "must be \"latest\" or \"v1.x\"");
        }
        Some(minor)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(format!("{PREFIX}{name}"))?.as_str()
    }

    fn wrong(&mut self, name: &str, why: &str) {
        let label = format!("{PREFIX}{name}");
        let value = &self.labels[label.as_str()];
        let error = FieldError::invalid(format!("metadata.labels[{label}]"), value, why);
        self.errors.push(error);
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}
