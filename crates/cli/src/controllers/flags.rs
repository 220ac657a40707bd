//! The flags of `equate controllers` that have an effect, with Flux's names and defaults.

use std::path::PathBuf;

use equate_api::meta::Duration;
use equate_controllers::kit::backoff::Backoff;
use equate_controllers::kit::lease::{LeaseConfig, LeaseConfigError};
use equate_controllers::kit::tenants::Tenants;
use equate_controllers::policy::{ArtifactServer, ArtifactServers, Policy, WorkloadIdentityPolicy};
use equate_controllers::shards::{SelectorError, Slice};
use equate_controllers::{HelmSettings, Key, Shards};
use equate_git::{SshAlgorithmError, SshAlgorithms};
use equate_source::{Retention, Share};

use super::egress::EgressFlags;
use super::gates::Gates;
use super::ignored_flux_flags::IgnoredFluxFlags;
use super::log;
use super::value::{Listen, boolean, positive};
use crate::connection;

#[derive(Debug, clap::Args)]
#[command(
    mut_arg("kubeconfig", |arg| arg.help(KUBECONFIG)),
    after_help = "Examples:
  # Run in a pod, with its ServiceAccount
  equate controllers
  # Run on this machine, for the cluster of a kubeconfig
  equate controllers --kubeconfig cluster.yaml --storage-path /tmp/data --storage-addr 127.0.0.1:9090
  # Reconcile only objects without the label of a Flux shard
  equate controllers --watch-label-selector '!sharding.fluxcd.io/key'
  # Reconcile the first of three parts of all objects
  equate controllers --shard 0/3"
)]
pub(crate) struct Args {
    /// Controllers to run in this process.
    // `crate::line` sets the possible values
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) controllers: Vec<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    #[command(flatten, next_help_heading = "Tenancy")]
    pub(crate) tenancy: TenancyFlags,
    #[command(flatten, next_help_heading = "Tenancy")]
    pub(crate) egress: EgressFlags,
    #[command(flatten, next_help_heading = SOURCES)]
    pub(crate) storage: StorageFlags,
    #[command(flatten, next_help_heading = SOURCES)]
    pub(crate) ssh: SshFlags,
    #[command(flatten, next_help_heading = SOURCES)]
    pub(crate) helm: HelmFlags,
    /// Maximum time of one build, fetch or download, also if a spec allows more; it does not limit the wait for readiness.
    #[arg(long, help_heading = RECONCILIATION, value_name = "DURATION", default_value = "10m", value_parser = positive)]
    pub(crate) timeout_max: Duration,
    /// Maximum number of objects of each kind to reconcile at once; for GitRepositories, at least 64. Tenants that have no object in progress share as many additional places.
    #[arg(long, help_heading = RECONCILIATION, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent: u16,
    /// Number of times to retry a failed download of an artifact.
    #[arg(long, help_heading = RECONCILIATION, value_name = "COUNT", default_value_t = 9)]
    pub(crate) http_retry: u32,
    /// Feature gates of Flux, such as `ExternalArtifact=true`.
    #[arg(
        long,
        help_heading = RECONCILIATION,
        value_name = "NAME=BOOL,...",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) feature_gates: String,
    #[command(flatten, next_help_heading = RECONCILIATION)]
    pub(crate) retry: RetryFlags,
    #[command(flatten, next_help_heading = "Events, metrics and probes")]
    pub(crate) endpoints: Endpoints,
    #[command(flatten, next_help_heading = "Leader election")]
    pub(crate) election: ElectionFlags,
    #[command(flatten, next_help_heading = "Logging")]
    pub(crate) log: log::Flags,
    /// Read the directory DIR instead of the source at URL, such as `https://example.org/app.git=../app` or `oci://example.org/charts=../charts` (can be repeated).
    #[arg(long, help_heading = SOURCES, value_name = "URL=DIR", value_parser = crate::up::substitution)]
    pub(crate) instead_of: Vec<(String, PathBuf)>,
    #[command(flatten)]
    pub(crate) ignored: IgnoredFluxFlags,
    #[command(flatten)]
    pub(crate) cluster: connection::Options,
}

/// Headings in the help, of options in several structs.
const SOURCES: &str = "Artifacts and git";
const RECONCILIATION: &str = "Reconciliation";

