//! The threads of work. They wait for further work: if all processors are busy, a new thread waits for one up to 4 ms
//! with Linux, and a thread that is woken does not.
//!
//! A thread has the priority of the thread that starts it, and most callers are threads with a low one. So a thread of
//! its own starts them.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::{Work, priority};

/// As many wait at most.
const WAITING_MAX: usize = 16;
/// A thread waits for so long.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct WaitingThreads {
    waiting: Waiting,
    starter: Option<Sender<Start>>,
}

/// Clones are the same.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Vec<WaitingThread>>>);

struct WaitingThread {
    id: ThreadId,
    work: Sender<Work>,
}

struct Start {
    work: Work,
    answer: Sender<io::Result<()>>,
}

impl WaitingThreads {
    /// They will have the priority of the present thread.
    pub(super) fn new() -> Self {
        let waiting = Waiting::default();
        let (starter, starts) = channel();
        let own = waiting.clone();
        let builder = thread::Builder::new().name("equate-threads".to_owned());
        let begun = builder.spawn(move || own.start_all(&starts));
        Self {
            waiting,
            starter: begun.is_ok().then_some(starter),
        }
    }

    /// Runs work on a waiting thread, or on a new one.
    pub(super) fn start(&self, mut work: Work) -> io::Result<()> {
        // the lock is free before the thread wakes
        while let Some(thread) = { self.waiting.all().pop() } {
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

    fn serve(&self, first: Work) {
        let (own, normal) = (thread::current().id(), priority());
        let (sender, further) = channel();
        first();
        // only a privileged process can raise a priority again
        while normal.is_some() && priority() == normal {
            {
                let mut all = self.all();
                if all.len() >= WAITING_MAX {
                    return;
                }
                all.push(WaitingThread {
                    id: own,
                    work: sender.clone(),
                });
            }
            let work = match further.recv_timeout(PATIENCE) {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    use crate::kit::processors::lower_this_thread;

    /// Its thread, which waits afterwards if it `goes_on`.
    fn run(threads: &WaitingThreads, goes_on: bool, work: fn()) -> ThreadId {
        let (send, sent) = channel();
        let work = move || {
            work();
            send.send(thread::current().id()).unwrap();
        };
        threads.start(Box::new(work)).unwrap();
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
        let first = run(&threads, true, || {});
        assert_eq!(run(&threads, true, || {}), first);
        if cfg!(target_os = "linux") {
            assert_eq!(run(&threads, false, || lower_this_thread(19)), first);
            let second = run(&threads, true, || {});
            assert_ne!(second, first, "its priority would be too low");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_do_not_have_the_priority_of_their_caller() {
        let threads = WaitingThreads::new();
        let own = priority();
        let (send, sent) = channel();
        let caller = move || {
            lower_this_thread(11);
            threads.start(Box::new(move || send.send(priority()).unwrap()))
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
            threads.start(Box::new(work)).unwrap();
        }
        let ids: std::collections::HashSet<ThreadId> = begun.iter().take(4).collect();
        assert_eq!(ids.len(), 4);
        drop(end);
    }
}
