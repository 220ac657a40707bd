//! The clusters and identities to apply with: this cluster, or that of a `kubeConfig`; this process's
//! own rights, or those of a ServiceAccount. For any controller that applies objects.
//!
//! | module | content |
//! |---|---|
//! | `destination` | the destination of an owner, and the access to it |
//! | `target` | a cluster, with the rights to use |
//! | `remote` | the other clusters in use |
//! | `kube_config_source` | the object that a `spec.kubeConfig` refers to |
//! | `client` | its HTTP client, with deadlines and limits |
//! | `kubeconfig`, `workload_identity` | the two ways to open another cluster |

pub(crate) mod client;
pub(crate) mod destination;
pub(crate) mod kube_config_source;
pub(crate) mod kubeconfig;
pub(crate) mod remote;
pub(crate) mod target;
pub(crate) mod workload_identity;