/// The controllers use the ServiceAccount of their pod, and never the cluster of an `equate up`.
const KUBECONFIG: &str =
    "Path to the kubeconfig (default: `KUBECONFIG`, then the ServiceAccount of this pod)";

#[derive(Debug, clap::Args)]
pub(crate) struct Scope {
    /// Reconcile only objects that match this label selector, such as `sharding.fluxcd.io/key=shard1`.
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    watch_label_selector: String,
    /// Reconcile objects in all namespaces; if false, only in --namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    watch_all_namespaces: bool,
    /// Reconcile one of COUNT equal parts of all objects, such as `0/3`, `1/3` or `2/3`; a hash of the name selects the part.
    #[arg(
        long,
        value_name = "INDEX/COUNT",
        default_value = "0/1",
        hide_default_value = true
    )]
    shard: Slice,
    /// Namespace that the controllers run in; it contains their Leases.
    #[arg(short, long, env = "RUNTIME_NAMESPACE", hide_env_values = true, value_name = "NAMESPACE", default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    pub(crate) namespace: String,
}

impl Scope {
    /// The labels and hash of this shard, which distinguish its Leases; empty if it is everything.
    pub(crate) fn share(&self) -> Vec<String> {
        let labels = Some(self.watch_label_selector.clone()).filter(|selector| !selector.is_empty());
        let slice = (self.shard != Slice::default()).then(|| format!("shard={}", self.shard));
        labels.into_iter().chain(slice).collect()
    }

    pub(crate) fn shards(&self) -> Result<Shards, SelectorError> {
        let shards = Shards::default()
            .labels(&self.watch_label_selector)?
            .slice(self.shard);
        Ok(match self.watch_all_namespaces {
            true => shards,
            false => shards.namespace(&*self.namespace),
        })
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct TenancyFlags {
    /// Refuse Kustomizations whose source is in another namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    no_cross_namespace_refs: bool,
    /// Refuse kustomizations that use bases outside their source.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    no_remote_bases: bool,
    /// Namespaces with a worker and a processor that no other tenant can use (default: --namespace).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    platform_namespaces: Vec<String>,
    #[command(flatten)]
    identity: Identity,
    /// Fetch artifacts of other processes from this server, in addition to the Services of --namespace (can be repeated).
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    pub(crate) artifact_server: Vec<ArtifactServer>,
    /// Audiences for which to request tokens of ServiceAccounts (default: all; needs the feature gate ObjectLevelWorkloadIdentity).
    #[arg(long, value_name = "AUDIENCE,...", value_delimiter = ',')]
    workload_identity_audiences: Vec<String>,
    /// Hosts to send tokens of ServiceAccounts to (default: all; needs the feature gate ObjectLevelWorkloadIdentity).
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    workload_identity_hosts: Vec<String>,
}

/// Default identities of Kustomizations, and restrictions of kubeconfigs.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// ServiceAccount to impersonate for Kustomizations without `spec.serviceAccountName`.
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// No effect: Equate uses no ServiceAccount for decryption.
    #[arg(long, value_name = "NAME")]
    default_decryption_service_account: Option<String>,
    /// ServiceAccount for remote clusters, if the ConfigMap of `spec.kubeConfig` has no `serviceAccountName`.
    #[arg(long, value_name = "NAME")]
    default_kubeconfig_service_account: Option<String>,
    /// Secret with age keys, in the namespace of the controllers, for a `spec.decryption` without `secretRef`.
    #[arg(long, value_name = "NAME")]
    sops_age_secret: Option<String>,
    /// Allow kubeconfigs in Secrets to run programs (`exec`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    insecure_kubeconfig_exec: bool,
    /// Allow kubeconfigs in Secrets to skip verification of TLS certificates (`insecure-skip-tls-verify`).
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    insecure_kubeconfig_tls: bool,
}

impl TenancyFlags {
    /// The tenants of a cluster with controllers in this namespace.
    pub(crate) fn tenants(&self, namespace: &str) -> Tenants {
        Tenants::of_cluster(self.platform(namespace))
    }

