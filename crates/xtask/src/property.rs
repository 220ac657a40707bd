//! `cargo xtask property`: random kustomizations, built here and by the real engine.
//!
//! The cases and the comparison are tests of the kustomize crate (`tests/it/property`); this command
//! fetches the engine and passes on its path and the options.

use std::error::Error;

use equate_testkit::peers;

use crate::test_programs::Programs;

const LIBRARY_VARIABLE: &str = "EQUATE_KUSTOMIZE_ORACLE";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// The number of cases, all families together [default: 600]
    #[arg(long)]
    cases: Option<u64>,
    /// The seed of all cases [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Only this family: scalars, patches, stacks or texts
    #[arg(long)]
    family: Option<String>,
    /// Only the case of this number; needs a family
    #[arg(long, requires = "family")]
    case: Option<u64>,
    /// The failing cases shown of a family before it ends [default: 5]
    #[arg(long)]
    failures: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let engine = match peers::available(peers::kustomize(&mut progress))? {
        Ok(engine) => engine,
        Err(skip) => {
            println!("{}", skip.0);
            return Ok(());
        }
    };
    let mut tests = Programs::build()?.command("equate-kustomize", "it")?;
    tests
        .args(["property::", "--nocapture"])
        .env(LIBRARY_VARIABLE, engine.library());
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    for (name, value) in [
        ("CASES", number(args.cases)),
        ("SEED", number(args.seed)),
        ("FAMILY", args.family.clone()),
        ("CASE", number(args.case)),
        ("FAILURES", args.failures.map(|number| number.to_string())),
    ] {
        if let Some(value) = value {
            tests.env(format!("EQUATE_PROPERTY_{name}"), value);
        }
    }
    let status = tests.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("random kustomizations build differently with the real engine ({status})").into())
    }
}
