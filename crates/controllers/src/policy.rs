//! What an engine allows those who write Kustomizations: Flux's flags of the lockdown, as data.
//!
//! The default is Flux's: everything its API can say is allowed but what runs programs or trusts
//! any certificate on behalf of a tenant's Secret. Who shares a cluster with others turns the rest
//! off. Each field has the name and the meaning of Flux's flag; what a field refuses says so in the
//! status, with the reason that Flux has for it.

use crate::Key;

/// The lockdown. `Default` is what Flux does without flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// `--no-cross-namespace-refs`: a source of another namespace is refused.
    pub no_cross_namespace_refs: bool,
    /// `--no-remote-bases`: a base that is not among the files of the source is refused.
    pub no_remote_bases: bool,
    /// `--default-service-account`: as whom a Kustomization applies that names no ServiceAccount.
    /// Without it, with this process's own rights.
    pub default_service_account: Option<String>,
    /// `--default-decryption-service-account`: with whose identity keys are asked for where
    /// `spec.decryption` names no ServiceAccount.
    pub default_decryption_service_account: Option<String>,
    /// `--default-kubeconfig-service-account`: whose token opens a cluster where a kubeConfig's
    /// ConfigMap names no ServiceAccount.
    pub default_kubeconfig_service_account: Option<String>,
    /// `--insecure-kubeconfig-exec`: whether a kubeconfig may have a program run here.
    pub insecure_kubeconfig_exec: bool,
    /// `--insecure-kubeconfig-tls`: whether a kubeconfig may have any certificate trusted.
    pub insecure_kubeconfig_tls: bool,
    /// `--sops-age-secret`, in the namespace of the process: the Secret with the age keys of those that
    /// decrypt and name no Secret. Only its age keys are used.
    pub sops_age_secret: Option<Key>,
    /// `--feature-gates=ExternalArtifact=true`: whether a source may be an ExternalArtifact. Whoever
    /// may write the status of one says which address is asked for what is applied.
    pub external_artifacts: bool,
}
