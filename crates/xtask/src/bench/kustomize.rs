//! Kustomize builds by this engine and the real one, on the same trees, in one run.

use super::KustomizeArgs;
use equate_testkit::peers::{self, Kustomize, KustomizeOptions};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Prints a table: the cost of each tree for both engines, and whether the results agree.
pub(super) fn run(args: &KustomizeArgs) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let trees = ours(folder.path())?;
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let mut engine = match peers::available(peers::kustomize(&mut progress))? {
        Ok(engine) => Some(engine),
        Err(skip) => {
            eprintln!("without the real engine: {}", skip.0);
            None
        }
    };
    println!(
        "| Tree | n | Equate | kustomize {} | ratio | same output |",
        peers::KUSTOMIZE_API_VERSION
    );
    println!("|---|---|---|---|---|---|");
    for tree in &trees {
        let theirs = engine
            .as_mut()
            .map(|engine| theirs(engine, tree, args.rounds))
            .transpose()?;
        println!("{}", row(tree, theirs.as_ref()));
    }
    Ok(())
}

struct Tree {
    name: String,
    n: u64,
    milliseconds: f64,
    folder: String,
    output: String,
}

struct EngineCost {
    milliseconds: f64,
    /// Whether the output is the same.
    same: bool,
}

/// Runs the crate's bench with the release profile, which writes and builds the trees.
fn ours(folder: &Path) -> Result<Vec<Tree>, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "bench",
            "--quiet",
            "--locked",
            "-p",
            "equate-kustomize",
            "--bench",
            "compare",
            "--",
        ])
        .arg(folder)
        .current_dir(super::workspace()?)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the bench of equate-kustomize: {}", output.status).into());
    }
    let lines = String::from_utf8(output.stdout)?;
    let trees = lines.lines().filter(|line| line.starts_with('{')).map(|line| {
        let line: Value = serde_json::from_str(line)?;
        let text = |field: &str| line[field].as_str().map(str::to_owned);
        let tree = (|| {
            Some(Tree {
                name: text("name")?,
                n: line["n"].as_u64()?,
                milliseconds: line["milliseconds"].as_f64()?,
                folder: text("folder")?,
                output: text("output")?,
            })
        })();
        tree.ok_or_else(|| format!("the bench of equate-kustomize printed {line}").into())
    });
    trees.collect()
}

/// The fastest of some builds; the pipe is included, which is little beside a build.
fn theirs(engine: &mut Kustomize, tree: &Tree, rounds: usize) -> Result<EngineCost, Box<dyn Error>> {
    let options = KustomizeOptions {
        any_file: true,
        ..KustomizeOptions::default()
    };
    let mut best = Duration::MAX;
    let mut same = false;
    let wanted = fs::read_to_string(&tree.output)?;
    for _ in 0..rounds.max(1) {
        let begun = Instant::now();
        let answer = engine.build(Path::new(&tree.folder), options)?;
        best = best.min(begun.elapsed());
        match answer.result {
            Ok(text) => same = text == wanted,
            Err(error) => return Err(format!("kustomize on {}: {error}", tree.name).into()),
        }
    }
    Ok(EngineCost {
        milliseconds: best.as_secs_f64() * 1000.0,
        same,
    })
}

fn row(tree: &Tree, theirs: Option<&EngineCost>) -> String {
    let Tree {
        name,
        n,
        milliseconds,
        ..
    } = tree;
    let (cost, ratio, same) = theirs.map_or_else(
        || ("-".to_owned(), "-".to_owned(), "-"),
        |theirs| {
            (
                format!("{:.1} ms", theirs.milliseconds),
                format!("{:.0}", theirs.milliseconds / milliseconds),
                if theirs.same { "yes" } else { "no" },
            )
        },
    );
    format!("| {name} | {n} | {milliseconds:.1} ms | {cost} | {ratio} | {same} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_both_times_and_the_factor() {
        let tree = Tree {
            name: "list".into(),
            n: 10,
            milliseconds: 2.0,
            folder: String::new(),
            output: String::new(),
        };
        let theirs = EngineCost {
            milliseconds: 84.04,
            same: true,
        };
        for (theirs, expected) in [
            (Some(&theirs), "| list | 10 | 2.0 ms | 84.0 ms | 42 | yes |"),
            (None, "| list | 10 | 2.0 ms | - | - | - |"),
        ] {
            assert_eq!(row(&tree, theirs), expected);
        }
    }
}
