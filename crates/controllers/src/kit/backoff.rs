//! The delays after failures, and jitter that keeps many keys from retrying together.
//!
//! Jitter is passed in. Tests seed it, so that a run with a paused clock repeats itself to the
//! millisecond.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Exponential backoff between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// For reconciles: Flux's `--min-retry-delay` and `--max-retry-delay`.
    pub const RECONCILE: Backoff = Backoff {
        first: Duration::from_millis(750),
        max: Duration::from_secs(15 * 60),
    };

    /// For watches: the values of client-go's reflector.
    pub const WATCH: Backoff = Backoff {
        first: Duration::from_millis(800),
        max: Duration::from_secs(30),
    };

    /// The delay after this many failures in a row. It doubles each time, minus up to a fifth of jitter,
    /// and is never below the first delay.
    pub fn delay(self, failures: u32, jitter: &Jitter) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.max);
        let shorter = full.mul_f64(0.2 * jitter.fraction());
        full.saturating_sub(shorter).max(self.first.min(self.max))
    }
}

/// A source of jitter; clones share it.
#[derive(Clone)]
pub struct Jitter(Option<Arc<AtomicU64>>);

impl Jitter {
    /// The same sequence for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seed))))
    }

    /// Another sequence in each process.
    pub fn random() -> Self {
        // the standard library's hasher keys are its only source of entropy
        Self::seeded(std::hash::RandomState::new().build_hasher().finish())
    }

    /// No jitter: every fraction is zero.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The next number of the sequence, in `[0, 1)`.
    pub fn fraction(&self) -> f64 {
        let Some(state) = &self.0 else { return 0.0 };
        // SplitMix64: a Weyl sequence, so one atomic addition is the whole state
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut z = state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 32 bits are exact in a double
        f64::from(u32::try_from(z >> 32).unwrap_or(u32::MAX)) / (f64::from(u32::MAX) + 1.0)
    }

    /// An interval, longer or shorter by up to this share (Flux's `--interval-jitter-percentage`).
    pub fn spread(&self, interval: Duration, share: f64) -> Duration {
        if self.0.is_none() {
            return interval;
        }
        interval.mul_f64((1.0 + share.clamp(0.0, 1.0) * (2.0 * self.fraction() - 1.0)).max(0.0))
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Jitter"
        } else {
            "Jitter(none)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(backoff: Backoff, failures: u32, least: f64, most: f64) {
        let jitter = Jitter::seeded(u64::from(failures));
        for _ in 0..200 {
            let delay = backoff.delay(failures, &jitter).as_secs_f64();
            assert!(
                (least..=most).contains(&delay),
                "{failures} failures: {delay} s, not within {least}..={most}"
            );
        }
        let plain = backoff.delay(failures, &Jitter::none()).as_secs_f64();
        assert!(
            (plain - most).abs() < 1e-9,
            "{failures} failures without jitter: {plain} s"
        );
    }

    #[test]
    fn delays_double_up_to_the_bound() {
        check(Backoff::RECONCILE, 0, 0.75, 0.75);
        check(Backoff::RECONCILE, 1, 0.75, 0.75);
        check(Backoff::RECONCILE, 2, 1.2, 1.5);
        check(Backoff::RECONCILE, 5, 9.6, 12.0);
        check(Backoff::RECONCILE, 11, 614.4, 768.0);
        check(Backoff::RECONCILE, 12, 720.0, 900.0);
        check(Backoff::RECONCILE, u32::MAX, 720.0, 900.0);
        let turned = Backoff {
            first: Duration::from_secs(9),
            max: Duration::from_secs(3),
        };
        check(turned, 4, 3.0, 3.0);
    }

    #[test]
    fn the_same_seed_gives_the_same_jitter() {
        let sequence = |seed| {
            let jitter = Jitter::seeded(seed);
            (0..8).map(|_| jitter.fraction().to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
        let mut distinct = sequence(7);
        distinct.dedup();
        assert_eq!(distinct.len(), 8);
    }

    #[test]
    fn an_interval_is_spread_both_ways() {
        let jitter = Jitter::seeded(1);
        let hour = Duration::from_secs(3600);
        let all: Vec<_> = (0..200)
            .map(|_| jitter.spread(hour, 0.05).as_secs_f64())
            .collect();
        assert!(all.iter().all(|s| (3420.0..=3780.0).contains(s)), "{all:?}");
        assert!(
            all.iter().any(|s| *s < 3500.0) && all.iter().any(|s| *s > 3700.0),
            "{all:?}"
        );
        assert_eq!(Jitter::none().spread(hour, 0.05), hour);
    }
}
