//! The task that feeds events to the controllers and runs their steps.

use super::definitions::Definitions;
use super::expiry::Expiry;
use super::garbage::Garbage;
use super::namespace_defaults::NamespaceDefaults;
use super::namespaces::Namespaces;
use super::own_service::OwnService;
use super::quotas::Quotas;
use super::roles::Roles;
use super::workloads::Workloads;
use super::{Action, Cluster, Controller, Profile, Seen, Step};
use crate::status::ApiError;
use crate::store::Key;
use futures::StreamExt;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::time::{Duration, Instant, sleep_until};

/// Concurrent steps share journal commits.
const STEPS_AT_ONCE: usize = 64;
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// The lost races of an object after which a conflict is as good as a refusal: a webhook may answer with one.
const RACES_MAX: u32 = 100;

/// Runs the controllers of a profile until dropped. `root_ca` is the PEM text for namespaces.
///
/// CRDs, expiry of Events and the Service `kubernetes` are part of the API itself upstream, and so in every profile.
pub(crate) fn start<C: Cluster>(
    cluster: Arc<C>,
    profile: &Profile,
    root_ca: &str,
) -> impl Future<Output = ()> + Send + use<C> {
    let mut controllers: Vec<Box<dyn Controller>> = vec![
        Box::new(Definitions::default()),
        Box::new(Expiry::new(profile.event_ttl)),
        Box::new(OwnService::default()),
    ];
    if profile.garbage_collector {
        controllers.push(Box::new(Garbage::default()));
    }
    if profile.namespaces {
        controllers.push(Box::new(Namespaces::new(profile.namespace_delay)));
    }
    if profile.service_accounts {
        controllers.push(Box::new(NamespaceDefaults::service_account()));
    }
    if profile.root_ca {
        controllers.push(Box::new(NamespaceDefaults::root_ca(root_ca)));
    }
    if profile.cluster_roles {
        controllers.push(Box::new(Roles::default()));
    }
    if profile.quotas {
        controllers.push(Box::new(Quotas::default()));
    }
    if let Some(simulation) = &profile.workloads {
        controllers.push(Box::new(Workloads::new(simulation.clone())));
    }
    run(cluster, controllers)
}

/// Failed steps and the times of their retries. Each has its own delay: a permanent refusal must not delay
/// a lost race.
#[derive(Debug, Default)]
struct Retries {
    waiting: HashMap<(usize, Key), Retry>,
}

#[derive(Debug)]
struct Retry {
    delay: Duration,
    races: u32,
    /// `None` during a retry.
    until: Option<Instant>,
}

impl Retries {
    /// Each refusal doubles the delay of its object. A lost race keeps it: the next decision sees the winner.
    fn record(&mut self, failed: Vec<(usize, Key, ApiError)>, at: Instant) {
        for (index, about, error) in failed {
            let retry = self.waiting.entry((index, about)).or_insert(Retry {
                delay: RETRY_FIRST / 2,
                races: 0,
                until: None,
            });
            if retry.until.is_none() {
                let is_race = error.code == 409 && retry.races < RACES_MAX;
                retry.races += u32::from(is_race);
                let delay = if is_race { retry.delay } else { retry.delay * 2 };
                retry.delay = delay.clamp(RETRY_FIRST, RETRY_MAX);
                retry.until = Some(at + retry.delay);
            }
        }
        self.waiting.retain(|_, retry| retry.until.is_some());
    }

    fn take_due(&mut self, at: Instant) -> Vec<(usize, Key)> {
        let mut due = Vec::new();
        for (failure, retry) in &mut self.waiting {
            if retry.until.is_some_and(|until| until <= at) {
                retry.until = None;
                due.push(failure.clone());
            }
        }
        due
    }

    fn due(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|retry| retry.until).min()
    }
}

async fn run<C: Cluster>(cluster: Arc<C>, mut controllers: Vec<Box<dyn Controller>>) {
    let store = cluster.store();
    'resync: loop {
        let snapshot = store.snapshot();
        // Fails only if this very revision was compacted since; then a newer snapshot exists.
        let Ok(mut events) = store.subscribe_all(snapshot.revision()) else {
            tokio::task::yield_now().await;
            continue;
        };
        for controller in &mut controllers {
            controller.resync(&snapshot, Instant::now(), cluster.now());
        }
        drop(snapshot);
        let mut retries = Retries::default();
        loop {
            loop {
                let Ok(batch) = events.take() else {
                    continue 'resync;
                };
                if batch.is_empty() {
                    break;
                }
                observe(&mut controllers, &batch);
            }
            let at = Instant::now();
            for (index, about) in retries.take_due(at) {
                controllers[index].again(about);
            }
            let steps = decide(&*cluster, &mut controllers, at);
            let acted = !steps.is_empty();
            let failed = act(&*cluster, steps).await;
            for (index, about, error) in &failed {
                controllers[*index].refused(about, error);
            }
            retries.record(failed, Instant::now());
            if acted {
                continue;
            }
            let due = controllers
                .iter()
                .filter_map(|c| c.due())
                .chain(retries.due())
                .min();
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = events.next() => match batch {
                    Ok(batch) => observe(&mut controllers, &batch),
                    Err(_) => continue 'resync,
                },
                () = timer => {}
            }
        }
    }
}

