//! The permissions of those who write Kustomizations: Flux's flags for multi-tenancy lockdown, as data.
//!
//! The default is Flux's: everything is allowed except running programs and trusting any certificate on
//! behalf of a tenant's Secret. Each field has the name and meaning of Flux's flag. A refusal is in the
//! status, with Flux's reason.

use std::collections::BTreeSet;

use crate::Key;
pub use crate::artifact_servers::{ArtifactServer, ArtifactServerError, ArtifactServers};

/// The tokens of ServiceAccounts for other clusters; by default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadIdentityPolicy {
    /// Whether any may be.
    pub enabled: bool,
    /// The allowed audiences; any if empty.
    pub audiences: BTreeSet<String>,
    /// The allowed hosts, in lower case; any if empty.
    pub hosts: BTreeSet<String>,
}

impl WorkloadIdentityPolicy {
    /// Any token for any host.
    pub fn any() -> Self {
        Self {
            enabled: true,
            ..Self::default()
        }
    }
}

/// The lockdown. `Default` is Flux without flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// `--no-cross-namespace-refs`: refuses sources in other namespaces.
    pub no_cross_namespace_refs: bool,
    /// `--no-remote-bases`: refuses bases outside the files of the source.
    pub no_remote_bases: bool,
    /// `--default-service-account`: the ServiceAccount to impersonate when a Kustomization names none.
    /// If unset, it applies with this process's own rights.
    pub default_service_account: Option<String>,
    /// `--default-decryption-service-account`: the identity for key services when `spec.decryption`
    /// names no ServiceAccount.
    pub default_decryption_service_account: Option<String>,
    /// `--default-kubeconfig-service-account`: the ServiceAccount whose token opens a cluster when a
    /// kubeConfig's ConfigMap names none.
    pub default_kubeconfig_service_account: Option<String>,
    /// `--insecure-kubeconfig-exec`: whether a kubeconfig may run a program here.
    pub insecure_kubeconfig_exec: bool,
    /// `--insecure-kubeconfig-tls`: whether a kubeconfig may disable certificate checks.
    pub insecure_kubeconfig_tls: bool,
    /// `--sops-age-secret`, in the namespace of the process: the Secret with the age keys for
    /// Kustomizations that decrypt and name no Secret. Only its age keys are used.
    pub sops_age_secret: Option<Key>,
    /// `--feature-gates=ExternalArtifact=true`: whether a source may be an ExternalArtifact. Everyone
    /// who may write the status of one chooses the address of the artifact to apply.
    pub external_artifacts: bool,
    /// `--artifact-server`: the servers of other processes' artifacts, except ExternalArtifacts.
    pub artifact_servers: ArtifactServers,
    /// `--feature-gates=ObjectLevelWorkloadIdentity=true`, and the tokens that it allows.
    pub workload_identity: WorkloadIdentityPolicy,
}
