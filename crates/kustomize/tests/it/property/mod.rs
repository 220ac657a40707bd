//! Random inputs, built here and by kustomize, which must agree byte for byte.
//!
//! `cargo xtask property` runs this and names kustomize's library; without it nothing is compared. Parameters
//! come in variables such as `EQUATE_PROPERTY_CASES`. Seed, family and number determine a case's input, so
//! `--family F --seed S --case N` repeats a failure. Inputs shrink before they are shown. Known differences
//! are listed in [`known`] and explained in `docs/compatibility.d/kustomize.md`.

mod known;
mod oracle;
mod patches;
mod scalars;
mod stacks;
mod texts;

use crate::memory::Memory;
use equate_kustomize::{LoadRestriction, Options, Order, kustomize};
use oracle::Oracle;
use proptest::strategy::{BoxedStrategy, Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The most builds for shrinking one failing case.
const SHRINKS_MAX: usize = 400;

#[derive(Debug)]
struct Wanted {
    /// The number of cases of all families together.
    cases: u64,
    seed: u64,
    family: Option<String>,
    case: Option<u64>,
    /// Failing cases to show per family before giving up.
    failures: usize,
}

impl Wanted {
    fn from_environment() -> Self {
        Self {
            cases: variable("CASES").unwrap_or(600),
            seed: variable("SEED").unwrap_or(1),
            family: variable("FAMILY"),
            case: variable("CASE"),
            failures: variable("FAILURES").unwrap_or(5),
        }
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(format!("EQUATE_PROPERTY_{name}")).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("EQUATE_PROPERTY_{name} is {text:?}")),
    )
}

/// The files of a case, by path; the kustomization to build is `top`.
#[derive(Debug, Clone, Default, PartialEq)]
struct Files(BTreeMap<String, String>);

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, text) in &self.0 {
            writeln!(f, "--- {path}\n{}", text.trim_end_matches('\n'))?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Scalars in every style, through the emitter.
    Scalars,
    /// Patches on a Deployment, a Service and a custom resource.
    Patches,
    /// Names, namespaces, labels, images, generators over a base with references.
    Stacks,
    /// YAML inside a text that a replacement changes.
    Texts,
}

impl Family {
    const ALL: [Family; 4] = [Family::Scalars, Family::Patches, Family::Stacks, Family::Texts];

    fn inputs(self) -> BoxedStrategy<Files> {
        match self {
            Family::Scalars => scalars::inputs(),
            Family::Patches => patches::inputs(),
            Family::Stacks => stacks::inputs(),
            Family::Texts => texts::inputs(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Scalars => "scalars",
            Family::Patches => "patches",
            Family::Stacks => "stacks",
            Family::Texts => "texts",
        })
    }
}

type Outcome = Result<String, String>;

enum Verdict {
    Equal,
    Refused,
    Known(&'static str),
    /// kustomize crashed.
    Crash,
    Differs {
        real: Outcome,
        ours: Outcome,
    },
}

#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    refused: u64,
    known: BTreeMap<&'static str, u64>,
    crashes: u64,
    failures: usize,
}

#[test]
fn random_inputs_equal_kustomize() {
    let Some(mut oracle) = Oracle::from_environment() else {
        println!("the real tool is not here: nothing compared; run `cargo xtask property`");
        return;
    };
    let wanted = Wanted::from_environment();
    let families = || {
        Family::ALL.into_iter().filter(|family| {
            wanted
                .family
                .as_ref()
                .is_none_or(|name| *name == family.to_string())
        })
    };
    let each = wanted.cases.div_ceil(families().count() as u64);
    let mut failures = 0;
    for family in families() {
        let inputs = family.inputs();
        let mut tally = Tally::default();
        for number in wanted.case.map_or(0..each, |case| case..case + 1) {
            hold(&mut oracle, family, &inputs, wanted.seed, number, &mut tally);
            if tally.failures >= wanted.failures {
                break;
            }
        }
        failures += tally.failures;
        println!(
            "{family}: {} cases, {} failed; both refused {}, the real tool died of {}, known differences {:?}",
            tally.cases, tally.failures, tally.refused, tally.crashes, tally.known
        );
    }
    assert_eq!(failures, 0, "inputs come out differently");
}

/// Checks one case; shrinks and shows it if it fails.
fn hold(
    oracle: &mut Oracle,
    family: Family,
    inputs: &BoxedStrategy<Files>,
    seed: u64,
    number: u64,
    tally: &mut Tally,
) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16] = family as u8;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut input = inputs.new_tree(&mut runner).unwrap();
    tally.cases += 1;
    let mut smallest = input.current();
    let (mut real, mut ours) = match judge(oracle, &smallest) {
        Verdict::Differs { real, ours } => (real, ours),
        Verdict::Equal => return,
        Verdict::Refused => return tally.refused += 1,
        Verdict::Crash => return tally.crashes += 1,
        Verdict::Known(what) => return *tally.known.entry(what).or_default() += 1,
    };
    tally.failures += 1;
    let mut goes_on = input.simplify();
    for _ in 0..SHRINKS_MAX {
        if !goes_on {
            break;
        }
        let current = input.current();
        goes_on = match judge(oracle, &current) {
            Verdict::Differs {
                real: now,
                ours: here,
            } if now.is_ok() == real.is_ok() && here.is_ok() == ours.is_ok() => {
                (smallest, real, ours) = (current, now, here);
                input.simplify()
            }
            _ => input.complicate(),
        };
    }
    println!("=== again by --family {family} --seed {seed} --case {number}\n{smallest}");
    for (whose, outcome) in [("the real tool", real), ("here", ours)] {
        match outcome {
            Ok(text) => println!("--- {whose}:\n{text}"),
            Err(error) => println!("--- {whose}: error: {error}"),
        }
    }
}

fn judge(oracle: &mut Oracle, files: &Files) -> Verdict {
    let Some(real) = oracle.build(files) else {
        return Verdict::Crash;
    };
    let ours = build(files);
    if real.is_err() && ours.is_err() {
        Verdict::Refused
    } else if real == ours {
        Verdict::Equal
    } else if let Some(what) = known::difference(&real, &ours) {
        Verdict::Known(what)
    } else {
        Verdict::Differs { real, ours }
    }
}

fn build(files: &Files) -> Outcome {
    let options = Options {
        restriction: LoadRestriction::Root,
        order: Order::Input,
        ..Options::default()
    };
    let mut tree = Memory::default();
    for (path, text) in &files.0 {
        tree.put(path, text.as_bytes());
    }
    match kustomize(&tree, "top", &options) {
        Ok(built) => {
            let texts = built
                .objects
                .into_iter()
                .map(|resource| equate_manifest::yaml::to_string(&resource.object.into_value()));
            Ok(texts.collect::<Vec<_>>().join("---\n"))
        }
        Err(error) => Err(error.to_string()),
    }
}
