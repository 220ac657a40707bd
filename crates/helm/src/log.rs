//! Lines that Helm logs, in its form: `level=WARN msg="a text" key=value`.

use equate_manifest::go::quote;
use std::fmt;

/// The level of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Info,
    /// A warning.
    Warn,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// Names and values, in their order.
    pub attributes: Vec<(&'static str, String)>,
}

impl LogLine {
    /// A line with a message alone.
    pub fn new(level: Level, message: impl Into<String>) -> Self {
        Self {
            level,
            message: message.into(),
            attributes: Vec::new(),
        }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Info => "INFO",
            Level::Warn => "WARN",
        };
        write!(f, "level={level} msg={}", Quoted(&self.message))?;
        for (name, value) in &self.attributes {
            write!(f, " {name}={}", Quoted(value))?;
        }
        Ok(())
    }
}

/// A value in quotes, if Go's text handler quotes it.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let special = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=');
        match self.0.is_empty() || self.0.contains(special) {
            true => f.write_str(&quote(self.0)),
            false => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_as_in_go() {
        let line = LogLine::new(Level::Warn, "returned non-bool value")
            .with("path", "e.text")
            .with("chart", "")
            .with("error", "\"exports\" is not a table")
            .with("folder", "a\\b");
        assert_eq!(
            line.to_string(),
            "level=WARN msg=\"returned non-bool value\" path=e.text chart=\"\" \
             error=\"\\\"exports\\\" is not a table\" folder=a\\b"
        );
        assert_eq!(
            LogLine::new(Level::Info, "a=b").to_string(),
            "level=INFO msg=\"a=b\""
        );
    }
}
