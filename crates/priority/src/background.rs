//! Threads with a low priority: they poll what a busy tenant or user begins.
//!
//! They poll in the context of the runtime that begins the work: connections, timers and tasks of a run belong to
//! that runtime, and others may use them. So only the polls themselves wait for a processor.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet, spawn_blocking};

use crate::thread::lower_this_thread;

/// The `nice` value. Builds of several tenants have a lower priority: others may wait for a lock of these threads.
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
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.1.spawn(within(Handle::current(), future))
    }

    /// The same, as one of a set.
    pub fn spawn_in<F>(&self, tasks: &mut JoinSet<F::Output>, future: F) -> AbortHandle
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
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    tokio::spawn(async { spawn_blocking(work).await }).await?
}

/// Polls and drops a future in the context of a runtime, on the threads of another one.
struct Within<F> {
    runtime: Handle,
    future: Option<Pin<Box<F>>>,
}

fn within<F: Future>(runtime: Handle, future: F) -> Within<F> {
    Within {
        runtime,
        future: Some(Box::pin(future)),
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _context = this.runtime.enter();
        let Some(future) = &mut this.future else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            this.future = None;
        }
        polled
    }
}

impl<F> Drop for Within<F> {
    fn drop(&mut self) {
        let _context = self.runtime.enter();
        self.future = None;
    }
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

    /// Reports the runtime that it is dropped in.
    struct Dropped(tokio::sync::mpsc::UnboundedSender<Id>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(Handle::current().id()).unwrap();
        }
    }

    #[tokio::test]
    async fn work_is_dropped_in_the_context_of_its_runtime() {
        let background = Background::start().unwrap();
        let (send, mut dropped) = tokio::sync::mpsc::unbounded_channel();
        let ends = Dropped(send.clone());
        background.spawn(async move { drop(ends) }).await.unwrap();
        assert_eq!(dropped.recv().await, Some(Handle::current().id()));
        let stays = Dropped(send);
        let aborted = background.spawn(async move {
            let _stays = stays;
            std::future::pending::<()>().await;
        });
        aborted.abort();
        assert_eq!(dropped.recv().await, Some(Handle::current().id()));
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
