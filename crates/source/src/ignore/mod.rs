//! Decides which files of a source are not part of its artifact, exactly as Flux does.
//!
//! The syntax is gitignore's. Flux's matcher differs from git's in ways that change artifacts, so no
//! gitignore library fits:
//!
//! - the last matching pattern wins, even below an excluded directory: a file can be included again
//!   although its directory is excluded;
//! - a pattern that matches a directory matches everything below it;
//! - `**` means "any directories" only as a whole segment; `/**` alone matches nothing, `a/**` also `a`;
//! - segments compare like Go's `filepath.Match`: `[^a]` negates, `[!a]` does not, and a malformed pattern
//!   matches nothing.
//!
//! Patterns apply in this order, lowest first: version control files, always; default extensions and CI
//! files, unless there is a pattern below; every `.sourceignore` for its own directory, parents first;
//! `spec.ignore` from the root. (Flux: `fluxcd/pkg/sourceignore` v0.18, `fluxcd/pkg/artifact/storage`
//! v0.18.)

mod glob;
mod keys;
mod pattern;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use glob::Glob;
pub use keys::KeyRules;
use pattern::Pattern;

use crate::pauses::{Pauses, Stopped};

pub(crate) const IGNORE_FILE: &str = ".sourceignore";

const VERSION_CONTROL: &[&str] = &[".git/", ".gitignore", ".gitmodules", ".gitattributes"];

const DEFAULTS: &[&str] = &[
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.png",
    "*.wmv",
    "*.flv",
    "*.tar.gz",
    "*.zip",
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// The patterns of `spec.ignore`. A tree's `.sourceignore` files are found when the tree is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    text: String,
}

impl Ignore {
    /// Parses `spec.ignore`, one pattern per line. Without a pattern, the defaults apply.
    pub fn new(spec: Option<&str>) -> Ignore {
        Ignore {
            text: spec.unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn count_patterns(&self) -> usize {
        count_patterns(&self.text)
    }

    /// The rules for a tree with these `.sourceignore` files: parents before children, siblings by name.
    pub(crate) fn rules(&self, found: &[IgnoreFile]) -> Rules {
        let mut given: Vec<Pattern> = Vec::new();
        for file in found {
            given.extend(patterns(&file.text, &file.directory));
        }
        given.extend(patterns(&self.text, ""));
        let root: Arc<[String]> = Arc::default();
        let version_control = VERSION_CONTROL.iter().map(|text| Pattern::parse(text, &root));
        let defaults = DEFAULTS.iter().map(|text| Pattern::parse(text, &root));
        let patterns = match given.is_empty() {
            true => version_control.chain(defaults).collect(),
            false => version_control.chain(given).collect(),
        };
        Rules {
            patterns,
            id: self.rules_id(found),
        }
    }

    fn rules_id(&self, found: &[IgnoreFile]) -> [u8; 32] {
        let mut hash = Sha256::new();
        for text in found
            .iter()
            .flat_map(|file| [&file.directory, &file.text])
            .chain([&self.text])
        {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoreFile {
    /// "" for the root.
    pub(crate) directory: String,
    pub(crate) text: String,
}

pub(crate) fn count_patterns(text: &str) -> usize {
    lines(text).count()
}

fn patterns<'a>(text: &'a str, directory: &str) -> impl Iterator<Item = Pattern> + use<'a> {
    let names = directory.split('/').filter(|name| !name.is_empty());
    let domain: Arc<[String]> = names.map(str::to_owned).collect();
    lines(text).map(move |line| Pattern::parse(line, &domain))
}

/// Reads lines as Flux does: a `#` in the first column is a comment, blank lines are skipped, and `\r`
/// before a line's end is dropped.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

#[derive(Debug)]
pub(crate) struct Rules {
    patterns: Vec<Pattern>,
    id: [u8; 32],
}

/// The pattern that decides a path, if any. Children start from their directory's match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoreDecision {
    /// The index of the pattern plus one, or 0: only patterns from here on can still decide.
    decided: usize,
    excluded: bool,
}

impl IgnoreDecision {
    pub(crate) fn is_excluded(self) -> bool {
        self.excluded
    }
}

impl Rules {
    pub(crate) fn id(&self) -> [u8; 32] {
        self.id
    }

    /// Decides `path`, given its directory's match. A pattern that matches a directory matches everything
    /// below it, so only patterns of a higher priority are tried.
    pub(crate) fn decide(
        &self,
        parent: IgnoreDecision,
        path: &[&str],
        is_directory: bool,
        pauses: &Pauses<'_>,
    ) -> Result<IgnoreDecision, Stopped> {
        let steps = steps(path);
        for (at, pattern) in self.patterns.iter().enumerate().skip(parent.decided).rev() {
            pauses.count(steps)?;
            if pattern.matches(path, is_directory) {
                return Ok(IgnoreDecision {
                    decided: at + 1,
                    excluded: !pattern.includes(),
                });
            }
        }
        Ok(parent)
    }

    /// Whether anything below the excluded directory `path` can be included again; if not, skip the
    /// directory. May return true without need.
    pub(crate) fn may_include_below(
        &self,
        decision: IgnoreDecision,
        path: &[&str],
        pauses: &Pauses<'_>,
    ) -> Result<bool, Stopped> {
        let steps = steps(path);
        for pattern in self.patterns.iter().skip(decision.decided) {
            pauses.count(steps)?;
            if pattern.includes() && pattern.may_match_below(path) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Those of a comparison.
fn steps(path: &[&str]) -> usize {
    path.iter().map(|name| name.len() + 1).sum()
}
