//! The memory of answers that are kept whole until they are read: pages of lists of other clusters, and the objects of
//! incomplete lists, listings of refs, objects of packs while they arrive, lists and signatures of registries, and lists
//! of buckets.
//!
//! An answer of more than [`FREE`] shares [`POOL_MAX`] with all others. When they take more than that, the
//! largest one of the owner that has most ends, unless it is the only one. It may be asked for again.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The bytes of an answer that count for none.
const FREE: u64 = 1 << 20;
/// The bytes that all answers may have beyond that.
const POOL_MAX: u64 = 64 << 20;
/// The longest pause before an answer is asked for again.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The large answers that are kept. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<Large>>);

#[derive(Debug, Default)]
struct Large {
    next: u64,
    answers: HashMap<u64, Answer>,
}

#[derive(Debug)]
struct Answer {
    owner: Arc<str>,
    bytes: u64,
    end: Arc<End>,
}

/// The sign for an answer to end.
#[derive(Debug, Default)]
struct End {
    is_set: AtomicBool,
    set: Notify,
}

/// The memory of one answer, until it is dropped.
#[derive(Debug)]
pub struct HeldAnswer {
    memory: Memory,
    owner: Arc<str>,
    end: Arc<End>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    bytes: u64,
    /// The number among the large ones.
    large: Option<u64>,
}

/// An answer ended, because all answers together need too much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its answer ended, because all answers together need too much memory; it is asked for again later")]
pub struct Displaced;

/// The pauses before an answer is asked for again, longer each time.
#[derive(Debug)]
pub struct RetryPauses {
    first: Duration,
    times: u32,
}

impl RetryPauses {
    /// The first pause is at most this long.
    #[must_use]
    pub fn new(first: Duration) -> RetryPauses {
        RetryPauses { first, times: 0 }
    }

