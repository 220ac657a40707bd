//! Which files of a source are no part of its artifact, exactly as Flux decides it.
//!
//! The syntax is gitignore's, the semantics are those of Flux's matcher, which differs from git's in ways
//! that change artifacts, so no general gitignore library is used:
//!
//! - the last pattern that matches wins, also below an excluded directory: a file can be included again
//!   although its directory is excluded;
//! - a pattern that matches a directory matches everything below it;
//! - `**` means "any directories" only as a whole segment; `/**` alone matches nothing, `a/**` also `a`;
//! - segments are compared as Go's `filepath.Match` does: `[^a]` negates, `[!a]` does not, and a pattern
//!   that is malformed matches nothing.
//!
//! Which patterns apply, lowest first: the version control files, always; the default extensions and CI
//! files, unless there is any pattern below; every `.sourceignore` of the tree, each for its own directory,
//! parents before children; `spec.ignore`, from the root.
//! (Flux: `fluxcd/pkg/sourceignore` v0.18, `fluxcd/pkg/artifact/storage` v0.18.)

mod glob;
mod pattern;
#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256};

use pattern::Pattern;

/// The file in a directory that holds patterns for what is below it.
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

/// The patterns a source's object asks for (`spec.ignore`). What a tree adds by its `.sourceignore` files is
/// found when the tree is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    text: String,
}

impl Ignore {
    /// The patterns of `spec.ignore`, one a line. None, an empty text and a text of comments alone leave the
    /// defaults in place.
    pub fn new(spec: Option<&str>) -> Ignore {
        Ignore {
            text: spec.unwrap_or_default().to_owned(),
        }
    }

    /// The rules for a tree in which these `.sourceignore` files were `found`: parents before children,
    /// siblings by name.
    pub(crate) fn rules(&self, found: &[IgnoreFile]) -> Rules {
        let mut given: Vec<Pattern> = Vec::new();
        for file in found {
            given.extend(patterns(&file.text, &file.directory));
        }
        given.extend(patterns(&self.text, ""));
        let version_control = VERSION_CONTROL.iter().map(|text| Pattern::parse(text, ""));
        let defaults = DEFAULTS.iter().map(|text| Pattern::parse(text, ""));
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

/// A `.sourceignore` that a tree holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IgnoreFile {
    /// The directory it stands in, "" for the root.
    pub(crate) directory: String,
    pub(crate) text: String,
}

/// The patterns of one file, as Flux reads lines: a `#` in the first column is a comment, blank lines are
/// nothing, `\r` before the line's end is not part of it.
fn patterns<'a>(text: &'a str, directory: &'a str) -> impl Iterator<Item = Pattern> + 'a {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(move |line| Pattern::parse(line, directory))
}

/// Everything that decides about one tree, in order of priority.
#[derive(Debug)]
pub(crate) struct Rules {
    patterns: Vec<Pattern>,
    id: [u8; 32],
}

/// Which pattern decided about a path, if any did. A directory's verdict is where its children start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// One more than the index of the pattern, 0 for none: patterns from here on can still decide.
    decided: usize,
    excluded: bool,
}

impl Verdict {
    pub(crate) fn is_excluded(self) -> bool {
        self.excluded
    }
}

impl Rules {
    /// Equal for two trees whose patterns are the same, wherever they came from.
    pub(crate) fn id(&self) -> [u8; 32] {
        self.id
    }

    /// What is decided about `path`, given what was decided about its directory. A pattern that matches a
    /// directory matches everything below it, so only patterns of a higher priority are asked again.
    pub(crate) fn verdict(&self, parent: Verdict, path: &[&str], is_directory: bool) -> Verdict {
        let from = parent.decided;
        self.patterns[from..]
            .iter()
            .rposition(|pattern| pattern.matches(path, is_directory))
            .map(|at| from + at)
            .map_or(parent, |at| Verdict {
                decided: at + 1,
                excluded: !self.patterns[at].includes(),
            })
    }

    /// Whether anything below the excluded directory `path` can be included again; if not, it need not be
    /// walked. May say yes where nothing is.
    pub(crate) fn may_include_below(&self, verdict: Verdict, path: &[&str]) -> bool {
        self.patterns[verdict.decided..]
            .iter()
            .any(|pattern| pattern.includes() && pattern.may_match_below(path))
    }
}
