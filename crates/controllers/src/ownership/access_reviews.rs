//! The API server's answers to access reviews: which owner may write which object. Controllers ask.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::id::ObjectId;
use tokio::time::Instant;

use crate::ObjectRef;

/// An answer is fresh for this long. A refusal counts for twice as long while it is reviewed again.
const HOLDS: Duration = Duration::from_secs(30);
/// Fewer answers are not worth a sweep.
const SWEEP_MIN: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Review {
    pub(crate) allowed: bool,
    pub(crate) at: Instant,
}

impl Review {
    fn is_fresh(self, now: Instant) -> bool {
        now < self.at + HOLDS
    }

    /// Nothing reports newly granted rights, so an old refusal does not count.
    fn denies(self) -> bool {
        !self.allowed && !self.is_over(Instant::now())
    }

    fn is_over(self, now: Instant) -> bool {
        now >= self.at + 2 * HOLDS
    }
}

/// Group, kind and namespace.
type Within = (Arc<str>, Arc<str>, Arc<str>);

/// The answers of the API server.
#[derive(Debug, Default)]
pub struct AccessReviews {
    objects: HashMap<ObjectRef, Answers<ObjectId>>,
    within: HashMap<ObjectRef, Answers<Within>>,
}

#[derive(Debug)]
struct Answers<K> {
    reviews: HashMap<K, Review>,
    /// Old answers are dropped from this number on, or after this time.
    sweep_at: usize,
    sweep_after: Option<Instant>,
}

impl<K> Default for Answers<K> {
    fn default() -> Self {
        Self {
            reviews: HashMap::new(),
            sweep_at: 0,
            sweep_after: None,
        }
    }
}

impl<K: Eq + Hash> Answers<K> {
    fn record(&mut self, about: K, review: Review) {
        let is_late = self.sweep_after.is_none_or(|after| after <= review.at);
        if is_late || self.reviews.len() >= self.sweep_at {
            self.reviews.retain(|_, old| !old.is_over(review.at));
            self.reviews.shrink_to(2 * self.reviews.len());
            self.sweep_at = SWEEP_MIN.max(2 * self.reviews.len());
            self.sweep_after = Some(review.at + 2 * HOLDS);
        }
        self.reviews.insert(about, review);
    }
}

pub(crate) fn within(id: &ObjectId) -> Within {
    (
        Arc::clone(&id.group),
        Arc::clone(&id.kind),
        Arc::clone(&id.namespace),
    )
}

impl AccessReviews {
    /// Whether an owner may write an object. Without an answer, it may.
    pub fn allow(&self, key: &ObjectRef, id: &ObjectId) -> bool {
        let review = self.objects.get(key).and_then(|all| all.reviews.get(id));
        review.is_none_or(|review| !review.denies())
    }

    /// Whether an owner may write objects of this kind in this namespace. Without an answer, it may.
    pub fn allow_within(&self, key: &ObjectRef, id: &ObjectId) -> bool {
        let review = self.within.get(key).and_then(|all| all.reviews.get(&within(id)));
        review.is_none_or(|review| !review.denies())
    }

    /// Forgets the answers about an owner that is gone or impersonates another user now.
    pub fn forget(&mut self, key: &ObjectRef) {
        self.objects.remove(key);
        self.within.remove(key);
    }

    pub(crate) fn is_known(&self, key: &ObjectRef, id: &ObjectId, now: Instant) -> bool {
        let review = self.objects.get(key).and_then(|all| all.reviews.get(id));
        review.is_some_and(|review| review.is_fresh(now))
    }

    pub(crate) fn is_known_within(&self, key: &ObjectRef, id: &ObjectId, now: Instant) -> bool {
        let review = self.within.get(key).and_then(|all| all.reviews.get(&within(id)));
        review.is_some_and(|review| review.is_fresh(now))
    }

    pub(crate) fn record(&mut self, key: ObjectRef, id: ObjectId, review: Review) {
        self.objects.entry(key).or_default().record(id, review);
    }

    pub(crate) fn record_within(&mut self, key: ObjectRef, id: &ObjectId, review: Review) {
        self.within.entry(key).or_default().record(within(id), review);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_answers_are_dropped() {
        let mut answers = Answers::default();
        let mut most = 0;
        for about in 0..10_000 {
            let review = Review {
                allowed: false,
                at: Instant::now(),
            };
            answers.record(about, review);
            most = most.max(answers.reviews.len());
            tokio::time::advance(HOLDS / 50).await;
        }
        // 100 are not over
        assert!((100..=201).contains(&most), "{most}");
        tokio::time::advance(HOLDS * 3).await;
        let at = Instant::now();
        answers.record(10_000, Review { allowed: false, at });
        assert_eq!(answers.reviews.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_expires() {
        let key = ObjectRef::new("Kustomization", "team", "apps");
        let id = ObjectId::new("", "ConfigMap", "team", "db");
        let mut reviews = AccessReviews::default();
        let review = |allowed| Review {
            allowed,
            at: Instant::now(),
        };
        assert!(reviews.allow(&key, &id) && reviews.allow_within(&key, &id));
        reviews.record(key.clone(), id.clone(), review(false));
        reviews.record_within(key.clone(), &id, review(false));
        assert!(!reviews.allow(&key, &id) && !reviews.allow_within(&key, &id));
        // no longer fresh, but it counts until there is a new answer
        tokio::time::advance(HOLDS).await;
        assert!(!reviews.is_known(&key, &id, Instant::now()));
        assert!(!reviews.is_known_within(&key, &id, Instant::now()));
        assert!(!reviews.allow(&key, &id) && !reviews.allow_within(&key, &id));
        tokio::time::advance(HOLDS).await;
        assert!(reviews.allow(&key, &id) && reviews.allow_within(&key, &id));
        reviews.record_within(key.clone(), &id, review(true));
        tokio::time::advance(HOLDS * 3).await;
        assert!(reviews.allow_within(&key, &id));
    }
}
