//! Holds: files that keep a version where it is.
//!
//! A hold lives beside the manifests, so that one commit moves a version and sets the hold, and everybody
//! with read access sees it.

use crate::config::{ConfigError, Reader};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The directory of all holds.
pub const DIRECTORY: &str = ".equate/holds";

/// The most bytes of a hold.
pub const BYTES_MAX: usize = 64 << 10;

/// A hold of one service in one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The environment.
    pub environment: String,
    /// The service.
    pub service: String,
    /// The reason.
    pub reason: String,
    /// The person who set it, `Name <address>`.
    pub by: String,
    /// The time at which it was set.
    pub since: Option<Timestamp>,
    /// The time from which it no longer counts.
    pub until: Option<Timestamp>,
    /// The writers that it stops.
    pub stops: Stops,
    /// The version above which automation may go on, after a rollback.
    pub newer_than: Option<String>,
    /// Its file.
    pub path: String,
    /// The line of the reason, or 1.
    pub line: usize,
}

/// The writers that a hold stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stops {
    /// Everybody.
    All,
    /// Automation, and not people.
    Automation,
}

impl Hold {
    /// The file of a service's hold.
    pub fn path(environment: &str, service: &str) -> String {
        format!("{DIRECTORY}/{environment}/{service}.yaml")
    }

    /// Whether it counts at a time.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The consequence for those who write to the environment, in words.
    pub fn consequence(&self) -> String {
        let environment = &self.environment;
        match (self.stops, &self.newer_than) {
            (Stops::All, _) => {
                format!(
                    "`promote`, `release` and `rollback` to {environment} are refused, and automation waits"
                )
            }
            (Stops::Automation, Some(version)) => {
                format!(
                    "automation waits for a version newer than {version}; people may promote to {environment}"
                )
            }
            (Stops::Automation, None) => {
                format!("automation waits for the end of the hold; people may promote to {environment}")
            }
        }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            text.push_str(&format!("{key}: {}\n", quoted(value)));
        };
        line("reason", &self.reason);
        line("by", &self.by);
        if let Some(since) = self.since {
            line("since", &since.to_string());
        }
        if let Some(until) = self.until {
            line("until", &until.to_string());
        }
        if self.stops == Stops::Automation {
            line("stops", "automation");
        }
        if let Some(version) = &self.newer_than {
            line("newerThan", version);
        }
        text
    }

    /// Reads the file of a hold.
    ///
    /// # Errors
    /// The file is no hold; the error names the place.
    pub fn parse(environment: &str, service: &str, path: &str, text: &str) -> Result<Self, ConfigError> {
        let document = crate::config::document(path, text)?;
        let reader = Reader::new(path, &document);
        let keys = ["reason", "by", "since", "until", "stops", "newerThan"];
        let map = reader.map("", &document.value, &keys)?;
        let text_of = |key: &str| -> Result<Option<String>, ConfigError> {
            map.get(key)
                .map(|value| reader.text(&format!("/{key}"), value))
                .transpose()
        };
        let time = |key: &str| -> Result<Option<Timestamp>, ConfigError> {
            match text_of(key)? {
                None => Ok(None),
                Some(text) => text.parse().map(Some).map_err(|_| {
                    let hint = "write it as 2026-11-27T00:00:00Z";
                    reader.error(&format!("/{key}"), format!("{text:?} is not a time"), hint)
                }),
            }
        };
        let stops = match text_of("stops")?.as_deref() {
            None | Some("all") => Stops::All,
            Some("automation") => Stops::Automation,
            Some(other) => {
                let hint = "write `all` or `automation`";
                return Err(reader.error("/stops", format!("unknown value {other:?}"), hint));
            }
        };
        Ok(Self {
            environment: environment.to_owned(),
            service: service.to_owned(),
            reason: text_of("reason")?.unwrap_or_default(),
            by: text_of("by")?.unwrap_or_default(),
            since: time("since")?,
            until: time("until")?,
            stops,
            newer_than: text_of("newerThan")?,
            path: path.to_owned(),
            line: reader.line("/reason"),
        })
    }

    /// The person's name without the address.
    pub fn name(&self) -> &str {
        let name = self.by.split('<').next().unwrap_or_default().trim();
        if name.is_empty() { "nobody" } else { name }
    }
}

/// A JSON string is also YAML, on one line.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '_' | '/' | '+'))
        && text.trim() == text
        && text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_text = || {
        equate_manifest::yaml::scalar(equate_manifest::yaml::Dialect::Yaml11, text)
            .is_some_and(|value| value.is_string())
    };
    if plain && is_text() {
        text.to_owned()
    } else {
        serde_json::Value::String(text.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Hold, Stops};

    #[test]
    fn written_hold_is_read_back() {
        for (reason, by) in [
            ("EU first", "Anna Berg <anna@example.org>"),
            ("a: b # c", "Łukasz \"Z\" <z@example.org>"),
            ("yes", ""),
            ("two\nlines\t", "O'Neil <o@example.org>"),
        ] {
            let hold = Hold {
                environment: "prod".to_owned(),
                service: "cart".to_owned(),
                reason: reason.to_owned(),
                by: by.to_owned(),
                since: Some("2026-11-20T10:00:00Z".parse().unwrap()),
                until: Some("2026-11-27T00:00:00Z".parse().unwrap()),
                stops: Stops::Automation,
                newer_than: Some("2.4.1".to_owned()),
                path: Hold::path("prod", "cart"),
                line: 1,
            };
            let read = Hold::parse("prod", "cart", &hold.path, &hold.to_text()).unwrap();
            assert_eq!(read, hold);
        }
    }

    #[test]
    fn unknown_field_names_its_place() {
        let error = Hold::parse("a", "b", "f.yaml", "reason: x\nuntill: y\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "f.yaml:2:9: unknown field \"untill\"; did you mean `until`?"
        );
    }
}
