//! Builds of commits before the history gets to them.
//!
//! A history grows commit by commit, and its time goes into builds, which need nothing but a tree. So any
//! thread can make them ahead. A directory that a history asks for and that was not built ahead is built then.

use super::changes;
use super::growth::{MEMO_MAX, Outcome};
use crate::config::{Config, Place, is_directory};
use equate_kustomize::Tree;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// Builds the directories of services. Each thread has its own.
pub struct Builder<'c> {
    config: &'c Config,
    environments: Vec<&'c str>,
    /// Builds by directory and its id, of directories that read nothing outside.
    memo: HashMap<(String, [u8; 32]), Arc<Outcome>>,
}

/// Builds of one commit's directories.
#[derive(Default)]
pub struct Built(pub(super) HashMap<String, Arc<Outcome>>);

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Built {
    /// Adds builds of other directories of the same commit.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl<'c> Builder<'c> {
    /// A builder of the services of a configuration.
    pub fn new(config: &'c Config) -> Self {
        Self {
            config,
            environments: config.environments().collect(),
            memo: HashMap::new(),
        }
    }

    /// Builds the directories of services in which a commit differs from its parent.
    pub fn changed(&mut self, before: &dyn Tree, after: &dyn Tree) -> Built {
        let pattern = self.config.services.pattern();
        let descend = |directory: &str| pattern.leads_to_place(&self.environments, directory);
        let changed = changes::between(before, after, &descend);
        let places: BTreeSet<Place> = changed
            .iter()
            .filter_map(|path| pattern.place_of(&self.environments, path))
            .collect();
        self.all(after, places)
    }

    /// Builds directories, as far as they are there.
    pub fn all(&mut self, tree: &dyn Tree, places: impl IntoIterator<Item = Place>) -> Built {
        let places = places.into_iter();
        let there = places.filter(|place| is_directory(tree, &place.directory));
        Built(
            there
                .map(|place| (place.directory.clone(), self.build(tree, &place)))
                .collect(),
        )
    }

    fn build(&mut self, tree: &dyn Tree, place: &Place) -> Arc<Outcome> {
        let id = tree.stat(&place.directory).map(|stat| stat.id);
        let key = (place.directory.clone(), id.unwrap_or_default());
        if let Some(known) = self.memo.get(&key) {
            return Arc::clone(known);
        }
        let outcome = Arc::new(Outcome::of(tree, self.config, place));
        if outcome.is_own() {
            if self.memo.len() >= MEMO_MAX {
                self.memo.clear();
            }
            self.memo.insert(key, Arc::clone(&outcome));
        }
        outcome
    }
}
