//! `cargo xtask test-peers`: the tests that hold what is ours against the real tools.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion, RUN_VARIABLE};
use equate_testkit::real::{Profile, RealCluster};

/// The crates with such tests.
const CRATES: [&str; 1] = ["equate-testkit"];

/// The tests of the controllers that run on any cluster.
const ANYWHERE: [&str; 10] = [
    "cves::",
    "escapes::",
    "fields::",
    "lease::",
    "prune_budget::",
    "ready_expr::",
    "scenarios::",
    "shards::",
    "switch_over::",
    "tenancy::",
];

/// What `test-peers` is asked to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to the test program, after `--`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    sops()?;
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
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .arg("test")
        .args(CRATES.iter().flat_map(|name| ["--package", name]))
        .args(["--test", "it"]);
    // a control plane takes half a gigabyte and both cores to start
    cargo
        .args(["--", "--test-threads=1", "--nocapture"])
        .args(&args.arguments);
    succeeds(cargo.env(RUN_VARIABLE, "1"), "the real-peer tests")?;
    installed()?;
    anywhere()?;
    ssh()
}

/// What is installed in a cluster, by this program and by kubectl.
fn installed() -> Result<(), Box<dyn Error>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "test",
        "--package",
        "equate-cli",
        "--test",
        "it",
        "--",
        "install::",
    ]);
    // each starts a control plane of its own
    cargo.arg("--test-threads=1");
    succeeds(cargo.env(RUN_VARIABLE, "1"), "the tests of what is installed")
}

/// What holds on the embedded API, on a real one with all its controllers.
fn anywhere() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let cluster = runtime.block_on(RealCluster::start(Profile::Full, &mut progress))?;
    let tests = |package: &str, threads: &str, names: &[&str]| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["test", "--package", package, "--test", "it", "--", threads])
            .args(names)
            .env("EQUATE_TEST_CLUSTER", "real")
            .env("EQUATE_TEST_KUBECONFIG", cluster.kubeconfig_path());
        succeeds(&mut cargo, "the tests on the real API")
    };
    // the API server has the same two cores
    let outcome = tests("equate-controllers", "--test-threads=4", &ANYWHERE)
        .and_then(|()| tests("equate-cli", "--test-threads=1", &["controllers::"]));
    runtime.block_on(cluster.stop())?;
    outcome
}

/// Secrets, both ways, with the real sops and a real transit engine.
fn sops() -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let programs = [
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
        ["--package", "equate-sops", "--lib", "real::"].as_slice(),
        &["--package", "equate-controllers", "--test", "it", "transit::"],
    ];
    for tests in tests {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg("test").args(tests).args(["--", "--nocapture"]);
        for (variable, program) in &programs {
            match program {
                Ok(program) => drop(cargo.env(variable, program)),
                Err(skip) => println!("{}", skip.0),
            }
        }
        succeeds(&mut cargo, "the tests against the real sops")?;
    }
    Ok(())
}

/// Fetching over ssh, from a real server.
fn ssh() -> Result<(), Box<dyn Error>> {
    /// Where its package puts it: it is on nobody's PATH but root's.
    const SERVER: &str = "/usr/sbin/sshd";
    // nothing is installed on a person's machine unasked
    if !Path::new(SERVER).exists() && std::env::var("CI").is_ok_and(|value| value == "true") {
        install("openssh-server");
    }
    if !Path::new(SERVER).exists() {
        println!("skipped: ssh, for no server is installed (openssh-server)");
        return Ok(());
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--package", "equate-git", "--test", "it", "ssh::"]);
    succeeds(&mut cargo, "the tests against a real ssh server")
}

/// Installs a package where that is a matter of one command.
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
