//! kustomize behind a pipe: see `crates/xtask/peers/kustomize_oracle.py`.
//!
//! `equate-testkit` has a client too but would pull in a cluster.

use super::{Files, Outcome};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The path of kustomize's library; `cargo xtask property` sets it.
const VARIABLE: &str = "EQUATE_KUSTOMIZE_ORACLE";

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../xtask/peers/kustomize_oracle.py");

#[derive(Debug)]
pub(super) struct Oracle {
    library: String,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Oracle {
    /// `None` without kustomize.
    pub(super) fn from_environment() -> Option<Self> {
        let library = std::env::var(VARIABLE).ok()?;
        let folder = std::env::temp_dir().join(format!("equate-property-{}", std::process::id()));
        Some(Self::start(library, folder))
    }

    fn start(library: String, folder: PathBuf) -> Self {
        let mut child = Command::new("python3")
            .arg(DRIVER)
            .arg(&library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            library,
            child,
            stdin,
            stdout,
            folder,
        }
    }

    /// kustomize's outcome; `None` if it crashes, in which case it is restarted.
    pub(super) fn build(&mut self, files: &Files) -> Option<Outcome> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).unwrap();
        }
        for (path, text) in &files.0 {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let request = json!({
            "path": self.folder.join("top"),
            "options": {"reorder": "none", "load_restrictions": 0},
        });
        writeln!(self.stdin, "{request}").unwrap();
        let mut line = String::new();
        if self.stdout.read_line(&mut line).unwrap() == 0 {
            self.child.wait().unwrap();
            *self = Self::start(self.library.clone(), self.folder.clone());
            return None;
        }
        let answer: Value = serde_json::from_str(&line).unwrap();
        Some(match answer["output"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(answer["error"].as_str().unwrap().to_owned()),
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // leftovers are for the machine to clean up
        drop(fs::remove_dir_all(&self.folder));
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
