//! `cargo xtask baseline protobuf`: objects in Kubernetes' own JSON and protobuf forms.
//!
//! The cases are lines of JSON: a kind and the seed of its random values. `json` and `pb` are rewritten.

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
        cases: "../manifest/tests/golden/protobuf",
        module: "protobuf",
        program: ".",
        answers: &["json", "pb"],
        command: "protobuf",
    };
    template::rewrite(&asked, &[], args.check)
}
