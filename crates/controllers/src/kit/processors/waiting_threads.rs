//! The threads of work. They wait for further work: if all processors are busy, a new thread waits for one up to 4 ms
//! with Linux, and a thread that is woken does not.
//!
//! A thread has the priority of the thread that starts it, and most callers are threads with a low one. So a thread of
//! its own starts them.
//!
//! A thread whose priority was lowered waits, too, for work of a tenant that has used more than its share: an attack can
//! make hundreds of pieces of work a second.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use equate_priority::priority;

use super::{SLOW_PRIORITY, Work};

/// The limit of waiting threads with the normal priority, and again of those that were lowered.
const WAITING_MAX: usize = 16;
/// The time until a waiting thread ends.
const WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct WaitingThreads {
    waiting: Waiting,
    starter: Option<Sender<Start>>,
}

/// Clones are the same.
#[derive(Clone, Default)]
struct Waiting {
    all: Arc<Mutex<Vec<WaitingThread>>>,
    /// The `nice` value of threads that were not lowered, if it is known.
    normal: Option<i32>,
}

struct WaitingThread {
    id: ThreadId,
    priority: Priority,
    work: Sender<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Normal,
    /// To this `nice` value.
    Lowered(i32),
}

struct Start {
    work: Work,
    answer: Sender<io::Result<()>>,
}

impl WaitingThreads {
    /// They will have the priority of the present thread.
    pub(super) fn new() -> Self {
        let waiting = Waiting {
            normal: priority(),
            ..Waiting::default()
        };
        let (starter, starts) = channel();
        let own = waiting.clone();
        let builder = thread::Builder::new().name("equate-threads".to_owned());
        let begun = builder.spawn(move || own.start_all(&starts));
        Self {
            waiting,
            starter: begun.is_ok().then_some(starter),
        }
    }

    /// Runs work on a waiting thread, or on a new one. The thread was not lowered further than to `nice`.
    pub(super) fn start(&self, mut work: Work, nice: i32) -> io::Result<()> {
        // the lock is free before the thread wakes
        while let Some(thread) = self.waiting.take(nice) {
            match thread.work.send(work) {
                Ok(()) => return Ok(()),
                Err(unsent) => work = unsent.0,
            }
        }
        let Some(starter) = &self.starter else {
            return self.waiting.start(work);
        };
        let (answer, answered) = channel();
        let gone = || io::Error::other("the thread that starts others has ended");
        starter.send(Start { work, answer }).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }
}

impl Waiting {
    fn start_all(&self, starts: &Receiver<Start>) {
        for Start { work, answer } in starts {
            // who asked waits for the answer
            answer.send(self.start(work)).ok();
        }
    }

    fn start(&self, work: Work) -> io::Result<()> {
        let all = self.clone();
        let thread = thread::Builder::new().name("equate-work".to_owned());
        thread.spawn(move || all.serve(work)).map(drop)
    }

    /// The thread that was lowered most, but not further than to `nice`; of several, the one that waits for the shortest
    /// time.
    fn take(&self, nice: i32) -> Option<WaitingThread> {
        let mut all = self.all();
        let may = |thread: &WaitingThread| thread.priority <= Priority::Lowered(nice);
        let fitting = all.iter().enumerate().filter(|(_, thread)| may(thread));
        let (best, _) = fitting.max_by_key(|(_, thread)| thread.priority)?;
        Some(all.remove(best))
    }

    /// Whether there is room for it.
    fn add(&self, thread: WaitingThread) -> bool {
        let mut all = self.all();
        let is_normal = |thread: &WaitingThread| thread.priority == Priority::Normal;
        let others = all.iter().filter(|other| is_normal(other) == is_normal(&thread));
        let has_room = others.count() < WAITING_MAX;
        if has_room {
            all.push(thread);
        }
        has_room
    }

    fn serve(&self, first: Work) {
        let own = thread::current().id();
        let (sender, further) = channel();
        first();
        while let Some(priority) = may_wait(self.normal, priority()) {
            let thread = WaitingThread {
                id: own,
                priority,
                work: sender.clone(),
            };
            if !self.add(thread) {
                return;
            }
            let work = match further.recv_timeout(WAIT) {
                Ok(work) => work,
                Err(_) => {
                    let mut all = self.all();
                    if let Some(at) = all.iter().position(|thread| thread.id == own) {
                        all.remove(at);
                        return;
                    }
                    drop(all);
                    // somebody has taken this thread, and sends
                    let Ok(work) = further.recv() else { return };
                    work
                }
            };
            work();
        }
    }

