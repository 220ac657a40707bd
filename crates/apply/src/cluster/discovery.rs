//! Discovery: served kinds, their resources and scope.
//!
//! Everything is read once, with the two requests of aggregated discovery. A missing kind is looked up
//! again by its group and version, at most once a second for all callers: kinds appear when their
//! CustomResourceDefinition is established, often one applied just before.
//!
//! Callers that need the same answer share one request, which has a deadline. No lock is held during it. The
//! request is part of one caller's task; every caller waits in its own [`Wait`].

use super::error::{DiscoveryError, ResolveError};
use equate_manifest::object::GroupVersionKind;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use kube::core::discovery::ApiResource;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::{Client, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Wraps each wait for an answer or a kind, in the task of the caller.
pub type Wait = Arc<dyn Fn(BoxFuture<'static, ()>) -> BoxFuture<'static, ()> + Send + Sync>;

/// The time limit of a discovery request.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Lookups that are remembered; older ones than [`REFRESH_AFTER`] are dropped beyond.
const LOOKUPS_MAX: usize = 1024;

/// The pause between two lookups of a missing kind's group and version.
const REFRESH_AFTER: Duration = Duration::from_secs(1);

/// The time after the write of a definition during which its kinds are expected. Lookups of a missing
/// kind repeat at this pace: a definition is established before discovery serves its kinds.
const EXPECTED_FOR: Duration = Duration::from_secs(5);
const EXPECTED_AFTER: Duration = Duration::from_millis(50);
/// The longest wait of one caller.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A served kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its API resource.
    pub resource: ApiResource,
    /// Whether it is namespaced.
    pub namespaced: bool,
}

type Kinds = HashMap<String, Kind>;

type Request = BoxFuture<'static, Found>;
type Found = Result<Arc<Vec<(GroupVersion, Kinds)>>, DiscoveryError>;
type GroupVersion = (String, String);

#[derive(Default)]
pub(super) struct Cache {
    wait: Option<Wait>,
    /// By group and version. Readers never wait for a request.
    known: RwLock<HashMap<GroupVersion, Arc<Kinds>>>,
    // held for a map operation
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    /// Whether everything was read once.
    all: bool,
    /// The requests under way. One that all callers left is dropped, with what it holds.
    under_way: HashMap<Lookup, WeakShared<Request>>,
    /// The last lookup of a group version.
    last: HashMap<GroupVersion, Instant>,
    /// The last write of a definition, by group.
    expected: HashMap<String, Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Lookup {
    All,
    One(GroupVersion),
}

impl Asked {
    fn under_way(&self, lookup: &Lookup) -> Option<Shared<Request>> {
        self.under_way.get(lookup).and_then(WeakShared::upgrade)
    }

    fn join(&mut self, client: &Client, lookup: &Lookup) -> Shared<Request> {
        if let Some(request) = self.under_way(lookup) {
            return request;
        }
        let request = read(client.clone(), lookup.clone()).boxed().shared();
        self.under_way.retain(|_, request| request.upgrade().is_some());
        self.under_way
            .extend(request.downgrade().map(|weak| (lookup.clone(), weak)));
        request
    }

    fn bound(&mut self) {
        if self.last.len() > LOOKUPS_MAX {
            self.last.retain(|_, at| at.elapsed() < REFRESH_AFTER);
        }
        if self.expected.len() > LOOKUPS_MAX {
            self.expected.retain(|_, at| at.elapsed() < EXPECTED_FOR);
        }
    }
}

impl Cache {
    pub(super) fn waiting(wait: Wait) -> Self {
        Self {
            wait: Some(wait),
            ..Self::default()
        }
    }

    async fn wait(&self, event: impl Future<Output = ()> + Send + 'static) {
        match &self.wait {
            Some(wait) => wait(event.boxed()).await,
            None => event.await,
        }
    }

    pub(super) async fn resolve(
        &self,
        client: &Client,
        gvk: &GroupVersionKind,
    ) -> Result<Kind, ResolveError> {
        let started = Instant::now();
        loop {
            if let Some(kind) = self.get(gvk) {
                return Ok(kind);
            }
            let expected = self.ask(client, gvk).await?;
            if let Some(kind) = self.get(gvk) {
                return Ok(kind);
            }
            if !expected || started.elapsed() > WAIT_MAX {
                return Err(ResolveError::NoSuchKind { gvk: gvk.clone() });
            }
            self.wait(tokio::time::sleep(EXPECTED_AFTER)).await;
        }
    }

    /// Looks up the group version of a kind, unless that was done just now. Returns whether the kind is
    /// expected.
    async fn ask(&self, client: &Client, gvk: &GroupVersionKind) -> Result<bool, ResolveError> {
        self.ask_all(client).await?;
        let key = (gvk.group.clone(), gvk.version.clone());
        let (expected, recent) = {
            let asked = self.asked();
            let written = asked.expected.get(&gvk.group);
            let expected = written.is_some_and(|at| at.elapsed() < EXPECTED_FOR);
            let distance = if expected { EXPECTED_AFTER } else { REFRESH_AFTER };
            (
                expected,
                asked.last.get(&key).is_some_and(|at| at.elapsed() < distance),
            )
        };
        // the answer to everything may have it
        if self.get(gvk).is_none() && !recent {
            self.look_up(client, Lookup::One(key)).await?;
        }
        Ok(expected)
    }

    async fn ask_all(&self, client: &Client) -> Result<(), ResolveError> {
        if !self.asked().all {
            self.look_up(client, Lookup::All).await?;
        }
        Ok(())
    }

    /// Sends a request, or waits for the one that is under way.
    async fn look_up(&self, client: &Client, lookup: Lookup) -> Result<(), ResolveError> {
        let request = self.asked().join(client, &lookup);
        self.wait(request.clone().map(drop)).await;
        let found = request.clone().await;
        let mut asked = self.asked();
        // the first of those that waited notes the answer
        if asked.under_way(&lookup).is_some_and(|own| own.ptr_eq(&request)) {
            asked.under_way.remove(&lookup);
            if let Ok(found) = &found {
                match lookup {
                    Lookup::All => asked.all = true,
                    Lookup::One(key) => {
                        asked.last.insert(key, Instant::now());
                        asked.bound();
                    }
                }
                self.put(found);
            }
        }
        drop(asked);
        found.map(drop).map_err(ResolveError::Unreachable)
    }

    /// All served API versions and kinds, read now: `apps/v1`, `apps/v1/Deployment`. Sorted.
    pub(super) async fn api_versions(&self, client: &Client) -> Result<Vec<String>, ResolveError> {
        self.look_up(client, Lookup::All).await?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut versions = Vec::new();
        for ((group, version), kinds) in known.iter() {
            let version = match group.as_str() {
                "" => version.clone(),
                group => format!("{group}/{version}"),
            };
            versions.extend(kinds.keys().map(|kind| format!("{version}/{kind}")));
            versions.push(version);
        }
        versions.sort();
        Ok(versions)
    }

    /// The kind in any served version, preferably the given one; an empty version has no preference.
    pub(super) async fn resolve_any_version(
        &self,
        client: &Client,
        gvk: &GroupVersionKind,
    ) -> Result<Kind, ResolveError> {
        let missing = if gvk.version.is_empty() {
            self.ask_all(client).await?;
            ResolveError::NoSuchKind { gvk: gvk.clone() }
        } else {
            match self.resolve(client, gvk).await {
                Err(missing @ ResolveError::NoSuchKind { .. }) => missing,
                other => return other,
            }
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut versions: Vec<_> = known
            .iter()
            .filter(|((group, _), _)| *group == gvk.group)
            .collect();
        versions.sort_by_key(|((_, version), _)| version.as_str());
        versions
            .into_iter()
            .find_map(|(_, kinds)| kinds.get(&gvk.kind).cloned())
            .ok_or(missing)
    }

    /// Expects new kinds of the group: a definition was written.
    pub(super) fn expect_change(&self, group: &str) {
        let mut asked = self.asked();
        asked.expected.insert(group.to_owned(), Instant::now());
        asked.bound();
    }

    pub(super) fn forget(&self, gvk: &GroupVersionKind) {
        let key = (gvk.group.clone(), gvk.version.clone());
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
    }

    fn get(&self, gvk: &GroupVersionKind) -> Option<Kind> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        // a lookup by pair needs owned strings; this runs once per object and apply
        let kinds = known.get(&(gvk.group.clone(), gvk.version.clone()))?;
        kinds.get(&gvk.kind).cloned()
    }

    fn put(&self, found: &[(GroupVersion, Kinds)]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (key, kinds) in found {
            // a group version that is not served takes no memory
            match kinds.is_empty() {
                true => known.remove(key),
                false => known.insert(key.clone(), Arc::new(kinds.clone())),
            };
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(client: Client, lookup: Lookup) -> Found {
    let reading = async {
        match lookup {
            Lookup::All => read_all(&client).await,
            Lookup::One(key) => {
                let kinds = read_one(&client, &key.0, &key.1).await?;
                Ok(vec![(key, kinds)])
            }
        }
    };
    match timeout(ANSWER_MAX, reading).await {
        Ok(found) => found
            .map(Arc::new)
            .map_err(|error| DiscoveryError::Failed(Arc::new(error))),
        Err(_) => Err(DiscoveryError::Late(ANSWER_MAX)),
    }
}

async fn read_all(client: &Client) -> Result<Vec<(GroupVersion, Kinds)>, Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut found = Vec::new();
    for group in discovery.groups() {
        for version in group.versions() {
            let kinds = group
                .versioned_resources(version)
                .into_iter()
                .filter_map(applicable)
                .collect();
            found.push(((group.name().to_owned(), version.to_owned()), kinds));
        }
    }
    Ok(found)
}

fn applicable((resource, capabilities): (ApiResource, ApiCapabilities)) -> Option<(String, Kind)> {
    let kind = Kind {
        namespaced: capabilities.scope == Scope::Namespaced,
        resource,
    };
    let can = capabilities.supports_operation(verbs::GET) || capabilities.supports_operation(verbs::CREATE);
    can.then(|| (kind.resource.kind.clone(), kind))
}

async fn read_one(client: &Client, group: &str, version: &str) -> Result<Kinds, Error> {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    let answer = if group.is_empty() {
        client.list_core_api_resources(version).await
    } else {
        client.list_api_group_resources(&api_version).await
    };
    let list = match answer {
        Ok(list) => list,
        Err(Error::Api(status)) if status.code == 404 => return Ok(Kinds::new()),
        Err(error) => return Err(error),
    };
    let kinds = list
        .resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'));
    Ok(kinds
        .map(|found| {
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.clone(),
                kind: found.kind.clone(),
                plural: found.name,
            };
            let kind = Kind {
                resource,
                namespaced: found.namespaced,
            };
            (found.kind, kind)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;

    /// A cluster that serves no group.
    fn empty() -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (code, body) = match request.uri().path() {
                "/api" => (
                    200,
                    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}"#,
                ),
                "/apis" => (
                    200,
                    r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}"#,
                ),
                _ => (
                    404,
                    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#,
                ),
            };
            let response = Response::builder().status(code);
            response
                .header(
                    "content-type",
                    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                )
                .body(Body::from(body.as_bytes().to_vec()))
        });
        Client::new(service, "default")
    }

    /// Counts the requests that are not dropped.
    fn silent(open: &Arc<()>) -> Client {
        let open = Arc::clone(open);
        let service = tower::service_fn(move |_: Request<Body>| {
            let open = Arc::clone(&open);
            async move {
                std::future::pending::<()>().await;
                drop(open);
                Ok::<_, std::io::Error>(Response::new(Body::empty()))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_all_callers_left_is_dropped() {
        let open = Arc::new(());
        let (cache, client) = (Cache::default(), silent(&open));
        let idle = Arc::strong_count(&open);
        let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
        for _ in 0..3 {
            let left = timeout(Duration::from_secs(1), cache.resolve(&client, &gvk)).await;
            assert!(left.is_err());
            // the buffer of the client drops it in a task of its own
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&open), idle, "a request is still held");
        }
        let answer = cache.resolve(&client, &gvk).await;
        assert!(matches!(answer, Err(ResolveError::Unreachable(_))), "{answer:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn invented_kinds_take_a_bounded_memory() {
        let (cache, client) = (Cache::default(), empty());
        for number in 0..3 * LOOKUPS_MAX {
            let gvk = GroupVersionKind::new(format!("g{number}.example.com"), "v1", "Widget");
            cache.expect_change(&gvk.group);
            let missing = cache.resolve_any_version(&client, &gvk).await.unwrap_err();
            assert!(matches!(missing, ResolveError::NoSuchKind { .. }), "{missing}");
            // older lookups and expectations are dropped
            tokio::time::advance(EXPECTED_FOR / 512).await;
        }
        let known = cache.known.read().unwrap().len();
        let asked = cache.asked();
        let lengths = [
            known,
            asked.under_way.len(),
            asked.last.len(),
            asked.expected.len(),
        ];
        assert!(
            lengths.iter().all(|length| *length <= LOOKUPS_MAX + 1),
            "{lengths:?}"
        );
    }
}
