//! Selects a version among all of a host. A tenant names the range and the pattern, and its host the versions: each of
//! 100,000 may take milliseconds. So it takes turns on the processors, up to the time limit.

use crate::kit::processors::{JobError, Processors};
use crate::kit::time_limit::TimeLimit;

/// Runs `select`, which asks before each version whether it goes on; if not, nobody waits for its result.
pub(crate) async fn selected<T: Send + 'static>(
    processors: &Processors,
    namespace: &str,
    limit: TimeLimit,
    select: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
) -> Result<T, String> {
    let selected = processors.paced(namespace, limit.time, select).await;
    selected.map_err(|error| match error {
        JobError::Late(_) => format!(
            "selecting a version uses a processor for longer than {limit}; use a simpler pattern, or remove tags"
        ),
        _ => "internal error; see the controller's log".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::runtime::Handle;

    use super::*;
    use crate::kit::processors::Threads;
    use crate::kit::tenants::Tenants;

    #[tokio::test]
    async fn a_selection_without_end_is_stopped() {
        let processors = Processors::of_machine(Tenants::default(), Threads::Runtime(Handle::current()));
        let limit = TimeLimit::of(Duration::from_millis(50), Duration::MAX);
        let (ended, steps) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (own_ended, own_steps) = (Arc::clone(&ended), Arc::clone(&steps));
        let select = move |go_on: &dyn Fn() -> bool| {
            while go_on() {
                own_steps.fetch_add(1, Ordering::Relaxed);
            }
            own_ended.fetch_add(1, Ordering::Relaxed);
        };
        let why = selected(&processors, "team-a", limit, select).await.unwrap_err();
        assert!(why.contains("for longer than 50ms (spec.timeout)"), "{why}");
        while !processors.are_idle() {
            tokio::task::yield_now().await;
        }
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        assert!(steps.load(Ordering::Relaxed) > 1);
    }
}
