//! `cargo xtask peers`: the real control plane for people.

use std::error::Error;

use equate_testkit::peers::{self, KubectlVersion};
use equate_testkit::real::{Profile, RealCluster};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build the control plane and fetch the clients into the cache folder
    Build,
    /// Start a control plane, print its kubeconfig's path, serve until interrupted
    Start {
        /// The controllers beside the API server
        #[arg(long, value_enum, default_value = "full")]
        profile: ProfileName,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ProfileName {
    /// Only the controllers that the embedded API replaces; no scheduler, no nodes
    Differential,
    /// Every controller, the scheduler, and kwok for nodes
    Full,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    match args.command {
        Command::Build => build(),
        Command::Start { profile } => start(match profile {
            ProfileName::Differential => Profile::Differential,
            ProfileName::Full => Profile::Full,
        }),
    }
}

/// Everything the tests with real peers need; a machine without the tools prints so and passes.
fn build() -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    match peers::available(peers::control_plane(&mut progress))? {
        Ok(plane) => println!("{}", plane.folder().display()),
        Err(skip) => println!("{}", skip.0),
    }
    for version in KubectlVersion::ALL {
        match peers::available(peers::kubectl(version, &mut progress))? {
            Ok(clients) => println!("{}", clients.kubectl.display()),
            Err(skip) => println!("{}", skip.0),
        }
    }
    match peers::available(peers::kustomize(&mut progress))? {
        Ok(_) => println!("kustomize {}", peers::KUSTOMIZE_API_VERSION),
        Err(skip) => println!("{}", skip.0),
    }
    Ok(())
}

fn start(profile: Profile) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut progress = |line: &str| eprintln!("peers: {line}");
        let cluster = RealCluster::start(profile, &mut progress).await?;
        println!("{}", cluster.kubeconfig_path().display());
        tokio::signal::ctrl_c().await?;
        cluster.stop().await?;
        Ok(())
    })
}
