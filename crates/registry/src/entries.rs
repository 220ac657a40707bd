//! The memory of lists, and the pauses before one is asked for again.

use std::ops::Deref;

use equate_egress::{Displaced, HeldAnswer, RetryPauses};

use crate::error::{Error, Problem, Reason};
use crate::remote::Remote;

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
            () => return Ok(self.held.add((text_bytes + entries * each) as u64).map(drop)?),
        };
        Err(Problem::new(
            Reason::TooLarge,
            format!("it has more than {excess}"),
        ))
    }
}

impl Remote {
    /// The pauses before a list is asked for again that was [`displaced`](Entries::displaced).
    #[must_use]
    pub fn again(&self) -> RetryPauses {
        RetryPauses::new(self.limits().displaced_pause)
    }

    /// Waits before a list is asked for again that was [`displaced`](Entries::displaced).
    ///
    /// # Errors
    /// The time limit ends before.
    pub async fn pause_displaced(&self, again: &mut RetryPauses) -> Result<(), Error> {
        let waited = self.pause(Displaced.into(), again).await;
        self.told("list the tags of", &self.repository().to_string(), waited)
    }

    async fn pause(&self, problem: Problem, again: &mut RetryPauses) -> Result<(), Problem> {
        if problem.reason != Reason::Displaced || again.pause(self.deadline()).await.is_err() {
            return Err(problem);
        }
        Ok(())
    }

    /// The entries of a list; `None` if it is asked for again.
    pub(crate) async fn listed<T>(
        &self,
        held: HeldAnswer,
        done: Result<Vec<T>, Problem>,
        again: &mut RetryPauses,
    ) -> Option<Result<Entries<T>, Problem>> {
        match done {
            Ok(entries) => Some(Ok(Entries { entries, held })),
            Err(problem) => {
                drop(held);
                self.pause(problem, again).await.err().map(Err)
            }
        }
    }
}
