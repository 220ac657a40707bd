//! `equate install`: what runs `equate controllers` in a cluster, printed or applied.
//!
//! Names are Flux's where others refer to them: the namespace, the ServiceAccounts, the Service of
//! artifacts, the label by which that finds its pod, the Leases. So Equate stands where Flux stood, and
//! the two never reconcile one object at once: who does not hold the Lease waits. What is Equate's alone
//! has a name of its own, so that neither installation takes anything from the other.
//!
//! It refuses to write over what somebody else keeps as it is (git, Helm), to run beside a Flux whose
//! Leases are in another namespace, and to delete anything.
//!
//! | file | what |
//! |---|---|
//! | `manifests` | the objects, in the order in which they can be made |
//! | `rights` | what the controllers may do, and what for |
//! | `pod` | the Deployment and its pod |
//! | `found` | what of Flux is there already |
//! | `apply` | applying them, and waiting |

mod apply;
mod found;
mod manifests;
mod pod;
mod rights;
#[cfg(test)]
mod tests;

use std::io::Write;

use equate_api::meta::Duration;
use equate_controllers::ControllerSet;
use equate_manifest::yaml;

pub(crate) use self::apply::InstallError;
use self::manifests::{DefinitionError, Settings};
use crate::connection;
use crate::controllers::boolean;

/// Put Equate into a cluster, where Flux's controllers would be.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES:
  equate install --export --image registry.example/equate:0.1.0 > equate.yaml
  equate install --image registry.example/equate:0.1.0 --context production
  equate install --beside-flux --dry-run")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    /// Print the manifests, and apply nothing.
    #[arg(long)]
    export: bool,
    /// Say what would change, and change nothing.
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true,
          default_missing_value = "server", value_parser = dry_run, conflicts_with = "export")]
    dry_run: Option<()>,
    /// The namespace of the controllers; it is made if need be.
    #[arg(short, long, value_name = "NAMESPACE", default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    namespace: String,
    /// The image; without it `equate` of this version, in --registry.
    #[arg(long, value_name = "IMAGE", conflicts_with = "registry")]
    image: Option<String>,
    /// Where the image is, such as `registry.example/team`.
    #[arg(long, value_name = "REGISTRY")]
    registry: Option<String>,
    /// Which controllers run.
    // `crate::line` fills in the values
    #[arg(long, value_delimiter = ',')]
    components: Vec<String>,
    /// Leave out what Flux's own manifests hold: only what is Equate's.
    #[arg(long)]
    beside_flux: bool,
    /// Reconcile the objects of all namespaces; if not, of --namespace alone.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    watch_all_namespaces: bool,
    /// Let nothing reach the controllers from other namespaces but scrapes of metrics.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    network_policy: bool,
    /// Post events there, such as `http://notification-controller.flux-system.svc.cluster.local./`.
    #[arg(long, value_name = "URL")]
    events_addr: Option<String>,
    /// Keys of taints that the controllers tolerate.
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    toleration_keys: Vec<String>,
    /// The Secret with which the image is pulled.
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Option<String>,
    /// The domain of the cluster's services.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// How much is logged.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["trace", "debug", "info", "error"])]
    log_level: String,
    /// Install although git or another tool holds Flux's objects, or Flux runs in another namespace.
    #[arg(long, conflicts_with = "export")]
    force: bool,
    /// Do not wait until the controllers run.
    #[arg(long, conflicts_with = "export")]
    no_wait: bool,
    /// How long to wait until the controllers run.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
    #[arg(long, hide = true, value_parser = components_extra)]
    components_extra: Option<String>,
    #[arg(long, hide = true, value_parser = manifests_flag)]
    manifests: Option<String>,
    #[arg(long, hide = true, value_parser = registry_creds)]
    registry_creds: Option<String>,
}

/// Where a dry run is tried: only the API server knows what would come of it.
fn dry_run(text: &str) -> Result<(), &'static str> {
    match text {
        "server" => Ok(()),
        "client" => Err("--export prints the manifests without asking a cluster"),
        _ => Err("expected server"),
    }
}

// flags of `flux install` that are not carried out; they say so by name

fn components_extra(_: &str) -> Result<String, &'static str> {
    Err("not supported: Equate has no such controllers; Flux's run beside it (docs/install.md)")
}

fn manifests_flag(_: &str) -> Result<String, &'static str> {
    Err("not supported: the manifests are this program's own; change what --export prints")
}

fn registry_creds(_: &str) -> Result<String, &'static str> {
    Err("not supported: make the Secret with kubectl, and name it with --image-pull-secret")
}

impl Args {
    fn settings(&self, controllers: &ControllerSet) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            image: self.image.clone().unwrap_or_else(|| self.own_image()),
            running: controllers.only(&self.components),
            known: controllers.clone(),
            beside_flux: self.beside_flux,
            watch_all_namespaces: self.watch_all_namespaces,
            network_policy: self.network_policy,
            events_addr: self.events_addr.clone(),
            toleration_keys: self.toleration_keys.clone(),
            image_pull_secret: self.image_pull_secret.clone(),
            cluster_domain: self.cluster_domain.clone(),
            log_level: self.log_level.clone(),
        }
    }

    /// As `cargo xtask image` names it.
    fn own_image(&self) -> String {
        let image = concat!("equate:", env!("CARGO_PKG_VERSION"));
        match &self.registry {
            Some(registry) => format!("{}/{image}", registry.trim_end_matches('/')),
            None => image.to_owned(),
        }
    }
}

pub(crate) async fn run(args: Args, controllers: &ControllerSet) -> Result<(), InstallError> {
    let settings = args.settings(controllers);
    let mut out = std::io::stdout();
    if args.export {
        let text = export(&settings)?;
        return out.write_all(text.as_bytes()).map_err(InstallError::Output);
    }
    let connection = args.cluster.connect_aloud().await?;
    if connection.is_up() {
        return Err(InstallError::OwnCluster);
    }
    let found = found::look(&connection.client, &settings).await?;
    found.allow(&settings, args.force)?;
    apply::apply(&connection.client, &settings, args.dry_run.is_some(), &mut out).await?;
    if args.dry_run.is_some() {
        return Ok(());
    }
    for line in found.advice(&settings) {
        eprintln!("{line}");
    }
    if !args.no_wait {
        apply::wait(&connection.client, &settings, args.timeout.get(), &mut out).await?;
    }
    Ok(())
}

/// All manifests as one YAML stream, in the order in which they can be made.
fn export(settings: &Settings) -> Result<String, DefinitionError> {
    let objects = settings.manifests()?;
    let documents = objects
        .iter()
        .map(|object| format!("---\n{}", yaml::to_string(object)));
    Ok(documents.collect())
}
