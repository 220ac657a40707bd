//! `cargo xtask baseline cel`: answers of cel-go to expressions.
//!
//! The cases are lines of JSON: the environment, the expression and its variable `v`. One of `parse` and
//! `check` (errors), `value` and `error` is rewritten.

use std::error::Error;

use super::template::{self, Reference};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let asked = Reference {
        cases: "../cel/tests/golden",
        module: "cel",
        program: ".",
        answers: &["parse", "check", "value", "error"],
        command: "cel",
    };
    template::rewrite(&asked, &[], args.check)
}
