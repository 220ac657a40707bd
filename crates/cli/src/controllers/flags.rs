//! The flags that mean something, with Flux's names and defaults.

use std::path::PathBuf;

use equate_api::meta::Duration;
use equate_controllers::kit::backoff::Backoff;
use equate_controllers::kit::lease::{LeaseConfig, LeaseConfigError};
use equate_controllers::policy::Policy;
use equate_controllers::shards::{SelectorError, Slice};
use equate_controllers::{Key, Shards};
use equate_git::{SshAlgorithmError, SshAlgorithms};
use equate_source::Retention;

use super::ignored_flux_flags::IgnoredFluxFlags;
use super::log;
use super::value::{Listen, boolean};
use crate::connection;

/// Reconcile the sources and Kustomizations of a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES:
  equate controllers                                         in a pod, with its ServiceAccount
  equate controllers --kubeconfig k --storage-path /tmp/data --storage-addr 127.0.0.1:9090
  equate controllers --watch-label-selector '!sharding.fluxcd.io/key'
  equate controllers --shard 0/3")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) cluster: connection::Options,
    /// Run only these controllers in this process.
    // `crate::line` fills in the values
    #[arg(long, value_delimiter = ',')]
    pub(crate) controllers: Vec<String>,
    #[command(flatten)]
    pub(crate) scope: Scope,
    #[command(flatten)]
    pub(crate) tenancy: TenancyFlags,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
    #[command(flatten)]
    pub(crate) ssh: SshFlags,
    /// Reconcile this many objects of a kind at once; more of a kind that mostly waits for hosts.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent: u16,
    /// How often the download of an artifact is tried again.
    #[arg(long, value_name = "COUNT", default_value_t = 9)]
    pub(crate) http_retry: u32,
    /// Switches of behaviour, such as `StrictPostBuildSubstitutions=true`.
    #[arg(
        long,
        value_name = "NAME=BOOL,...",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) feature_gates: String,
    #[command(flatten)]
    pub(crate) retry: RetryFlags,
    #[command(flatten)]
    pub(crate) endpoints: Endpoints,
    #[command(flatten)]
    pub(crate) election: ElectionFlags,
    #[command(flatten)]
    pub(crate) log: log::Flags,
    /// Read this directory wherever a repository is declared with this URL: for clusters without a network. May be repeated.
    #[arg(long, value_name = "URL=PATH", value_parser = crate::up::substitution)]
    pub(crate) instead_of: Vec<(String, PathBuf)>,
    #[command(flatten)]
    pub(crate) ignored: IgnoredFluxFlags,
}

/// Which objects are reconciled.
#[derive(Debug, clap::Args)]
pub(crate) struct Scope {
    /// Reconcile only objects with these labels, such as `sharding.fluxcd.io/key=shard1`.
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    watch_label_selector: String,
    /// Reconcile the objects of all namespaces; if not, of RUNTIME_NAMESPACE alone.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    watch_all_namespaces: bool,
    /// Reconcile one of so many equal parts of all objects, by hash of their names: 0/3, 1/3 and 2/3 together are all.
    #[arg(long, value_name = "I/N", default_value = "0/1", hide_default_value = true)]
    shard: Slice,
    /// The namespace this process runs in: its Leases are there.
    #[arg(short, long, env = "RUNTIME_NAMESPACE", value_name = "NAMESPACE", default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    pub(crate) namespace: String,
}

impl Scope {
    /// What tells this share of the work from others: nothing where it is all.
    pub(crate) fn share(&self) -> Vec<String> {
        let labels = Some(self.watch_label_selector.clone()).filter(|selector| !selector.is_empty());
        let slice = (self.shard != Slice::default()).then(|| format!("shard={}", self.shard));
        labels.into_iter().chain(slice).collect()
    }

    /// The objects that are meant.
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

/// What those who write Kustomizations are allowed.
#[derive(Debug, clap::Args)]
pub(crate) struct TenancyFlags {
    /// Refuse sources of other namespaces.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    no_cross_namespace_refs: bool,
    /// Refuse bases that are not among the files of the source.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    no_remote_bases: bool,
    #[command(flatten)]
    identity: Identity,
}

/// As whom Kustomizations act that say nothing of that, and what opens other clusters.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// As whom a Kustomization applies that names no ServiceAccount.
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// With whose identity a Kustomization decrypts that names none for that.
    #[arg(long, value_name = "NAME")]
    default_decryption_service_account: Option<String>,
    /// Whose token opens another cluster where its ConfigMap names none.
    #[arg(long, value_name = "NAME")]
    default_kubeconfig_service_account: Option<String>,
    /// The Secret in RUNTIME_NAMESPACE with the age keys of Kustomizations that decrypt and name no Secret.
    #[arg(long, value_name = "NAME")]
    sops_age_secret: Option<String>,
    /// Let kubeconfigs of Secrets run programs here.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    insecure_kubeconfig_exec: bool,
    /// Let kubeconfigs of Secrets trust any certificate.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    insecure_kubeconfig_tls: bool,
}

