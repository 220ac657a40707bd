//! The memory of lists, and the pauses before one is asked for again.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Deref;
use std::time::Duration;

use equate_egress::HeldAnswer;
use tokio::time::Instant;

use crate::error::{Error, Problem, Reason};
use crate::remote::Remote;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The entries of a list. Their memory counts until they are dropped.
#[derive(Debug)]
pub struct Entries<T> {
    entries: Vec<T>,
    held: HeldAnswer,
}

impl<T> Entries<T> {
    /// Waits until all answers together need too much memory, and these entries must be dropped.
    pub async fn displaced(&self) {
        self.held.over().await;
    }
}

impl<T> Deref for Entries<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries
    }
}

/// The part of a list that was read.
pub(crate) struct Listed<'a> {
    held: &'a HeldAnswer,
    pub(crate) pages: usize,
    pub(crate) bytes: u64,
    entries: usize,
    text_bytes: usize,
}

impl<'a> Listed<'a> {
    pub(crate) fn new(held: &'a HeldAnswer) -> Self {
        Self {
            held,
            pages: 0,
            bytes: 0,
            entries: 0,
            text_bytes: 0,
        }
    }

    /// Counts the entries of a page: their texts, and the memory of each beside its texts.
    pub(crate) fn count(
        &mut self,
        remote: &Remote,
        of: &str,
        entries: usize,
        text_bytes: usize,
        each: usize,
    ) -> Result<(), Problem> {
        self.entries += entries;
        self.text_bytes += text_bytes;
        let limits = remote.limits();
        let excess = match () {
            () if self.entries > limits.entries_max => format!("{} {of}", limits.entries_max),
            () if self.text_bytes > limits.text_bytes_max => {
                format!("{} bytes of {of}", limits.text_bytes_max)
            }
            () => return hold(self.held, text_bytes + entries * each),
        };
        Err(Problem::new(
            Reason::TooLarge,
            format!("it has more than {excess}"),
        ))
    }
}

impl Remote {
    /// Waits before a list is asked for again that was [`displaced`](Entries::displaced), longer each time.
    ///
    /// # Errors
    /// The time limit ends before.
    pub async fn pause_displaced(&self, times: &mut u32) -> Result<(), Error> {
        let waited = self.pause(displaced(), times).await;
        self.told("list the tags of", &self.repository().to_string(), waited)
    }

    async fn pause(&self, problem: Problem, times: &mut u32) -> Result<(), Problem> {
        let pause = pause(self.limits().displaced_pause, *times);
        if problem.reason != Reason::Displaced || Instant::now() + pause > self.deadline() {
            return Err(problem);
        }
        *times += 1;
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The entries of a list; `None` if it is asked for again.
    pub(crate) async fn listed<T>(
        &self,
        held: HeldAnswer,
        done: Result<Vec<T>, Problem>,
        times: &mut u32,
    ) -> Option<Result<Entries<T>, Problem>> {
        match done {
            Ok(entries) => Some(Ok(Entries { entries, held })),
            Err(problem) => {
                drop(held);
                self.pause(problem, times).await.err().map(Err)
            }
        }
    }
}

/// Half of it is jitter: lists that ended together must not meet again.
fn pause(first: Duration, times: u32) -> Duration {
    let full = first.saturating_mul(1 << times.min(16)).min(PAUSE_MAX.max(first));
    let jitter = u32::try_from(RandomState::new().hash_one(times) % 1000).unwrap_or_default();
    full * (1000 + jitter) / 2000
}

/// Reads until all answers together need too much memory.
pub(crate) async fn unless_displaced<T>(
    held: &HeldAnswer,
    read: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    tokio::select! {
        biased;
        () = held.over() => Err(displaced()),
        read = read => read,
    }
}

/// Counts bytes of an answer.
pub(crate) fn hold(held: &HeldAnswer, bytes: usize) -> Result<(), Problem> {
    held.add(bytes as u64).map(drop).ok_or_else(displaced)
}

fn displaced() -> Problem {
    let text =
        "its list ended, because all answers together need too much memory; it is asked for again later";
    Problem::new(Reason::Displaced, text)
}
