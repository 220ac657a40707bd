//! Waiting for a condition, with a deadline and the last observed state.
//!
//! Tests do not sleep: they state the condition, and a failure shows the last state instead.

use std::time::Duration;

use tokio::time::Instant;

/// Probes until `Ok`, with pauses of tokio's clock.
///
/// # Panics
/// When the deadline passes, with the last error of the probe.
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