    /// The platform's namespaces.
    pub(crate) fn platform(&self, namespace: &str) -> Vec<String> {
        let named = self.platform_namespaces.iter().map(|name| name.trim());
        let named = named.filter(|name| !name.is_empty());
        let named: Vec<String> = named.map(str::to_owned).collect();
        match named.is_empty() {
            true => vec![namespace.to_owned()],
            false => named,
        }
    }

    pub(crate) fn policy(&self, namespace: &str, gates: &Gates, own: &str) -> Policy {
        let parsed = own.parse();
        if parsed.is_err() {
            tracing::warn!(
                address = own,
                "artifacts of this address are not fetched: it is not HOST[:PORT]"
            );
        }
        let own = parsed.ok();
        let servers = self.artifact_server.iter().cloned().chain(own);
        let hosts = self.workload_identity_hosts.iter();
        Policy {
            no_cross_namespace_refs: self.no_cross_namespace_refs,
            no_remote_bases: self.no_remote_bases,
            external_artifacts: gates.external_artifacts,
            artifact_servers: ArtifactServers::of(namespace, servers),
            workload_identity: WorkloadIdentityPolicy {
                enabled: gates.workload_identity,
                audiences: self.workload_identity_audiences.iter().cloned().collect(),
                hosts: hosts.map(|host| host.to_lowercase()).collect(),
            },
            ..self.identity.policy(namespace)
        }
    }
}

impl Identity {
    /// The engine's policy for this namespace. An empty name means none.
    pub(crate) fn policy(&self, namespace: &str) -> Policy {
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let keys = named(&self.sops_age_secret);
        Policy {
            default_service_account: named(&self.default_service_account),
            default_decryption_service_account: named(&self.default_decryption_service_account),
            default_kubeconfig_service_account: named(&self.default_kubeconfig_service_account),
            insecure_kubeconfig_exec: self.insecure_kubeconfig_exec,
            insecure_kubeconfig_tls: self.insecure_kubeconfig_tls,
            sops_age_secret: keys.map(|name| Key::new(namespace, name)),
            ..Policy::default()
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct StorageFlags {
    /// Directory for artifacts and git mirrors.
    #[arg(
        long,
        env = "STORAGE_PATH",
        hide_env_values = true,
        value_name = "DIR",
        default_value = "/data"
    )]
    pub(crate) storage_path: PathBuf,
    /// Address to serve artifacts on.
    #[arg(
        long,
        env = "STORAGE_ADDR",
        hide_env_values = true,
        value_name = "HOST:PORT",
        default_value = ":9090"
    )]
    pub(crate) storage_addr: Listen,
    /// Address in the URLs of artifacts (default: the name of this machine and the port of --storage-addr).
    #[arg(
        long,
        env = "STORAGE_ADV_ADDR",
        hide_env_values = true,
        value_name = "HOST[:PORT]",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) storage_adv_addr: String,
    /// Time to keep an artifact after a newer one replaces it.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    artifact_retention_ttl: Duration,
    /// Maximum number of artifacts to keep for each source, including the newest.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    artifact_retention_records: u16,
    /// Maximum size of all artifacts of a namespace in MiB, except of platform namespaces (0: no limit).
    #[arg(long, value_name = "COUNT", default_value_t = 10_240)]
    artifact_namespace_mib_max: u64,
    /// Digest algorithm of artifacts.
    #[arg(long, value_name = "NAME", default_value = "sha256", value_parser = ["sha256"], hide = true)]
    artifact_digest_algo: String,
}

