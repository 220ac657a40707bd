//! The object that a `spec.kubeConfig` refers to.

use equate_api::kustomize::ValuesKind;
use equate_api::meta::{KubeConfigReference, SecretKeyReference};

use crate::Key;
use crate::kit::inputs::InputRef;

/// The opener of a cluster, in the namespace of the object that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeConfigSource {
    /// A Secret with a kubeconfig.
    Secret(SecretKeyReference),
    /// A ConfigMap with the address of the cluster and the account whose token opens it.
    ConfigMap(String),
}

impl From<&KubeConfigReference> for KubeConfigSource {
    fn from(reference: &KubeConfigReference) -> Self {
        match (&reference.config_map_ref, &reference.secret_ref) {
            (Some(config_map), None) => KubeConfigSource::ConfigMap(config_map.name.clone()),
            (_, secret) => KubeConfigSource::Secret(secret.clone().unwrap_or_default()),
        }
    }
}

impl KubeConfigSource {
    pub(crate) fn holder(&self, namespace: &str) -> InputRef {
        match self {
            KubeConfigSource::Secret(secret) => (ValuesKind::Secret, Key::new(namespace, &*secret.name)),
            KubeConfigSource::ConfigMap(name) => (ValuesKind::ConfigMap, Key::new(namespace, &**name)),
        }
    }
}
