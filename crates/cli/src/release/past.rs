//! The history of a repository, read along first parents.

use super::repository::{Repository, tree_of};
use equate_git::{Commit, Past as Ancestor};
use equate_release::config::{Config, Place};
use equate_release::fleet::Fleet;
use equate_release::history::{self, Entry, Step};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

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
pub(crate) fn walk(
    repository: &Repository,
    tip: &Commit,
    config: &Config,
    places: &[Place],
    visit: impl FnMut(Entry) -> ControlFlow<()>,
) {
    let first = repository.inner.commit(&tip.revision().commit()).ok();
    let steps = Steps {
        repository,
        next: first,
        left: COMMITS_MAX,
    };
    history::walk(config, places, steps, visit);
}

struct Steps<'r> {
    repository: &'r Repository,
    next: Option<Ancestor>,
    left: usize,
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let Ancestor { commit, parents } = self.next.take()?;
        self.left = self.left.checked_sub(1)?;
        let parent = parents.first().filter(|id| self.repository.inner.has(id));
        self.next = parent.and_then(|id| self.repository.inner.commit(id).ok());
        let changed = match (&self.next, parents.is_empty()) {
            (Some(parent), _) => commit.tree().changed(parent.commit.tree()).unwrap_or_default(),
            (None, true) => {
                let entries = commit.tree().entries().unwrap_or_default();
                entries.into_iter().map(|entry| entry.path).collect()
            }
            // the clone is shallow
            (None, false) => Vec::new(),
        };
        Some(Step {
            tree: Box::new(tree_of(&commit)),
            changed,
            is_root: parents.is_empty(),
            commit: described(&commit),
        })
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
