//! Resolves a reference to a revision by a list of refs, or returns an error with similar names.
//!
//! Remote and local repositories share this code through [`Refs`]. Nothing is fetched.

use equate_manifest::go::version::{Constraint, Version};
use gix::ObjectId;

use crate::{
    kind::Kind,
    reference::{InvalidReference, Revision, Target},
    remote::UrlError,
    store::{OpenStoreError, Store},
    transport::RemoteError,
};

const NEAR_MAX: usize = 3;

/// The reason why a reference could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The URL or the credentials are invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The reference is invalid.
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    /// The repository has no such ref or commit.
    #[error("{wanted} does not exist in {place}{}", nearby(near))]
    Missing {
        /// The reference, `branch "main"`.
        wanted: String,
        /// The repository.
        place: String,
        /// Similar names that exist.
        near: Vec<String>,
    },
    /// The repository has no refs: nothing was ever pushed.
    #[error("git repository is empty")]
    Empty {
        /// The repository.
        place: String,
    },
    /// No tag is in the range.
    #[error("no tag in {place} matches semver {range:?}{}", highest_of(*tags, highest.as_deref()))]
    NoVersion {
        /// The range.
        range: String,
        /// The repository.
        place: String,
        /// The number of tags in the repository.
        tags: usize,
        /// The highest version among the tags.
        highest: Option<String>,
    },
    /// The remote did not answer or refused.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A local directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// A local repository cannot be read.
    #[error("cannot read the refs of {place}")]
    Read {
        /// The directory.
        place: String,
        /// The error from gix.
        source: gix::Error,
    },
}

impl ResolveError {
    pub(crate) fn advised(self, advice: &str) -> Self {
        match self {
            Self::Url(error) => Self::Url(error.advised(advice)),
            Self::Remote(error) => Self::Remote(error.advised(advice)),
            other => other,
        }
    }

    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Url(_) => Kind::UrlInvalid,
            Self::Reference(_) => Kind::ReferenceInvalid,
            Self::Missing { .. } | Self::Empty { .. } | Self::NoVersion { .. } => Kind::ReferenceNotFound,
            Self::Remote(error) => error.kind(),
            Self::Open(_) | Self::Read { .. } => Kind::Storage,
        }
    }
}

fn nearby(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; near it: {}", near.join(", ")),
    }
}

fn highest_of(tags: usize, highest: Option<&str>) -> String {
    match (tags, highest) {
        (0, _) => ": it has no tags".to_owned(),
        (tags, None) => format!(": none of its {tags} tags is a version"),
        (tags, Some(highest)) => format!(": the highest of its {tags} tags is {highest}"),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) id: ObjectId,
    pub(crate) tag: Option<ObjectId>,
}

pub(crate) trait Refs {
    /// Lists at least all refs whose full name begins with `prefix`.
    fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, ResolveError>;
    fn has(&mut self, id: ObjectId) -> Result<bool, ResolveError>;
    fn place(&self) -> String;
}

pub(crate) fn choose(refs: &mut dyn Refs, target: &Target) -> Result<Revision, ResolveError> {
    match target {
        Target::Commit { id, branch } => {
            if refs.has(*id)? {
                return Ok(Revision {
                    reference: branch.clone(),
                    absolute: false,
                    id: *id,
                });
            }
            Err(ResolveError::Missing {
                wanted: format!("commit {id}"),
                place: refs.place(),
                near: Vec::new(),
            })
        }
        Target::Name(name) => exact(refs, name, true, "ref"),
        Target::Tag(name) => exact(refs, name, false, "tag"),
        Target::Branch(name) => match exact(refs, name, false, "branch") {
            // a repository without any branch may have no commit yet
            Err(ResolveError::Missing { near, place, .. })
                if near.is_empty() && refs.list("refs/")?.is_empty() =>
            {
                Err(ResolveError::Empty { place })
            }
            found => found,
        },
        Target::Semver(range) => newest(refs, range),
    }
}

fn exact(
    refs: &mut dyn Refs,
    name: &str,
    absolute: bool,
    noun: &'static str,
) -> Result<Revision, ResolveError> {
    let found = refs.list(name)?.into_iter().find(|listed| listed.name == name);
    if let Some(Listed { id, .. }) = found {
        return Ok(Revision {
            reference: Some(name.to_owned()),
            absolute,
            id,
        });
    }
    let short = |full: &str| match absolute {
        true => full.to_owned(),
        false => full.splitn(3, '/').nth(2).unwrap_or(full).to_owned(),
    };
    let space = if absolute {
        "refs/"
    } else {
        &name[..name.len() - short(name).len()]
    };
    let all = refs.list(space)?;
    let names = all.iter().filter_map(|listed| listed.name.strip_prefix(space));
    let near = near(name.strip_prefix(space).unwrap_or(name), names);
    Err(ResolveError::Missing {
        wanted: format!("{noun} {:?}", short(name)),
        place: refs.place(),
        near: near
            .into_iter()
            .map(|found| short(&format!("{space}{found}")))
            .collect(),
    })
}

