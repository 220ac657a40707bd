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
    /// Build or fetch all real tools into the cache folder
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

/// Everything the tests with real peers need, in their order; a machine without the tools prints so and passes.
fn build() -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    tell("sops", peers::sops(&mut progress).map(drop))?;
    tell("OpenBao", peers::openbao(&mut progress).map(drop))?;
    // not every machine may reach Debian's archive, or has Node
    for (name, peer) in [
        ("distribution", peers::distribution(&mut progress)),
        ("cosign", peers::cosign(&mut progress)),
        ("azurite", peers::azurite(&mut progress)),
    ] {
        match peer {
            Ok(_) => println!("{name}"),
            Err(error) => println!("skipped: {error}"),
        }
    }
    tell("notation", peers::notation(&mut progress).map(drop))?;
    tell("SeaweedFS", peers::seaweedfs(&mut progress).map(drop))?;
    tell("Gitea", peers::gitea(&mut progress).map(drop))?;
    tell("the control plane", peers::control_plane(&mut progress).map(drop))?;
    for version in KubectlVersion::ALL {
        let name = format!("kubectl {}", version.number());
        tell(&name, peers::kubectl(version, &mut progress).map(drop))?;
    }
    tell("helm-controller", peers::helm_controller(&mut progress).map(drop))?;
    tell(
        "source-controller",
        peers::source_controller(&mut progress).map(drop),
    )?;
    tell(
        "prometheus-operator",
        peers::prometheus_operator(&mut progress).map(drop),
    )?;
    tell("a manager", peers::manager(&mut progress).map(drop))?;
    let helm = format!("helm {}", peers::HELM_VERSION);
    tell(&helm, peers::helm(&mut progress).map(drop))?;
    let kustomize = format!("kustomize {}", peers::KUSTOMIZE_API_VERSION);
    tell(&kustomize, peers::kustomize(&mut progress).map(drop))
}

fn tell(name: &str, peer: Result<(), peers::Error>) -> Result<(), Box<dyn Error>> {
    match peers::available(peer)? {
        Ok(()) => println!("{name}"),
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
