//! `cargo xtask tidy`: the rules of the repository that the compiler does not know.
//!
//! Each rule is a pure function from files to complaints. All complaints are printed, so that they can be
//! fixed in one go. Formatting is rustfmt's and style within a file clippy's; neither is repeated here.

mod controllers;
mod documents;
mod edges;
mod packages;
mod retired;
mod rust;
mod sources;
mod words;

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A text file of the repository, by its path from the root.
#[derive(Debug)]
struct File {
    path: String,
    text: String,
}

impl File {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

pub(crate) fn run(_args: &Args) -> Result<(), Box<dyn Error>> {
    let files = files()?;
    let (tests, image) = packages::features()?;
    let complaints: Vec<String> = [
        sources::check(&files),
        documents::check(&files),
        edges::check(&files),
        controllers::check(&files),
        retired::check(&files),
        words::check(&files),
        packages::check(&files, &packages::binary_tree()?),
        packages::check_features(&tests, &image),
    ]
    .concat();
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => Err(format!("{count} rules broken in {} files", files.len()).into()),
    }
}

fn files() -> Result<Vec<File>, Box<dyn Error>> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let root = PathBuf::from(root.trim());
    let listed = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()?;
    let mut files = Vec::new();
    for path in String::from_utf8(listed.stdout)?.lines() {
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            // deleted in the work tree, not yet in the index
            continue;
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(files)
}

fn git(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new("git").args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("git {} failed ({})", arguments.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests;
