//! `cargo xtask contests`: the owner of an object that several Kustomizations declare must not depend on
//! timing.
//!
//! Runs `equate up --once` on small fleets, each many times and several at once, and prints how often
//! each answer came. It fails if a fleet has more than one answer, an unexpected owner, or an exit code
//! other than 1: an ownership conflict makes every owner not ready.

mod fleets;
mod run;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use self::fleets::Fleet;
use self::run::Answer;
use crate::bench::launch;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of fleets, from the first on; by default all
    #[arg(long)]
    fleets: Option<usize>,
    /// The number of runs of each
    #[arg(long, default_value_t = 25)]
    runs: usize,
    /// The number of concurrent runs: they disturb each other's timing, which is intended
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// The binary, relative to the current directory; by default the dev binary is built
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let binary = match &args.equate {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let mut fleets = fleets::all();
    fleets.truncate(args.fleets.unwrap_or(fleets.len()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut broken = Vec::new();
    for fleet in fleets {
        let fleet = Rc::new(fleet);
        let answers = runtime.block_on(answers(&binary, &fleet, args))?;
        print(&fleet, &answers);
        broken.extend(judge(&fleet, &answers).map(|why| format!("{}: {why}", fleet.name)));
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("\n  ").into()),
    }
}

type Answers = BTreeMap<Answer, usize>;

async fn answers(binary: &Path, fleet: &Fleet, args: &Args) -> Result<Answers, Box<dyn Error>> {
    let runs = stream::iter(0..args.runs).map(|_| run::once(binary, fleet));
    let all: Vec<Answer> = runs.buffer_unordered(args.jobs.max(1)).try_collect().await?;
    let mut answers = Answers::new();
    for answer in all {
        *answers.entry(answer).or_default() += 1;
    }
    Ok(answers)
}

fn judge(fleet: &Fleet, answers: &Answers) -> Option<String> {
    if let Some(answer) = answers.keys().find(|answer| answer.code != Some(1)) {
        return Some(format!("the exit code is not 1: {answer}"));
    }
    if let Some(answer) = answers.keys().find(|answer| !answer.is_consistent()) {
        return Some(format!("another Kustomization than the owner wrote it: {answer}"));
    }
    let owner = fleet.owner?;
    if let Some(answer) = answers.keys().find(|answer| answer.owner != owner) {
        return Some(format!("{owner} must own it: {answer}"));
    }
    (answers.len() > 1).then(|| format!("{} answers", answers.len()))
}

fn print(fleet: &Fleet, answers: &Answers) {
    println!("{}", fleet.name);
    for (answer, times) in answers {
        println!("{times:>6} x {answer}");
    }
}

pub(crate) fn build() -> Result<PathBuf, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.ok_or("the workspace root was moved")?;
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--locked", "--package", "equate-cli", "--bin", "equate"])
        .current_dir(root);
    let status = launch(&mut command, Command::status)?;
    if !status.success() {
        return Err("cargo build failed".into());
    }
    Ok(root.join("target/debug/equate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: i32, owner: &str, value: &str) -> Answer {
        Answer {
            code: Some(code),
            owner: owner.to_owned(),
            value: value.to_owned(),
            ready: BTreeMap::new(),
        }
    }

    #[test]
    fn one_answer_with_exit_code_1_is_required() {
        let mut all = fleets::all();
        let siblings = all.remove(0);
        let check = |answers: &[Answer], expected: Option<&str>| {
            let answers = answers.iter().map(|answer| (answer.clone(), 1)).collect();
            let found = judge(&siblings, &answers);
            match expected {
                None => assert_eq!(found, None),
                Some(expected) => assert!(found.clone().unwrap_or_default().contains(expected), "{found:?}"),
            }
        };
        let right = answer(1, "flux-system/a", "a");
        check(std::slice::from_ref(&right), None);
        check(
            &[right.clone(), answer(0, "flux-system/a", "a")],
            Some("exit code"),
        );
        check(
            &[right.clone(), answer(1, "flux-system/b", "b")],
            Some("must own it"),
        );
        check(
            &[answer(1, "flux-system/a", "b")],
            Some("another Kustomization than the owner"),
        );
        let mut unready = right.clone();
        unready.ready.insert("flux-system/c".into(), "False".into());
        check(&[right, unready], Some("2 answers"));
    }
}
