//! `cargo xtask baseline sources`: statuses and events of Flux's source-controller.
//!
//! The scenarios are the files `sources_*` of `crates/controllers/tests/status/scenarios`. The recorded lines
//! are those with `-`, and those without a sign, in `crates/controllers/tests/status/sources-*.txt`.

use std::error::Error;

use equate_testkit::peers;
use equate_testkit::real::{Profile, RealCluster};

use crate::test_programs::Programs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the scenarios whose names contain this
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let program = peers::source_controller(&mut progress)?;
    let programs = Programs::build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = runtime.block_on(RealCluster::start(Profile::Differential, &mut progress))?;
    let mut record = programs.command("equate-controllers", "it")?;
    record
        .args(["status::statuses_and_events_of_sources", "--nocapture"])
        .env("EQUATE_STATUS", "upstream")
        .env("EQUATE_STATUS_ONLY", &args.only)
        .env(peers::SOURCE_CONTROLLER_VARIABLE, program)
        .env("EQUATE_TEST_KUBECONFIG", cluster.kubeconfig_path());
    let ended = record.status();
    runtime.block_on(cluster.stop())?;
    match ended? {
        status if status.success() => Ok(()),
        status => Err(format!("recording the statuses of sources failed ({status})").into()),
    }
}
