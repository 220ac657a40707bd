//! `spec.include`: artifacts of other GitRepositories whose files become part of this one's artifact.
//!
//! They are always in its own namespace. A new artifact wakes all sources that include it, so nothing is
//! polled. Cycles are refused: each artifact would become part of the next without end.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use equate_api::meta::Reason;
use equate_api::source::{Artifact, GitRepository, Include};
use equate_source::{Included, Pauses, Stopped};

use super::declared::Declared;
use super::failure::Failure;
use super::{ABOUT, Context};
use crate::Key;
use crate::kit::mirror::{Change, Mirror};
use crate::sources::publisher;

/// The sources that include each source, updated by the changes of all GitRepositories.
#[derive(Debug, Default)]
pub(crate) struct Includers {
    // a few map operations
    all: Mutex<HashMap<Key, BTreeSet<Key>>>,
}

impl Includers {
    /// Records a change. Returns the sources to wake, because an artifact that they include changed.
    pub(crate) fn changed(&self, change: &Change<GitRepository>) -> Vec<Key> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, after) = (included(change, &change.before), included(change, &change.after));
        for gone in before.difference(&after) {
            let empty = all.get_mut(gone).is_some_and(|includers| {
                includers.remove(&change.key);
                includers.is_empty()
            });
            if empty {
                all.remove(gone);
            }
        }
        for new in after.difference(&before) {
            all.entry(new.clone()).or_default().insert(change.key.clone());
        }
        let artifact = |object: &Option<Arc<GitRepository>>| {
            let artifact = object.as_ref()?.status.as_ref()?.artifact.as_ref()?;
            Some((artifact.revision.clone(), artifact.digest.clone()))
        };
        let same = change.before.is_some() == change.after.is_some()
            && artifact(&change.before) == artifact(&change.after)
            // a cycle may have ended
            && before == after;
        match (same, all.get(&change.key)) {
            (false, Some(includers)) => includers.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

fn included(change: &Change<GitRepository>, object: &Option<Arc<GitRepository>>) -> BTreeSet<Key> {
    let include = object.iter().flat_map(|object| &object.spec.include);
    include.map(|include| key(&change.key, include)).collect()
}

fn key(of: &Key, include: &Include) -> Key {
    Key::new(&of.namespace, &include.repository.name)
}

/// The artifacts to include, in the order of `spec.include`.
pub(super) fn artifacts(
    repositories: &Mirror<GitRepository>,
    declared: &Declared,
) -> Result<Vec<Artifact>, Failure> {
    let mut seen = BTreeSet::new();
    for include in &declared.include {
        for path in [&include.from_path, &include.to_path].into_iter().flatten() {
            if path.split('/').any(|name| name == "..") {
                return Err(Failure::path(&include.repository.name, path));
            }
        }
        refuse_cycle(repositories, declared, include, &mut seen)?;
    }
    let artifact = |include: &Include| {
        let name = &include.repository.name;
        let Some(object) = repositories.get(&key(&declared.key, include)) else {
            let message = format!(
                "could not get resource for include '{name}': GitRepository.source.toolkit.fluxcd.io \
                 \"{name}\" not found"
            );
            return Err(Failure::include(Reason::NotFound, message));
        };
        let artifact = object.status.as_ref().and_then(|status| status.artifact.clone());
        artifact.ok_or_else(|| {
            let message = format!("no artifact available for include '{name}'");
            Failure::include(Reason::NoArtifact, message)
        })
    };
    declared.include.iter().map(artifact).collect()
}

/// `seen` has those from which no include leads back.
fn refuse_cycle(
    repositories: &Mirror<GitRepository>,
    declared: &Declared,
    include: &Include,
    seen: &mut BTreeSet<Key>,
) -> Result<(), Failure> {
    let mut left = vec![key(&declared.key, include)];
    while let Some(next) = left.pop() {
        if next == declared.key {
            let name = &include.repository.name;
            let message = format!(
                "include '{name}' leads back to '{}'; remove one of the includes",
                declared.key.name
            );
            return Err(Failure::include(Reason::IncludeCycle, message));
        }
        if !seen.insert(next.clone()) {
            continue;
        }
        let object = repositories.get(&next);
        left.extend(
            object
                .iter()
                .flat_map(|object| &object.spec.include)
                .map(|include| key(&next, include)),
        );
    }
    Ok(())
}

/// The files of the artifacts, with their destinations. Blocks.
pub(super) fn trees(
    cx: &Context,
    declared: &Declared,
    artifacts: &[Artifact],
    pauses: &Pauses<'_>,
) -> Result<Vec<Included>, Failure> {
    let tree = |(include, artifact): (&Include, &Artifact)| {
        let ended = |stopped: Stopped| Failure::copy(stopped.to_string());
        pauses.here().map_err(ended)?;
        let name = &include.repository.name;
        let from = include.from_path.as_deref().unwrap_or_default();
        let to = include
            .to_path
            .as_deref()
            .filter(|path| !path.is_empty())
            .unwrap_or(name);
        let object = cx.repositories.get(&key(&declared.key, include));
        let publisher = object.and_then(|object| publisher(ABOUT.kind, &object.metadata));
        let tree = match publisher {
            Some(publisher) => (cx.storage)
                .tree(&publisher, &artifact.digest, pauses)
                .map_err(|error| Failure::storage(&error))?,
            None => None,
        };
        let tree = tree.ok_or_else(|| {
            Failure::copy(format!(
                "failed to copy '{name}' include from {from:?} to {to:?}: the store has no artifact {} that \
                 GitRepository '{name}' published; reconcile it",
                artifact.digest
            ))
        })?;
        Ok(Included {
            name: name.clone(),
            tree,
            // an absolute path is relative to the artifact's root
            from: from.trim_start_matches('/').to_owned(),
            to: to.trim_start_matches('/').to_owned(),
        })
    };
    declared.include.iter().zip(artifacts).map(tree).collect()
}
