//! The history of a repository, read along first parents.

use super::index::Index;
use super::repository::Repository;
use super::snapshot::{Fault, Shared, Snapshot};
use super::{ReleaseError, text};
use equate_git::{Commit, Tree};
use equate_release::config::{Config, Place};
use equate_release::fleet::Fleet;
use equate_release::history::{self, Entry, Growth, History};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::rc::Rc;

/// The most commits that are read at once.
const COMMITS_MAX: usize = 100_000;
/// More commits than these take long enough to say so.
const COMMITS_QUIET_MAX: usize = 10_000;

/// The directories of services in all environments; of all services if none is named.
pub(crate) fn places(config: &Config, fleet: &Fleet, services: &[&str]) -> Vec<Place> {
    let pattern = config.services.pattern();
    let mut places: BTreeSet<Place> = BTreeSet::new();
    if pattern.has_service() && !services.is_empty() {
        for environment in config.environments() {
            places.extend(services.iter().map(|service| Place {
                environment: environment.to_owned(),
                service: Some((*service).to_owned()),
                directory: pattern.directory(environment, service),
            }));
        }
    } else {
        places.extend(fleet.places().cloned());
    }
    places.into_iter().collect()
}

/// The changes of versions up to a commit, from the index of the clone where it has them.
///
/// # Errors
/// An object of the history is missing or damaged.
pub(crate) fn history(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
) -> Result<History, ReleaseError> {
    let key = history::key(config);
    let index = Index::of(repository);
    let stored = index
        .read(&key)
        .filter(|history| is_complete(repository, history));
    let id = tip.revision().commit();
    let known = stored.as_ref().map(History::tip);
    if known == Some(id.as_str()) {
        return Ok(stored.unwrap_or_default());
    }
    let Line {
        commits,
        is_root,
        meets,
    } = line(repository, &id, known)?;
    if commits.len() > COMMITS_QUIET_MAX {
        eprintln!("reading the versions of {} commits once", commits.len());
    }
    let fault = Fault::default();
    let shared = Rc::new(Shared::default());
    let snapshot = |tree: &Tree| Snapshot::sharing(tree.clone(), Rc::clone(&fault), Rc::clone(&shared));
    let mut before = None;
    let history = match meets {
        Some(tree) => {
            before = Some(snapshot(&tree));
            stored.unwrap_or_default()
        }
        None => History::default(),
    };
    let mut growth = Growth::new(history, config);
    for (commit, tree) in commits.iter().rev() {
        let after = snapshot(tree);
        match &before {
            None => growth.begin(&after, commit, is_root),
            Some(before) => growth.advance(before, &after, commit),
        }
        // what is built from an object that cannot be read is wrong
        if let Some(error) = fault.take() {
            return Err(ReleaseError::Object(error));
        }
        before = Some(after);
    }
    let history = growth.finish();
    if let Err(error) = index.write(&key, &history) {
        tracing::debug!(%error, "cannot write the index of the history");
    }
    Ok(history)
}

/// Whether the clone has nothing before the oldest commit of a history; a shallow one may have been deepened.
fn is_complete(repository: &Repository, history: &History) -> bool {
    let (first, is_root) = history.first();
    if is_root || history.length() >= COMMITS_MAX {
        return true;
    }
    let first = repository.inner.commit(first);
    first.is_ok_and(|first| first.parents.iter().take(1).all(|id| !repository.inner.has(id)))
}

/// The commits along first parents, from the newest, with their trees.
struct Line {
    commits: Vec<(history::Commit, Tree)>,
    /// Whether the last of them has no parent.
    is_root: bool,
    /// The tree of the wanted commit, which is the parent of the last one.
    meets: Option<Tree>,
}

fn line(repository: &Repository, tip: &str, wanted: Option<&str>) -> Result<Line, ReleaseError> {
    let is_shallow = repository.inner.is_shallow();
    let mut line = Line {
        commits: Vec::new(),
        is_root: false,
        meets: None,
    };
    let mut next = Some(tip.to_owned());
    while let Some(id) = next.filter(|_| line.commits.len() < COMMITS_MAX) {
        let found = repository.inner.commit(&id)?;
        if wanted == Some(id.as_str()) {
            line.meets = Some(found.commit.tree().clone());
            break;
        }
        line.commits
            .push((described(&found.commit), found.commit.tree().clone()));
        line.is_root = found.parents.is_empty();
        // a shallow clone lacks the parents of its oldest commits; any other missing parent is damage
        let is_there = |id: &String| !is_shallow || repository.inner.has(id);
        next = found.parents.into_iter().next().filter(is_there);
    }
    Ok(line)
}

/// The changes of some directories, from the newest.
pub(crate) fn changes<'h>(history: &'h History, places: &[Place]) -> impl Iterator<Item = Entry> + use<'h> {
    let wanted: HashSet<&str> = places.iter().map(|place| place.directory.as_str()).collect();
    history.entries_in(&|directory| wanted.contains(directory))
}

/// The changes of one service, newest first.
pub(crate) fn of_service(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
    service: &str,
) -> Result<Vec<Entry>, ReleaseError> {
    let history = history(repository, tip, config)?;
    Ok(history.entries(|key| key.service == service).collect())
}

/// The newest commit that is not younger than a time.
///
/// # Errors
/// The history begins later.
pub(crate) fn at(repository: &Repository, tip: &Commit, time: Timestamp) -> Result<Commit, ReleaseError> {
    let mut ancestor = repository.inner.commit(&tip.revision().commit())?;
    let is_shallow = repository.inner.is_shallow();
    loop {
        let made = described(&ancestor.commit).time;
        if made <= time {
            return Ok(ancestor.commit);
        }
        let parent = ancestor.parents.first();
        ancestor = match parent.filter(|id| !is_shallow || repository.inner.has(id)) {
            Some(id) => repository.inner.commit(id)?,
            None => {
                return Err(ReleaseError::Begins {
                    first: text::moment(made),
                    time: text::moment(time),
                    is_shallow,
                });
            }
        };
    }
}

/// A service in an environment.
pub(crate) type Key = (String, String);

/// The newest change of each wanted service and environment.
pub(crate) fn newest(history: &History, wanted: &BTreeSet<Key>) -> BTreeMap<Key, Entry> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (service, environment) in wanted {
        missing.entry(service).or_default().insert(environment);
    }
    let newest = history.entries(|key| {
        let environments = missing.get_mut(key.service);
        environments.is_some_and(|environments| environments.remove(key.environment))
    });
    let keyed = newest.map(|entry| ((entry.service.clone(), entry.environment.clone()), entry));
    keyed.collect()
}

pub(crate) fn described(commit: &Commit) -> history::Commit {
    let time = Timestamp::try_from(commit.committer().time).unwrap_or(Timestamp::UNIX_EPOCH);
    history::Commit {
        id: commit.revision().commit(),
        time,
        author: commit.author().name.clone(),
        email: commit.author().email.clone(),
    }
}
