//! Threads with a low priority, which poll the runs of busy tenants and the watches of tenants' clusters.
//!
//! They poll in the context of the runtime that begins the work: connections, timers and tasks of a run belong to
//! that runtime, and others may use them. So only the polls themselves wait for a processor.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet, spawn_blocking};

use super::processors::lower_this_thread;

/// The `nice` value. They come before builds of several tenants, so that a lock of theirs is soon free.
const PRIORITY: i32 = 5;

/// As many threads as there are processors. Clones are the same; the last one ends them, without waiting.
#[derive(Clone)]
pub struct Background(Arc<Threads>);

struct Threads(Option<Runtime>, Handle);

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("equate-behind")
            .on_thread_start(|| lower_this_thread(PRIORITY))
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Self(Arc::new(Threads(Some(runtime), handle))))
    }

    /// Runs a future of the present runtime.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.1.spawn(within(Handle::current(), future))
    }

    /// The same, as one of a set.
    pub(crate) fn spawn_in<F>(&self, tasks: &mut JoinSet<F::Output>, future: F) -> AbortHandle
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tasks.spawn_on(within(Handle::current(), future), &self.0.1)
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").finish_non_exhaustive()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs work on the blocking threads of the runtime. A thread that is started for it has the priority of the runtime's
/// threads, also if a background thread asks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::spawn(async { spawn_blocking(work).await }).await?
}

/// Polls a future in the context of a runtime, on the threads of another one.
async fn within<F: Future>(runtime: Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _context = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Id;

    fn thread_name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn polls_are_in_the_background_and_tasks_are_not() {
        let background = Background::start().unwrap();
        let own = Handle::current().id();
        async fn run() -> (Option<String>, Id, (Option<String>, Id)) {
            // the other runtime has no timers
            tokio::time::sleep(Duration::from_millis(1)).await;
            let begun = tokio::spawn(async { (thread_name(), Handle::current().id()) });
            let begun = begun.await.unwrap();
            (thread_name(), Handle::current().id(), begun)
        }
        let mut tasks = JoinSet::new();
        background.spawn_in(&mut tasks, run());
        for (name, id, (begun_by, begun_in)) in [
            tasks.join_next().await.unwrap().unwrap(),
            background.spawn(run()).await.unwrap(),
        ] {
            assert_eq!(name.as_deref(), Some("equate-behind"));
            assert_eq!((id, begun_in), (own, own));
            assert_eq!(begun_by, thread_name());
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn threads_have_a_low_priority() {
        let own = rustix::process::getpriority_process(None).unwrap();
        let background = Background::start().unwrap();
        let theirs = background.spawn(async { rustix::process::getpriority_process(None).unwrap() });
        assert_eq!(theirs.await.unwrap(), own.max(PRIORITY));
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), own);
    }
}
