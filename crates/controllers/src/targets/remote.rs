//! The clusters of `kubeConfig` references.
//!
//! Each kubeconfig of a namespace has its own client, discovery and watcher, shared by all its users. It is
//! identified by its content, so a changed Secret is a new one. If a ConfigMap names the account whose token opens
//! the cluster, the account is part of the identity: tenants never share an access. The last user ends
//! it, with its watches.
//!
//! The Secret is read after an interval, a request, a change or a failure, not at each run. If its
//! changes are watched ([`InputWatcher`](crate::kit::inputs::InputWatcher)), no interval reads it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use equate_api::meta::SecretKeyReference;
use equate_apply::cluster::Cluster;
use equate_apply::owner::OwnerKind;
use equate_apply::rules::OwnerRules;
use equate_egress::Egress;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use sha2::{Digest as _, Sha256};

use super::client::foreign_cluster;
use super::kube_config_source::KubeConfigSource;
use super::kubeconfig::{self, KubeConfigError};
use super::target::{Access, TargetCluster};
use super::workload_identity::{WorkloadIdentity, WorkloadIdentityError};
use crate::Key;
use crate::kit::feed::{ListLimits, ListMemory, Pace};
use crate::kit::read::read;
use crate::kit::watcher::{ObjectWatcher, Wake};
use crate::kit::yielding::YieldPolicy;
use crate::policy::Policy;

/// Why another cluster is not accessible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteClusterError {
    /// The Secret cannot be read.
    #[error("failed to build kube client: unable to read KubeConfig secret '{secret}' error: {why}")]
    Unread {
        /// The Secret.
        secret: Key,
        /// The API server's message.
        why: String,
        /// Whether the API server was busy or unreachable.
        passing: bool,
    },
    /// The Secret has no such key.
    #[error(
        "failed to build kube client: KubeConfig secret '{secret}' does not contain a '{key}' key with a kubeconfig"
    )]
    NoKey {
        /// The Secret.
        secret: Key,
        /// The key.
        key: String,
    },
    /// The ConfigMap cannot be read.
    #[error("failed to build kube client: failed to get configmap {config_map}: {why}")]
    UnreadMap {
        /// The ConfigMap.
        config_map: Key,
        /// The API server's message.
        why: String,
        /// Whether the API server was busy or unreachable.
        passing: bool,
    },
    /// The ConfigMap's content opens no cluster.
    #[error("failed to build kube client: KubeConfig configmap '{config_map}': {source}")]
    WorkloadIdentity {
        /// The ConfigMap.
        config_map: Key,
        /// The cause.
        source: WorkloadIdentityError,
    },
    /// The kubeconfig is refused.
    #[error("failed to build kube client: KubeConfig secret '{secret}': {source}")]
    Refused {
        /// The Secret.
        secret: Key,
        /// The cause.
        source: KubeConfigError,
    },
}

impl RemoteClusterError {
    /// Whether the API server was busy or unreachable, so that its answer is unknown.
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

pub(crate) type ConfigDigest = [u8; 32];

/// Another cluster, for as long as it has users.
pub(crate) struct RemoteCluster {
    target: TargetCluster,
    cluster: Cluster,
    watcher: ObjectWatcher,
    config: ConfigDigest,
}

impl RemoteCluster {
    /// Full access with the opener's rights, for owners of a kind.
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

#[derive(Debug, Clone)]
pub(crate) struct RemoteHandle {
    opener: KubeConfigSource,
    pub(crate) remote: Arc<RemoteCluster>,
    pub(crate) version: Option<u64>,
}

impl RemoteHandle {
    pub(crate) fn is_of(&self, opener: &KubeConfigSource) -> bool {
        self.opener == *opener
    }
}

pub(crate) struct RemoteClusters {
    // a map operation for each Secret that is read; never held across an await
    known: Mutex<HashMap<ConfigDigest, Weak<RemoteCluster>>>,
    pace: Pace,
    owner_rules: Arc<dyn OwnerRules>,
    yielding: YieldPolicy,
    wake: Arc<dyn Fn(Wake) + Send + Sync>,
}

impl RemoteClusters {
    /// Empty. `wake` is called for every owner whose objects there change.
    pub(crate) fn new(
        pace: Pace,
        owner_rules: Arc<dyn OwnerRules>,
        yielding: YieldPolicy,
        wake: impl Fn(Wake) + Send + Sync + 'static,
    ) -> Self {
        let lists = ListLimits::FOREIGN;
        Self {
            known: Mutex::default(),
            pace: Pace { lists, ..pace },
            owner_rules,
            yielding,
            wake: Arc::new(wake),
        }
    }

    pub(crate) async fn open(
        &self,
        client: &Client,
        namespace: &str,
        opener: &KubeConfigSource,
        policy: &Policy,
        egress: &Egress,
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
        let opened = credentials.open(client, policy, egress).await?;
        let wake = Arc::clone(&self.wake);
        let watcher = ObjectWatcher::of_tenant(
            opened.client.clone(),
            Pace {
                memory: Some(ListMemory {
                    memory: egress.memory().clone(),
                    namespace: namespace.into(),
                }),
                ..self.pace.clone()
            },
            Arc::clone(&self.owner_rules),
            move |woken| wake(woken),
            (self.yielding.clone(), self.yielding.tenant(namespace)),
        );
        let remote = Arc::new(RemoteCluster {
            target: TargetCluster::Remote(opened.fingerprint),
            cluster: foreign_cluster(opened.client),
            watcher,
            config,
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, other| other.strong_count() > 0);
        // another run may have opened it meanwhile
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

/// The same without watches, for one use.
pub(crate) async fn open_once(
    client: &Client,
    namespace: &str,
    opener: &KubeConfigSource,
    policy: &Policy,
    egress: &Egress,
) -> Result<(TargetCluster, Cluster), RemoteClusterError> {
    let credentials = Credentials::read(client, namespace, opener, policy).await?;
    let opened = credentials.open(client, policy, egress).await?;
    Ok((
        TargetCluster::Remote(opened.fingerprint),
        foreign_cluster(opened.client),
    ))
}

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

    /// The identity: equal credentials of a namespace share one client, its watches and its share of the
    /// connections.
    fn config(&self) -> ConfigDigest {
        match &self.kind {
            CredentialKind::Kubeconfig(bytes) => Sha256::new()
                .chain_update(self.from.namespace.len().to_le_bytes())
                .chain_update(&self.from.namespace)
                .chain_update(bytes)
                .finalize()
                .into(),
            CredentialKind::WorkloadIdentity(identity) => identity.digest(),
        }
    }

    async fn open(
        self,
        client: &Client,
        policy: &Policy,
        egress: &Egress,
    ) -> Result<kubeconfig::Opened, RemoteClusterError> {
        let from = self.from;
        match self.kind {
            CredentialKind::Kubeconfig(bytes) => {
                let opened = kubeconfig::open(&bytes, policy, egress, &from.namespace).await;
                opened.map_err(|source| RemoteClusterError::Refused { secret: from, source })
            }
            CredentialKind::WorkloadIdentity(identity) => {
                let opened = identity.open(client, egress).await;
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
