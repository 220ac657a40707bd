//! The result, a line per repository, as Markdown.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Row {
    pub(super) name: String,
    commit: String,
    pub(super) directories: usize,
    pub(super) equal: usize,
    pub(super) differ: usize,
    pub(super) only_ours_fails: usize,
    pub(super) only_real_fails: usize,
    /// Both fail without a network.
    pub(super) remote: usize,
    /// Both fail with the same class of error.
    pub(super) fail_alike: usize,
    pub(super) fail_otherwise: usize,
    pub(super) real: Duration,
    pub(super) ours: Duration,
}

impl Row {
    /// A repository, named as its directory, `+` for the slash after the owner.
    pub(super) fn new(repository: &Path) -> Self {
        let name = repository.file_name().unwrap_or_default().to_string_lossy();
        Self {
            name: name.replacen('+', "/", 1),
            commit: commit(repository).unwrap_or_default(),
            ..Self::default()
        }
    }

    fn built(&self) -> usize {
        self.equal + self.differ + self.only_ours_fails
    }
}

/// The checked-out commit, if the directory is the root of a repository.
fn commit(repository: &Path) -> Option<String> {
    if !repository.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Directories that the real engine builds and our result differs.
    pub(super) fn failures(&self) -> usize {
        self.rows.iter().map(|row| row.differ + row.only_ours_fails).sum()
    }

    fn total(&self) -> Row {
        let mut total = Row {
            name: format!("{} repositories", self.rows.len()),
            ..Row::default()
        };
        for row in &self.rows {
            total.directories += row.directories;
            total.equal += row.equal;
            total.differ += row.differ;
            total.only_ours_fails += row.only_ours_fails;
            total.only_real_fails += row.only_real_fails;
            total.remote += row.remote;
            total.fail_alike += row.fail_alike;
            total.fail_otherwise += row.fail_otherwise;
            total.real += row.real;
            total.ours += row.ours;
        }
        total
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| repository | commit | directories | real builds | equal | differ | only ours fails | only real fails | remote | fail alike | fail otherwise | real s | ours s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
        let total = self.total();
        for row in self.rows.iter().chain([&total]) {
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
                row.name,
                row.commit,
                row.directories,
                row.built(),
                row.equal,
                row.differ,
                row.only_ours_fails,
                row.only_real_fails,
                row.remote,
                row.fail_alike,
                row.fail_otherwise,
                row.real.as_secs_f64(),
                row.ours.as_secs_f64(),
            )?;
        }
        Ok(())
    }
}
