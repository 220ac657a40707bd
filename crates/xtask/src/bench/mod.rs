//! Times the whole: the release binary as a user runs it, a repository on disk, a client outside;
//! and kustomize builds, beside the real engine.
//!
//! Nothing here asserts a time; the table goes to `docs/performance.md` by hand,
//! with the machine it was taken on.

mod fleet;
mod kustomize;
mod session;
mod steps;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Times the whole product, with the release binary.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// From git to cluster: start, commit to applied, drift to corrected, many Kustomizations.
    Loop(LoopArgs),
    /// Kustomize builds to text: this engine and the real one, on the same trees.
    Kustomize(KustomizeArgs),
}

#[derive(Debug, clap::Args)]
struct KustomizeArgs {
    /// How often the real engine builds each tree; the fastest build counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Debug, clap::Args)]
struct LoopArgs {
    /// How often the short steps are repeated.
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// How many Kustomizations of four objects the large repository has.
    #[arg(long, default_value_t = 1000)]
    kustomizations: usize,
    /// How long steady state is watched, in seconds.
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// The binary; without it the release binary is built.
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    match &args.what {
        What::Loop(args) => {
            let binary = match &args.equate {
                Some(binary) => binary.clone(),
                None => build()?,
            };
            steps::run(&binary, args)
        }
        What::Kustomize(args) => kustomize::run(args),
    }
}

fn workspace() -> Result<&'static Path, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.ok_or_else(|| "the workspace root is not where it was".into())
}

/// Builds the binary as users have it.
fn build() -> Result<PathBuf, Box<dyn Error>> {
    let root = workspace()?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "-p", "equate-cli"])
        .current_dir(root)
        .status()?;
    if !status.success() {
        return Err("cargo build --release failed".into());
    }
    Ok(root.join("target/release/equate"))
}

/// Times of one step, in milliseconds.
#[derive(Debug, Default)]
struct Times(Vec<f64>);

impl Times {
    fn push(&mut self, time: std::time::Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    /// The smallest value that at least this part of all values do not exceed.
    fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank among at most some thousand values"
        )]
        let rank = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1));
        sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "median {:.1} ms, p95 {:.1} ms, max {:.1} ms ({} runs)",
            self.quantile(0.5),
            self.quantile(0.95),
            self.quantile(1.0),
            self.0.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let times = Times((1..=20).map(f64::from).collect());
        for (part, expected) in [(0.5, 10.0), (0.95, 19.0), (1.0, 20.0), (0.0, 1.0)] {
            assert!((times.quantile(part) - expected).abs() < f64::EPSILON, "{part}");
        }
        assert!(Times::default().quantile(0.5).is_nan());
    }
}
