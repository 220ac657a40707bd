//! The clusters that are reached by a `kubeConfig`.
//!
//! Each kubeconfig is a client, a discovery and a hub of its own, shared by all who have the same one:
//! it is told by its content, so that a changed Secret is another. Where a ConfigMap says whose token
//! opens the cluster, that account is part of what tells it: one tenant's way is never another's.
//! Whoever uses it holds it, and with the last it goes, its watches too. The Secret is read when
//! something says that it is time to (an interval, a request, a change, another try), not at each run,
//! and at no interval where it has the label that has its changes told
//! ([`InputWatcher`](crate::kit::inputs::InputWatcher)).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use equate_api::meta::SecretKeyReference;
use equate_apply::cluster::Cluster;
use equate_apply::owner::OwnerKind;
use equate_apply::rules::OwnerRules;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use sha2::{Digest as _, Sha256};

use super::kube_config_source::KubeConfigSource;
use super::kubeconfig::{self, KubeConfigError};
use super::target::{Access, TargetCluster};
use super::workload_identity::{WorkloadIdentity, WorkloadIdentityError};
use crate::Key;
use crate::kit::feed::Pace;
use crate::kit::read::read;
use crate::kit::watcher::{ObjectWatcher, Wake};
use crate::policy::Policy;

/// Why another cluster is not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteClusterError {
    /// The Secret cannot be read.
    #[error("failed to build kube client: unable to read KubeConfig secret '{secret}' error: {why}")]
    Unread {
        /// Which.
        secret: Key,
        /// The API server's words.
        why: String,
        /// Whether it was busy or away.
        passing: bool,
    },
    /// It has no such key.
    #[error(
        "failed to build kube client: KubeConfig secret '{secret}' does not contain a '{key}' key with a kubeconfig"
    )]
    NoKey {
        /// Which.
        secret: Key,
        /// The key.
        key: String,
    },
    /// The ConfigMap cannot be read.
    #[error("failed to build kube client: failed to get configmap {config_map}: {why}")]
    UnreadMap {
        /// Which.
        config_map: Key,
        /// The API server's words.
        why: String,
        /// Whether it was busy or away.
        passing: bool,
    },
    /// What the ConfigMap says opens nothing.
    #[error("failed to build kube client: KubeConfig configmap '{config_map}': {source}")]
    WorkloadIdentity {
        /// Which.
        config_map: Key,
        /// Why.
        source: WorkloadIdentityError,
    },
    /// What it has there is not used.
    #[error("failed to build kube client: KubeConfig secret '{secret}': {source}")]
    Refused {
        /// Which.
        secret: Key,
        /// Why.
        source: KubeConfigError,
    },
}

impl RemoteClusterError {
    /// Whether the API server was busy or away, so that nothing is known of what it would have said.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            RemoteClusterError::Unread { passing, .. } | RemoteClusterError::UnreadMap { passing, .. } => {
                *passing
            }
            RemoteClusterError::WorkloadIdentity { source, .. } => source.is_passing(),
            RemoteClusterError::NoKey { .. } | RemoteClusterError::Refused { .. } => false,
        }
    }
}

/// What tells a kubeconfig from another.
pub(crate) type ConfigDigest = [u8; 32];

/// Another cluster, for as long as somebody holds it.
pub(crate) struct RemoteCluster {
    target: TargetCluster,
    cluster: Cluster,
    watcher: ObjectWatcher,
    config: ConfigDigest,
}

impl RemoteCluster {
    /// All of it, with the rights of whoever opens it, for owners of a kind.
    pub(crate) fn full(&self, by: &'static OwnerKind) -> Access {
        let access = Access::full(
            self.target.clone(),
            self.cluster.clone(),
            self.watcher.clone(),
            by,
        );
        Access {
            config: Some(self.config),
            ..access
        }
    }
}

impl fmt::Debug for RemoteCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCluster")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// What opens a cluster, as it was read.
#[derive(Debug, Clone)]
pub(crate) struct RemoteHandle {
    opener: KubeConfigSource,
    pub(crate) remote: Arc<RemoteCluster>,
    /// The version that it had.
    pub(crate) version: Option<u64>,
}

impl RemoteHandle {
    /// Whether it was read from there.
    pub(crate) fn is_of(&self, opener: &KubeConfigSource) -> bool {
        self.opener == *opener
    }
}

/// All that are held by somebody.
pub(crate) struct RemoteClusters {
    // a map operation for each Secret that is read; never held across an await
    known: Mutex<HashMap<ConfigDigest, Weak<RemoteCluster>>>,
    pace: Pace,
    terms: Arc<dyn OwnerRules>,
    wake: Arc<dyn Fn(Wake) + Send + Sync>,
}

impl RemoteClusters {
    /// None so far. `wake` is called for everyone whose objects there change.
    pub(crate) fn new(
        pace: Pace,
        terms: Arc<dyn OwnerRules>,
        wake: impl Fn(Wake) + Send + Sync + 'static,
    ) -> Self {
        Self {
            known: Mutex::default(),
            pace,
            terms,
            wake: Arc::new(wake),
        }
    }

