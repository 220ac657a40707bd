//! Which Kustomizations may write which objects, as far as the API server was asked: its answers, and
//! how long they hold. The questions are asked in `run::access_reviews`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::id::ObjectId;
use tokio::time::Instant;

use crate::Key;

/// How long an answer holds; a refusal that nobody asks about any more counts as long again.
const HOLDS: Duration = Duration::from_secs(30);

/// An answer, and when it was given.
#[derive(Debug, Clone, Copy)]
pub(in crate::kustomization) struct Judged {
    pub(in crate::kustomization) allowed: bool,
    pub(in crate::kustomization) at: Instant,
}

impl Judged {
    fn is_fresh(self, now: Instant) -> bool {
        now < self.at + HOLDS
    }

    /// Rights are granted without a word to anybody here: an old refusal is none.
    fn denies(self) -> bool {
        !self.allowed && !self.is_over(Instant::now())
    }

    fn is_over(self, now: Instant) -> bool {
        now >= self.at + 2 * HOLDS
    }
}

/// Group, kind and namespace.
type Within = (Arc<str>, Arc<str>, Arc<str>);

/// The answers.
#[derive(Debug, Default)]
pub struct Rights {
    objects: HashMap<Key, HashMap<ObjectId, Judged>>,
    within: HashMap<Key, HashMap<Within, Judged>>,
}

pub(in crate::kustomization) fn within(id: &ObjectId) -> Within {
    (
        Arc::clone(&id.group),
        Arc::clone(&id.kind),
        Arc::clone(&id.namespace),
    )
}

impl Rights {
    /// Whether a Kustomization may write an object, as far as is known.
    pub fn allow(&self, key: &Key, id: &ObjectId) -> bool {
        let judged = self.objects.get(key).and_then(|objects| objects.get(id));
        judged.is_none_or(|judged| !judged.denies())
    }

    /// Whether it may write objects of this kind in this namespace, as far as is known.
    pub fn allow_within(&self, key: &Key, id: &ObjectId) -> bool {
        let judged = self.within.get(key).and_then(|all| all.get(&within(id)));
        judged.is_none_or(|judged| !judged.denies())
    }

    /// Forgets the answers about a Kustomization: it is gone, or acts as another by now.
    pub fn forget(&mut self, key: &Key) {
        self.objects.remove(key);
        self.within.remove(key);
    }

    pub(in crate::kustomization) fn is_known(&self, key: &Key, id: &ObjectId, now: Instant) -> bool {
        let judged = self.objects.get(key).and_then(|objects| objects.get(id));
        judged.is_some_and(|judged| judged.is_fresh(now))
    }

    pub(in crate::kustomization) fn is_known_within(&self, key: &Key, id: &ObjectId, now: Instant) -> bool {
        let judged = self.within.get(key).and_then(|all| all.get(&within(id)));
        judged.is_some_and(|judged| judged.is_fresh(now))
    }

    pub(in crate::kustomization) fn judge(&mut self, key: Key, id: ObjectId, judged: Judged) {
        let objects = self.objects.entry(key).or_default();
        // what nobody asks about any more
        objects.retain(|_, old| !old.is_over(judged.at));
        objects.insert(id, judged);
    }

    pub(in crate::kustomization) fn judge_within(&mut self, key: Key, id: &ObjectId, judged: Judged) {
        let all = self.within.entry(key).or_default();
        all.retain(|_, old| !old.is_over(judged.at));
        all.insert(within(id), judged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_for_ever() {
        let key = Key::new("team", "apps");
        let id = ObjectId::new("", "ConfigMap", "team", "db");
        let mut rights = Rights::default();
        let judged = |allowed| Judged {
            allowed,
            at: Instant::now(),
        };
        assert!(rights.allow(&key, &id) && rights.allow_within(&key, &id));
        rights.judge(key.clone(), id.clone(), judged(false));
        rights.judge_within(key.clone(), &id, judged(false));
        assert!(!rights.allow(&key, &id) && !rights.allow_within(&key, &id));
        // asked again, and counted until there is an answer
        tokio::time::advance(HOLDS).await;
        assert!(!rights.is_known(&key, &id, Instant::now()));
        assert!(!rights.is_known_within(&key, &id, Instant::now()));
        assert!(!rights.allow(&key, &id) && !rights.allow_within(&key, &id));
        tokio::time::advance(HOLDS).await;
        assert!(rights.allow(&key, &id) && rights.allow_within(&key, &id));
        rights.judge_within(key.clone(), &id, judged(true));
        tokio::time::advance(HOLDS * 3).await;
        assert!(rights.allow_within(&key, &id));
    }
}
