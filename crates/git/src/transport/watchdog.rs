//! Deadlines: each runs an action, unless it is dropped before.
//!
//! One thread serves all sessions. A thread for each would wait for a processor first, if all are busy.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// The thread ends after this time without deadlines, or sooner.
const IDLE: Duration = Duration::from_secs(60);

/// Clones share the thread.
#[derive(Clone, Default)]
pub(crate) struct Watchdog(Arc<Watched>);

#[derive(Default)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    actions: BTreeMap<Place, Box<dyn FnOnce() + Send>>,
    number: u64,
    has_thread: bool,
}

/// The time, and a number.
type Place = (Instant, u64);

pub(super) struct Deadline {
    watched: Arc<Watched>,
    place: Place,
}

impl Watchdog {
    /// Starts the thread, with the priority of the present one.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn begin(&self) -> io::Result<()> {
        self.begin_in(&mut self.0.state())
    }

    fn begin_in(&self, state: &mut State) -> io::Result<()> {
        if !state.has_thread {
            let watched = Arc::clone(&self.0);
            let builder = thread::Builder::new().name("git-watchdog".to_owned());
            builder.spawn(move || watched.run())?;
            state.has_thread = true;
        }
        Ok(())
    }

    /// # Errors
    /// The thread cannot be started.
    pub(super) fn watch(&self, at: Instant, fire: impl FnOnce() + Send + 'static) -> io::Result<Deadline> {
        let mut state = self.0.state();
        self.begin_in(&mut state)?;
        state.number += 1;
        let place = (at, state.number);
        state.actions.insert(place, Box::new(fire));
        if state
            .actions
            .first_key_value()
            .is_some_and(|(first, _)| *first == place)
        {
            self.0.changed.notify_one();
        }
        Ok(Deadline {
            watched: Arc::clone(&self.0),
            place,
        })
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let action = self.watched.state().actions.remove(&self.place);
        // not while the state is locked
        drop(action);
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            let next = state.actions.first_key_value().map(|((at, _), _)| *at);
            let wait = next.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            if wait.is_zero() {
                let action = state.actions.pop_first();
                drop(state);
                if let Some((_, fire)) = action {
                    // a panic must not end the deadlines of others; its hook has printed it
                    catch_unwind(AssertUnwindSafe(fire)).ok();
                }
                state = self.state();
                continue;
            }
            let (woken, waited) = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && state.actions.is_empty() {
                state.has_thread = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn deadlines_fire_in_their_order_unless_they_are_dropped() {
        let watchdog = Watchdog::default();
        let (fired, fires) = mpsc::channel();
        let now = Instant::now();
        let watch = |number: u64, after: u64| {
            let fired = fired.clone();
            let at = now + Duration::from_millis(after);
            watchdog
                .watch(at, move || fired.send((number, Instant::now())).unwrap())
                .unwrap()
        };
        let _last = watch(3, 60);
        let _first = watch(1, 20);
        drop(watch(9, 30));
        let _second = watch(2, 40);
        let far = watch(9, 3_600_000);
        for (number, after) in [(1, 20), (2, 40), (3, 60)] {
            let (fired, at) = fires.recv().unwrap();
            assert_eq!(fired, number);
            assert!(at >= now + Duration::from_millis(after));
        }
        drop(far);
        let _broken = watchdog.watch(now, || panic!("a session is broken")).unwrap();
        let _past = watch(4, 0);
        assert_eq!(fires.recv().unwrap().0, 4);
        assert!(fires.try_recv().is_err());
    }
}
