//! Selects a version among all of a host. A tenant names the range and the pattern, and its host the versions: each of
//! 100,000 may take milliseconds. So it takes turns on the processors, up to the time limit.

use std::sync::Arc;

use equate_registry::{Error, Remote};
use tokio::time::Instant;

use crate::kit::processors::{JobError, Processors};
use crate::kit::queue::without_worker;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;

/// Why no version is selected.
#[derive(Debug)]
pub(crate) enum Unselected {
    /// The tags cannot be listed.
    Tags(Error),
    /// The selection did not end.
    Selection(String),
}

/// Runs `select` with the tags of a repository. Displaced tags are listed again.
pub(crate) async fn among_tags<T: Send + 'static>(
    processors: &Processors,
    remote: &Remote,
    namespace: &str,
    limit: TimeLimit,
    select: impl Fn(&[String], &dyn Fn() -> bool) -> T + Clone + Send + 'static,
) -> Result<T, Unselected> {
    let mut again = remote.again();
    loop {
        let listing = async { (remote.tags().await, Instant::now()) };
        let (tags, listed_at) = without_worker(listing).await;
        let tags = Arc::new(tags.map_err(Unselected::Tags)?);
        let (own, select) = (Arc::clone(&tags), select.clone());
        let selecting = selected(processors, namespace, limit, move |go_on| select(&own, go_on));
        let done = tokio::select! {
            biased;
            () = tags.displaced() => None,
            done = selecting => Some(done),
        };
        drop(tags);
        // it may have waited for others
        remote.extend(listed_at.elapsed());
        match done {
            Some(done) => return done.map_err(Unselected::Selection),
            None => without_worker(remote.pause_displaced(&mut again))
                .await
                .map_err(Unselected::Tags)?,
        }
    }
}

/// Runs `select`, which asks before each version whether it goes on; if not, nobody waits for its result.
async fn selected<T: Send + 'static>(
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
        JobError::NoThread => chain(&error),
        JobError::Panicked(_) | JobError::Displaced => "internal error; see the controller's log".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use equate_egress::Egress;
    use equate_registry::{Access, Limits, Registries, Repository};
    use equate_testkit::registry::{RegistryFault, RegistryServer};
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

    #[tokio::test]
    async fn tags_that_wait_for_a_selection_take_memory_and_are_listed_again() {
        let server = RegistryServer::open().unwrap();
        for number in 0..300 {
            server.artifact("app", &format!("{number:0>128}"), &[], &[]);
        }
        // a first list of 3 MiB
        server.fault(RegistryFault::EndlessTags, 60);
        let (egress, minute) = (Egress::default(), Duration::from_secs(60));
        let limits = Limits {
            displaced_pause: Duration::from_millis(1),
            ..Limits::default()
        };
        let repository = Repository::parse(&format!("{}/app", server.authority())).unwrap();
        let registries = Registries::new(egress.clone(), limits);
        let remote = registries
            .open(repository, Access::new("team-a", minute))
            .unwrap();
        let processors = Processors::of_machine(Tenants::default(), Threads::Runtime(Handle::current()));
        let runs = Arc::new(AtomicUsize::new(0));
        let own_runs = Arc::clone(&runs);
        let select = move |tags: &[String], go_on: &dyn Fn() -> bool| {
            if own_runs.fetch_add(1, Ordering::Relaxed) == 0 {
                let others: Vec<_> = (0..320).map(|_| egress.memory().hold("team-a")).collect();
                for held in &others {
                    held.add((1 << 20) + (200 << 10)).ok();
                }
                while go_on() {}
            }
            tags.len()
        };
        let limit = TimeLimit::of(minute, Duration::MAX);
        let selected = among_tags(&processors, &remote, "team-a", limit, select).await;
        assert_eq!((selected.unwrap(), runs.load(Ordering::Relaxed)), (300, 2));
    }
}