fn newest(refs: &mut dyn Refs, text: &str) -> Result<Revision, ResolveError> {
    const TAGS: &str = "refs/tags/";
    let range = Constraint::parse(text).map_err(|problem| InvalidReference::Semver {
        range: text.to_owned(),
        problem,
    })?;
    let listed = refs.list(TAGS)?;
    let tags: Vec<&str> = listed
        .iter()
        .filter_map(|listed| listed.name.strip_prefix(TAGS))
        .collect();
    if let Some(tag) = highest(&tags, |version| range.matches(version)) {
        let name = format!("{TAGS}{tag}");
        if let Some(found) = listed.iter().find(|listed| listed.name == name) {
            return Ok(Revision {
                reference: Some(name),
                absolute: false,
                id: found.id,
            });
        }
    }
    Err(ResolveError::NoVersion {
        range: text.to_owned(),
        place: refs.place(),
        tags: tags.len(),
        highest: highest(&tags, |_| true).map(str::to_owned),
    })
}

/// Tags that differ only in spelling or build metadata are ordered by that text, because commit dates are
/// unknown before a fetch.
fn highest<'a>(tags: &[&'a str], is_wanted: impl Fn(&Version) -> bool) -> Option<&'a str> {
    let versions = tags
        .iter()
        .filter_map(|tag| Some((Version::parse_tag(tag).ok()?, *tag)));
    versions
        .filter(|(version, _)| is_wanted(version))
        .max_by(|(left, one), (right, other)| left.order_with_metadata(right).then_with(|| one.cmp(other)))
        .map(|(_, tag)| tag)
}

/// The most similar names; if none is similar, all of a few.
fn near<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    /// The cost is quadratic in the number of names.
    const COMPARED_MAX: usize = 2_000;
    let mut ranked: Vec<(usize, &str)> = all
        .take(COMPARED_MAX)
        .map(|other| (distance(name, other), other))
        .collect();
    ranked.sort_unstable();
    let few = ranked.len() <= NEAR_MAX;
    let alike = |distance: usize| few || distance <= 2.max(name.len() / 3);
    ranked
        .into_iter()
        .filter(|(distance, _)| alike(*distance))
        .take(NEAR_MAX)
        .map(|(_, name)| name)
        .collect()
}

fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=left.len()).collect();
    for (at, c) in right.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, l) in left.iter().enumerate() {
            let replaced = diagonal + usize::from(*l != c);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[left.len()]
}

pub(crate) struct LocalRefs<'a> {
    pub(crate) store: &'a Store,
    pub(crate) place: String,
}

impl LocalRefs<'_> {
    fn error(&self) -> impl Fn(gix::Error) -> ResolveError + use<> {
        let place = self.place.clone();
        move |source| ResolveError::Read {
            place: place.clone(),
            source,
        }
    }
}

impl Refs for LocalRefs<'_> {
    fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, ResolveError> {
        let error = self.error();
        self.store.with(|repository| {
            if !prefix.ends_with('/') {
                let found = repository.try_find_reference(prefix).map_err(&error)?;
                return found
                    .map(|found| peeled(found, &error))
                    .transpose()
                    .map(|found| found.into_iter().collect());
            }
            let references = repository.references().map_err(&error)?;
            let mut listed = Vec::new();
            for reference in references.prefixed(prefix).map_err(&error)? {
                let reference = reference.map_err(&error)?;
                // Skip a dangling ref: other refs must not fail with it.
                listed.extend(peeled(reference, &error).ok());
            }
            Ok(listed)
        })
    }

    fn has(&mut self, id: ObjectId) -> Result<bool, ResolveError> {
        Ok(self.store.with(|repository| repository.find_commit(id).is_ok()))
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

fn peeled(
    mut reference: gix::Reference<'_>,
    error: &impl Fn(gix::Error) -> ResolveError,
) -> Result<Listed, ResolveError> {
    let name = reference.name().as_bstr().to_string();
    let first = reference.follow_to_object().map_err(error)?.detach();
    let id = reference.peel_to_id().map_err(error)?.detach();
    Ok(Listed {
        name,
        id,
        tag: Some(first).filter(|first| *first != id),
    })
}

#[cfg(test)]
mod tests;