impl StorageFlags {
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            ttl: self.artifact_retention_ttl.get(),
            records: self.artifact_retention_records.into(),
        }
    }

    /// The part of the disk of a namespace that is not of the platform.
    pub(crate) fn share(&self, platform: impl IntoIterator<Item = String>) -> Share {
        let bytes = self.artifact_namespace_mib_max.saturating_mul(1 << 20);
        Share {
            bytes_max: (bytes > 0).then_some(bytes),
            exempt: platform.into_iter().collect(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SshFlags {
    /// SSH key exchange algorithms to accept, preferred first (default: those of OpenSSH).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    ssh_kex_algos: Vec<String>,
    /// SSH host key algorithms to accept, preferred first (default: those of OpenSSH).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    ssh_hostkey_algos: Vec<String>,
}

impl SshFlags {
    pub(crate) fn algorithms(&self) -> Result<SshAlgorithms, SshAlgorithmError> {
        SshAlgorithms::new(&self.ssh_kex_algos, &self.ssh_hostkey_algos)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct HelmFlags {
    /// Maximum size of the index of a Helm repository, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 50 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    helm_index_max_size: u64,
    /// Maximum size of a packed Helm chart, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    helm_chart_max_size: u64,
    /// Maximum size of a file in a Helm chart, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    helm_chart_file_max_size: u64,
    /// Time to keep the unused index of a Helm repository in memory.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    helm_cache_ttl: Duration,
}

impl HelmFlags {
    pub(crate) fn settings(&self) -> HelmSettings {
        HelmSettings {
            index_bytes_max: self.helm_index_max_size,
            chart_bytes_max: self.helm_chart_max_size,
            chart_file_bytes_max: self.helm_chart_file_max_size,
            index_ttl: self.helm_cache_ttl.get(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryFlags {
    /// Interval between checks of dependencies that are not ready, in addition to watching them.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) requeue_dependency: Duration,
    /// Percentage by which to vary intervals at random, so that objects do not all reconcile at once.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) interval_jitter_percentage: u8,
    /// Delay before the first retry after a failure; each further failure doubles it.
    #[arg(long, value_name = "DURATION", default_value = "750ms")]
    min_retry_delay: Duration,
    /// Maximum delay between retries.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    max_retry_delay: Duration,
}

impl RetryFlags {
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff {
            first: self.min_retry_delay.get(),
            max: self.max_retry_delay.get(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Endpoints {
    /// URL to post events to, such as `http://notification-controller.flux-system.svc.cluster.local./`.
    #[arg(
        long,
        env = "EVENTS_ADDR",
        hide_env_values = true,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) events_addr: String,
    /// Address to serve `/metrics` on; `0` disables it.
    #[arg(
        long,
        env = "METRICS_ADDR",
        hide_env_values = true,
        value_name = "HOST:PORT",
        default_value = ":8080"
    )]
    pub(crate) metrics_addr: Listen,
    /// Address to serve `/healthz` and `/readyz` on; `0` disables them.
    #[arg(long, value_name = "HOST:PORT", default_value = ":9440")]
    pub(crate) health_addr: Listen,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ElectionFlags {
    /// Reconcile only while holding the Leases of Flux's controllers, so that only one process reconciles.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub(crate) enable_leader_election: bool,
    /// Release the Leases when this process ends, so that another one can start at once.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub(crate) leader_election_release_on_cancel: bool,
    /// Time without renewal after which another process may take a Lease.
    #[arg(long, value_name = "DURATION", default_value = "35s")]
    leader_election_lease_duration: Duration,
    /// Time without renewal after which this process stops reconciling and exits.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    leader_election_renew_deadline: Duration,
    /// Interval between attempts to acquire or renew a Lease.
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    leader_election_retry_period: Duration,
}

impl ElectionFlags {
    pub(crate) fn lease_config(
        &self,
        namespace: &str,
        name: String,
        identity: &str,
    ) -> Result<LeaseConfig, LeaseConfigError> {
        let config = LeaseConfig {
            duration: self.leader_election_lease_duration.get(),
            renew: self.leader_election_renew_deadline.get(),
            retry: self.leader_election_retry_period.get(),
            ..LeaseConfig::new(namespace, name, identity)
        };
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        tenancy: TenancyFlags,
    }

    #[test]
    fn the_platform_is_the_namespace_of_the_controllers_unless_named() {
        let platform = |line: &[&str]| -> Vec<&str> {
            let line = Line::try_parse_from([&["equate"], line].concat()).unwrap();
            let tenants = line.tenancy.tenants("flux-system");
            let mut names = vec!["flux-system", "ingress", "team-a"];
            names.retain(|name| tenants.is_platform(&tenants.of(name)));
            names
        };
        assert_eq!(platform(&[]), ["flux-system"]);
        assert_eq!(
            platform(&["--platform-namespaces", "ingress,flux-system"]),
            ["flux-system", "ingress"]
        );
        assert_eq!(platform(&["--platform-namespaces=ingress"]), ["ingress"]);
    }
}
