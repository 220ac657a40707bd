//! The history of a repository, read along first parents.

use super::index::Index;
use super::read_ahead;
use super::repository::Repository;
use super::snapshot::{Fault, Shared, Snapshot};
use super::{ReleaseError, text};
use equate_git::{Commit, Tree};
use equate_release::config::{Config, Place};
use equate_release::fleet::Fleet;
use equate_release::history::{self, Entry, Growth, History};
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

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
    let history = match &meets {
        Some(_) => stored.unwrap_or_default(),
        None => History::default(),
    };
    let mut growth = Growth::new(history, config);
    let trees: Vec<&Tree> = commits.iter().rev().map(|(_, tree)| tree).collect();
    if let (None, Some(first)) = (&meets, trees.first()) {
        growth.expect(read_ahead::all(config, first)?);
    }
    let mut commits = commits.iter().rev().map(|(commit, _)| commit);
    read_ahead::each(config, meets.as_ref(), &trees, |chunk| {
        let mut before = chunk.before;
        for ((after, built), commit) in chunk.commits.into_iter().zip(commits.by_ref()) {
            match &before {
                None => growth.begin(&after, commit, is_root),
                Some(before) => {
                    growth.expect(built);
                    growth.advance(before, &after, commit);
                }
            }
            if let Some(error) = after.fault().take() {
                return Err(ReleaseError::Object(error));
            }
            before = Some(after);
        }
        Ok(())
    })?;
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

/// The history of commits that are not on the branch yet, each a child of the one before: that of the first,
/// grown in memory.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The configuration that the history is of.
    key: String,
    commits: Vec<String>,
    history: History,
}

impl Ahead {
    /// The history up to the newest of some commits. Only the first is on the branch.
    ///
    /// # Errors
    /// An object of the history is missing or damaged.
    pub(crate) fn of(
        &mut self,
        repository: &Repository,
        commits: &[Commit],
        config: &Config,
    ) -> Result<&History, ReleaseError> {
        let key = history::key(config);
        let ids: Vec<String> = commits.iter().map(|commit| commit.revision().commit()).collect();
        let (Some(first), Some(id)) = (commits.first(), ids.first()) else {
            return Ok(&self.history);
        };
        if self.key != key || self.commits.is_empty() || !ids.starts_with(&self.commits) {
            self.history = history(repository, first, config)?;
            self.commits = vec![id.clone()];
            self.key = key;
        }
        if self.commits.len() == ids.len() {
            return Ok(&self.history);
        }
        let fault = Fault::default();
        let shared = Arc::new(Shared::default());
        let snapshot =
            |commit: &Commit| Snapshot::sharing(commit.tree().clone(), fault.clone(), Arc::clone(&shared));
        let mut growth = Growth::new(std::mem::take(&mut self.history), config);
        for pair in commits.windows(2).skip(self.commits.len() - 1) {
            if let [before, after] = pair {
                growth.advance(&snapshot(before), &snapshot(after), &described(after));
            }
        }
        self.history = growth.finish();
        self.commits = ids;
        match fault.take() {
            None => Ok(&self.history),
            Some(error) => {
                self.commits.clear();
                Err(ReleaseError::Object(error))
            }
        }
    }
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

/// The newest changes, by service and environment.
#[derive(Default)]
pub(crate) struct Newest(HashMap<String, Vec<Entry>>);

impl Newest {
    /// The newest change of each wanted service and environment.
    pub(crate) fn of<'h>(history: &'h History, mut is_wanted: impl FnMut(&str, &str) -> bool + 'h) -> Self {
        let mut seen: HashMap<&str, Vec<&str>> = HashMap::new();
        let entries = history.entries(move |key| {
            let seen = seen.entry(key.service).or_default();
            let is_newest = !seen.contains(&key.environment);
            if is_newest {
                seen.push(key.environment);
            }
            is_newest && is_wanted(key.service, key.environment)
        });
        let mut newest = Self::default();
        for entry in entries {
            match newest.0.get_mut(&entry.service) {
                Some(known) => known.push(entry),
                None => {
                    newest.0.insert(entry.service.clone(), vec![entry]);
                }
            }
        }
        newest
    }

    /// The change that brought the versions of a service to an environment.
    pub(crate) fn get(&self, service: &str, environment: &str) -> Option<&Entry> {
        let mut entries = self.service(service).iter();
        entries.find(|entry| entry.environment == environment)
    }

    /// The changes of a service, newest first.
    pub(crate) fn service(&self, service: &str) -> &[Entry] {
        self.0.get(service).map(Vec::as_slice).unwrap_or_default()
    }
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
