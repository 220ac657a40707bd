//! Requests of many callers for one branch, in the order of their arrival.
//!
//! One owner takes everything that waits, and lands it with
//! [`WritableRepository::commit_each_upstream`](super::WritableRepository::commit_each_upstream). Requests that
//! arrive during a push wait, and are the next batch. So the number of pushes depends on the time that a push
//! takes, not on the number of requests, and no request overtakes another.

use tokio::sync::{mpsc, oneshot};

/// The most requests that wait. Later senders wait for room.
const WAITING_MAX: usize = 1_024;
/// The most requests of one batch: the first of them waits for the last.
const BATCH_MAX: usize = 64;

/// Sends requests. Clones send to the same queue.
#[derive(Debug)]
pub struct Requests<R, A>(mpsc::Sender<Waiting<R, A>>);

impl<R, A> Clone for Requests<R, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The answer to a request, later. An error means that the owner ended without one.
pub type Answer<A> = oneshot::Receiver<A>;

/// Receives requests: the end of its owner.
#[derive(Debug)]
pub struct Queue<R, A>(mpsc::Receiver<Waiting<R, A>>);

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Waiting<R, A> {
    /// The request.
    pub request: R,
    answer: oneshot::Sender<A>,
}

/// A queue, and the sender of its requests.
pub fn queue<R, A>() -> (Requests<R, A>, Queue<R, A>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Requests(sender), Queue(receiver))
}

impl<R, A> Requests<R, A> {
    /// Sends a request. `None` if the queue has no owner any more.
    pub async fn send(&self, request: R) -> Option<Answer<A>> {
        let (waiting, answer) = Waiting::new(request);
        self.0.send(waiting).await.ok().map(|()| answer)
    }

    /// [`Requests::send`] for a thread, which must not be one of a runtime's.
    pub fn send_blocking(&self, request: R) -> Option<Answer<A>> {
        let (waiting, answer) = Waiting::new(request);
        self.0.blocking_send(waiting).ok().map(|()| answer)
    }
}

impl<R, A> Queue<R, A> {
    /// All requests that wait, or the next one that comes. Empty when all senders are gone. The thread must not be
    /// one of a runtime's.
    pub fn next_batch(&mut self) -> Vec<Waiting<R, A>> {
        let mut batch = Vec::new();
        self.0.blocking_recv_many(&mut batch, BATCH_MAX);
        batch
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.0.len()
    }
}

impl<R, A> Waiting<R, A> {
    fn new(request: R) -> (Self, Answer<A>) {
        let (answer, receiver) = oneshot::channel();
        (Self { request, answer }, receiver)
    }

    /// Answers. A sender that no longer waits gets nothing.
    pub fn answer(self, answer: A) {
        self.answer.send(answer).ok();
    }
}