    /// Never half done: all calls are total.
    fn all(&self) -> MutexGuard<'_, Vec<WaitingThread>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The priority of a thread that may wait for work, from its `nice` value: slow work is rare, and lasts. Only a privileged
/// process can raise a priority again.
fn may_wait(normal: Option<i32>, now: Option<i32>) -> Option<Priority> {
    let (normal, now) = (normal?, now?);
    match now {
        _ if now == normal => Some(Priority::Normal),
        _ if (normal..SLOW_PRIORITY).contains(&now) => Some(Priority::Lowered(now)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    use equate_priority::lower_this_thread;

    /// Its thread, which waits afterwards if it `goes_on`.
    fn run(
        threads: &WaitingThreads,
        nice: i32,
        goes_on: bool,
        work: impl FnOnce() + Send + 'static,
    ) -> ThreadId {
        let (send, sent) = channel();
        let work = move || {
            work();
            send.send(thread::current().id()).unwrap();
        };
        threads.start(Box::new(work), nice).unwrap();
        let id = sent.recv().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let waits = || threads.waiting.all().iter().any(|thread| thread.id == id);
        while goes_on && !waits() && Instant::now() < until {
            thread::yield_now();
        }
        id
    }

    #[test]
    fn threads_are_used_again_until_their_priority_is_lowered() {
        let threads = WaitingThreads::new();
        let first = run(&threads, 0, true, || {});
        assert_eq!(run(&threads, 10, true, || {}), first);
        if let Some(normal) = priority().filter(|_| cfg!(target_os = "linux")) {
            let low = normal + 2;
            assert_eq!(run(&threads, 0, true, move || lower_this_thread(low)), first);
            let second = run(&threads, normal, true, || {});
            assert_ne!(second, first, "its priority would be too low");
            assert_eq!(run(&threads, low - 1, true, || {}), second, "for the same reason");
            assert_eq!(
                run(&threads, low, true, || {}),
                first,
                "the normal one is left to others"
            );
            assert_eq!(
                run(&threads, low, false, || lower_this_thread(SLOW_PRIORITY)),
                first
            );
            assert_eq!(run(&threads, SLOW_PRIORITY, true, || {}), second);
        }
    }

    #[test]
    fn slow_threads_and_those_without_a_known_priority_do_not_wait() {
        let lowered = |nice| Some(Priority::Lowered(nice));
        for (normal, now, may) in [
            (Some(0), Some(0), Some(Priority::Normal)),
            (Some(0), Some(10), lowered(10)),
            (Some(0), Some(SLOW_PRIORITY), None),
            (Some(5), Some(10), lowered(10)),
            (Some(-5), Some(0), lowered(0)),
            (Some(SLOW_PRIORITY), Some(SLOW_PRIORITY), Some(Priority::Normal)),
            (Some(0), None, None),
            (None, Some(0), None),
        ] {
            assert_eq!(may_wait(normal, now), may, "{normal:?}, {now:?}");
        }
    }

    #[test]
    fn lowered_threads_leave_room_for_normal_ones() {
        let waiting = Waiting::default();
        let add = |priority| {
            let (work, _) = channel();
            let id = thread::current().id();
            waiting.add(WaitingThread { id, priority, work })
        };
        for priority in [Priority::Lowered(10), Priority::Normal] {
            for _ in 0..WAITING_MAX {
                assert!(add(priority));
            }
            assert!(!add(priority));
        }
        assert_eq!(waiting.take(10).unwrap().priority, Priority::Lowered(10));
        assert_eq!(waiting.take(9).unwrap().priority, Priority::Normal);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_do_not_have_the_priority_of_their_caller() {
        let threads = WaitingThreads::new();
        let own = priority();
        let (send, sent) = channel();
        let caller = move || {
            lower_this_thread(11);
            threads.start(Box::new(move || send.send(priority()).unwrap()), 0)
        };
        thread::spawn(caller).join().unwrap().unwrap();
        assert_eq!(sent.recv().unwrap(), own);
    }

    #[test]
    fn work_at_once_has_a_thread_each() {
        let threads = WaitingThreads::new();
        let (begin, begun) = channel();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..4 {
            let (begin, ended) = (begin.clone(), Arc::clone(&ended));
            let work = move || {
                begin.send(thread::current().id()).unwrap();
                ended.lock().unwrap().recv().unwrap_err();
            };
            threads.start(Box::new(work), 0).unwrap();
        }
        let ids: std::collections::HashSet<ThreadId> = begun.iter().take(4).collect();
        assert_eq!(ids.len(), 4);
        drop(end);
    }
}
