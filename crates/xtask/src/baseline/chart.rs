//! `cargo xtask baseline chart`: Helm's answers for charts, values and schemas.

use super::template::{self, Reference};
use std::error::Error;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only files whose name contains one of these
    names: Vec<String>,
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    template::rewrite(
        &Reference {
            cases: "../helm/tests/golden/chart",
            module: "template",
            program: "./chart",
            answers: &["output", "error", "warnings"],
            command: "chart",
        },
        &args.names,
        args.check,
    )
}