fn observe(controllers: &mut [Box<dyn Controller>], events: &[Arc<crate::store::Event>]) {
    let at = Instant::now();
    for event in events {
        for controller in &mut *controllers {
            controller.observe(event, at);
        }
    }
}

struct Planned {
    index: usize,
    controller: &'static str,
    step: Step,
}

fn decide<C: Cluster>(cluster: &C, controllers: &mut [Box<dyn Controller>], at: Instant) -> Vec<Planned> {
    let snapshot = cluster.store().snapshot();
    let seen = Seen {
        snapshot: &snapshot,
        at,
        now: cluster.now(),
        served: &|api_version, kind| cluster.served(&snapshot, api_version, kind),
    };
    let mut planned = Vec::new();
    for (index, controller) in controllers.iter_mut().enumerate() {
        let steps = controller.decide(&seen).into_iter();
        planned.extend(steps.map(|step| Planned {
            index,
            controller: controller.name(),
            step,
        }));
    }
    planned
}

async fn act<C: Cluster>(cluster: &C, planned: Vec<Planned>) -> Vec<(usize, Key, ApiError)> {
    futures::stream::iter(planned)
        .map(|planned| planned.act(cluster))
        .buffer_unordered(STEPS_AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

impl Planned {
    async fn act<C: Cluster>(self, cluster: &C) -> Option<(usize, Key, ApiError)> {
        for action in self.step.actions {
            let Err(error) = cluster.perform(action.clone()).await else {
                continue;
            };
            if is_done(&action, &error) {
                continue;
            }
            let (controller, about) = (self.controller, &self.step.about);
            if is_refusal(&action, &error) {
                tracing::debug!(controller, %about, %error, "the API refused a controller step; it will be retried");
            } else {
                tracing::warn!(controller, %about, %error, "a controller step failed; it will be retried");
            }
            return Some((self.index, self.step.about, error));
        }
        None
    }
}

/// Whether the cause is in the objects of users: a race, a policy, a quota, or a template that makes no valid
/// object. Its owner reports the last.
fn is_refusal(action: &Action, error: &ApiError) -> bool {
    let is_from_template = match action {
        Action::Create { key, .. } => {
            let resource = (key.resource.group(), key.resource.plural());
            matches!(resource, ("", "pods" | "persistentvolumeclaims"))
        }
        Action::Merge { .. }
        | Action::Apply { .. }
        | Action::Bind { .. }
        | Action::Delete { .. }
        | Action::Kill { .. } => false,
    };
    matches!(error.code, 403 | 409) || (is_from_template && (400..500).contains(&error.code))
}

fn is_done(action: &Action, error: &ApiError) -> bool {
    match action {
        Action::Create { .. } => {
            let terminating = error.details.as_ref().is_some_and(|details| {
                details
                    .causes
                    .iter()
                    .any(|cause| cause.reason == "NamespaceTerminating")
            });
            error.code == 404 || error.reason == "AlreadyExists" || terminating
        }
        Action::Merge { .. }
        | Action::Apply { .. }
        | Action::Bind { .. }
        | Action::Delete { .. }
        | Action::Kill { .. } => error.code == 404,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ResourceId;
    use serde_json::Value;

    fn key(plural: &str) -> Key {
        Key::new(&ResourceId::new("", plural), "a", "b")
    }

    #[test]
    fn a_lost_race_delays_no_retry() {
        let check = |codes: &[u16], expected: Duration| {
            let (mut retries, mut at) = (Retries::default(), Instant::now());
            for code in codes {
                let error = ApiError::new(*code, "", String::new(), None);
                retries.record(vec![(0, key("pods"), error)], at);
                at = retries.due().unwrap();
                assert_eq!(retries.take_due(at).len(), 1);
            }
            let last = retries.waiting.values().next().unwrap().delay;
            assert_eq!(last, expected, "{codes:?}");
        };
        check(&[409; 20], RETRY_FIRST);
        check(&[422; 3], RETRY_FIRST * 4);
        check(&[422, 422, 409, 409], RETRY_FIRST * 2);
        // Such a conflict is no race.
        check(&[409; 150], RETRY_MAX);
    }

    #[test]
    fn refusals_of_users_objects_are_no_faults() {
        let key = key("pods");
        let create = |plural: &str| Action::Create {
            key: self::key(plural),
            object: Value::Null,
            manager: "m",
        };
        let (create, event) = (create("pods"), create("events"));
        let merge = Action::Merge {
            key,
            endpoint: "status",
            patch: Value::Null,
            manager: "m",
        };
        let check = |action: &Action, code: u16, expected: bool| {
            let error = ApiError::new(code, "", String::new(), None);
            assert_eq!(is_refusal(action, &error), expected, "{action:?} {code}");
        };
        for code in [403, 409, 422] {
            check(&create, code, true);
        }
        // The controller made the object or the patch.
        for action in [&event, &merge] {
            check(action, 403, true);
            check(action, 409, true);
            check(action, 422, false);
        }
        for action in [&create, &event, &merge] {
            check(action, 500, false);
            check(action, 507, false);
        }
    }
}
