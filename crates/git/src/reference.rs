//! What is asked for ([`Reference`]) and what it was at one moment ([`Revision`]).
//!
//! The precedence (commit, name, semver, tag, branch) and the revision's text are those of the
//! `GitRepository` API; the choice among a remote's refs is in [`crate::resolve`].

use std::{fmt, str::FromStr};

use gix::ObjectId;

/// The branch that is meant when a reference says nothing.
pub const DEFAULT_BRANCH: &str = "master";

/// The fields of `spec.ref`. Several may be set: commit wins over name, semver, tag and branch, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reference {
    /// A branch by its short name, `main`.
    pub branch: Option<String>,
    /// A tag by its short name, `v1.2.3`.
    pub tag: Option<String>,
    /// A range of versions; the highest tag inside it is meant.
    pub semver: Option<String>,
    /// A full ref name, `refs/pull/1/head`, or `HEAD`: what the repository itself is on.
    pub name: Option<String>,
    /// An exact commit, 40 hexadecimal digits; `branch`, where set, says where to look for it.
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

    /// The one field that counts. An empty text counts as absent, as it does in the API.
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

/// A reference after precedence: names are full and well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Commit { id: ObjectId, branch: Option<String> },
    Name(String),
    Semver(String),
    Tag(String),
    Branch(String),
}

/// Why a reference cannot mean anything, whatever the remote holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    /// Not a full object id.
    #[error("commit {commit:?} is not a full commit id: write all 40 hexadecimal digits")]
    Commit {
        /// What was written.
        commit: String,
    },
    /// Neither below `refs/` nor `HEAD`.
    #[error("name {name:?} is not a full ref name: it is HEAD or begins with refs/, as in refs/heads/main")]
    Name {
        /// What was written.
        name: String,
    },
    /// Not a name git would accept.
    #[error("{name:?} is not a valid ref name")]
    Malformed {
        /// The full name that was made of it.
        name: String,
    },
    /// Not a range of versions.
    #[error("semver {range:?} is not a range of versions: {problem}")]
    Semver {
        /// What was written.
        range: String,
        /// Which part is not understood.
        problem: String,
    },
}

fn is_full(name: &str) -> bool {
    name == "HEAD" || name.starts_with("refs/")
}

/// The full name, held to git's rules: what passes here cannot smuggle a line, an option or a
/// path into the protocol or the mirror.
fn full(prefix: &str, name: &str) -> Result<String, InvalidReference> {
    let name = format!("{prefix}{name}");
    match gix::validate::reference::name(name.as_str().into()) {
        Ok(_) => Ok(name),
        Err(_) => Err(InvalidReference::Malformed { name }),
    }
}

/// One commit and how it was found. `Display` is the revision of artifacts and status:
/// `main@sha1:<hex>`, `v1.2.3@sha1:<hex>`, `refs/pull/1/head@sha1:<hex>`, `sha1:<hex>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision {
    /// The full ref the commit was found at; absent for a commit named without a branch.
    pub(crate) reference: Option<String>,
    /// Named by its full ref, so shown by it.
    pub(crate) absolute: bool,
    pub(crate) id: ObjectId,
}

impl Revision {
    /// The commit, 40 hexadecimal digits.
    pub fn commit(&self) -> String {
        self.id.to_string()
    }

    /// The short name of the tag the commit was found at, if it was one.
    pub fn tag(&self) -> Option<&str> {
        self.reference.as_deref()?.strip_prefix("refs/tags/")
    }

    /// The full ref the commit was found at, `refs/heads/main`.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }
}

impl fmt::Display for Revision {
    /// A ref of two parts (`refs/stash`) has no short form and is left out, as in the API.
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

/// A text that is no revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a revision: main@sha1:<commit> or sha1:<commit>")]
pub struct ParseRevisionError {
    text: String,
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// Reads a revision from status. A short name stands for a branch: the text does not say
    /// whether it was a tag, and the name is only a second way to the commit.
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
