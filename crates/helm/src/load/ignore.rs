//! `.helmignore`: files of a directory outside the chart.
//!
//! It differs from `.gitignore`: patterns are those of Go's `filepath.Match`, a pattern without a slash
//! matches the file name, the first matching rule decides, and a rule with `!` ignores everything that
//! does *not* match. `**` is an error.

use super::LoadError;
use crate::file_match::{BadPattern, matches};
use crate::limits::LimitExceeded;

/// The most rules: each is matched against each file.
const RULES_MAX: usize = 1_000;

/// The most bytes of a `.helmignore`, for the same reason.
pub(super) const BYTES_MAX: u64 = 64 << 10;

/// The default rule: dot files directly in `templates/`.
const DEFAULT: &str = "templates/.?*";

#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: String,
    negated: bool,
    directories: bool,
    /// Has no slash: matched against the last path element.
    name_only: bool,
}

impl Rules {
    /// Parses a `.helmignore` and adds the default rule.
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
        // as in Helm, a trial match finds most pattern errors
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
