//! Parallel iteration with deterministic results.
//!
//! Results come in input order, and the error is the first item's that has one. Small inputs start no
//! threads; a thread the system refuses is not needed. The only nondeterminism: which of several objects
//! exhausts a limit of the build.

use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Fewer items than this are not worth a thread's start.
const SHARE_MIN: usize = 128;
/// The minimum for large items.
const LARGE_SHARE_MIN: usize = 2;
/// Chunks per thread, so that none waits long for another.
const PORTIONS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workers(pub(crate) usize);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome<R, E> {
    /// The results of all items, or of those before the first failure.
    pub(crate) done: Vec<R>,
    pub(crate) failed: Option<E>,
}

impl Workers {
    /// Runs `work` on each item. Each worker keeps its own state from `start`.
    pub(crate) fn each<T, S, E>(
        self,
        items: &mut [T],
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &mut T) -> Result<(), E> + Sync,
    ) -> Result<(), E>
    where
        T: Send,
        E: Send,
    {
        self.map(items, start, work).failed.map_or(Ok(()), Err)
    }

    /// [`Self::each`] with results.
    pub(crate) fn map<T, S, R, E>(
        self,
        items: &mut [T],
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &mut T) -> Result<R, E> + Sync,
    ) -> Outcome<R, E>
    where
        T: Send,
        R: Send,
        E: Send,
    {
        self.spread(items, SHARE_MIN, start, work)
    }

    /// [`Self::map`] for items that are each worth a thread.
    pub(crate) fn map_large<T, R, E>(
        self,
        items: &mut [T],
        work: impl Fn(&mut T) -> Result<R, E> + Sync,
    ) -> Outcome<R, E>
    where
        T: Send,
        R: Send,
        E: Send,
    {
        self.spread(items, LARGE_SHARE_MIN, || (), |(), item| work(item))
    }

    fn spread<T, S, R, E>(
        self,
        items: &mut [T],
        share_min: usize,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &mut T) -> Result<R, E> + Sync,
    ) -> Outcome<R, E>
    where
        T: Send,
        R: Send,
        E: Send,
    {
        let threads = self.0.min(items.len() / share_min);
        if threads < 2 {
            return portion(items, &mut start(), &work);
        }
        let portions = items.chunks_mut(items.len().div_ceil(threads * PORTIONS));
        let portions = Mutex::new(portions.enumerate());
        let outcomes = Mutex::new(Vec::new());
        // a function, so that the lock is released while the chunk is processed
        let next = || lock(&portions).next();
        let labour = || {
            let mut state = start();
            while let Some((at, items)) = next() {
                let outcome = portion(items, &mut state, &work);
                if outcome.failed.is_some() {
                    // earlier items are in progress; later ones no longer matter
                    lock(&portions).by_ref().for_each(drop);
                }
                lock(&outcomes).push((at, outcome));
            }
        };
        thread::scope(|scope| {
            let spawn = |_| thread::Builder::new().spawn_scoped(scope, labour).ok();
            let helpers: Vec<_> = (1..threads).filter_map(spawn).collect();
            labour();
            for helper in helpers {
                helper
                    .join()
                    .unwrap_or_else(|payload| panic::resume_unwind(payload));
            }
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_unstable_by_key(|(at, _)| *at);
        let mut whole = Outcome {
            done: Vec::with_capacity(items.len()),
            failed: None,
        };
        for (_, outcome) in outcomes {
            whole.done.extend(outcome.done);
            if outcome.failed.is_some() {
                whole.failed = outcome.failed;
                break;
            }
        }
        whole
    }
}

fn portion<T, S, R, E>(
    items: &mut [T],
    state: &mut S,
    work: &impl Fn(&mut S, &mut T) -> Result<R, E>,
) -> Outcome<R, E> {
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        match work(state, item) {
            Ok(result) => done.push(result),
            Err(error) => {
                let failed = Some(error);
                return Outcome { done, failed };
            }
        }
    }
    Outcome { done, failed: None }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_does_not_depend_on_thread_count() {
        for threads in [0, 1, 2, 3, 16] {
            for count in [
                0,
                1,
                SHARE_MIN - 1,
                SHARE_MIN * 2,
                SHARE_MIN * 4 + 1,
                SHARE_MIN * 40,
            ] {
                for bad in [
                    vec![],
                    vec![0],
                    vec![count / 2, count / 3],
                    vec![count.saturating_sub(1)],
                ] {
                    let mut items: Vec<usize> = (0..count).collect();
                    let outcome = Workers(threads).map(
                        &mut items,
                        || (),
                        |(), item| {
                            let given = *item;
                            *item += 1;
                            if bad.contains(&given) {
                                Err(given)
                            } else {
                                Ok(given * 2)
                            }
                        },
                    );
                    let failed = bad.iter().copied().filter(|bad| *bad < count).min();
                    let done: Vec<usize> = (0..failed.unwrap_or(count)).map(|item| item * 2).collect();
                    assert_eq!(
                        outcome,
                        Outcome { done, failed },
                        "{threads} threads, {count} items"
                    );
                    if failed.is_none() {
                        assert!(items.into_iter().eq(1..=count));
                    }
                }
            }
        }
    }

    #[test]
    fn a_panic_is_passed_on() {
        let mut items = [0_u8; SHARE_MIN * 4];
        let panicked = panic::catch_unwind(move || {
            Workers(2).each(
                &mut items,
                || (),
                |(), _| -> Result<(), ()> { panic!("so it is") },
            )
        });
        assert!(panicked.is_err());
    }
}
