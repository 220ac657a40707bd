//! The history of versions, from commits alone.
//!
//! A commit changes a version if the build of its tree has another one than the build of its first parent's.
//! So commits made by hand count like those of `equate promote`, and merges like the changes they bring. A
//! unit is built again only where a commit changed a path that its last build read.

use crate::artifact::Artifact;
use crate::config::{Config, Place, is_directory};
use crate::fleet::{Unit, is_within};
use equate_kustomize::Tree;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A commit of the branch, without its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// The committer's time.
    pub time: Timestamp,
    /// The author's name.
    pub author: String,
    /// The author's address.
    pub email: String,
    /// Its message.
    pub message: String,
}

impl Commit {
    /// The first line of the message.
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default().trim_end()
    }
}

/// A commit with its tree.
pub struct Step {
    /// The commit.
    pub commit: Commit,
    /// Its tree.
    pub tree: Box<dyn Tree>,
    /// The paths of files that differ from its first parent.
    pub changed: Vec<String>,
    /// Whether it has no parent.
    pub is_root: bool,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}

/// A change of a service's versions in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The commit.
    pub commit: Commit,
    /// The environment.
    pub environment: String,
    /// The service.
    pub service: String,
    /// The versions before; `None` if the service was not there.
    pub before: Option<Artifact>,
    /// The versions after; `None` if the service is gone.
    pub after: Option<Artifact>,
}

/// A time in which an environment had some versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spell {
    /// The environment.
    pub environment: String,
    /// The commit that brought them.
    pub since: Commit,
    /// The commit that took them away.
    pub until: Option<Commit>,
}

/// The times in which environments had the versions of an artifact, newest first. The entries are of one
/// service, newest first.
pub fn spells(entries: &[Entry], artifact: &Artifact) -> Vec<Spell> {
    let mut later: BTreeMap<&str, &Commit> = BTreeMap::new();
    let mut spells = Vec::new();
    for entry in entries {
        let until = later.insert(&entry.environment, &entry.commit);
        if entry
            .after
            .as_ref()
            .is_some_and(|after| after.agrees_with(artifact))
        {
            spells.push(Spell {
                environment: entry.environment.clone(),
                since: entry.commit.clone(),
                until: until.cloned(),
            });
        }
    }
    spells
}

struct Track {
    place: Place,
    unit: Option<Unit>,
    artifacts: BTreeMap<String, Artifact>,
    /// The commit after a part of history that does not build.
    blame: Option<Commit>,
}

impl Track {
    fn begin(tree: &dyn Tree, config: &Config, place: Place) -> Self {
        let mut track = Self {
            place,
            unit: None,
            artifacts: BTreeMap::new(),
            blame: None,
        };
        if is_directory(tree, &track.place.directory) {
            let unit = Unit::build(tree, config, track.place.clone());
            track.artifacts = artifacts(&unit).unwrap_or_default();
            track.unit = Some(unit);
        }
        track
    }

    fn is_affected(&self, changed: &[String]) -> bool {
        match &self.unit {
            Some(unit) => unit.reads_any(changed.iter().map(String::as_str)),
            None => changed.iter().any(|path| is_within(&self.place.directory, path)),
        }
    }

    /// Goes back over a commit; returns the services whose versions it changed.
    fn back(&mut self, config: &Config, commit: &Commit, parent: Option<&dyn Tree>) -> Vec<Entry> {
        let unit = parent
            .filter(|tree| is_directory(*tree, &self.place.directory))
            .map(|tree| Unit::build(tree, config, self.place.clone()));
        let before = match &unit {
            None => BTreeMap::new(),
            Some(unit) => match artifacts(unit) {
                Some(artifacts) => artifacts,
                None => {
                    // nothing is known about this tree: the next one that builds decides
                    self.blame.get_or_insert_with(|| commit.clone());
                    self.unit = Some(unit.clone());
                    return Vec::new();
                }
            },
        };
        let commit = self.blame.take().unwrap_or_else(|| commit.clone());
        let services: BTreeSet<&String> = before.keys().chain(self.artifacts.keys()).collect();
        let changed = services
            .into_iter()
            .filter(|service| before.get(*service) != self.artifacts.get(*service));
        let entries = changed.map(|service| Entry {
            commit: commit.clone(),
            environment: self.place.environment.clone(),
            service: service.clone(),
            before: before.get(service).cloned(),
            after: self.artifacts.get(service).cloned(),
        });
        let entries = entries.collect();
        self.unit = unit;
        self.artifacts = before;
        entries
    }
}

/// The versions by service; services without a version are left out. `None` if the unit does not build.
fn artifacts(unit: &Unit) -> Option<BTreeMap<String, Artifact>> {
    let built = unit.state.as_ref().ok()?;
    let named = built
        .services
        .keys()
        .map(|service| (service.clone(), built.artifact(service)));
    Some(named.filter(|(_, artifact)| !artifact.is_empty()).collect())
}

/// Visits the changes of versions from the newest commit to the oldest.
///
/// `steps` are the commits along first parents. `places` are the directories of interest; those of services
/// that are gone count, too.
pub fn walk(
    config: &Config,
    places: &[Place],
    steps: impl Iterator<Item = Step>,
    mut visit: impl FnMut(Entry) -> ControlFlow<()>,
) {
    let mut steps = steps.peekable();
    let mut tracks: Option<Vec<Track>> = None;
    while let Some(step) = steps.next() {
        let tracks = tracks.get_or_insert_with(|| {
            let tree = &*step.tree;
            let begin = |place| Track::begin(tree, config, place);
            places.iter().cloned().map(begin).collect()
        });
        let parent = steps.peek().map(|step| &*step.tree);
        if parent.is_none() && !step.is_root {
            return;
        }
        for track in tracks.iter_mut() {
            if !track.is_affected(&step.changed) {
                continue;
            }
            for entry in track.back(config, &step.commit, parent) {
                if visit(entry).is_break() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
