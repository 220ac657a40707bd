//! Discovery: served kinds, their resources and scope.
//!
//! Everything is read once, with the two requests of aggregated discovery. A missing kind is looked up
//! again by its group and version, at most once a second for all callers: kinds appear when their
//! CustomResourceDefinition is established, often one applied just before.

use super::error::ResolveError;
use equate_manifest::object::GroupVersionKind;
use kube::core::discovery::ApiResource;
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::{Client, Error};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

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

#[derive(Debug, Default)]
pub(super) struct Cache {
    /// By group and version. Readers never wait for a request.
    known: RwLock<HashMap<(String, String), Arc<Kinds>>>,
    /// Locked during a request: later callers find its answer.
    asking: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    /// Whether everything was read once.
    all: bool,
    /// The last lookup of a group version.
    last: HashMap<(String, String), Instant>,
    /// The last write of a definition, by group.
    expected: HashMap<String, Instant>,
}

impl Cache {
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
            tokio::time::sleep(EXPECTED_AFTER).await;
        }
    }

    /// Looks up the group version of a kind, unless that was done just now. Returns whether the kind is
    /// expected.
    async fn ask(&self, client: &Client, gvk: &GroupVersionKind) -> Result<bool, ResolveError> {
        let mut asked = self.asking.lock().await;
        if !asked.all {
            self.read_all(client).await?;
            asked.all = true;
        }
        let written = asked.expected.get(&gvk.group);
        let expected = written.is_some_and(|at| at.elapsed() < EXPECTED_FOR);
        let distance = if expected { EXPECTED_AFTER } else { REFRESH_AFTER };
        let key = (gvk.group.clone(), gvk.version.clone());
        let recent = asked.last.get(&key).is_some_and(|at| at.elapsed() < distance);
        // the previous holder of the lock may have found it
        if self.get(gvk).is_none() && !recent {
            let kinds = read_one(client, gvk).await?;
            asked.last.insert(key, Instant::now());
            self.put(&gvk.group, &gvk.version, kinds);
        }
        Ok(expected)
    }

    /// The kind in any served version, preferably the given one; an empty version has no preference.
    pub(super) async fn resolve_any_version(
        &self,
        client: &Client,
        gvk: &GroupVersionKind,
    ) -> Result<Kind, ResolveError> {
        let missing = if gvk.version.is_empty() {
            let mut asked = self.asking.lock().await;
            if !asked.all {
                self.read_all(client).await?;
                asked.all = true;
            }
            ResolveError::NoSuchKind { gvk: gvk.clone() }
        } else {
            match self.resolve(client, gvk).await {
                Err(missing @ ResolveError::NoSuchKind { .. }) => missing,
                other => return other,
            }
        };
        let known = self
            .known
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
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
    pub(super) async fn expect_change(&self, group: &str) {
        let mut asked = self.asking.lock().await;
        asked.expected.insert(group.to_owned(), Instant::now());
    }

    pub(super) fn forget(&self, gvk: &GroupVersionKind) {
        let key = (gvk.group.clone(), gvk.version.clone());
        self.known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(&key);
    }

    fn get(&self, gvk: &GroupVersionKind) -> Option<Kind> {
        let known = self
            .known
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // a lookup by pair needs owned strings; this runs once per object and apply
        let kinds = known.get(&(gvk.group.clone(), gvk.version.clone()))?;
        kinds.get(&gvk.kind).cloned()
    }

    fn put(&self, group: &str, version: &str, kinds: Kinds) {
        self.known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert((group.to_owned(), version.to_owned()), Arc::new(kinds));
    }

    async fn read_all(&self, client: &Client) -> Result<(), ResolveError> {
        let discovery = Discovery::new(client.clone())
            .run_aggregated()
            .await
            .map_err(ResolveError::Unreachable)?;
        for group in discovery.groups() {
            for version in group.versions() {
                let kinds = group
                    .versioned_resources(version)
                    .into_iter()
                    .filter_map(applicable)
                    .collect();
                self.put(group.name(), version, kinds);
            }
        }
        Ok(())
    }
}

fn applicable((resource, capabilities): (ApiResource, ApiCapabilities)) -> Option<(String, Kind)> {
    let kind = Kind {
        namespaced: capabilities.scope == Scope::Namespaced,
        resource,
    };
    let can = capabilities.supports_operation(verbs::GET) || capabilities.supports_operation(verbs::CREATE);
    can.then(|| (kind.resource.kind.clone(), kind))
}

async fn read_one(client: &Client, gvk: &GroupVersionKind) -> Result<Kinds, ResolveError> {
    let answer = if gvk.group.is_empty() {
        client.list_core_api_resources(&gvk.version).await
    } else {
        let group_version = format!("{}/{}", gvk.group, gvk.version);
        client.list_api_group_resources(&group_version).await
    };
    let list = match answer {
        Ok(list) => list,
        Err(Error::Api(status)) if status.code == 404 => return Ok(Kinds::new()),
        Err(error) => return Err(ResolveError::Unreachable(error)),
    };
    let group_version = gvk.group_version();
    let kinds = list
        .resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'));
    Ok(kinds
        .map(|found| {
            let resource = ApiResource {
                group: gvk.group.clone(),
                version: gvk.version.clone(),
                api_version: group_version.to_string(),
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
