//! Time that is used and given back at a constant rate.

use std::time::{Duration, Instant};

/// A limit of time that is used.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The time that may be used at once.
    pub most: Duration,
    /// The time that is given back each second.
    pub per_second: Duration,
    /// The most that counts as used.
    pub debt_max: Duration,
}

/// The time that was used and not yet given back.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsedTime {
    used: Duration,
    at: Option<Instant>,
}

impl UsedTime {
    /// The time that counts as used.
    pub fn used(self, limit: Limit, now: Instant) -> Duration {
        let Some(at) = self.at else { return Duration::ZERO };
        let back = now.saturating_duration_since(at).as_secs_f64() * limit.per_second.as_secs_f64();
        self.used
            .saturating_sub(Duration::try_from_secs_f64(back).unwrap_or(Duration::MAX))
    }

    /// Adds to it.
    pub fn charge(&mut self, limit: Limit, now: Instant, cost: Duration) {
        self.used = self.used(limit, now).saturating_add(cost).min(limit.debt_max);
        self.at = Some(now);
    }

    /// The time until some is left again.
    pub fn wait(self, limit: Limit, now: Instant) -> Duration {
        let excess = self.used(limit, now).saturating_sub(limit.most);
        let wait = excess.as_secs_f64() / limit.per_second.as_secs_f64();
        Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX)
    }

    /// Whether less than the limit is used.
    pub fn is_left(self, limit: Limit, now: Instant) -> bool {
        self.used(limit, now) < limit.most
    }
}
