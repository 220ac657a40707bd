//! The `.sourceignore` files of one tree.
//!
//! Many directories may share one file of a commit, or of an archive. Each counts, before it is read.

use super::TreeError;
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreFile, Rules, count_patterns};
use crate::limits::{LimitExceeded, Limits};

/// The files that were found so far: parents before children, siblings by name.
#[derive(Debug)]
pub(super) struct IgnoreFiles<'a> {
    limits: &'a Limits,
    found: Vec<IgnoreFile>,
    bytes: u64,
    patterns: usize,
}

impl<'a> IgnoreFiles<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            found: Vec::new(),
            bytes: 0,
            patterns: 0,
        }
    }

    /// Counts the file of a directory, which has this size, before it is read.
    pub(super) fn count(&mut self, directory: &str, bytes: u64) -> Result<(), TreeError> {
        let path = directory.len() + IGNORE_FILE.len();
        self.bytes = self.bytes.saturating_add(path as u64).saturating_add(bytes);
        let max = self.limits.ignore_bytes_max;
        match self.bytes > max {
            true => Err(exceeded(path_in(directory), LimitExceeded::IgnoreBytes(max))),
            false => Ok(()),
        }
    }

    /// Adds a counted file.
    pub(super) fn add(&mut self, directory: &str, bytes: &[u8]) -> Result<(), TreeError> {
        let text = String::from_utf8_lossy(bytes);
        let patterns = count_patterns(&text);
        // a file without patterns changes nothing
        if patterns == 0 {
            return Ok(());
        }
        self.patterns = self.patterns.saturating_add(patterns);
        self.check(|| path_in(directory), self.patterns)?;
        self.found.push(IgnoreFile {
            directory: directory.to_owned(),
            text: text.into_owned(),
        });
        Ok(())
    }

    /// The rules of these files and of `ignore`.
    pub(super) fn rules(&self, ignore: &Ignore) -> Result<Rules, TreeError> {
        let patterns = self.patterns.saturating_add(ignore.count_patterns());
        self.check(|| "spec.ignore".to_owned(), patterns)?;
        Ok(ignore.rules(&self.found))
    }

    fn check(&self, path: impl Fn() -> String, patterns: usize) -> Result<(), TreeError> {
        let max = self.limits.ignore_patterns_max;
        match patterns > max {
            true => Err(exceeded(path(), LimitExceeded::IgnorePatterns(max))),
            false => Ok(()),
        }
    }
}

fn exceeded(path: String, limit: LimitExceeded) -> TreeError {
    TreeError::Limit { path, limit }
}

fn path_in(directory: &str) -> String {
    match directory {
        "" => IGNORE_FILE.to_owned(),
        directory => format!("{directory}/{IGNORE_FILE}"),
    }
}
