//! `.helmignore`: which files of a directory are no part of the chart.
//!
//! Looks like `.gitignore` and is not: patterns are shell patterns of Go's `filepath.Match`, one without a
//! slash is held against the file's own name, the first rule that matches decides, and a rule with `!`
//! ignores whatever does *not* match. `**` is refused.

use super::LoadError;
use crate::file_match::{BadPattern, matches};
use crate::limits::LimitExceeded;

/// The most rules: each is held against each file.
const RULES_MAX: usize = 1_000;

/// The most bytes of a `.helmignore`, for the same reason.
pub(super) const BYTES_MAX: u64 = 64 << 10;

/// What is always ignored: dot files directly in `templates/`.
const DEFAULT: &str = "templates/.?*";

/// The rules of a chart directory.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: String,
    negated: bool,
    /// Ended with `/`.
    directories: bool,
    /// Has no slash: held against the last part of the path.
    name_only: bool,
}

impl Rules {
    /// Reads the text of a `.helmignore` and adds what is always ignored.
    pub(super) fn parse(text: &str) -> Result<Self, LoadError> {
        if text.len() as u64 > BYTES_MAX {
            return Err(LimitExceeded::IgnoreBytes(BYTES_MAX).into());
        }
        let mut rules = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for line in text.lines() {
            rules.add(line)?;
            if rules.0.len() > RULES_MAX {
                return Err(LimitExceeded::IgnoreRules(RULES_MAX).into());
            }
        }
        rules.add(DEFAULT)?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), LoadError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if line.contains("**") {
            return Err(LoadError::IgnoreStars);
        }
        // tried on a text, which finds most of what is wrong with a pattern, as in Helm
        matches(line.as_bytes(), b"abc").map_err(|BadPattern| LoadError::IgnorePattern)?;
        let (negated, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (directories, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (rooted, pattern) = match line.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        self.0.push(Rule {
            name_only: !rooted && !pattern.contains('/'),
            pattern: pattern.to_owned(),
            negated,
            directories,
        });
        Ok(())
    }

    /// Whether a path below the chart's directory is ignored.
    pub(super) fn ignores(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            let fits = !rule.directories || is_directory;
            if rule.negated {
                if !fits || !rule.matches(path) {
                    return true;
                }
            } else if fits && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn matches(&self, path: &str) -> bool {
        let text = if self.name_only {
            path.rsplit('/').next().unwrap_or(path)
        } else {
            path
        };
        matches(self.pattern.as_bytes(), text.as_bytes()).unwrap_or(false)
    }
}
