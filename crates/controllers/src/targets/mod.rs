//! Where objects are applied, and as whom: this cluster, or the one of a `kubeConfig`; with this process's
//! rights, or those of a ServiceAccount. For any controller that applies objects.
//!
//! | module | what it is |
//! |---|---|
//! | `destination` | where an owner applies, and the way there |
//! | `target` | a cluster, with the rights to act with |
//! | `remote` | the other clusters that are reached |
//! | `kube_config_source` | what a `spec.kubeConfig` refers to |
//! | `kubeconfig`, `workload_identity` | the two ways to open another cluster |

pub(crate) mod destination;
pub(crate) mod kube_config_source;
pub(crate) mod kubeconfig;
pub(crate) mod remote;
pub(crate) mod target;
pub(crate) mod workload_identity;
