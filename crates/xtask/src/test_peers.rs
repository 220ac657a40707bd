//! `cargo xtask test-peers`: the tests that hold the embedded API against the real tools.

use std::error::Error;
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion, RUN_VARIABLE};

/// The crates with such tests.
const CRATES: [&str; 1] = ["equate-testkit"];

/// What `test-peers` is asked to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to the test program, after `--`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
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
    let status = cargo.env(RUN_VARIABLE, "1").status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the real-peer tests failed ({status})").into())
    }
}
