//! `cargo xtask fuzz`: runs every fuzz target for a while, with the installed toolchain.
//!
//! The targets are cargo-fuzz's, but need neither it nor a nightly compiler: the stable compiler accepts
//! the coverage flags. It does not accept the address sanitizer, which would find little in a workspace
//! without unsafe code. New corpus entries go below `target/`; the committed seeds are only read.

use std::error::Error;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Clink-dead-code",
];

/// Longer inputs find little more.
const INPUT_BYTES_MAX: usize = 8 << 10;

/// An input that exceeds this time or memory is a finding.
const INPUT_SECONDS_MAX: usize = 20;
const MEMORY_MIB_MAX: usize = 2_048;

/// The targets of crates with many dependencies: only on request.
const HOSTS: [&str; 3] = ["answers", "archive", "kubeconfig"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The targets; by default all but `answers`, `archive` and `kubeconfig`, which take long to build
    targets: Vec<String>,
    /// The total time of all targets, in seconds; as many run at once as there are processors
    #[arg(long, default_value_t = 60)]
    seconds: usize,
    /// Build the targets, and run none
    #[arg(long)]
    build_only: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let all = targets(&root)?;
    let is_large = |name: &String| HOSTS.contains(&name.as_str());
    let targets = if args.targets.is_empty() {
        all.into_iter().filter(|name| !is_large(name)).collect()
    } else if let Some(unknown) = args.targets.iter().find(|name| !all.contains(name)) {
        return Err(format!("unknown target {unknown}; choose from {}", all.join(", ")).into());
    } else {
        args.targets.clone()
    };
    let folder = root.join("target/fuzz");
    let programs = build(&root, &folder, targets.iter().any(is_large))?;
    if args.build_only {
        return Ok(());
    }
    let seconds = (args.seconds / targets.len()).max(1);
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let lane = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = fuzz(&root, &folder, &programs, target, seconds) {
                let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
                errors.push(error.to_string());
            }
        }
    };
    let lanes = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
    let errors = errors.into_inner().unwrap_or_else(PoisonError::into_inner);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors.join("\n").into()),
    }
}

/// The target names: each has a folder of seeds.
fn targets(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/seeds"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds the targets; returns the folder of their programs.
fn build(root: &Path, folder: &Path, hosts: bool) -> Result<PathBuf, Box<dyn Error>> {
    let host = host()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root.join("fuzz"))
        .args(["build", "--quiet", "--locked", "--release", "--bins"])
        .args(if hosts {
            ["--features", "hosts"].as_slice()
        } else {
            &[]
        })
        // with `--target`, the flags do not apply to build scripts
        .args(["--target", &host])
        .arg("--target-dir")
        .arg(folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the fuzz targets do not build ({status})").into());
    }
    Ok(folder.join(host).join("release"))
}

fn host() -> Result<String, Box<dyn Error>> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not tell its host")?.to_owned())
}

fn fuzz(
    root: &Path,
    folder: &Path,
    programs: &Path,
    target: &str,
    seconds: usize,
) -> Result<(), Box<dyn Error>> {
    let (kept, found) = (
        folder.join("corpus").join(target),
        folder.join("artifacts").join(target),
    );
    std::fs::create_dir_all(&kept)?;
    std::fs::create_dir_all(&found)?;
    let log = folder.join(format!("{target}.log"));
    let started = std::time::Instant::now();
    let status = Command::new(programs.join(target))
        .arg(&kept)
        .arg(root.join("fuzz/seeds").join(target))
        .args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
            format!("-artifact_prefix={}/", found.display()),
            "-print_final_stats=1".to_owned(),
        ])
        .stderr(std::fs::File::create(&log)?)
        .status()?;
    let told = std::fs::read(&log)?;
    let told = String::from_utf8_lossy(&told);
    if !status.success() {
        let tail: Vec<&str> = told.lines().rev().take(40).collect();
        for line in tail.iter().rev() {
            eprintln!("{line}");
        }
        return Err(format!("{target} fails; its input is in {}", found.display()).into());
    }
    let runs = told
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .unwrap_or_default();
    println!(
        "{target}: {} inputs in {} s, none fails",
        runs.trim(),
        started.elapsed().as_secs()
    );
    Ok(())
}
