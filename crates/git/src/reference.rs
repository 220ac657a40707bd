//! A reference to a commit ([`Reference`]) and its resolution at one moment ([`Revision`]).
//!
//! The precedence (commit, name, semver, tag, branch) and the revision's text follow the `GitRepository`
//! API. [`crate::resolve`] chooses among a remote's refs.

use std::{fmt, str::FromStr};

use equate_manifest::go::version::ConstraintError;
use gix::ObjectId;

/// The branch of an empty reference.
pub const DEFAULT_BRANCH: &str = "master";

/// The fields of `spec.ref`. Commit takes precedence over name, semver, tag and branch, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reference {
    /// A branch by its short name, `main`.
    pub branch: Option<String>,
    /// A tag by its short name, `v1.2.3`.
    pub tag: Option<String>,
    /// A version range, which selects its highest tag.
    pub semver: Option<String>,
    /// A full ref name, `refs/pull/1/head`, or `HEAD`.
    pub name: Option<String>,
    /// A full commit id, 40 hexadecimal digits; `branch`, if set, is where to look for it.
    pub commit: Option<String>,
}

impl Reference {
    /// The tip of a branch.
    pub fn branch(name: impl Into<String>) -> Self {
        Self {
            branch: Some(name.into()),
            ..Self::default()
        }
    }

    /// A tag.
    pub fn tag(name: impl Into<String>) -> Self {
        Self {
            tag: Some(name.into()),
            ..Self::default()
        }
    }

    /// The highest tag inside a range of versions.
    pub fn semver(range: impl Into<String>) -> Self {
        Self {
            semver: Some(range.into()),
            ..Self::default()
        }
    }

    /// A ref by its full name.
    pub fn name(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// An exact commit.
    pub fn commit(hex: impl Into<String>) -> Self {
        Self {
            commit: Some(hex.into()),
            ..Self::default()
        }
    }

    /// As in the API, an empty text counts as absent.
    pub(crate) fn target(&self) -> Result<Target, InvalidReference> {
        fn set(field: Option<&String>) -> Option<&str> {
            field.map(String::as_str).filter(|text| !text.is_empty())
        }
        let branch = set(self.branch.as_ref());
        if let Some(hex) = set(self.commit.as_ref()) {
            let id = ObjectId::from_hex(hex.as_bytes()).map_err(|_| InvalidReference::Commit {
                commit: hex.to_owned(),
            })?;
            let branch = branch.map(|name| full("refs/heads/", name)).transpose()?;
            return Ok(Target::Commit { id, branch });
        }
        if let Some(name) = set(self.name.as_ref()) {
            if !is_full(name) {
                return Err(InvalidReference::Name {
                    name: name.to_owned(),
                });
            }
            return Ok(Target::Name(full("", name)?));
        }
        if let Some(range) = set(self.semver.as_ref()) {
            return Ok(Target::Semver(range.to_owned()));
        }
        if let Some(tag) = set(self.tag.as_ref()) {
            return Ok(Target::Tag(full("refs/tags/", tag)?));
        }
        Ok(Target::Branch(full(
            "refs/heads/",
            branch.unwrap_or(DEFAULT_BRANCH),
        )?))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("commit", &self.commit),
            ("name", &self.name),
            ("semver", &self.semver),
            ("tag", &self.tag),
            ("branch", &self.branch),
        ];
        let set = fields.iter().find_map(|(field, value)| {
            value
                .as_deref()
                .filter(|text| !text.is_empty())
                .map(|text| (*field, text))
        });
        let (field, text) = set.unwrap_or(("branch", DEFAULT_BRANCH));
        write!(f, "{field} {text:?}")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Commit { id: ObjectId, branch: Option<String> },
    Name(String),
    Semver(String),
    Tag(String),
    Branch(String),
}

/// The reason why a reference is invalid for any remote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    /// Not a full object id.
    #[error("commit {commit:?} is not a full commit id: write all 40 hexadecimal digits")]
    Commit {
        /// The given text.
        commit: String,
    },
    /// Neither below `refs/` nor `HEAD`.
    #[error("name {name:?} is not a full ref name: it is HEAD or begins with refs/, as in refs/heads/main")]
    Name {
        /// The given text.
        name: String,
    },
    /// Not a ref name that git accepts.
    #[error("{name:?} is not a valid ref name")]
    Malformed {
        /// The full name.
        name: String,
    },
    /// Not a version range.
    #[error("semver {range:?} is not a range of versions such as >=1.2 <2: {problem}")]
    Semver {
        /// The given text.
        range: String,
        /// The reason.
        problem: ConstraintError,
    },
}

fn is_full(name: &str) -> bool {
    name == "HEAD" || name.starts_with("refs/")
}

/// Git's rules keep line breaks, options and paths out of the protocol and the mirror.
fn full(prefix: &str, name: &str) -> Result<String, InvalidReference> {
    let name = format!("{prefix}{name}");
    match gix::validate::reference::name(name.as_str().into()) {
        Ok(_) => Ok(name),
        Err(_) => Err(InvalidReference::Malformed { name }),
    }
}

/// A commit and the ref it was found at. `Display` is the text of artifacts and status: `main@sha1:<hex>`,
/// `v1.2.3@sha1:<hex>`, `refs/pull/1/head@sha1:<hex>`, `sha1:<hex>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision {
    pub(crate) reference: Option<String>,
    pub(crate) absolute: bool,
    pub(crate) id: ObjectId,
}

impl Revision {
    /// The commit, 40 hexadecimal digits.
    pub fn commit(&self) -> String {
        self.id.to_string()
    }

    /// The short name of the tag the commit was found at, if any.
    pub fn tag(&self) -> Option<&str> {
        self.reference.as_deref()?.strip_prefix("refs/tags/")
    }

    /// The full ref the commit was found at, `refs/heads/main`.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }
}

impl fmt::Display for Revision {
    /// As in the API, a ref of two parts (`refs/stash`) is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.reference.as_deref().and_then(|full| match self.absolute {
            true => Some(full),
            false => full.splitn(3, '/').nth(2),
        });
        if let Some(shown) = shown {
            write!(f, "{shown}@")?;
        }
        write!(f, "{}:{}", self.id.kind(), self.id)
    }
}

/// An error for a text that is not a revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a revision: main@sha1:<commit> or sha1:<commit>")]
pub struct ParseRevisionError {
    text: String,
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// A short name is read as a branch: the text does not tell tags apart, and the name is only a
    /// fallback.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseRevisionError {
            text: text.to_owned(),
        };
        let (name, digest) = match text.rsplit_once('@') {
            Some((name, digest)) => (Some(name), digest),
            None => (None, text),
        };
        let hex = digest.strip_prefix("sha1:").ok_or_else(error)?;
        let id = ObjectId::from_hex(hex.as_bytes()).map_err(|_| error())?;
        let absolute = name.is_some_and(is_full);
        let prefix = if absolute { "" } else { "refs/heads/" };
        let reference = name
            .map(|name| full(prefix, name))
            .transpose()
            .map_err(|_| error())?;
        Ok(Self {
            reference,
            absolute,
            id,
        })
    }
}

#[cfg(test)]
mod tests;