impl TenancyFlags {
    /// The same, as the engine takes it in this namespace.
    pub(crate) fn policy(&self, namespace: &str) -> Policy {
        Policy {
            no_cross_namespace_refs: self.no_cross_namespace_refs,
            no_remote_bases: self.no_remote_bases,
            ..self.identity.policy(namespace)
        }
    }
}

impl Identity {
    /// The same, as the engine takes it in this namespace; nothing else is refused. An empty name is none.
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
            // external artifacts are a matter of a feature gate
            ..Policy::default()
        }
    }
}

/// Artifacts: where they are kept and how others reach them.
#[derive(Debug, clap::Args)]
pub(crate) struct StorageFlags {
    /// Keep artifacts and repositories in this directory.
    #[arg(long, env = "STORAGE_PATH", value_name = "DIR", default_value = "/data")]
    pub(crate) storage_path: PathBuf,
    /// Serve artifacts here.
    #[arg(long, env = "STORAGE_ADDR", value_name = "ADDRESS", default_value = ":9090")]
    pub(crate) storage_addr: Listen,
    /// The host, and port, by which others reach artifacts; without it the name of this machine.
    #[arg(
        long,
        env = "STORAGE_ADV_ADDR",
        value_name = "HOST",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) storage_adv_addr: String,
    /// How long an artifact stays after a newer one took its place.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    artifact_retention_ttl: Duration,
    /// How many artifacts of a source stay at most.
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    artifact_retention_records: u16,
    /// How artifacts are digested.
    #[arg(long, value_name = "NAME", default_value = "sha256", value_parser = ["sha256"], hide = true)]
    artifact_digest_algo: String,
}

impl StorageFlags {
    /// How long artifacts stay.
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            ttl: self.artifact_retention_ttl.get(),
            records: self.artifact_retention_records.into(),
        }
    }
}

/// What is offered to the hosts of repositories that are reached over ssh.
#[derive(Debug, clap::Args)]
pub(crate) struct SshFlags {
    /// Offer ssh hosts these key exchange algorithms, the best first; without it what OpenSSH offers.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    ssh_kex_algos: Vec<String>,
    /// Take these proofs of a host's key, the best first; without it what OpenSSH takes.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    ssh_hostkey_algos: Vec<String>,
}

impl SshFlags {
    /// The same, as they are spoken.
    pub(crate) fn algorithms(&self) -> Result<SshAlgorithms, SshAlgorithmError> {
        SshAlgorithms::new(&self.ssh_kex_algos, &self.ssh_hostkey_algos)
    }
}

/// When things are done again.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryFlags {
    /// How often a Kustomization that waits looks by itself; what it waits for wakes it before.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) requeue_dependency: Duration,
    /// By how much of a hundred intervals differ, so that not all is looked at at once.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) interval_jitter_percentage: u8,
    /// How long to wait after a failure.
    #[arg(long, value_name = "DURATION", default_value = "750ms")]
    min_retry_delay: Duration,
    /// How long to wait at most after failures.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    max_retry_delay: Duration,
}

impl RetryFlags {
    /// How long to wait after failures.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff {
            first: self.min_retry_delay.get(),
            max: self.max_retry_delay.get(),
        }
    }
}

/// Where this process answers, and whom it tells.
#[derive(Debug, clap::Args)]
pub(crate) struct Endpoints {
    /// Post events there, such as `http://notification-controller.flux-system.svc.cluster.local./`.
    #[arg(
        long,
        env = "EVENTS_ADDR",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) events_addr: String,
    /// Serve metrics here.
    #[arg(long, env = "METRICS_ADDR", value_name = "ADDRESS", default_value = ":8080")]
    pub(crate) metrics_addr: Listen,
    /// Answer probes here.
    #[arg(long, value_name = "ADDRESS", default_value = ":9440")]
    pub(crate) health_addr: Listen,
}

/// Of several such processes one works.
#[derive(Debug, clap::Args)]
pub(crate) struct ElectionFlags {
    /// Work only while holding the Leases of the controllers, which are those of Flux's.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub(crate) enable_leader_election: bool,
    /// Give the Leases back at the end.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub(crate) leader_election_release_on_cancel: bool,
    /// How long others wait after the last renewal.
    #[arg(long, value_name = "DURATION", default_value = "35s")]
    leader_election_lease_duration: Duration,
    /// How long this process works on after the last renewal.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    leader_election_renew_deadline: Duration,
    /// How long after a try comes the next.
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    leader_election_retry_period: Duration,
}

impl ElectionFlags {
    /// The terms on which a Lease is held.
    pub(crate) fn terms(
        &self,
        namespace: &str,
        name: String,
        identity: &str,
    ) -> Result<LeaseConfig, LeaseConfigError> {
        let terms = LeaseConfig {
            duration: self.leader_election_lease_duration.get(),
            renew: self.leader_election_renew_deadline.get(),
            retry: self.leader_election_retry_period.get(),
            ..LeaseConfig::new(namespace, name, identity)
        };
        terms.check()?;
        Ok(terms)
    }
}
