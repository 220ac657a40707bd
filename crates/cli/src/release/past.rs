//! The history of a repository, read along first parents.

use super::repository::{Repository, tree_of};
use super::snapshot::{Fault, Snapshot};
use super::{ReleaseError, text};
use equate_git::{Commit, Past as Ancestor};
use equate_release::config::{Config, Place};
use equate_release::fleet::Fleet;
use equate_release::history::{self, Entry, Step};
use jiff::Timestamp;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::rc::Rc;

/// The most commits that are read.
const COMMITS_MAX: usize = 100_000;

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
        places.extend(fleet.units.iter().map(|unit| unit.place.clone()));
    }
    places.into_iter().collect()
}

/// Visits the changes of versions from the newest to the oldest.
///
/// # Errors
/// An object of the history is missing or damaged. A visit may have seen a wrong change by then.
pub(crate) fn walk(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
    places: &[Place],
    visit: impl FnMut(Entry) -> ControlFlow<()>,
) -> Result<(), ReleaseError> {
    let first = repository.inner.commit(&tip.revision().commit())?;
    let failure = RefCell::default();
    let fault = Fault::default();
    let steps = Steps {
        repository,
        next: Some(first),
        left: COMMITS_MAX,
        is_shallow: repository.inner.is_shallow(),
        failure: &failure,
        fault: Rc::clone(&fault),
    };
    history::walk(config, places, steps, visit);
    let unreadable = fault.take().map(ReleaseError::Object);
    failure.into_inner().or(unreadable).map_or(Ok(()), Err)
}

/// The changes of one service, newest first.
pub(crate) fn of_service(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
    service: &str,
) -> Result<Vec<Entry>, ReleaseError> {
    let fleet = match config.services.pattern().has_service() {
        true => Fleet::default(),
        false => Fleet::build(&tree_of(tip), config),
    };
    let places = places(config, &fleet, &[service]);
    let mut entries = Vec::new();
    walk(repository, tip, config, &places, |entry| {
        if entry.service == service {
            entries.push(entry);
        }
        ControlFlow::Continue(())
    })?;
    Ok(entries)
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
pub(crate) fn newest(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
    places: &[Place],
    mut wanted: BTreeSet<Key>,
) -> Result<BTreeMap<Key, Entry>, ReleaseError> {
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    walk(repository, tip, config, places, |entry| {
        let key = (entry.service.clone(), entry.environment.clone());
        if wanted.remove(&key) {
            found.insert(key, entry);
        }
        match wanted.is_empty() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(found)
}

struct Steps<'r> {
    repository: &'r Repository,
    next: Option<Ancestor>,
    left: usize,
    is_shallow: bool,
    failure: &'r RefCell<Option<ReleaseError>>,
    /// The first object that the trees of the steps could not read.
    fault: Fault,
}

impl Steps<'_> {
    fn step(&mut self, Ancestor { commit, parents }: Ancestor) -> Result<Step, ReleaseError> {
        let parent = parents.first();
        // a shallow clone lacks the parents of its oldest commits; any other missing parent is damage
        let is_cut = |id: &String| self.is_shallow && !self.repository.inner.has(id);
        self.next = match parent.filter(|id| !is_cut(id)) {
            Some(id) => Some(self.repository.inner.commit(id)?),
            None => None,
        };
        let changed = match (&self.next, parents.is_empty()) {
            (Some(parent), _) => commit.tree().changed(parent.commit.tree()),
            (None, true) => commit.tree().entries().map(|entries| {
                let paths = entries.into_iter().map(|entry| entry.path);
                paths.collect()
            }),
            // the clone is shallow
            (None, false) => Ok(Vec::new()),
        };
        Ok(Step {
            tree: Box::new(Snapshot::with_fault(
                commit.tree().clone(),
                Rc::clone(&self.fault),
            )),
            changed: changed.map_err(|source| ReleaseError::Commit {
                id: commit.revision().commit(),
                source,
            })?,
            is_root: parents.is_empty(),
            commit: described(&commit),
        })
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let ancestor = self.next.take()?;
        self.left = self.left.checked_sub(1)?;
        match self.step(ancestor) {
            Ok(step) => Some(step),
            Err(error) => {
                self.failure.replace(Some(error));
                None
            }
        }
    }
}

pub(crate) fn described(commit: &Commit) -> history::Commit {
    let time = Timestamp::try_from(commit.committer().time).unwrap_or(Timestamp::UNIX_EPOCH);
    history::Commit {
        id: commit.revision().commit(),
        time,
        author: commit.author().name.clone(),
        email: commit.author().email.clone(),
        message: commit.message().to_owned(),
    }
}