    /// Waits.
    ///
    /// # Errors
    /// The pause would be longer than until the deadline.
    pub async fn pause(&mut self, deadline: Instant) -> Result<(), Displaced> {
        let full = self.first.saturating_mul(1 << self.times.min(16));
        let full = full.min(PAUSE_MAX.max(self.first));
        // half of it is jitter: answers that ended together must not meet again
        let jitter = u32::try_from(RandomState::new().hash_one(self.times) % 1000).unwrap_or_default();
        let pause = full * (1000 + jitter) / 2000;
        if Instant::now() + pause > deadline {
            return Err(Displaced);
        }
        self.times += 1;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Memory {
    /// The memory of one more answer. The owner is a namespace or a host.
    #[must_use]
    pub fn hold(&self, owner: &str) -> HeldAnswer {
        HeldAnswer {
            memory: self.clone(),
            owner: owner.into(),
            end: Arc::default(),
            own: Mutex::default(),
        }
    }

    fn large(&self) -> MutexGuard<'_, Large> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Large {
    /// Makes room: the largest answers end. They count no more, although their threads need a moment.
    fn make_room(&mut self) {
        while self.answers.len() > 1 && self.answers.values().map(|one| one.bytes).sum::<u64>() > POOL_MAX {
            let mut owned: HashMap<&str, u64> = HashMap::new();
            for answer in self.answers.values() {
                *owned.entry(&answer.owner).or_default() += answer.bytes;
            }
            let of_owner = |answer: &Answer| owned.get(&*answer.owner).copied().unwrap_or_default();
            // the number decides between equals: the newer one ends
            let largest = self
                .answers
                .iter()
                .max_by_key(|(number, one)| (of_owner(one), one.bytes, **number));
            let Some(answer) = largest
                .map(|(number, _)| *number)
                .and_then(|number| self.answers.remove(&number))
            else {
                return;
            };
            answer.end.is_set.store(true, Ordering::Release);
            answer.end.set.notify_one();
        }
    }
}

impl HeldAnswer {
    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts more bytes. Returns all bytes since [`Self::clear`].
    ///
    /// # Errors
    /// The answer is to end.
    pub fn add(&self, bytes: u64) -> Result<u64, Displaced> {
        let mut own = self.own();
        own.bytes += bytes;
        if own.bytes > FREE {
            let mut large = self.memory.large();
            // under the lock: an answer that was removed stays away
            if !self.is_over() {
                let number = *own.large.get_or_insert_with(|| {
                    large.next += 1;
                    large.next
                });
                let answer = Answer {
                    owner: Arc::clone(&self.owner),
                    bytes: own.bytes - FREE,
                    end: Arc::clone(&self.end),
                };
                large.answers.insert(number, answer);
                large.make_room();
            }
        }
        match self.is_over() {
            false => Ok(own.bytes),
            true => Err(Displaced),
        }
    }

    /// Nothing of the answer is kept any more.
    pub fn clear(&self) {
        let mut own = self.own();
        own.bytes = 0;
        if let Some(number) = own.large.take() {
            self.memory.large().answers.remove(&number);
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_set.load(Ordering::Acquire)
    }

    /// Waits until the answer is to end.
    pub async fn over(&self) {
        while !self.is_over() {
            self.end.set.notified().await;
        }
    }

    /// Reads an answer, until it is to end.
    ///
    /// # Errors
    /// Those of reading, or the answer is to end.
    pub async fn unless_over<T, E: From<Displaced>>(
        &self,
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            () = self.over() => Err(Displaced.into()),
            read = read => read,
        }
    }
}

impl Drop for HeldAnswer {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Displaced, FREE, HeldAnswer, Memory, PAUSE_MAX, POOL_MAX, RetryPauses};

    const MIB: u64 = 1 << 20;

    /// Answers of this many MiB beyond what is free, one after the other; those that go on.
    #[track_caller]
    fn check(mebibytes: &[u64], want: &[bool]) {
        let memory = Memory::default();
        let all: Vec<HeldAnswer> = mebibytes.iter().map(|_| memory.hold("a")).collect();
        for (held, mebibytes) in all.iter().zip(mebibytes) {
            held.add(FREE + mebibytes * MIB).ok();
        }
        let go_on: Vec<bool> = all.iter().map(|held| held.add(0).is_ok()).collect();
        assert_eq!(go_on, want, "{mebibytes:?}");
    }

    #[test]
    fn the_largest_of_all_answers_ends() {
        let whole = POOL_MAX / MIB;
        check(&[whole, 0, 0], &[true, true, true]);
        check(&[4 * whole], &[true]);
        check(&[4 * whole, 1], &[false, true]);
        check(&[1, 4 * whole], &[true, false]);
        check(&[whole / 2, whole / 2], &[true, true]);
        check(&[whole / 2, whole / 2, 1], &[true, false, true]);
        check(&[whole, whole, whole], &[true, false, false]);
    }

    #[test]
    fn many_answers_of_one_owner_end_before_a_larger_one_of_another() {
        let memory = Memory::default();
        let many: Vec<HeldAnswer> = (0..16).map(|_| memory.hold("many")).collect();
        for held in &many {
            held.add(FREE + POOL_MAX / 16).ok();
        }
        let larger = memory.hold("other");
        let large = FREE + POOL_MAX * 5 / 32;
        assert_eq!(larger.add(large), Ok(large));
        let go_on = many.iter().filter(|held| held.add(0).is_ok()).count();
        assert_eq!(go_on, 13);
    }

    #[test]
    fn memory_that_is_given_back_counts_no_more() {
        let memory = Memory::default();
        let (one, other) = (memory.hold("a"), memory.hold("b"));
        assert_eq!(one.add(POOL_MAX + FREE), Ok(POOL_MAX + FREE));
        one.clear();
        assert_eq!(other.add(POOL_MAX + FREE), Ok(POOL_MAX + FREE));
        assert_eq!(one.add(1), Ok(1));
        drop(other);
        assert_eq!(one.add(POOL_MAX + FREE), Ok(POOL_MAX + FREE + 1));
    }

    #[tokio::test]
    async fn an_ended_answer_is_notified() {
        let memory = Memory::default();
        let (large, small) = (memory.hold("a"), memory.hold("b"));
        large.add(POOL_MAX + FREE).unwrap();
        small.add(FREE + MIB).unwrap();
        large.over().await;
        assert_eq!(large.add(1), Err(Displaced));
        assert_eq!(small.add(1), Ok(FREE + MIB + 1));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_the_deadline() {
        let first = Duration::from_secs(1);
        let mut again = RetryPauses::new(first);
        let begun = Instant::now();
        let mut longest = first;
        for _ in 0..8 {
            let before = Instant::now();
            again.pause(begun + Duration::from_secs(100)).await.unwrap();
            let pause = before.elapsed();
            assert!(
                longest / 2 <= pause && pause <= longest + Duration::from_millis(1),
                "{pause:?}"
            );
            longest = (2 * longest).min(PAUSE_MAX);
        }
        assert_eq!(again.pause(Instant::now()).await, Err(Displaced));
    }
}
