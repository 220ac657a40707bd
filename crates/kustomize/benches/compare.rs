//! The timed program of `cargo xtask bench kustomize`.
//!
//! `compare DIRECTORY` writes trees of all shapes to DIRECTORY, builds each from disk several times, and
//! prints a line of JSON each. Without a directory, as under `cargo bench`, it does nothing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may fail; what it prints is its result"
)]

mod shapes;

use bytes::Bytes;
use equate_kustomize::{EntryKind, Limits, Options, ReadError, Stat, Tree, kustomize};
use equate_manifest::yaml;
use serde_json::json;
use shapes::{Files, SHAPES, plain};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(5);

struct Folder(PathBuf);

impl Tree for Folder {
    fn stat(&self, path: &str) -> Option<Stat> {
        let kind = match fs::symlink_metadata(self.0.join(path)).ok()?.is_dir() {
            true => EntryKind::Directory,
            false => EntryKind::File,
        };
        Some(Stat { kind, id: [0; 32] })
    }

    fn list(&self, _dir: &str) -> Option<Vec<(String, Stat)>> {
        None
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        fs::read(self.0.join(path))
            .map(Bytes::from)
            .map_err(|error| ReadError::Store(Box::new(error)))
    }
}

/// An ordinary build takes at most a hundredth of the limit on work.
fn options() -> Options {
    let limits = Limits::default();
    Options {
        limits: Limits {
            steps_max: limits.steps_max / 100,
            ..limits
        },
        ..Options::default()
    }
}

fn text(tree: &dyn Tree) -> String {
    let built = kustomize(tree, "", &options()).unwrap();
    let mut text = String::new();
    for (at, resource) in built.objects.into_iter().enumerate() {
        if at > 0 {
            text.push_str("---\n");
        }
        text.push_str(&yaml::to_string(&resource.object.into_value()));
    }
    text
}

fn measure(name: &str, n: usize, files: &Files, folder: &Path) {
    for (path, content) in &files.0 {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let tree = Folder(folder.to_owned());
    let begun = Instant::now();
    let (mut best, mut rounds) = (Duration::MAX, 0);
    let before = cpu_time();
    while rounds < ROUNDS && begun.elapsed() < PATIENCE {
        let round = Instant::now();
        std::hint::black_box(text(&tree));
        best = best.min(round.elapsed());
        rounds += 1;
    }
    let spent = cpu_time().zip(before).map(|(after, before)| after - before);
    let output = folder.with_extension("yaml");
    fs::write(&output, text(&tree)).unwrap();
    let line = json!({
        "name": name,
        "n": n,
        "milliseconds": milliseconds(best),
        "cpu": spent.map(|spent| milliseconds(spent) / f64::from(rounds)),
        "folder": folder,
        "output": output,
    });
    println!("{line}");
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The CPU time of this thread, if available: unlike wall time it ignores other load.
fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn main() {
    let Some(folder) = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
    else {
        return;
    };
    let folder = PathBuf::from(folder);
    for n in [100, 1_000, 4_000] {
        measure("four kinds", n, &plain(n), &folder.join(format!("plain-{n}")));
    }
    for (at, shape) in SHAPES.iter().enumerate() {
        let files = (shape.make)(shape.small);
        measure(
            shape.name,
            shape.small,
            &files,
            &folder.join(format!("shape-{at}")),
        );
    }
}
