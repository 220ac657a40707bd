//! `equate install`: prints or applies the manifests that run `equate controllers` in a cluster.
//!
//! Objects that others refer to have Flux's names: the namespace, the ServiceAccounts, the Service of
//! artifacts and its pod label, the Leases. So Equate replaces Flux, and the two never reconcile one object
//! at once: a process without the Lease waits. Equate's own objects have their own names, so that neither
//! installation takes over the other's.
//!
//! It refuses to overwrite objects that git or Helm manages, and to run beside a Flux with Leases in another
//! namespace. It deletes nothing.

mod apply;
mod found;
mod manifests;
mod pod;
pub(crate) mod rbac;
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

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Write the manifests to a file
  equate install --export --image registry.example/equate:0.1.0 > equate.yaml
  # Install the controllers in the cluster of a context
  equate install --image registry.example/equate:0.1.0 --context production
  # Show the changes in a cluster that keeps Flux installed
  equate install --beside-flux --dry-run --image registry.example/equate:0.1.0")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    /// Print the manifests instead of applying them.
    #[arg(long)]
    export: bool,
    /// Show the changes without making them; the only value is `server`.
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true,
          default_missing_value = "server", value_parser = dry_run, conflicts_with = "export")]
    dry_run: Option<()>,
    /// Namespace of the controllers; created if missing.
    #[arg(short, long, value_name = "NAMESPACE", default_value = equate_api::meta::DEFAULT_NAMESPACE)]
    namespace: String,
    /// Image of the controllers (default: `equate:VERSION` in --registry, with the version of this program); one of the two is required.
    #[arg(long, value_name = "IMAGE", conflicts_with = "registry")]
    image: Option<String>,
    /// Registry of the default image, such as `registry.example/team`.
    #[arg(long, value_name = "REGISTRY")]
    registry: Option<String>,
    /// Controllers to install.
    // `crate::line` sets the possible values
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    components: Vec<String>,
    /// Keep the installed Flux: add only objects that its manifests do not contain.
    #[arg(long)]
    beside_flux: bool,
    /// Reconcile objects in all namespaces; if false, only in --namespace.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    watch_all_namespaces: bool,
    /// Create NetworkPolicies that deny traffic from other namespaces, except metrics scrapes.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    network_policy: bool,
    /// URL to post events to, such as `http://notification-controller.flux-system.svc.cluster.local./`.
    #[arg(long, value_name = "URL")]
    events_addr: Option<String>,
    /// Taint keys that the pod of the controllers tolerates.
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    toleration_keys: Vec<String>,
    /// Secret in --namespace to pull the image with.
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Option<String>,
    /// DNS domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// Most detailed level that the controllers log.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["trace", "debug", "info", "error"])]
    log_level: String,
    /// Install even if git or Helm manages Flux's objects, or if Flux runs in another namespace.
    #[arg(long, conflicts_with = "export")]
    force: bool,
    /// Do not wait until the controllers are ready.
    #[arg(long, conflicts_with = "export")]
    no_wait: bool,
    /// Maximum time to wait until the controllers are ready.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
    #[arg(long, hide = true, value_parser = components_extra)]
    components_extra: Option<String>,
    #[arg(long, hide = true, value_parser = manifests_flag)]
    manifests: Option<String>,
    #[arg(long, hide = true, value_parser = registry_creds)]
    registry_creds: Option<String>,
}

/// `--dry-run`: only the API server knows the result.
fn dry_run(text: &str) -> Result<(), &'static str> {
    match text {
        "server" => Ok(()),
        "client" => Err("--export prints the manifests without asking a cluster"),
        _ => Err("expected server"),
    }
}

// flags of `flux install` that are refused by name

fn components_extra(_: &str) -> Result<String, &'static str> {
    Err("not supported: Equate has no such controllers; Flux's run beside it (docs/install.md)")
}

fn manifests_flag(_: &str) -> Result<String, &'static str> {
    Err("not supported: the manifests are built in; edit the output of --export")
}

fn registry_creds(_: &str) -> Result<String, &'static str> {
    Err("not supported: create the Secret with kubectl and name it with --image-pull-secret")
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

    /// The image name that `cargo xtask image` sets.
    fn own_image(&self) -> String {
        let image = concat!("equate:", env!("CARGO_PKG_VERSION"));
        match &self.registry {
            Some(registry) => format!("{}/{image}", registry.trim_end_matches('/')),
            None => image.to_owned(),
        }
    }
}

pub(crate) async fn run(args: Args, controllers: &ControllerSet) -> Result<(), InstallError> {
    if args.image.is_none() && args.registry.is_none() {
        return Err(InstallError::NoImage);
    }
    let settings = args.settings(controllers);
    let mut out = std::io::stdout();
    if args.export {
        let text = export(&settings)?;
        return out.write_all(text.as_bytes()).map_err(InstallError::Output);
    }
    let connection = args.cluster.connect_and_print().await?;
    if connection.is_up() {
        return Err(InstallError::OwnCluster);
    }
    let found = found::find_flux(&connection.client, &settings).await?;
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

fn export(settings: &Settings) -> Result<String, DefinitionError> {
    let objects = settings.manifests()?;
    let documents = objects
        .iter()
        .map(|object| format!("---\n{}", yaml::to_string(object)));
    Ok(documents.collect())
}