    /// The cluster that a Secret or ConfigMap of a namespace opens.
    pub(crate) async fn open(
        &self,
        client: &Client,
        namespace: &str,
        opener: &KubeConfigSource,
        policy: &Policy,
    ) -> Result<RemoteHandle, RemoteClusterError> {
        let credentials = Credentials::read(client, namespace, opener, policy).await?;
        let (config, version) = (credentials.config(), credentials.version);
        let held = |remote| RemoteHandle {
            opener: opener.clone(),
            remote,
            version,
        };
        if let Some(remote) = self.known(&config) {
            return Ok(held(remote));
        }
        let opened = credentials.open(client, policy).await?;
        let wake = Arc::clone(&self.wake);
        let hub = ObjectWatcher::new(
            opened.client.clone(),
            self.pace.clone(),
            Arc::clone(&self.terms),
            move |woken| wake(woken),
        );
        let remote = Arc::new(RemoteCluster {
            target: TargetCluster::Remote(opened.fingerprint),
            cluster: Cluster::new(opened.client),
            watcher: hub,
            config,
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, other| other.strong_count() > 0);
        // another may have been as quick
        if let Some(other) = known.get(&config).and_then(Weak::upgrade) {
            return Ok(held(other));
        }
        known.insert(config, Arc::downgrade(&remote));
        Ok(held(remote))
    }

    fn known(&self, config: &ConfigDigest) -> Option<Arc<RemoteCluster>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(config)?.upgrade()
    }
}

/// The same without watches: for one look.
pub(crate) async fn open_once(
    client: &Client,
    namespace: &str,
    opener: &KubeConfigSource,
    policy: &Policy,
) -> Result<(TargetCluster, Cluster), RemoteClusterError> {
    let credentials = Credentials::read(client, namespace, opener, policy).await?;
    let opened = credentials.open(client, policy).await?;
    Ok((
        TargetCluster::Remote(opened.fingerprint),
        Cluster::new(opened.client),
    ))
}

/// What was read, and not used yet.
struct Credentials {
    from: Key,
    kind: CredentialKind,
    version: Option<u64>,
}

enum CredentialKind {
    Kubeconfig(Vec<u8>),
    WorkloadIdentity(WorkloadIdentity),
}

impl Credentials {
    async fn read(
        client: &Client,
        namespace: &str,
        opener: &KubeConfigSource,
        policy: &Policy,
    ) -> Result<Self, RemoteClusterError> {
        let (_, from) = opener.holder(namespace);
        let (kind, version) = match opener {
            KubeConfigSource::Secret(reference) => {
                let (bytes, version) = read_kubeconfig(client, namespace, reference).await?;
                (CredentialKind::Kubeconfig(bytes), version)
            }
            KubeConfigSource::ConfigMap(_) => {
                let (data, version) = read_map(client, &from).await?;
                let identity = WorkloadIdentity::parse(&data, namespace, policy);
                let identity = identity.map_err(|source| RemoteClusterError::WorkloadIdentity {
                    config_map: from.clone(),
                    source,
                })?;
                (CredentialKind::WorkloadIdentity(identity), version)
            }
        };
        Ok(Self { from, kind, version })
    }

    /// What tells it from others: who has the same one reaches the same cluster as the same one.
    fn config(&self) -> ConfigDigest {
        match &self.kind {
            CredentialKind::Kubeconfig(bytes) => Sha256::digest(bytes).into(),
            CredentialKind::WorkloadIdentity(identity) => identity.digest(),
        }
    }

    async fn open(self, client: &Client, policy: &Policy) -> Result<kubeconfig::Opened, RemoteClusterError> {
        let from = self.from;
        match self.kind {
            CredentialKind::Kubeconfig(bytes) => {
                let opened = kubeconfig::open(&bytes, policy).await;
                opened.map_err(|source| RemoteClusterError::Refused { secret: from, source })
            }
            CredentialKind::WorkloadIdentity(identity) => {
                let opened = identity.open(client).await;
                opened.map_err(|source| RemoteClusterError::WorkloadIdentity {
                    config_map: from,
                    source,
                })
            }
        }
    }
}

async fn read_map(
    client: &Client,
    key: &Key,
) -> Result<(BTreeMap<String, String>, Option<u64>), RemoteClusterError> {
    let unread = |why: String, passing| RemoteClusterError::UnreadMap {
        config_map: key.clone(),
        why,
        passing,
    };
    let found = read::<ConfigMap>(client, &key.namespace, &key.name).await;
    let found = found.map_err(|error| unread(error.to_string(), error.passes()))?;
    let found = found.ok_or_else(|| unread(format!("configmaps \"{}\" not found", key.name), false))?;
    let version = found.metadata.resource_version.as_ref();
    let version = version.and_then(|version| version.parse().ok());
    Ok((found.data.unwrap_or_default(), version))
}

async fn read_kubeconfig(
    client: &Client,
    namespace: &str,
    reference: &SecretKeyReference,
) -> Result<(Vec<u8>, Option<u64>), RemoteClusterError> {
    let secret = Key::new(namespace, &*reference.name);
    let unread = |why: String, passing| RemoteClusterError::Unread {
        secret: secret.clone(),
        why,
        passing,
    };
    let found = read::<Secret>(client, namespace, &reference.name).await;
    let found = found.map_err(|error| unread(error.to_string(), error.passes()))?;
    let found = found.ok_or_else(|| unread(format!("secrets \"{}\" not found", reference.name), false))?;
    let version = found.metadata.resource_version.as_ref();
    let version = version.and_then(|version| version.parse().ok());
    let mut data = found.data.unwrap_or_default();
    let keys = match reference.key.as_deref().filter(|key| !key.is_empty()) {
        Some(key) => vec![key],
        None => vec!["value", "value.yaml"],
    };
    match keys.iter().find_map(|key| data.remove(*key)) {
        Some(bytes) => Ok((bytes.0, version)),
        None => Err(RemoteClusterError::NoKey {
            secret,
            key: keys.first().copied().unwrap_or_default().to_owned(),
        }),
    }
}
