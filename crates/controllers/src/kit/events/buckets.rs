//! How many new events each object may have.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::Limits;
use crate::kit::tenants::Tenant;

/// The buckets of objects, by tenant. While there are too many, the tenant with the most loses one.
#[derive(Debug)]
pub(super) struct Buckets {
    of: BTreeMap<Tenant, HashMap<String, Bucket>>,
    burst: u32,
    refill: Duration,
    objects_max: usize,
}

/// Tokens for new events; one comes back per refill.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    filled: Instant,
}

impl Buckets {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            of: BTreeMap::new(),
            burst: limits.burst.max(1),
            refill: limits.refill,
            objects_max: limits.remembered.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.of.values().map(HashMap::len).sum()
    }

    /// Takes a token for an event of an object. Returns whether there was one.
    pub(super) fn spend(&mut self, tenant: &Tenant, object: &str, now: Instant) -> bool {
        let known = self.of.get(tenant);
        let is_new = known.is_none_or(|buckets| !buckets.contains_key(object));
        if is_new && !self.make_room(tenant, now) {
            return false;
        }
        let (burst, refill) = (self.burst, self.refill);
        let buckets = self.of.entry(tenant.clone()).or_default();
        let bucket = buckets.entry(object.to_owned()).or_insert(Bucket {
            tokens: burst,
            filled: now,
        });
        bucket.fill(burst, refill, now);
        let Some(left) = bucket.tokens.checked_sub(1) else {
            return false;
        };
        bucket.tokens = left;
        true
    }

    fn make_room(&mut self, tenant: &Tenant, now: Instant) -> bool {
        if self.len() < self.objects_max {
            return true;
        }
        self.sweep(now);
        if self.len() < self.objects_max {
            return true;
        }
        let own = self.of.get(tenant).map_or(0, HashMap::len);
        let largest = self.of.values_mut().max_by_key(|buckets| buckets.len());
        let Some(largest) = largest.filter(|largest| largest.len() > own + 1) else {
            return false;
        };
        let lost = largest.keys().next().cloned();
        lost.is_some_and(|lost| largest.remove(&lost).is_some())
    }

    /// Drops full buckets: each equals no bucket.
    pub(super) fn sweep(&mut self, now: Instant) {
        let (burst, refill) = (self.burst, self.refill);
        self.of.retain(|_, buckets| {
            buckets.retain(|_, bucket| {
                bucket.fill(burst, refill, now);
                bucket.tokens < burst
            });
            buckets.shrink_to(2 * buckets.len());
            !buckets.is_empty()
        });
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.of.values().map(HashMap::capacity).sum()
    }
}

impl Bucket {
    fn fill(&mut self, burst: u32, refill: Duration, now: Instant) {
        let periods = now.duration_since(self.filled).as_nanos() / refill.as_nanos().max(1);
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if self.tokens.saturating_add(periods) >= burst {
            self.tokens = burst;
            self.filled = now;
        } else {
            self.tokens += periods;
            self.filled += refill * periods;
        }
    }
}
