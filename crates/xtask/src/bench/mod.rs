//! Benchmarks of the whole product: the release binary, a repository on disk, a client outside; and
//! kustomize builds and charts compared with the real engines.
//!
//! Only `helm` asserts times, for hostile charts. The tables go to `docs/performance.md` by hand, with
//! their machine.

mod cluster;
mod fleet;
mod helm;
pub(crate) mod hostile;
mod kustomize;
pub(crate) mod process;
mod release;
mod releases;
pub(crate) mod session;
mod sources;
mod steps;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time the whole product, with the release binary
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// From git to cluster: start, commit to applied, drift to corrected, many Kustomizations
    Loop(LoopArgs),
    /// Many Kustomizations or HelmReleases on a real kube-apiserver, beside a bare loop of the same writes
    Cluster(ClusterArgs),
    /// Hostile charts, each within a second and 200 MB; real ones beside Helm's engine
    Helm(helm::Args),
    /// The commit of one namespace while others attack: the delay of each attack, with the release binary
    Hostile(crate::hostile::BenchArgs),
    /// Kustomize builds to text: this engine and the real one, on the same trees
    Kustomize(KustomizeArgs),
    /// Promotion: the history of many commits, the status of many services, promotions one by one and at once
    Release(release::Args),
    /// Many OCIRepositories, and many HelmCharts of one large index: time, requests and memory
    Sources(SourcesArgs),
}

#[derive(Debug, clap::Args)]
struct SourcesArgs {
    /// The number of OCIRepositories
    #[arg(long, default_value_t = 200)]
    repositories: usize,
    /// The number of HelmCharts
    #[arg(long, default_value_t = 1000)]
    charts: usize,
    /// The size of the index, in MiB
    #[arg(long, default_value_t = 50)]
    index_mib: usize,
    /// The interval of the sources, in seconds
    #[arg(long, default_value_t = 60)]
    interval: u64,
    /// The length of the steady state, in seconds
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct KustomizeArgs {
    /// The number of builds of each tree by the real engine; the fastest counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// The number of Kustomizations, of four objects each
    #[arg(long, default_value_t = 1000)]
    kustomizations: usize,
    /// HelmReleases instead of Kustomizations
    #[arg(long)]
    helm: bool,
    /// The number of HelmReleases, of three objects each
    #[arg(long, default_value_t = 200)]
    releases: usize,
    /// The length of the steady state, in seconds
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
    /// Flags for `equate controllers`
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct LoopArgs {
    /// The number of repetitions of the short steps
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// The number of Kustomizations in the large repository, of four objects each
    #[arg(long, default_value_t = 1000)]
    kustomizations: usize,
    /// The length of the steady state, in seconds
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    match &args.what {
        What::Cluster(args) => cluster::run(&binary(args.equate.as_deref())?, args),
        What::Helm(args) => helm::run(&binary(args.equate.as_deref())?, args),
        What::Hostile(args) => crate::hostile::bench(&binary(args.equate.as_deref())?, args),
        What::Loop(args) => steps::run(&binary(args.equate.as_deref())?, args),
        What::Kustomize(args) => kustomize::run(args),
        What::Release(args) => release::run(&binary(args.equate.as_deref())?, args),
        What::Sources(args) => sources::run(&binary(args.equate.as_deref())?, args),
    }
}

/// The binary that `--equate` names, or the release binary, built now.
pub(crate) fn binary(given: Option<&Path>) -> Result<PathBuf, Box<dyn Error>> {
    given.map_or_else(build, found)
}

pub(crate) fn workspace() -> Result<&'static Path, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.ok_or_else(|| "the workspace root was moved".into())
}

fn build() -> Result<PathBuf, Box<dyn Error>> {
    let root = workspace()?;
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--release", "--locked", "--workspace", "--bin", "equate"])
        .current_dir(root);
    let status = launch(&mut command, Command::status)?;
    if !status.success() {
        return Err("cargo build --release failed".into());
    }
    Ok(root.join("target/release/equate"))
}

/// The absolute path of a binary: each session runs in its own directory.
fn found(binary: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let absolute = std::path::absolute(binary)?;
    if absolute.is_file() {
        return Ok(absolute);
    }
    Err(format!(
        "--equate {}: there is no such file at {}",
        binary.display(),
        absolute.display()
    )
    .into())
}

/// Starts a program; an error names it.
pub(crate) fn launch<T>(
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> std::io::Result<T>,
) -> Result<T, String> {
    run(command).map_err(|error| {
        let program = command.get_program().to_string_lossy();
        let directory = command.get_current_dir().unwrap_or_else(|| Path::new("."));
        format!("could not start {program:?} in {}: {error}", directory.display())
    })
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn push(&mut self, time: std::time::Duration) {
        self.0.push(time.as_secs_f64() * 1000.0);
    }

    /// The smallest value that is not exceeded by this share of all values.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
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
    use super::{Times, found, launch};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    #[test]
    fn a_binary_is_found_from_any_directory_or_named() {
        let here = std::env::current_dir().unwrap();
        let absolute = here.join("Cargo.toml");
        let check = |given: &Path, expected: Result<&Path, &str>| {
            let said = found(given).map_err(|error| error.to_string());
            let expected: Result<PathBuf, String> = expected
                .map(Path::to_path_buf)
                .map_err(|error| error.replace("HERE", &here.display().to_string()));
            assert_eq!(said, expected, "{}", given.display());
        };
        check(Path::new("Cargo.toml"), Ok(&absolute));
        check(Path::new("./Cargo.toml"), Ok(&absolute));
        check(&absolute, Ok(&absolute));
        let nowhere = "--equate no/such: there is no such file at HERE/no/such";
        check(Path::new("no/such"), Err(nowhere));
        // a directory is not a binary
        let directory = "--equate src: there is no such file at HERE/src";
        check(Path::new("src"), Err(directory));
    }

    #[test]
    fn a_program_that_does_not_start_is_named() {
        let mut command = Command::new("no-such-program");
        command.current_dir("src");
        let said = launch(&mut command, Command::status).unwrap_err();
        assert!(
            said.starts_with("could not start \"no-such-program\" in src: "),
            "{said}"
        );
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let times = Times((1..=20).map(f64::from).collect());
        for (part, expected) in [(0.5, 10.0), (0.95, 19.0), (1.0, 20.0), (0.0, 1.0)] {
            assert!((times.quantile(part) - expected).abs() < f64::EPSILON, "{part}");
        }
        assert!(Times::default().quantile(0.5).is_nan());
    }
}
