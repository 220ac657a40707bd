//! `cargo xtask test-peers`: the tests that compare with the real tools.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion, RUN_VARIABLE};
use equate_testkit::real::{Profile, RealCluster};
use equate_testkit::servers;

use crate::test_programs::Programs;

const ANYWHERE: [&str; 13] = [
    "cves::",
    "escapes::",
    "fields::",
    "helm_handover::",
    "helm_turns::",
    "lease::",
    "prune_budget::",
    "ready_expr::",
    "scenarios::",
    "shards::",
    "sources_handover::",
    "switch_over::",
    "tenancy::",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Arguments for the test program, after `--`
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let programs = Programs::build()?;
    sops(&programs)?;
    servers(&programs)?;
    let mut progress = |line: &str| eprintln!("peers: {line}");
    if let Err(skip) = peers::available(peers::control_plane(&mut progress))? {
        println!("{}", skip.0);
        return Ok(());
    }
    for version in KubectlVersion::ALL {
        if let Err(skip) = peers::available(peers::kubectl(version, &mut progress))? {
            println!("{}", skip.0);
            return Ok(());
        }
    }
    // a control plane needs half a gigabyte and both cores to start
    let mut tests = programs.command("equate-testkit", "it")?;
    tests
        .args(["--test-threads=1", "--nocapture"])
        .args(&args.arguments);
    succeeds(tests.env(RUN_VARIABLE, "1"), "the real-peer tests")?;
    installed(&programs)?;
    anywhere(&programs)?;
    ssh(&programs)
}

fn installed(programs: &Programs) -> Result<(), Box<dyn Error>> {
    let mut tests = programs.command("equate-cli", "it")?;
    // each starts its own control plane
    tests.args(["install::", "--test-threads=1"]);
    succeeds(tests.env(RUN_VARIABLE, "1"), "the tests of what is installed")
}

/// Tests for any cluster, on a real one with all controllers.
fn anywhere(programs: &Programs) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let helm_controller = match peers::available(peers::helm_controller(&mut progress))? {
        Ok(program) => Some(program),
        Err(skip) => {
            println!("{}", skip.0);
            None
        }
    };
    let source_controller = match peers::available(peers::source_controller(&mut progress))? {
        Ok(program) => Some(program),
        Err(skip) => {
            println!("{}", skip.0);
            None
        }
    };
    let mut helms = Vec::new();
    for version in KubectlVersion::ALL {
        match peers::available(peers::kubectl(version, &mut progress))? {
            Ok(clients) => helms.push(clients.helm),
            Err(skip) => println!("{}", skip.0),
        }
    }
    let helms = std::env::join_paths(helms)?;
    let cluster = runtime.block_on(RealCluster::start(Profile::Full, &mut progress))?;
    let tests = |package: &str, threads: &str, names: &[&str]| {
        let mut tests = programs.command(package, "it")?;
        tests
            .arg(threads)
            .args(names)
            .env("EQUATE_TEST_CLUSTER", "real")
            .env("EQUATE_TEST_KUBECONFIG", cluster.kubeconfig_path());
        if let Some(program) = &helm_controller {
            tests.env(peers::HELM_CONTROLLER_VARIABLE, program);
        }
        if let Some(program) = &source_controller {
            tests.env(peers::SOURCE_CONTROLLER_VARIABLE, program);
        }
        if !helms.is_empty() {
            tests.env(peers::HELM_CLIENTS_VARIABLE, &helms);
        }
        succeeds(&mut tests, "the tests on the real API")
    };
    // the API server shares the two cores
    let outcome = tests("equate-controllers", "--test-threads=4", &ANYWHERE)
        .and_then(|()| tests("equate-cli", "--test-threads=1", &["controllers::"]));
    runtime.block_on(cluster.stop())?;
    outcome
}

/// Secrets in both directions, with the real sops and a real transit engine.
fn sops(programs: &Programs) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let peers = [
        (
            peers::SOPS_VARIABLE,
            peers::available(peers::sops(&mut progress))?,
        ),
        (
            peers::OPENBAO_VARIABLE,
            peers::available(peers::openbao(&mut progress))?,
        ),
    ];
    let tests = [
        ("equate-sops", "equate_sops", "real::"),
        ("equate-controllers", "it", "transit::"),
    ];
    for (package, target, filter) in tests {
        let mut tests = programs.command(package, target)?;
        tests.args([filter, "--nocapture"]);
        for (variable, peer) in &peers {
            match peer {
                Ok(peer) => drop(tests.env(variable, peer)),
                Err(skip) => println!("{}", skip.0),
            }
        }
        succeeds(&mut tests, "the tests against the real sops")?;
    }
    Ok(())
}

/// Artifacts, objects, charts and promotions, on a real registry, store and forge.
fn servers(programs: &Programs) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let mut found = Vec::new();
    // not every machine may reach Debian's archive, or has Node
    for (variable, peer) in [
        (servers::DISTRIBUTION_VARIABLE, peers::distribution(&mut progress)),
        (servers::COSIGN_VARIABLE, peers::cosign(&mut progress)),
        (servers::AZURITE_VARIABLE, peers::azurite(&mut progress)),
    ] {
        match peer {
            Ok(program) => found.push((variable, program)),
            Err(error) => println!("skipped: {error}"),
        }
    }
    for (variable, peer) in [
        (
            servers::NOTATION_VARIABLE,
            peers::available(peers::notation(&mut progress))?,
        ),
        (
            servers::SEAWEEDFS_VARIABLE,
            peers::available(peers::seaweedfs(&mut progress))?,
        ),
    ] {
        match peer {
            Ok(program) => found.push((variable, program)),
            Err(skip) => println!("{}", skip.0),
        }
    }
    match peers::available(peers::gitea(&mut progress))? {
        Ok(gitea) => {
            found.push((servers::GITEA_VARIABLE, gitea.program));
            found.push((servers::GITEA_FILES_VARIABLE, gitea.files));
        }
        Err(skip) => println!("{}", skip.0),
    }
    for (package, filter) in [
        ("equate-registry", "real::"),
        ("equate-bucket", "real::"),
        ("equate-cli", "forge::"),
    ] {
        let mut tests = programs.command(package, "it")?;
        tests.arg(filter).envs(found.iter().cloned());
        succeeds(&mut tests, "the tests against real servers")?;
    }
    Ok(())
}

fn ssh(programs: &Programs) -> Result<(), Box<dyn Error>> {
    /// Debian's path, which is on root's PATH only.
    const SERVER: &str = "/usr/sbin/sshd";
    // never install on a person's machine unasked
    if !Path::new(SERVER).exists() && std::env::var("CI").is_ok_and(|value| value == "true") {
        install("openssh-server");
    }
    if !Path::new(SERVER).exists() {
        println!("skipped: ssh, no server is installed (openssh-server)");
        return Ok(());
    }
    let mut tests = programs.command("equate-git", "it")?;
    succeeds(tests.arg("ssh::"), "the tests against a real ssh server")
}

pub(crate) fn install(package: &str) {
    for arguments in [
        &["update", "--quiet"][..],
        &["install", "--yes", "--no-install-recommends", package],
    ] {
        let mut step = Command::new("apt-get");
        step.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        match step.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => eprintln!(
                "peers: apt-get: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
            Err(error) => eprintln!("peers: apt-get: {error}"),
        }
    }
}

fn succeeds(command: &mut Command, what: &str) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what} failed ({status})").into())
    }
}
