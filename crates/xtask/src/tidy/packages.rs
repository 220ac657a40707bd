//! Ceilings on the dependency tree: every package is built, audited and updated by somebody.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::Command;

use super::File;

/// Packages of the binary: 550, and 10 that only build scripts need. Only a decision record raises it.
const BINARY_PACKAGES_MAX: usize = 560;

/// Packages in `Cargo.lock`, for all platforms and tests. Only a decision record raises it.
const LOCKED_PACKAGES_MAX: usize = 683;

/// The platform whose packages are counted, so that all machines count the same.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// `tree` is the answer of [`binary_tree`].
pub(super) fn check(files: &[File], tree: &str) -> Vec<String> {
    check_with(files, tree, BINARY_PACKAGES_MAX, LOCKED_PACKAGES_MAX)
}

pub(super) fn check_with(files: &[File], tree: &str, binary_max: usize, locked_max: usize) -> Vec<String> {
    let lock = files.iter().find(|file| file.path == "Cargo.lock");
    let locked = lock.map_or(0, |lock| {
        lock.text.lines().filter(|line| *line == "[[package]]").count()
    });
    // `name vVERSION`, then notes in brackets
    let binary: BTreeSet<&str> = tree
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split(" (").next().unwrap_or(line))
        .collect();
    [
        ("the binary", binary.len(), binary_max),
        ("Cargo.lock", locked, locked_max),
    ]
    .into_iter()
    .filter(|(_, count, max)| count > max)
    .map(|(of, count, max)| {
        format!("{of} has {count} packages, more than {max}: only a decision record raises the ceiling")
    })
    .collect()
}

/// Packages that `cargo xtask image` would build again in CI. Both are answers of [`features`].
pub(super) fn check_features(tests: &str, image: &str) -> Vec<String> {
    let tests: BTreeSet<&str> = tests.lines().map(without_mark).collect();
    let image: BTreeSet<&str> = image.lines().map(without_mark).collect();
    // its own features are the ones that differ
    let foreign = image
        .difference(&tests)
        .filter(|line| !line.starts_with("equate-cli "));
    foreign
        .map(|line| {
            format!(
                "crates/cli/Cargo.toml: the tests use other features than `{}`: add them to `as-tested`",
                line.trim()
            )
        })
        .collect()
}

/// `cargo tree` marks packages that it lists again.
fn without_mark(line: &str) -> &str {
    line.strip_suffix(" (*)").unwrap_or(line)
}

/// The packages that the binary is built from, one on a line, as `cargo tree` lists them.
pub(super) fn binary_tree() -> Result<String, Box<dyn Error>> {
    tree(&["--package", "equate-cli", "--edges", "normal,build"])
}

/// The packages with their features: of the tests, and of the image in CI.
pub(super) fn features() -> Result<(String, String), Box<dyn Error>> {
    const FORMAT: [&str; 2] = ["--format", "{p} {f}"];
    let tests = [
        ["--workspace", "--edges"].as_slice(),
        &["normal,build,dev"],
        &FORMAT,
    ];
    let image = [
        ["--package", "equate-cli", "--features", crate::image::AS_TESTED].as_slice(),
        &["--edges", "normal,build"],
        &FORMAT,
    ];
    Ok((tree(&tests.concat())?, tree(&image.concat())?))
}

fn tree(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--target", PLATFORM, "--prefix", "none"])
        .args(arguments)
        .output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree failed ({}): {}", output.status, error.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
