//! Waiting for a level, with a deadline and the last thing that was seen.
//!
//! A test does not sleep and hope: it says what must become true, and when it does not, the
//! failure says what was true instead.

use std::time::Duration;

use tokio::time::Instant;

/// Looks until the probe answers `Ok`; looks again after a moment of tokio's clock.
///
/// # Panics
/// When the deadline passes, with what the probe last said.
pub async fn eventually<T, E, P, F>(what: &str, deadline: Duration, mut probe: P) -> T
where
    E: std::fmt::Display,
    P: FnMut() -> F,
    F: Future<Output = Result<T, E>>,
{
    let end = Instant::now() + deadline;
    loop {
        let seen = match probe().await {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        assert!(
            Instant::now() < end,
            "not within {deadline:?}: {what}; last seen: {seen}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
