//! The trees of many commits, read and built on all processors, and handed on in their order.
//!
//! A chunk of commits is read from its newest to its oldest: git stores an older tree as its difference from a newer
//! one, which is known then.

use super::ReleaseError;
use super::snapshot::{Fault, Shared, Snapshot};
use equate_git::{Tree, TreeError};
use equate_release::config::Config;
use equate_release::history::{Builder, Built};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The commits that are read at once. A thread keeps all their directories.
const CHUNK: usize = 128;
/// The chunks that wait for the history, per thread.
const WAITING_MAX: usize = 1;
const THREADS_MAX: usize = 8;
/// Fewer directories are built faster than a thread starts.
const PLACES_MIN: usize = 16;

/// Some commits, from the oldest.
pub(super) struct Chunk {
    /// The parent of the first.
    pub(super) before: Option<Snapshot>,
    /// Their trees, and builds of what they changed. The first commit of all has no builds.
    pub(super) commits: Vec<(Snapshot, Built)>,
}

/// Hands on the trees of commits, which go from the oldest to the newest.
///
/// # Errors
/// An object is missing or damaged, or `take` fails.
pub(super) fn each(
    config: &Config,
    before: Option<&Tree>,
    trees: &[&Tree],
    mut take: impl FnMut(Chunk) -> Result<(), ReleaseError>,
) -> Result<(), ReleaseError> {
    let mut parent = before;
    let mut chunks = Vec::new();
    for trees in trees.chunks(CHUNK) {
        chunks.push((parent, trees));
        parent = trees.last().copied();
    }
    let threads = threads().min(chunks.len());
    if threads <= 1 {
        let mut builder = Builder::new(config);
        for (before, trees) in chunks {
            let chunk = read(before, trees, &mut builder).map_err(ReleaseError::Object)?;
            take(chunk)?;
        }
        return Ok(());
    }
    std::thread::scope(|scope| {
        let chunks = &chunks;
        let receivers: Vec<Receiver<Result<Chunk, TreeError>>> = (0..threads)
            .map(|thread| {
                let (sender, receiver) = sync_channel(WAITING_MAX);
                scope.spawn(move || {
                    let mut builder = Builder::new(config);
                    for (before, trees) in chunks.iter().skip(thread).step_by(threads) {
                        let chunk = read(*before, trees, &mut builder);
                        if sender.send(chunk).is_err() {
                            // the history failed
                            return;
                        }
                    }
                });
                receiver
            })
            .collect();
        for receiver in receivers.iter().cycle().take(chunks.len()) {
            // without a sender, its thread panicked, and so will the scope
            let Ok(chunk) = receiver.recv() else { break };
            take(chunk.map_err(ReleaseError::Object)?)?;
        }
        Ok(())
    })
}

fn read(before: Option<&Tree>, trees: &[&Tree], builder: &mut Builder<'_>) -> Result<Chunk, TreeError> {
    let fault = Fault::default();
    let shared = Arc::new(Shared::default());
    let snapshot = |tree: &Tree| Snapshot::sharing(tree.clone(), fault.clone(), Arc::clone(&shared));
    let before = before.map(snapshot);
    let mut commits: Vec<(Snapshot, Built)> = trees
        .iter()
        .map(|tree| (snapshot(tree), Built::default()))
        .collect();
    for at in (0..commits.len()).rev() {
        let (earlier, later) = commits.split_at_mut(at);
        let parent = earlier.last().map(|(parent, _)| parent).or(before.as_ref());
        if let (Some(parent), Some((tree, built))) = (parent, later.first_mut()) {
            *built = builder.changed(parent, tree);
        }
    }
    match fault.take() {
        // what is built from an object that cannot be read is wrong
        Some(error) => Err(error),
        None => Ok(Chunk { before, commits }),
    }
}

/// Builds all directories of services of a tree.
///
/// # Errors
/// An object is missing or damaged.
pub(super) fn all(config: &Config, tree: &Tree) -> Result<Built, ReleaseError> {
    let fault = Fault::default();
    let snapshot = || Snapshot::sharing(tree.clone(), fault.clone(), Arc::default());
    let environments: Vec<&str> = config.environments().collect();
    let places = config.services.pattern().places(&snapshot(), &environments);
    let share = places.len().div_ceil(threads()).max(PLACES_MIN);
    let built = Mutex::new(Built::default());
    std::thread::scope(|scope| {
        for part in places.chunks(share) {
            let (snapshot, built) = (snapshot(), &built);
            scope.spawn(move || {
                let part = Builder::new(config).all(&snapshot, part.iter().cloned());
                built.lock().unwrap_or_else(PoisonError::into_inner).extend(part);
            });
        }
    });
    match fault.take() {
        Some(error) => Err(ReleaseError::Object(error)),
        None => Ok(built.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(THREADS_MAX)
}
